"""What machines in the space of a kernel share: the kernel, its representers, and what a fit takes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..functionals import Functional
from ..functionals.base import BoundFunctional
from ..functionals.representers import Representers
from ..kernels import Kernel
from ..kernels.indefinite import trained_kernel
from ..kernels.kernel_names import as_kernel
from ..oracles.base import BoundOracle, InvarianceOracle
from ..solvers import Solution
from ..spaces import KernelSpace
from ..spaces.atoms import COLUMNS_WORTH_A_CACHE
from ..spaces.kernel_space import PLANES_EXPECTED_OF_A_BLOCK
from ..spaces.kernel_tiles import expand
from ..terms import WorstCase
from ..utils.resources import check_memory
from .base import InvariantEstimator
from .invariances import Invariances
from .resource_estimates import named
from .row_shapes import shaped

# Functions that a solver holds at the same time, as `estimate_memory` counts them.
FUNCTIONS_AT_ONCE = 4
# Coefficients below this share of the largest are rounding, and their atoms no support vectors.
NEGLIGIBLE = 1e-9


class KernelMachine(InvariantEstimator):
    """An estimator whose functions live in the space of a kernel.

    They are sums over support vectors and over the representers of functionals.
    """

    kernel: str | Kernel | Callable[[np.ndarray, np.ndarray], Any]
    gamma: float | str
    degree: int
    coef0: float
    cache_mb: float
    invariances: Sequence[Functional | BoundFunctional] = ()
    nu: float | Sequence[float] = 1.0
    invariance_loss: str | Sequence[str] = "squared"
    invariance_loss_params: dict | Sequence[dict] | None = None
    oracle: InvarianceOracle | None = None

    solution_: Solution
    kernel_: Kernel
    support_vectors_: np.ndarray
    dual_coef_: np.ndarray
    alpha_: np.ndarray
    _representers_: Representers | None

    def _invariances(self) -> Invariances:
        """The families of functionals, checked."""
        return Invariances(self.invariances, self.nu, self.invariance_loss, self.invariance_loss_params)

    def _kernel(self, X: np.ndarray, given: Any) -> Kernel:
        """The kernel of the parameters for checked rows, and for images of the shape of those given."""
        kernel = shaped(self.kernel, self, given)
        return as_kernel(kernel, gamma=self.gamma, degree=self.degree, coef0=self.coef0, X=X)

    def _trained_kernel(self, X: np.ndarray, inputs: np.ndarray, learned: dict[str, Any]) -> Kernel:
        """The kernel as a fit takes it; `learned` hears of its least eigenvalue on these inputs."""
        name = type(self).__name__
        kernel, learned["min_eigenvalue_"] = trained_kernel(self._kernel(X, X), inputs, name)
        return kernel

    def _n_functionals(self, X: np.ndarray, given: Any) -> int:
        """How many functionals the families have on checked rows."""
        families = self._invariances().bound(X, self)
        if not families:
            return 0
        kernel = self._kernel(X, given)
        return sum(family.parts(kernel)[0].size for family in families)

    def _expanded(self, X: np.ndarray) -> np.ndarray:
        """The function at checked rows, (n, n_outputs), without its constant."""
        values = expand(self.kernel_, X, self.support_vectors_, self.dual_coef_.T)
        if self._representers_ is None:
            return values
        return values + self._representers_.values(self.alpha_.T, X)


def check_cover(bound: BoundOracle, machine: str) -> int:
    """How many members each row's orbit or cover has; TypeError for an oracle without one.

    Parameters
    ----------
    bound : BoundOracle
    machine : str
        Who asks, for the message.
    """
    changes = bound.changes()
    if changes is None:
        raise TypeError(
            f"{machine} needs an oracle with an orbit or a cover; {type(bound.oracle).__name__} has "
            "none; linear machines take such: InvariantLinearSVC, InvariantLinearSVR, and "
            "InvariantStructuredSVC with kernel='linear'"
        )
    # An oracle whose answers are graded, but not its members, refuses by name.
    changes.grades(slice(0, 1))
    return len(changes.names)


def compacted(space: KernelSpace, solution: Solution) -> tuple[KernelSpace, Solution]:
    """The solution in a space without table and training data; no negligible coefficients."""
    f: Any = solution.f
    planes = solution.planes
    sizes = np.max(np.abs(f.coefficients), axis=1, initial=0.0)
    kept = sizes > NEGLIGIBLE * np.max(sizes, initial=0.0)
    f = f.copy()
    f.coefficients = np.where(kept[:, None], f.coefficients, 0.0)
    used = np.flatnonzero(planes.masses > 0)
    small, rows = space.compacted(space.stack([space.element(f), planes.normals[used]]))
    planes = replace(planes.chosen(used), normals=rows[1:])
    f = small.combine(rows[:1], np.ones(1))
    return small, replace(solution, f=f, planes=planes)


def check_known(term: WorstCase, size: int, cache: float) -> None:
    """Raise MemoryError if the points that a fit keeps do not fit in the memory that is free.

    Tables of the kernel are left out: what of them does not fit is computed again.
    """
    kept, _ = kernel_memory(term.X, size, term.labels.n_labels, cache, term.n_outputs)
    advice = "list fewer, take fewer rows, or lower cache_mb, so that only those in use are kept"
    check_memory(named(term.bound, size, len(term.X)), kept, advice)


def kernel_memory(
    X: np.ndarray, size: int, n_labels: int, cache: float, n_outputs: int
) -> tuple[float, float]:
    """Bytes of points and planes, and of tables; by the rules of `AtomStore`."""
    n_rows, n_features = X.shape
    itemsize = X.dtype.itemsize
    n_points = n_rows * size
    n_planes = n_rows * min(PLANES_EXPECTED_OF_A_BLOCK, size * (n_labels - 1))
    n_atoms = min(n_points, n_planes)
    all_known = min(n_points, COLUMNS_WORTH_A_CACHE) * n_points * itemsize <= cache
    # What grows has room for half as much again.
    n_known = n_points if all_known else 1.5 * n_atoms
    points = n_known * (n_features + FUNCTIONS_AT_ONCE * n_outputs) * itemsize
    # Of known members, all that were ever the worst have a row of it.
    table = min((n_points if all_known else n_atoms) * n_known * itemsize, cache)
    # With the numbers of members, and of the atoms they are.
    planes = n_planes * 8 * (n_outputs + 3) + 24 * n_points
    if all_known:
        return points + planes + 8 * n_points * n_outputs, table
    products = min(1.5**2 * n_planes**2 * itemsize, 0.5 * cache)
    return points + planes, table + products
