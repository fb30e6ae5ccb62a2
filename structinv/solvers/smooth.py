"""Descent in the function space: what Newton's method and L-BFGS on coefficients share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.optimize import brentq

from ..dual_states import Hurried
from ..losses import Affine, ScalarLoss
from ..losses.combined import Joined
from ..objective import Objective
from ..planes import PlaneSet
from .base import Bounds, Solver
from .coefficients import CoefficientProblem, coefficient_problem, planes_of_slopes, slopes_of_planes

# Envelopes move when they hide more than this share of the gap.
HIDDEN_SHARE = 0.5
# The first envelope, as a share of how far its own weight could move a functional.
FIRST_WIDTH = 1.0
NARROWEST = 1e-9
FREE_STEPS = 50
LINE_STEPS, LINE_ACCURACY = 30, 0.1


@dataclass
class Point:
    """Coefficients of f with their functionals, and the gradient there with its functionals.

    Attributes
    ----------
    coefficients, functionals : (n,) arrays
        a and G a.
    free : (n_free * n_outputs,) array
    slopes : (n,) array
        Of the losses that are minimised, smooth ones in place of those with kinks.
    gradient, of_gradient : (n,) arrays
        ``g = a + c p``, the gradient of the objective in the function space, and G g.
    """

    coefficients: np.ndarray
    functionals: np.ndarray
    free: np.ndarray
    slopes: np.ndarray = field(default_factory=lambda: np.zeros(0))
    gradient: np.ndarray = field(default_factory=lambda: np.zeros(0))
    of_gradient: np.ndarray = field(default_factory=lambda: np.zeros(0))

    @property
    def smooth_gap(self) -> float:
        """``1/2 |gradient|^2``, the gap between F at f and the dual value of the slopes there."""
        return 0.5 * max(float(self.gradient @ self.of_gradient), 0.0)


@dataclass
class SmoothState:
    """The problem, the losses that are minimised in it, and where it is.

    Attributes
    ----------
    widths : (n_terms,) array
        Of the envelopes that stand for losses with kinks, 0 for the others.
    narrowest : (n_terms,) array
        Below that rounding would take over.
    centres : (n,) array
        The slopes from which the envelopes keep their distance.
    """

    problem: CoefficientProblem
    loss: ScalarLoss
    widths: np.ndarray
    narrowest: np.ndarray
    centres: np.ndarray
    at: Point
    steps: int = 0
    memory: list[Any] = field(default_factory=list)
    bounds: Bounds | None = None


class SmoothDescent(Solver):
    """Descent on f itself: with coefficients a its gradient has coefficients ``a + c r'(G a)``.

    No product with G stands in front of that gradient (as it would in the gradient by a), so that a
    step costs a product or a few, and the number of steps does not depend on how badly G is
    conditioned. At any f the slopes ``p = r'(u)`` are a dual point, and the gap of the two is
    ``1/2 |gradient|^2``. A free part is minimised over exactly at every point, which makes the slopes
    satisfy the dual's equations.

    Losses with kinks are minimised as envelopes ``max_p p u - r*(p) - w/2 (p - q)^2``, w the width.
    Their centres q move to the slopes that were found (the proximal point method on the dual,
    Rockafellar 1976), so that w need not go to zero. The gap reported is that of the losses themselves.
    """

    name = ""

    def validate(self, objective: Objective) -> None:
        problem = coefficient_problem(objective, self.name)
        for term in problem.terms:
            loss = term.loss
            if not loss.smooth and loss.pieces() is None:
                raise ValueError(
                    f"{self.name} needs smooth losses, or ones whose derivative is piecewise linear, "
                    f"got {loss!r}; Representer(method='cvxpy') may take it"
                )

    def verifies(self, objective: Objective) -> bool:
        """See `Solver.verifies`: slopes outside a conjugate's domain are dropped."""
        return True

    def init(
        self, objective: Objective, rng: np.random.Generator, planes: PlaneSet | None = None
    ) -> SmoothState:
        problem = coefficient_problem(objective, self.name)
        coefficients = np.zeros(problem.size)
        if planes is not None:
            found = slopes_of_planes(objective, planes)
            parts = [
                np.zeros(size) if own is None else own
                for own, size in zip(found, problem.sizes, strict=True)
            ]
            coefficients = -problem.weights * np.concatenate(parts)
        widths = _first_widths(problem, rng)
        functionals = problem.product(coefficients) if np.any(coefficients) else coefficients.copy()
        at = Point(coefficients, functionals, np.zeros(problem.basis.shape[1]))
        centres = -coefficients / np.where(problem.weights > 0, problem.weights, 1.0)
        state = SmoothState(
            problem, _enveloped(problem, widths, centres), widths, NARROWEST * widths, centres, at
        )
        self._arrive(state)
        return state

    def step(self, objective: Objective, state: SmoothState) -> float | None:
        """See `Solver.step`: a direction, and the lowest point along it."""
        gap, hidden = self._gaps(state)
        state.steps += 1
        if hidden > HIDDEN_SHARE * gap:
            # The fewer steps the last envelope took, the bolder the next.
            narrower = min(0.1 * state.steps, 0.6) * state.widths
            state.widths = np.maximum(narrower, state.narrowest)
            state.steps = 0
            state.centres = state.at.slopes
            state.loss = _enveloped(state.problem, state.widths, state.centres)
            state.memory.clear()
            state.bounds = None
            self._arrive(state)
        direction, of_direction = self._direction(state, objective.hurried)
        self._search(state, direction, of_direction)
        state.bounds = None
        return self._gaps(state)[0]

    @abstractmethod
    def _direction(self, state: SmoothState, hurried: Hurried) -> tuple[np.ndarray, np.ndarray]:
        """A direction of descent for f and its functionals; any that is found so far if in a hurry."""

    def _arrive(self, state: SmoothState) -> None:
        """Compute the slopes and the gradient where the state is: one product."""
        problem, at = state.problem, state.at
        at.free = _best_free(problem, state.loss, at.functionals, at.free)
        at.slopes = state.loss.derivative(at.functionals + problem.basis @ at.free)
        at.gradient = at.coefficients + problem.weights * at.slopes
        at.of_gradient = problem.product(at.gradient)

    def _search(self, state: SmoothState, direction: np.ndarray, of_direction: np.ndarray) -> None:
        """Go to where the objective is nearly lowest along a direction; one product, on arrival."""
        problem, at = state.problem, state.at
        linear = float(at.coefficients @ of_direction)
        square = float(direction @ of_direction)
        start = at.functionals + problem.basis @ at.free
        step = self._free_step(state, start, of_direction)
        of_step = of_direction + problem.basis @ step

        def slope(length: float) -> float:
            own = problem.weights * state.loss.derivative(start + length * of_step)
            return linear + length * square + float(own @ of_step)

        length = _root(slope, float(at.gradient @ of_direction))
        at.coefficients = at.coefficients + length * direction
        at.functionals = at.functionals + length * of_direction
        at.free = at.free + length * step
        self._arrive(state)

    def _free_step(self, state: SmoothState, u: np.ndarray, of_direction: np.ndarray) -> np.ndarray:
        """How the free part follows a direction of f, to first order."""
        basis = state.problem.basis
        if basis.shape[1] == 0:
            return np.zeros(0)
        weighted = (state.problem.weights * state.loss.curvature(u))[:, None] * basis
        return -np.linalg.pinv(basis.T @ weighted, hermitian=True) @ (weighted.T @ of_direction)

    def _gaps(self, state: SmoothState) -> tuple[float, float]:
        """The gap of the losses themselves, and the part of it that envelopes hide."""
        bounds = self._bounds(state)
        gap = float(bounds.upper or 0.0) - bounds.dual
        return gap, max(gap - state.at.smooth_gap, 0.0)

    def _bounds(self, state: SmoothState) -> Bounds:
        if state.bounds is None:
            problem, at = state.problem, state.at
            functionals = at.functionals + problem.basis @ at.free
            squared = float(at.coefficients @ at.functionals)
            primal = 0.5 * squared + problem.losses(functionals)
            slopes = problem.feasible(at.slopes)
            if slopes is at.slopes:
                # Its function has the coefficients a - g, of which the product is known.
                forces, of_forces = at.coefficients - at.gradient, at.functionals - at.of_gradient
            else:
                forces = -problem.weights * slopes
                of_forces = problem.product(forces)
            dual = problem.dual_value(slopes, float(forces @ of_forces))
            dual = dual if np.isfinite(dual) else -np.inf
            f = problem.function(at.coefficients, at.free, functionals)
            state.bounds = Bounds(f, dual, primal, primal)
        return state.bounds

    def bounds(self, objective: Objective, state: SmoothState) -> Bounds:
        return self._bounds(state)

    def planes(self, objective: Objective, state: SmoothState) -> PlaneSet:
        slopes = state.problem.feasible(state.at.slopes)
        return planes_of_slopes(objective, state.problem.by_term(slopes))


