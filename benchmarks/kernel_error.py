"""Approximation error of features of the invariant kernel.

The protocol is in `docs/evidence/symmetries.md`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from digits import MNIST, load_mnist
from digits_speed import machine
from report import parser_of, table, versions, write_record
from scipy.spatial.distance import pdist
from sklearn.datasets import load_digits

from structinv.embeddings import OrbitFourier, OrbitNystroem
from structinv.embeddings.base import KernelFeatures
from structinv.kernels import Gaussian, OrbitMean
from structinv.oracles import Identity, InvarianceOracle, Rotations

DEGREES = 45.0
HELD, TRAINED, FOR_LANDMARKS = 150, 10_000, 2000
# Members of all landmarks together.
MEMBERS = 2500
TEMPLATES = ("gaussian", "orthogonal")
LANDMARKS = ("random", "kmeans")
# Relative errors, spectral and Frobenius, by number of columns.
Curve = dict[int, tuple[float, float]]


def load(folder: Path, rng: np.random.Generator) -> tuple[str, np.ndarray, np.ndarray]:
    """A name, rows to train on and rows that errors are of."""
    if all((folder / file).is_file() for files in MNIST.values() for file in files):
        train, test = (load_mnist(folder, part)[0].astype(np.float64) for part in ("train", "t10k"))
        train, test = rng.permutation(train)[:TRAINED], rng.permutation(test)[:HELD]
        return "MNIST", train, test
    X = rng.permutation(load_digits().data / 16.0)
    return "scikit-learn's digits", X[HELD:], X[:HELD]


def rotations(size: int) -> InvarianceOracle:
    """So many equally spaced angles, none among them."""
    angles = np.linspace(-DEGREES, DEGREES, size)
    return Rotations(angles[angles != 0].tolist()) if size > 1 else Identity()


def methods(size: int, sigma: float) -> dict[str, KernelFeatures]:
    """Features by name, their columns and seeds still to be set."""
    given: dict[str, Any] = {"oracle": rotations(size), "kernel": Gaussian(sigma)}
    found: dict[str, KernelFeatures] = {
        f"Fourier, {kind}": OrbitFourier(**given, templates=kind) for kind in TEMPLATES
    }
    found |= {f"Nystroem, {kind}": OrbitNystroem(**given, landmarks=kind) for kind in LANDMARKS}
    return found


def errors(
    train: np.ndarray, test: np.ndarray, size: int, sigma: float, columns: list[int], seeds: int
) -> dict[str, Curve]:
    """Median errors of all methods under so many changes."""
    exact = OrbitMean(rotations(size), Gaussian(sigma)).matrix(test, test)
    norms = np.linalg.norm(exact, 2), np.linalg.norm(exact)
    found: dict[str, Curve] = {}
    for name, features in methods(size, sigma).items():
        for n_components in columns:
            from_rows = name.startswith("Nystroem")
            if from_rows and n_components > min(len(train), MEMBERS // size):
                continue
            off = []
            for seed in range(seeds):
                features.set_params(n_components=n_components, random_state=seed)
                # Templates do not look at rows, but for the error that they report.
                rows = train if from_rows else train[:2]
                F = features.fit(rows).transform(test)
                difference = F @ F.T - exact
                off.append((np.linalg.norm(difference, 2), np.linalg.norm(difference)))
            spectral, frobenius = np.median(off, axis=0) / norms
            found.setdefault(name, {})[n_components] = (float(spectral), float(frobenius))
    return found


def rate(curves: dict[str, Curve]) -> dict[int, float]:
    """Theorem 3.1's, through the first error of independent templates."""
    points = curves[f"Fourier, {TEMPLATES[0]}"]
    first = min(points)
    return {D: points[first][1] * float(np.sqrt(first / D)) for D in points}


def main() -> None:
    parser = parser_of(__doc__, data="mnist/")
    parser.add_argument("--changes", nargs="+", type=int, default=[1, 5, 21])
    parser.add_argument("--columns", nargs="+", type=int, default=[50, 100, 200, 500, 1000, 2000, 5000])
    parser.add_argument("--seeds", type=int, default=5)
    options = parser.parse_args()
    name, train, test = load(options.data, np.random.default_rng(0))
    sigma = float(np.median(pdist(test)))
    print(f"{versions()}, {machine()}\n{name}: {len(train)} rows to train on, width {sigma:.3g}\n")
    found = {}
    for size in options.changes:
        curves = errors(train[:FOR_LANDMARKS], test, size, sigma, options.columns, options.seeds)
        found[size] = curves
        known = {method: {D: pair[1] for D, pair in curve.items()} for method, curve in curves.items()}
        known["rate of theorem 3.1"] = rate(curves)
        rows = [
            [method, *(f"{curve[D]:.4f}" if D in curve else "" for D in options.columns)]
            for method, curve in known.items()
        ]
        changes = "no transformations" if size == 1 else f"{size} rotations"
        head = ["features", *map(str, options.columns)]
        title = f"Relative error of the kernel matrix (Frobenius norm), by number of features, {changes}"
        print(table(title, head, rows, key=f"errors_{size}"))
    write_record(options.record, "MNIST, 150 held-out rows", errors=found)


if __name__ == "__main__":
    main()
