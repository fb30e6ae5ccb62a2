"""Signals of unknown scale and baseline: comparison of methods.

`structinv.datasets.make_signals` generates the signals: a slow or a quick rhythm of any phase,
multiplied by a random factor, with a random baseline. They replace the electroencephalograms of
Pozdnoukhov and Bengio 2006 (section 5.2), which are not available. No number here is comparable with
the paper. The protocol is in `docs/evidence/sets.md`.

``--worlds digits`` takes images instead: the 8 x 8 digits of scikit-learn with unknown contrast (factor)
and brightness (constant), for four of the methods.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
from report import mean_text, parser_of, table, versions, write_record
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import StratifiedKFold
from sklearn.svm import SVC

from structinv import InvariantLinearSVC, InvariantSVC, VirtualSVC
from structinv.datasets import make_signals
from structinv.kernels import Gaussian, Kernel, SetKernel, VicinalKernel, psd_corrected
from structinv.oracles import InvarianceOracle, Offset, Segment

WORLDS = {
    "wide": {"scale": (0.25, 4.0), "offset": 2.0, "noise": 0.1},
    "narrow": {"scale": (0.5, 2.0), "offset": 1.0, "noise": 0.3},
    "digits": {"scale": (0.25, 4.0), "offset": 1.0, "noise": 0.1},
}
OF_DIGITS = ("SVM", "SVM, standardized", "segment + offset", "vicinal kernel")
TEST_SEED, TEST_SIZE = 10_000, 2000
CS = (1.0, 10.0, 100.0)
SQUARE_CS = (0.01, 0.1, 1.0, 10.0)
GAMMAS = (0.003, 0.01, 0.03, 0.1, 0.3)
SIGMAS = (0.5, 0.7, 1.0, 1.5, 2.5, 4.0)
WORST_GAMMAS = (0.03, 0.1, 0.3, 1.0)
VICINAL = tuple(product((1.0, 2.0, 4.0), ((0.5, 0.5), (1.0, 0.5), (2.0, 1.0)), CS))

Params = tuple[Any, ...]
# A model: a function of training rows, labels and parameters; returns predictor and support vectors.
Fitted = tuple[Callable[[np.ndarray], np.ndarray], int]
Fit = Callable[[np.ndarray, np.ndarray, Params], Fitted]


def drawn(name: str, size: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw signals of a world, or digits: the last 797 for tests, else some of the first 1000."""
    world = WORLDS[name]
    if name != "digits":
        return make_signals(size, random_state=seed, **world)
    X, y = load_digits(return_X_y=True)
    rng = np.random.default_rng(seed)
    rows = np.arange(1000, len(y)) if seed == TEST_SEED else rng.permutation(1000)[:size]
    gain = np.exp(rng.uniform(*np.log(world["scale"]), (len(rows), 1)))
    offset = rng.uniform(-world["offset"], world["offset"], (len(rows), 1))
    X = gain * X[rows] / 16 + offset
    return X + rng.normal(0.0, world["noise"], X.shape), y[rows]


def standardized(X: np.ndarray) -> np.ndarray:
    """Rows of mean 0 and deviation 1."""
    centered = X - X.mean(axis=1, keepdims=True)
    return np.asarray(centered / centered.std(axis=1, keepdims=True))


def gaussian(prepare: Callable[[np.ndarray], np.ndarray]) -> Fit:
    """SVC on rows after a preparation."""

    def fit(X: np.ndarray, y: np.ndarray, params: Params) -> Fitted:
        gamma, C = params
        svc = SVC(gamma=gamma, C=C).fit(prepare(X), y)
        return lambda Z: svc.predict(prepare(Z))

    return fit


def virtual(oracle: InvarianceOracle) -> Fit:
    """Fit SVC to random variants."""

    def fit(X: np.ndarray, y: np.ndarray, params: Params) -> Fitted:
        gamma, C = params
        model = VirtualSVC(oracle, gamma=gamma, C=C, n_draws=5, random_state=0).fit(X, y)
        return model.predict

    return fit


def objects(oracle: InvarianceOracle, spectrum: str | None = "clip", sides: str = "two") -> Fit:
    """SVC with a set kernel, with or without a spectrum correction."""

    def fit(X: np.ndarray, y: np.ndarray, params: Params) -> Fitted:
        sigma, C = params
        kernel: Kernel = SetKernel(oracle, Gaussian(sigma), sides)
        if spectrum is not None:
            kernel = psd_corrected(kernel, X, spectrum)
        svc = SVC(kernel="precomputed", C=C).fit(kernel.matrix(X, X), y)
        return lambda Z: svc.predict(kernel.matrix(Z, X))

    return fit


def vicinal(oracle: InvarianceOracle, both: bool) -> Fit:
    """Return SVC with vicinal kernels; test samples have distributions or not."""

    def fit(X: np.ndarray, y: np.ndarray, params: Params) -> Fitted:
        sigma, spread, C = params
        kernel = VicinalKernel(oracle, sigma=sigma, spread=list(spread))
        svc = SVC(kernel="precomputed", C=C).fit(kernel.matrix(X, X), y)
        ask = kernel.matrix if both else kernel.one_vicinal
        return lambda Z: svc.predict(ask(Z, X))

    return fit


