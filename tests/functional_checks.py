"""`check_functional`: functionals compared with numerical derivatives and averages."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
from scipy.spatial.distance import pdist
from sklearn.base import clone

from structinv.functionals.base import BoundFunctional, Functional
from structinv.functionals.families import Evaluation, Gradient
from structinv.functionals.gram import centered
from structinv.functionals.parts import Part
from structinv.functionals.quadrature import nodes
from structinv.functionals.representers import Representers
from structinv.kernels import Gaussian, Kernel
from structinv.utils.exceptions import CheckError

# Steps of numerical derivatives, relative to the distance over which the kernel changes.
STEP = 4e-3
# Number of Gauss-Hermite nodes per feature, for each number of features.
NODES = {1: 64, 2: 32, 3: 16}
VALUES_AT_ONCE = 2_000_000
# Rounding errors of sums of products, relative to their terms, in double and in single precision.
ROUNDING = 1e-10
SINGLE_ROUNDING = 1e-3
# Coefficients of the numerical derivative of order 4, for points at these numbers of steps.
STENCIL = ((-2, 1 / 12), (-1, -8 / 12), (1, 8 / 12), (2, -1 / 12))

# From points (n, d) to the values of some functions there, (n, k).
Functions = Callable[[np.ndarray], np.ndarray]


def check_functional(
    functional: Functional,
    X: np.ndarray,
    kernel: Kernel | None = None,
    *,
    tolerance: float = 1e-6,
    random_state: int | None = 0,
) -> None:
    """Raise CheckError if a family differs from numerical derivatives or from itself."""
    functional.bind(X)
    kernel = Gaussian(_median_distance(X)) if kernel is None else kernel
    trial = _Trial(functional, X, kernel, tolerance, np.random.default_rng(random_state))
    for check in _CHECKS:
        check(trial)


@dataclass
class _Trial:
    """The family, rows and numbers that all checks share."""

    functional: Functional
    X: np.ndarray
    kernel: Kernel
    tolerance: float
    rng: np.random.Generator
    bound: BoundFunctional = field(init=False)
    gram: np.ndarray = field(init=False)
    sizes: np.ndarray = field(init=False)

    def start(self, parts: list[Part]) -> None:
        """Compute norms and Gram matrix for all checks except that of the parts."""
        self.bound = self.functional.bind(self.X)
        self.sizes = _sizes(self.kernel, parts)
        self.gram = self.bound.gram(self.kernel)

    def fail(self, message: str) -> None:
        """Raise CheckError with the family's name."""
        raise CheckError(f"{self.functional!r}: {message}")

    def compare(self, message: str, values: np.ndarray, wanted: np.ndarray, allowed: np.ndarray) -> None:
        """Raise CheckError with the largest error if an error is larger than allowed."""
        if values.shape != wanted.shape:
            self.fail(f"{message}: shape {values.shape} instead of {wanted.shape}")
        if not np.all(np.isfinite(values)):
            self.fail(f"{message}: numbers that are not finite")
        errors = np.abs(values - wanted)
        excess = errors - np.broadcast_to(allowed, errors.shape)
        if np.any(excess > 0):
            place = np.unravel_index(np.argmax(excess), errors.shape)
            self.fail(
                f"{message}: largest error {errors.max():.3g}; number "
                f"{', '.join(map(str, place))} is {values[place]:.6g} instead of {wanted[place]:.6g}"
            )

    def coefficients(self, gram: np.ndarray) -> np.ndarray:
        """Draw coefficients for a product with a Gram matrix."""
        return self.rng.standard_normal(gram.shape[1:])

    def rounding(self, others: np.ndarray | None = None) -> np.ndarray:
        """Bound rounding errors of inner products with functionals of these norms."""
        return 1e-300 + ROUNDING * np.outer(self.sizes, self.sizes if others is None else others)


