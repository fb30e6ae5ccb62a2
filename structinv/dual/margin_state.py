"""Dual state with slopes of points of S(x), for losses of the worst-case margin."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..spaces.base import Element, Normals, Space
from ..terms.planes import WorkingSet
from . import case as needs
from .base import OutOfTime
from .case import Case
from .margin_steps import KINDS, slope_ascent
from .newton_steps import Descent, SmoothRows
from .plane_cache import BatchedState

if TYPE_CHECKING:
    from ..losses import ScalarLoss
    from ..terms.worst_case import WorstMargin

# Number of rounds over stored points before Newton's method over all rows.
ROUNDS_ALONE = 4
NEWTON_SHARE, SLOW = 0.1, 0.5


class PointSet(WorkingSet):
    """Working set of points of S(x) of some rows, with slopes as dual variables.

    Normals are ``y_i z_i``, and offsets are zero. Scores are negative margins ``-y_i f(z_i)``.

    Shapes: `rows` (n,).
    """

    def __init__(self, space: Space, term: WorstMargin, rows: np.ndarray) -> None:
        super().__init__(space, term.weights[rows], np.zeros(len(rows)))
        self.term = term
        self.rows = rows
        self.kind = KINDS[type(term.loss)]

    @property
    def row_alphas(self) -> np.ndarray:
        """Sum of each row's slopes."""
        return np.bincount(self.blocks, self.alphas, minlength=len(self.weights))

    @property
    def offset(self) -> float:
        """Part of the dual without the norm."""
        return -float(self.weights @ self.term.conjugate(self.row_alphas))

    def largest_gains(self, f: Element) -> tuple[np.ndarray, np.ndarray]:
        """Return the largest negative margin of each row, and the sum times slopes."""
        gains = self.scores(f)
        largest = np.full(len(self.weights), -np.inf)
        np.maximum.at(largest, self.blocks, gains)
        return largest, np.bincount(self.blocks, self.alphas * gains, minlength=len(self.weights))

    def ascend(self, f: Element, tolerance: float, max_passes: int) -> float:
        # Slopes replace the dual variables of `WorkingSet`, with the conjugate of the loss.
        if self.normals is None:
            return 0.0
        order, start = self._by_block()
        before, gains = self.alphas.copy(), self.scores(f)
        gap = slope_ascent(
            self.gram, gains, order, start, self.weights, self.alphas, self.kind, tolerance, max_passes
        )
        moved = self.weights[self.blocks] * (self.alphas - before)
        if np.any(moved):
            f += self.space.combine(self.normals, moved)
        self.idle = np.where(self.alphas > 0, 0, self.idle + 1)
        return float(gap)


