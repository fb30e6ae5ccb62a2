r"""Averaged planes of a union: a level and a point for each of its parts.

The hull of a union is what mixtures of its parts' hulls reach. So the averaged plane of a row is a sum
of planes of the parts, :math:`a = \sum_l a_l` with :math:`a_l` at level :math:`\tau_l` in
:math:`\tau_l` times the hull of :math:`S_l(x)`, and :math:`\sum_l \tau_l \le 1`.

Each part raises the dual over its own plane, with the level that the others leave. Where nothing is
left, a part cannot grow until another gives, and where two parts have some, their planes are nearly
the same, so that taking turns would be slow. In such rows exact steps move level between the parts'
averages and their worst members.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..utils.ascent import ascend
from ..utils.jit import njit
from ..utils.matrices import Matrix, scale_rows
from .base import Hull

# Less than this of a level is no room to move in.
LEAST_ROOM = 1e-6
# A part that neither has a level in a row nor wants one is asked again after so many visits.
IDLE_VISITS = 4
# Part of a row's gap that an exchange may leave, and the most steps that it takes.
_LEAVE, _MOST_STEPS = 0.02, 50


class UnionHull(Hull):
    """Dual state of a two-class worst-case loss under either of several oracles.

    Parameters
    ----------
    parts : list of Hull
        Those of the oracles, on the same rows, with `shares`; each with weights of its own to change.
    signs : (n,) array of -1 and 1
    weights : (n,) array
    intercept : bool
    """

    def __init__(
        self, parts: list[Hull], signs: np.ndarray, weights: np.ndarray, intercept: bool
    ) -> None:
        self.parts = parts
        self.signs = np.ascontiguousarray(signs, dtype=np.float64)
        self.weights = np.array(weights, dtype=np.float64)
        self.intercept = bool(intercept)
        # What the levels of each part are a share of, and their products, which sum to at most one.
        # An exchange may leave a share above one until the next visit makes room.
        self.room = np.ones((len(parts), len(signs)))
        self.taken = np.zeros(self.room.shape)
        self.idle = np.zeros(self.room.shape, dtype=np.int64)
        self.scratch = np.zeros(len(signs))

    @property
    def offset(self) -> float:
        return sum(part.offset for part in self.parts)

    def sweep(self, f: np.ndarray, order: np.ndarray, gaps: np.ndarray) -> None:
        """See `Hull.sweep`: part by part, then exchanges in rows that several parts care for."""
        gaps[order] = 0.0
        for number, part in enumerate(self.parts):
            left = 1.0 - (self.taken[:, order].sum(axis=0) - self.taken[number, order])
            idle = self.idle[number, order]
            free = (left > LEAST_ROOM) & (idle % IDLE_VISITS == 0)
            self.idle[number, order] = idle + 1
            rows = order[free]
            self._make_room(number, rows, np.minimum(left[free], 1.0))
            part.sweep(f, rows, self.scratch)
            self.taken[number, rows] = self.room[number, rows] * part.levels[rows]
            gaps[rows] += self.scratch[rows]
            busy = (self.taken[number, rows] > 0) | (self.scratch[rows] > 0)
            self.idle[number, rows[busy]] = 0
        taken = self.taken[:, order]
        torn = (np.count_nonzero(taken, axis=0) > 1) | (taken.sum(axis=0) > 1.0 - LEAST_ROOM)
        rows = order[torn & (self.weights[order] > 0)]
        if len(rows):
            gaps[rows] = np.maximum(gaps[rows], self._exchange(f, rows))

    def _make_room(self, number: int, rows: np.ndarray, room: np.ndarray) -> None:
        """Let the levels of a part be shares of `room`; its planes stay what they are."""
        changed = np.flatnonzero(room != self.room[number, rows])
        if len(changed):
            some = rows[changed]
            self.parts[number].rescale(some, room[changed] / self.room[number, some])
            self.room[number, some] = room[changed]

    def _exchange(self, f: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Exact steps in each row between averages and worst members of all parts; the rows' gaps."""
        planes: list[Matrix] = []
        n_rows, worst = len(rows), []
        levels = np.ones((n_rows, 2 * len(self.parts)))
        before = np.zeros(levels.shape)
        for number, part in enumerate(self.parts):
            averages, corners, change = part.candidates(f, rows)
            planes += [averages, corners]
            levels[:, 2 * number] = part.levels[rows]
            before[:, 2 * number] = self.taken[number, rows]
            worst.append(change)
        after, gaps = before.copy(), np.zeros(n_rows)
        q = levels.shape[1]
        room = np.zeros((q, q)), np.full(q, q), np.zeros((3, q)), np.zeros(f.size)
        _exchange_rows(
            *_entries(planes), levels, self.signs[rows], self.weights[rows], self.intercept, f, after,
            gaps, *room,
        )  # fmt: skip
        moved = np.flatnonzero(np.any(after != before, axis=1))
        for number, part in enumerate(self.parts):
            old, kept, steps = before[:, 2 * number], after[:, 2 * number], after[:, 2 * number + 1]
            keep = np.divide(kept, old, out=np.zeros(n_rows), where=old > 0)
            room = self.room[number, rows]
            part.absorb(rows, moved, keep[moved], (steps / room)[moved], worst[number])
            self.taken[number, rows] = room * part.levels[rows]
            self.idle[number, rows] = 0
        return gaps

    def losses(self, f: np.ndarray) -> np.ndarray | None:
        parts = [part.losses(f) for part in self.parts]
        known = [part for part in parts if part is not None]
        return np.max(known, axis=0) if len(known) == len(parts) else None

    def combination(self) -> np.ndarray:
        return np.sum([part.combination() for part in self.parts], axis=0)

    def planes(self) -> tuple[Matrix, np.ndarray]:
        """See `Hull.planes`: of each row the sum of its parts' planes."""
        normals, levels = zip(*map(self._planes_of, range(len(self.parts))), strict=True)
        if not all(sp.issparse(each) for each in normals):
            normals = tuple(each.toarray() if sp.issparse(each) else each for each in normals)
        return sum(normals[1:], normals[0]), np.sum(levels, axis=0)

    def _planes_of(self, number: int) -> tuple[Matrix, np.ndarray]:
        normals, levels = self.parts[number].planes()
        return scale_rows(normals, self.room[number]), self.room[number] * levels

    def planes_by_part(self) -> list[tuple[Matrix, np.ndarray]]:
        return [self._planes_of(number) for number in range(len(self.parts))]

    def restore(self, normals: Matrix, levels: np.ndarray) -> None:
        """See `Hull.restore`; a row's plane goes to the part whose hull is nearest to it."""
        self.restore_several(normals, levels, np.arange(len(self.signs)), len(self.signs))

    def restore_several(
        self, normals: Matrix, levels: np.ndarray, rows: np.ndarray, n_rows: int
    ) -> None:
        """See `Hull.restore_several`; each plane goes to the part whose hull is nearest to it."""
        owner = np.full(len(rows), -1)
        turn = _turns(rows)
        for number in range(int(turn.max(initial=-1)) + 1):
            mine = np.flatnonzero(turn == number)
            gather = _gather(mine, rows, n_rows)
            one, of_one = gather @ normals, gather @ levels
            distances = [_distance(copy.deepcopy(part), one, of_one) for part in self.parts]
            owner[mine] = np.argmin(distances, axis=0)[rows[mine]]
        for number, part in enumerate(self.parts):
            gather = _gather(np.flatnonzero(owner == number), rows, n_rows)
            self._make_room(number, np.arange(n_rows), np.ones(n_rows))
            part.restore(gather @ normals, gather @ levels)
            self.taken[number] = part.levels


