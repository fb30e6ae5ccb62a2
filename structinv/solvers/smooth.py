"""Descent in the function space: L-BFGS, and what it shares with Newton's method."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.optimize import brentq

from ..losses import ScalarLoss
from ..losses.combined import Affine, ConcatenatedLoss
from ..terms import Objective
from ..terms.planes import PlaneSet
from .coefficients import CoefficientProblem, coefficient_problem
from .method import CoefficientMethod

# Envelopes move when they hide more than this share of the gap.
HIDDEN_SHARE = 0.5
# The first envelope, as a share of how far its own weight could move a functional.
FIRST_WIDTH = 1.0
NARROWEST = 1e-9
FREE_STEPS = 50
LINE_STEPS, LINE_ACCURACY = 30, 0.1
# Pairs of steps and changes of the gradient that L-BFGS keeps.
MEMORY = 10


class SmoothDescent(CoefficientMethod):
    """Descent on f itself: with coefficients a its gradient has coefficients ``a + c r'(G a)``.

    No product with G stands in front of that gradient (as it would in the gradient by a), so that a
    step costs a product or a few, and the number of steps does not depend on how badly G is
    conditioned. At any f the slopes ``p = r'(u)`` are a dual point, and the gap of the two is
    ``1/2 |gradient|^2``. A free part is minimized over exactly at every point, which makes the slopes
    satisfy the dual's equations.

    Losses with kinks are minimized as envelopes ``max_p p u - r*(p) - w/2 (p - q)^2``, w the width.
    Their centers q move to the slopes that were found (the proximal point method on the dual,
    Rockafellar 1976), so that w need not go to zero. The gap reported is that of the losses themselves.

    Attributes
    ----------
    loss : ScalarLoss
        What is minimized: smooth losses in place of those with kinks.
    widths : (n_terms,) array
        Of the envelopes that stand for losses with kinks, 0 for the others.
    narrowest : (n_terms,) array
        Below that rounding would take over.
    slopes : (n,) array
        Of the losses that are minimized.
    gradient, of_gradient : (n,) arrays
        ``g = a + c p``, the gradient of the objective in the function space, and G g.
    """

    @classmethod
    def check(cls, objective: Objective) -> None:
        for term in coefficient_problem(objective, cls.name).terms:
            loss = term.loss
            if not loss.smooth and loss.pieces() is None:
                raise ValueError(
                    f"{cls.name} needs smooth losses, or ones whose derivative is piecewise linear, "
                    f"got {loss!r}; Representer(method='cvxpy') may take it"
                )

    def __init__(
        self, objective: Objective, rng: np.random.Generator, planes: PlaneSet | None = None
    ) -> None:
        super().__init__(objective, rng, planes)
        self.widths = _first_widths(self.problem, rng)
        self.narrowest = NARROWEST * self.widths
        self.steps_of_envelope = 0
        self.loss = _enveloped(self.problem, self.widths, self.slopes)
        self._arrive()

    def step(self, objective: Objective) -> float | None:
        """See `Solver.step`: a direction, and the lowest point along it."""
        gap, hidden = self._gaps(objective)
        self.steps_of_envelope += 1
        if hidden > HIDDEN_SHARE * gap:
            # The fewer steps the last envelope took, the bolder the next.
            narrower = min(0.1 * self.steps_of_envelope, 0.6) * self.widths
            self.widths = np.maximum(narrower, self.narrowest)
            self.steps_of_envelope = 0
            self.loss = _enveloped(self.problem, self.widths, self.slopes)
            self._forget()
            self._arrive()
        self._search(*self._direction(objective))
        return self._gaps(objective)[0]

    @abstractmethod
    def _direction(self, objective: Objective) -> tuple[np.ndarray, np.ndarray]:
        """A direction of descent for f and its functionals; any that is found so far if time is up."""

    def _forget(self) -> None:
        """Drop what was learned about losses that have just changed."""

    @property
    def smooth_gap(self) -> float:
        """``1/2 |gradient|^2``, the gap between F at f and the dual value of the slopes there."""
        return 0.5 * max(float(self.gradient @ self.of_gradient), 0.0)

    def _arrive(self) -> None:
        """Compute the slopes and the gradient where the run is: one product."""
        problem = self.problem
        self.free = _best_free(problem, self.loss, self.functionals, self.free)
        self.slopes = self.loss.derivative(self.all_functionals)
        self.gradient = self.coefficients + problem.weights * self.slopes
        self.of_gradient = problem.product(self.gradient)
        self._known = None

    def _search(self, direction: np.ndarray, of_direction: np.ndarray) -> None:
        """Go to where the objective is nearly lowest along a direction; one product, on arrival."""
        problem = self.problem
        linear = float(self.coefficients @ of_direction)
        square = float(direction @ of_direction)
        start = self.all_functionals
        step = self._free_step(start, of_direction)
        of_step = of_direction + problem.basis @ step

        def slope(length: float) -> float:
            own = problem.weights * self.loss.derivative(start + length * of_step)
            return linear + length * square + float(own @ of_step)

        length = _root(slope, float(self.gradient @ of_direction))
        self.coefficients = self.coefficients + length * direction
        self.functionals = self.functionals + length * of_direction
        self.free = self.free + length * step
        self._arrive()

    def _free_step(self, u: np.ndarray, of_direction: np.ndarray) -> np.ndarray:
        """How the free part follows a direction of f, to first order."""
        basis = self.problem.basis
        if basis.shape[1] == 0:
            return np.zeros(0)
        weighted = (self.problem.weights * self.loss.curvature(u))[:, None] * basis
        return -np.linalg.pinv(basis.T @ weighted, hermitian=True) @ (weighted.T @ of_direction)

    def _gaps(self, objective: Objective) -> tuple[float, float]:
        """The gap of the losses themselves, and the part of it that envelopes hide."""
        bounds = self.bounds(objective)
        gap = float(bounds.upper or 0.0) - bounds.dual
        return gap, max(gap - self.smooth_gap, 0.0)

    def _dual_function(self, slopes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        if slopes is not self.slopes:
            return super()._dual_function(slopes)
        # It has the coefficients a - g, of which the product is known.
        return self.coefficients - self.gradient, self.functionals - self.of_gradient


class LBFGS(SmoothDescent):
    """Limited-memory BFGS steps in the inner product of the function space: one product a step."""

    name = "Representer(method='lbfgs')"

    def __init__(
        self, objective: Objective, rng: np.random.Generator, planes: PlaneSet | None = None
    ) -> None:
        self.pairs: list[Any] = []
        super().__init__(objective, rng, planes)

    def step(self, objective: Objective) -> float | None:
        before = self._place()
        estimate = super().step(objective)
        s, of_s, y, of_y = (new - old for new, old in zip(self._place(), before, strict=True))
        bend = float(s @ of_y)
        # Envelopes that were narrowed in between changed the gradient, too.
        if bend > 1e-12 * float(y @ of_y):
            self.pairs = [*self.pairs, (s, of_s, y, of_y, bend)][-MEMORY:]
        return estimate

    def _place(self) -> tuple[np.ndarray, ...]:
        return self.coefficients, self.functionals, self.gradient, self.of_gradient

    def _forget(self) -> None:
        self.pairs.clear()

    def _direction(self, objective: Objective) -> tuple[np.ndarray, np.ndarray]:
        """The two loops of Nocedal (1980), on functions."""
        q, of_q = -self.gradient, -self.of_gradient
        shares = []
        for s, _, y, of_y, bend in reversed(self.pairs):
            share = float(s @ of_q) / bend
            q, of_q = q - share * y, of_q - share * of_y
            shares.append(share)
        if self.pairs:
            _, _, y, of_y, bend = self.pairs[-1]
            scale = bend / float(y @ of_y)
            q, of_q = scale * q, scale * of_q
        for (s, of_s, y, _, bend), share in zip(self.pairs, reversed(shares), strict=True):
            factor = share - float(y @ of_q) / bend
            q, of_q = q + factor * s, of_q + factor * of_s
        return q, of_q


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


def _enveloped(problem: CoefficientProblem, widths: np.ndarray, centers: np.ndarray) -> ScalarLoss:
    """The losses, envelopes about the centers in place of those with kinks."""
    losses: list[ScalarLoss] = []
    for term, width, own in zip(problem.terms, widths, problem.by_term(centers), strict=True):
        # But for a constant, the envelope about q is that about 0 at u + w q.
        envelope = term.loss.smoothed(float(width))
        losses.append(term.loss if term.loss.smooth else Affine(envelope, 1.0, -width * own))
    return ConcatenatedLoss(losses, problem.sizes)


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
    # Toward the other sign, in steps that grow.
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
