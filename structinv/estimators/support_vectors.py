"""Base class of kernel models with support vectors: fit, scores and compression."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from typing import Any, Self, TypeVar

import numpy as np
from sklearn.base import clone
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted

from ..functionals.representers import Representers
from ..kernels.indefinite import MOST_ROWS, min_eigenvalue, rounding_of, spread_over
from ..kernels.kernel_names import PrecomputedKernel
from ..kernels.kernel_values import precision
from ..oracles import InvarianceOracle
from ..oracles.listed_changes import listed
from ..oracles.third_party import bind
from ..solvers import FrankWolfe, Representer, Solution, Solver, Start, Status
from ..solvers.checkpoint import Checkpoint
from ..spaces import RepresenterSpace
from ..spaces.kernel_space import Expansion, KernelSpace
from ..spaces.point_sums import PointSums
from ..spaces.reduced_sets import (
    TargetExpansion,
    best_coefficients,
    chosen_atoms,
    has_gradients,
    largest_change,
    moved_points,
)
from ..terms import Objective
from ..utils.matrices import Matrix
from ..utils.parameters import check_integer, check_number, learned_attributes
from ..utils.resources import check_memory
from .base import Problem
from .inputs import check_oracle_type, check_plane_tol, flat_rows, for_oracle, shaped
from .kernel_machine import (
    FUNCTIONS_AT_ONCE,
    KernelMachine,
    check_cover,
    compacted,
    kernel_memory,
)


class SupportVectorMachine(KernelMachine):
    """Base class of kernel models whose function is a sum over perturbed samples."""

    plane_tol: float = 0.0
    max_support_vectors: int | None = None

    support_: np.ndarray
    support_members_: np.ndarray
    support_transforms_: np.ndarray
    compression_error_: float

    @property
    def _precomputed(self) -> bool:
        """Whether X is a kernel matrix."""
        return isinstance(self.kernel, str) and self.kernel == "precomputed"

    @property
    def _parameters(self) -> np.ndarray | None:
        """Pairwise weights; None if there are none."""
        return None

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_number("cache_mb", self.cache_mb, strict=True)
        check_plane_tol(self.plane_tol, self.solver)
        invariances = self._invariances()
        if self._precomputed and invariances.families:
            raise ValueError(
                "invariances must be empty with kernel='precomputed', since functionals require features"
            )
        if self._precomputed and self.oracle is not None:
            raise ValueError(
                "oracle must be None with kernel='precomputed', since perturbations require features, "
                f"got {self.oracle!r}"
            )
        if self.max_support_vectors is not None:
            check_integer("max_support_vectors", self.max_support_vectors)
            if self.warm_start:
                raise ValueError(
                    "warm_start must be False with max_support_vectors, since fits cannot continue "
                    f"from a compressed model, got max_support_vectors={self.max_support_vectors!r}: "
                    "set warm_start=False or max_support_vectors=None"
                )

    def _inputs(self, X: Matrix) -> Matrix:
        """Return the inputs of the kernel: rows, or row indices of a kernel matrix."""
        if not self._precomputed:
            return X
        if X.shape[0] != X.shape[1]:
            raise ValueError(f"X must be square in fit with kernel='precomputed', got shape {X.shape}")
        return np.arange(float(X.shape[0]))[:, None]

    def _keeps_rows(self) -> bool:
        return len(self.invariances) > 0

    def _objective(self, problem: Problem) -> Objective:
        term = self._worst_case(problem, self._inputs(problem.rows))
        kernel = self._trained_kernel(problem.rows, term.X, problem.learned)
        sizes, cache_mb = (term.X.shape[1], term.n_outputs), float(self.cache_mb)
        invariances = self._invariances()
        if not invariances.families:
            space = KernelSpace(
                kernel, *sizes, cache_mb=cache_mb, n_pairwise=term.bound_structure.n_pairwise
            )
            return Objective(space, [term])
        parts = [family.parts(kernel) for family in invariances.bound(term.X, self)]
        system = Representers(kernel, parts, cache_mb)
        space = RepresenterSpace(system, *sizes, cache_mb=cache_mb)
        return Objective(space, [term, *invariances.penalties(system, 0, term.n_outputs)])

    def _best_solver(self, objective: Objective) -> tuple[Solver, str]:
        if isinstance(objective.space, RepresenterSpace):
            return Representer(), "the objective has smoothness penalties"
        return FrankWolfe(), "the model has a kernel"

    def _solver(self, objective: Objective) -> Solver:
        solver = super()._solver(objective)
        return solver.set_params(plane_tol=self.plane_tol) if self.plane_tol > 0 else solver

    def _start(self, objective: Objective, checkpoint: Checkpoint | None) -> Start | None:
        start = super()._start(objective, checkpoint)
        if start is None or not self._precomputed:
            return start
        # Points are numbers of rows, and the fitted model numbers its support vectors instead.
        return Start(objective.space.zeros(), start.dual_variables)

    def _keep(self, problem: Problem, objective: Objective, solution: Solution) -> None:
        term: Any = objective.terms[0]
        space: Any = objective.space
        dtype = problem.rows.dtype
        space, self.solution_ = compacted(space, solution)
        if self._precomputed:
            _reduce_to_support(space)
        self.kernel_ = space.kernel
        f: Any = self.solution_.f
        used = f.support()
        rows, members = space.atoms.origins[used].T
        order = np.lexsort((members, rows))
        used, rows, members = used[order], rows[order], members[order]
        points = np.zeros((0, 0)) if self._precomputed else space.atoms.points(used)
        self.support_vectors_ = points.astype(dtype, copy=False)
        self.support_ = rows
        self.support_members_ = members
        self.support_transforms_ = np.array(listed(term.bound).names)[members]
        self.dual_coef_ = np.ascontiguousarray(f.coefficients[used].T, dtype=dtype)
        self._representers_ = None
        self.alpha_ = np.zeros((term.n_outputs, 0))
        if isinstance(space, RepresenterSpace):
            system: Any = space.system
            self._representers_ = system
            self.alpha_ = np.ascontiguousarray(f.representers.T)
        self.compression_error_ = 0.0

    def _finish(self, objective: Objective) -> None:
        """Compress the model to `max_support_vectors`, and compute the value of its function."""
        if self.max_support_vectors is None or len(self.support_) <= self.max_support_vectors:
            return
        smaller = self.compress(n_support=self.max_support_vectors)
        space: Any = objective.space
        value = objective.value(smaller._in(space)).upper
        gap = value - smaller.solution_.dual
        scale = max(value, LEAST_SHARE * objective.at_zero.upper)
        smaller.solution_ = replace(
            smaller.solution_, primal=value, gap=gap, relative_gap=gap / scale if scale > 0 else 0.0
        )
        # One update, which Ctrl-C cannot interrupt.
        self.__dict__.update(learned_attributes(smaller))

    def _scores(self, X: Matrix) -> np.ndarray:
        if self._precomputed:
            return X[:, self.support_] @ self.dual_coef_.T
        return self._expanded(X).astype(precision(X, self.support_vectors_), copy=False)

    def _function(
        self, X: Matrix, oracle: InvarianceOracle, labels: np.ndarray | None
    ) -> tuple[KernelSpace, Expansion]:
        """Return a space without training data, and the function in it.

        `labels` contains the label of the first row, for oracles that depend on labels.
        """
        if self._precomputed:
            raise ValueError(
                "certify and worst_case require features, so kernel must not be 'precomputed'"
            )
        check_cover(bind(oracle, X[:1], labels), type(self).__name__)
        return self._expansion()

    def _expansion(self, pairwise: np.ndarray | None = None) -> tuple[KernelSpace, Expansion]:
        """Return a space that contains only the support vectors, and the function in it."""
        sizes = self._atoms().shape[1], len(self.dual_coef_)
        n_pairwise = 0 if pairwise is None else len(pairwise)
        space = KernelSpace(self.kernel_, *sizes, cache_mb=0.0, n_pairwise=n_pairwise)
        if self._representers_ is not None:
            space = RepresenterSpace(self._representers_.emptied(), *sizes, cache_mb=0.0)
        f = self._in(space)
        if pairwise is not None:
            f.pairwise[:] = pairwise
        return space, f

    def _in(self, space: KernelSpace) -> Expansion:
        """Return the function as an element of a space."""
        origins = np.column_stack([self.support_, self.support_members_])
        keys = space.atoms.add_points(self._atoms(), origins)
        pairwise = np.zeros((1, space.n_pairwise))
        whole = PointSums(keys, self.dual_coef_.T, np.array([0, len(keys)]), pairwise)
        f = space.combine(whole, np.ones(1))
        if isinstance(space, RepresenterSpace):
            f += space.of_representers(self.alpha_.T.copy())
        return f

    def _atoms(self) -> np.ndarray:
        """Return the support vectors as inputs of the kernel."""
        return self.support_.astype(np.float64)[:, None] if self._precomputed else self.support_vectors_

    def _take_support(self, kept: np.ndarray, points: np.ndarray, coefficients: np.ndarray) -> None:
        """Replace the support vectors by a subset with new points and coefficients (m, k)."""
        if self._precomputed:
            rows = self.support_[kept]
            numbers = np.unique(rows)
            table = self.kernel_.matrix(numbers[:, None], numbers[:, None])
            self.kernel_ = PrecomputedKernel(table, numbers)
        else:
            self.support_vectors_ = points
        self.support_ = self.support_[kept]
        self.support_members_ = self.support_members_[kept]
        self.support_transforms_ = self.support_transforms_[kept]
        self.dual_coef_ = np.ascontiguousarray(coefficients.T)

    def compress(
        self,
        tol: float | None = None,
        *,
        n_support: int | None = None,
        points: str = "auto",
        max_iter: int = 30,
    ) -> Self:
        """Return a copy of the model with fewer support vectors.

        Pass either `tol` or `n_support`:

        - With `tol`, support vectors are selected one by one. Each step selects the vector that most
          reduces the distance of the fitted function f from the span of the selected vectors. The
          selection ends if this distance is at most ``tol |f|``. The new function g is the projection of
          f.
        - With `n_support`, at most that many are selected in the same way. The function g then minimizes
          ``sum_j |g(z_j) - f(z_j)|^2 + c |g - f|^2`` over the old support vectors z_j, with c = 0.1
          times the mean of k(z, z). This mainly reduces the differences of the scores at the old support
          vectors. If the kernel has derivatives, the points are also optimized (constructed reduced
          sets, Burges 1996).

        Parameters
        ----------
        tol : float or None, default=None
            Largest norm of the difference relative to ``|f|`` (>= 0 and < 1). 0 removes only linearly
            dependent support vectors. Increase it for fewer support vectors. A score at z changes by at
            most this norm times ``sqrt(k(z, z))``. Usually it changes far less, so predictions can be
            equal even if `tol` is not small.
        n_support : int or None, default=None
            Maximum number of support vectors (>= 1). A model with no more support vectors is copied
            unchanged.
        points : {"auto", "chosen", "moved"}, default="auto"
            Use of the support vectors: "chosen" keeps a subset, "moved" optimizes their positions.
            "auto" means "moved" with `n_support` and a kernel with first derivatives, and "chosen"
            otherwise. Such kernels are "rbf", "poly", "linear", and most kernels of `structinv.kernels`
            on vectors. "moved" raises ValueError for `tol` and for other kernels.
        max_iter : int, default=30
            Number of L-BFGS steps to move the points (>= 1). Increase it for a smaller error; the run
            time is proportional.

        Returns
        -------
        estimator
            Fitted, independent copy of this estimator, which remains unchanged. `certify` of the copy
            uses g, so its certificates hold for the copy.

            ``compression_error_`` is the largest absolute change of a score at the support vectors of
            this model, measured there. It is not a bound for other samples. Subtract the scores of both
            models to measure the change at other samples. After several compressions it is that of the
            last one.

            ``support_`` and similar attributes of a moved point describe the support vector from which
            the optimization started. ``solution_`` has the status "compressed", the function g and the
            lower bound of the fit, but no dual variables. A fit with ``warm_start=True`` starts from g.
            The primal value and the gap are infinite, since they require the training samples
            (`max_support_vectors` computes them). Iterations, seconds and history are those of the fit.

        Raises
        ------
        NotFittedError
            If the model is not fitted.
        ValueError, TypeError
            If arguments are not valid, or if the kernel matrix of the support vectors has a negative
            eigenvalue.
        MemoryError
            If the matrices exceed the free memory.

        Notes
        -----
        With n support vectors before and m after, selection stores n m numbers and takes about
        ``n m^2 + n^2 n_features`` operations. Each step of moving takes ``n m^2 + n m n_features``
        operations. Representers of `invariances` remain unchanged.

        Examples
        --------
        >>> import numpy as np
        >>> from structinv import InvariantSVC
        >>> from structinv.oracles import Shifts
        >>> X = np.random.default_rng(0).standard_normal((60, 9))
        >>> y = X[:, 4] > X.mean(axis=1)
        >>> model = InvariantSVC(Shifts(1, shape=(3, 3)), C=10.0, random_state=0).fit(X, y)
        >>> small = model.compress(n_support=20)
        >>> len(model.support_) > 100, len(small.support_), small.solution_.status.value
        (True, 20, 'compressed')
        >>> Z = model.support_vectors_
        >>> changes = np.abs(small.decision_function(Z) - model.decision_function(Z))
        >>> bool(np.isclose(changes.max(), small.compression_error_))
        True
        >>> len(model.compress(0.1).support_) < len(model.support_)
        True
        """
        check_is_fitted(self)
        return compressed(self, tol, n_support, points, max_iter)

    def _memory(self, X: Any, y: Any) -> float:
        oracle = shaped(check_oracle_type(self.oracle), self, X)
        given = X
        X = check_array(flat_rows(X), dtype=self._rows["dtype"], estimator=self, input_name="X")
        labels, n_outputs, n_labels = self._sizes(X, y)
        bound = bind(oracle, self._inputs(for_oracle(X, oracle)), labels)
        size = check_cover(bound, type(self).__name__)
        kept, tables = kernel_memory(bound.X, size, n_labels, 1e6 * self.cache_mb, n_outputs)
        n_functionals = sum(parts[0].size for parts in self._parts(bound.X, given))
        gram = min(8.0 * n_functionals**2, 1e6 * self.cache_mb)
        return kept + tables + gram + 8.0 * n_functionals * n_outputs * 4 * FUNCTIONS_AT_ONCE

    def __sklearn_tags__(self) -> Any:
        """Declare a pairwise input for precomputed kernels."""
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self._precomputed
        tags.input_tags.three_d_array = not self._precomputed
        return tags


def _reduce_to_support(space: KernelSpace) -> None:
    """Reduce a precomputed kernel matrix to the rows and columns of the support vectors."""
    numbers = np.unique(space.atoms.known[:, 0].astype(np.intp))
    kernel: Any = space.kernel
    # Row indices stay valid; the new kernel stores their positions.
    space.kernel = space.atoms.kernel = PrecomputedKernel(kernel.gram[np.ix_(numbers, numbers)], numbers)


Model = TypeVar("Model", bound="SupportVectorMachine")

POINTS = ("auto", "chosen", "moved")
# Number of matrices (support vectors times points, single precision) in memory while points move.
TABLES_AT_ONCE = 5
# Gaps of small objectives are relative to this fraction of the objective at zero.
LEAST_SHARE = 1e-12


def compressed(
    model: Model, tol: float | None, n_support: int | None, points: str, max_iter: int
) -> Model:
    """Return a copy with fewer support vectors, as described in `compress`."""
    moving = _check_compression(model, tol, n_support, points, max_iter)
    n_before = len(model.support_)
    if n_support is not None and n_before <= n_support:
        return _copied(model)
    most = n_before if n_support is None else int(n_support)
    check_compression_memory(n_before, most, moving)
    whole = TargetExpansion.of(model.kernel_, model._atoms(), model.dual_coef_.T)
    least = 0.0 if tol is None else float(tol) ** 2 * _squared_norm(model, whole)
    kept = np.sort(chosen_atoms(whole, most, least)[0])
    if len(kept) == n_before:
        return _copied(model)
    places = whole.points[kept]
    if moving and len(kept):
        places = moved_points(whole, places, int(max_iter))
    return _shortened(model, whole, kept, places, n_support is not None)


def _check_compression(model: Any, tol: Any, n_support: Any, points: Any, max_iter: Any) -> bool:
    """Raise if an argument is not valid; return True if points are to be moved."""
    if (tol is None) == (n_support is None):
        raise ValueError(
            f"either tol or n_support must be given, got tol={tol!r} and n_support={n_support!r}"
        )
    if tol is not None:
        check_number("tol", tol)
        if tol >= 1:
            raise ValueError(f"tol must be below 1, since 1 allows the zero function, got {tol!r}")
    else:
        check_integer("n_support", n_support)
    check_integer("max_iter", max_iter)
    if not isinstance(points, str) or points not in POINTS:
        raise ValueError(f"points must be one of {list(POINTS)}, got {points!r}")
    if "support_" not in vars(model):
        raise ValueError(
            "compress requires support vectors, but a model with kernel='linear' has weights: use "
            "another kernel, such as 'rbf'"
        )
    _check_norm(model)
    possible = has_gradients(model.kernel_)
    if points == "moved" and tol is not None:
        raise ValueError("points='moved' requires n_support, got tol: pass n_support instead of tol")
    if points == "moved" and not possible:
        raise ValueError(
            f"points='moved' requires a kernel with first derivatives, got {model.kernel_!r}"
        )
    return points != "chosen" and tol is None and possible


def _check_norm(model: SupportVectorMachine) -> None:
    """Raise ValueError if the kernel has an eigenvalue below 0 on the support vectors."""
    if model.kernel_.definite or not len(model.support_):
        return
    least, largest = min_eigenvalue(model.kernel_, spread_over(model._atoms(), MOST_ROWS))
    if least < -rounding_of(model.dual_coef_.dtype) * largest:
        raise ValueError(
            "compress requires a positive semi-definite kernel, but the eigenvalues of "
            f"{model.kernel_!r} on the support vectors go from {least:.3g} to {largest:.3g}. Fit with "
            "structinv.kernels.psd_corrected(kernel, X)"
        )


def _shortened(
    model: Model, whole: TargetExpansion, kept: np.ndarray, places: np.ndarray, by_scores: bool
) -> Model:
    """Return a copy of the model whose support vectors are `places`, the replacements of `kept`."""
    points = places.astype(model._atoms().dtype)
    # The error is computed for the rounded points of the copy.
    places = points.astype(np.float64)
    some, new = best_coefficients(whole, places, by_scores)
    new = new.astype(model.dual_coef_.dtype)
    other = _copied(model)
    other._take_support(kept[some], points[some], new)
    other.compression_error_ = largest_change(whole, places[some], new)
    f: Any = other._expansion(other._parameters)[1]
    other.solution_ = replace(
        model.solution_, f=f, primal=np.inf, gap=np.inf, relative_gap=np.inf,
        status=Status.COMPRESSED, dual_variables=[],
    )  # fmt: skip
    return other


def _copied(model: Model) -> Model:
    """Return an independent copy with the same solution, since solutions are never changed."""
    other: Any = clone(model)
    for name, value in learned_attributes(model).items():
        setattr(other, name, value if name == "solution_" else deepcopy(value))
    return other


def _squared_norm(model: SupportVectorMachine, whole: TargetExpansion) -> float:
    """Return the squared norm of the whole function, with representers."""
    if model._representers_ is None:
        return whole.squared_norm
    space, f = model._expansion()
    return float(space.dot(f, f))


def check_compression_memory(n_before: int, most: int, moving: bool) -> None:
    """Raise MemoryError if the matrices of a compression exceed the free memory."""
    needed = 8.0 * n_before * most * 2
    if moving:
        needed = max(needed, 4.0 * TABLES_AT_ONCE * (n_before + most) * most)
    what = f"compressing {n_before} support vectors to at most {most}"
    check_memory(what, needed, "pass a smaller n_support, or fit with plane_tol above 0")
