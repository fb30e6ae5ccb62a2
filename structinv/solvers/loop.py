"""The one loop: it owns time, counts, history, checks, interruption, status and the certificate."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..spaces.base import Element
from ..terms import Objective
from ..terms.base import never
from ..terms.planes import PlaneSet
from ..utils.jit import Stopwatch
from .base import Record, Solution, Solver, Status
from .interruption import Interrupts, interrupts
from .stopping import Gap, Progress, Stall, StopRule
from .warm_start import fitting

# Bounds that cross by more, relative, or by more units of the rows' rounding, are false.
CROSSED, UNITS_CROSSED = 1e-7, 10.0
# Share of the time limit that is kept back for the last check at most.
MOST_KEPT_BACK = 0.5

Callback = Callable[[Progress], bool | None]
OnIteration = Callable[[float, Callable[[], tuple[Element, PlaneSet]]], None]


def solve(
    objective: Objective,
    solver: Solver,
    stop: StopRule | None = None,
    warm_start: Solution | None = None,
    callbacks: Sequence[Callback] = (),
    random_state: int | np.random.Generator | None = None,
    check_always: bool = False,
    on_iteration: OnIteration | None = None,
) -> Solution:
    """Lower an objective until a stop rule says so.

    Parameters
    ----------
    objective : Objective
    solver : Solver
    stop : StopRule, default=``Gap(1e-3)``
        A stall rule is always added, so that no run goes on for ever.
    warm_start : Solution, optional
        Of an objective with the same blocks: other weights, or a larger S(x) on the same rows. One
        of a kernel's space, pickled perhaps, is brought into the objective's. It is checked before the
        first step, so that a start that is good enough ends the run.
    callbacks : sequence of callable
        Called after each iteration with a `Progress`; one that returns True ends the run.
    random_state : int or Generator, optional
    check_always : bool, default=False
        Compute the bounds after every step, for curves of the gap against time. By default a solver
        that estimates its gap is checked when the estimate is promising, and every ten steps.
    on_iteration : callable, optional
        Called after each iteration with the seconds since the start, and with a function that gives
        the best element and the planes so far: what a later run can start from.

    Returns
    -------
    Solution
        Its value is the objective's own, with nothing cached. Ctrl-C ends a run like a stop rule, with
        the best function so far; a second one ends that last computation, too, and the bounds are
        those of the last check. Of a time limit, what the last check took is kept back for the last
        one, so that no more than a pass of the oracles follows the deadline.

    Raises
    ------
    ValueError
        If the objective is not sound for the solver, or the warm start does not fit.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.terms import Objective
    >>> from structinv.terms import WorstCase
    >>> from structinv.oracles import Box
    >>> from structinv.structures import Binary
    >>> from structinv.solvers import FrankWolfe, Gap, solve
    >>> from structinv.spaces import ExplicitSpace
    >>> X, y = np.array([[2.0, 0.0], [-2.0, 1.0]]), np.array([1, -1])
    >>> objective = Objective(ExplicitSpace(2), [WorstCase(X, y, Box(0.5), Binary())])
    >>> solve(objective, FrankWolfe(), Gap(1e-6), random_state=0).status.value
    'converged'
    """
    solver.validate(objective)
    if warm_start is not None:
        warm_start = fitting(objective, warm_start)
    rng = np.random.default_rng(random_state)
    stop = (stop or Gap(1e-3)) | Stall(solver.min_iterations)
    overflow = _OverflowRecorder()
    with interrupts() as ctrl_c, np.errstate(over="call", invalid="ignore", call=overflow):
        run = _Run(objective, solver, stop, warm_start, check_always, overflow)
        objective.out_of_time = never if run.ending_cost is None else run.out_of_time
        try:
            try:
                known = warm_start.planes if warm_start is not None and len(warm_start.planes) else None
                state = solver.init(objective, rng, known)
                status = run.iterate(state, callbacks, ctrl_c, on_iteration)
                ctrl_c.interruptible = False
            except BaseException as error:
                if run.state is None or not ctrl_c.caused_by(error):
                    raise
                ctrl_c.pressed, status = True, Status.INTERRUPTED
            return run.finish(status, ctrl_c)
        finally:
            objective.out_of_time = never


class _OverflowRecorder:
    """Hears of numbers that overflow, instead of the user, who hears of them by the status."""

    def __init__(self) -> None:
        self.seen = False

    def __call__(self, what: str, flag: int) -> None:
        self.seen = True


class EndingCost:
    """Seconds that the last check and the certificate will take, as the checks before have shown.

    Where a check asks no oracle, as the solver knows its values from the step, the certificate is a
    pass on top of it, and as slow a row as the step was. As long as there has been no check, a pass as
    slow as the step's is kept back: a step asks each row, too, and does more.

    Parameters
    ----------
    deadline : float
        In seconds since the start.

    Examples
    --------
    >>> ending_cost = EndingCost(deadline=10.0)
    >>> ending_cost.is_due(9.0)
    False
    >>> ending_cost.stepped(3.0, asked=100, rows=100)
    >>> ending_cost.seconds
    3.0
    >>> ending_cost.checked(2.0, asked=100)
    >>> ending_cost.seconds, ending_cost.is_due(9.0)
    (2.0, True)
    """

    def __init__(self, deadline: float) -> None:
        self.deadline = deadline
        self._check: float | None = None
        self._pass = 0.0

    def stepped(self, seconds: float, asked: int, rows: int) -> None:
        """Learn from a step in which so many rows were asked; a pass asks `rows`."""
        if asked > 0:
            self._pass = seconds * rows / asked

    def checked(self, seconds: float, asked: int) -> None:
        """Learn from a check in which so many rows were asked."""
        self._check = seconds if asked > 0 else seconds + self._pass

    @property
    def seconds(self) -> float:
        """What is kept back: never more than half of the time there is, so that steps are made, too."""
        ending = self._pass if self._check is None else self._check
        return min(ending, MOST_KEPT_BACK * self.deadline)

    def is_due(self, now: float) -> bool:
        """Whether a run that is to end by the deadline has to end now."""
        return now + self.seconds >= self.deadline


class _Run:
    """The best bounds of one run."""

    def __init__(
        self,
        objective: Objective,
        solver: Solver,
        stop: StopRule,
        warm_start: Solution | None,
        check_always: bool,
        overflow: _OverflowRecorder,
    ) -> None:
        self.overflow = overflow
        self.objective = objective
        self.solver = solver
        self.stop, self.tolerance = stop, stop.tolerance
        self.state: Any = None
        self.history: list[Record] = []
        self.ending_cost = EndingCost(stop.deadline) if np.isfinite(stop.deadline) else None
        self.relaxed = objective.relaxed
        self.watch = Stopwatch()
        self.calls_before = objective.rows_asked
        self.iteration = 0
        # When the last step or check ended.
        self.seconds = 0.0
        self.f = self.last = objective.space.zeros()
        at_zero = objective.at_zero
        self.primal, self.at_f = at_zero.upper, at_zero.attained
        # Whether that value is the objective's own, with nothing cached.
        self.own_value = False
        # With loose bounds, the point of the lowest primal is not that of the lowest attained value.
        self.attained = at_zero.attained
        self.scale = 1e-12 * at_zero.attained
        self.dual = -np.inf
        # Relative, as of the last check.
        self.gap = self.attained_gap = np.inf
        self.check_every = 1 if check_always else 10
        self.next_check = self.check_every
        self.resumed = warm_start is not None
        if warm_start is not None:
            value = objective.value(warm_start.f)
            self._offer(warm_start.f, value.upper, value.attained, own=True)

    def out_of_time(self) -> bool:
        """Whether time is up, but for what ending takes, so that a step under way had better end."""
        return self.ending_cost is not None and self.ending_cost.is_due(self.watch.seconds)

    def iterate(
        self,
        state: Any,
        callbacks: Sequence[Callback],
        ctrl_c: Interrupts,
        on_iteration: OnIteration | None = None,
    ) -> Status:
        """Step and check until a rule, a callback or a number that is none ends it."""
        self.state = state
        reason = self._reason(checked=True) if self.resumed else None
        while reason is None:
            if ctrl_c.pressed:
                return Status.INTERRUPTED
            # A callback may have run something of its own.
            ctrl_c.interruptible = True
            began, asked = self.watch.seconds, self.objective.rows_asked
            self.overflow.seen = False
            estimate = self.solver.step(self.objective, state)
            asked = self.objective.rows_asked - asked
            self.seconds = self.watch.seconds
            if self.ending_cost is not None:
                self.ending_cost.stepped(self.seconds - began, asked, self.objective.rows_of_a_pass)
            self.iteration += 1
            reason = self._reason(self._due(estimate), callbacks)
            if reason is None and self.overflow.seen and self._stands_still():
                reason = Status.NOT_FINITE
            if reason is None and self.solver.finished(self.objective, state):
                reason = Status.WITHIN_PLANE_TOL
            if on_iteration is not None:
                on_iteration(self.watch.seconds, self._so_far)
        return reason

    def _so_far(self) -> tuple[Element, PlaneSet]:
        return self.f, self.solver.planes(self.objective, self.state)

    def _certify(self, status: Status) -> None:
        """Compute the value anew where the run has ended, unless it is the objective's own."""
        if self.iteration and (not self.history or self.history[-1].iteration < self.iteration):
            self._check()
        # The function of the planes is what plane_tol is about: another point may do better by
        # chance, even zero, where plane_tol leaves out more than the losses are worth.
        f = self.last.copy() if status is Status.WITHIN_PLANE_TOL else self.f
        if f is self.f and self.own_value:
            return
        value = self.objective.value(self.objective.space.fresh(f))
        self.f, self.primal = f, value.upper
        self.attained = min(self.attained, value.attained)

    def finish(self, status: Status, ctrl_c: Interrupts) -> Solution:
        """The solution and its certificate, recomputed; Ctrl-C makes do with that of the last check."""
        try:
            ctrl_c.interruptible = True
            self._certify(status)
            ctrl_c.interruptible = False
        except BaseException as error:
            if not ctrl_c.caused_by(error):
                raise
            ctrl_c.pressed = True
        # Also one that came between, and was not raised.
        status = Status.INTERRUPTED if ctrl_c.pressed else status
        gap, attained_gap = self._relative(self.primal), self._relative(self.attained)
        # What the solver can do with the changes that it is told of is done; bounds are another thing.
        unbounded = not np.isfinite(self.primal)
        done = {
            Status.STALLED: unbounded or attained_gap <= self.tolerance,
            Status.WITHIN_PLANE_TOL: unbounded,
        }
        if status is Status.CONVERGED and gap > self.tolerance:
            status = Status.STALLED
        elif gap <= self.tolerance and status is not Status.INTERRUPTED:
            status = Status.CONVERGED
        elif done.get(status, False):
            status = Status.ORACLE_TOO_COARSE
        rounding = max(CROSSED, UNITS_CROSSED * self.objective.unit)
        if self.primal - self.dual < -rounding * max(abs(self.primal), self.scale):
            status = Status.INCONSISTENT
        return self._solution(status)

    def _solution(self, status: Status) -> Solution:
        """The best function so far, with the bounds that are known of it."""
        return Solution(
            f=self.f,
            primal=self.primal,
            dual=self.dual,
            gap=self.primal - self.dual,
            relative_gap=self._relative(self.primal),
            status=status,
            history=self.history,
            planes=self.solver.planes(self.objective, self.state),
            iterations=self.iteration,
            rows_asked=self._rows(),
            seconds=self.watch.seconds,
            compile_seconds=self.watch.compile_seconds,
            relaxed=self.relaxed,
            solver=type(self.solver).__name__,
        )

    def _reason(self, checked: bool, callbacks: Sequence[Callback] = ()) -> Status | None:
        """Why to end here, if there is a reason."""
        if checked and not self._check():
            return Status.NOT_FINITE
        progress = Progress(
            iteration=self.iteration,
            rows_asked=self._rows(),
            seconds=self.seconds,
            relative_gap=self.gap,
            attained_gap=self.attained_gap,
            history=self.history,
            checked=checked,
            solution=self._so_far_solved,
        )
        wishes = [callback(progress) for callback in callbacks]
        if self.ending_cost is not None:
            # Ended here, the run is over by then.
            progress = replace(progress, seconds=self.seconds + self.ending_cost.seconds)
        reason = self.stop.reason(progress)
        if reason is None and any(wishes):
            return Status.INTERRUPTED
        return reason

    def _so_far_solved(self) -> Solution:
        """The solution at this iteration, which later ones do not change."""
        solution = self._solution(Status.INTERRUPTED)
        return replace(solution, planes=solution.planes.written())

    def _stands_still(self) -> bool:
        """Whether this iteration was checked, and its bounds are those of the check before it."""
        before, now = self.history[-2:] if len(self.history) > 1 else (None, None)
        if before is None or now is None or now.iteration < self.iteration:
            return False
        return (before.primal, before.dual) == (now.primal, now.dual)

    def _due(self, estimate: float | None) -> bool:
        """Whether to check: always without an estimate, else when it is promising, or at last."""
        if estimate is None:
            return True
        promising = estimate <= 1.5 * self.tolerance * abs(self.attained)
        if promising or self.iteration >= self.next_check:
            self.next_check = self.iteration + self.check_every
            return True
        return False

    def _check(self) -> bool:
        """Update the best bounds; False if they are not numbers."""
        began, asked = self.watch.seconds, self.objective.rows_asked
        bounds = self.solver.bounds(self.objective, self.state)
        if not np.isfinite(bounds.dual + self.objective.space.dot(bounds.f, bounds.f)):
            return False
        if bounds.upper is None or bounds.attained is None:
            finite = self._value(bounds.f)
        elif finite := bool(np.isfinite(bounds.attained)):
            self._offer(bounds.f, bounds.upper, bounds.attained, own=False)
        for f in bounds.others:
            finite = finite and (self.objective.out_of_time() or self._value(f))
        if not finite:
            return False
        self.seconds = self.watch.seconds
        if self.ending_cost is not None:
            self.ending_cost.checked(self.seconds - began, self.objective.rows_asked - asked)
        self.last = bounds.f
        self.dual = max(self.dual, bounds.dual)
        self.gap, self.attained_gap = self._relative(self.primal), self._relative(self.attained)
        self.history.append(Record(self.iteration, self._rows(), self.seconds, self.primal, self.dual))
        return True

    def _value(self, f: Element) -> bool:
        """Offer a function with the objective's own value; False if that is not a number."""
        value = self.objective.value(f)
        if np.isfinite(value.attained):
            self._offer(f, value.upper, value.attained, own=True)
        return bool(np.isfinite(value.attained))

    def _offer(self, f: Element, upper: float, attained: float, own: bool) -> None:
        """Keep `f` if it is better than the best so far.

        With loose bounds, or none, the best is what does best against the changes that are found: the
        zero function, of which a tight bound is always known, would be no use to anybody.
        """
        if (attained, upper) < (self.at_f, self.primal):
            self.f, self.primal, self.at_f = f.copy(), upper, attained
            self.own_value = own and self.objective.space.fresh(f) is f
        self.attained = min(self.attained, attained)

    def _relative(self, primal: float) -> float:
        if not np.isfinite(self.dual) or not np.isfinite(primal):
            return np.inf
        return float((primal - self.dual) / max(primal, self.scale, np.finfo(float).tiny))

    def _rows(self) -> int:
        return self.objective.rows_asked - self.calls_before
