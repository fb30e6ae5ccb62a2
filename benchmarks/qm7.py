"""Energies of molecules from Coulomb matrices with unordered atoms (QM7).

The matrix of a molecule is 23 x 23, with zeros for missing atoms. It has ``Z_i Z_j / r_ij`` off its
diagonal, distances in Bohr, and ``Z_i^2.4 / 2`` on it. Its rows and columns may be reordered
together. Length scales, noise and ridge are chosen for each fold by leave-one-out on some of its
training molecules, for random Coulomb matrices by the error on a third of these. Raj et al. (2017) do
not give the number of sorts and of features; here there are 8 sorts and 3000 columns. The protocol is in
`docs/evidence/symmetries.md`.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from report import mean_text, parser_of, require, table, versions, write_record
from scipy.linalg import solve

from structinv import OrbitRidge
from structinv.embeddings import GroupCDF, OrbitFourier, OrbitNystroem
from structinv.kernels import Gaussian, Kernel, Laplacian, OrbitDistance, OrbitMean
from structinv.oracles import Permutations
from structinv.oracles.listed_changes import averaged

FILE = Path("qm7", "qm7_xyz.npz")
ATOMS = 23
BOHR = 0.52917721092
# Not below the rounding of tables in float32.
ALPHAS = tuple(10.0 ** np.arange(-7, 0))
# Training molecules on which parameters are chosen.
CHOSEN_ON = 1500
WIDTHS = {"Laplacian": (2000.0, 4000.0, 8000.0, 16000.0), "Gaussian": (100.0, 200.0, 400.0, 800.0)}
NOISES = {"Laplacian": (2.0, 4.0, 8.0, 16.0), "Gaussian": (1.0, 4.0, 16.0)}
TAUS = (0.1, 0.3, 1.0)
SORTS = 8
COLUMNS = 3000

# Parameters, and what makes a table of all rows with all rows from them.
Candidate = tuple[dict[str, Any], Callable[[np.ndarray], np.ndarray]]


@dataclass
class Line:
    """Result of a model: fold errors, seconds of the kernel matrix, parameters."""

    seconds: float
    root_mean_square: list[float] = field(default_factory=list)
    mean_absolute: list[float] = field(default_factory=list)
    chosen: list[dict[str, Any]] = field(default_factory=list)


def load_molecules(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    """Coulomb matrices as rows, (n, 529), and energies in kcal/mol."""
    require(folder, FILE)
    with np.load(folder / FILE) as file:
        charges = file["Z"].astype(np.float64)
        places = file["R_angstrom_1e5"] * (1e-5 / BOHR)
        energies = file["T_pbe0"].astype(np.float64)
    distances = np.linalg.norm(places[:, :, None] - places[:, None], axis=3)
    matrices = charges[:, :, None] * charges[:, None]
    own = np.arange(ATOMS)
    distances[:, own, own] = 1.0
    distances[matrices == 0] = 1.0
    matrices /= distances
    matrices[:, own, own] = 0.5 * charges**2.4
    return matrices.reshape(len(matrices), -1), energies


def sorts(noise: float) -> Permutations:
    """Return the oracle of noisy sorts."""
    return Permutations((ATOMS, ATOMS), axes="both", noise=noise)


def plain(name: str, width: float) -> Kernel:
    """The kernel of two matrices."""
    return Laplacian(1.0 / width) if name == "Laplacian" else Gaussian(width)


def exact(name: str, size: int, layers: int = 1) -> list[Candidate]:
    found: list[Candidate] = []
    for width, noise in product(WIDTHS[name], NOISES[name] if size > 1 else (0.0,)):
        params = {"width": width, "noise": noise}
        what = sorts(noise), plain(name, width)
        if layers == 1:
            found.append((params, table_of(OrbitMean(*what, size))))
        else:
            found += [(params | {"tau": tau}, table_of(OrbitDistance(*what, tau, size))) for tau in TAUS]
    return found


def fourier(layers: int, size: int = SORTS) -> list[Candidate]:
    """Random features of a Gaussian kernel."""
    found: list[Candidate] = []
    for width, noise in product(WIDTHS["Gaussian"], NOISES["Gaussian"] if size > 1 else (0.0,)):
        for tau in TAUS if layers == 2 else (1.0,):
            made = OrbitFourier(
                sorts(noise), Gaussian(width), COLUMNS, layers=layers, n_draws=size, tau=tau
            )
            params = {"width": width, "noise": noise} | ({"tau": tau} if layers == 2 else {})
            found.append((params, products_of(made)))
    return found


def distributions() -> list[Candidate]:
    return [
        ({"noise": noise}, products_of(GroupCDF(sorts(noise), COLUMNS, n_draws=SORTS)))
        for noise in NOISES["Gaussian"]
    ]


def landmarks(count: int) -> list[Candidate]:
    """Landmarks of the mean of a Laplacian kernel."""
    return [
        (
            {"width": width, "noise": noise},
            products_of(OrbitNystroem(sorts(noise), plain("Laplacian", width), count, n_draws=SORTS)),
        )
        for width, noise in product(WIDTHS["Laplacian"], NOISES["Laplacian"])
    ]


def table_of(kernel: Kernel) -> Callable[[np.ndarray], np.ndarray]:
    """A kernel's table of all rows."""
    return lambda X: kernel.matrix(X, X)


