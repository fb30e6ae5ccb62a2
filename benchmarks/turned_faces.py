"""Rotated faces: set kernels and other methods (Pozdnoukhov and Bengio 2006).

The Olivetti faces have 32 x 32 pixels, see `noisy_faces.py`. Each draw (seeds 0, 1, ...) trains on 1,
2, 3 or 5 upright faces of each of the 40 persons. A smaller draw is part of the larger one. It tests on
the 5 others, rotated by a random angle within 10 degrees and scaled by a random factor from 0.9 to 1.1.
SciPy rotates the 64 x 64 pixels before they are shrunk, not the oracles. The error is the fraction of
test faces that are assigned to another person. The protocol is in `docs/evidence/sets.md`.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import product
from typing import Any

import numpy as np
from digits import folds_of, squared_distances
from noisy_faces import clipped, gaussian, load_faces, shrink, split
from report import mean_text, parser_of, table, versions, write_record
from scipy.ndimage import affine_transform
from scipy.stats import wilcoxon
from threadpoolctl import threadpool_limits

from structinv import InvariantSVC
from structinv.kernels import Gaussian, OrbitMean, TangentDistributionKernel, TangentVectorKernel
from structinv.metrics import set_distance, tangent_distance
from structinv.oracles import InvarianceOracle, Rotations, Scalings

SIDE = 32
ANGLE, FACTOR = 10.0, 0.1
SIZES = (1, 2, 3, 5)
SIGMAS = (600.0, 1200.0, 2400.0)
C = 10.0
WIDER = (600.0, 1200.0, 2400.0, 4800.0)
RATIOS = (0.25, 0.5, 1.0)
ETAS = (10.0, 100.0)
TOL = 0.05
SHAPE: dict[str, Any] = {"shape": (SIDE, SIDE), "fill": "nearest"}

Params = dict[str, float]
Table = tuple[np.ndarray, np.ndarray]


def listed() -> InvarianceOracle:
    """Return the oracle with 9 variants per face."""
    turns = Rotations([-ANGLE, ANGLE], **SHAPE)
    return turns @ Scalings([1.0 - FACTOR, 1.0 + FACTOR], **SHAPE)


def directions() -> InvarianceOracle:
    """Return the tangents of rotation and scaling."""
    smooth = SHAPE | {"smoothing": 1.0}
    turns = Rotations(interval=(-ANGLE, ANGLE), **smooth)
    return turns | Scalings(interval=(1.0 - FACTOR, 1.0 + FACTOR), **smooth)


def turned(faces: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Rotate and scale each image randomly around its center, and shrink it."""
    angles = np.radians(rng.uniform(-ANGLE, ANGLE, len(faces)))
    factors = rng.uniform(1.0 - FACTOR, 1.0 + FACTOR, len(faces))
    center, found = np.full(2, (faces.shape[1] - 1) / 2), np.empty_like(faces)
    for i, (face, angle, factor) in enumerate(zip(faces, angles, factors, strict=True)):
        matrix = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]) / factor
        found[i] = affine_transform(face, matrix, center - matrix @ center, order=1, mode="nearest")
    return shrink(found, SIDE)


def joint(K: np.ndarray, y: np.ndarray) -> InvariantSVC:
    """Fit a joint model of all persons to a kernel matrix."""
    return InvariantSVC(kernel="precomputed", C=C, tol=TOL, random_state=0).fit(K, y)


class Method:
    """A kernel, with its matrices of training and test faces for given parameters."""

    grid: Sequence[Params] = [{"sigma": sigma} for sigma in SIGMAS]

    def __init__(self, X: np.ndarray, asked: np.ndarray) -> None:
        self.X, self.asked = X, asked
        self.kept: dict[Any, Table] = {}

    def table(self, params: Params) -> Table:
        """Kernel values, (n, n) and (m, n)."""
        key = tuple(params.items())
        if key not in self.kept:
            self.kept[key] = self.made(**params)
        return self.kept[key]

    def made(self, **params: float) -> Table:
        """The table, not kept yet."""
        raise NotImplementedError

    def scores(self, params: Params, rows: np.ndarray, asked: np.ndarray, y: np.ndarray) -> Any:
        """Return scores of all persons for some test faces, and the smallest eigenvalue."""
        among, new = self.table(params)
        (K, part), least = clipped(among[np.ix_(rows, rows)], new[np.ix_(asked, rows)])
        return joint(K, y[rows]).decision_function(part), least


