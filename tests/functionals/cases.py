"""A case of every family of functionals, and `check_functional` against numerical derivatives."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from scipy.spatial.distance import pdist
from sklearn.base import clone

from structinv.functionals import (
    Difference,
    DirectionalDerivative,
    GraphLaplacian,
    LocalAverage,
    PartialDerivative,
    SecondDerivative,
    Tangents,
    TransformDifference,
    VicinalAverages,
)
from structinv.functionals.averages import nodes
from structinv.functionals.base import Functional
from structinv.functionals.families import Evaluation, Gradient
from structinv.functionals.gram import centered
from structinv.functionals.parts import Part
from structinv.functionals.representers import Representers
from structinv.kernels import Gaussian, Kernel, Linear, Matern, Polynomial
from structinv.oracles import Ellipsoid, Rotations, Segment, Shifts

from ..oracles.cases import Reorderings

N, D = 6, 3


def rows(n: int = N, d: int = D, seed: int = 0) -> np.ndarray:
    """Rows in general position."""
    return np.random.default_rng(seed).standard_normal((n, d))


def images() -> np.ndarray:
    """Smooth pictures of 4 by 4 pixels."""
    return np.cumsum(rows(4, 16, 1), axis=1) / 4.0


@dataclass(frozen=True)
class Case:
    """A family and rows for it; `name` is the registry's, `detail` tells cases of one class apart."""

    name: str
    make: Callable[[], Functional] = field(repr=False)
    X: Any = field(default_factory=rows, repr=False)
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.name}-{self.detail}" if self.detail else self.name


SPREAD = np.random.default_rng(7).standard_normal((N, 2, D))
CASES = [
    Case("evaluation", Evaluation),
    Case("evaluation", lambda: Evaluation(rows=[4, 0, 4]), detail="rows"),
    Case("gradient", Gradient),
    Case("partial_derivative", lambda: PartialDerivative([2, 0])),
    Case("partial_derivative", lambda: PartialDerivative([False, True, True]), detail="mask"),
    Case("directional_derivative", lambda: DirectionalDerivative([1.0, -2.0, 0.5])),
    Case("directional_derivative", lambda: DirectionalDerivative(SPREAD[0]), detail="shared"),
    Case("directional_derivative", lambda: DirectionalDerivative(SPREAD), detail="own"),
    Case("tangents", lambda: Tangents(Ellipsoid(np.eye(D)[:, :2] * 3.0))),
    Case("tangents", lambda: Tangents(Rotations(degrees=[-20, 20], shape=(4, 4))), images(), "images"),
    Case(
        "transform_difference",
        lambda: TransformDifference(Reorderings([[0, 1, 2], [2, 1, 0], [1, 0, 2]])),
    ),
    Case(
        "transform_difference",
        lambda: TransformDifference(Shifts(1, directions=4, shape=(4, 4))),
        images(),
        "images",
    ),
    Case("difference", lambda: Difference([[0, 1], [5, 2], [3, 3]])),
    Case("difference", lambda: Difference([[0, 1], [2, 1]], weights=[0.5, -3.0]), detail="weights"),
    Case("graph_laplacian", lambda: GraphLaplacian(n_neighbors=2)),
    Case("graph_laplacian", lambda: GraphLaplacian(n_neighbors=3, width=1.5), detail="width"),
    Case("local_average", lambda: LocalAverage(0.4, n_nodes=3)),
    Case("local_average", lambda: LocalAverage(1.3, n_nodes=5), rows(5, 2), "plane"),
    Case("local_average", lambda: LocalAverage(0.7, n_nodes=9), rows(5, 1), "line"),
    Case("second_derivative", lambda: SecondDerivative(1, 1)),
    Case("second_derivative", lambda: SecondDerivative(0, 2), detail="mixed"),
    Case(
        "vicinal_averages", lambda: VicinalAverages(Ellipsoid(np.eye(D)[:, :2]), [0.4, 0.2], n_nodes=4)
    ),
    Case("vicinal_averages", lambda: VicinalAverages(noise=0.3, n_nodes=4), detail="noise"),
    Case(
        "vicinal_averages",
        lambda: VicinalAverages(Segment(0.5, 2.0), 0.2, 0.3, n_nodes=4),
        rows(5, 2),
        "both",
    ),
]

# Steps of numerical derivatives, relative to the distance over which the kernel changes.
STEP = 4e-3

# Number of Gauss-Hermite nodes per feature, for each number of features.
NODES = {1: 64, 2: 32, 3: 16}
VALUES_AT_ONCE = 2_000_000

# Of numerical derivatives; of sums of products relative to their terms, in double and single precision.
TOLERANCE, ROUNDING, SINGLE_ROUNDING = 1e-6, 1e-10, 1e-3

