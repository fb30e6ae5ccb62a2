"""Cutting planes of convex terms, and quadratic programs over working sets.

A plane of block b is ``phi_b(g) >= offset - <normal, g>``. A convex combination of a block's planes
is again a plane. With dual variables alpha, the dual of ``1/2 |f|^2 + sum_b c_b phi_b(f)`` is
``sum_b c_b sum_j alpha_j offset_j - 1/2 |f|^2`` at ``f = sum_b c_b sum_j alpha_j normal_j``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from ..utils.ascent import ascend
from ..utils.jit import LEAN, njit
from ..utils.matrices import ranges

# Idle planes are dropped if there are more than this fraction of the others, because copying costs time.
IDLE_SHARE = 0.25
# Steps within a block end at this fraction of its gap.
BLOCK_SHARE = 0.1

if TYPE_CHECKING:
    from ..spaces.base import Normals, Space


@dataclass(frozen=True)
class Planes:
    """One plane per block, tight at a point f.

    - `normals` (m, D): normal of each plane
    - `offsets` (m,): offset of each plane
    - `upper` (m,): upper bound of each block's value at f; infinity if an oracle has none
    - `plane_values` (m,): value of each plane at f
    """

    normals: Normals
    offsets: np.ndarray
    upper: np.ndarray
    plane_values: np.ndarray


def sum_of_planes(space: Space, parts: Iterable[tuple[Planes, np.ndarray]]) -> Planes:
    """Return the plane of the weighted sum of blocks, from their planes and weights."""
    normal, numbers = space.zeros(), np.zeros(3)
    for planes, weights in parts:
        normal += space.combine(planes.normals, weights)
        # The bound of a block of weight zero may be infinite.
        upper = np.where(weights > 0, planes.upper, 0.0)
        numbers += [weights @ each for each in (planes.offsets, upper, planes.plane_values)]
    return Planes(space.element(normal), *numbers[:, None])


@dataclass(frozen=True)
class PlaneSet:
    """Planes with their dual variables.

    The dual variables are non-negative, and at most 1 in total for each block. The difference to 1
    belongs to the null plane of the block.

    - `normals` (m, D): normal of each plane
    - `offsets` (m,): offset of each plane
    - `blocks` (m,): block of the objective that each plane bounds
    - `alphas` (m,): dual variable of each plane
    """

    normals: Normals
    offsets: np.ndarray
    blocks: np.ndarray
    alphas: np.ndarray

    def __len__(self) -> int:
        return len(self.offsets)

    @classmethod
    def join(cls, space: Space, parts: Sequence[PlaneSet]) -> PlaneSet:
        """Concatenate plane sets, without empty ones."""
        parts = [part for part in parts if len(part)]
        if not parts:
            empty = space.element(space.zeros())[:0]
            return cls(empty, np.zeros(0), np.zeros(0, dtype=np.int64), np.zeros(0))
        return cls(
            space.stack([part.normals for part in parts]),
            np.concatenate([part.offsets for part in parts]),
            np.concatenate([part.blocks for part in parts]),
            np.concatenate([part.alphas for part in parts]),
        )

    def chosen(self, rows: np.ndarray) -> PlaneSet:
        """Return some of the planes."""
        return PlaneSet(self.normals[rows], self.offsets[rows], self.blocks[rows], self.alphas[rows])

    def total(
        self, space: Space, weights: np.ndarray, lower_bounds: np.ndarray
    ) -> tuple[np.ndarray, float]:
        """Return normal and offset of a plane that bounds the weighted sum of all blocks."""
        alpha = weights[self.blocks] * self.alphas
        gained = self.offsets - lower_bounds[self.blocks]
        return space.combine(self.normals, alpha), float(weights @ lower_bounds + alpha @ gained)


class WorkingSet:
    """Working set: planes of some blocks with their Gram matrix and dual variables.

    Shapes: `weights` (n,), `lower_bounds` (n,).
    """

    def __init__(self, space: Space, weights: np.ndarray, lower_bounds: np.ndarray) -> None:
        self.space = space
        self.weights = weights
        self.lower_bounds = lower_bounds
        self.normals: Normals | None = None
        self.offsets = np.zeros(0)
        self.blocks = np.zeros(0, dtype=np.int64)
        self.alphas = np.zeros(0)
        self.idle = np.zeros(0, dtype=np.int64)
        # Larger than needed, so that new planes need no copy.
        self._table = np.zeros((0, 0))
        # Order and workspace of the current planes, computed on access.
        self._order: tuple[np.ndarray, np.ndarray] | None = None
        self._room: tuple[np.ndarray, ...] = ()

    def __len__(self) -> int:
        return len(self.offsets)

    @property
    def gram(self) -> np.ndarray:
        """Gram matrix of the normals, (m, m); a view."""
        return self._table[: len(self), : len(self)]

    def _by_block(self) -> tuple[np.ndarray, np.ndarray]:
        """Return planes in the order of their blocks, and the start of each block."""
        if self._order is None:
            order = np.argsort(self.blocks, kind="stable")
            start = np.searchsorted(self.blocks[order], np.arange(len(self.weights) + 1))
            self._order = order, start
            self._room = room_for(start)
        return self._order

    def scores(self, f: np.ndarray) -> np.ndarray:
        """Return each plane's value at `f`, relative to its block's lower bound."""
        if self.normals is None:
            return np.zeros(0)
        return self.offsets - self.lower_bounds[self.blocks] - self.space.scores(f, self.normals)

    def block_values(self, f: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the largest and the average value of each block's planes at `f`.

        Both include the null plane.
        """
        scores = self.scores(f)
        highest = np.zeros(len(self.weights))
        np.maximum.at(highest, self.blocks, scores)
        mean = np.bincount(self.blocks, self.alphas * scores, minlength=len(self.weights))
        return self.lower_bounds + highest, self.lower_bounds + mean

    def add(
        self,
        normals: Normals,
        offsets: np.ndarray,
        blocks: np.ndarray,
        alphas: np.ndarray | None = None,
    ) -> None:
        """Add planes of the given (local) blocks, with dual variables 0 by default."""
        if len(offsets) == 0:
            return
        old, size = len(self), len(self) + len(offsets)
        own = self.space.gram(normals, normals)
        if self.normals is None:
            joined, table = normals, own
        else:
            cross = self.space.gram(self.normals, normals)
            joined = self.space.stack([self.normals, normals])
            table = self._table if size <= len(self._table) else _enlarged(self.gram, size)
            # Entries beyond the current planes are unused, so Ctrl-C here does no harm.
            table[:old, old:size], table[old:size, :old] = cross, cross.T
            table[old:size, old:size] = own
        new = np.zeros(len(offsets)) if alphas is None else alphas
        self._set(
            joined,
            table,
            np.concatenate([self.offsets, offsets]),
            np.concatenate([self.blocks, blocks]),
            np.concatenate([self.alphas, new]),
            np.concatenate([self.idle, np.zeros(len(offsets), dtype=np.int64)]),
        )

    def ascend(self, f: np.ndarray, tolerance: float, max_passes: int) -> float:
        """Maximize over the dual variables until the gap on these planes is small.

        Update `f`, and return the remaining gap on these planes.
        """
        if self.normals is None:
            return 0.0
        order, start = self._by_block()
        before = self.alphas.copy()
        gap = simplex_ascent(
            self._table, self.scores(f), order, start, self.weights, self.alphas, self._room,
            tolerance, max_passes,
        )  # fmt: skip
        moved = self.weights[self.blocks] * (self.alphas - before)
        if np.any(moved):
            f += self.space.combine(self.normals, moved)
        self.idle = np.where(self.alphas > 0, 0, self.idle + 1)
        return float(gap)

    def prune(self, max_idle: int) -> None:
        """Drop planes with a zero dual variable for more than `max_idle` rounds."""
        keep = self.idle <= max_idle
        # Few idle planes cost less than to copy the inner products of all others.
        if IDLE_SHARE * np.count_nonzero(keep) < np.count_nonzero(~keep):
            self._keep(keep)

    def merge(self, max_planes: int) -> None:
        """Replace the excess planes of each block by their average.

        These are the planes with the smallest dual variables.
        """
        if self.normals is None:
            return
        crowded = np.flatnonzero(np.bincount(self.blocks) > max_planes)
        if len(crowded) == 0:
            return
        lightest_first = np.lexsort((self.alphas, self.blocks))
        start = self._by_block()[1]
        keep = np.ones(len(self), dtype=bool)
        sizes = np.diff(start)[crowded] - max_planes + 1
        where = np.concatenate([[0], np.cumsum(sizes)])
        light = lightest_first[ranges(start[crowded], sizes)[0]]
        keep[light] = False
        alphas = np.add.reduceat(self.alphas[light], where[:-1])
        total, size = np.repeat(alphas, sizes), np.repeat(sizes, sizes)
        share = np.divide(self.alphas[light], total, out=1.0 / size, where=total > 0)
        shares = sp.csr_matrix((share, light, where), shape=(len(crowded), len(self)))
        averages, offsets = self.space.mixtures(self.normals, shares), shares @ self.offsets
        self._keep(keep)
        self.add(averages, offsets, crowded, alphas)

    def combination(self) -> np.ndarray:
        """Return the element f of the current dual variables."""
        if self.normals is None:
            return self.space.zeros()
        return self.space.combine(self.normals, self.weights[self.blocks] * self.alphas)

    @property
    def offset(self) -> float:
        """Linear part of the dual."""
        gained = self.alphas * (self.offsets - self.lower_bounds[self.blocks])
        return float(self.weights @ self.lower_bounds + self.weights[self.blocks] @ gained)

    def _keep(self, keep: np.ndarray) -> None:
        if self.normals is None or np.all(keep):
            return
        kept = np.flatnonzero(keep)
        self._set(
            self.normals[kept],
            self.gram[np.ix_(kept, kept)],
            self.offsets[kept],
            self.blocks[kept],
            self.alphas[kept],
            self.idle[kept],
        )

    def _set(
        self,
        normals: Normals,
        table: np.ndarray,
        offsets: np.ndarray,
        blocks: np.ndarray,
        alphas: np.ndarray,
        idle: np.ndarray,
    ) -> None:
        """Set all arrays at once, so that Ctrl-C does not leave arrays that do not match."""
        self._order = None
        self.normals, self._table = normals, np.ascontiguousarray(table)
        self.offsets, self.blocks, self.alphas, self.idle = offsets, blocks, alphas, idle


