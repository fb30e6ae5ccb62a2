"""What all estimators share: solver choice, stop rules, progress, interruption, warnings."""

from __future__ import annotations

import copy
import sys
import warnings
from abc import abstractmethod
from collections.abc import Callable
from numbers import Integral, Real
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import _safe_indexing, check_random_state
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from ..functionals import Functional
from ..functionals.base import BoundFunctional
from ..learnt import learnt_attributes
from ..matrices import Matrix, with_data
from ..objective import Objective, Penalty, WorstCase
from ..oracles import Identity, InvarianceOracle
from ..oracles.arguments import instance_of
from ..solvers import (
    REGISTRY,
    Gap,
    Progress,
    Seconds,
    Solution,
    Solver,
    Status,
    StopRule,
    solve,
)
from ..spaces import Space
from .continuing import Continuing, check_checkpoint
from .estimates import EstimatesItself
from .interruption import all_or_nothing, check_on_interrupt
from .labels import as_labels
from .plain_rows import are_plain
from .shapes import check_shape, flat_rows, learn_shape, shaped
from .truth import Truth

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:  # scikit-learn before 1.9 has no callbacks; `verbose` prints instead

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Stands in for scikit-learn's mixin where there is none."""

        def _init_callback_context(self, **kwargs: Any) -> _NoContext:
            return _NoContext()

    def with_callbacks(method: Callable) -> Callable:
        """Leave the method as it is."""
        return method


# A fit that ended early and gained less than this share of the objective at zero has learnt nothing.
NOTHING_GAINED = 1e-3


class _NoContext:
    """A callback context that calls nobody."""

    def subcontext(self, **kwargs: Any) -> _NoContext:
        return self

    def call_on_fit_task_begin(self, **kwargs: Any) -> _NoContext:
        return self

    def call_on_fit_task_end(self, **kwargs: Any) -> bool:
        return False


class ConvexEstimator(EstimatesItself, CallbackSupportMixin, BaseEstimator):
    """An estimator that minimises an objective and keeps its solution.

    Subclasses store `oracle`, `solver`, `tol`, `max_seconds`, `random_state` and `verbose`.
    """

    def _check_common(self) -> InvarianceOracle:
        """Check what all estimators have and return the oracle; errors name the argument."""
        check_number("tol", self.tol, minimum=0.0)
        if self.max_seconds is not None:
            check_number("max_seconds", self.max_seconds, minimum=0.0, strict=True)
        if not isinstance(self.verbose, (bool, Integral)) or self.verbose < 0:
            raise ValueError(f"verbose must be an integer of at least 0, got {self.verbose!r}")
        try:
            check_random_state(self.random_state)
        except ValueError:
            allowed = "None, an integer from 0 to 2**32 - 1 or a RandomState"
            raise ValueError(f"random_state must be {allowed}, got {self.random_state!r}") from None
        check_on_interrupt(self.on_interrupt)
        check_boolean("warm_start", self.warm_start)
        check_checkpoint(self.checkpoint, self.checkpoint_seconds, check_number)
        self._check_solver()
        return self._given_oracle()

    def _given_oracle(self) -> InvarianceOracle:
        """The oracle of the parameters."""
        return check_oracle_type(self.oracle)

    def _check_solver(self) -> None:
        names = ["auto", *REGISTRY]
        known = isinstance(self.solver, str) and self.solver in names
        if not known and not isinstance(self.solver, Solver):
            raise ValueError(f"solver must be one of {sorted(names)} or a Solver, got {self.solver!r}")

    def _make_solver(self, objective: Objective) -> Solver:
        """A solver of this estimator's own, for an objective."""
        if isinstance(self.solver, Solver):
            return clone(self.solver)
        return self._best_solver(objective) if self.solver == "auto" else REGISTRY[self.solver]()

    @abstractmethod
    def _best_solver(self, objective: Objective) -> Solver:
        """What "auto" stands for."""

    def _advice(self, solution: Solution) -> str:
        """What the warning of a fit that ended early says to do about it."""
        return solution.advice

    def __sklearn_tags__(self) -> Any:
        """Stacks of images are taken as rows."""
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        return tags

    def _minimise(
        self, objective: Objective, solver: Solver, task: FitTask, going: Continuing
    ) -> Solution:
        """Run the solver, reporting to scikit-learn's callbacks or to standard error."""
        relay = _Relay(self, task)
        callbacks: list[Callable[[Progress], bool | None]] = [relay]
        if self.verbose:
            callbacks.append(_Printer(type(self).__name__))
        seed = check_random_state(self.random_state).randint(2**31 - 1)
        start = going.start(objective, solver)

        def run(start: Solution | None) -> Solution:
            stop: StopRule = Gap(self.tol)
            if self.max_seconds is not None:
                stop = stop | Seconds(max(0.0, self.max_seconds - going.used))
            return solve(
                objective, solver, stop, start, callbacks, random_state=seed, keeper=going.checkpoint
            )

        solution = run(start)
        if start is not None and solution.status is Status.INCONSISTENT:
            # An oracle that is no longer what it says: nothing of the earlier fit is certain.
            going.begin_anew(solution.seconds)
            solution = run(None)
        # After Ctrl-C, KeyboardInterrupt says it all.
        told = solution.status is Status.INTERRUPTED and not relay.ended and self.on_interrupt == "raise"
        if solution.status not in (Status.CONVERGED, Status.WITHIN_EPSILON) and not told:
            warnings.warn(
                f"{type(self).__name__} ended with status '{solution.outcome}' after "
                f"{solution.iterations} iterations at a relative gap of "
                f"{solution.relative_gap:.2g} (tol={self.tol:g}): {self._advice(solution)}"
                f"{nothing_learnt(objective, solution)}",
                ConvergenceWarning,
                stacklevel=5,
            )
        return solution


