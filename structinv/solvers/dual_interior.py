"""Interior-point method on the dual of losses with piecewise linear derivatives."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import numpy as np

from ..losses.piecewise_linear import Segments
from ..spaces import RepresenterSpace
from ..terms import Objective
from ..terms.planes import PlaneSet
from ..utils.matrices import one_blas_thread
from .coefficient_objectives import coefficient_problem
from .gram_systems import Equations
from .method import CoefficientMethod
from .newton_cg import ONE_THREAD, factors_pay

# Maximum step as a fraction of the distance to the nearest end. The initial barrier parameter, relative
# to the mean of twice the residual times the distance to the nearer end.
LONGEST, FIRST = 0.995, 0.25
# Fraction of functionals at kinks, or with curvature everywhere, above which this method is fastest.
MOST = 0.5
# Distance of the initial values from the ends of their segments, if slopes are known.
INSIDE = 0.02


class DualInterior(CoefficientMethod):
    """Primal-dual interior-point method (Mehrotra 1992) on the dual of functionals.

    The derivatives of the losses are sums of `Segments`, and the forces are ``q = c p = base + sum t``.
    The dual is then

        min 1/2 q' G q + sum_k start_k t_k + bend_k t_k^2 / 2   over   low <= t <= high,   B' q = 0.

    After t and the multipliers z of its ends are eliminated, each step solves the equations
    ``(G + W^-1) dq - B db = r`` with ``W_i = sum_k 1 / (bend_k + z-/(t - low) + z+/(high - t))``. This
    takes one factorization of G plus a diagonal. About ten steps suffice for any condition number of G.
    Newton's method on smoothed kinks takes dozens. The function f has the coefficients -q.

    Shapes: `t` (k,), `low` (k,), `high` (k,), `below` (k,), `above` (k,), `reached` (n,).
    """

    name = "Representer(method='dual-interior')"

    @classmethod
    def pays(cls, objective: Objective) -> bool:
        """Return whether this method is the fastest.

        It is the fastest if most functionals end at kinks, or have curvature everywhere. Newton's method
        only factorizes functionals with curvature at f. They are few for hinge and Huber losses.
        """
        space = objective.space
        if not isinstance(space, RepresenterSpace) or not factors_pay(space.system):
            return False
        # A Gram matrix in single precision may be indefinite. Newton's method is less sensitive to that.
        if space.system.dtype != np.float64:
            return False
        has_kinks, n_kinks_or_curved, size = False, 0.0, 0
        for term in objective.terms:
            coordinates = term.coordinates()
            pieces = None if coordinates is None else coordinates.loss.pieces()
            if coordinates is None or pieces is None:
                return False
            kinks = pieces.kinks()
            bends = np.all(np.isinf(pieces.breaks), axis=1) & (pieces.slopes[:, 0] > 0)
            has_kinks = has_kinks or bool(np.any(kinks))
            n_kinks_or_curved += len(coordinates.weights) * float(
                np.mean((kinks | bends) & pieces.bounds_its_minima())
            )
            size += len(coordinates.weights)
        return has_kinks and n_kinks_or_curved >= MOST * size

    @classmethod
    def check(cls, objective: Objective) -> None:
        problem = coefficient_problem(objective, cls.name)
        cls.check_memory(problem)
        for term in problem.terms:
            if term.loss.pieces() is None:
                raise ValueError(
                    f"{cls.name} requires losses with a piecewise linear derivative, got "
                    f"{term.loss!r}: use method='newton-cg' for smooth losses"
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
        """Forces ``q = base + sum t``, (n,)."""
        return self.segments.base + self.segments.total(self.t)

    def step(self, objective: Objective) -> None:
        # A predicted step with a second-order correction.
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
        mu = newton.mu()
        if mu > 0:
            left = newton.mu(newton.longest(*moves), *moves)
            dt, below, above = moves
            moves, free = newton.direction(mu * (left / mu) ** 3, dt * below, -dt * above)
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
        # The dual value of zero slopes is the sum of the losses' minima. This closes the gap if a
        # function with norm 0 attains all minima.
        least = self.problem.dual_value(np.zeros(self.problem.size), 0.0)
        return max(super()._dual(slopes), least)


class _Newton:
    """Newton's equations at the current values, and the longest feasible step."""

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
        """Return the steps of values and multipliers, and of the free part, toward products `aim`.

        `of_below` and `of_above` are the second-order terms of the products.
        """
        run, segments = self.run, self.run.segments
        below = (self.has_low * aim - of_below) / self.low - run.below
        above = (self.has_high * aim - of_above) / self.high - run.above
        # du = stiff dt + h. With dt = 0, h contains the changes of the multipliers, minus the residual
        # of u = start + bend t + z.
        h = above - below - self.residual
        pushed = segments.total(h / self.stiff)
        moved, free = self.equations.solve(pushed, run.forces)
        du = self.equations.inverse * (moved + pushed)
        dt = (du[segments.owners] - h) / self.stiff
        below = below - self.has_low * run.below / self.low * dt
        above = above + self.has_high * run.above / self.high * dt
        return (dt, below, above), free

    def mu(self, length: float = 0.0, *moves: np.ndarray) -> float:
        """Return the mean of distance times multiplier over all ends, after a step along `moves`."""
        dt, below, above = (length * way for way in moves) if moves else (0.0, 0.0, 0.0)
        products = (self.low + self.has_low * dt) @ (self.run.below + below)
        products += (self.high - self.has_high * dt) @ (self.run.above + above)
        count = np.count_nonzero(self.has_low) + np.count_nonzero(self.has_high)
        return float(products) / max(int(count), 1)

    def longest(self, dt: np.ndarray, below: np.ndarray, above: np.ndarray) -> float:
        """Return the longest step, up to 1, without a negative distance or multiplier."""
        pairs = [
            (self.low, self.has_low * dt),
            (self.high, self.has_high * -dt),
            (self.run.below, below),
            (self.run.above, above),
        ]
        end_ratios = [
            np.max(-step / np.where(step < 0, position, 1.0), initial=1.0) for position, step in pairs
        ]
        return 1.0 / float(np.max(end_ratios))


