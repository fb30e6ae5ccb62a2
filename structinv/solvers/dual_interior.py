"""The dual of losses with piecewise linear derivatives, as one quadratic program within bounds."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import numpy as np

from ..losses.pieces import Segments
from ..spaces import RepresenterSpace
from ..terms import Objective
from ..terms.planes import PlaneSet
from ..utils.matrices import one_blas_thread
from .coefficients import coefficient_problem
from .equations import Equations
from .method import CoefficientMethod
from .newton_cg import ONE_THREAD, factors_pay

# How far a step goes toward the nearest end; the barrier at first, as a share of what is there.
LONGEST, FIRST = 0.995, 0.25
# Of the functionals, so many must be at kinks for all of them to be worth a factorization.
MOST = 0.5
# A start from known slopes keeps this share of a segment from its ends.
INSIDE = 0.02


class DualInterior(CoefficientMethod):
    """A primal-dual interior-point method (Mehrotra 1992) on the dual of functionals.

    With forces ``q = c p = base + sum t`` of losses whose derivatives are sums of `Segments` the dual is

        min 1/2 q' G q + sum_k start_k t_k + bend_k t_k^2 / 2   over   low <= t <= high,   B' q = 0.

    Eliminating t and the multipliers z of its ends leaves, a step, the equations
    ``(G + W^-1) dq - B db = r`` with ``W_i = sum_k 1 / (bend_k + z-/(t - low) + z+/(high - t))``: one
    factorization of G with a diagonal added. Some ten steps do, whatever G's condition, where Newton's
    method on smoothed kinks takes dozens. f itself has the coefficients -q, so that at every step the
    gap is what the losses and their conjugates leave between q and the functionals G q.

    Attributes
    ----------
    segments : Segments
        Of the forces.
    t, low, high : (k,) arrays
        Values, and how far they are from both ends: by themselves, as differences lose their digits. 1
        where an end is infinite.
    below, above : (k,) arrays
        Multipliers of the lower and the upper ends, 0 where an end is infinite.
    reached : (n,) array
        The functionals of the function of the values, with its free part: those of f after a step, but
        slopes to start from may lie at the ends.
    """

    name = "Representer(method='dual-interior')"

    @classmethod
    def pays(cls, objective: Objective) -> bool:
        """Whether it is what costs least: where most functionals end at kinks, or bend everywhere.

        Newton's method has factors of those only that bend where f is: few of hinges and of Huber's.
        """
        space = objective.space
        if not isinstance(space, RepresenterSpace) or not factors_pay(space.system):
            return False
        # In single precision a Gram matrix may be as good as indefinite; Newton's steps mind that less.
        if space.system.dtype != np.float64:
            return False
        kinked, held, size = False, 0.0, 0
        for term in objective.terms:
            own = term.coordinates()
            pieces = None if own is None else own.loss.pieces()
            if own is None or pieces is None:
                return False
            kinks = pieces.kinks()
            bends = np.all(np.isinf(pieces.breaks), axis=1) & (pieces.slopes[:, 0] > 0)
            kinked = kinked or bool(np.any(kinks))
            held += len(own.weights) * float(np.mean((kinks | bends) & pieces.bounds_its_minima()))
            size += len(own.weights)
        return kinked and held >= MOST * size

    @classmethod
    def check(cls, objective: Objective) -> None:
        problem = coefficient_problem(objective, cls.name)
        cls.check_room(problem)
        for term in problem.terms:
            if term.loss.pieces() is None:
                raise ValueError(
                    f"{cls.name} needs losses whose derivative is piecewise linear, got "
                    f"{term.loss!r}; method='newton-cg' takes smooth ones too"
                )

    def __init__(
        self, objective: Objective, rng: np.random.Generator, planes: PlaneSet | None = None
    ) -> None:
        space: Any = objective.space
        space.system.table()
        super().__init__(objective, rng, planes)
        problem = self.problem
        pieces = problem.loss.pieces()
        assert pieces is not None
        segments = self.segments = pieces.segments(problem.weights)
        t = self.t = _inside(segments, None if planes is None else problem.weights * self.slopes)
        self.reached = problem.product(-self.forces)
        self.below, self.above = _multipliers(segments, t, self.reached)
        self.low = np.where(np.isfinite(segments.low), t - segments.low, 1.0)
        self.high = np.where(np.isfinite(segments.high), segments.high - t, 1.0)

    @property
    def forces(self) -> np.ndarray:
        """q of the values, (n,)."""
        return self.segments.base + self.segments.total(self.t)

    def step(self, objective: Objective) -> None:
        """See `Solver.step`: a predicted step, corrected by what it leaves to second order."""
        problem = self.problem
        small = problem.space.system.size <= ONE_THREAD
        with one_blas_thread() if small else nullcontext():
            self._move()
            slopes = self.forces / np.where(problem.weights > 0, problem.weights, np.inf)
            self.slopes = np.clip(slopes, *problem.loss.domain())
            self.coefficients, self.functionals = super()._dual_function(self.slopes)
        self.reached = self.all_functionals
        self._known = None

    def _move(self) -> None:
        newton = _Newton(self)
        moves, free = newton.direction()
        level = newton.level()
        if level > 0:
            left = newton.level(newton.longest(*moves), *moves)
            dt, below, above = moves
            moves, free = newton.direction(level * (left / level) ** 3, dt * below, -dt * above)
        length = min(1.0, LONGEST * newton.longest(*moves))
        dt, below, above = moves
        self.t = self.t + length * dt
        self.low = self.low + length * newton.has_low * dt
        self.high = self.high - length * newton.has_high * dt
        self.below = self.below + length * below
        self.above = self.above + length * above
        self.free = self.free + length * free

    def _dual_function(self, slopes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        if slopes is not self.slopes:
            return super()._dual_function(slopes)
        return self.coefficients, self.functionals

    def _dual(self, slopes: np.ndarray) -> float:
        # Without slopes the dual is what losses cost at least: a gap of 0 where f costs no more.
        least = self.problem.dual_value(np.zeros(self.problem.size), 0.0)
        return max(super()._dual(slopes), least)


class _Newton:
    """Newton's equations where a run stands, and how far from their ends they let values go."""

    def __init__(self, run: DualInterior) -> None:
        self.run = run
        segments, t = run.segments, run.t
        self.has_low, self.has_high = np.isfinite(segments.low), np.isfinite(segments.high)
        self.low, self.high = run.low, run.high
        self.stiff = segments.bend + run.below / self.low + run.above / self.high
        behind = run.reached[segments.owners] - segments.start - segments.bend * t
        self.residual = behind + run.below - run.above
        self.equations = Equations(run.problem, segments.total(1.0 / self.stiff))

    def direction(
        self, aim: float = 0.0, of_below: np.ndarray | float = 0.0, of_above: np.ndarray | float = 0.0
    ) -> tuple[tuple[np.ndarray, np.ndarray, np.ndarray], np.ndarray]:
        """How values and multipliers move, and the free part, toward products that are `aim`.

        `of_below` and `of_above` are what the products of both moves add to second order.
        """
        run, segments = self.run, self.run.segments
        below = (self.has_low * aim - of_below) / self.low - run.below
        above = (self.has_high * aim - of_above) / self.high - run.above
        # du = bend dt + h, with what the ends ask for and what is left of u = start + bend t + z.
        h = above - below - self.residual
        pushed = segments.total(h / self.stiff)
        moved, free = self.equations.solve(pushed, run.forces)
        du = self.equations.inverse * (moved + pushed)
        dt = (du[segments.owners] - h) / self.stiff
        below = below - self.has_low * run.below / self.low * dt
        above = above + self.has_high * run.above / self.high * dt
        return (dt, below, above), free

    def level(self, length: float = 0.0, *moves: np.ndarray) -> float:
        """The mean of distances times multipliers over all ends, now or after a step along moves."""
        dt, below, above = (length * way for way in moves) if moves else (0.0, 0.0, 0.0)
        products = (self.low + self.has_low * dt) @ (self.run.below + below)
        products += (self.high - self.has_high * dt) @ (self.run.above + above)
        count = np.count_nonzero(self.has_low) + np.count_nonzero(self.has_high)
        return float(products) / max(int(count), 1)

    def longest(self, dt: np.ndarray, below: np.ndarray, above: np.ndarray) -> float:
        """The longest step, up to 1, on which nothing turns negative."""
        pairs = [
            (self.low, self.has_low * dt),
            (self.high, self.has_high * -dt),
            (self.run.below, below),
            (self.run.above, above),
        ]
        shares = [np.max(-way / np.where(way < 0, at, 1.0), initial=1.0) for at, way in pairs]
        return 1.0 / float(np.max(shares))


