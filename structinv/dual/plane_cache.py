"""Dual states with working sets of planes per batch, for any term and space."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np

from ..spaces.base import Element, Normals
from ..terms.dense_planes import DensePlanes
from ..terms.planes import WorkingSet
from ..utils.row_arrays import Arrays
from .base import CONVERGED_SHARE, DualState, OutOfTime, never
from .case import Case

# Passes over cached planes between two passes of the oracle. On digits this saves 2/3 to 9/10 of the
# passes of the oracle.
CACHED_ROUNDS = 20
# Number of blocks in a working set of dense planes, which has no Gram matrix.
DENSE_BLOCKS = 2048


class BatchedState(DualState):
    """Base class of dual states with a working set for each batch of blocks.

    A sweep calls the oracle for one batch after the other. It then optimizes over all stored planes.

    Shapes: `batches` (n,).
    """

    batches: list[np.ndarray]
    sets: list[Any]

    def __init__(self, case: Case, rng: np.random.Generator) -> None:
        self.term = term = case.term
        self.space = case.space
        self.rng = rng
        self.plane_tol = case.plane_tol
        self.n_added = 0
        shuffled, size = rng.permutation(np.flatnonzero(term.weights > 0)), self._blocks_in_a_set(case)
        edges = range(size, len(shuffled), size)
        batches = np.split(shuffled, list(edges))
        self.batches = [np.sort(batch) for batch in batches if len(batch)]
        self.sets = [self._new_set(batch) for batch in self.batches]

    def _blocks_in_a_set(self, case: Case) -> int:
        """Return the number of blocks in a working set."""
        size: int = self.space.blocks_in_a_set
        return size

    @abstractmethod
    def _new_set(self, batch: np.ndarray) -> Any:
        """Return an empty working set for some blocks."""

    @abstractmethod
    def _visit(self, f: Element, number: int, out_of_time: OutOfTime) -> tuple[float, int]:
        """Call the oracle for a batch, add new planes, and update the dual variables.

        Return the gap before the update, and the number of blocks visited before time was up.
        """

    def _after_oracle(self, f: Element, total: float, out_of_time: OutOfTime) -> None:
        """Do further work after the oracle was called for all batches; nothing by default."""

    def _after_round(self, f: Element, count: int, target: float, out_of_time: OutOfTime) -> None:
        """Do further work after round `count` over the stored planes; nothing by default."""

    @property
    def offset(self) -> float:
        return sum(working.offset for working in self.sets)

    def sweep(self, f: Element, out_of_time: OutOfTime = never) -> tuple[float, int]:
        total, rows, self.n_added, self.converged = 0.0, 0, 0, False
        order = self.rng.permutation(len(self.batches))
        for number in order:
            if out_of_time():
                return np.inf, rows
            gap, visited = self._visit(f, number, out_of_time)
            total += gap
            rows += self.term.rows_of(self.batches[number][:visited])
        self._after_oracle(f, total, out_of_time)
        left = self._optimize_stored(f, order, 0.2 * total, out_of_time)
        self.converged = self.n_added == 0 and left <= CONVERGED_SHARE * total
        for working in self.sets:
            if out_of_time():
                break
            working.prune(max_idle=2 * CACHED_ROUNDS)
            working.merge(self.term.planes_of_a_block(self.space))
        return total, rows

    def _optimize_stored(
        self, f: Element, order: np.ndarray, target: float, out_of_time: OutOfTime
    ) -> float:
        """Optimize over the stored planes until their gap is small; return the remaining gap."""
        left = np.inf
        for count in range(CACHED_ROUNDS):
            left = 0.0
            for number in order:
                if out_of_time():
                    return np.inf
                left += self.sets[number].ascend(f, 0.0, max_passes=1)
            if left <= target:
                break
            self._after_round(f, count, target, out_of_time)
        return left

    def combination(self) -> Element:
        return sum((working.combination() for working in self.sets), self.space.zeros())

    @abstractmethod
    def _planes_at(self, f: Element, blocks: np.ndarray) -> tuple[Normals, np.ndarray]:
        """Return normals and offsets for the working sets of some blocks, from the oracle at `f`."""

    @abstractmethod
    def _feasible(self, taus: np.ndarray) -> np.ndarray:
        """Return sums of dual variables of blocks, clipped to those that the term allows."""

    def arrays(self) -> Arrays:
        taus = np.zeros(len(self.term.weights))
        for batch, working in zip(self.batches, self.sets, strict=True):
            taus[batch] = np.bincount(working.blocks, working.alphas, len(batch))
        return {"taus": taus}

    def _start(self, arrays: Arrays, f: Element) -> int:
        # The planes at f get all dual variables of their blocks.
        taus, rows = self._feasible(arrays["taus"]), 0
        for batch, working in zip(self.batches, self.sets, strict=True):
            active = np.flatnonzero(taus[batch] > 0)
            if len(active):
                working.add(*self._planes_at(f, batch[active]), active, taus[batch[active]])
                rows += self.term.rows_of(batch[active])
        return rows

    def take_over(
        self, normals: Normals, offsets: np.ndarray, blocks: np.ndarray, alphas: np.ndarray
    ) -> None:
        """Continue from planes of another state of the same term."""
        for batch, working in zip(self.batches, self.sets, strict=True):
            chosen = np.flatnonzero(np.isin(blocks, batch))
            if len(chosen):
                places = np.searchsorted(batch, blocks[chosen])
                working.add(normals[chosen], offsets[chosen], places, alphas[chosen])

    def pack(self) -> Any:
        # Dual variables alone would lose the planes.
        return self.batches, [
            (each.normals, each.offsets, each.blocks, each.alphas) for each in self.sets
        ]

    def unpack(self, packed: Any) -> None:
        self.batches, stored = packed
        self.sets = [self._new_set(batch) for batch in self.batches]
        for working, planes in zip(self.sets, stored, strict=True):
            working.add(*planes)


class PlaneCache(BatchedState):
    """A few planes per block, with pairwise steps over each batch of blocks."""

    name = "plane_cache"

    def __init__(self, case: Case, rng: np.random.Generator) -> None:
        self.kind: type[WorkingSet | DensePlanes] = DensePlanes if case.has_dense_planes else WorkingSet
        super().__init__(case, rng)

    def _blocks_in_a_set(self, case: Case) -> int:
        return DENSE_BLOCKS if case.has_dense_planes else super()._blocks_in_a_set(case)

    def _new_set(self, batch: np.ndarray) -> WorkingSet | DensePlanes:
        return self.kind(self.space, self.term.weights[batch], self.term.lower_bounds[batch])

    def _visit(self, f: Element, number: int, out_of_time: OutOfTime) -> tuple[float, int]:
        # Planes that exceed the stored ones are added.
        blocks, working = self.batches[number], self.sets[number]
        normals, offsets, plane_values = self._planes_in_time(f, blocks, out_of_time)
        visited = len(plane_values)
        known, mean = (each[:visited] for each in working.block_values(f))
        new = np.flatnonzero(
            plane_values > known + self.plane_tol + 1e-12 * (1.0 + np.abs(plane_values))
        )
        self.n_added += len(new)
        working.add(normals[new], offsets[new], new)
        gap = float(working.weights[:visited] @ np.maximum(0.0, plane_values - mean))
        working.ascend(f, 0.1 * gap, max_passes=3)
        return gap if visited == len(blocks) else np.inf, visited

    def _planes_in_time(
        self, f: Element, blocks: np.ndarray, out_of_time: OutOfTime
    ) -> tuple[Normals, np.ndarray, np.ndarray]:
        """Return normals, offsets and values of planes, of at least one portion of the blocks."""
        step = self.term.blocks_at_once(self.space)
        found = [self.term.planes(self.space, f, blocks[:step])]
        for first in range(step, len(blocks), step):
            if out_of_time():
                break
            found.append(self.term.planes(self.space, f, blocks[first : first + step]))
        return (
            self.space.stack([planes.normals for planes in found]),
            np.concatenate([planes.offsets for planes in found]),
            np.concatenate([planes.plane_values for planes in found]),
        )

    def _planes_at(self, f: Element, blocks: np.ndarray) -> tuple[Normals, np.ndarray]:
        planes = self.term.planes(self.space, f, blocks)
        return planes.normals, planes.offsets

    def _feasible(self, taus: np.ndarray) -> np.ndarray:
        return np.clip(taus, 0.0, 1.0)
