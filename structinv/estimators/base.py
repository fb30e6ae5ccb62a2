"""What all estimators share: solver choice, stop rules, progress, interruption, warnings."""

from __future__ import annotations

import sys
import warnings
from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from numbers import Integral, Real
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from ..certificates import Certificate, WorstChange
from ..matrices import Matrix, with_data
from ..objective import Objective, Penalty, WorstCase
from ..oracles import Identity, InvarianceOracle
from ..outputs import Binary, EncodedOutput, Multiclass, Output
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


class _NoContext:
    """A callback context that calls nobody."""

    def subcontext(self, **kwargs: Any) -> _NoContext:
        return self

    def call_on_fit_task_begin(self, **kwargs: Any) -> _NoContext:
        return self

    def call_on_fit_task_end(self, **kwargs: Any) -> bool:
        return False


class ConvexEstimator(CallbackSupportMixin, BaseEstimator):
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
        self._check_solver()
        return check_oracle_type(self.oracle)

    def _check_solver(self) -> None:
        names = ["auto", *REGISTRY]
        known = isinstance(self.solver, str) and self.solver in names
        if not known and not isinstance(self.solver, Solver):
            raise ValueError(f"solver must be one of {sorted(names)} or a Solver, got {self.solver!r}")

    def _make_solver(self, space: Space) -> Solver:
        """A solver of this estimator's own, for functions of a space."""
        if isinstance(self.solver, Solver):
            return clone(self.solver)
        return self._best_solver(space) if self.solver == "auto" else REGISTRY[self.solver]()

    @abstractmethod
    def _best_solver(self, space: Space) -> Solver:
        """What "auto" stands for."""

    def _minimise(self, objective: Objective, solver: Solver, context: Any) -> Solution:
        """Run the solver, reporting to scikit-learn's callbacks or to standard error."""
        stop: StopRule = Gap(self.tol)
        if self.max_seconds is not None:
            stop = stop | Seconds(self.max_seconds)
        callbacks: list[Callable[[Progress], bool | None]] = [_Relay(self, context)]
        if self.verbose:
            callbacks.append(_Printer(type(self).__name__))
        seed = check_random_state(self.random_state).randint(2**31 - 1)
        solution = solve(objective, solver, stop, callbacks=callbacks, random_state=seed)
        if solution.status not in (Status.CONVERGED, Status.WITHIN_EPSILON):
            warnings.warn(
                f"{type(self).__name__} ended with status '{solution.status.value}' after "
                f"{solution.iterations} iterations at a relative gap of "
                f"{solution.relative_gap:.2g} (tol={self.tol:g}): {solution.status.advice}",
                ConvergenceWarning,
                stacklevel=4,
            )
        return solution


