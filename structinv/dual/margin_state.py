"""Slopes on points of S(x), for losses of the least margin."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..spaces import Space
from ..spaces.base import Element, Normals
from ..terms.planes import PlaneSet, WorkingSet
from .base import OutOfTime, join_planes
from .batches import BatchedState
from .case import Case
from .levels import Descent, Levels
from .margin_steps import KINDS, slope_ascent

if TYPE_CHECKING:
    from ..losses import ScalarLoss
    from ..terms.worst_margin import WorstMargin

# After so many rounds over known points the levels of all rows are solved for together.
ROUNDS_ALONE = 4
NEWTON_SHARE, SLOW = 0.1, 0.5


class PointSet(WorkingSet):
    """Points of S(x) of some rows, their Gram matrix, and their slopes, which are the masses.

    Normals are ``y_i z_i``, and offsets are zero: scores are the depths ``-y_i f(z_i)``.

    Parameters
    ----------
    space : Space
    term : WorstMargin
    rows : (n,) array of int
        The rows of the term.
    """

    def __init__(self, space: Space, term: WorstMargin, rows: np.ndarray) -> None:
        super().__init__(space, term.weights[rows], np.zeros(len(rows)))
        self.term = term
        self.rows = rows
        self.kind = KINDS[type(term.loss)]

    @property
    def levels(self) -> np.ndarray:
        """The sum of each row's slopes."""
        return np.bincount(self.blocks, self.masses, minlength=len(self.weights))

    @property
    def offset(self) -> float:
        """The part of the dual beside the norm."""
        return -float(self.weights @ self.term.conjugate(self.levels))

    def depths(self, f: Element) -> tuple[np.ndarray, np.ndarray]:
        """At `f`, the depth of each row's deepest point, and the sum of depths times slopes."""
        depths = self.scores(f)
        deepest = np.full(len(self.weights), -np.inf)
        np.maximum.at(deepest, self.blocks, depths)
        return deepest, np.bincount(self.blocks, self.masses * depths, minlength=len(self.weights))

    def ascend(self, f: Element, tolerance: float, max_passes: int) -> float:
        """See `WorkingSet.ascend`: over slopes, whose sums the loss's conjugate bounds."""
        if self.normals is None:
            return 0.0
        order, start = self._by_block()
        before, depths = self.masses.copy(), self.scores(f)
        gap = slope_ascent(
            self.gram, depths, order, start, self.weights, self.masses, self.kind, tolerance, max_passes
        )
        moved = self.weights[self.blocks] * (self.masses - before)
        if np.any(moved):
            f += self.space.combine(self.normals, moved)
        self.idle = np.where(self.masses > 0, 0, self.idle + 1)
        return float(gap)

    def planes(self) -> PlaneSet | None:
        """Each row's slopes as planes of one slope, their sum, with shares as masses."""
        used = np.flatnonzero(self.masses)
        if self.normals is None or len(used) == 0:
            return None
        levels, blocks = self.levels, self.blocks[used]
        normals = self.space.times(self.normals[used], levels[blocks])
        offsets = -self.term.conjugate(levels)[blocks]
        return PlaneSet(normals, offsets, self.rows[blocks], self.masses[used] / levels[blocks])