def products_of(features: Any) -> Callable[[np.ndarray], np.ndarray]:
    """Inner products of the features of all rows, by the mean of their squares."""

    def work(X: np.ndarray) -> np.ndarray:
        F = features.fit(X).transform(X)
        F /= np.sqrt(np.mean(np.sum(F**2, axis=1)))
        return F @ F.T

    return work


def choose(X: np.ndarray, y: np.ndarray, kernels: Sequence[Candidate]) -> tuple[float, int]:
    """The ridge and the number of the table with the least leave-one-out error."""
    models = [fitted(make(X), y, ALPHAS) for _, make in kernels]
    number = int(np.argmax([model.best_score_ for model in models]))
    return models[number].alpha_, number


def fitted(gram: np.ndarray, y: np.ndarray, alphas: Any) -> OrbitRidge:
    """Fit a ridge to a kernel matrix; float32 may have small negative eigenvalues."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return OrbitRidge("precomputed", alphas=alphas).fit(gram, y)


def by_table(
    kernels: list[Candidate], single: bool, by: list[Candidate] | None = None
) -> Callable[..., Line]:
    """Run a model with a kernel matrix of all molecules, one per chosen setting.

    The choice may be `by` others, with the same parameters in the same order.
    """

    def run(X: np.ndarray, y: np.ndarray, folds: np.ndarray, seed: int) -> Line:
        X = X.astype(np.float32) if single else X
        tables: dict[str, np.ndarray] = {}
        line, seconds = Line(0.0), []
        for fold in np.unique(folds):
            train, test = np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)
            some = np.random.default_rng(seed + fold).choice(train, CHOSEN_ON, replace=False)
            alpha, number = choose(X[some], y[some], by or kernels)
            params, make = kernels[number]
            if str(params) not in tables:
                # One at a time is all that fits beside the ridge.
                tables.clear()
                start = time.perf_counter()
                tables[str(params)] = make(X)
                seconds.append(time.perf_counter() - start)
            gram = tables[str(params)]
            model = fitted(gram[np.ix_(train, train)], y[train], alpha)
            errors = model.predict(gram[np.ix_(test, train)]) - y[test]
            record(line, errors, params | {"alpha": alpha})
        line.seconds = float(np.mean(seconds))
        return line

    return run


def random_coulomb(X: np.ndarray, y: np.ndarray, folds: np.ndarray, seed: int) -> Line:
    """Ridge regression on random features of noisy sorts, one by one."""
    line, start = Line(0.0), time.perf_counter()
    for fold in np.unique(folds):
        train, test = np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)
        some = np.random.default_rng(seed + fold).choice(train, CHOSEN_ON, replace=False)
        fit, look = some[: CHOSEN_ON * 2 // 3], some[CHOSEN_ON * 2 // 3 :]
        tried = {}
        for width, noise in product(WIDTHS["Gaussian"], NOISES["Gaussian"]):
            found = errors_of_members(X, y, fit, look, width, noise, ALPHAS)
            tried |= {(width, noise, alpha): np.mean(errors**2) for alpha, errors in found.items()}
        width, noise, alpha = min(tried, key=tried.__getitem__)
        errors = errors_of_members(X, y, train, test, width, noise, (alpha,))[alpha]
        record(line, errors, {"width": width, "noise": noise, "alpha": alpha})
    # Of a choice and a fit: there is no table.
    line.seconds = (time.perf_counter() - start) / len(np.unique(folds))
    return line


def errors_of_members(
    X: np.ndarray,
    y: np.ndarray,
    train: np.ndarray,
    test: np.ndarray,
    width: float,
    noise: float,
    alphas: Sequence[float],
) -> dict[float, np.ndarray]:
    """Return test errors for every ridge, with equal weights of variants."""
    law = averaged(sorts(noise), X.shape[1], SORTS)
    features = OrbitFourier(None, Gaussian(width), COLUMNS)

    def of(rows: np.ndarray) -> np.ndarray:
        return features.transform(law.on(X[rows]).members().reshape(-1, X.shape[1]))

    features.fit(X[:2])
    mean, F = y[train].mean(), of(train)
    gram, right = F.T @ F, F.T @ np.repeat(y[train] - mean, SORTS)
    asked = of(test).reshape(len(test), SORTS, -1).mean(axis=1)
    found = {}
    for alpha in alphas:
        ridge = gram.copy()
        ridge[np.diag_indices_from(ridge)] += alpha * SORTS
        found[alpha] = asked @ solve(ridge, right, assume_a="pos", overwrite_a=True) + mean - y[test]
    return found


def record(line: Line, errors: np.ndarray, params: dict[str, Any]) -> None:
    """Store the result of a fold."""
    line.root_mean_square.append(float(np.sqrt(np.mean(errors**2))))
    line.mean_absolute.append(float(np.mean(np.abs(errors))))
    line.chosen.append(params)


MACHINES: dict[str, Callable[..., Line]] = {
    "sorted, Gaussian": by_table(exact("Gaussian", 1), False),
    "sorted, Gaussian, features": by_table(fourier(1, 1), False),
    "random Coulomb, features": random_coulomb,
    "distributions, features": by_table(distributions(), False),
    "mean of 8, Gaussian": by_table(exact("Gaussian", SORTS), False),
    "mean of 8, Gaussian, features": by_table(fourier(1), False),
    "two layers of 8, Gaussian": by_table(exact("Gaussian", SORTS, 2), False),
    "two layers of 8, Gaussian, features": by_table(fourier(2), False),
    "sorted, Laplacian": by_table(exact("Laplacian", 1), True),
    "mean of 2, Laplacian": by_table(exact("Laplacian", 2), True),
    "mean of 4, Laplacian": by_table(exact("Laplacian", 4), True),
    "mean of 8, Laplacian": by_table(exact("Laplacian", SORTS), True),
    "mean of 16, Laplacian": by_table(exact("Laplacian", 16), True, by=exact("Laplacian", SORTS)),
    "two layers of 8, Laplacian": by_table(exact("Laplacian", SORTS, 2), True),
    "350 landmarks of 8, Laplacian": by_table(landmarks(350), True),
    "1400 landmarks of 8, Laplacian": by_table(landmarks(1400), True),
}


# RMSE of Raj et al. 2017.
PUBLISHED = {
    "sorted, Gaussian": "12.59",
    "random Coulomb": "11.40",
    "distributions": "12.25",
    "mean of 8, Gaussian": "10.82",
    "two layers of 8, Gaussian": "10.05",
}


def print_table(lines: dict[str, Line]) -> None:
    """Means over folds and their standard errors."""
    rows = [
        [
            name,
            mean_text(line.root_mean_square, ".2f"),
            mean_text(line.mean_absolute, ".2f"),
            f"{line.seconds:.1f}",
            PUBLISHED.get(name.removesuffix(", features"), ""),
        ]
        for name, line in lines.items()
    ]
    title = "QM7: errors of atomization energies, kcal/mol, mean ± standard error of five folds"
    headers = ["representation, kernel", "RMSE", "MAE", "kernel, s", "paper, RMSE"]
    print(table(title, headers, rows, key="errors"))


def parse() -> argparse.Namespace:
    parser = parser_of(__doc__, data="qm7/")
    parser.add_argument("--machines", nargs="+", choices=MACHINES, default=list(MACHINES))
    parser.add_argument("--seed", type=int, default=0, help="of the folds")
    return parser.parse_args()


def main() -> None:
    options = parse()
    print(f"{versions()}\n")
    X, y = load_molecules(options.data)
    folds = np.random.default_rng(options.seed).permutation(len(y)) % 5
    lines = {}
    for name in options.machines:
        lines[name] = MACHINES[name](X, y, folds, options.seed)
        print(f"{name}: {lines[name]}", file=sys.stderr, flush=True)
    print_table(lines)
    write_record(options.record, "QM7, 7101 molecules", seeds="five random folds")


if __name__ == "__main__":
    main()
