"""What all estimators share: solver choice, stop rules, progress, interruption, warnings."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from numbers import Integral, Real
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from ..matrices import Matrix, with_data
from ..objective import Objective
from ..oracles import Identity, InvarianceOracle
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


FEW_WEIGHTS = 16


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
        self._check_solver()
        return check_oracle_type(self.oracle)

    def _check_solver(self) -> None:
        names = ["auto", *REGISTRY]
        known = isinstance(self.solver, str) and self.solver in names
        if not known and not isinstance(self.solver, Solver):
            raise ValueError(f"solver must be one of {sorted(names)} or a Solver, got {self.solver!r}")

    def _make_solver(self, n_weights: int) -> Solver:
        """A solver of this estimator's own, for so many weights."""
        if isinstance(self.solver, Solver):
            return clone(self.solver)
        if self.solver != "auto":
            return REGISTRY[self.solver]()
        # With few weights a bundle of planes knows the whole objective, however badly it is scaled.
        return REGISTRY["bmrm" if n_weights <= FEW_WEIGHTS else "frank_wolfe"]()

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
        if solution.status is not Status.CONVERGED:
            warnings.warn(
                f"{type(self).__name__} ended with status '{solution.status.value}' after "
                f"{solution.iterations} iterations at a relative gap of "
                f"{solution.relative_gap:.2g} (tol={self.tol:g}): {solution.status.advice}",
                ConvergenceWarning,
                stacklevel=4,
            )
        return solution


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


def check_oracle_type(oracle: Any) -> InvarianceOracle:
    """The oracle, that of no change for None; TypeError for anything else."""
    if oracle is None:
        return Identity()
    if not isinstance(oracle, InvarianceOracle):
        raise TypeError(f"oracle must be an InvarianceOracle or None, got {oracle!r}")
    return oracle


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
