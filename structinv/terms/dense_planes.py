"""Working sets of dense planes, without a Gram matrix of all planes."""

from __future__ import annotations

import numpy as np

from ..spaces.base import Normals, Space
from ..spaces.tensor_rows import TensorRows
from ..utils.ascent import ascend
from ..utils.jit import FAST, PLAIN, njit
from ..utils.matrices import dense
from .planes import BLOCK_SHARE, WorkingSet

# Passes over the blocks with a large gap after each pass over all, and the gap of these blocks as a
# fraction of the mean.
_FOCUSED_PASSES, _LARGE = 3, 0.3
# Maximum number of pairwise steps in a visit of a block. More steps gain little before others change f.
_MOST_STEPS = 4
_NO_TABLE = np.zeros((0, 0))


class DensePlanes(WorkingSet):
    """Working set of dense planes in the order of their blocks.

    A step needs the inner products of the planes of one block only, so there is no Gram matrix of all
    planes. A set may therefore have many blocks.

    Shapes: `weights` (n,), `lower_bounds` (n,).
    """

    def __init__(self, space: Space, weights: np.ndarray, lower_bounds: np.ndarray) -> None:
        super().__init__(space, weights, lower_bounds)
        # Inner products of each plane with the first planes of its block, and how many are known.
        self._products, self._known = _NO_TABLE, np.zeros(0, dtype=np.int64)

    def add(
        self,
        normals: Normals,
        offsets: np.ndarray,
        blocks: np.ndarray,
        alphas: np.ndarray | None = None,
    ) -> None:
        if len(offsets) == 0:
            return
        rows = dense(normals.summed() if isinstance(normals, TensorRows) else normals)
        joined = np.concatenate([self.blocks, blocks])
        order = np.argsort(joined, kind="stable")
        new = np.zeros(len(offsets)) if alphas is None else alphas
        self._set(
            (rows if self.normals is None else np.concatenate([self.normals, rows]))[order],
            _NO_TABLE,
            np.concatenate([self.offsets, offsets])[order],
            joined[order],
            np.concatenate([self.alphas, new])[order],
            np.concatenate([self.idle, np.zeros(len(offsets), dtype=np.int64)])[order],
        )

    def ascend(self, f: np.ndarray, tolerance: float, max_passes: int) -> float:
        """Maximize over the dual variables, as the general working set does.

        After each pass over all blocks, those with a large gap are visited again.
        """
        if self.normals is None:
            return 0.0
        _, start = self._by_block()
        gained = self.offsets - self.lower_bounds[self.blocks]
        gap = np.inf
        for _ in range(max_passes):
            gap = dense_ascent(
                self.normals, gained, start, self.weights, self.alphas, self._products, self._known, f,
                self._room,
            )  # fmt: skip
            if gap <= tolerance:
                break
        self.idle = np.where(self.alphas > 0, 0, self.idle + 1)
        return float(gap)

    def _by_block(self) -> tuple[np.ndarray, np.ndarray]:
        if self._order is None:
            most = int(np.bincount(self.blocks).max(initial=0))
            self._products = np.empty((len(self), most))
            self._known = np.zeros(len(self), dtype=np.int64)
        return super()._by_block()

    def _keep(self, keep: np.ndarray) -> None:
        if self.normals is None or np.all(keep):
            return
        self._set(
            self.normals[keep],
            _NO_TABLE,
            self.offsets[keep],
            self.blocks[keep],
            self.alphas[keep],
            self.idle[keep],
        )


@njit(**FAST)
def _dot(x, f):
    total = 0.0
    for k in range(x.size):
        total += x[k] * f[k]
    return total


@njit(**FAST)
def _add(step, x, f):
    for k in range(x.size):
        f[k] += step * x[k]


@njit(**PLAIN)
def _gap_and_highest(normals, gained, weight, alphas, f, first, n, plane_values):
    """Write the values of the planes of a block; return its gap and its highest plane."""
    wanted, highest, mean = -1, 0.0, 0.0
    for j in range(n):
        plane_values[j] = gained[first + j] - _dot(normals[first + j], f)
        mean += alphas[first + j] * plane_values[j]
        if plane_values[j] > highest:
            wanted, highest = j, plane_values[j]
    return weight * (highest - mean), wanted


@njit(**PLAIN)
def dense_ascent(normals, gained, start, weights, alphas, products, known_products, f, room):
    """Maximize the dual over planes by pairwise steps in each block.

    Blocks with a large gap are then visited again.

    `alphas` and `f` are changed in place. Returns the gap before the steps.

    Shapes: `normals` (m, d), `gained` (m,), `start` (n + 1,), `weights` (n,), `alphas` (m,), `products`
    (m, most planes), `known_products` (m,), `f` (d,).
    """
    plane_values, block_alphas, known, own_products = room
    n_blocks = start.shape[0] - 1
    gaps, total, large = np.zeros(n_blocks), 0.0, 0.0
    for number in range(1 + _FOCUSED_PASSES):
        for b in range(n_blocks):
            if number > 0 and gaps[b] <= large:
                continue
            first, n, weight = start[b], start[b + 1] - start[b], weights[b]
            gap, wanted = _gap_and_highest(normals, gained, weight, alphas, f, first, n, plane_values)
            gaps[b] = gap
            if not gap > 0.0:
                continue
            for j in range(n):
                block_alphas[j], known[j] = alphas[first + j], 0
            while True:
                for i in range(n):
                    if known[i] == 0 and (block_alphas[i] > 0.0 or i == wanted):
                        known[i], plane = n, first + i
                        for j in range(known_products[plane], n):
                            products[plane, j] = _dot(normals[plane], normals[first + j])
                        known_products[plane] = n
                        own_products[i, :n] = products[plane, :n]
                wanted = ascend(
                    plane_values, own_products, known, block_alphas, n, weight, BLOCK_SHARE * gap,
                    _MOST_STEPS,
                )  # fmt: skip
                if wanted < 0:
                    break
            for j in range(n):
                step = weight * (block_alphas[j] - alphas[first + j])
                if step != 0.0:
                    alphas[first + j] = block_alphas[j]
                    _add(step, normals[first + j], f)
        if number == 0:
            total = gaps.sum()
            large = _LARGE * total / n_blocks
    return total