class InvariantClassifier(ClassifierMixin, ConvexEstimator):
    """A classifier trained on the worst case of an oracle's changes, and certified against them.

    Subclasses store `C` and `class_weight`, too, and say in which space the functions live, what is
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
            Anything sparse is turned into CSR. Kept in float32 if it is, in float64 otherwise.
        y : (n_samples,) array-like
            Labels of at least two classes.
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
        """
        with all_or_nothing(self):
            oracle = self._check_parameters()
            context = self._init_callback_context(max_subtasks=None)
            check_flat(X)
            X, y = validate_data(self, X, y, **self._rows)
            context.call_on_fit_task_begin(estimator=self, X=X, y=y)
            X = self._prepare(X, oracle)
            check_classification_targets(y)
            classes, codes = np.unique(y, return_inverse=True)
            if len(classes) < 2:
                (only,) = classes.tolist()
                raise ValueError(f"y must hold at least two classes, got one class: {only!r}")
            output = self._new_output(len(classes))
            weights = self._weights(X, y, codes, classes, sample_weight)
            term = WorstCase(self._inputs(X), y, oracle, output, weights)
            space = self._new_space(X, term)
            objective = Objective(space, [term, *self._penalties(space)])
            solution = self._minimise(objective, self._make_solver(space), context)
            self.classes_ = classes
            self.n_iter_ = solution.iterations
            self._keep(X, term, space, solution)
            context.call_on_fit_task_end(estimator=self, X=X, y=y)
        return self

    def _check_parameters(self) -> InvarianceOracle:
        """Check all that can be checked without data, and return the oracle."""
        oracle = self._check_common()
        check_number("C", self.C, minimum=0.0, strict=True)
        return oracle

    def _prepare(self, X: Matrix, oracle: InvarianceOracle) -> Matrix:
        """Rows in the form that the oracle takes, or an error that says what is wrong."""
        oracle.validate(X.shape[1])
        return X

    def _inputs(self, X: Matrix) -> Matrix:
        """What the functions are functions of."""
        return X

    def _new_output(self, n_classes: int) -> Output:
        """The output to train for, its parameters checked."""
        return self._output(n_classes)

    def _output(self, n_classes: int) -> Output:
        return Binary() if n_classes == 2 else Multiclass()

    @abstractmethod
    def _new_space(self, X: Matrix, term: WorstCase) -> Space:
        """The space of the functions."""

    def _penalties(self, space: Any) -> list[Penalty]:
        """What the function pays beside the losses; nothing, by default."""
        return []

    @abstractmethod
    def _keep(self, X: Matrix, term: WorstCase, space: Any, solution: Solution) -> None:
        """Learn from the solution what predictions need."""

    @abstractmethod
    def _scores(self, X: Matrix) -> np.ndarray:
        """``f(x, k)`` for checked rows, (n, n_outputs)."""

    @abstractmethod
    def _worst_change(
        self, X: Matrix, output: EncodedOutput, oracle: InvarianceOracle, points: bool
    ) -> WorstChange:
        """The worst change of each row that the oracle finds, and bounds on all others."""

    def _weights(
        self, X: Matrix, y: np.ndarray, codes: np.ndarray, classes: np.ndarray, sample_weight: Any
    ) -> np.ndarray:
        """C times class weights times sample weights."""
        own = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        factors = class_factors(self.class_weight, classes, y, own)
        weights = self.C * own * factors[codes]
        if not np.any(weights > 0):
            raise ValueError("sample_weight must leave a sample with a weight above 0")
        return weights

    def decision_function(self, X: Any) -> np.ndarray:
        """Scores: (n,) for two classes, positive for ``classes_[1]``; (n, n_classes) for more."""
        scores = self._checked_scores(X)
        return scores[:, 0] if len(self.classes_) == 2 else scores

    def predict(self, X: Any) -> np.ndarray:
        """Predicted labels, (n,)."""
        scores = self._checked_scores(X)
        return self.classes_[self._output(len(self.classes_)).predict(scores)]

    def certify(self, X: Any, y: Any = None, *, oracle: InvarianceOracle | None = None) -> Certificate:
        """What no allowed change of the rows can turn.

        Parameters
        ----------
        X : (n, n_features) array-like, or sparse matrix where the estimator takes it
        y : (n,) array-like, optional
            True labels; without them it is certified that the prediction does not change, and the
            predictions stand in for the labels where the oracle depends on them.
        oracle : InvarianceOracle, optional
            What may change; by default what the model was trained for.

        Returns
        -------
        Certificate
            ``margins``, ``correct``, ``accuracy``, ``exact`` and ``attacked``. It speaks of changes
            in the feature space that the model was given, not of the raw input.
        """
        X, output, oracle = self._labelled(X, y, oracle)
        return self._worst_change(X, output, oracle, points=False).certificate()

    def worst_case(self, X: Any, y: Any = None, *, oracle: InvarianceOracle | None = None) -> Matrix:
        """The rows after the allowed change that lowers the margin of their label most.

        Parameters
        ----------
        X : (n, n_features) array-like, or sparse matrix where the estimator takes it
        y : (n,) array-like, optional
            True labels; without them the predictions take their place.
        oracle : InvarianceOracle, optional
            What may change; by default what the model was trained for.

        Returns
        -------
        (n, n_features) array or CSR matrix
            Sparse if `X` is.
        """
        X, output, oracle = self._labelled(X, y, oracle)
        points: Any = self._worst_change(X, output, oracle, points=True).points
        # A copy, since the answer of an oracle may share its arrays with the user's X.
        return points.copy()

    def _labelled(
        self, X: Any, y: Any, oracle: InvarianceOracle | None
    ) -> tuple[Matrix, EncodedOutput, InvarianceOracle]:
        """Checked rows, their labels as the output trained for, and the oracle to ask."""
        oracle = check_oracle_type(self.oracle if oracle is None else oracle)
        X = self._prepare(self._check(X), oracle)
        if y is None:
            y = self.classes_[self._output(len(self.classes_)).predict(self._scores(X))]
        y = np.asarray(y)
        if y.shape != (X.shape[0],):
            raise ValueError(f"y must have shape ({X.shape[0]},), one label a row, got {y.shape}")
        return X, self._output(len(self.classes_)).encode(y, self.classes_), oracle

    def _check(self, X: Any, finite: bool = True) -> Matrix:
        check_is_fitted(self)
        check_flat(X)
        return validate_data(self, X, reset=False, ensure_all_finite=finite, **self._rows)

    def _checked_scores(self, X: Any) -> np.ndarray:
        return self._scores(self._check(X))