def _inside(segments: Segments, known: np.ndarray | None) -> np.ndarray:
    """Return values inside the segments: their centers, or values near known forces."""
    low, high = segments.low, segments.high
    length = high - low
    bounded, one_sided = np.isfinite(length), np.isfinite(low) | np.isfinite(high)
    # If one end is infinite, the distance from the other end is about that of u = 0.
    one_sided_distance = np.maximum(np.abs(segments.start), 1.0) / np.where(bounded, 1.0, segments.bend)
    end_distance = np.where(bounded, 0.5 * length, np.where(one_sided, one_sided_distance, 0.0))
    target = np.zeros(len(low))
    if known is not None:
        end_distance = 2.0 * INSIDE * end_distance
        # The forces of a functional fill its segments in order, from the lowest one.
        segment_lengths = np.where(np.isfinite(high), high, 0.0)
        lengths_before = np.cumsum(segment_lengths) - segment_lengths
        first = np.searchsorted(segments.owners, segments.owners)
        target = (known - segments.base)[segments.owners] - (lengths_before - lengths_before[first])
    return np.clip(target, low + end_distance, high - end_distance)


def _multipliers(
    segments: Segments, t: np.ndarray, functionals: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return multipliers of the lower and the upper ends, for a function of these functionals."""
    low, high = t - segments.low, segments.high - t
    behind = functionals[segments.owners] - segments.start - segments.bend * t
    near = np.minimum(low, high)
    ended = np.isfinite(near)
    mu = FIRST * float(np.mean(2.0 * np.abs(behind[ended]) * near[ended])) if np.any(ended) else 0.0
    mu = max(mu, np.finfo(float).tiny)
    root = np.hypot(0.5 * behind, mu / np.where(ended, near, np.inf))
    below = np.where(np.isfinite(low), root - 0.5 * behind, 0.0)
    above = np.where(np.isfinite(high), root + 0.5 * behind, 0.0)
    return below, above
