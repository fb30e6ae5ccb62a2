"""Rotated digits: Gaussian kernels averaged over rotations.

The digits are those of `patches.py`: MNIST, every image rotated by a random angle, 12000 for training
and 50000 for testing. The transformations are 24 rotations at equal distances with equal probabilities:
rotations by multiples of 90 degrees after multiples of 15 degrees below 90. The former are exact and
rotate one side only. The protocol is in `docs/evidence/symmetries.md`.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from digits import Rows
from feature_ridge import error_of, held_out_errors
from patches import load_turned_digits
from report import parser_of, table, versions, write_record
from sklearn.svm import SVC

from structinv.embeddings import OrbitFourier, OrbitNystroem
from structinv.kernels import Gaussian, Kernel, OrbitMean
from structinv.oracles import Rotations

SIGMAS = (2.0, 2.8, 4.0, 5.6)
CS = (10.0, 100.0)
LOOKED_AT = slice(0, 3000), slice(10000, 12000)
BATCH = 2500
KINDS = ("plain", "OrbitMean", "OrbitNystroem", "OrbitFourier")


@dataclass
class Line:
    """Result of a model: test error, kernel error, seconds, chosen parameters."""

    error: float
    tested: int
    seconds_kernel: float
    seconds_machine: float
    params: dict[str, float]
    kernel_error: float = np.nan


def turns() -> Any:
    """Return 24 rotations at equal distances."""
    return Rotations((90, 180, 270)) @ Rotations((15, 30, 45, 60, 75))


def part(rows: Rows, which: slice) -> Rows:
    """Some rows and labels."""
    return rows[0][which], rows[1][which]


def machine(gram: np.ndarray, y: np.ndarray, C: float) -> SVC:
    """SVC on a table, whose C is in units of k(x, x)."""
    scale = float(np.mean(np.diag(gram)))
    return SVC(kernel="precomputed", C=C / scale, cache_size=2000).fit(gram, y)


def answers(svc: SVC, kernel: Kernel, X: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Labels of rows, from the columns of support vectors alone."""
    support, found = svc.support_, []
    for start in range(0, len(X), BATCH):
        values = np.zeros((len(X[start : start + BATCH]), len(rows)))
        values[:, support] = kernel.matrix(X[start : start + BATCH], rows[support])
        found.append(svc.predict(values))
    return np.concatenate(found)


def exact(make: Callable[[float], Kernel], train: Rows, test: Rows) -> Line:
    """A kernel in SVC."""
    (X, y), (Z, z) = (part(train, which) for which in LOOKED_AT)
    tried = {}
    for sigma in SIGMAS:
        kernel = make(sigma)
        gram, asked = (kernel.matrix(rows, X).astype(np.float64) for rows in (X, Z))
        for C in CS:
            tried[sigma, C] = float(np.mean(machine(gram, y, C).predict(asked) != z))
    sigma, C = min(tried, key=tried.__getitem__)
    kernel, start = make(sigma), time.perf_counter()
    gram = kernel.matrix(train[0], train[0]).astype(np.float64)
    middle = time.perf_counter()
    svc = machine(gram, train[1], C)
    spent = time.perf_counter() - middle
    error = float(np.mean(answers(svc, kernel, test[0], train[0]) != test[1]))
    return Line(error, len(test[1]), middle - start, spent, {"sigma": sigma, "C": C})


def features(kind: Any, size: int, train: Rows, test: Rows) -> Line:
    """Fit a ridge to features."""
    (X, y), (Z, z) = (part(train, which) for which in LOOKED_AT)
    tried = {}
    for sigma in SIGMAS:
        made = kind(turns(), Gaussian(sigma), min(size, len(X)), random_state=0).fit(X)
        errors = held_out_errors((made.transform(X), y), (made.transform(Z), z))
        tried |= {(sigma, penalty): error for penalty, error in errors.items()}
    sigma, penalty = min(tried, key=tried.__getitem__)
    start = time.perf_counter()
    made = kind(turns(), Gaussian(sigma), size, random_state=0).fit(train[0])
    rows, asked = made.transform(train[0]), made.transform(test[0])
    middle = time.perf_counter()
    error = error_of((rows, train[1]), (asked, test[1]), penalty)
    spent, params = time.perf_counter() - middle, {"sigma": sigma, "penalty": penalty}
    kernel_error = made.kernel_error_.frobenius
    return Line(error, len(test[1]), middle - start, spent, params, kernel_error)


def print_table(found: dict[str, Line]) -> None:
    """Errors with their standard errors."""
    headers = [
        "kernel or features",
        "parameters",
        "kernel error",
        "error, test, %",
        "kernel, s",
        "model, s",
    ]
    rows = []
    for name, line in found.items():
        error = 100 * np.sqrt(line.error * (1 - line.error) / line.tested)
        rows.append([
            name,
            ", ".join(f"{key} {value:g}" for key, value in line.params.items()),
            "" if np.isnan(line.kernel_error) else f"{line.kernel_error:.3f}",
            f"{100 * line.error:.2f} ± {error:.2f}",
            f"{line.seconds_kernel:.0f}",
            f"{line.seconds_machine:.0f}",
        ])  # fmt: skip
    title = "Rotated digits, whole images, 12000 training images: error on 50000 test images"
    print(table(title, headers, rows, key="kernels"))


def main() -> None:
    parser = parser_of(__doc__, data="mnist/")
    parser.add_argument("--machines", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--sizes", nargs="+", type=int, default=[1000, 2000, 5000, 10000])
    parser.add_argument("--test-digits", type=int, default=50000)
    options = parser.parse_args()
    print(f"{versions()}\n")
    train, test = load_turned_digits(options.data, 12000, options.test_digits)
    works: dict[str, Callable[[], Line]] = {
        "plain": lambda: exact(Gaussian, train, test),
        "OrbitMean": lambda: exact(lambda sigma: OrbitMean(turns(), Gaussian(sigma)), train, test),
    }
    for name, kind in (("OrbitNystroem", OrbitNystroem), ("OrbitFourier", OrbitFourier)):
        for size in options.sizes:
            works[f"{name}, {size}"] = lambda kind=kind, size=size: features(kind, size, train, test)
    found = {}
    for name, work in works.items():
        if name.partition(",")[0] in options.machines:
            found[name] = work()
            print(f"{name}: {found[name]}", file=sys.stderr, flush=True)
    print_table(found)
    write_record(
        options.record,
        "MNIST, every image rotated by a random angle: 12000 for training, 50000 for testing",
    )


if __name__ == "__main__":
    main()