@contextmanager
def all_or_nothing(estimator: BaseEstimator) -> Iterator[None]:
    """Take back what a failing fit has learnt: no model, or the one before, but no half of one."""
    before = _learnt(estimator)
    try:
        yield
    except BaseException:
        for name in _learnt(estimator):
            delattr(estimator, name)
        vars(estimator).update(before)
        raise


def _learnt(estimator: BaseEstimator) -> dict[str, Any]:
    return {name: value for name, value in vars(estimator).items() if name.endswith("_")}


class _Relay:
    """Passes each iteration on to scikit-learn's callbacks."""

    def __init__(self, estimator: ConvexEstimator, context: Any) -> None:
        self.estimator = estimator
        self.context = context
        self.heard = hasattr(estimator, "_skl_callbacks")

    def __call__(self, progress: Progress) -> bool:
        if not self.heard:
            return False
        task = self.context.subcontext(task_name="iteration")
        metadata = {"relative_gap": progress.relative_gap}
        task.call_on_fit_task_begin(estimator=self.estimator, metadata=metadata)
        return bool(task.call_on_fit_task_end(estimator=self.estimator, metadata=metadata))


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
    """The factor of each class, as scikit-learn's `class_weight` says, for samples of given weights."""
    factors = compute_class_weight(class_weight, classes=classes, y=y, sample_weight=own)
    if isinstance(class_weight, str) and class_weight == "balanced":
        # A class without a sample that counts has no balance; its samples count nothing anyway.
        factors = np.where(np.isfinite(factors), factors, 0.0)
    if np.any(factors < 0) or not np.all(np.isfinite(factors)):
        raise ValueError(f"class_weight must be non-negative, got {class_weight!r}")
    return factors


def check_oracle_type(oracle: Any) -> InvarianceOracle:
    """The oracle, that of no change for None; TypeError for anything else."""
    if oracle is None:
        return Identity()
    if not isinstance(oracle, InvarianceOracle):
        raise TypeError(f"oracle must be an InvarianceOracle or None, got {oracle!r}")
    return oracle


def check_flat(X: Any) -> None:
    """Raise ValueError if `X` is a stack of images, or of volumes, and say how to make rows of them."""
    if isinstance(X, np.ndarray) and X.ndim > 2:
        raise ValueError(
            f"X must have shape (n_samples, n_features), got {X.shape}; X.reshape(len(X), -1) makes "
            "rows of images"
        )


def check_number(
    name: str, value: Any, *, minimum: float, strict: bool = False, finite: bool = True
) -> None:
    """Raise TypeError or ValueError unless `value` is a real number of at least `minimum`."""
    allowed = f"a number {'above' if strict else 'of at least'} {minimum:g}"
    if not isinstance(value, Real) or isinstance(value, bool):
        raise TypeError(f"{name} must be {allowed}, got {value!r}")
    number = float(value)
    too_small = not number > minimum if strict else not number >= minimum
    if too_small or (finite and not np.isfinite(number)):
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
