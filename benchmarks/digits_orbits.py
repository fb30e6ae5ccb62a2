"""Invariant kernels, worst-case training and virtual samples on few digits.

Digits are drawn from the 60000 training images of MNIST as in `digits_small_sample.py`, with the same
20 transformations. All 10000 test images are for testing. The protocol is in
`docs/evidence/symmetries.md`.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from typing import Any

import numpy as np
from digits import (
    Params,
    Rows,
    add_data_option,
    best,
    draw_rows,
    fit_invariant,
    fit_svc,
    folds_of,
    grid,
    load_mnist,
    tune_invariant,
    tune_svc,
)
from report import add_record_option, table, versions, write_record
from sklearn.svm import SVC

from structinv import InvariantSVC
from structinv.kernels import Gaussian, OrbitMean
from structinv.oracles import Rotations, Scalings, Shifts, teo2007_transforms

GRID = grid((0.01, 0.02, 0.04, 0.08), (1.0, 10.0, 100.0))
OTHERS = grid((0.01, 0.02, 0.04), (1.0, 10.0))
TOL = 1e-2

Found = dict[str, tuple[float, float]]


def drawn_changes() -> Any:
    turned = Rotations(interval=(-15, 15)) @ Scalings(interval=(0.9, 1.1))
    return Shifts(interval=(0, 2), directions=8) @ turned


def mean_kernel(oracle: Any, size: int | None, gamma: float) -> OrbitMean:
    return OrbitMean(oracle, Gaussian(float(np.sqrt(0.5 / gamma))), size)


def tune_mean(train: Rows, oracle: Any, size: int | None, seed: int) -> Params:
    """gamma and C by three folds with SVC."""
    X, y = train
    rights = np.zeros(len(GRID))
    for gamma in dict.fromkeys(point["gamma"] for point in GRID):
        gram = mean_kernel(oracle, size, gamma).matrix(X, X).astype(np.float64)
        for number, point in enumerate(GRID):
            if point["gamma"] == gamma:
                for some, rest in folds_of(y, 3, seed):
                    svc = SVC(kernel="precomputed", C=point["C"] / np.mean(np.diag(gram)))
                    svc.fit(gram[np.ix_(some, some)], y[some])
                    rights[number] += np.sum(svc.predict(gram[np.ix_(rest, some)]) == y[rest])
    return best(GRID, rights)


def fit_mean(
    train: Rows, test: Rows, oracle: Any, size: int | None, params: Params
) -> tuple[float, float]:
    """SVC on a table: error on the test images, and seconds of table and fit."""
    start = time.perf_counter()
    kernel = mean_kernel(oracle, size, params["gamma"])
    gram = kernel.matrix(train[0], train[0]).astype(np.float64)
    svc = SVC(kernel="precomputed", C=params["C"] / np.mean(np.diag(gram))).fit(gram, train[1])
    seconds = time.perf_counter() - start
    answers = svc.predict(kernel.matrix(test[0], train[0]).astype(np.float64))
    return float(np.mean(answers != test[1])), seconds


def fit_joint(
    train: Rows, test: Rows, worst: Any, oracle: Any, size: int | None, params: Params
) -> tuple[float, float]:
    """`InvariantSVC` with the averaged kernel."""
    kernel = mean_kernel(oracle, size, params["gamma"])
    C = params["C"] / float(np.mean(kernel.diagonal(train[0])))
    start = time.perf_counter()
    model = InvariantSVC(worst, kernel=kernel, C=C, tol=TOL, random_state=0).fit(*train)
    seconds = time.perf_counter() - start
    return float(np.mean(model.predict(test[0]) != test[1])), seconds


def compare(train: Rows, test: Rows, seed: int) -> Found:
    """Run all models on one draw."""
    oracle = teo2007_transforms()
    virtual = tune_svc(*train, oracle, OTHERS, 3, seed)["VirtualSVC"]
    worst = tune_invariant(*train, oracle, OTHERS, 3, seed)
    outcomes = {
        "VirtualSVC": fit_svc("VirtualSVC", oracle, virtual, train, test)[0],
        "InvariantSVC": fit_invariant(oracle, worst, train, test, tol=TOL),
    }
    found = {name: (outcome.error, outcome.seconds) for name, outcome in outcomes.items()}
    params = tune_mean(train, oracle, None, seed)
    found["SVC, OrbitMean"] = fit_mean(train, test, oracle, None, params)
    found["InvariantSVC, OrbitMean"] = fit_joint(train, test, None, oracle, None, params)
    found["InvariantSVC, OrbitMean, worst case"] = fit_joint(train, test, oracle, oracle, None, params)
    params = tune_mean(train, drawn_changes(), 25, seed)
    found["SVC, OrbitMean, random"] = fit_mean(train, test, drawn_changes(), 25, params)
    return found


def print_table(draws: dict[int, list[Found]]) -> None:
    """Errors, and seconds of the final fit."""
    tables = (("errors", "error, %", 0, 100), ("seconds", "seconds of the final fit", 1, 1))
    for key, title, place, scale in tables:
        rows = []
        for name in next(iter(draws.values()))[0]:
            cells = []
            for found in draws.values():
                values = scale * np.array([one[name][place] for one in found])
                error = np.std(values, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.nan
                cells.append(f"{np.mean(values):.2f} ± {error:.2f}")
            rows.append([name, *cells])
        print(table(title, ["", *(f"{size} per class" for size in draws)], rows, key))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_data_option(parser)
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--sizes", nargs="+", type=int, default=[10, 30, 50], help="digits per class")
    parser.add_argument("--test-digits", type=int, default=10000, help="the first of the test images")
    add_record_option(parser)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    print(f"{versions()}\n")
    data, (Z, z) = load_mnist(options.data, "train"), load_mnist(options.data, "t10k")
    test = Z[: options.test_digits], z[: options.test_digits]
    draws: dict[int, list[Found]] = {size: [] for size in options.sizes}
    for seed in range(options.draws):
        for size in options.sizes:
            rows = draw_rows(data[1], size, seed)
            draws[size].append(compare((data[0][rows], data[1][rows]), test, seed))
            print(f"seed {seed}, {size} per class: {draws[size][-1]}", file=sys.stderr, flush=True)
    print_table(draws)
    write_record(
        options.record,
        "MNIST, 10 digits per class for training, 10000 for testing",
        seeds=f"{options.draws} draws",
    )


if __name__ == "__main__":
    main()