class MarginState(BatchedState):
    """A few points of S(x) per row, for losses of the worst-case margin.

    Each point has a slope. The dual of row i is ``-L*(tau_i)`` with the sum tau_i of its slopes. Its
    part of f is ``y_i sum_j slope_j z_j``. A list of planes would be less accurate: an average of planes
    with different slopes has the chord of L* instead of L*.

    Points are computed in batches. Those with a larger negative margin than the row's other points are
    added. Exact steps on one slope, and between two slopes, follow.
    """

    name = "margin"

    term: WorstMargin

    @staticmethod
    def refuses(case: Case) -> str:
        return needs.worst_margin(case)

    def __init__(self, case: Case, rng: np.random.Generator) -> None:
        self.total = np.inf
        super().__init__(case, rng)

    def _new_set(self, batch: np.ndarray) -> PointSet:
        return PointSet(self.space, self.term, batch)

    def _after_oracle(self, f: Element, total: float, out_of_time: OutOfTime) -> None:
        if total > SLOW * self.total:
            # Slow progress: rows undo the steps of each other.
            self._solve_rows(f, 0.2 * total, out_of_time)
        self.total = total

    def _after_round(self, f: Element, count: int, target: float, out_of_time: OutOfTime) -> None:
        if count == ROUNDS_ALONE:
            self._solve_rows(f, target, out_of_time)

    def _solve_rows(self, f: Element, target: float, out_of_time: OutOfTime) -> None:
        """Optimize the sums of slopes of all rows, with fixed fractions of points."""
        if self.term.loss.smooth and any(len(points) for points in self.sets):
            problem = SmoothPointSets(self.space, self.sets, self.term.loss, f)
            problem.keep(f, problem.minimize(f, 0.0, NEWTON_SHARE * target, out_of_time))

    def _visit(self, f: Element, number: int, out_of_time: OutOfTime) -> tuple[float, int]:
        # Points with a larger negative margin than the stored ones are added.
        points = self.sets[number]
        known, means = points.largest_gains(f)
        reached, normals, new, visited = [], [], [], 0
        step = self.term.blocks_at_once(self.space)
        for first in range(0, len(points.rows), step):
            if first and out_of_time():
                break
            rows = points.rows[first : first + step]
            worst = self.term.worst(self.space, f, rows)
            losses = self.term.losses(self.term.gains(worst, rows))
            before = self.term.losses(known[first : first + step])
            above = losses > before + self.plane_tol + 1e-12 * (1.0 + losses)
            new_rows = np.flatnonzero(above)
            if len(new_rows):
                normals.append(self.term.unit_normals(self.space, worst.take(new_rows), rows[new_rows]))
                new.append(first + new_rows)
            reached.append(losses)
            visited = first + len(rows)
        row_alphas = points.row_alphas[:visited]
        gaps = np.concatenate(reached) + self.term.conjugate(row_alphas) - means[:visited]
        gap = float(points.weights[:visited] @ np.maximum(0.0, gaps))
        self._add(points, normals, new)
        points.ascend(f, 0.1 * gap, max_passes=3)
        return gap if visited == len(points.rows) else np.inf, visited

    def _add(self, points: PointSet, normals: list[Normals], new: list[np.ndarray]) -> None:
        if new:
            blocks = np.concatenate(new)
            self.n_added += len(blocks)
            points.add(self.space.stack(normals), np.zeros(len(blocks)), blocks)

    def _planes_at(self, f: Element, blocks: np.ndarray) -> tuple[Normals, np.ndarray]:
        worst = self.term.worst(self.space, f, blocks)
        return self.term.unit_normals(self.space, worst, blocks), np.zeros(len(blocks))

    def _feasible(self, taus: np.ndarray) -> np.ndarray:
        low, high = self.term.loss.domain()
        return np.clip(taus, -high, -low)


class SmoothPointSets(SmoothRows):
    """Minimization over all rows, with the average of each row's points."""

    def __init__(self, space: Space, sets: Sequence[PointSet], loss: ScalarLoss, f: Element) -> None:
        self.sets = [points for points in sets if points.normals is not None]
        self.shares = [_shares(points, f) for points in self.sets]
        others = f.copy()
        for points in self.sets:
            others -= points.combination()
        # Rows without points have weight 0.
        weights = np.concatenate([_counted(points) for points in self.sets])
        super().__init__(space, loss, weights, others)
        self.edges = np.cumsum([0, *(len(points.weights) for points in self.sets)])

    def gains(self, f: Element) -> np.ndarray:
        # The value of rows without points is 0.
        found = [
            np.bincount(points.blocks, share * points.scores(f), minlength=len(points.weights))
            for points, share in zip(self.sets, self.shares, strict=True)
        ]
        return np.concatenate(found)

    def sum_of(self, slopes: np.ndarray) -> Element:
        f = self.space.zeros()
        for points, share, first in zip(self.sets, self.shares, self.edges, strict=False):
            each = (points.weights * slopes[first : first + len(points.weights)])[points.blocks]
            f += self.space.combine(points.normals, share * each)
        return f

    def keep(self, f: Element, found: Descent) -> None:
        """Store the slopes and update `f`, if that increases the dual value."""
        before = sum(points.offset for points in self.sets) - 0.5 * self.space.dot(f, f)
        if not found.proven > before:
            return
        for points, share, first in zip(self.sets, self.shares, self.edges, strict=False):
            slopes = found.slopes[first : first + len(points.weights)]
            points.alphas = share * slopes[points.blocks]
        change = found.of_slopes.copy()
        change -= f
        f += change


def _shares(points: PointSet, f: Element) -> np.ndarray:
    """Return each point's fraction of its row's slopes; without slopes, the worst point has 1."""
    row_alphas = points.row_alphas[points.blocks]
    gains = points.scores(f)
    largest, _ = points.largest_gains(f)
    alone = (row_alphas <= 0) & (gains == largest[points.blocks])
    row_alphas = np.where(row_alphas > 0, row_alphas, np.bincount(points.blocks, alone)[points.blocks])
    return np.where(alone, 1.0, points.alphas) / row_alphas


def _counted(points: PointSet) -> np.ndarray:
    """Return the weights of rows, 0 for rows without points."""
    known = np.bincount(points.blocks, minlength=len(points.weights))
    return np.where(known > 0, points.weights, 0.0)
