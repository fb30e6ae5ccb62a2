"""Dual state with a cache of planes per block, for any term and space."""

from __future__ import annotations

import numpy as np

from ..spaces.base import Element, Normals
from ..terms.planes import PlaneSet, WorkingSet
from .base import OutOfTime, join_planes
from .batch_state import BatchedState


class PlaneCache(BatchedState):
    """A few planes per block, with pairwise steps over each batch of blocks."""

    def _new_set(self, batch: np.ndarray) -> WorkingSet:
        return WorkingSet(self.space, self.term.weights[batch], self.term.lower_bounds[batch])

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

    def planes(self) -> PlaneSet:
        return join_planes(
            self.space,
            [
                PlaneSet(working.normals, working.offsets, batch[working.blocks], working.alphas)
                for batch, working in zip(self.batches, self.sets, strict=True)
                if working.normals is not None
            ],
        )

    def restore(self, planes: PlaneSet) -> None:
        for batch, working in zip(self.batches, self.sets, strict=True):
            selected = np.flatnonzero(np.isin(planes.blocks, batch))
            if len(selected):
                working.add(
                    planes.normals[selected],
                    planes.offsets[selected],
                    np.searchsorted(batch, planes.blocks[selected]),
                    planes.alphas[selected],
                )
