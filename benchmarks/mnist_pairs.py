"""Pairs of digits with few samples (Zhang, Lee and Teh 2013, figure 2).

The pairs are 4 or 9, 2 or 3, 6 or 5, and 7 or 1. Each of 20 draws has 50 digits of the first and 10 of
the second. All test images of both are for testing. Pixels are in [0, 1], and the kernel is Gaussian.
The 12 transformations are those of the paper (its figure 2): shifts, rotations, scalings,
shears. The protocol is in `docs/evidence/symmetries.md`.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from digits import Rows, gaussian, load_mnist, squared_distances
from report import parser_of, table, versions, write_record
from scipy.stats import ttest_rel, wilcoxon

from structinv import RepresenterClassifier, VirtualSVC
from structinv.functionals import TransformDifference
from structinv.kernels import Gaussian
from structinv.losses import EpsilonInsensitive
from structinv.oracles import InvarianceOracle, Rotations, Scalings, Shears, Shifts

PAIRS = ((4, 9), (2, 3), (6, 5), (7, 1))
SIZES = (50, 10)
VALIDATION, TUNING_DRAWS = 500, 5
SHARED = {"sigma": (3.0, 5.0, 8.0, 12.0, 18.0), "C": (10.0, 100.0, 1000.0, 10000.0)}
GRIDS: dict[str, dict[str, tuple[float, ...]]] = {
    "plain": SHARED,
    "squared": SHARED | {"nu": (1.0, 10.0, 100.0, 1000.0)},
    "epsilon-insensitive": SHARED | {"nu": (1.0, 10.0, 100.0), "epsilon": (0.03, 0.1, 0.3)},
    "VirtualSVC": SHARED,
}
HEADS = {
    "plain": "no penalty",
    "squared": "penalty, squared",
    "epsilon-insensitive": "penalty, epsilon-insensitive",
    "VirtualSVC": "VirtualSVC",
}
OURS = ("epsilon-insensitive", "squared")
KEYS = ("sigma", "C", "nu", "epsilon")

Params = dict[str, float]


@dataclass
class Pair:
    """Images of two digits, split into rows for draws, for tuning and for validation."""

    digits: tuple[int, int]
    pools: list[np.ndarray]
    tuning: list[np.ndarray]
    validation: np.ndarray

    @classmethod
    def of(cls, digits: tuple[int, int], y: np.ndarray) -> Pair:
        """Split the training images."""
        rng = np.random.default_rng(digits)
        orders = [rng.permutation(np.flatnonzero(y == digit)) for digit in digits]
        validation = np.concatenate([order[:VALIDATION] for order in orders])
        ends = [VALIDATION + TUNING_DRAWS * size for size in SIZES]
        parts = [
            np.split(order[VALIDATION:end], TUNING_DRAWS)
            for order, end in zip(orders, ends, strict=True)
        ]
        tuning = [np.concatenate(both) for both in zip(*parts, strict=True)]
        pools = [order[end:] for order, end in zip(orders, ends, strict=True)]
        return cls(digits, pools, tuning, validation)

    def draw(self, seed: int) -> np.ndarray:
        """Rows of a draw."""
        rng = np.random.default_rng([*self.digits, seed])
        drawn = [
            rng.choice(pool, size, replace=False) for pool, size in zip(self.pools, SIZES, strict=True)
        ]
        return np.concatenate(drawn)

    @property
    def name(self) -> str:
        """Such as "4 or 9"."""
        return "{} or {}".format(*self.digits)


def transformations() -> InvarianceOracle:
    """Return the 12 transformations of figure 2 of Zhang et al. 2013."""
    scalings, shears = Scalings(factors=[0.9, 1.1]), Shears(factors=[-0.1, 0.1], axes=(0, 1))
    return Shifts(pixels=2, directions=4) | Rotations(degrees=[-10, 10]) | scalings | shears


def fit(machine: str, params: Params, X: np.ndarray, y: np.ndarray, digits: tuple[int, int]) -> Any:
    """Fit a model with its parameters."""
    oracle = transformations()
    if machine == "VirtualSVC":
        weights = {digit: 1.0 / size for digit, size in zip(digits, SIZES, strict=True)}
        gamma = 0.5 / params["sigma"] ** 2
        return VirtualSVC(oracle, gamma=gamma, C=params["C"], class_weight=weights).fit(X, y)
    settings: dict[str, Any] = {"nu": params.get("nu", 0.0), "invariance_loss": "squared"}
    if "epsilon" in params:
        settings["invariance_loss"] = EpsilonInsensitive(params["epsilon"])
    return RepresenterClassifier(
        Gaussian(params["sigma"]),
        invariances=[] if machine == "plain" else [TransformDifference(oracle)],
        loss="logistic",
        C=params["C"],
        class_weight="per_class",
        **settings,
    ).fit(X, y)


def predict(model: Any, X: np.ndarray) -> np.ndarray:
    """Return ``model.predict(X)``, for SVC of two classes by matrix products."""
    if not isinstance(model, VirtualSVC):
        return model.predict(X)
    svc = model.svc_
    kernel = gaussian(squared_distances(X.astype(np.float64), svc.support_vectors_), svc.gamma)
    scores = kernel @ svc.dual_coef_[0] + svc.intercept_[0]
    return svc.classes_[(scores > 0).astype(int)]


def error_of(model: Any, X: np.ndarray, y: np.ndarray) -> float:
    """Share of wrong predictions."""
    return float(np.mean(predict(model, X) != y))


def tune(machine: str, train: Rows, pair: Pair) -> tuple[Params, float]:
    """Parameters of the smallest validation error, and that error."""
    X, y = train
    grid = GRIDS[machine]
    points = [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]
    errors = []
    for params in points:
        models = [fit(machine, params, X[rows], y[rows], pair.digits) for rows in pair.tuning]
        own = [error_of(model, X[pair.validation], y[pair.validation]) for model in models]
        errors.append(float(np.mean(own)))
    best = int(np.argmin(errors))
    return points[best], errors[best]


def compare(train: Rows, test: Rows, pair: Pair, draws: int) -> dict[str, Any]:
    """Return parameters, test errors and seconds of the fits, by model."""
    X, y = train
    among = np.isin(test[1], pair.digits)
    X_test, y_test = test[0][among], test[1][among]
    found: dict[str, Any] = {}
    for machine in GRIDS:
        start = time.perf_counter()
        params, validated = tune(machine, train, pair)
        middle = time.perf_counter()
        errors, seconds = [], []
        for seed in range(draws):
            rows = pair.draw(seed)
            begin = time.perf_counter()
            model = fit(machine, params, X[rows], y[rows], pair.digits)
            seconds.append(time.perf_counter() - begin)
            errors.append(error_of(model, X_test, y_test))
        found[machine] = {
            "params": params,
            "validation": validated,
            "errors": np.array(errors),
            "seconds": float(np.median(seconds)),
            "tuning seconds": middle - start,
        }
        print(
            f"{pair.name}, {machine}: {time.perf_counter() - start:.0f} s", file=sys.stderr, flush=True
        )
    return found


def print_tables(found: dict[str, dict[str, Any]], draws: int) -> None:
    """Errors, tests, and what was chosen."""
    rows = [
        [
            name,
            *(
                f"{100 * one['errors'].mean():.2f} ({100 * one['errors'].std(ddof=1):.2f})"
                for one in machines.values()
            ),
        ]
        for name, machines in found.items()
    ]
    title = f"Error on the test images, %: mean of {draws} draws (standard deviation)"
    print(table(title, ["digits", *map(HEADS.__getitem__, GRIDS)], rows, key="errors"))
    rows = [
        [f"{name}, {machine}", *tests(machines[machine]["errors"], machines["VirtualSVC"]["errors"])]
        for machine in OURS
        for name, machines in found.items()
    ]
    head = [
        "digits, penalty",
        "difference",
        "standard deviation",
        "better",
        "worse",
        "t",
        "p of t",
        "p of Wilcoxon",
    ]
    print(
        table(
            "Error minus that of VirtualSVC on the same draw, points, and numbers of draws",
            head,
            rows,
            "differences",
        )
    )


def tests(ours: np.ndarray, theirs: np.ndarray) -> list[str]:
    """Cells of the paired tests."""
    difference = 100 * (ours - theirs)
    t = ttest_rel(ours, theirs)
    return [
        f"{difference.mean():+.2f}",
        f"{difference.std(ddof=1):.2f}",
        f"{np.sum(difference < 0)}",
        f"{np.sum(difference > 0)}",
        f"{t.statistic:+.2f}",
        f"{t.pvalue:.1e}",
        f"{wilcoxon(ours, theirs).pvalue:.1e}",
    ]


def parse() -> argparse.Namespace:
    parser = parser_of(__doc__, data="mnist/")
    names = ["".join(map(str, pair)) for pair in PAIRS]
    parser.add_argument("--pairs", nargs="+", choices=names, default=names)
    parser.add_argument("--draws", type=int, default=20)
    return parser.parse_args()


def run(options: argparse.Namespace, pairs: Sequence[tuple[int, int]]) -> dict[str, Any]:
    train, test = load_mnist(options.data, "train"), load_mnist(options.data, "t10k")
    split = [Pair.of(digits, train[1]) for digits in pairs]
    return {pair.name: compare(train, test, pair, options.draws) for pair in split}


def main() -> None:
    options = parse()
    warnings.simplefilter("ignore")
    print(f"{versions()}\n")
    start = time.perf_counter()
    found = run(options, [(int(name[0]), int(name[1])) for name in options.pairs])
    print()
    print_tables(found, options.draws)
    print(f"{time.perf_counter() - start:.0f} s in all")
    write_record(
        options.record,
        "MNIST, 50 digits of one class and 10 of another, all test images of the pair",
        seeds=f"{options.draws} draws",
    )


if __name__ == "__main__":
    main()
