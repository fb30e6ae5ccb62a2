"""Loop of a run: time, checks, stopping rules, Ctrl-C and duality gap."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from ..spaces.base import Element
from ..terms import Objective, WorstCase
from ..terms.objective import never
from ..utils.jit import Stopwatch
from .base import Record, Solution, Solver, Start, Status
from .stopping import Gap, Progress, StopRule, has_stalled

_local = threading.local()
# Largest excess of the lower over the upper bound due to rounding: relative, and in rounding units of
# the rows. The larger one applies.
CROSSED, UNITS_CROSSED = 1e-7, 10.0
# Ratio of the gap after a step to its estimate, from before the step, until a check measures it.
FIRST_RATIO = 0.3
# Maximum fraction of the time limit that is reserved for the final check.
MOST_RESERVED = 0.5
Callback = Callable[[Progress], bool | None]
OnIteration = Callable[[float, Callable[[], Start]], None]


class Interrupts:
    """Handler of Ctrl-C during a run."""

    def __init__(self) -> None:
        self.interruptible = True
        self.pressed = False

    def caused_by(self, error: BaseException) -> bool:
        """Return whether Ctrl-C caused an error."""
        # Libraries may raise another error than KeyboardInterrupt.
        return self.pressed or isinstance(error, KeyboardInterrupt)

    def __call__(self, number: int, frame: Any) -> None:
        """Handle the signal."""
        self.pressed = True
        if self.interruptible:
            self.interruptible = False
            raise KeyboardInterrupt


@contextmanager
def interrupts() -> Iterator[Interrupts]:
    """Handle Ctrl-C during a `with` statement; nested statements share one handler.

    It has an effect only in the main thread, which receives signals, and only if Python's default
    handler is installed. Otherwise Ctrl-C is not recorded.
    """
    outer = getattr(_local, "interrupts", None)
    if outer is not None:
        yield outer
        return
    handler = Interrupts()
    main = threading.current_thread() is threading.main_thread()
    replaced = main and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    _local.interrupts = handler
    try:
        if replaced:
            signal.signal(signal.SIGINT, handler)
        yield handler
    finally:
        handler.interruptible = False
        _local.interrupts = None
        if replaced:
            signal.signal(signal.SIGINT, signal.default_int_handler)


def solve(
    objective: Objective,
    solver: Solver,
    stop: StopRule | None = None,
    warm_start: Solution | Start | None = None,
    callbacks: Sequence[Callback] = (),
    random_state: int | np.random.Generator | None = None,
    check_always: bool = False,
    on_iteration: OnIteration | None = None,
) -> Solution:
    """Minimize an objective by a solver until a stopping rule ends the run.

    Ctrl-C ends a run like a stopping rule, with the best function so far. A second Ctrl-C also ends the
    final check of the duality gap. The bounds are then those of the check before. A part of a time
    limit is reserved for the final check, so at most one pass of the oracles follows the deadline.

    Parameters
    ----------
    objective : Objective
        Objective to minimize.
    solver : Solver
        Solver with its parameters.
    stop : StopRule, default=``Gap(1e-3)``
        Condition that ends the run. A stalled run always ends.
    warm_start : Solution or Start, optional
        Start of the run. It may be the solution of another objective: its dual variables are clipped to
        the feasible set of this one. The stopping rule is applied to the warm start before the first
        step.
    callbacks : sequence of callable
        Functions of a `Progress`, called after each iteration. A run ends if one returns True.
    random_state : int or Generator, optional
        Seed or source of the random numbers of the run.
    check_always : bool, default=False
        Whether bounds are computed after every step, for curves of the gap against time. By default,
        they are computed if the solver's estimate of the gap is small, and every ten steps.
    on_iteration : callable, optional
        Function called after each iteration. Its first argument is the time since the start, in
        seconds. The second one is a function that returns a start with the best element so far.

    Returns
    -------
    Solution
        Best function with its duality gap, recomputed without cached values.

    Raises
    ------
    ValueError
        If the solver does not support the objective, or the function of the warm start has another size.

    See Also
    --------
    Solver : Base class of solvers.
    Gap : Stopping rule for the relative duality gap.

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
    start = None if warm_start is None else _adopted(objective, warm_start)
    rng = np.random.default_rng(random_state)
    stop = stop or Gap(1e-3)
    with interrupts() as ctrl_c, np.errstate(over="ignore", invalid="ignore"):
        run = _Run(objective, solver, stop, start, check_always)
        objective.out_of_time = run.out_of_time if run.limited else never
        try:
            try:
                state = solver.init(objective, rng, start)
                with np.errstate(over="call", call=run.note_overflow):
                    status = run.iterate(state, callbacks, ctrl_c, on_iteration)
                ctrl_c.interruptible = False
            except BaseException as error:
                if run.state is None or not ctrl_c.caused_by(error):
                    raise
                ctrl_c.pressed, status = True, Status.INTERRUPTED
            return run.finish(status, ctrl_c)
        finally:
            objective.out_of_time = never