class MarginState(BatchedState):
    """A few points of S(x) a row with a slope each, for a smooth loss of the least margin.

    The dual of row i is ``-L*(tau_i)``, tau_i the sum of its slopes, and ``y_i sum_j slope_j z_j`` is
    its part of f. A list of planes would lose: between two planes of different slopes lies the chord
    of L*, and not L*. Points are asked for in batches, and those that are deeper than the row's others
    taken up; exact steps over a batch's Gram matrix follow, of the slope of one point and between two.

    Parameters
    ----------
    case : Case
        Losses of the least margin that the compiled steps know. A new point must have a loss that
        is larger by `plane_tol` than at the row's other points.
    rng : numpy.random.Generator
    """

    term: WorstMargin

    def __init__(self, case: Case, rng: np.random.Generator) -> None:
        self.total = np.inf
        super().__init__(case, rng)

    def _new_set(self, batch: np.ndarray) -> PointSet:
        return PointSet(self.space, self.term, batch)

    def _asked(self, f: Element, total: float, out_of_time: OutOfTime) -> None:
        if total > SLOW * self.total:
            # What rows see on arrival says little where each undoes the steps of the others.
            self._solve_levels(f, 0.2 * total, out_of_time)
        self.total = total

    def _still_at_it(self, f: Element, count: int, target: float, out_of_time: OutOfTime) -> None:
        if count == ROUNDS_ALONE:
            self._solve_levels(f, target, out_of_time)

    def _solve_levels(self, f: Element, target: float, out_of_time: OutOfTime) -> None:
        """The best levels of all rows together, shares of points as they are."""
        if self.term.loss.smooth and any(len(points) for points in self.sets):
            levels = LevelsOfSets(self.space, self.sets, self.term.loss, f)
            levels.keep(f, levels.minimize(f, 0.0, NEWTON_SHARE * target, out_of_time))

    def _visit(self, f: Element, number: int, out_of_time: OutOfTime) -> tuple[float, int]:
        """See `BatchedState`: points that are deeper than the known ones are taken up."""
        points = self.sets[number]
        known, means = points.depths(f)
        reached, normals, new, asked = [], [], [], 0
        step = self.term.blocks_at_once(self.space)
        for first in range(0, len(points.rows), step):
            if first and out_of_time():
                break
            rows = points.rows[first : first + step]
            worst = self.term.worst(self.space, f, rows)
            losses = self.term.losses(self.term.depths(worst, rows))
            before = self.term.losses(known[first : first + step])
            above = losses > before + self.plane_tol + 1e-12 * (1.0 + losses)
            fresh = np.flatnonzero(above)
            if len(fresh):
                normals.append(self.term.unit_normals(self.space, worst.take(fresh), rows[fresh]))
                new.append(first + fresh)
            reached.append(losses)
            asked = first + len(rows)
        levels = points.levels[:asked]
        gaps = np.concatenate(reached) + self.term.conjugate(levels) - means[:asked]
        gap = float(points.weights[:asked] @ np.maximum(0.0, gaps))
        self._add(points, normals, new)
        points.ascend(f, 0.1 * gap, max_passes=3)
        return gap if asked == len(points.rows) else np.inf, asked

    def _add(self, points: PointSet, normals: list[Normals], new: list[np.ndarray]) -> None:
        if new:
            blocks = np.concatenate(new)
            self.n_added += len(blocks)
            points.add(self.space.stack(normals), np.zeros(len(blocks)), blocks)

    def planes(self) -> PlaneSet:
        """See `DualState.planes`; a row's planes all have its level as their slope."""
        parts = [points.planes() for points in self.sets]
        return join_planes(self.space, [part for part in parts if part is not None])

    def restore(self, planes: PlaneSet) -> None:
        """See `DualState.restore`; planes whose slopes nobody can tell are left to the null plane."""
        if len(planes) == 0:
            return
        told = self.space.apart(planes.normals)
        if told is None:
            return
        normals, slopes = told
        slopes = slopes * planes.masses
        for points in self.sets:
            mine = np.flatnonzero(np.isin(planes.blocks, points.rows) & (slopes > 0))
            if len(mine):
                places = np.searchsorted(points.rows, planes.blocks[mine])
                points.add(normals[mine], np.zeros(len(mine)), places, slopes[mine])


class LevelsOfSets(Levels):
    """See `Levels`; the points of each row are averaged, which is a point of the hull of S(x_i).

    Parameters
    ----------
    space : Space
    sets : sequence of PointSet
    loss : ScalarLoss
    f : element
        What the slopes and g come to. There the deepest points stand for rows without slopes.
    """

    def __init__(self, space: Space, sets: Sequence[PointSet], loss: ScalarLoss, f: Element) -> None:
        self.sets = [points for points in sets if points.normals is not None]
        self.shares = [_shares(points, f) for points in self.sets]
        others = f.copy()
        for points in self.sets:
            others -= points.combination()
        # Rows without points have no part in it.
        weights = np.concatenate([_counted(points) for points in self.sets])
        super().__init__(space, loss, weights, others)
        self.edges = np.cumsum([0, *(len(points.weights) for points in self.sets)])

    def depths(self, f: Element) -> np.ndarray:
        """See `Levels.depths`; 0 of a row without points."""
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
        """Take over slopes, and change `f`, unless the slopes that there are prove more."""
        before = sum(points.offset for points in self.sets) - 0.5 * self.space.dot(f, f)
        if not found.proven > before:
            return
        for points, share, first in zip(self.sets, self.shares, self.edges, strict=False):
            slopes = found.slopes[first : first + len(points.weights)]
            points.masses = share * slopes[points.blocks]
        change = found.of_slopes.copy()
        change -= f
        f += change


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
