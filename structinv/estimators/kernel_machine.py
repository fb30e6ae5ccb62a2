"""What kernel classifiers and regressors share: spaces, support vectors and what a fit takes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils import check_array

from ..functionals.representers import Representers
from ..kernels import Kernel, PrecomputedKernel
from ..kernels.definiteness import trained_kernel
from ..kernels.names import as_kernel
from ..kernels.values import precision
from ..machine import check_memory
from ..matrices import Matrix
from ..objective import Objective, Penalty, WorstCase
from ..oracles import InvarianceOracle
from ..oracles.base import BoundOracle
from ..oracles.checked import bind
from ..solvers import REGISTRY, FrankWolfe, Representer, Solution, Solver
from ..spaces import Expansion, KernelSpace, RepresenterSpace
from ..spaces.atoms import COLUMNS_WORTH_A_CACHE, AtomRows, expand
from ..spaces.kernel import PLANES_EXPECTED_OF_A_BLOCK
from .base import InvariantEstimator, check_number
from .compression import CompressibleMachine
from .continuing import Continuing
from .estimates import named
from .invariances import Invariances
from .shapes import flat_rows, shaped

# Functions that a solver holds at the same time, as `estimate_memory` counts them.
FUNCTIONS_AT_ONCE = 4
# Coefficients below this share of the largest are rounding, and their atoms no support vectors.
NEGLIGIBLE = 1e-9


class KernelMachine(CompressibleMachine, InvariantEstimator):
    """An estimator whose functions live in the space of a kernel.

    Subclasses store `kernel` with its parameters, `cache_mb`, and `invariances` with their weights and
    losses, too.
    """

    @property
    def _precomputed(self) -> bool:
        return isinstance(self.kernel, str) and self.kernel == "precomputed"

    def _check_parameters(self) -> InvarianceOracle:
        oracle = super()._check_parameters()
        check_number("cache_mb", self.cache_mb, minimum=0.0, strict=True)
        invariances = self._invariances()
        if self._precomputed and invariances.families:
            raise ValueError(
                "invariances must be empty with kernel='precomputed', which shows no inputs"
            )
        if self._precomputed and self.oracle is not None:
            raise ValueError(
                "oracle must be None with kernel='precomputed', which shows no inputs that could "
                f"change, got {self.oracle!r}"
            )
        return oracle

    def _invariances(self) -> Invariances:
        """The families of functionals, checked."""
        return Invariances(self.invariances, self.nu, self.invariance_loss, self.invariance_loss_params)

    def _best_solver(self, objective: Objective) -> Solver:
        return Representer() if isinstance(objective.space, RepresenterSpace) else FrankWolfe()

    def _inputs(self, X: Matrix) -> Matrix:
        if not self._precomputed:
            return X
        if X.shape[0] != X.shape[1]:
            raise ValueError(f"X must be square in fit with kernel='precomputed', got shape {X.shape}")
        return np.arange(float(X.shape[0]))[:, None]

    def _new_space(self, X: Matrix, term: WorstCase) -> KernelSpace:
        size = check_cover(term.bound, type(self).__name__)
        check_known(term, size, 1e6 * self.cache_mb)
        kernel = shaped(self.kernel, self, X)
        kernel = as_kernel(kernel, gamma=self.gamma, degree=self.degree, coef0=self.coef0, X=X)
        kernel, self.least_eigenvalue_ = trained_kernel(kernel, term.X, type(self).__name__)
        n_features, n_outputs = term.X.shape[1], term.n_outputs
        invariances, cache_mb = self._invariances(), float(self.cache_mb)
        if not invariances.families:
            n_extra = term.labels.n_extra
            return KernelSpace(kernel, n_features, n_outputs, cache_mb=cache_mb, n_extra=n_extra)
        parts = [family.parts(kernel) for family in invariances.bound(term.X, self)]
        representers = Representers(kernel, parts, cache_mb)
        return RepresenterSpace(representers, n_features, n_outputs, cache_mb=cache_mb)

    def _penalties(self, space: Any) -> list[Penalty]:
        if not isinstance(space, RepresenterSpace):
            return []
        system: Any = space.system
        return self._invariances().penalties(system, 0, space.n_outputs)

    def _continuing(self, X: Matrix, y: np.ndarray, sample_weight: Any) -> Continuing:
        # Planes of members are planes of these members whatever the kernel is; those of a table of
        # values know no inputs.
        free = ("kernel", "gamma", "degree", "coef0")
        tables = self._precomputed or isinstance(getattr(self, "kernel_", None), PrecomputedKernel)
        return Continuing(self, X, y, sample_weight, () if tables else free)

    def _keep(self, X: Matrix, term: WorstCase, space: Any, solution: Solution) -> None:
        shrink = _with_small_table if self._precomputed else _small
        space, self.solution_ = compacted(space, solution, shrink)
        self.kernel_: Kernel = space.kernel
        f: Any = self.solution_.f
        used = f.support()
        rows, members = space.atoms.origins[used].T
        order = np.lexsort((members, rows))
        used, rows, members = used[order], rows[order], members[order]
        points = np.zeros((0, 0)) if self._precomputed else space.atoms.points(used)
        self.support_vectors_ = points.astype(X.dtype, copy=False)
        self.support_ = rows
        self.support_members_ = members
        self.support_transforms_ = np.array(term.bound.member_names())[members]
        self.dual_coef_ = np.ascontiguousarray(f.coefficients[used].T, dtype=X.dtype)
        self._representers_: Any = None
        self.alpha_ = np.zeros((term.n_outputs, 0))
        if isinstance(space, RepresenterSpace):
            self._representers_ = space.system
            self.alpha_ = np.ascontiguousarray(f.representers.T)
        self.compression_error_ = 0.0

    def _scores(self, X: Matrix) -> np.ndarray:
        if self._precomputed:
            return X[:, self.support_] @ self.dual_coef_.T
        values = expand(self.kernel_, X, self.support_vectors_, self.dual_coef_.T)
        if self._representers_ is not None:
            values = values + self._representers_.values(self.alpha_.T, X)
        return values.astype(precision(X, self.support_vectors_), copy=False)

    def _function(
        self, X: Matrix, oracle: InvarianceOracle, labels: np.ndarray | None
    ) -> tuple[KernelSpace, Expansion]:
        """The function in a space of its own, to be asked about the changes of some rows.

        `labels` holds that of the first row, for oracles that depend on it.
        """
        if self._precomputed:
            raise ValueError(
                "certify and worst_case need inputs that can change, and kernel='precomputed' shows none"
            )
        check_cover(bind(oracle, X[:1], labels), type(self).__name__)
        return self._expansion()

    def _expansion(self, extra: np.ndarray | None = None) -> tuple[KernelSpace, Expansion]:
        """The function in a space that holds nothing but its points; with parameters of no input."""
        n_features, n_outputs = self._atoms().shape[1], len(self.dual_coef_)
        n_extra = 0 if extra is None else len(extra)
        space = KernelSpace(self.kernel_, n_features, n_outputs, cache_mb=0.0, n_extra=n_extra)
        if self._representers_ is not None:
            system = self._representers_.emptied()
            space = RepresenterSpace(system, n_features, n_outputs, cache_mb=0.0)
        f = self._in(space)
        if extra is not None:
            f.extra[:] = extra
        return space, f

    def _in(self, space: KernelSpace) -> Expansion:
        """The function in a space that knows its points or takes them up."""
        origins = np.column_stack([self.support_, self.support_members_])
        keys = space.atoms.add_points(self._atoms(), origins)
        whole = AtomRows(space.atoms, keys, self.dual_coef_.T, np.array([0, len(keys)]))
        f = space.combine(whole, np.ones(1))
        if isinstance(space, RepresenterSpace):
            f += space.of_representers(self.alpha_.T.copy())
        return f

    def _memory(self, X: Any, y: Any) -> float:
        oracle = self._check_parameters()
        oracle, kernel = shaped(oracle, self, X), shaped(self.kernel, self, X)
        X = check_array(flat_rows(X), dtype=self._rows["dtype"], estimator=self, input_name="X")
        labels, n_outputs, n_labels = self._told(X, y)
        bound = bind(oracle, self._inputs(self._prepare(X, oracle)), labels)
        size = check_cover(bound, type(self).__name__)
        kept, tables = kernel_memory(bound.X, size, n_labels, 1e6 * self.cache_mb, n_outputs)
        return kept + tables + self._memory_of_invariances(bound.X, kernel, n_outputs)

    def _memory_of_invariances(self, X: np.ndarray, kernel: Any, n_outputs: int) -> int:
        """The table of their Gram matrix, and some functions."""
        families = self._invariances().bound(X, self)
        if not families:
            return 0
        kernel = as_kernel(kernel, gamma=self.gamma, degree=self.degree, coef0=self.coef0, X=X)
        size = sum(family.parts(kernel)[0].size for family in families)
        table = min(8.0 * size**2, 1e6 * self.cache_mb)
        return int(table + 8 * size * n_outputs * 4 * FUNCTIONS_AT_ONCE)

    def __sklearn_tags__(self) -> Any:
        """Tables of kernel values are cut by rows and columns."""
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self._precomputed
        tags.input_tags.three_d_array = not self._precomputed
        return tags


def check_epsilon(epsilon: Any, solver: str | Solver) -> None:
    """Raise unless a solver can add planes only where they rise more than `epsilon`."""
    check_number("epsilon", epsilon, minimum=0.0)
    named = "frank_wolfe" if isinstance(solver, str) and solver == "auto" else solver
    known = named if isinstance(named, Solver) else REGISTRY[named]()
    if epsilon > 0 and "epsilon" not in known.get_params():
        raise ValueError(
            "epsilon above 0 needs a solver that adds planes block by block: 'auto', "
            f"'frank_wolfe' or 'svmstruct', got epsilon={epsilon!r} with solver={solver!r}"
        )


def check_cover(bound: BoundOracle, machine: str) -> int:
    """How many members each row's orbit or cover has; TypeError for an oracle without one.

    Parameters
    ----------
    bound : BoundOracle
    machine : str
        Who asks, for the message.
    """
    first = slice(0, 1)
    try:
        size = bound.cover(first).points.shape[1]
    except NotImplementedError as error:
        raise TypeError(
            f"{machine} needs an oracle with an orbit or a cover; {type(bound.oracle).__name__} has "
            "none; linear machines take such: InvariantLinearSVC, InvariantLinearSVR, and "
            "InvariantStructuredSVC with kernel='linear'"
        ) from error
    # An oracle whose answers are graded, but not its members, refuses by name.
    bound.grades(first)
    bound.member_names()
    return size


def _small(space: KernelSpace, normals: AtomRows) -> tuple[KernelSpace, AtomRows]:
    """The same normals in a space that holds nothing but their points."""
    return space.compacted(normals)


def compacted(
    space: KernelSpace,
    solution: Solution,
    shrink: Callable[[KernelSpace, AtomRows], tuple[KernelSpace, AtomRows]] = _small,
) -> tuple[KernelSpace, Solution]:
    """The solution in a space without table and training data; no negligible coefficients."""
    f: Any = solution.f
    planes = solution.planes
    sizes = np.max(np.abs(f.coefficients), axis=1, initial=0.0)
    kept = sizes > NEGLIGIBLE * np.max(sizes, initial=0.0)
    f = f.copy()
    f.coefficients = np.where(kept[:, None], f.coefficients, 0.0)
    used = np.flatnonzero(planes.masses > 0)
    small, rows = shrink(space, space.stack([space.element(f), planes.normals[used]]))
    planes = replace(planes.chosen(used), normals=rows[1:])
    f = small.combine(rows[:1], np.ones(1))
    return small, replace(solution, f=f, planes=planes)


def _with_small_table(space: KernelSpace, normals: AtomRows) -> tuple[KernelSpace, AtomRows]:
    """The same normals over a table that has the rows and columns of their points only."""
    compact, rows = space.compacted(normals)
    numbers = np.unique(compact.atoms.known[:, 0].astype(np.intp))
    kernel: Any = space.kernel
    table = PrecomputedKernel(kernel.gram[np.ix_(numbers, numbers)], numbers)
    # The points stay: only where their values stand is new.
    compact.kernel = compact.atoms.kernel = table
    return compact, rows


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
