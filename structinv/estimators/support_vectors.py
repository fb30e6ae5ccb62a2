"""Kernel machines with support vectors: their fit, their function, and shorter ones."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted

from ..functionals.representers import Representers
from ..kernels import PrecomputedKernel
from ..kernels.values import precision
from ..oracles import InvarianceOracle
from ..oracles.checked_oracle import bind
from ..oracles.listing import listed
from ..solvers import FrankWolfe, Representer, Solution, Solver
from ..spaces import KernelSpace, RepresenterSpace
from ..spaces.atoms import AtomRows
from ..spaces.kernel_space import Expansion
from ..terms import Objective
from ..utils.fitted_state import learned_attributes
from ..utils.matrices import Matrix
from ..utils.parameters import check_integer, check_number
from .compression import compressed, within_budget
from .kernel_machine import (
    FUNCTIONS_AT_ONCE,
    KernelMachine,
    check_cover,
    check_known,
    compacted,
    kernel_memory,
)
from .parameters import check_oracle_type
from .problem import Problem
from .row_shapes import flat_rows, for_oracle, shaped


class SupportVectorMachine(KernelMachine):
    """A kernel machine whose function is a sum over members of S(x), the support vectors."""

    max_support_vectors: int | None = None

    support_: np.ndarray
    support_members_: np.ndarray
    support_transforms_: np.ndarray
    compression_error_: float

    @property
    def _precomputed(self) -> bool:
        """Whether the kernel is a table of values."""
        return isinstance(self.kernel, str) and self.kernel == "precomputed"

    @property
    def _parameters(self) -> np.ndarray | None:
        """What no input multiplies; nothing, by default."""
        return None

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_number("cache_mb", self.cache_mb, strict=True)
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
        if self.max_support_vectors is not None:
            check_integer("max_support_vectors", self.max_support_vectors)
            if self.warm_start:
                raise ValueError(
                    "warm_start must be False with max_support_vectors, after which nothing is left "
                    f"to start from, got max_support_vectors={self.max_support_vectors!r}"
                )

    def _inputs(self, X: Matrix) -> Matrix:
        """What the functions are functions of: rows, or the numbers of those in a table."""
        if not self._precomputed:
            return X
        if X.shape[0] != X.shape[1]:
            raise ValueError(f"X must be square in fit with kernel='precomputed', got shape {X.shape}")
        return np.arange(float(X.shape[0]))[:, None]

    def _objective(self, problem: Problem) -> Objective:
        term = problem.worst_case(self._inputs(problem.rows))
        size = check_cover(term.bound, type(self).__name__)
        check_known(term, size, 1e6 * self.cache_mb)
        kernel = self._trained_kernel(problem.rows, term.X, problem.learned)
        sizes, cache_mb = (term.X.shape[1], term.n_outputs), float(self.cache_mb)
        invariances = self._invariances()
        if not invariances.families:
            space = KernelSpace(kernel, *sizes, cache_mb=cache_mb, n_pairwise=term.labels.n_pairwise)
            return Objective(space, [term])
        parts = [family.parts(kernel) for family in invariances.bound(term.X, self)]
        system = Representers(kernel, parts, cache_mb)
        space = RepresenterSpace(system, *sizes, cache_mb=cache_mb)
        return Objective(space, [term, *invariances.penalties(system, 0, term.n_outputs)])

    def _best_solver(self, objective: Objective) -> tuple[Solver, str]:
        if isinstance(objective.space, RepresenterSpace):
            return Representer(), "penalties on functionals are solved for their coefficients"
        return FrankWolfe(), "kernel machines are solved block by block"

    def _planes_ignore(self) -> frozenset[str]:
        # Planes of members are planes of these members whatever the kernel is; those of a table of
        # values know no inputs.
        if self._precomputed or isinstance(getattr(self, "kernel_", None), PrecomputedKernel):
            return super()._planes_ignore()
        return super()._planes_ignore() | {"kernel", "gamma", "degree", "coef0"}

    def _keep(self, problem: Problem, objective: Objective, solution: Solution) -> None:
        term: Any = objective.terms[0]
        space: Any = objective.space
        dtype = problem.rows.dtype
        space, self.solution_ = compacted(space, solution)
        if self._precomputed:
            _cut_table(space)
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
        """Shorten the expansion of a fit that is done to the budget."""
        if self.max_support_vectors is None or len(self.support_) <= self.max_support_vectors:
            return
        smaller = within_budget(self, objective, self.max_support_vectors)
        # At once: Ctrl-C must not come between.
        self.__dict__.update(learned_attributes(smaller))

    def _scores(self, X: Matrix) -> np.ndarray:
        if self._precomputed:
            return X[:, self.support_] @ self.dual_coef_.T
        return self._expanded(X).astype(precision(X, self.support_vectors_), copy=False)

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

    def _expansion(self, pairwise: np.ndarray | None = None) -> tuple[KernelSpace, Expansion]:
        """The function in a space that holds nothing but its points; with parameters of no input."""
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
        """The function in a space that knows its points or takes them up."""
        origins = np.column_stack([self.support_, self.support_members_])
        keys = space.atoms.add_points(self._atoms(), origins)
        whole = AtomRows(space.atoms, keys, self.dual_coef_.T, np.array([0, len(keys)]))
        f = space.combine(whole, np.ones(1))
        if isinstance(space, RepresenterSpace):
            f += space.of_representers(self.alpha_.T.copy())
        return f

    def _atoms(self) -> np.ndarray:
        """The support vectors as the kernel takes them."""
        return self.support_.astype(np.float64)[:, None] if self._precomputed else self.support_vectors_

    def _take_support(self, kept: np.ndarray, points: np.ndarray, coefficients: np.ndarray) -> None:
        """Keep these support vectors alone, at these points and with these coefficients, (m, k)."""
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
        self._belongs_: dict[str, str] = {}

    def compress(
        self,
        tol: float | None = None,
        *,
        n_support: int | None = None,
        points: str = "auto",
        max_iter: int = 30,
    ) -> Self:
        """A copy with fewer support vectors, and what it lost.

        Either `tol` or `n_support` says how far to go:

        - With `tol`, support vectors are chosen one after the other, each as the one that brings the
          span of those chosen nearest to f, until the norm of what is left is at most ``tol |f|``; the
          copy's function g is the projection of f.
        - With `n_support`, g has at most so many, chosen likewise, and is the least of
          ``sum_j |g(z_j) - f(z_j)|^2 + c |g - f|^2`` over the old support vectors z_j, c being 0.1 times
          the mean of k(z, z): what counts for predictions are scores, and the norm is mostly about
          functions that no input tells apart. Where the kernel has derivatives, the points move, too,
          to where so few of them say most (reduced sets that are constructed: Burges 1996).

        Parameters
        ----------
        tol : float, optional
            Largest norm of the difference, relative to |f|: at least 0 and below 1. 0 leaves out what
            depends on others but for rounding. A norm bounds all scores everywhere, so that a
            small `tol` is far more than equal predictions need.
        n_support : int, optional
            Most support vectors, above 0. A model that has no more is copied as it is.
        points : {"auto", "chosen", "moved"}, default="auto"
            Whether the support vectors of the copy are some of the model's, or move from these.
            "auto" moves them with `n_support` and a kernel whose first derivatives are known ("rbf",
            "poly", "linear", most kernels of `structinv.kernels` on vectors), and chooses otherwise;
            "moved" refuses `tol` and other kernels.
        max_iter : int, default=30
            Steps of L-BFGS by which points move, above 0. Each costs some products of old and new
            support vectors; time is linear in it.

        Returns
        -------
        object
            A fitted estimator of this class, independent of this one, which stays as it is. It
            predicts, certifies and is stored like any other, and all it says is of g: `certify` takes
            margins, norms and rounding from g alone.

            ``compression_error_`` is an upper bound, rounding added, of the norm of the difference to
            the function that was fitted, of all outputs jointly: no score moved by more than
            ``compression_error_ * sqrt(k(z, z))`` at any z. Compressed copies of compressed copies add
            their errors.

            ``support_`` and the like tell of moved points from which row and member they started.
            ``solution_`` has the status "compressed", g, the lower bound of the fit, and no planes: a
            fit with ``warm_start=True`` starts afresh from a compressed model. Its primal value, and
            so its gap, is infinity, since the rows that would tell it are gone (`max_support_vectors` of
            `InvariantSVC` knows them). Iterations, seconds and history are of the fit.

        Raises
        ------
        NotFittedError
            If there is nothing to compress yet.
        ValueError, TypeError
            For arguments that cannot be used, and where the kernel has an eigenvalue below 0 on the
            support vectors, so that there is no norm. Of kernels that are not positive semi-definite by
            construction only these are looked at, and the bound holds where the kernel is one.
        MemoryError
            If the tables would not fit in the memory that is free.

        Notes
        -----
        With n support vectors and m left, choosing takes n m numbers of memory and some
        ``n m^2 + n^2 n_features`` operations; a step of moving ``n m^2 + n m n_features``. Representers
        of `invariances` stay as they are.

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
        >>> moved = np.abs(small.decision_function(X) - model.decision_function(X))
        >>> bool(np.all(moved <= small.compression_error_))
        True
        >>> len(model.compress(0.1).support_) < len(model.support_)
        True
        """
        check_is_fitted(self)
        return compressed(self, tol, n_support, points, max_iter)

    def _memory(self, X: Any, y: Any) -> float:
        self._check_parameters()
        oracle = shaped(check_oracle_type(self.oracle), self, X)
        given = X
        X = check_array(flat_rows(X), dtype=self._rows["dtype"], estimator=self, input_name="X")
        labels, n_outputs, n_labels = self._sizes(X, y)
        bound = bind(oracle, self._inputs(for_oracle(X, oracle)), labels)
        size = check_cover(bound, type(self).__name__)
        kept, tables = kernel_memory(bound.X, size, n_labels, 1e6 * self.cache_mb, n_outputs)
        n_functionals = self._n_functionals(bound.X, given)
        gram = min(8.0 * n_functionals**2, 1e6 * self.cache_mb)
        return kept + tables + gram + 8.0 * n_functionals * n_outputs * 4 * FUNCTIONS_AT_ONCE

    def __sklearn_tags__(self) -> Any:
        """Tables of kernel values are cut by rows and columns."""
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self._precomputed
        tags.input_tags.three_d_array = not self._precomputed
        return tags


def _cut_table(space: KernelSpace) -> None:
    """Keep of a table of kernel values the rows and columns of the points in use alone."""
    numbers = np.unique(space.atoms.known[:, 0].astype(np.intp))
    kernel: Any = space.kernel
    # The points stay: only where their values stand is new.
    space.kernel = space.atoms.kernel = PrecomputedKernel(kernel.gram[np.ix_(numbers, numbers)], numbers)
