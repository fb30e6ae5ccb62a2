"""Stopping rules: duality gap, iterations, oracle calls, time; join with ``|``."""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from ..utils.parameters import check_number
from .base import Record, Solution, Solver, Status

# Largest ratios of the gap to that at half the number of iterations, for a run that is slow and for one
# that stands still. In 3,700 recorded runs, none that converged later had a ratio above the second one,
# except for runs of Pegasos.
SLOW, STILL = 0.9, 0.9999


@dataclass(frozen=True)
class Progress:
    """State of a run for stopping rules and callbacks.

    - `iteration, oracle_calls`: numbers of iterations, and of rows for which oracles were called
    - `seconds`: time since the start
    - `relative_gap`: relative gap of the best bounds so far; infinity before the first check
    - `attained_gap`: relative gap over the perturbed samples that the oracles found
    - `history`: one record per check
    - `checked`: whether this iteration was checked
    - `solution`: function that returns the solution of a run interrupted here
    """

    iteration: int
    oracle_calls: int
    seconds: float
    relative_gap: float
    attained_gap: float
    history: Sequence[Record]
    checked: bool
    solution: Callable[[], Solution] = field(repr=False)


class StopRule(ABC):
    """Base class of stopping rules."""

    @abstractmethod
    def reason(self, progress: Progress) -> Status | None:
        """Return the status if the run ends here, or None.

        Parameters
        ----------
        progress : Progress
            State of the run.

        Returns
        -------
        Status or None
            Reason to end the run.
        """

    @property
    def tolerance(self) -> float:
        """Relative gap at which the rule ends a run; 0 if the rule ignores the gap."""
        return 0.0

    @property
    def deadline(self) -> float:
        """Time limit in seconds; infinity if the rule ignores the time."""
        return np.inf

    def __or__(self, other: StopRule) -> AnyOf:
        rules = [rule.rules if type(rule) is AnyOf else (rule,) for rule in (self, other)]
        return AnyOf(rules[0] + rules[1])


@dataclass(frozen=True)
class AnyOf(StopRule):
    """Stopping rule that ends a run with the first of several rules that applies."""

    rules: tuple[StopRule, ...]

    def reason(self, progress: Progress) -> Status | None:
        for rule in self.rules:
            reason = rule.reason(progress)
            if reason is not None:
                return reason
        return None

    @property
    def tolerance(self) -> float:
        return max(rule.tolerance for rule in self.rules)

    @property
    def deadline(self) -> float:
        return min(rule.deadline for rule in self.rules)


@dataclass(frozen=True)
class Gap(StopRule):
    """Stopping rule for the relative duality gap.

    With inexact oracles, the gap may be small only for the perturbed samples that they found. The run
    then ends with the status "oracle too coarse".

    Parameters
    ----------
    relative : float
        Maximum relative gap (>= 0).

    See Also
    --------
    Seconds : Time limit.
    Iterations : Maximum number of iterations.

    Examples
    --------
    >>> from structinv.solvers import Gap, Iterations, Seconds
    >>> Gap(1e-3) | Seconds(60) | Iterations(1000)
    AnyOf(rules=(Gap(relative=0.001), Seconds(limit=60), Iterations(limit=1000)))
    """

    relative: float

    def __post_init__(self) -> None:
        check_number("Gap", self.relative, finite=False)

    def reason(self, progress: Progress) -> Status | None:
        if progress.relative_gap <= self.relative:
            return Status.CONVERGED
        # With nearly tight bounds, further steps may still reach the tolerance.
        slack = progress.relative_gap - progress.attained_gap
        if progress.attained_gap <= self.relative and slack > 0.5 * self.relative:
            return Status.ORACLE_TOO_COARSE
        return None

    @property
    def tolerance(self) -> float:
        return self.relative


@dataclass(frozen=True)
class Seconds(StopRule):
    """Stopping rule for the run time.

    The current step also ends at the limit; see `Solver.step`.

    Parameters
    ----------
    limit : float
        Maximum number of seconds (>= 0).

    See Also
    --------
    Gap : Stopping rule for the relative duality gap.
    OracleCalls : Maximum number of rows for which oracles are called.

    Examples
    --------
    >>> from structinv.solvers import Gap, Seconds
    >>> Gap(1e-3) | Seconds(60)
    AnyOf(rules=(Gap(relative=0.001), Seconds(limit=60)))
    """

    limit: float

    def __post_init__(self) -> None:
        check_number("Seconds", self.limit, finite=False)

    def reason(self, progress: Progress) -> Status | None:
        return Status.TIME_LIMIT if progress.seconds >= self.limit else None

    @property
    def deadline(self) -> float:
        return float(self.limit)


@dataclass(frozen=True)
class OracleCalls(StopRule):
    """Stopping rule for the number of rows for which oracles are called.

    Parameters
    ----------
    limit : float
        Maximum number of rows (>= 0).

    See Also
    --------
    Iterations : Maximum number of iterations.
    Seconds : Time limit.

    Examples
    --------
    >>> from structinv.solvers import Gap, OracleCalls
    >>> Gap(1e-3) | OracleCalls(10000)
    AnyOf(rules=(Gap(relative=0.001), OracleCalls(limit=10000)))
    """

    limit: float

    def __post_init__(self) -> None:
        check_number("OracleCalls", self.limit, finite=False)

    def reason(self, progress: Progress) -> Status | None:
        return Status.ORACLE_CALL_LIMIT if progress.oracle_calls >= self.limit else None


@dataclass(frozen=True)
class Iterations(StopRule):
    """Stopping rule for the number of iterations.

    Parameters
    ----------
    limit : float
        Maximum number of iterations (>= 0).

    See Also
    --------
    OracleCalls : Maximum number of rows for which oracles are called.
    Seconds : Time limit.

    Examples
    --------
    >>> from structinv.solvers import Gap, Iterations
    >>> Gap(1e-3) | Iterations(500)
    AnyOf(rules=(Gap(relative=0.001), Iterations(limit=500)))
    """

    limit: float

    def __post_init__(self) -> None:
        check_number("Iterations", self.limit, finite=False)

    def reason(self, progress: Progress) -> Status | None:
        return Status.ITERATION_LIMIT if progress.iteration >= self.limit else None


def has_stalled(history: Sequence[Record], solver: Solver) -> bool:
    """Return whether the gap has hardly decreased while the iterations doubled.

    A slow but steady run halves its gap while the iterations double, and continues. The solver defines
    the numbers of iterations before a slow run and one that stands still may end.
    """
    now = history[-1]
    is_late = now.iteration >= solver.min_iterations
    if not (is_late or now.iteration >= solver.still_iterations):
        return False
    number = bisect_right(history, now.iteration / 2, key=lambda record: record.iteration)
    if number == 0:
        return False
    earlier = history[number - 1]
    if np.isfinite(now.primal):
        shrink = SLOW if is_late else STILL
        return now.primal - now.dual > shrink * (earlier.primal - earlier.dual)
    # Without an upper bound, only the dual value can show progress.
    return is_late and now.dual - earlier.dual <= 0.01 * abs(earlier.dual)