class InvariantEstimator(ConvexEstimator):
    """An estimator trained on the worst case of an oracle's changes, and certified against them.

    Subclasses store `C`, too, and say what is true of rows, in which space the functions live, what is
    kept of a solution, and how rows are scored.
    """

    # How rows are checked; see scikit-learn's `validate_data`.
    _rows: dict[str, Any] = {"dtype": [np.float64, np.float32]}

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
            oracle = self._check_parameters()
            task = FitTask(self._init_callback_context(max_subtasks=None), X, y, sample_weight)
            X, oracle, truth = self._read(X, y, oracle, sample_weight, **more)
            task.context.call_on_fit_task_begin(estimator=self, **task.data)
            going = self._continuing(X, truth.told, sample_weight)
            inputs, costs = self._inputs(X), truth.costs
            term = self._worst_cases(inputs, truth.y, oracle, truth.structure, truth.weights, **costs)
            space = self._new_space(X, term)
            objective = Objective(space, [term, *self._penalties(space)])

            def learn(estimator: Any, solution: Solution) -> None:
                vars(estimator).update(truth.learnt)
                estimator.n_iter_ = solution.iterations
                estimator._keep(X, term, space, solution)

            task.learn = learn
            solution = self._minimise(objective, self._make_solver(objective), task, going)
            learn(self, solution)
            going.keep(solution)
            learning.whole = True
            self._look_at_fit(X, term, objective, solution, going.used)
            if not learning.ctrl_c.pressed:
                learning.ctrl_c.welcome = True
                self._finish(objective)
            task.context.call_on_fit_task_end(estimator=self, **task.data, reconstruction_attributes={})
        return self

    def _check_parameters(self) -> InvarianceOracle:
        """Check all that can be checked without data, and return the oracle."""
        oracle = self._check_common()
        check_number("C", self.C, minimum=0.0, strict=True)
        return oracle

    def _read(
        self, X: Any, y: Any, oracle: InvarianceOracle, sample_weight: Any
    ) -> tuple[Matrix, InvarianceOracle, Truth]:
        """Checked rows, the oracle for rows of their shape, and what is true of them."""
        learn_shape(self, X)
        oracle = shaped(oracle, self, X)
        X, y = validate_data(self, flat_rows(X), as_labels(y), **self._rows)
        X = self._prepare(X, oracle)
        return X, oracle, self._truth(X, y, oracle, sample_weight)

    def _continuing(self, X: Matrix, y: Any, sample_weight: Any) -> Continuing:
        """How the fit goes on from an earlier one."""
        return Continuing(self, X, y, sample_weight)

    def _prepare(self, X: Matrix, oracle: InvarianceOracle) -> Matrix:
        """Rows in the form that the oracle takes, or an error that says what is wrong."""
        oracle.validate(X.shape[1])
        return X

    def _inputs(self, X: Matrix) -> Matrix:
        """What the functions are functions of."""
        return X

    @abstractmethod
    def _truth(self, X: Matrix, y: np.ndarray, oracle: InvarianceOracle, sample_weight: Any) -> Truth:
        """What is true of checked rows, looked at; nothing is learnt yet."""

    def _worst_cases(self, *problem: Any, **labels: Any) -> WorstCase:
        """The losses of the rows at their worst, from what `WorstCase` takes."""
        return WorstCase(*problem, **labels)

    @abstractmethod
    def _new_space(self, X: Matrix, term: WorstCase) -> Space:
        """The space of the functions."""

    def _penalties(self, space: Any) -> list[Penalty]:
        """What the function pays beside the losses; nothing, by default."""
        return []

    @abstractmethod
    def _keep(self, X: Matrix, term: WorstCase, space: Any, solution: Solution) -> None:
        """Learn from the solution what predictions need."""

    def _look_at_fit(
        self, X: Matrix, term: WorstCase, objective: Objective, solution: Solution, used: float
    ) -> None:
        """Warn where there is something to say of a fit that is done; nothing, by default."""

    def _finish(self, objective: Objective) -> None:
        """Do what is left to do with a whole model that Ctrl-C has not ended; nothing, by default."""

    @abstractmethod
    def _scores(self, X: Matrix) -> np.ndarray:
        """``f(x, k)`` for checked rows, (n, n_outputs)."""

    @abstractmethod
    def _told(self, X: Matrix, y: Any) -> tuple[np.ndarray | None, int, int]:
        """Labels, for oracles, how many functions these or targets ask for, and how many labels."""

    def _check(self, X: Any, finite: bool = True) -> Matrix:
        if are_plain(self, X, "accept_sparse" in self._rows, finite):
            return X
        check_is_fitted(self)
        check_shape(self, X)
        X = flat_rows(X)
        return validate_data(self, X, reset=False, ensure_all_finite=finite, **self._rows)

    def _checked_scores(self, X: Any) -> np.ndarray:
        return self._scores(self._check(X))

    def _rows_to_change(
        self, X: Any, oracle: InvarianceOracle | None
    ) -> tuple[Matrix, InvarianceOracle]:
        """Checked rows, and the oracle to ask."""
        oracle = shaped(check_oracle_type(self.oracle if oracle is None else oracle), self, X)
        return self._prepare(self._check(X), oracle), oracle

    def _own_weights(self, X: Matrix, sample_weight: Any) -> np.ndarray:
        """The sample weights, checked; 1 for each row without any."""
        return _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)

    def _as_given(self, X: Any, rows: Matrix, points: Any) -> Matrix:
        """Changed rows in the shape in which the user gave them."""
        # A copy, since the answer of an oracle may share its arrays with the user's X.
        points = points.copy()
        return points if rows.shape == np.shape(X) or sp.issparse(X) else points.reshape(np.shape(X))


