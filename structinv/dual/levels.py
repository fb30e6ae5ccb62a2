"""Newton's method on the levels of all rows together, where the points of each are averaged."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..spaces import Space
from ..spaces.base import Element
from .base import OutOfTime

if TYPE_CHECKING:
    from ..losses import ScalarLoss
    from .margin_state import PointSet

NEWTON_STEPS, GRADIENT_STEPS, SEARCH_STEPS = 20, 60, 30
# How far the equations of a step are solved, at first and near the optimum.
FORCING = 0.1
ENOUGH = 1e-4


class Levels:
    """``1/2 |f - g|^2 + sum_i c_i L(u_i)`` with u_i the depth of the average of row i's points.

    g is what other terms have of f.

    A smooth problem without constraints, whose minimiser is found by Newton's method where steps of one
    row after the other crawl: rows that are many and long for their weight. Its slopes p_i = L'(u_i) are
    a dual point of the rows as they are, since averages of points lie in the hull of S(x_i).

    Parameters
    ----------
    space : Space
    sets : sequence of PointSet
    loss : ScalarLoss
        The margin loss r, with L(u) = r(-u); smooth.
    f : element
        What the slopes and g come to. There the deepest points stand for rows without slopes.
    """

    def __init__(self, space: Space, sets: Sequence[PointSet], loss: ScalarLoss, f: Element) -> None:
        self.space = space
        self.sets = [points for points in sets if points.normals is not None]
        self.loss = loss
        self.shares = [_shares(points, f) for points in self.sets]
        # Rows without points have no part in it.
        self.weights = np.concatenate([_counted(points) for points in self.sets])
        self.others = f.copy()
        for points in self.sets:
            self.others -= points.combination()
        self.edges = np.cumsum([0, *(len(points.weights) for points in self.sets)])

    def depths(self, f: Element) -> np.ndarray:
        """``-<n_i, f>`` of each row's average n_i; 0 of a row without points."""
        found = [
            np.bincount(points.blocks, share * points.scores(f), minlength=len(points.weights))
            for points, share in zip(self.sets, self.shares, strict=True)
        ]
        return np.concatenate(found)

    def sum_of(self, slopes: np.ndarray) -> Element:
        """``sum_i c_i slopes_i n_i``."""
        f = self.space.zeros()
        for points, share, first in zip(self.sets, self.shares, self.edges, strict=False):
            each = (points.weights * slopes[first : first + len(points.weights)])[points.blocks]
            f += self.space.combine(points.normals, share * each)
        return f

    def minimise(self, f: Element, target: float, out_of_time: OutOfTime) -> None:
        """Lower the problem from `f` until its gap is at most `target`; `f` and slopes follow.

        They are left as they are unless the dual value has risen.
        """
        found, u = f.copy(), self.depths(f)
        slopes, gradient = self._slopes(found, u)
        for _ in range(NEWTON_STEPS):
            # The gap between a function and its own slopes is half of the gradient's square.
            if 0.5 * self.space.dot(gradient, gradient) <= target or out_of_time():
                break
            way, along = self._direction(gradient, u, out_of_time)
            size = self._search(found, u, way, along, self.space.dot(gradient, way))
            if size == 0.0:
                break
            found += size * way
            u = u + size * along
            slopes, gradient = self._slopes(found, u)
        self._keep(f, slopes)

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

    def _keep(self, f: Element, slopes: np.ndarray) -> None:
        """Take over slopes, unless those that there are prove more."""
        found = self.others.copy()
        found += self.sum_of(slopes)
        parts = list(zip(self.sets, self.shares, self.edges, strict=False))
        before = sum(points.offset for points in self.sets) - 0.5 * self.space.dot(f, f)
        offset = float(self.weights @ self.loss.conjugate(-slopes))
        if not -offset - 0.5 * self.space.dot(found, found) > before:
            return
        found -= f
        for points, share, first in parts:
            points.masses = share * slopes[first : first + len(points.weights)][points.blocks]
        f += found


def _shares(points: PointSet, f: Element) -> np.ndarray:
    """Each point's share of its row's slopes; the deepest has all where there is none."""
    levels = points.levels[points.blocks]
    depths = points.scores(f)
    deepest, _ = points.depths(f)
    alone = (levels <= 0) & (depths == deepest[points.blocks])
    levels = np.where(levels > 0, levels, np.bincount(points.blocks, alone)[points.blocks])
    return np.where(alone, 1.0, points.masses) / levels


def _counted(points: PointSet) -> np.ndarray:
    """The weights of the rows that have points; of others, 0."""
    known = np.bincount(points.blocks, minlength=len(points.weights))
    return np.where(known > 0, points.weights, 0.0)
