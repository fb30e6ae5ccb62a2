"""What kernel machines with families of functionals share: checks, the fit, scores."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import is_regressor
from sklearn.utils import check_array
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from ..functionals import Evaluation, Functional
from ..functionals.base import BoundFunctional
from ..functionals.representers import Representers
from ..kernels import Kernel
from ..kernels.definiteness import trained_kernel
from ..kernels.names import as_kernel
from ..kernels.questions import kernel_matrix
from ..losses import REGISTRY as LOSSES
from ..losses import ScalarLoss
from ..objective import Objective, Term
from ..oracles import InvarianceOracle
from ..oracles.arguments import hint_of
from ..oracles.checked import bind
from ..solvers import REGISTRY, Representer, Solution, Solver
from ..solvers.newton_cg import NewtonCG
from ..solvers.representer import METHODS
from ..spaces import RepresenterSpace
from .base import ConvexEstimator, FitTask, check_boolean, check_number
from .continuing import Continuing
from .invariances import Invariances
from .kernel_machine import FUNCTIONS_AT_ONCE, check_cover, compacted, kernel_memory
from .labels import check_one_kind, one_a_row, say_what_is_missing, without_label
from .shapes import check_shape, flat_rows, shaped

# A Gram matrix, its scaled copies and factors.
COPIES_OF_A_TABLE = 5
KERNELS = ("laplacian", "linear", "poly", "rbf")


class RepresenterEstimator(ConvexEstimator):
    """What classifiers and regressors with families of functionals share.

    Subclasses store `kernel` and its parameters, `invariances` with `nu`, losses and their parameters,
    `C`, `bias` and `cache_mb`, and name the losses that they take.
    """

    _losses: tuple[str, ...] = ()
    oracle: InvarianceOracle | None = None
    losses_on: Functional | None = None

    def _check_parameters(self) -> Invariances:
        self._check_common()
        if self.losses_on is not None:
            if not isinstance(self.losses_on, Functional):
                hint = hint_of(self.losses_on)
                raise TypeError(f"losses_on must be a Functional or None, got {self.losses_on!r}{hint}")
            if self.oracle is not None:
                raise ValueError(
                    "losses_on must be None with an oracle, whose worst cases are of values"
                )
        check_number("C", self.C, minimum=0.0, strict=True)
        check_number("cache_mb", self.cache_mb, minimum=0.0)
        check_boolean("bias", self.bias)
        self._loss()
        if isinstance(self.kernel, str) and self.kernel not in KERNELS:
            # That of "precomputed" shows no inputs that functionals could act on.
            raise ValueError(
                f"kernel must be one of {list(KERNELS)}, a Kernel or a callable, got {self.kernel!r}"
            )
        return Invariances(self._families(), self.nu, self.invariance_loss, self.invariance_loss_params)

    def _families(self) -> Any:
        return self.invariances

    def _loss(self) -> ScalarLoss:
        """The loss of labelled rows, its parameters checked."""
        if not isinstance(self.loss, str) or self.loss not in self._losses:
            raise ValueError(f"loss must be one of {list(self._losses)}, got {self.loss!r}")
        kind = LOSSES[self.loss]
        if self.loss_params is not None and not isinstance(self.loss_params, dict):
            raise TypeError(f"loss_params must be a dict or None, got {self.loss_params!r}")
        parameters = self.loss_params or {}
        unknown = set(parameters) - set(kind().get_params())
        if unknown:
            raise ValueError(
                f"loss_params has {sorted(unknown)}, which loss={self.loss!r} does not take"
            )
        loss = kind(**parameters)
        loss.validate()
        return loss

    def _check_solver(self) -> None:
        names = ["auto", *REGISTRY, *METHODS[1:]]
        known = isinstance(self.solver, str) and self.solver in names
        if not known and not isinstance(self.solver, Solver):
            raise ValueError(f"solver must be one of {sorted(names)} or a Solver, got {self.solver!r}")

    def _make_solver(self, objective: Objective) -> Solver:
        if isinstance(self.solver, str) and self.solver in METHODS[1:]:
            return Representer(self.solver)
        return super()._make_solver(objective)

    def _best_solver(self, objective: Objective) -> Solver:
        return Representer()

    def _train(
        self,
        X: np.ndarray,
        labelled: np.ndarray,
        invariances: Invariances,
        n_outputs: int,
        loss_of: Callable[[Representers], Term],
        task: FitTask,
        going: Continuing,
        learnt: dict[str, Any],
    ) -> Objective:
        """Minimise the objective of the labelled rows' term and all invariances, and keep the result.

        `learnt` are attributes that the labels tell.
        """
        kernel = shaped(self.kernel, self, X)
        kernel = as_kernel(kernel, gamma=self.gamma, degree=self.degree, coef0=self.coef0, X=X)
        kernel, least = trained_kernel(kernel, X, type(self).__name__)
        learnt = {**learnt, "least_eigenvalue_": least}
        families = [self._labelled_functionals(X, labelled), *invariances.bound(X, self)]
        parts = [family.parts(kernel) for family in families]
        size, n_labelled = parts[0][0].size, len(X[labelled])
        if size != n_labelled:
            raise ValueError(
                f"losses_on must have one functional a row, got {size} of {self.losses_on!r} for "
                f"{n_labelled} labelled rows"
            )
        representers = Representers(kernel, parts, float(self.cache_mb))
        space = RepresenterSpace(
            representers,
            X.shape[1],
            n_outputs,
            free_degree=0 if self.bias else None,
            cache_mb=float(self.cache_mb),
        )
        terms = [loss_of(representers), *invariances.penalties(representers, 1, n_outputs)]
        objective = Objective(space, terms)

        def learn(estimator: Any, solution: Solution) -> None:
            vars(estimator).update(learnt)
            estimator._keep(representers, space, solution)

        task.learn = learn
        solution = self._minimise(objective, self._make_solver(objective), task, going)
        representers.forget()
        learn(self, solution)
        going.keep(solution)
        return objective

    def _labelled_functionals(self, X: np.ndarray, labelled: np.ndarray) -> BoundFunctional:
        """What the losses of labels look at: values of f at the labelled rows, by default."""
        if self.losses_on is None:
            return Evaluation(labelled).bind(X)
        return shaped(self.losses_on, self, X).bind(X[labelled])

    def _keep(self, representers: Representers, space: RepresenterSpace, solution: Solution) -> None:
        """Learn from the solution what predictions need."""
        if len(space.atoms):
            # The tables of the worst changes are not kept.
            _, solution = compacted(space, solution)
        f: Any = solution.f
        self.kernel_: Kernel = space.kernel
        self.solution_ = solution
        self.n_iter_ = solution.iterations
        self.alpha_ = np.ascontiguousarray(f.representers.T)
        self.intercept_ = f.free[0].copy() if self.bias else np.zeros(space.n_outputs)
        self._representers_ = representers
        used = f.support()
        self.support_vectors_ = f.atoms.points(used)
        self.dual_coef_ = np.ascontiguousarray(f.coefficients[used].T)

    def _memory(self, X: Any, y: Any) -> float:
        invariances = self._check_parameters()
        oracle: Any = self.oracle
        kernel = shaped(self.kernel, self, X)
        oracle = None if oracle is None else shaped(oracle, self, X)
        X = check_array(flat_rows(X), dtype=[np.float64, np.float32], estimator=self, input_name="X")
        labels = None if y is None else one_a_row(y, len(X))
        n_classes = 2 if labels is None or is_regressor(self) else self._n_classes(labels)
        n_outputs = 1 if n_classes == 2 else n_classes
        kernel = as_kernel(kernel, gamma=self.gamma, degree=self.degree, coef0=self.coef0, X=X)
        families = invariances.bound(X, self)
        size = len(X) + sum(part.size for family in families for part in family.parts(kernel)[:1])
        needed = X.nbytes + self._tables(len(X), size) + 8.0 * size * n_outputs * 4 * FUNCTIONS_AT_ONCE
        if oracle is not None:
            oracle.validate(X.shape[1])
            members = check_cover(bind(oracle, X, labels), type(self).__name__)
            needed += sum(kernel_memory(X, members, n_classes, 1e6 * self.cache_mb, n_outputs))
        return needed

    def _n_classes(self, labels: np.ndarray) -> int:
        known = labels[~without_label(labels, self.unlabeled)]
        check_one_kind(known, say_what_is_missing(self.unlabeled))
        return len(np.unique(known))

    def _tables(self, n_rows: int, size: int) -> float:
        """Bytes of Gram matrices of so many functionals, or of the tables that fast products take."""
        whole = 8.0 * size**2
        named = self.solver if isinstance(self.solver, str) else ""
        if size <= NewtonCG().max_direct or named in ("dual-cd", "cvxpy"):
            return COPIES_OF_A_TABLE * min(whole, 1e6 * self.cache_mb)
        return 3 * 8.0 * n_rows**2

    def _scores(self, X: Any) -> np.ndarray:
        """``f(x, k)``, (n, n_outputs)."""
        check_is_fitted(self)
        check_shape(self, X)
        X = flat_rows(X)
        return self._values(validate_data(self, X, reset=False, dtype=[np.float64, np.float32]))

    def _values(self, X: np.ndarray) -> np.ndarray:
        """`_scores` of checked rows."""
        scores = self._representers_.values(self.alpha_.T, X) + self.intercept_
        if len(self.support_vectors_):
            scores = scores + kernel_matrix(self.kernel_, X, self.support_vectors_) @ self.dual_coef_.T
        return scores

    def _sample_weights(self, sample_weight: Any, X: np.ndarray, labelled: np.ndarray) -> np.ndarray:
        weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        weights = weights[labelled]
        if not np.any(weights > 0):
            raise ValueError("sample_weight must leave a labelled sample with a weight above 0")
        return weights