def nothing_learnt(objective: Objective, solution: Solution) -> str:
    """A sentence if a run ended with a function that is no better than zero; nothing otherwise."""
    at_zero = objective.value(objective.space.zeros()).upper
    # Where an oracle is too coarse, the objective is a bound, and says little about the function.
    bound_only = solution.status is Status.ORACLE_TOO_COARSE
    no_better = not bound_only and solution.primal > (1.0 - NOTHING_GAINED) * at_zero
    if not no_better and objective.space.dot(solution.f, solution.f) > 0:
        return ""
    return (
        f" So far the model is no better than the zero function (objective {solution.primal:.6g}, "
        f"{at_zero:.6g} at zero): it has learnt nothing, and its predictions mean nothing."
    )


class FitTask:
    """What scikit-learn's callbacks are told of a fit.

    Parameters
    ----------
    context : CallbackContext
    X, y, sample_weight
        As the user gave them, so that a callback that scores meets names of features, too.
    """

    def __init__(self, context: Any, X: Any, y: Any, sample_weight: Any = None) -> None:
        self.context = context
        # Scorers take what is here as their own keyword arguments.
        metadata = None if sample_weight is None else {"sample_weight": sample_weight}
        self.data = {"X": X, "y": y, "metadata": metadata}
        self.learn: Callable[[Any, Solution], None] | None = None

    @classmethod
    def of_labelled(
        cls, context: Any, X: Any, y: np.ndarray, sample_weight: Any, labelled: np.ndarray
    ) -> FitTask:
        """A fit on some labelled rows, which alone can be scored."""
        if len(labelled) < len(y):
            X, y = _safe_indexing(X, labelled), y[labelled]
            if np.ndim(sample_weight):
                sample_weight = _safe_indexing(sample_weight, labelled)
        return cls(context, X, y, sample_weight)

    def attributes(self, estimator: ConvexEstimator, solution: Solution) -> dict[str, Any]:
        """What an estimator would have learnt, had its fit ended with this solution."""
        assert self.learn is not None
        fitted = copy.copy(estimator)
        self.learn(fitted, solution)
        return learnt_attributes(fitted)