def _median_distance(X: np.ndarray) -> float:
    distances = pdist(X)
    distances = distances[distances > 0]
    return float(np.median(distances)) if len(distances) else 1.0


def _sizes(kernel: Kernel, parts: list[Part]) -> np.ndarray:
    """Return bounds of the representers' norms without cancellation, to scale rounding errors."""
    total = np.zeros(parts[0].size)
    for part in parts:
        squares = Representers(kernel, [[replace(part, mix=None)]]).diagonal()
        norms = np.sqrt(np.maximum(squares, 0.0))
        total += norms if part.mix is None else abs(part.mix) @ norms
    return total


# -- the parts --------------------------------------------------------------------------------------


def _check_parts(trial: _Trial) -> None:
    before = trial.X.copy()
    bound = trial.functional.bind(trial.X)
    # Called directly, as the error of the author about an unsuitable kernel is more helpful.
    parts = list(trial.functional.parts(bound.X, trial.kernel))
    if not all(isinstance(part, Part) for part in parts):
        trial.fail(f"parts must return a list of Part, got {parts!r}")
    try:
        parts = bound.parts(trial.kernel)
    except (TypeError, ValueError) as error:
        trial.fail(str(error))
    for part in parts:
        _check_part(trial, part)
    trial.start(parts)
    if not np.array_equal(before, trial.X):
        trial.fail("bind and parts must not change the rows")


def _check_part(trial: _Trial, part: Part) -> None:
    name = type(part).__name__
    directions = part.listed(np.arange(part.n_atoms)).directions
    if any(each.shape != (part.n_atoms, trial.X.shape[1]) for each in directions):
        trial.fail(f"the directions of {name} must have the rows' features")
    if not all(np.all(np.isfinite(each)) for each in directions):
        trial.fail(f"the directions of {name} must be finite")


# -- against numerical derivatives and averages ------------------------------------------------------


def _check_representers(trial: _Trial) -> None:
    """Compare ``z_j(x)`` with a numerical L_j of ``k(., x)``."""
    around = _median_distance(trial.X) * trial.rng.standard_normal(trial.X.shape)
    points = np.vstack([trial.X, trial.X + around])
    exact = trial.bound.representers(trial.kernel, points).T
    scales = np.sqrt(np.maximum(trial.kernel.diagonal(points), 0.0))
    norms = np.outer(_norms(trial.gram), scales)
    functions = partial(_kernels, trial.kernel, points)
    message = "representers differ from the parts applied to the kernel numerically"
    _against_numerics(trial, message, exact, functions, norms, trial.rounding(scales))


def _kernels(kernel: Kernel, points: np.ndarray, at: np.ndarray) -> np.ndarray:
    left, right = centered(kernel, at, points)
    return kernel.matrix(left, right)


def _check_gram(trial: _Trial) -> None:
    """Compare ``<z_i, z_j>`` with a numerical L_i of ``z_j``."""
    norms = np.outer(_norms(trial.gram), _norms(trial.gram))
    functions = partial(trial.bound.representers, trial.kernel)
    message = "inner products differ from the parts applied to representers numerically"
    _against_numerics(trial, message, trial.gram, functions, norms, trial.rounding())


def _norms(gram: np.ndarray) -> np.ndarray:
    return np.sqrt(np.maximum(np.diagonal(gram), 0.0))