# Coefficients of the numerical derivative of order 4, for points at these numbers of steps.
STENCIL = ((-2, 1 / 12), (-1, -8 / 12), (1, 8 / 12), (2, -1 / 12))

# From points (n, d) to the values of some functions there, (n, k).
Functions = Callable[[np.ndarray], np.ndarray]


def check_functional(functional: Functional, X: np.ndarray, kernel: Kernel | None = None) -> None:
    before = X.copy()
    trial = Trial(functional, X, kernel or Gaussian(median_distance(X)))
    for check in CHECKS:
        check(trial)
    np.testing.assert_array_equal(X, before)


class Trial:
    """The family, rows and numbers that all checks share."""

    def __init__(self, functional: Functional, X: np.ndarray, kernel: Kernel) -> None:
        self.functional, self.X, self.kernel = functional, X, kernel
        self.rng, self.bound = np.random.default_rng(0), functional.bind(X)
        self.parts = self.bound.parts(kernel)
        self.sizes, self.gram = sizes_of(kernel, self.parts), self.bound.gram(kernel)
        self.norms = np.sqrt(np.maximum(np.diagonal(self.gram), 0.0))

    def rounding(self, others: np.ndarray | None = None) -> np.ndarray:
        """Bound rounding errors of inner products with functionals of these norms."""
        return 1e-300 + ROUNDING * np.outer(self.sizes, self.sizes if others is None else others)


def assert_near(found: np.ndarray, wanted: np.ndarray, allowed: np.ndarray) -> None:
    """Each number is as near as it has to be."""
    assert found.shape == wanted.shape
    np.testing.assert_array_less(np.abs(found - wanted), np.nextafter(allowed, np.inf))


def median_distance(X: np.ndarray) -> float:
    distances = pdist(X)
    distances = distances[distances > 0]
    return float(np.median(distances)) if len(distances) else 1.0


def sizes_of(kernel: Kernel, parts: list[Part]) -> np.ndarray:
    """Bounds of the representers' norms without cancellation, to scale rounding errors."""
    total = np.zeros(parts[0].size)
    for part in parts:
        squares = Representers(kernel, [[replace(part, mix=None)]]).diagonal()
        norms = np.sqrt(np.maximum(squares, 0.0))
        total += norms if part.mix is None else abs(part.mix) @ norms
    return total


def check_representers(trial: Trial) -> None:
    """Compare ``z_j(x)`` with a numerical L_j of ``k(., x)``."""
    around = median_distance(trial.X) * trial.rng.standard_normal(trial.X.shape)
    points = np.vstack([trial.X, trial.X + around])
    exact = trial.bound.representers(trial.kernel, points).T
    scales = np.sqrt(np.maximum(trial.kernel.diagonal(points), 0.0))

    def kernels(at: np.ndarray) -> np.ndarray:
        return trial.kernel.matrix(*centered(trial.kernel, at, points))

    against_numerics(trial, exact, kernels, np.outer(trial.norms, scales), trial.rounding(scales))


def check_gram(trial: Trial) -> None:
    """Compare ``<z_i, z_j>`` with a numerical L_i of ``z_j``."""
    functions = partial(trial.bound.representers, trial.kernel)
    against_numerics(trial, trial.gram, functions, np.outer(trial.norms, trial.norms), trial.rounding())