class _Relay:
    """Passes each iteration on to scikit-learn's callbacks."""

    def __init__(self, estimator: ConvexEstimator, task: FitTask) -> None:
        self.estimator = estimator
        self.task = task
        self.heard = hasattr(estimator, "_skl_callbacks")
        self.ended = False

    def __call__(self, progress: Progress) -> bool:
        if not self.heard:
            return False
        context, data = self.task.context.subcontext(task_name="iteration"), self.task.data
        context.call_on_fit_task_begin(estimator=self.estimator, **data)

        def attributes() -> dict[str, Any]:
            return self.task.attributes(self.estimator, progress.solution())

        self.ended |= bool(
            context.call_on_fit_task_end(
                estimator=self.estimator, **data, reconstruction_attributes=attributes
            )
        )
        return self.ended


class _Printer:
    """A line on standard error for each check, at most a few a second."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.last = -np.inf

    def __call__(self, progress: Progress) -> None:
        if progress.checked and progress.seconds > self.last + 0.2:
            self.last = progress.seconds
            record = progress.history[-1]
            print(
                f"[{self.name}] iteration {progress.iteration:5d}  {progress.seconds:7.1f} s  "
                f"primal {record.primal:.6g}  dual {record.dual:.6g}  "
                f"relative gap {progress.relative_gap:.2e}",
                file=sys.stderr,
            )


def class_factors(class_weight: Any, classes: np.ndarray, y: np.ndarray, own: np.ndarray) -> np.ndarray:
    """The factor of each class, as scikit-learn's `class_weight` says, for samples of given weights.

    Raises
    ------
    ValueError
        For anything else, for negative factors, and where none is above 0.
    """
    known = class_weight is None or isinstance(class_weight, dict)
    if not known and not (isinstance(class_weight, str) and class_weight == "balanced"):
        raise ValueError(
            f"class_weight must be None, 'balanced' or a dict of labels, got {class_weight!r}"
        )
    factors = compute_class_weight(class_weight, classes=classes, y=y, sample_weight=own)
    if isinstance(class_weight, str) and class_weight == "balanced":
        # A class without a sample that counts has no balance; its samples count nothing anyway.
        factors = np.where(np.isfinite(factors), factors, 0.0)
    if np.any(factors < 0) or not np.all(np.isfinite(factors)):
        raise ValueError(f"class_weight must be non-negative, got {class_weight!r}")
    if isinstance(class_weight, dict) and not np.any(factors > 0):
        raise ValueError("class_weight must leave a class with a weight above 0, got zeros alone")
    return factors


def check_oracle_type(oracle: Any) -> InvarianceOracle:
    """The oracle, that of no change for None; TypeError for anything else."""
    if oracle is None:
        return Identity()
    if isinstance(oracle, InvarianceOracle):
        return oracle
    hint = ""
    if isinstance(oracle, type) and issubclass(oracle, InvarianceOracle):
        hint = f"; write {instance_of(oracle)} for an instance of the class"
    if isinstance(oracle, (Functional, BoundFunctional)):
        hint = "; functionals go into invariances=[...] of InvariantSVC and RepresenterClassifier"
    raise TypeError(f"oracle must be an InvarianceOracle or None, got {oracle!r}{hint}")


def check_boolean(name: str, value: Any) -> None:
    """Raise TypeError unless `value` is True or False: anything else is true by accident."""
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name} must be True or False, got {value!r}")


def check_number(
    name: str,
    value: Any,
    *,
    minimum: float,
    maximum: float = np.inf,
    strict: bool = False,
    finite: bool = True,
) -> None:
    """Raise TypeError or ValueError unless `value` is a real number from `minimum` to `maximum`."""
    allowed = f"a number {'above' if strict else 'of at least'} {minimum:g}"
    if np.isfinite(maximum):
        allowed += f" and at most {maximum:g}"
    if not isinstance(value, Real) or isinstance(value, bool):
        raise TypeError(f"{name} must be {allowed}, got {value!r}")
    number = float(value)
    too_small = not number > minimum if strict else not number >= minimum
    if too_small or number > maximum or (finite and not np.isfinite(number)):
        raise ValueError(f"{name} must be {allowed}, got {value!r}")


def canonical(X: Matrix) -> Matrix:
    """CSR with sorted indices and no duplicates; a copy if it is not so, as `X` is the user's."""
    if not sp.issparse(X):
        return X
    probe = with_data(X, X.data)
    if probe.has_canonical_format:
        return probe
    probe = probe.copy()
    probe.sum_duplicates()
    return probe
