"""Base class of estimators: the data, the steps and the parameters of a fit."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import KW_ONLY, dataclass, field, replace
from numbers import Integral
from os import PathLike
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from ..losses import Logistic, ScalarLoss, SquaredHinge
from ..oracles import InvarianceOracle
from ..solvers import REGISTRY, Gap, Seconds, Solution, Solver, Start, Status, solve
from ..solvers.checkpoint import Checkpoint
from ..solvers.stopping import Progress, StopRule
from ..structures import Layout
from ..terms import REGISTRY as TERMS
from ..terms import Objective, WorstCase
from ..terms.blockwise_term import BlockSizes, BlockwiseTerm
from ..terms.worst_case import WorstMargin
from ..utils.matrices import Matrix, Rows, independent
from ..utils.parameters import brief, check_boolean, check_number
from ..utils.printing import warn
from .advice import ResourceEstimateMixin, nothing_learned, scale_of_columns
from .fit_progress import (
    CallbackSupportMixin,
    FitTask,
    all_or_nothing,
    displays,
    passes_shown,
    with_callbacks,
)
from .inputs import (
    are_plain,
    as_labels,
    check_on_interrupt,
    check_oracle_type,
    check_shape,
    flat_rows,
    for_oracle,
    learn_shape,
    one_label_a_row,
    refuse_sources,
    shaped,
)

HINGE = "hinge"
# Losses of the smallest margin, for two classes. Only the hinge has costs and more classes.
SMOOTH: dict[str, type[ScalarLoss]] = {"squared_hinge": SquaredHinge, "logistic": Logistic}
MARGIN_LOSSES = (HINGE, *SMOOTH)


@dataclass(frozen=True)
class Problem:
    """Checked data and settings of a fit.

    - `rows` (n_rows, n_features): all checked rows; for custom structures a list of inputs
    - `labels` (n_labeled,): labels or targets of the labeled rows; labelings for custom structures
    - `oracle`: oracle for rows of this shape
    - `structure`: output structure
    - `weights` (n_examples,): weights of the examples, C included
    - `learned`: attributes of the fitted estimator that are known before the fit
    - `loss`: one of `MARGIN_LOSSES`
    - `classes` (n_classes,): sorted labels; None for targets
    - `layout`: assignment of rows to examples; None for single rows
    - `cost` (n_classes, n_classes): misclassification costs; 1 by default
    - `rescaling`: use of the costs, as in `WorstCase`
    - `position_weight` (n_rows,): factors of the costs at each row; 1 by default
    - `target_mean`: mean that was subtracted from the targets
    - `labeled` (n_labeled,): indices of the labeled rows; all by default
    - `targets` (n_labeled, n_outputs): targets of the functions at the labeled rows, for losses without
      oracle
    - `shown`: X, y and sample weights for scikit-learn's callbacks, if they differ from the given ones
    """

    rows: Any
    labels: Any
    oracle: InvarianceOracle
    structure: Any
    weights: np.ndarray
    learned: dict[str, Any]
    loss: str = HINGE
    classes: np.ndarray | None = None
    layout: Layout | None = None
    cost: ArrayLike | None = None
    rescaling: str = "margin"
    position_weight: np.ndarray | None = None
    target_mean: float = 0.0
    labeled: np.ndarray | None = None
    targets: Any = None
    shown: tuple[Any, Any, Any] | None = None

    @property
    def n_outputs(self) -> int:
        """Number of functions: one for two classes or numbers, else one per class."""
        return 1 if self.classes is None or len(self.classes) == 2 else len(self.classes)

    @property
    def labeled_rows(self) -> Any:
        """Rows with a label."""
        return self.rows if self.labeled is None else self.rows[self.labeled]

    def worst_case(self, inputs: Any = None) -> WorstCase:
        """Return the worst-case loss of the labeled rows.

        Shapes: `inputs` (n_labeled, n_features).
        """
        X = self.labeled_rows if inputs is None else inputs
        if self.loss != HINGE:
            loss = SMOOTH[self.loss]()
            return WorstMargin(X, self.labels, self.oracle, loss, self.weights, self.classes)
        term: Any = TERMS[self.structure.term]
        return term(
            X,
            self.labels,
            self.oracle,
            self.structure,
            self.weights,
            self.classes,
            layout=self.layout,
            cost=self.cost,
            rescaling=self.rescaling,
            position_weight=self.position_weight,
        )

    def in_blocks(self, sizes: BlockSizes) -> BlockwiseTerm:
        """Return the worst-case loss of rows in blocks."""
        bound_structure = self.structure.bind(
            self.labels, self.classes, cost=self.cost, rescaling=self.rescaling
        )

        def part(X: Matrix, rows: Rows) -> WorstCase:
            some = replace(self, rows=X, labels=self.labels[rows], weights=self.weights[rows])
            return some.worst_case()

        return BlockwiseTerm(self.rows, part, bound_structure, self.weights, sizes)


def check_margin_loss(loss: Any, oracle: InvarianceOracle, cost: Any, rescaling: str) -> None:
    """Raise ValueError unless the loss exists and suits oracle and costs."""
    if not isinstance(loss, str) or loss not in MARGIN_LOSSES:
        raise ValueError(f"loss must be one of {list(MARGIN_LOSSES)}, got {brief(loss)}")
    if loss == HINGE:
        return
    if cost is not None:
        raise ValueError(
            f"cost must be None with loss={loss!r}, got cost={brief(cost)}: "
            "use class_weight for the errors of a class, or loss='hinge'"
        )
    if rescaling != "margin":
        raise ValueError(
            f"rescaling must be 'margin' with loss={loss!r}, got rescaling={rescaling!r}: "
            "use class_weight for the errors of a class, or loss='hinge'"
        )
    if oracle.graded:
        raise ValueError(
            f"loss must be 'hinge' with a discounted oracle, got loss={brief(loss)} with "
            f"oracle={oracle!r}"
        )


def check_two_classes(loss: str, n_classes: int) -> None:
    """Raise ValueError for more than two classes and a loss other than the hinge."""
    if loss != HINGE and n_classes > 2:
        # scikit-learn's estimator checks require some of these words.
        raise ValueError(
            f"loss must be 'hinge' for more than two classes, got loss={brief(loss)} and {n_classes} "
            "classes in y: use loss='hinge' or scikit-learn's OneVsRestClassifier. Only binary "
            f"classification is supported with {loss!r}. The type of the target is multiclass"
        )


# Parts of estimators that may be None, with an example.
_PARTS = {"oracle": "FDrop(0)", "vectorizer": "TfidfVectorizer()"}


@dataclass(eq=False, repr=False)
class InvariantEstimator(ResourceEstimateMixin, CallbackSupportMixin, BaseEstimator):
    """Base class of estimators that minimize an objective.

    The method `_fit` contains all steps of a fit. Subclasses implement:

    - `_check_parameters`: checks without data;
    - `_read`: the `Problem` for rows and labels;
    - `_objective`: the losses and the function space;
    - `_best_solver`: the solver for ``solver="auto"``;
    - `_keep`: the attributes of the fitted estimator;
    - `_look_at`: warnings after a fit.

    This class has the parameters of all runs. Subclasses add their own, such as `oracle`.
    """

    _: KW_ONLY
    C: float = 1.0
    solver: str | Solver = "auto"
    tol: float = 1e-3
    max_seconds: float | None = None
    random_state: int | np.random.RandomState | None = None
    verbose: int = 0
    warm_start: bool = False
    checkpoint: str | PathLike[str] | None = None
    checkpoint_seconds: float = 120.0
    on_interrupt: str = "raise"

    solution_: Solution = field(init=False)
    n_iter_: int = field(init=False)
    n_features_in_: int = field(init=False)

    # Keyword arguments of scikit-learn's `validate_data`.
    _rows: ClassVar[dict[str, Any]] = {"dtype": [np.float64, np.float32]}
    # Names of solvers.
    _solvers: ClassVar[Mapping[str, Callable[[], Solver]]] = REGISTRY
    # Ends of a fit without a warning.
    _expected: ClassVar[tuple[Status, ...]] = (Status.CONVERGED, Status.WITHIN_PLANE_TOL)
    # Advice by status for the warning of an early end; it replaces the advice of the solution.
    _advice: ClassVar[Mapping[Status, str]] = {}

    @with_callbacks
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train on the worst case over the perturbations of the oracle.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples. Linear estimators also support sparse matrices, which are converted to CSR. float32
            is kept, other types become float64. An array of images of shape (n_samples, height, width)
            or (n_samples, height, width, channels) has one row per image. All other methods support it
            as well, and an oracle without a shape then has the shape of the images.
        y : array-like of shape (n_samples,)
            Labels of at least two classes, or targets of regressors.
        sample_weight : array-like of shape (n_samples,) or None, default=None
            Weights that multiply C (>= 0), 1 by default.

        Returns
        -------
        object
            This estimator.

        Raises
        ------
        ValueError, TypeError
            If parameters or data are not valid, before any work.
        KeyboardInterrupt
            After Ctrl-C, with the best model so far, if ``on_interrupt="raise"``.
        """
        return self._fit(X, y, sample_weight)

    def set_params(self, **params: Any) -> Self:
        own = self.get_params(deep=False)
        for part, example in _PARTS.items():
            nested = [name for name in params if name.startswith(f"{part}__")]
            if nested and part in own and params.get(part, own[part]) is None:
                article = "an" if part == "oracle" else "a"
                raise ValueError(
                    f"{nested[0]} requires {article} {part}, got {part}=None: pass {article} {part} to "
                    f"{type(self).__name__}, such as {part}={example}"
                )
        return super().set_params(**params)

    def _fit(self, X: Any, y: Any, sample_weight: Any, **more: Any) -> Self:
        """Fit; `more` are additional arguments per row, such as `position_weight`."""
        name = type(self).__name__
        with all_or_nothing(self) as learning:
            # 1. Parameters, rows and labels are checked before any work.
            self._check_parameters()
            problem = self._read(X, y, sample_weight, **more)

            # 2. The objective, its solver, and the start from an earlier fit or a checkpoint.
            checkpoint = None
            if self.checkpoint is not None:
                checkpoint = Checkpoint(self.checkpoint, float(self.checkpoint_seconds), name)
            objective = self._objective(problem)
            solver = self._solver(objective)
            start = self._start(objective, checkpoint)

            def learn(estimator: Any, solution: Solution) -> None:
                vars(estimator).update(problem.learned)
                estimator.n_iter_ = solution.iterations
                estimator.solution_ = solution
                if not self.warm_start:
                    estimator.solution_ = replace(solution, dual_variables=[])
                estimator._keep(problem, objective, solution)

            # 3. Callbacks, which may request the model of an iteration.
            shown = problem.shown or (X, y, sample_weight)
            task = FitTask(self, shown, learn)
            callbacks: list[Callable[[Progress], bool | None]] = [task] if task.has_callbacks else []
            callbacks += displays(name, self.verbose)

            # 4. Minimize within the remaining time.
            with passes_shown(name, self.verbose), checkpoint or nullcontext():
                solution = solve(
                    objective,
                    solver,
                    self._stop(0.0 if checkpoint is None else checkpoint.used),
                    start,
                    callbacks,
                    random_state=check_random_state(self.random_state).randint(2**31 - 1),
                    on_iteration=checkpoint,
                )
            # After Ctrl-C, KeyboardInterrupt replaces the warning.
            raises = self.on_interrupt == "raise" and not task.ended
            is_reported = raises and solution.status is Status.INTERRUPTED
            if solution.status not in self._expected and not is_reported:
                advice = self._advice.get(solution.status, solution.advice)
                is_table = self.__sklearn_tags__().input_tags.pairwise
                warn(
                    f"{name} ended with status '{solution.outcome}' after "
                    f"{solution.iterations} iterations at a relative gap of "
                    f"{solution.relative_gap:.2g} (tol={self.tol:g}): {advice}"
                    f"{nothing_learned(objective, solution)}"
                    f"{scale_of_columns(None if is_table else problem.rows, solution)}",
                    ConvergenceWarning,
                    stacklevel=4,
                )

            # 5. Keep the model. From here on Ctrl-C does not restore the earlier one.
            learn(self, solution)
            if checkpoint is not None:
                checkpoint.close(solution)
            learning.whole = True

            # 6. Warn of uninformative fits, and compress to a maximum number of support vectors.
            self._look_at(problem, objective, solution)
            if not learning.ctrl_c.pressed:
                learning.ctrl_c.interruptible = True
                self._finish(objective)
            task.end()
        return self

    def _start(self, objective: Objective, checkpoint: Checkpoint | None) -> Start | None:
        """Return the start from a checkpoint or from the earlier fit; None to start from zero."""
        start = None if checkpoint is None else checkpoint.start(objective)
        if start is not None or not self.warm_start or not hasattr(self, "solution_"):
            return start
        earlier = self.solution_
        failed = earlier.status in (Status.INCONSISTENT, Status.NOT_FINITE)
        if failed or not objective.space.accepts(earlier.f):
            return None
        return Start(earlier.f, earlier.dual_variables)

    def _stop(self, used: float) -> StopRule:
        """Return the stopping rule of a run, after `used` seconds of the fit."""
        stop: StopRule = Gap(self.tol)
        return stop if self.max_seconds is None else stop | Seconds(max(0.0, self.max_seconds - used))

    def _check_parameters(self) -> None:
        """Check all parameters that can be checked without data."""
        check_number("tol", self.tol)
        if self.max_seconds is not None:
            check_number("max_seconds", self.max_seconds, strict=True)
        if not isinstance(self.verbose, (bool, Integral)) or self.verbose < 0:
            raise ValueError(f"verbose must be an integer of at least 0, got {self.verbose!r}")
        try:
            check_random_state(self.random_state)
        except ValueError:
            allowed = "None, an integer from 0 to 2**32 - 1 or a RandomState"
            raise ValueError(f"random_state must be {allowed}, got {self.random_state!r}") from None
        check_on_interrupt(self.on_interrupt)
        check_boolean("warm_start", self.warm_start)
        if self.checkpoint is not None and not isinstance(self.checkpoint, (str, PathLike)):
            raise TypeError(f"checkpoint must be a path or None, got {self.checkpoint!r}")
        check_number("checkpoint_seconds", self.checkpoint_seconds, strict=True)
        names = ["auto", *self._solvers]
        known = isinstance(self.solver, str) and self.solver in names
        if not known and not isinstance(self.solver, Solver):
            raise ValueError(f"solver must be one of {sorted(names)} or a Solver, got {self.solver!r}")
        check_oracle_type(self.oracle)
        check_number("C", self.C, strict=True)

    def _in_memory(self) -> Any:
        """Return an unfitted estimator for data in memory; this estimator by default."""
        return self

    @abstractmethod
    def _read(self, X: Any, y: Any, sample_weight: Any) -> Problem:
        """Return the problem for rows and labels; set no attributes except those of validated rows."""

    @abstractmethod
    def _objective(self, problem: Problem) -> Objective:
        """Return the objective; its first term is the loss of the labels."""

    def _solver(self, objective: Objective) -> Solver:
        """Return a new solver for the parameters; the fit may change it."""
        if isinstance(self.solver, Solver):
            return clone(self.solver)
        return self._best_solver(objective)[0] if self.solver == "auto" else self._solvers[self.solver]()

    @abstractmethod
    def _best_solver(self, objective: Objective) -> tuple[Solver, str]:
        """Return the solver for "auto", and the reason."""

    @abstractmethod
    def _keep(self, problem: Problem, objective: Objective, solution: Solution) -> None:
        """Set the attributes for predictions from a solution."""

    def _look_at(self, problem: Problem, objective: Objective, solution: Solution) -> None:
        """Warn of an uninformative fit; nothing by default."""

    def _finish(self, objective: Objective) -> None:
        """Complete a fitted model, unless Ctrl-C ended the fit; nothing by default."""

    @abstractmethod
    def _scores(self, X: Matrix) -> np.ndarray:
        """Return ``f(x, k)`` for checked rows, (n, n_outputs)."""

    def _read_rows(self, X: Any, y: Any) -> tuple[Matrix, np.ndarray, InvarianceOracle]:
        """Return checked rows and labels, and the oracle for rows of their shape."""
        refuse_sources(self, X)
        learn_shape(self, X)
        oracle = shaped(check_oracle_type(self.oracle), self, X)
        rows, labels = validate_data(self, flat_rows(X), as_labels(y), **self._rows)
        rows = for_oracle(rows, oracle)
        if self._keeps_rows():
            rows, labels = independent(rows, X), independent(labels, y)
        return rows, labels, oracle

    def _keeps_rows(self) -> bool:
        """Return True if the fitted estimator may refer to the rows and labels of the fit."""
        return False

    def _check(self, X: Any, finite: bool = True) -> Matrix:
        """Return checked rows with the features of `fit`."""
        if are_plain(self, X, "accept_sparse" in self._rows, finite):
            return X
        refuse_sources(self, X)
        check_is_fitted(self)
        check_shape(self, X)
        X = flat_rows(X)
        return validate_data(self, X, reset=False, ensure_all_finite=finite, **self._rows)

    def _checked_scores(self, X: Any) -> np.ndarray:
        """Check rows and return their `_scores`."""
        return self._scores(self._check(X))

    def _rows_to_change(
        self, X: Any, oracle: InvarianceOracle | None
    ) -> tuple[Matrix, InvarianceOracle]:
        """Return checked rows, and the oracle for them."""
        oracle = shaped(check_oracle_type(self.oracle if oracle is None else oracle), self, X)
        return for_oracle(self._check(X), oracle), oracle

    def _sizes(self, X: Matrix, y: Any) -> tuple[np.ndarray | None, int, int]:
        """Return labels for oracles, and the numbers of functions and labels; without y, 2 labels."""
        labels = None if y is None else one_label_a_row(y, X.shape[0])
        n_classes = 2 if labels is None else len(np.unique(labels))
        return labels, 1 if n_classes == 2 else n_classes, n_classes

    def _as_given(self, X: Any, rows: Matrix, points: Any) -> Matrix:
        """Return perturbed rows in the shape of the given rows."""
        # A copy, since the points of an oracle may share memory with X.
        points = points.copy()
        return points if rows.shape == np.shape(X) or sp.issparse(X) else points.reshape(np.shape(X))

    def __sklearn_tags__(self) -> Any:
        """Declare support of stacks of images."""
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        return tags
