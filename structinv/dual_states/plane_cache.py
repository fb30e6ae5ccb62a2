"""A few planes a block, for any term and space."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..planes import PlaneSet, WorkingSet
from ..spaces import Element, Normals, Space
from .base import DualState, Hurried, join_planes, never

if TYPE_CHECKING:
    from ..terms import Term

CACHED_ROUNDS = 20
SETTLED_SHARE = 0.01


class PlaneCache(DualState):
    """A few planes a block, asked for in batches; pairwise steps over each batch's planes.

    Parameters
    ----------
    term : Term
    space : Space
    rng : numpy.random.Generator
    epsilon : float
        How far a plane must rise above its block's planes so far to be kept.
    """

    def __init__(self, term: Term, space: Space, rng: np.random.Generator, epsilon: float = 0.0) -> None:
        self.term = term
        self.space = space
        self.rng = rng
        self.epsilon = epsilon
        self.n_added = 0
        shuffled = rng.permutation(np.flatnonzero(term.weights > 0))
        edges = range(space.blocks_in_a_set, len(shuffled), space.blocks_in_a_set)
        batches = np.split(shuffled, list(edges))
        self.batches = [np.sort(batch) for batch in batches if len(batch)]
        self.sets = [
            WorkingSet(space, term.weights[batch], term.floors[batch]) for batch in self.batches
        ]

    @property
    def offset(self) -> float:
        """See `DualState.offset`."""
        return sum(working.offset for working in self.sets)

    def sweep(self, f: Element, hurried: Hurried = never) -> tuple[float, int]:
        """See `DualState.sweep`."""
        total, rows, self.n_added, self.settled = 0.0, 0, 0, False
        order = self.rng.permutation(len(self.batches))
        for number in order:
            if hurried():
                return np.inf, rows
            gap, asked = self._visit(f, self.batches[number], self.sets[number], hurried)
            total += gap
            rows += self.term.rows_of(self.batches[number][:asked])
        cached = self._use_up(f, order, 0.2 * total, hurried)
        self.settled = self.n_added == 0 and cached <= SETTLED_SHARE * total
        for working in self.sets:
            if hurried():
                break
            working.prune(max_idle=2 * CACHED_ROUNDS)
            working.merge(self.space.planes_of_a_block)
        return total, rows

    def _use_up(self, f: Element, order: np.ndarray, target: float, hurried: Hurried) -> float:
        """Oracles are dear and planes are there: go on until their gap is small; what is left of it."""
        cached = np.inf
        for _ in range(CACHED_ROUNDS):
            left = 0.0
            for number in order:
                if hurried():
                    return np.inf
                left += self.sets[number].ascend(f, 0.0, max_passes=1)
            cached = left
            if cached <= target:
                break
        return cached

    def _visit(
        self, f: Element, blocks: np.ndarray, working: WorkingSet, hurried: Hurried
    ) -> tuple[float, int]:
        """Ask for planes of a batch, add those that rise above the known ones, ascend.

        Returns the gap, and how many of the first blocks there was time to ask for.
        """
        normals, offsets, heights = self._planes_in_time(f, blocks, hurried)
        asked = len(heights)
        known, mean = (each[:asked] for each in working.heights(f))
        new = np.flatnonzero(heights > known + self.epsilon + 1e-12 * (1.0 + np.abs(heights)))
        self.n_added += len(new)
        working.add(normals[new], offsets[new], new)
        gap = float(working.weights[:asked] @ np.maximum(0.0, heights - mean))
        working.ascend(f, 0.1 * gap, max_passes=3)
        return gap if asked == len(blocks) else np.inf, asked

    def _planes_in_time(
        self, f: Element, blocks: np.ndarray, hurried: Hurried
    ) -> tuple[Normals, np.ndarray, np.ndarray]:
        """Normals, offsets and heights of planes: of one portion, then more while there is time."""
        step = self.term.blocks_at_once(self.space)
        found = [self.term.planes(self.space, f, blocks[:step])]
        for first in range(step, len(blocks), step):
            if hurried():
                break
            found.append(self.term.planes(self.space, f, blocks[first : first + step]))
        return (
            self.space.stack([planes.normals for planes in found]),
            np.concatenate([planes.offsets for planes in found]),
            np.concatenate([planes.heights for planes in found]),
        )

    def value(self, f: Element) -> tuple[float, float]:
        """See `DualState.value`."""
        return self.term.total(self.space, f)

    def combination(self) -> Element:
        """See `DualState.combination`."""
        return sum((working.combination() for working in self.sets), self.space.zeros())

    def planes(self) -> PlaneSet:
        """See `DualState.planes`."""
        return join_planes(
            self.space,
            [
                PlaneSet(working.normals, working.offsets, batch[working.blocks], working.masses)
                for batch, working in zip(self.batches, self.sets, strict=True)
                if working.normals is not None
            ],
        )

    def restore(self, planes: PlaneSet) -> None:
        """See `DualState.restore`."""
        for batch, working in zip(self.batches, self.sets, strict=True):
            mine = np.flatnonzero(np.isin(planes.blocks, batch))
            if len(mine):
                working.add(
                    planes.normals[mine],
                    planes.offsets[mine],
                    np.searchsorted(batch, planes.blocks[mine]),
                    planes.masses[mine],
                )