def _root(slope: Callable[[float], float], first: float) -> float:
    """About where an increasing function, `first` < 0 at 0, is zero; 1 if it is small enough there."""
    low, of_low, length = 0.0, first, 1.0
    high, of_high = np.inf, np.inf
    for _ in range(LINE_STEPS):
        here = slope(length)
        if abs(here) <= LINE_ACCURACY * abs(first):
            break
        if here < 0:
            low, of_low = length, here
        else:
            high, of_high = length, here
        if not np.isfinite(high):
            length = 2.0 * length
        else:
            # Regula falsi, kept away from the ends, which may have kinks nearby.
            share = of_low / (of_low - of_high)
            length = low + min(max(share, 0.1), 0.9) * (high - low)
    return length


def _first_widths(problem: CoefficientProblem, rng: np.random.Generator) -> np.ndarray:
    """An envelope for each term, in proportion to what its functionals' own weights can move."""
    widths = np.zeros(len(problem.terms))
    if problem.loss.smooth:
        return widths
    signs = rng.choice([-1.0, 1.0], problem.size)
    # In the mean over signs, the squared norms of the representers.
    squares = np.abs(signs * problem.product(signs))
    parts = zip(problem.by_term(problem.weights * squares), problem.terms, strict=True)
    for number, (reach, term) in enumerate(parts):
        if not term.loss.smooth:
            # A term that counts nothing has an envelope all the same.
            widths[number] = FIRST_WIDTH * float(np.median(reach)) or 1.0
    return widths