def _adopted(objective: Objective, earlier: Solution | Start) -> Start:
    """Return a start whose function belongs to the objective's space."""
    space = objective.space
    if not space.accepts(earlier.f):
        raise ValueError(
            "warm_start must be a solution of an objective with as many features and functions"
        )
    bounds = [term.bound for term in objective.terms if isinstance(term, WorstCase)]
    return Start(space.adopted(earlier.f, bounds), earlier.dual_variables)


class _Run:
    """Best function and bounds of one run."""

    def __init__(
        self,
        objective: Objective,
        solver: Solver,
        stop: StopRule,
        start: Start | None,
        check_always: bool,
    ) -> None:
        self.objective = objective
        self.solver = solver
        self.stop, self.tolerance = stop, stop.tolerance
        self.state: Any = None
        self.history: list[Record] = []
        self.deadline = stop.deadline
        self.limited = bool(np.isfinite(stop.deadline))
        # Estimated seconds of a pass of the oracles, and of the final check with the certificate.
        self.pass_seconds = 0.0
        self.check_seconds: float | None = None
        self.overflowed = False
        self.relaxed = objective.relaxed
        self.watch = Stopwatch()
        self.calls_before = objective.oracle_calls
        self.iteration = 0
        # Time of the end of the last step or check.
        self.seconds = 0.0
        self.f = self.last = objective.space.zeros()
        at_zero = objective.at_zero
        self.primal, self.at_f = at_zero.upper, at_zero.attained
        # Whether the objective computed `primal` without cached values.
        self.value_is_recomputed = False
        # Lowest attained value. If upper bounds are loose, another point than `f` may have it.
        self.attained = at_zero.attained
        self.scale = 1e-12 * at_zero.attained
        self.dual = -np.inf
        # Relative gaps at the last check.
        self.gap = self.attained_gap = np.inf
        self.check_every = 1 if check_always else 10
        self.next_check = self.check_every
        # Estimate of the last step, and the ratio of the gap after a step to its estimate.
        self.estimate, self.ratio = 0.0, FIRST_RATIO
        self.resumed = start is not None
        if start is not None:
            value = objective.value(start.f)
            self._offer(start.f, value.upper, value.attained, recomputed=True)

    def out_of_time(self) -> bool:
        """Return whether the current step must end to leave time for the final check."""
        return self.watch.seconds + self._ending_seconds() >= self.deadline

    def _ending_seconds(self) -> float:
        """Return the seconds to reserve for the end: at most half of the time limit."""
        ending = self.pass_seconds if self.check_seconds is None else self.check_seconds
        return min(ending, MOST_RESERVED * self.deadline)

    def note_overflow(self, what: str, flag: int) -> None:
        """Record an overflow, as an error handler of NumPy."""
        self.overflowed = True

    def iterate(
        self,
        state: Any,
        callbacks: Sequence[Callback],
        ctrl_c: Interrupts,
        on_iteration: OnIteration | None = None,
    ) -> Status:
        """Run steps and checks until a rule, a callback, Ctrl-C or an overflow ends the run."""
        self.state = state
        reason = self._reason(checked=True) if self.resumed else None
        while reason is None:
            if ctrl_c.pressed:
                return Status.INTERRUPTED
            # A callback may have started another run, which shares this handler.
            ctrl_c.interruptible = True
            began, n_oracle_rows = self.watch.seconds, self.objective.oracle_calls
            self.overflowed = False
            estimate = self.solver.step(self.objective, state)
            n_oracle_rows = self.objective.oracle_calls - n_oracle_rows
            self.seconds = self.watch.seconds
            if self.limited and n_oracle_rows > 0:
                ratio = self.objective.rows_of_a_pass / n_oracle_rows
                self.pass_seconds = (self.seconds - began) * ratio
            self.iteration += 1
            reason = self._reason(self._due(estimate), callbacks)
            if reason is None and self.overflowed and self._stands_still():
                reason = Status.NOT_FINITE
            if reason is None and self.solver.finished(self.objective, state):
                reason = Status.WITHIN_PLANE_TOL
            if on_iteration is not None:
                on_iteration(self.watch.seconds, self._so_far)
        return reason

    def _so_far(self) -> Start:
        return Start(self.f, self.solver.dual_variables(self.objective, self.state))

    def _certify(self, status: Status) -> None:
        """Compute the value of the result, unless the objective has already computed it."""
        if self.iteration and (not self.history or self.history[-1].iteration < self.iteration):
            self._check()
        # The function of the planes is optimal within plane_tol. Another point may have a lower value by
        # chance, even zero if plane_tol is larger than the losses.
        f = self.last.copy() if status is Status.WITHIN_PLANE_TOL else self.f
        if f is self.f and self.value_is_recomputed:
            return
        value = self.objective.value(self.objective.space.uncached(f))
        self.f, self.primal = f, value.upper
        self.attained = min(self.attained, value.attained)

    def finish(self, status: Status, ctrl_c: Interrupts) -> Solution:
        """Recompute the bounds and return the solution; after Ctrl-C, use those of the last check."""
        try:
            ctrl_c.interruptible = True
            self._certify(status)
            ctrl_c.interruptible = False
        except BaseException as error:
            if not ctrl_c.caused_by(error):
                raise
            ctrl_c.pressed = True
        # Ctrl-C may also have been recorded without an exception.
        status = Status.INTERRUPTED if ctrl_c.pressed else status
        gap, attained_gap = self._relative(self.primal), self._relative(self.attained)
        # The solver converged for the perturbed samples found, but loose upper bounds may leave a gap.
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
        """Return the best function so far with its bounds."""
        return Solution(
            f=self.f,
            primal=self.primal,
            dual=self.dual,
            gap=self.primal - self.dual,
            relative_gap=self._relative(self.primal),
            status=status,
            history=self.history,
            dual_variables=self.solver.dual_variables(self.objective, self.state),
            iterations=self.iteration,
            oracle_calls=self._rows(),
            seconds=self.watch.seconds,
            compile_seconds=self.watch.compile_seconds,
            relaxed=self.relaxed,
            solver=type(self.solver).__name__,
        )

    def _reason(self, checked: bool, callbacks: Sequence[Callback] = ()) -> Status | None:
        """Return the reason to end the run here, or None."""
        if checked and not self._check():
            return Status.NOT_FINITE
        progress = Progress(
            iteration=self.iteration,
            oracle_calls=self._rows(),
            seconds=self.seconds,
            relative_gap=self.gap,
            attained_gap=self.attained_gap,
            history=self.history,
            checked=checked,
            solution=lambda: self._solution(Status.INTERRUPTED),
        )
        ends = [callback(progress) for callback in callbacks]
        if self.limited:
            # End time of the run if it ends here, because the final check takes time.
            progress = replace(progress, seconds=self.seconds + self._ending_seconds())
        reason = self.stop.reason(progress)
        if reason is None and checked and has_stalled(self.history, self.solver):
            reason = Status.STALLED
        if reason is None and any(ends):
            reason = Status.INTERRUPTED
        return reason

    def _stands_still(self) -> bool:
        """Return whether the check of this iteration left the bounds unchanged."""
        before, now = self.history[-2:] if len(self.history) > 1 else (None, None)
        if before is None or now is None or now.iteration < self.iteration:
            return False
        return (before.primal, before.dual) == (now.primal, now.dual)

    def _due(self, estimate: float | None) -> bool:
        """Return True without an estimate, for a small one, or some steps after the last check."""
        if estimate is None:
            return True
        self.estimate = estimate
        promising = self.ratio * estimate <= 1.5 * self.tolerance * abs(self.attained)
        if promising or self.iteration >= self.next_check:
            self.next_check = self.iteration + self.check_every
            return True
        return False

    def _check(self) -> bool:
        """Update the best bounds; return False if the dual or the attained value is not finite."""
        began, n_oracle_rows = self.watch.seconds, self.objective.oracle_calls
        bounds = self.solver.bounds(self.objective, self.state)
        if not np.isfinite(bounds.dual + self.objective.space.dot(bounds.f, bounds.f)):
            return False
        if bounds.upper is None or bounds.attained is None:
            finite = self._value(bounds.f)
        elif finite := bool(np.isfinite(bounds.attained)):
            self._offer(bounds.f, bounds.upper, bounds.attained, recomputed=False)
        for f in bounds.others:
            finite = finite and (self.objective.out_of_time() or self._value(f))
        if not finite:
            return False
        self.seconds = self.watch.seconds
        if self.limited:
            # After a check without oracle calls, the certificate needs a pass of its own.
            called = self.objective.oracle_calls > n_oracle_rows
            self.check_seconds = self.seconds - began + (0.0 if called else self.pass_seconds)
        self.last = bounds.f
        self.dual = max(self.dual, bounds.dual)
        self.gap, self.attained_gap = self._relative(self.primal), self._relative(self.attained)
        gap = max(self.attained - self.dual, 0.0)
        if 0 < self.estimate < np.inf and gap < np.inf:
            self.ratio = min(gap / self.estimate, 1.0)
        self.history.append(Record(self.iteration, self._rows(), self.seconds, self.primal, self.dual))
        return True

    def _value(self, f: Element) -> bool:
        """Compute the objective at `f` and offer it; return False if the value is not finite."""
        value = self.objective.value(f)
        if np.isfinite(value.attained):
            self._offer(f, value.upper, value.attained, recomputed=True)
        return bool(np.isfinite(value.attained))

    def _offer(self, f: Element, upper: float, attained: float, recomputed: bool) -> None:
        """Store `f` if it is better than the best function so far.

        Functions are compared by their values over the perturbed samples found. With loose upper bounds,
        the upper values would favor the zero function, whose bound is always tight.
        """
        if (attained, upper) < (self.at_f, self.primal):
            self.f, self.primal, self.at_f = f.copy(), upper, attained
            self.value_is_recomputed = recomputed and self.objective.space.uncached(f) is f
        self.attained = min(self.attained, attained)

    def _relative(self, primal: float) -> float:
        if not np.isfinite(self.dual) or not np.isfinite(primal):
            return np.inf
        return float((primal - self.dual) / max(primal, self.scale, np.finfo(float).tiny))

    def _rows(self) -> int:
        return self.objective.oracle_calls - self.calls_before