def _enlarged(gram: np.ndarray, size: int) -> np.ndarray:
    """Copy the Gram matrix into a larger array, by half or to `size` if that is more."""
    old = len(gram)
    capacity = max(size, old + old // 2)
    table = np.empty((capacity, capacity), dtype=gram.dtype)
    table[:old, :old] = gram
    return table


def room_for(start: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return the workspace of `simplex_ascent` for the block with most planes.

    It has arrays of values, dual variables, counts and inner products.

    Shapes: `start` (n + 1,).
    """
    most = int(np.diff(start).max(initial=0))
    return np.empty(most), np.empty(most), np.empty(most, dtype=np.int64), np.empty((most, most))


@njit(**LEAN)
def simplex_ascent(gram, scores, order, start, weights, alphas, room, tolerance, max_passes):
    """Maximize the dual over planes by pairwise steps.

    The function ``sum_b c_b sum_j alpha_j offset_j - 1/2 |f|^2`` is maximized over `alphas`. They are
    non-negative, and their sum in each block is at most 1. The rest belongs to a null plane of value 0.

    Shapes: `gram` (at least m, at least m), `scores` (m,), `alphas` (m,), `order` (m,), `start` (n +
    1,), `weights` (n,).
    """
    plane_values, block_alphas, known, products = room
    total = 0.0
    for _ in range(max_passes):
        total = 0.0
        for b in range(start.shape[0] - 1):
            first, n, weight = start[b], start[b + 1] - start[b], weights[b]
            wanted, highest, mean = -1, 0.0, 0.0
            for j in range(n):
                plane = order[first + j]
                plane_values[j], block_alphas[j], known[j] = scores[plane], alphas[plane], 0
                mean += block_alphas[j] * plane_values[j]
                if plane_values[j] > highest:
                    wanted, highest = j, plane_values[j]
            gap = weight * (highest - mean)
            if not gap > 0.0:
                continue
            total += gap
            while True:
                for i in range(n):
                    if known[i] == 0 and (block_alphas[i] > 0.0 or i == wanted):
                        known[i], own = n, gram[order[first + i]]
                        for j in range(n):
                            products[i, j] = own[order[first + j]]
                wanted = ascend(
                    plane_values, products, known, block_alphas, n, weight, BLOCK_SHARE * gap, 4 * n + 4
                )
                if wanted < 0:
                    break
            # Two planes at a time, because most steps are between two planes.
            former, amount = -1, 0.0
            for j in range(n):
                plane = order[first + j]
                size = weight * (block_alphas[j] - alphas[plane])
                if size == 0.0:
                    continue
                alphas[plane], own = block_alphas[j], gram[plane]
                if former < 0:
                    former, amount = plane, size
                    continue
                other, former = gram[former], -1
                # Compilers vectorize loops without a condition.
                for k in range(scores.shape[0]):
                    scores[k] -= amount * other[k] + size * own[k]
            if former >= 0:
                own = gram[former]
                for k in range(scores.shape[0]):
                    scores[k] -= amount * own[k]
            for j in range(n):
                scores[order[first + j]] = plane_values[j]
        if total <= tolerance:
            break
    return total
