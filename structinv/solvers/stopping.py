"""When a run ends: rules that combine with ``|``."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from ..utils.parameters import check_number
from .base import Record, Solution, Status


@dataclass(frozen=True)
class Progress:
    """What a rule may look at.

    Parameters
    ----------
    iteration, rows_asked : int
    seconds : float
    relative_gap : float
        Of the best bounds so far; infinity before the first check.
    attained_gap : float
        The same over the changes that the oracles found.
    history : sequence of Record
        One record a check.
    checked : bool
        Whether this iteration was checked.
    solution : callable
        Makes the solution, were the run interrupted here: the best function of the checks so far, with
        their bounds, not recomputed.
    """

    iteration: int
    rows_asked: int
    seconds: float
    relative_gap: float
    attained_gap: float
    history: Sequence[Record]
    checked: bool
    solution: Callable[[], Solution] = field(repr=False)


class StopRule(ABC):
    """A reason to end a run."""

    @abstractmethod
    def reason(self, progress: Progress) -> Status | None:
        """The status to end with, or None to go on."""

    @property
    def tolerance(self) -> float:
        """The relative gap that this rule waits for; 0 if it waits for none."""
        return 0.0

    @property
    def deadline(self) -> float:
        """After how many seconds this rule ends a run whatever else; infinity if time is none of its."""
        return np.inf

    def __or__(self, other: StopRule) -> AnyOf:
        rules = [rule.rules if type(rule) is AnyOf else (rule,) for rule in (self, other)]
        return AnyOf(rules[0] + rules[1])


@dataclass(frozen=True)
class AnyOf(StopRule):
    """Ends with the first of several rules that applies."""

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
    """Ends when the relative gap is at most `relative`.

    If only the gap over the changes found by inexact oracles is that small, the run ends as "oracle
    too coarse", since nothing bounds what they missed.

    Parameters
    ----------
    relative : float
        Largest relative gap, above 0.

    Examples
    --------
    >>> Gap(1e-3) | Seconds(60) | Iterations(1000)
    AnyOf(rules=(Gap(relative=0.001), Seconds(limit=60), Iterations(limit=1000)))
    """

    relative: float

    def __post_init__(self) -> None:
        check_number("Gap", self.relative, finite=False)

    def reason(self, progress: Progress) -> Status | None:
        if progress.relative_gap <= self.relative:
            return Status.CONVERGED
        if progress.attained_gap <= self.relative:
            return Status.ORACLE_TOO_COARSE
        return None

    @property
    def tolerance(self) -> float:
        return self.relative


@dataclass(frozen=True)
class Seconds(StopRule):
    """Ends after `limit` seconds; a step under way is cut short, see `Solver.step`.

    Parameters
    ----------
    limit : float
        Number of seconds, above 0.
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
    """Ends when the oracles have been asked `limit` rows.

    Parameters
    ----------
    limit : float
        Number of rows, above 0.
    """

    limit: float

    def __post_init__(self) -> None:
        check_number("OracleCalls", self.limit, finite=False)

    def reason(self, progress: Progress) -> Status | None:
        return Status.ORACLE_CALL_LIMIT if progress.rows_asked >= self.limit else None


@dataclass(frozen=True)
class Iterations(StopRule):
    """Ends after `limit` iterations.

    Parameters
    ----------
    limit : float
        Number of iterations, above 0.
    """

    limit: float

    def __post_init__(self) -> None:
        check_number("Iterations", self.limit, finite=False)

    def reason(self, progress: Progress) -> Status | None:
        return Status.ITERATION_LIMIT if progress.iteration >= self.limit else None


@dataclass(frozen=True)
class Stall(StopRule):
    """Ends when twice the iterations no longer shrink the gap noticeably.

    Slow but steady rates halve their gap when the iterations double, and go on.

    Parameters
    ----------
    min_iterations : int, default=500
        Iterations before the rule looks at all.
    shrink : float, default=0.9
        The gap must be below this share of what it was at half the iterations.
    """

    min_iterations: int = 500
    shrink: float = 0.9

    def reason(self, progress: Progress) -> Status | None:
        if not progress.checked or progress.iteration < self.min_iterations:
            return None
        earlier = [rec for rec in progress.history if 2 * rec.iteration <= progress.iteration]
        if not earlier:
            return None
        if not np.isfinite(progress.history[-1].primal):
            # Without a bound from above only the dual can show that anything still moves.
            gained = progress.history[-1].dual - earlier[-1].dual
            return Status.STALLED if gained <= 0.01 * abs(earlier[-1].dual) else None
        before = earlier[-1].primal - earlier[-1].dual
        now = progress.history[-1].primal - progress.history[-1].dual
        return Status.STALLED if now > self.shrink * before else None