def _entries(planes: list[Matrix]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Row pointers, indices and data of matrices one below the other."""
    parts = [each if sp.issparse(each) else sp.csr_matrix(each) for each in planes]
    first = np.cumsum([0, *(part.nnz for part in parts[:-1])])
    starts = [part.indptr[:-1] + start for part, start in zip(parts, first, strict=True)]
    indptr = np.concatenate([*starts, [first[-1] + parts[-1].nnz]])
    indices = np.concatenate([part.indices for part in parts])
    return indptr, indices, np.concatenate([part.data for part in parts])


def _turns(rows: np.ndarray) -> np.ndarray:
    """How many earlier entries name the same row."""
    order = np.argsort(rows, kind="stable")
    turns = np.empty(len(rows), dtype=np.int64)
    turns[order] = np.arange(len(rows)) - np.searchsorted(rows[order], rows[order])
    return turns


def _gather(chosen: np.ndarray, rows: np.ndarray, n_rows: int) -> Any:
    """The matrix that sums the chosen planes of each row."""
    return sp.csr_matrix((np.ones(len(chosen)), (rows[chosen], chosen)), shape=(n_rows, len(rows)))


def _distance(part: Hull, normals: Matrix, levels: np.ndarray) -> np.ndarray:
    """How far planes are from those that a hull can have."""
    part.restore(normals, levels)
    found, of_found = part.planes()
    rest = np.asarray(abs(found - normals).sum(axis=1)).ravel()
    return rest + np.abs(of_found - levels)


@njit(cache=True, nogil=True)
def _exchange_rows(
    indptr, indices, data, levels, signs, weights, intercept, f, masses, gaps, gram, known, rows, spread
):  # fmt: skip
    """Pairwise steps between the planes of each row, the null plane included; f and masses change.

    Plane p of row r is row ``p n_rows + r`` of the matrix. Every other one, from the first, is an
    average, which has its level as a factor and is none without mass.
    """
    n_rows, q = masses.shape
    heights, scale, before = rows[0], rows[1], rows[2]
    for r in range(n_rows):
        c, y = weights[r], signs[r]
        highest, mean = 0.0, 0.0
        for p in range(q):
            before[p] = masses[r, p]
            scale[p] = 1.0 / levels[r, p] if p % 2 == 1 or before[p] > 0.0 else 0.0
            if scale[p] == 0.0:
                heights[p] = -np.inf
                continue
            first, last = indptr[p * n_rows + r], indptr[p * n_rows + r + 1]
            margin = 0.0
            for e in range(first, last):
                margin += data[e] * f[indices[e]]
                spread[indices[e]] = data[e]
            heights[p] = 1.0 - y * (margin * scale[p] + (f[f.size - 1] if intercept else 0.0))
            highest = heights[p] if heights[p] > highest else highest
            mean += before[p] * heights[p]
            for o in range(p + 1):
                total = 0.0
                for e in range(indptr[o * n_rows + r], indptr[o * n_rows + r + 1]):
                    total += spread[indices[e]] * data[e]
                gram[p, o] = gram[o, p] = scale[p] * scale[o] * total + (1.0 if intercept else 0.0)
            for e in range(first, last):
                spread[indices[e]] = 0.0
        gaps[r] = c * (highest - mean) if highest > mean else 0.0
        ascend(heights, gram, known, masses[r], q, c, _LEAVE * gaps[r], _MOST_STEPS)
        for p in range(q):
            step = c * y * (masses[r, p] - before[p])
            if step != 0.0:
                for e in range(indptr[p * n_rows + r], indptr[p * n_rows + r + 1]):
                    f[indices[e]] += step * scale[p] * data[e]
                if intercept:
                    f[f.size - 1] += step
