"""Comparison of methods for one invariance of digits (MNIST).

Digits are shifted by a pixel in four directions or rotated by 10 degrees: seven variants, the digit
included. All models have a Gaussian kernel and C = 10, on pixels in [0, 1]. The protocol is in
`docs/evidence/symmetries.md`.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from digits import Rows, draw_rows, load_mnist
from report import mean_text, parser_of, table, versions, write_record
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.svm import SVC

from structinv import InvariantSVC, RepresenterClassifier, VirtualSupportVectorSVC, VirtualSVC
from structinv.functionals import Tangents, TransformDifference
from structinv.kernels import Gaussian, OrbitMean, SetKernel
from structinv.oracles import InvarianceOracle, Rotations, Shifts

SIGMAS = [3.5, 5.0, 7.0]
NUS = [0.1, 1.0, 10.0]
TUNED, TESTED, TRIED = 500, 2000, 500


def machines(changes: InvarianceOracle) -> dict[str, tuple[Any, dict[str, list[float]]]]:
    """By name: what is trained, and the grid of its parameters."""
    kernel, settings = Gaussian(), {"C": 10.0, "tol": 2e-2, "max_seconds": 120.0}
    listed, flat = (SetKernel(changes, kernel, sides, "clip") for sides in ("two", "tangent"))
    outer, inner = {"kernel__sigma": SIGMAS}, {"kernel__kernel__sigma": SIGMAS}
    smooth, equal = (
        RepresenterClassifier(kernel, invariances=[family(changes)], loss="hinge", **settings)
        for family in (Tangents, TransformDifference)
    )
    return {
        "SVC": (SVC(kernel=kernel, C=10.0), outer),
        "InvariantSVC": (InvariantSVC(changes, kernel=kernel, **settings), outer),
        "Tangents": (smooth, outer | {"nu": NUS}),
        "TransformDifference": (equal, outer | {"nu": NUS}),
        "OrbitMean": (InvariantSVC(kernel=OrbitMean(changes, kernel), **settings), inner),
        "SetKernel": (InvariantSVC(kernel=listed, **settings), inner),
        "SetKernel, tangent": (InvariantSVC(kernel=flat, **settings), inner),
        "VirtualSVC": (VirtualSVC(changes, kernel=kernel, C=10.0), outer),
        "VirtualSupportVectorSVC": (VirtualSupportVectorSVC(changes, kernel=kernel, C=10.0), outer),
    }  # fmt: skip


def tuned(model: Any, grid: Mapping[str, list[float]], rows: Rows, seed: int) -> dict[str, float]:
    """The best point of the grid by folds."""
    folds = StratifiedKFold(3, shuffle=True, random_state=seed)
    search = GridSearchCV(model, grid, cv=folds, refit=False, error_score="raise").fit(*rows)
    return dict(search.best_params_)


def terms(model: Any) -> int:
    """Return the number of terms of the kernel expansion."""
    flat = isinstance(model, RepresenterClassifier)
    return model.alpha_.shape[1] if flat else len(model.support_)


def outcome(model: Any, changes: InvarianceOracle, train: Rows, test: Rows) -> dict[str, Any]:
    """Fit a model and return all values of the tables."""
    start = time.perf_counter()
    model.fit(*train)
    seconds = time.perf_counter() - start
    wrong = model.predict(test[0]) != test[1]
    few, labels = test[0][:TRIED], test[1][:TRIED]
    members = changes.orbit(few)
    guesses = model.predict(members.reshape(-1, few.shape[1])).reshape(members.shape[:2])
    certified = np.nan
    if isinstance(model, InvariantSVC):
        certified = float(model.certify(few, labels, oracle=changes).accuracy)
    return {
        "error": float(np.mean(wrong)),
        "seconds": seconds,
        "support": terms(model),
        "all": float(np.mean(np.all(guesses == labels[:, None], axis=1))),
        "certified": certified,
    }


def cell(runs: Sequence[Mapping[str, Any]], what: str, scale: float, form: str) -> str:
    """A mean over draws, with its standard error where there are several."""
    numbers = scale * np.array([run[what] for run in runs])
    if np.isnan(numbers[0]):
        return "none"
    return mean_text(numbers, form)


def print_tables(found: Mapping[str, Mapping[int, list[dict[str, Any]]]]) -> None:
    """Print one table per size."""
    heads = ["model", "error, %", "seconds", "support vectors", "robust, %", "certified, %"]
    looks = (("error", 100.0, ".2f"), ("seconds", 1.0, ".1f"), ("support", 1.0, ".0f"),
             ("all", 100.0, ".1f"), ("certified", 100.0, ".1f"))  # fmt: skip
    for size in next(iter(found.values())):
        lines = [[name, *(cell(runs[size], *look) for look in looks)] for name, runs in found.items()]
        title = (
            f"{size} digits of MNIST: test error, accuracy under every listed transformation (robust), "
            "seconds of a fit"
        )
        print(table(title, heads, lines, key=f"{size}"))


def main() -> None:
    parser = parser_of(__doc__, data="mnist/")
    parser.add_argument("--sizes", nargs="+", type=int, default=[500, 1000])
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--machines", nargs="+", help="some of them; all by default")
    options = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    print(f"{versions()}\n")
    train, test = load_mnist(options.data, "train"), load_mnist(options.data, "t10k")
    test = test[0][:TESTED], test[1][:TESTED]
    changes = Shifts(1, directions=4) | Rotations(degrees=[-10, 10])
    wanted = {
        name: made
        for name, made in machines(changes).items()
        if options.machines is None or name in options.machines
    }
    found = {name: {size: [] for size in options.sizes} for name in wanted}
    for seed in range(options.draws):
        for name, (model, grid) in wanted.items():
            few = draw_rows(train[1], TUNED // 10, seed)
            params = tuned(model, grid, (train[0][few], train[1][few]), seed)
            for size in options.sizes:
                rows = draw_rows(train[1], size // 10, seed)
                made = clone(model).set_params(**params)
                line = outcome(made, changes, (train[0][rows], train[1][rows]), test)
                found[name][size].append(line | {"params": params})
                print(f"draw {seed}, {size}, {name}: {line} {params}", file=sys.stderr, flush=True)
    print_tables(found)
    write_record(options.record, "MNIST, the first 2000 test digits", seeds=f"{options.draws} draws")


if __name__ == "__main__":
    main()