def _against_numerics(
    trial: _Trial,
    message: str,
    exact: np.ndarray,
    functions: Functions,
    norms: np.ndarray,
    rounding: np.ndarray,
) -> None:
    parts = trial.bound.parts(trial.kernel)
    n_features = trial.X.shape[1]
    if any(part.blur for part in parts) and n_features not in NODES:
        return
    step, n_nodes = STEP * _length(trial), NODES.get(n_features, 1)
    fine = _applied(parts, functions, step, n_nodes)
    coarse = _applied(parts, functions, 2 * step, 3 * n_nodes // 4)
    # If the kernel is not smoother than necessary, numerical derivatives are less accurate.
    uncertainty = 2 * np.abs(fine - coarse)
    trial.compare(message, exact, fine, trial.tolerance * norms + rounding + uncertainty)


def _length(trial: _Trial) -> float:
    """Return the distance over which the kernel changes, at most the median distance of rows."""
    length = _median_distance(trial.X)
    if trial.kernel.smoothness < 1:
        return length
    slopes = np.diagonal(Gradient().bind(trial.X).gram(trial.kernel))
    squares = np.mean(trial.kernel.diagonal(trial.X)), np.mean(slopes)
    return min(length, float(np.sqrt(squares[0] / squares[1]))) if min(squares) > 0 else length


def _applied(parts: list[Part], functions: Functions, step: float, n_nodes: int) -> np.ndarray:
    """Apply all functionals to functions numerically, (size, k)."""
    total = np.zeros(())
    for part in parts:
        atoms, mix = part.chosen(None)
        averaged = functions
        if atoms.blur:
            averaged = partial(_averaged, functions, float(np.sqrt(atoms.blur)), n_nodes)
        values = _differences(averaged, atoms.points, atoms.directions, step)
        total = total + (values if mix is None else mix @ values)
    return total


def _differences(
    functions: Functions, points: np.ndarray, directions: tuple[np.ndarray, ...], step: float
) -> np.ndarray:
    """Compute numerical derivatives of functions at each point along its directions."""
    if not directions:
        return functions(points)
    lengths = np.linalg.norm(directions[0], axis=1, keepdims=True)
    h = step / np.where(lengths > 0, lengths, 1.0)
    total = np.zeros(())
    for steps, weight in STENCIL:
        moved = points + steps * h * directions[0]
        total = total + weight * _differences(functions, moved, directions[1:], step)
    return total / h


def _averaged(functions: Functions, width: float, n_nodes: int, points: np.ndarray) -> np.ndarray:
    """Compute averages of functions over Gaussian noise by Gauss-Hermite quadrature."""
    d = points.shape[1]
    grid, weights = nodes(n_nodes, d)
    some = max(1, VALUES_AT_ONCE // (len(grid) * functions(points[:1]).shape[1]))
    means = []
    for first in range(0, len(points), some):
        part = points[first : first + some]
        values = functions((part[:, None] + width * grid).reshape(-1, d))
        means.append(np.einsum("q,nqk->nk", weights, values.reshape(len(part), len(grid), -1)))
    return np.concatenate(means)


# -- inner products ----------------------------------------------------------------------------------


def _check_bounded(trial: _Trial) -> None:
    message = "functionals must be bounded: squared norms are"
    squares = np.diagonal(trial.gram)
    if trial.gram.shape != (len(trial.sizes),) * 2:
        trial.fail(f"the Gram matrix has shape {trial.gram.shape} for {len(trial.sizes)} functionals")
    if not np.all(np.isfinite(trial.gram)):
        trial.fail(f"{message} not finite")
    rounding = np.diagonal(trial.rounding())
    if np.any(squares < -rounding):
        trial.fail(f"{message} negative, {squares.min():.3g}")
    diagonal = Representers(trial.kernel, [trial.bound.parts(trial.kernel)]).diagonal()
    trial.compare("the diagonal is not that of the Gram matrix", diagonal, squares, rounding)


def _check_definite(trial: _Trial) -> None:
    trial.compare("the Gram matrix is not symmetric", trial.gram, trial.gram.T, trial.rounding())
    # Scale the functionals, so that their rounding errors are comparable.
    units = np.where(trial.sizes > 0, trial.sizes, 1.0)
    scaled = 0.5 * (trial.gram + trial.gram.T) / np.outer(units, units)
    least = float(np.linalg.eigvalsh(scaled)[0])
    if least < -ROUNDING * len(scaled):
        trial.fail(f"the Gram matrix is not positive semi-definite: an eigenvalue is {least:.3g}")


def _check_products(trial: _Trial) -> None:
    """Compare products and transposes, with the family itself, values and gradients."""
    families = [("itself", trial.bound), ("Evaluation", Evaluation().bind(trial.X))]
    if trial.kernel.smoothness >= 1:
        families.append(("Gradient", Gradient().bind(trial.X)))
    for name, other in families:
        sizes = _sizes(trial.kernel, other.parts(trial.kernel))
        rounding = trial.rounding(sizes)
        gram = trial.bound.gram(trial.kernel, other)
        transposed = other.gram(trial.kernel, trial.bound).T
        message = f"inner products with {name} are not the transposed ones of {name} with the family"
        trial.compare(message, gram, transposed, rounding)
        for left, right, table, allowed in (
            (trial.bound, other, gram, rounding),
            (other, trial.bound, gram.T, rounding.T),
        ):
            c = trial.coefficients(table)
            product = left.product(trial.kernel, c, right)
            message = f"product with {name} is not that of the Gram matrix"
            trial.compare(message, product, table @ c, 2 * allowed @ np.abs(c))


# -- the same functionals again ----------------------------------------------------------------------


def _check_linear(trial: _Trial) -> None:
    family = trial.functional
    multiples: list[tuple[str, Functional, float]] = [
        ("2 L", family * 2.0, 2.0),
        ("L - 3 L", family - family * 3.0, -2.0),
    ]
    for name, other, factor in multiples:
        gram = other.bind(trial.X).gram(trial.kernel, trial.bound)
        message = f"{name} is not {factor:g} times the family"
        trial.compare(message, gram, factor * trial.gram, 4 * trial.rounding())


def _check_same_again(trial: _Trial) -> None:
    """Check that a second `bind` gives the same functionals, as later checks assume."""
    message = "bind must return the same functionals again for the same rows"
    for bound in (trial.bound, trial.functional.bind(trial.X), trial.functional.bind(trial.X.copy())):
        gram = bound.gram(trial.kernel)
        trial.compare(message, gram, trial.gram, trial.rounding())
        crossed = bound.gram(trial.kernel, trial.bound)
        trial.compare(message, crossed, trial.gram, trial.rounding())


def _check_copies(trial: _Trial) -> None:
    functional = trial.functional
    copies: dict[str, Functional] = {}
    try:
        copies["a clone"] = clone(functional)
        copies["get_params"] = type(functional)(**functional.get_params(deep=False))
        copies["a pickle"] = pickle.loads(pickle.dumps(functional))
    except Exception as error:
        raise CheckError(f"{functional!r}: clone, get_params and pickle must work: {error}") from error
    for name, copy in copies.items():
        if type(copy) is not type(functional):
            trial.fail(f"{name} must have the same class, got {type(copy).__name__}")
        gram = copy.bind(trial.X).gram(trial.kernel, trial.bound)
        trial.compare(f"{name} must return the same functionals", gram, trial.gram, trial.rounding())


def _check_single_precision(trial: _Trial) -> None:
    """Compare rows in float32 with the same rounded rows in float64."""
    single = trial.X.astype(np.float32)
    rounded = single.astype(np.float64)
    wanted = trial.functional.bind(rounded).gram(trial.kernel)
    bound = trial.functional.bind(single)
    allowed = SINGLE_ROUNDING * np.outer(trial.sizes, trial.sizes) + 1e-30
    trial.compare(
        "rows in float32 must have the same functionals", bound.gram(trial.kernel), wanted, allowed
    )
    c = trial.coefficients(wanted)
    product = bound.product(trial.kernel, c)
    message = "product of rows in float32 differs"
    trial.compare(message, product, wanted @ c, allowed @ np.abs(c))


_CHECKS = (
    _check_parts,
    _check_bounded,
    _check_same_again,
    _check_definite,
    _check_representers,
    _check_gram,
    _check_products,
    _check_linear,
    _check_copies,
    _check_single_precision,
)
