"""Base class of kernel models: kernel, smoothness penalties and memory estimates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..functionals import Functional
from ..functionals.base import BoundFunctional, check_same_columns
from ..functionals.parts import Part
from ..functionals.representers import Representers
from ..kernels import Kernel
from ..kernels.indefinite import trained_kernel
from ..kernels.kernel_names import as_kernel
from ..losses import ScalarLoss
from ..oracles import InvarianceOracle
from ..oracles.arguments import hint_of
from ..oracles.base import BoundOracle
from ..oracles.images.image_borders import warn_of_fill
from ..oracles.third_party import bind
from ..solvers import Solution
from ..spaces.atoms import COLUMNS_WORTH_A_CACHE
from ..spaces.kernel_space import PLANES_EXPECTED_OF_A_BLOCK, KernelSpace
from ..spaces.kernel_tiles import expand
from ..terms import Penalty, WorstCase
from ..terms.penalty import FamilyFunctionals
from ..utils.parameters import check_number
from ..utils.resources import check_memory
from .advice import named
from .base import InvariantEstimator, Problem
from .inputs import as_loss, name_of_part, shaped

# Number of functions that a solver stores, for `estimate_memory`.
FUNCTIONS_AT_ONCE = 4
# Coefficients below this fraction of the largest are rounding errors, not support vectors.
NEGLIGIBLE = 1e-9
INVARIANCE_LOSSES = ("squared", "absolute", "epsilon_insensitive", "huber")


class KernelMachine(InvariantEstimator):
    """Base class of estimators with functions in the space of a kernel.

    The functions are sums over support vectors and representers of functionals.
    """

    kernel: str | Kernel | Callable[[np.ndarray, np.ndarray], Any]
    gamma: float | str
    degree: int
    coef0: float
    cache_mb: float
    invariances: Sequence[Functional | BoundFunctional] = ()
    nu: float | Sequence[float] = 1.0
    invariance_loss: str | ScalarLoss | Sequence[str | ScalarLoss] = "squared"
    oracle: InvarianceOracle | None = None

    kernel_: Kernel
    support_vectors_: np.ndarray
    dual_coef_: np.ndarray
    alpha_: np.ndarray
    _representers_: Representers | None

    def _invariances(self) -> Invariances:
        """Return the checked families of functionals."""
        return Invariances(self.invariances, self.nu, self.invariance_loss)

    def _kernel(self, X: np.ndarray, given: Any) -> Kernel:
        """Return the kernel with resolved parameters, for images of the given shape."""
        kernel = shaped(self.kernel, self, given)
        return as_kernel(kernel, gamma=self.gamma, degree=self.degree, coef0=self.coef0, X=X)

    def _trained_kernel(self, X: np.ndarray, inputs: np.ndarray, learned: dict[str, Any]) -> Kernel:
        """Return the kernel of a fit; `learned` receives its smallest eigenvalue."""
        name = type(self).__name__
        kernel, learned["min_eigenvalue_"] = trained_kernel(self._kernel(X, X), inputs, name)
        return kernel

    def _worst_case(self, problem: Problem, inputs: Any = None) -> WorstCase:
        """Return the worst-case loss; raise MemoryError if its points exceed the free memory."""
        term = problem.worst_case(inputs)
        size = check_cover(term.bound, type(self).__name__)
        # Kernel values are not included, since they can be computed again.
        kept, _ = kernel_memory(
            term.X, size, term.bound_structure.n_labels, 1e6 * self.cache_mb, term.n_outputs
        )
        advice = (
            "use fewer perturbed samples or fewer rows, or decrease cache_mb, so that only support "
            "vectors are stored"
        )
        check_memory(named(term.bound, size, len(term.X)), kept, advice)
        return term

    def _parts(self, X: np.ndarray, given: Any) -> list[list[Part]]:
        """Return the parts of all families of functionals."""
        families = self._invariances().bound(X, self)
        if not families:
            return []
        kernel = self._kernel(X, given)
        return [family.parts(kernel) for family in families]

    def _expanded(self, X: np.ndarray) -> np.ndarray:
        """Return the function at checked rows without its constant, (n, n_outputs)."""
        values = expand(self.kernel_, X, self.support_vectors_, self.dual_coef_.T)
        if self._representers_ is None:
            return values
        return values + self._representers_.values(self.alpha_.T, X)


def check_cover(bound: BoundOracle, machine: str) -> int:
    """Return the number of variants in each orbit or cover."""
    changes = bound.changes()
    if changes is None:
        y = None if bound.y is None else bound.y[:1]
        name = name_of_part(bound.oracle, lambda part: bind(part, bound.X[:1], y).changes() is None)
        raise TypeError(
            f"{machine} requires an oracle with an orbit or a cover, got {name.rstrip(',')}"
            f"{bound.oracle._no_cover()}; use a linear model for this oracle: InvariantLinearSVC, "
            "InvariantLinearSVR, or InvariantStructuredSVC with kernel='linear'"
        )
    # A discounted oracle without grades of its variants raises an error here.
    changes.grades(slice(0, 1))
    return len(changes.names)


def compacted(space: KernelSpace, solution: Solution) -> tuple[KernelSpace, Solution]:
    """Return the solution in a space of its points, without negligible terms."""
    f: Any = solution.f.copy()
    sizes = np.max(np.abs(f.coefficients), axis=1, initial=0.0)
    kept = sizes > NEGLIGIBLE * np.max(sizes, initial=0.0)
    f.coefficients = np.where(kept[:, None], f.coefficients, 0.0)
    small, f = space.compacted(f)
    return small, replace(solution, f=f)


def kernel_memory(
    X: np.ndarray, size: int, n_labels: int, cache: float, n_outputs: int
) -> tuple[float, float]:
    """Return the bytes of points and planes, and of kernel values, as in `AtomStore`."""
    n_rows, n_features = X.shape
    itemsize = X.dtype.itemsize
    n_points = n_rows * size
    n_planes = n_rows * min(PLANES_EXPECTED_OF_A_BLOCK, size * (n_labels - 1))
    n_atoms = min(n_points, n_planes)
    all_known = min(n_points, COLUMNS_WORTH_A_CACHE) * n_points * itemsize <= cache
    # Growing arrays have a reserve of one half.
    n_known = n_points if all_known else 1.5 * n_atoms
    points = n_known * (n_features + FUNCTIONS_AT_ONCE * n_outputs) * itemsize
    # All worst perturbed samples have a row of kernel values.
    table = min((n_points if all_known else n_atoms) * n_known * itemsize, cache)
    # Including the indices of variants and of points.
    planes = n_planes * 8 * (n_outputs + 3) + 24 * n_points
    if all_known:
        return points + planes + 8 * n_points * n_outputs, table
    products = min(1.5**2 * n_planes**2 * itemsize, 0.5 * cache)
    return points + planes, table + products


class Invariances:
    """Checked families of functionals with their weights and losses."""

    def __init__(self, families: Any, nu: Any, losses: Any) -> None:
        if isinstance(families, (Functional, BoundFunctional)) or not np.iterable(families):
            hint = _hint(families)
            raise TypeError(
                f"invariances must be a list of Functional or BoundFunctional, got {families!r}{hint}"
            )
        self.families = list(families)
        for family in self.families:
            if not isinstance(family, (Functional, BoundFunctional)):
                hint = _hint(family)
                raise TypeError(
                    f"invariances must contain Functional or BoundFunctional, got {family!r}{hint}"
                )
        size = len(self.families)
        weights = _one_each("nu", nu, size)
        names = _one_each("invariance_loss", losses, size)
        for number in weights:
            check_number("nu", number)
        # A single value is checked even without families.
        found = [as_loss("invariance_loss", name, INVARIANCE_LOSSES) for name in names]
        self.nu, self.losses = weights[:size], found[:size]

    def bound(self, X: np.ndarray, estimator: Any) -> list[BoundFunctional]:
        """Return the families, bound to the rows unless they are already bound."""
        found = []
        for own in self.families:
            family = own
            if not isinstance(own, BoundFunctional):
                shaped_family = shaped(own, estimator, X)
                warn_of_fill(shaped_family, X)
                family = shaped_family.bind(X)
            if not isinstance(family, BoundFunctional):
                raise TypeError(
                    f"{type(own).__name__}.bind must return a BoundFunctional, got "
                    f"{type(family).__name__}"
                )
            check_same_columns("invariances", family, getattr(estimator, "feature_names_in_", None))
            if family.X.shape[1] != X.shape[1]:
                raise ValueError(
                    f"invariances must be bound to rows with the {X.shape[1]} features of X, got one "
                    f"bound to {family.X.shape[1]} features: bind it again, or pass an unbound "
                    "Functional"
                )
            found.append(family)
        return found

    def penalties(self, representers: Representers, first: int, n_outputs: int) -> list[Penalty]:
        """Return the penalty of each family; `first` is its number in the representers."""
        return [
            Penalty(FamilyFunctionals(representers, first + number, n_outputs), loss, float(nu))
            for number, (nu, loss) in enumerate(zip(self.nu, self.losses, strict=True))
        ]


def _hint(given: Any) -> str:
    """Return advice for an oracle, or a class, instead of a family of functionals."""
    if not isinstance(given, InvarianceOracle):
        return hint_of(given)
    return (
        f"; use functionals.TransformDifference({given!r}) for differences between a sample and its "
        f"perturbations, functionals.Tangents({given!r}) for derivatives along them, or pass the oracle "
        "to a classifier as oracle="
    )


def _one_each(name: str, value: Any, size: int) -> list[Any]:
    """Return one value per family, or a list with a single value without families."""
    if isinstance(value, str) or not np.iterable(value):
        return [value] * max(size, 1)
    values = list(value)
    if len(values) != size:
        raise ValueError(
            f"{name} must be one value or {size} values, one per entry of invariances, got {len(values)}"
        )
    return values