class OfDistances(Method):
    """The Gaussian of distances, which are found once."""

    def __init__(self, X: np.ndarray, asked: np.ndarray) -> None:
        super().__init__(X, asked)
        self.distances = self.distance(X, X), self.distance(asked, X)

    def distance(self, X: np.ndarray, Y: np.ndarray) -> np.ndarray:
        return np.sqrt(squared_distances(X, Y))

    def made(self, **params: float) -> Table:
        among, new = (gaussian(part, params["sigma"]) for part in self.distances)
        return among, new


class Jittering(OfDistances):
    """Set kernel of lists, two-sided distances."""

    sides = "two"

    def distance(self, X: np.ndarray, Y: np.ndarray) -> np.ndarray:
        return set_distance(listed(), X, Y, sides=self.sides)


class JitteringMean(Jittering):
    """Set kernel of lists, means of one-sided distances."""

    sides = "mean"


class Tangent(OfDistances):
    """Set kernel of tangent distances."""

    def distance(self, X: np.ndarray, Y: np.ndarray) -> np.ndarray:
        return tangent_distance(directions(), X, Y)


class Tvk(Method):
    grid = [
        {"sigma": sigma, "ratio": ratio, "eta": eta}
        for sigma, ratio, eta in product(WIDER[1:], RATIOS[:2], ETAS)
    ]

    def made(self, **params: float) -> Table:
        sigma, ratio = params["sigma"], params["ratio"]
        kernel = TangentVectorKernel(directions(), sigma, ratio * sigma, params["eta"])
        return kernel(self.X, self.X), kernel(self.asked, self.X)


class DbTvk(Method):
    """Overlaps of normal distributions along tangents."""

    grid = [{"sigma": sigma, "ratio": ratio} for sigma, ratio in product(WIDER, RATIOS)]

    def made(self, **params: float) -> Table:
        sigma, ratio = params["sigma"], params["ratio"]
        kernel = TangentDistributionKernel(directions(), sigma, ratio * sigma)
        return kernel(self.X, self.X), kernel(self.asked, self.X)


class Mean(Method):
    """Means of kernels over changes."""

    def made(self, **params: float) -> Table:
        kernel = OrbitMean(listed(), Gaussian(params["sigma"]))
        return kernel(self.X, self.X), kernel(self.asked, self.X)


class Virtual(OfDistances):
    """Virtual support vectors, with kernel matrices of all variants."""

    def __init__(self, X: np.ndarray, asked: np.ndarray) -> None:
        members = listed().orbit(X)
        self.size = members.shape[1]
        super().__init__(members.reshape(-1, X.shape[1]), asked)

    def scores(self, params: Params, rows: np.ndarray, asked: np.ndarray, y: np.ndarray) -> Any:
        among, new = self.table(params)
        heads = rows * self.size
        used = np.unique(joint(among[np.ix_(heads, heads)], y[rows]).support_)
        some = (heads[used][:, None] + np.arange(self.size)).ravel()
        model = joint(among[np.ix_(some, some)], np.repeat(y[rows][used], self.size))
        return model.decision_function(new[np.ix_(asked, some)]), np.nan


class WorstCase(Method):
    """Against the worst member of each list."""

    def scores(self, params: Params, rows: np.ndarray, asked: np.ndarray, y: np.ndarray) -> Any:
        kernel = Gaussian(params["sigma"])
        model = InvariantSVC(listed(), kernel=kernel, C=C, tol=TOL, random_state=0)
        return model.fit(self.X[rows], y[rows]).decision_function(self.asked[asked]), np.nan


METHODS: dict[str, type[Method]] = {
    "plain": OfDistances,
    "virtual support vectors": Virtual,
    "SetKernel, two": Jittering,
    "SetKernel, mean": JitteringMean,
    "SetKernel, tangent": Tangent,
    "TangentVectorKernel": Tvk,
    "TangentDistributionKernel": DbTvk,
    "OrbitMean": Mean,
    "worst case": WorstCase,
}


def wrong(scores: np.ndarray, y: np.ndarray) -> float:
    """Share of faces for which another person scores highest."""
    return float(np.mean(np.argmax(scores, axis=1) != y))


