"""Newton's method on the levels of all rows together, one point of S(x) a row."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..spaces import Space
from ..spaces.base import Element
from .base import OutOfTime

if TYPE_CHECKING:
    from ..losses import ScalarLoss

NEWTON_STEPS, GRADIENT_STEPS, SEARCH_STEPS = 20, 60, 30
# How far the equations of a step are solved, at first and near the optimum.
FORCING = 0.1
ENOUGH = 1e-4


@dataclass(frozen=True)
class Descent:
    """Where Newton's method has ended.

    Parameters
    ----------
    f : element
    gap : float
        Between the value at `f` and the dual value of the slopes there.
    slopes : (n,) array
        ``L'(u)`` at `f`.
    of_slopes : element
        The function that the slopes and g stand for: `f` less the gradient.
    proven : float
        The dual value of the slopes, without what other terms add.
    """

    f: Element
    gap: float
    slopes: np.ndarray
    of_slopes: Element
    proven: float


class Levels(ABC):
    """``1/2 |f - g|^2 + sum_i c_i L(u_i)`` with ``u_i = -<n_i, f>`` the depth of row i's point.

    g is what other terms have of f.

    A smooth problem without constraints, whose minimizer is found by Newton's method where steps of one
    row after the other crawl: rows that are many and long for their weight. Its slopes p_i = L'(u_i) are
    a dual point of the rows, and their gap is half of the gradient's square.

    Parameters
    ----------
    space : Space
    loss : ScalarLoss
        The margin loss r, with L(u) = r(-u); smooth.
    weights : (n,) array
    others : element
        g.
    """

    def __init__(self, space: Space, loss: ScalarLoss, weights: np.ndarray, others: Element) -> None:
        self.space = space
        self.loss = loss
        self.weights = weights
        self.others = others

    @abstractmethod
    def depths(self, f: Element) -> np.ndarray:
        """``-<n_i, f>`` of each row."""

    @abstractmethod
    def sum_of(self, slopes: np.ndarray) -> Element:
        """``sum_i c_i slopes_i n_i``."""

    def minimize(self, f: Element, share: float, target: float, out_of_time: OutOfTime) -> Descent:
        """Lower the problem from `f` until its gap is at most `target`, or this share of what it was."""
        found, u = f.copy(), self.depths(f)
        slopes, gradient = self._slopes(found, u)
        gap = 0.5 * self.space.dot(gradient, gradient)
        target = max(target, share * gap)
        for _ in range(NEWTON_STEPS):
            if gap <= target or out_of_time():
                break
            way, along = self._direction(gradient, u, out_of_time)
            size = self._search(found, u, way, along, self.space.dot(gradient, way))
            if size == 0.0:
                break
            found += size * way
            u = u + size * along
            slopes, gradient = self._slopes(found, u)
            gap = 0.5 * self.space.dot(gradient, gradient)
        own = found.copy()
        own -= gradient
        proven = -float(self.weights @ self.loss.conjugate(-slopes)) - 0.5 * self.space.dot(own, own)
        return Descent(found, gap, slopes, own, proven)

    def _slopes(self, f: Element, u: np.ndarray) -> tuple[np.ndarray, Element]:
        """``L'(u)``, and the gradient at `f`."""
        slopes = -self.loss.derivative(-u)
        gradient = f.copy()
        gradient -= self.others
        gradient -= self.sum_of(slopes)
        return slopes, gradient

    def _direction(
        self, gradient: Element, u: np.ndarray, out_of_time: OutOfTime
    ) -> tuple[Element, np.ndarray]:
        """Newton's direction by conjugate gradients, and how the depths change along it."""
        bend = self.loss.curvature(-u)
        rest = -1.0 * gradient
        conjugate, way = rest.copy(), self.space.zeros()
        along = np.zeros(len(u))
        square = start = self.space.dot(rest, rest)
        for _ in range(GRADIENT_STEPS):
            change = self.depths(conjugate)
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
        """The first of 1, 1/2, 1/4 ... that lowers the value enough; 0 if none does."""
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