def _enveloped(problem: CoefficientProblem, widths: np.ndarray, centres: np.ndarray) -> ScalarLoss:
    """The losses, envelopes about the centres in place of those with kinks."""
    losses: list[ScalarLoss] = []
    for term, width, own in zip(problem.terms, widths, problem.by_term(centres), strict=True):
        # But for a constant, the envelope about q is that about 0 at u + w q.
        envelope = term.loss.smoothed(float(width))
        losses.append(term.loss if term.loss.smooth else Affine(envelope, 1.0, -width * own))
    return Joined(losses, problem.sizes)


def _best_free(
    problem: CoefficientProblem, loss: ScalarLoss, functionals: np.ndarray, start: np.ndarray
) -> np.ndarray:
    """The free part that is best for f."""
    basis, weights = problem.basis, problem.weights
    if basis.shape[1] == 0:
        return start
    free = start.copy()
    if problem.space.n_free > 1:
        rows = np.flatnonzero(np.any(basis != 0, axis=1) & (weights > 0))
        return _by_newton(basis[rows], weights[rows], loss.take(rows), functionals[rows], free)
    for output in range(basis.shape[1]):
        rows = np.flatnonzero((basis[:, output] != 0) & (weights > 0))
        if len(rows):
            own = basis[rows, output], weights[rows], loss.take(rows), functionals[rows]
            free[output] = _best_constant(*own, free[output])
    return free


def _best_constant(
    basis: np.ndarray, weights: np.ndarray, loss: ScalarLoss, functionals: np.ndarray, start: float
) -> float:
    """The b at which the increasing ``sum_i c_i B_i r_i'(u_i + B_i b)`` is zero."""
    scaled = weights * basis

    def slope(b: float) -> float:
        return float(scaled @ loss.derivative(functionals + b * basis))

    first = slope(start)
    if first == 0:
        return start
    # Towards the other sign, in steps that grow.
    step, near = -np.sign(first) * 1e-3 * (1.0 + abs(start)), start
    for _ in range(FREE_STEPS):
        far = start + step
        after = slope(far)
        if after == 0:
            return far
        if np.sign(after) != np.sign(first):
            return float(brentq(slope, near, far, xtol=1e-15 * (1.0 + abs(far)), rtol=1e-15))
        near, step = far, 4.0 * step
    return start


def _by_newton(
    basis: np.ndarray, weights: np.ndarray, loss: ScalarLoss, functionals: np.ndarray, free: np.ndarray
) -> np.ndarray:
    """The best of several free parameters, by Newton's method with halved steps."""
    value = weights @ loss.value(functionals + basis @ free)
    scale = np.abs(basis).T @ weights
    for _ in range(FREE_STEPS):
        u = functionals + basis @ free
        slope = basis.T @ (weights * loss.derivative(u))
        if np.all(np.abs(slope) <= 1e-13 * scale):
            break
        bend = basis.T @ ((weights * loss.curvature(u))[:, None] * basis)
        # Where nothing bends, as far from all kinks, a small bend gives a long step.
        bend = bend + 1e-6 * max(np.trace(bend), 1e-6 * scale.max()) * np.eye(len(bend))
        step = -np.linalg.solve(bend, slope)
        length = 1.0
        while length > 1e-12:
            lower = weights @ loss.value(functionals + basis @ (free + length * step))
            if lower <= value + 1e-4 * length * float(slope @ step):
                break
            length *= 0.5
        else:
            break
        free, value = free + length * step, lower
    return free