def worst(oracle: InvarianceOracle, tol: float) -> Fit:
    """Return the kernel SVM of the worst case."""

    def fit(X: np.ndarray, y: np.ndarray, params: Params) -> Fitted:
        model = InvariantSVC(oracle, gamma=params[0], C=10.0, tol=tol, max_seconds=60, random_state=0)
        model.fit(X, y)
        return model.predict

    return fit


def linear_worst(oracle: InvarianceOracle) -> Fit:
    """Return the linear model of the worst case; all rows count as support vectors."""

    def fit(X: np.ndarray, y: np.ndarray, params: Params) -> Fitted:
        model = InvariantLinearSVC(oracle, C=params[0], tol=1e-2, max_seconds=60, random_state=0)
        model.fit(X, y)
        return model.predict

    return fit


def methods(
    world: Mapping[str, Any], corrections: bool
) -> dict[str, tuple[Fit, Fit, Sequence[Params], int]]:
    """Return the fit in folds, the last fit, the grid and the folds of each method."""
    (low, high), limit = world["scale"], world["offset"]
    both = Offset(limit) @ Segment(low, high)
    cover = Offset(limit, resolution=3) @ Segment(low, high, resolution=3)
    plain, wide = tuple(product(GAMMAS, CS)), tuple(product(SIGMAS, CS))

    if corrections:
        found = {}
        for spectrum, sides in product((None, "clip", "flip", "square"), ("two", "mean")):
            fit = objects(both, spectrum, sides)
            grid = tuple(product(SIGMAS, SQUARE_CS)) if spectrum == "square" else wide
            found[f"{sides}, {spectrum}"] = (fit, fit, grid, 3)
        return found

    def same(fit: Fit, grid: Sequence[Params]) -> tuple[Fit, Fit, Sequence[Params], int]:
        return fit, fit, grid, 3

    return {
        "SVM": same(gaussian(np.asarray), plain),
        "SVM, standardized": same(gaussian(standardized), plain),
        "virtual samples": same(virtual(both), plain),
        "segment": same(objects(Segment(low, high)), wide),
        "segment + offset": same(objects(both), wide),
        "vicinal kernel": same(vicinal(both, True), VICINAL),
        "vicinal, training only": same(vicinal(both, False), VICINAL),
        "worst case": (
            worst(cover, 0.1),
            worst(cover, 0.02),
            [(gamma,) for gamma in WORST_GAMMAS],
            2,
        ),
        "linear worst case": same(linear_worst(both), [(C,) for C in (0.01, 0.1, 1.0)]),
    }


def chosen(fit: Fit, X: np.ndarray, y: np.ndarray, grid: Sequence[Params], folds: int) -> Params:
    """The first point of the grid with the most right answers in the folds."""
    rights = np.zeros(len(grid))
    for train, held in StratifiedKFold(folds, shuffle=True, random_state=0).split(X, y):
        for number, point in enumerate(grid):
            predict = fit(X[train], y[train], point)
            rights[number] += np.sum(predict(X[held]) == y[held])
    return grid[int(np.argmax(rights))]


def one(method: tuple[Fit, Fit, Sequence[Params], int], rows: Any, test: Any) -> float:
    """The error of a method on a draw, in percent."""
    in_folds, last, grid, folds = method
    predict = last(*rows, chosen(in_folds, *rows, grid, folds))
    return 100 * float(np.mean(predict(test[0]) != test[1]))


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--worlds", nargs="+", choices=list(WORLDS), default=["wide", "narrow"])
    parser.add_argument("--sizes", nargs="+", type=int, default=[50, 100, 200, 400])
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument(
        "--corrections", action="store_true", help="compare spectrum corrections of the set kernel"
    )
    options = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    print(f"{versions()}\n")
    for name in options.worlds:
        world, rows_of = WORLDS[name], "digits" if name == "digits" else "signals"
        test = drawn(name, TEST_SIZE, TEST_SEED)
        table_of = methods(world, options.corrections)
        if name == "digits":
            table_of = {method: table_of[method] for method in OF_DIGITS}
        found = {method: {size: [] for size in options.sizes} for method in table_of}
        for seed in range(options.draws):
            for size in options.sizes:
                rows = drawn(name, size, 1000 * seed + size)
                for method, how in table_of.items():
                    found[method][size].append(one(how, rows, test))
            print(f"{name}: draw {seed}", file=sys.stderr, flush=True)
        heads = ["model", *(f"{size} {rows_of}" for size in options.sizes)]
        lines = [[method, *map(mean_text, runs.values())] for method, runs in found.items()]
        (low, high), offset, noise = world["scale"], world["offset"], world["noise"]
        title = (
            f"Error on {len(test[0])} test {rows_of}, %, gains of {low:g} to {high:g}, baselines up to "
            f"{offset:g}, noise {noise:g}"
        )
        print(table(title, heads, lines, key=f"{name}_error"))
    data = "generated signals of unknown gain and baseline"
    if options.worlds == ["digits"]:
        data = "8 x 8 digits of scikit-learn with unknown contrast and brightness"
    write_record(options.record, data, seeds=f"{options.draws} draws")


if __name__ == "__main__":
    main()