def choose(method: Method, rows: np.ndarray, y: np.ndarray, size: int, seed: int) -> Params:
    """Choose the parameters with the lowest error on rotated held-out faces."""
    folds = [(rows, rows)]
    if size > 1:
        folds = [(rows[some], rows[held]) for some, held in folds_of(y[rows], 2, seed)]
    errors = [
        sum(wrong(method.scores(params, some, held, y)[0], y[held]) for some, held in folds)
        for params in method.grid
    ]
    return method.grid[int(np.argmin(errors))]


def run_draw(seed: int, faces: np.ndarray, y: np.ndarray, options: Any) -> dict[str, Any]:
    """All methods and sizes on one draw."""
    warnings.simplefilter("ignore")
    start = time.perf_counter()
    train, rest = split(y, 5, seed)
    rng = np.random.default_rng([seed, 1])
    X, labels = shrink(faces[train], SIDE), y[train]
    asked = [turned(faces[train], rng), turned(faces[rest], rng), shrink(faces[rest], SIDE)]
    tests = np.arange(len(rest)) + len(train), np.arange(len(rest)) + len(train) + len(rest)
    found: dict[str, Any] = {}
    with threadpool_limits(1):
        for name, kind in METHODS.items():
            clock = time.perf_counter()
            method = kind(X, np.concatenate(asked))
            for size in options.sizes:
                rows = np.flatnonzero(np.tile(np.arange(5) < size, 40))
                params = choose(method, rows, labels, size, seed)
                results = [method.scores(params, rows, part, labels) for part in tests]
                errors = [wrong(scores, y[rest]) for scores, _ in results]
                found[f"{name} {size}"] = {
                    "rotated": errors[0], "upright": errors[1], "least": results[0][1],
                    "params": params,
                }  # fmt: skip
            found[f"{name} seconds"] = time.perf_counter() - clock
    print(f"draw {seed}: {time.perf_counter() - start:.0f} s", file=sys.stderr, flush=True)
    return found


def numbers(runs: Sequence[Mapping[str, Any]], name: str, size: int, what: str) -> np.ndarray:
    """Return the values of a method, by draw."""
    factor = 1.0 if what == "least" else 100.0
    return np.array([factor * run[f"{name} {size}"][what] for run in runs])


def print_tables(runs: Sequence[Mapping[str, Any]], sizes: Sequence[int]) -> None:
    """Errors, differences and what was chosen."""
    head = ["model", *(f"{size} per person" for size in sizes)]
    for what in ("rotated", "upright"):
        rows = [
            [name, *(mean_text(numbers(runs, name, size, what), ".1f") for size in sizes)]
            for name in METHODS
        ]
        title = (
            f"Error on {what} test faces, %: mean ± standard error of {len(runs)} draws, "
            "by training faces"
        )
        print(table(title, head, rows, key=what))
    other = "virtual support vectors"
    rows = [
        [name, *(difference(runs, name, other, size) for size in sizes)]
        for name in METHODS if name != other
    ]  # fmt: skip
    title = f"Error on rotated test faces minus that of {other}, points (p of Wilcoxon's test)"
    print(table(title, head, rows, key="less_virtual"))


def difference(runs: Sequence[Mapping[str, Any]], name: str, other: str, size: int) -> str:
    """Mean, standard error and p of paired differences."""
    found = numbers(runs, name, size, "rotated") - numbers(runs, other, size, "rotated")
    p = wilcoxon(found).pvalue if np.any(found) else 1.0
    return f"{mean_text(found, '+.1f')} ({p:.0e})"


def main() -> None:
    parser = parser_of(__doc__, data="olivetti/")
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--sizes", nargs="+", type=int, default=list(SIZES), help="faces of a person")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    options = parser.parse_args()
    faces, y = load_faces(options.data)
    print(f"{versions()}\n{options.draws} draws, means ± standard errors\n")
    with ProcessPoolExecutor(options.jobs) as pool:
        work = partial(run_draw, faces=faces, y=y, options=options)
        runs = list(pool.map(work, range(options.draws)))
    print_tables(runs, options.sizes)
    write_record(
        options.record,
        "Olivetti faces, 40 persons, test faces rotated within 10 degrees and scaled within 10 %",
        seeds=f"{options.draws} draws",
    )


if __name__ == "__main__":
    main()
