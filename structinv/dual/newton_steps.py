"""Newton's method over all rows together, with one point of S(x) per row."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..spaces.base import Element, Space
from .base import OutOfTime

if TYPE_CHECKING:
    from ..losses import ScalarLoss

NEWTON_STEPS, GRADIENT_STEPS, SEARCH_STEPS = 20, 60, 30
# Relative tolerance of the equations of a step, and required decrease of the line search.
FORCING = 0.1
ENOUGH = 1e-4


@dataclass(frozen=True)
class Descent:
    """Result of Newton's method.

    - `f`: last iterate
    - `gap`: gap between the value at `f` and the dual value of the slopes there
    - `slopes` (n,): dual variables ``L'(u)`` at `f`
    - `of_slopes`: function of the slopes and g: `f` minus the gradient
    - `proven`: dual value of the slopes, without contributions of other terms
    """

    f: Element
    gap: float
    slopes: np.ndarray
    of_slopes: Element
    proven: float


class SmoothRows(ABC):
    """Minimization of a smooth loss over all rows by Newton's method.

    The objective is ``1/2 |f - g|^2 + sum_i c_i L(u_i)`` with ``u_i = -<n_i, f>``, the negative margin
    of row i's point. The element g is the part of f of other terms. Coordinate steps on one row after
    the other are slow for many rows with a large norm relative to their weight. The slopes p_i = L'(u_i)
    are dual variables of the rows. Their gap is half the squared norm of the gradient.

    Shapes: `weights` (n,).
    """

    def __init__(self, space: Space, loss: ScalarLoss, weights: np.ndarray, others: Element) -> None:
        self.space = space
        self.loss = loss
        self.weights = weights
        self.others = others

    @abstractmethod
    def gains(self, f: Element) -> np.ndarray:
        """Return ``-<n_i, f>`` of each row."""

    @abstractmethod
    def sum_of(self, slopes: np.ndarray) -> Element:
        """Return ``sum_i c_i slopes_i n_i``."""

    def minimize(self, f: Element, share: float, target: float, out_of_time: OutOfTime) -> Descent:
        """Minimize from `f` to a gap of `target`, or `share` times the initial gap."""
        point, u = f.copy(), self.gains(f)
        slopes, gradient = self._slopes(point, u)
        gap = 0.5 * self.space.dot(gradient, gradient)
        target = max(target, share * gap)
        for _ in range(NEWTON_STEPS):
            if gap <= target or out_of_time():
                break
            way, along = self._direction(gradient, u, out_of_time)
            size = self._search(point, u, way, along, self.space.dot(gradient, way))
            if size == 0.0:
                break
            point += size * way
            u = u + size * along
            slopes, gradient = self._slopes(point, u)
            gap = 0.5 * self.space.dot(gradient, gradient)
        of_slopes = point.copy()
        of_slopes -= gradient
        square = self.space.dot(of_slopes, of_slopes)
        proven = -float(self.weights @ self.loss.conjugate(-slopes)) - 0.5 * square
        return Descent(point, gap, slopes, of_slopes, proven)

    def _slopes(self, f: Element, u: np.ndarray) -> tuple[np.ndarray, Element]:
        """Return ``L'(u)``, and the gradient at `f`."""
        slopes = -self.loss.derivative(-u)
        gradient = f.copy()
        gradient -= self.others
        gradient -= self.sum_of(slopes)
        return slopes, gradient

    def _direction(
        self, gradient: Element, u: np.ndarray, out_of_time: OutOfTime
    ) -> tuple[Element, np.ndarray]:
        """Return Newton's direction by conjugate gradients, and the change of u along it."""
        bend = self.loss.curvature(-u)
        rest = -1.0 * gradient
        conjugate, way = rest.copy(), self.space.zeros()
        along = np.zeros(len(u))
        square = start = self.space.dot(rest, rest)
        for _ in range(GRADIENT_STEPS):
            change = self.gains(conjugate)
            applied = conjugate.copy()
            applied -= self.sum_of(bend * change)
            size = square / self.space.dot(conjugate, applied)
            way += size * conjugate
            along += size * change
            rest -= size * applied
            before, square = square, self.space.dot(rest, rest)
            if square <= FORCING**2 * start or out_of_time():
                break
            conjugate *= square / before
            conjugate += rest
        return way, along

    def _search(self, f: Element, u: np.ndarray, way: Element, along: np.ndarray, slope: float) -> float:
        """Return the first of 1, 1/2, 1/4 ... that lowers the value enough, or 0."""
        own = f.copy()
        own -= self.others
        half, cross = 0.5 * self.space.dot(way, way), self.space.dot(own, way)
        losses = self.loss.value(-u)
        size = 1.0
        for _ in range(SEARCH_STEPS):
            lost = self.weights @ (self.loss.value(-(u + size * along)) - losses)
            if size * (cross + size * half) + lost <= ENOUGH * size * slope:
                return size
            size *= 0.5
        return 0.0