def against_numerics(
    trial: Trial, exact: np.ndarray, functions: Functions, norms: np.ndarray, rounding: np.ndarray
) -> None:
    n_features = trial.X.shape[1]
    if any(part.blur for part in trial.parts) and n_features not in NODES:
        return
    step, n_nodes = STEP * length_of(trial), NODES.get(n_features, 1)
    fine = applied(trial.parts, functions, step, n_nodes)
    coarse = applied(trial.parts, functions, 2 * step, 3 * n_nodes // 4)
    # If the kernel is not smoother than necessary, numerical derivatives are less accurate.
    assert_near(exact, fine, TOLERANCE * norms + rounding + 2 * np.abs(fine - coarse))


def length_of(trial: Trial) -> float:
    """The distance over which the kernel changes, at most the median distance of rows."""
    length = median_distance(trial.X)
    if trial.kernel.smoothness < 1:
        return length
    slopes = np.diagonal(Gradient().bind(trial.X).gram(trial.kernel))
    squares = np.mean(trial.kernel.diagonal(trial.X)), np.mean(slopes)
    return min(length, float(np.sqrt(squares[0] / squares[1]))) if min(squares) > 0 else length


def applied(parts: list[Part], functions: Functions, step: float, n_nodes: int) -> np.ndarray:
    """Apply all functionals to functions numerically, (size, k)."""
    total = np.zeros(())
    for part in parts:
        atoms, mix = part.chosen(None)
        blurred = functions
        if atoms.blur:
            blurred = partial(averaged, functions, float(np.sqrt(atoms.blur)), n_nodes)
        values = differences(blurred, atoms.points, atoms.directions, step)
        total = total + (values if mix is None else mix @ values)
    return total


def differences(
    functions: Functions, points: np.ndarray, directions: tuple[np.ndarray, ...], step: float
) -> np.ndarray:
    """Numerical derivatives of functions at each point along its directions."""
    if not directions:
        return functions(points)
    lengths = np.linalg.norm(directions[0], axis=1, keepdims=True)
    h = step / np.where(lengths > 0, lengths, 1.0)
    moved = [(points + steps * h * directions[0], weight) for steps, weight in STENCIL]
    return sum(weight * differences(functions, z, directions[1:], step) for z, weight in moved) / h


def averaged(functions: Functions, width: float, n_nodes: int, points: np.ndarray) -> np.ndarray:
    """Averages of functions over Gaussian noise by Gauss-Hermite quadrature."""
    d = points.shape[1]
    grid, weights = nodes(n_nodes, d)
    some = max(1, VALUES_AT_ONCE // (len(grid) * functions(points[:1]).shape[1]))
    means = []
    for first in range(0, len(points), some):
        part = points[first : first + some]
        values = functions((part[:, None] + width * grid).reshape(-1, d))
        means.append(np.einsum("q,nqk->nk", weights, values.reshape(len(part), len(grid), -1)))
    return np.concatenate(means)


def check_definite(trial: Trial) -> None:
    squares, rounding = np.diagonal(trial.gram), np.diagonal(trial.rounding())
    assert np.all(squares >= -rounding)
    assert_near(Representers(trial.kernel, [trial.parts]).diagonal(), squares, rounding)
    assert_near(trial.gram, trial.gram.T, trial.rounding())
    # Scale the functionals, so that their rounding errors are comparable.
    units = np.where(trial.sizes > 0, trial.sizes, 1.0)
    scaled = 0.5 * (trial.gram + trial.gram.T) / np.outer(units, units)
    assert np.linalg.eigvalsh(scaled)[0] >= -ROUNDING * len(scaled)


def check_products(trial: Trial) -> None:
    """Compare products and transposes, with the family itself, values and gradients."""
    others = [trial.bound, Evaluation().bind(trial.X)]
    if trial.kernel.smoothness >= 1:
        others.append(Gradient().bind(trial.X))
    for other in others:
        rounding = trial.rounding(sizes_of(trial.kernel, other.parts(trial.kernel)))
        gram = trial.bound.gram(trial.kernel, other)
        assert_near(gram, other.gram(trial.kernel, trial.bound).T, rounding)
        for left, right, table, allowed in (
            (trial.bound, other, gram, rounding),
            (other, trial.bound, gram.T, rounding.T),
        ):
            c = trial.rng.standard_normal(table.shape[1:])
            product = left.product(trial.kernel, c, right)
            assert_near(product, table @ c, 2 * allowed @ np.abs(c))


def check_same_again(trial: Trial) -> None:
    """Another `bind`, clones and pickles give the same functionals."""
    family = trial.functional
    copies = clone(family), type(family)(**family.get_params(deep=False))
    for copy in (family, *copies, pickle.loads(pickle.dumps(family))):
        assert type(copy) is type(family)
        bound = copy.bind(trial.X.copy())
        assert_near(bound.gram(trial.kernel), trial.gram, trial.rounding())
        assert_near(bound.gram(trial.kernel, trial.bound), trial.gram, trial.rounding())


def check_single_precision(trial: Trial) -> None:
    """Compare rows in float32 with the same rounded rows in float64."""
    single = trial.X.astype(np.float32)
    wanted = trial.functional.bind(single.astype(np.float64)).gram(trial.kernel)
    bound = trial.functional.bind(single)
    allowed = SINGLE_ROUNDING * np.outer(trial.sizes, trial.sizes) + 1e-30
    assert_near(bound.gram(trial.kernel), wanted, allowed)
    c = trial.rng.standard_normal(wanted.shape[1])
    assert_near(bound.product(trial.kernel, c), wanted @ c, allowed @ np.abs(c))


CHECKS = (
    check_same_again,
    check_definite,
    check_representers,
    check_gram,
    check_products,
    check_single_precision,
)
KERNELS = [
    Gaussian(1.2),
    Polynomial(3, gamma=0.4),
    Matern(1.5, nu=2.5),
    Gaussian(1.3) + Linear(),
    Gaussian(1.4) * Polynomial(2, gamma=0.5),
    2.5 * Gaussian(0.9),
]


def swaps():
    return Reorderings([[0, 1, 2], [2, 1, 0], [1, 0, 2]])
