"""What all estimators share: one fit, read from top to bottom, and the parameters of a run."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import KW_ONLY, dataclass
from functools import partial
from numbers import Integral
from os import PathLike
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from ..oracles import InvarianceOracle
from ..solvers import REGISTRY, Gap, Seconds, Solution, Solver, Status, solve
from ..solvers.stopping import Progress, StopRule
from ..terms import Objective
from ..utils.matrices import Matrix
from ..utils.parameters import check_boolean, check_number
from ..utils.passes import passes_shown_by
from .callbacks import CallbackSupportMixin, FitTask, pass_printer, printer, with_callbacks
from .earlier_fit import OF_THE_WEIGHTS, EarlierFit
from .fit_attempt import all_or_nothing
from .parameters import check_checkpoint, check_on_interrupt, check_oracle_type
from .problem import Problem
from .resource_estimates import ResourceEstimateMixin
from .row_shapes import are_plain, check_shape, flat_rows, for_oracle, learn_shape, shaped
from .row_sources import refuse_sources
from .target_labels import as_labels, one_label_a_row
from .uninformative_fits import nothing_learned

# How often `verbose` prints how much of a pass over rows in blocks is done.
SECONDS_BETWEEN_LINES = 3.0


@dataclass(eq=False, repr=False)
class InvariantEstimator(ResourceEstimateMixin, CallbackSupportMixin, BaseEstimator):
    """An estimator that minimizes an objective, and keeps its solution.

    `_fit` says in which order everything happens. An estimator says what differs:

    - `_check_parameters`: what can be checked without data;
    - `_read`: the `Problem` in its rows and labels;
    - `_objective`: the losses and the space of the functions;
    - `_best_solver`: what ``solver="auto"`` stands for;
    - `_keep`: what is learned from a solution;
    - `_look_at`: warnings about a fit that is done.

    The parameters here are those of every run; estimators add theirs, `oracle` among them.
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

    # How rows are checked; see scikit-learn's `validate_data`.
    _rows: ClassVar[dict[str, Any]] = {"dtype": [np.float64, np.float32]}
    # What solvers can be called.
    _solvers: ClassVar[Mapping[str, Callable[[], Solver]]] = REGISTRY
    # What the warning of a fit that ended early says to do about it, if not what its solution says.
    _advice: ClassVar[Mapping[Status, str]] = {}

    @with_callbacks
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Train on the worst case of the oracle's changes.

        Parameters
        ----------
        X : (n_samples, n_features) array-like, or sparse matrix where the estimator takes it
            Anything sparse is turned into CSR. Kept in float32 if it is, in float64 otherwise. An array
            of images, (n_samples, height, width) or (n_samples, height, width, channels), is taken as a
            row for each image, here and in all other methods; oracles without a shape take theirs.
        y : (n_samples,) array-like
            Labels of at least two classes; of regressors numbers.
        sample_weight : (n_samples,) array-like, optional
            Non-negative factors of C.

        Returns
        -------
        object
            This estimator.

        Raises
        ------
        ValueError, TypeError
            For parameters or data that cannot be used, before any work.
        KeyboardInterrupt
            After Ctrl-C, with the best model so far; see `on_interrupt`.
        """
        return self._fit(X, y, sample_weight)

    def _fit(self, X: Any, y: Any, sample_weight: Any, **more: Any) -> Any:
        """`fit`, with whatever else is told of the rows."""
        with all_or_nothing(self) as learning:
            # 1. Parameters, rows and labels are checked before any work.
            self._check_parameters()
            context = self._init_callback_context(max_subtasks=None)
            problem = self._read(X, y, sample_weight, **more)

            # 2. The objective, its solver, and what an earlier fit or a checkpoint has left.
            earlier = EarlierFit(self, problem.rows, problem.told, sample_weight, self._planes_ignore())
            objective = self._objective(problem)
            solver = self._solver(objective)
            start = earlier.start(objective, solver)

            def learn(estimator: Any, solution: Solution) -> None:
                vars(estimator).update(problem.learned)
                estimator.n_iter_ = solution.iterations
                estimator.solution_ = solution
                estimator._keep(problem, objective, solution)

            # 3. Callbacks, which may ask for the model as it is at an iteration.
            shown = problem.shown or (X, y, sample_weight)
            task = FitTask(self, context, shown, learn)
            callbacks: list[Callable[[Progress], bool | None]] = [task] if task.heard else []
            if self.verbose:
                callbacks.append(printer(type(self).__name__))

            # 4. Minimize, within the time that is left.
            run = partial(
                solve,
                objective,
                solver,
                callbacks=callbacks,
                random_state=check_random_state(self.random_state).randint(2**31 - 1),
                on_iteration=earlier.checkpoint,
            )
            with self._passes_shown(), earlier.rescued():
                solution = run(self._stop(earlier.used), start)
                if start is not None and solution.status is Status.INCONSISTENT:
                    # An oracle that is no longer what it says: nothing of the earlier fit is certain.
                    earlier.begin_anew(solution.seconds)
                    solution = run(self._stop(earlier.used), None)
            # After Ctrl-C, KeyboardInterrupt says it all.
            raises = self.on_interrupt == "raise" and not task.ended
            told = raises and solution.status is Status.INTERRUPTED
            if solution.status not in (Status.CONVERGED, Status.WITHIN_PLANE_TOL) and not told:
                advice = self._advice.get(solution.status, solution.advice)
                warnings.warn(
                    f"{type(self).__name__} ended with status '{solution.outcome}' after "
                    f"{solution.iterations} iterations at a relative gap of "
                    f"{solution.relative_gap:.2g} (tol={self.tol:g}): {advice}"
                    f"{nothing_learned(objective, solution)}",
                    ConvergenceWarning,
                    stacklevel=4,
                )

            # 5. Keep the model. From here on Ctrl-C takes nothing back.
            learn(self, solution)
            earlier.keep(solution)
            learning.whole = True

            # 6. Warn where there was nothing to learn, and shorten to a budget.
            left = np.inf if self.max_seconds is None else self.max_seconds - earlier.used
            self._look_at(problem, objective, solution, left - solution.seconds)
            if not learning.ctrl_c.pressed:
                learning.ctrl_c.interruptible = True
                self._finish(objective)
            task.end()
        return self

    def _passes_shown(self) -> AbstractContextManager[None]:
        """Where passes over rows in blocks are told of, with `verbose`."""
        if not self.verbose:
            return nullcontext()
        return passes_shown_by(pass_printer(type(self).__name__), SECONDS_BETWEEN_LINES)

    def _stop(self, used: float) -> StopRule:
        """When a run ends that begins after so many seconds."""
        stop: StopRule = Gap(self.tol)
        return stop if self.max_seconds is None else stop | Seconds(max(0.0, self.max_seconds - used))

    def _check_parameters(self) -> None:
        """Check all that can be checked without data; errors name the parameter."""
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
        check_checkpoint(self.checkpoint, self.checkpoint_seconds)
        names = ["auto", *self._solvers]
        known = isinstance(self.solver, str) and self.solver in names
        if not known and not isinstance(self.solver, Solver):
            raise ValueError(f"solver must be one of {sorted(names)} or a Solver, got {self.solver!r}")
        check_oracle_type(self.oracle)
        check_number("C", self.C, strict=True)

    def _in_memory(self) -> Any:
        """The estimator, not fitted, that trains on data in memory; itself, by default."""
        return self

    @abstractmethod
    def _read(self, X: Any, y: Any, sample_weight: Any) -> Problem:
        """The problem in rows and labels as a user gave them; nothing is learned yet but names."""

    @abstractmethod
    def _objective(self, problem: Problem) -> Objective:
        """The losses, the first of which is that of the labels, and the space of the functions."""

    def _solver(self, objective: Objective) -> Solver:
        """The solver of the parameters; the fit may change it."""
        if isinstance(self.solver, Solver):
            return clone(self.solver)
        return self._best_solver(objective)[0] if self.solver == "auto" else self._solvers[self.solver]()

    @abstractmethod
    def _best_solver(self, objective: Objective) -> tuple[Solver, str]:
        """What "auto" stands for, and why."""

    def _planes_ignore(self) -> frozenset[str]:
        """Parameters that planes of an earlier fit do not depend on."""
        return OF_THE_WEIGHTS

    @abstractmethod
    def _keep(self, problem: Problem, objective: Objective, solution: Solution) -> None:
        """Learn from a solution what predictions need."""

    def _look_at(self, problem: Problem, objective: Objective, solution: Solution, left: float) -> None:
        """Warn where there is something to say of a fit that is done; nothing, by default.

        `left` are the seconds left of a time limit.
        """

    def _finish(self, objective: Objective) -> None:
        """Do what is left to do with a whole model that Ctrl-C has not ended; nothing, by default."""

    @abstractmethod
    def _scores(self, X: Matrix) -> np.ndarray:
        """``f(x, k)`` for checked rows, (n, n_outputs)."""

    def _read_rows(self, X: Any, y: Any) -> tuple[Matrix, np.ndarray, InvarianceOracle]:
        """Checked rows and labels of a fit, and the oracle for rows of their shape."""
        refuse_sources(self, X)
        learn_shape(self, X)
        oracle = shaped(check_oracle_type(self.oracle), self, X)
        X, y = validate_data(self, flat_rows(X), as_labels(y), **self._rows)
        return for_oracle(X, oracle), y, oracle

    def _check(self, X: Any, finite: bool = True) -> Matrix:
        """Checked rows like those of `fit`."""
        if are_plain(self, X, "accept_sparse" in self._rows, finite):
            return X
        refuse_sources(self, X)
        check_is_fitted(self)
        check_shape(self, X)
        X = flat_rows(X)
        return validate_data(self, X, reset=False, ensure_all_finite=finite, **self._rows)

    def _checked_scores(self, X: Any) -> np.ndarray:
        """`_scores` of rows as a user gave them."""
        return self._scores(self._check(X))

    def _rows_to_change(
        self, X: Any, oracle: InvarianceOracle | None
    ) -> tuple[Matrix, InvarianceOracle]:
        """Checked rows, and the oracle to ask."""
        oracle = shaped(check_oracle_type(self.oracle if oracle is None else oracle), self, X)
        return for_oracle(self._check(X), oracle), oracle

    def _sizes(self, X: Matrix, y: Any) -> tuple[np.ndarray | None, int, int]:
        """Labels, for oracles, and how many functions and labels there are; two labels without y."""
        labels = None if y is None else one_label_a_row(y, X.shape[0])
        n_classes = 2 if labels is None else len(np.unique(labels))
        return labels, 1 if n_classes == 2 else n_classes, n_classes

    def _own_weights(self, X: Matrix, sample_weight: Any) -> np.ndarray:
        """The sample weights, checked; 1 for each row without any."""
        return _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)

    def _as_given(self, X: Any, rows: Matrix, points: Any) -> Matrix:
        """Changed rows in the shape in which the user gave them."""
        # A copy, since the answer of an oracle may share its arrays with the user's X.
        points = points.copy()
        return points if rows.shape == np.shape(X) or sp.issparse(X) else points.reshape(np.shape(X))

    def __sklearn_tags__(self) -> Any:
        """Stacks of images are taken as rows."""
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        return tags