def _inside(segments: Segments, known: np.ndarray | None) -> np.ndarray:
    """Values inside of segments: their middles, or near those of forces that are known."""
    low, high = segments.low, segments.high
    length = high - low
    bounded, one_sided = np.isfinite(length), np.isfinite(low) | np.isfinite(high)
    # Where one end is infinite, about where u is zero.
    unit = np.maximum(np.abs(segments.start), 1.0) / np.where(bounded, 1.0, segments.bend)
    room = np.where(bounded, 0.5 * length, np.where(one_sided, unit, 0.0))
    wanted = np.zeros(len(low))
    if known is not None:
        room = 2.0 * INSIDE * room
        # Segments fill up from the lowest one.
        filled = np.where(np.isfinite(high), high, 0.0)
        before = np.cumsum(filled) - filled
        first = np.searchsorted(segments.owners, segments.owners)
        wanted = (known - segments.base)[segments.owners] - (before - before[first])
    return np.clip(wanted, low + room, high - room)


def _multipliers(
    segments: Segments, t: np.ndarray, functionals: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Multipliers of the lower and the upper ends, for a function of these functionals."""
    low, high = t - segments.low, segments.high - t
    behind = functionals[segments.owners] - segments.start - segments.bend * t
    near = np.minimum(low, high)
    ended = np.isfinite(near)
    level = FIRST * float(np.mean(2.0 * np.abs(behind[ended]) * near[ended])) if np.any(ended) else 0.0
    level = max(level, np.finfo(float).tiny)
    root = np.hypot(0.5 * behind, level / np.where(ended, near, np.inf))
    below = np.where(np.isfinite(low), root - 0.5 * behind, 0.0)
    above = np.where(np.isfinite(high), root + 0.5 * behind, 0.0)
    return below, above
