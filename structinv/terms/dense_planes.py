"""Working sets of dense planes, without a Gram matrix of all planes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..spaces.base import Normals, Space
from ..utils.ascent import ascend
from ..utils.jit import FAST, LEAN, PLAIN, njit
from ..utils.matrices import dense
from .planes import BLOCK_SHARE

# Passes over the blocks with a large gap after each pass over all, and the gap of these blocks as a
# fraction of the mean.
_FOCUSED_PASSES, _LARGE = 10, 0.5
# Maximum number of pairwise steps in a visit of a block. More steps gain little before others change f.
_MOST_STEPS = 4


class _Slots(NamedTuple):
    """Planes of n blocks; block b has planes in its first ``counts[b]`` slots, and zeros in others.

    Shapes: `normals` (n, slots, d), `products` (n, slots, slots), `offsets`, `alphas` and `idle` (n,
    slots), `counts` (n,).
    """

    normals: np.ndarray
    products: np.ndarray
    offsets: np.ndarray
    alphas: np.ndarray
    idle: np.ndarray
    counts: np.ndarray


class DensePlanes:
    """Working set of dense planes, for the dual states of `WorkingSet`.

    A step needs the inner products of the planes of one block only, so there is no Gram matrix of all
    planes. A set may therefore have many blocks.

    Shapes: `weights` (n,), `lower_bounds` (n,).
    """

    def __init__(self, space: Space, weights: np.ndarray, lower_bounds: np.ndarray) -> None:
        self.space = space
        self.weights = weights
        self.lower_bounds = lower_bounds
        self._slots = _empty(len(weights), 0, 0)

    def __len__(self) -> int:
        return int(self._slots.counts.sum())

    @property
    def _used(self) -> np.ndarray:
        """True for slots with planes, (n, slots)."""
        return np.arange(self._slots.offsets.shape[1]) < self._slots.counts[:, None]

    @property
    def normals(self) -> np.ndarray:
        """Normal of each plane, (m, d)."""
        return self._slots.normals[self._used]

    @property
    def offsets(self) -> np.ndarray:
        """Offset of each plane, (m,)."""
        return self._slots.offsets[self._used]

    @property
    def alphas(self) -> np.ndarray:
        """Dual variable of each plane, (m,)."""
        return self._slots.alphas[self._used]

    @property
    def blocks(self) -> np.ndarray:
        """Block of each plane, (m,); increasing."""
        return np.nonzero(self._used)[0]

    def block_values(self, f: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the largest and the average value of each block's planes at `f`.

        Both include the null plane.
        """
        highest, mean = _block_values(self._slots, self.lower_bounds, f)
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
        rows = dense(normals)
        most = int(np.max(self._slots.counts + np.bincount(blocks, minlength=len(self.weights))))
        enough = most <= self._slots.offsets.shape[1]
        slots = self._slots if enough else self._enlarged(most, rows.shape[1])
        _add_planes(slots, rows, offsets, blocks, np.zeros(len(offsets)) if alphas is None else alphas)
        # Set at once, so that Ctrl-C does not leave arrays that do not match.
        self._slots = slots

    def _enlarged(self, most: int, n_features: int) -> _Slots:
        """Return the planes with at least `most` slots per block."""
        old = self._slots
        n_blocks, size = old.offsets.shape
        new = _empty(n_blocks, max(most, size + size // 2), n_features)
        new.counts[:] = old.counts
        if size:
            new.normals[:, :size], new.products[:, :size, :size] = old.normals, old.products
            new.offsets[:, :size], new.alphas[:, :size] = old.offsets, old.alphas
            new.idle[:, :size] = old.idle
        return new

    def ascend(self, f: np.ndarray, tolerance: float, max_passes: int) -> float:
        """Maximize over the dual variables until the gap on these planes is small.

        Update `f`, and return the gap before the last pass. After each pass over all blocks, those with
        a large gap are visited again.
        """
        gap, gaps = np.inf if len(self) else 0.0, np.empty(len(self.weights))
        size = self._slots.offsets.shape[1]
        room = np.empty(size), np.empty(size), np.full(size, size)
        for _ in range(max_passes if len(self) else 0):
            gap = _ascend_all(self._slots, self.lower_bounds, self.weights, f, room, gaps)
            if gap <= tolerance:
                break
        self._slots.idle[self._slots.alphas > 0] = -1
        self._slots.idle[:] += 1
        return float(gap)

    def prune(self, max_idle: int) -> None:
        """Drop planes with a zero dual variable for more than `max_idle` rounds."""
        _drop_idle(self._slots, max_idle)

    def merge(self, max_planes: int) -> None:
        """Replace the excess planes of each block by their average.

        These are the planes with the smallest dual variables.
        """
        if np.any(self._slots.counts > max_planes):
            _merge_excess(self._slots, max_planes)

    def combination(self) -> np.ndarray:
        """Return the element f of the current dual variables."""
        if not len(self):
            return self.space.zeros()
        slots = self._slots
        shares = self.weights[:, None] * slots.alphas
        return shares.ravel() @ slots.normals.reshape(shares.size, -1)

    @property
    def offset(self) -> float:
        """Linear part of the dual."""
        gained = self._slots.alphas * (self._slots.offsets - self.lower_bounds[:, None])
        return float(self.weights @ (self.lower_bounds + gained.sum(axis=1)))


def _empty(n_blocks: int, size: int, n_features: int) -> _Slots:
    return _Slots(
        np.zeros((n_blocks, size, n_features)),
        np.zeros((n_blocks, size, size)),
        np.zeros((n_blocks, size)),
        np.zeros((n_blocks, size)),
        np.zeros((n_blocks, size), dtype=np.int64),
        np.zeros(n_blocks, dtype=np.int64),
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
def _set_products(slots, b, j):
    """Compute the inner products of plane j of a block."""
    for k in range(slots.counts[b]):
        product = _dot(slots.normals[b, j], slots.normals[b, k])
        slots.products[b, j, k] = slots.products[b, k, j] = product


@njit(**PLAIN)
def _add_planes(slots, rows, offsets, blocks, alphas):
    for i in range(len(blocks)):
        b = blocks[i]
        j = slots.counts[b]
        slots.counts[b] = j + 1
        slots.normals[b, j] = rows[i]
        slots.offsets[b, j], slots.alphas[b, j], slots.idle[b, j] = offsets[i], alphas[i], 0
        _set_products(slots, b, j)


@njit(**PLAIN)
def _drop(slots, b, j):
    """Put the last plane of a block into slot j, and zeros into its own."""
    last = slots.counts[b] - 1
    slots.counts[b] = last
    slots.normals[b, j], slots.normals[b, last] = slots.normals[b, last], 0.0
    slots.offsets[b, j], slots.offsets[b, last] = slots.offsets[b, last], 0.0
    slots.alphas[b, j], slots.alphas[b, last] = slots.alphas[b, last], 0.0
    slots.idle[b, j] = slots.idle[b, last]
    slots.products[b, j, : last + 1] = slots.products[b, last, : last + 1]
    slots.products[b, :last, j] = slots.products[b, j, :last]
    slots.products[b, j, j] = slots.products[b, last, last]


@njit(**PLAIN)
def _drop_idle(slots, max_idle):
    """Drop planes that were idle for more than `max_idle` rounds."""
    for b in range(len(slots.counts)):
        # From the last slot to the first, since the last plane of a block takes the place of another.
        for j in range(slots.counts[b] - 1, -1, -1):
            if slots.idle[b, j] > max_idle:
                _drop(slots, b, j)


@njit(**LEAN)
def _values_of(slots, b, lower_bound, f, plane_values):
    """Compute the values of a block's planes; return the largest and the average value."""
    highest, mean = 0.0, 0.0
    for j in range(slots.counts[b]):
        value = slots.offsets[b, j] - lower_bound - _dot(slots.normals[b, j], f)
        plane_values[j] = value
        highest = max(highest, value)
        mean += slots.alphas[b, j] * value
    return highest, mean


@njit(**PLAIN)
def _block_values(slots, lower_bounds, f):
    """Return the largest and the average value of each block's planes above the lower bounds."""
    highest, mean = np.empty((2, len(lower_bounds)))
    plane_values = np.empty(slots.offsets.shape[1])
    for b in range(len(lower_bounds)):
        highest[b], mean[b] = _values_of(slots, b, lower_bounds[b], f, plane_values)
    return highest, mean


@njit(**PLAIN)
def _merge_excess(slots, max_planes):
    """Replace the two planes with the smallest dual variables, until no block has too many."""
    for b in range(len(slots.counts)):
        while slots.counts[b] > max_planes:
            alphas, idle = slots.alphas[b, : slots.counts[b]], slots.idle[b, : slots.counts[b]]
            first = second = -1
            for j in range(len(alphas)):
                # Of several planes without dual variables, the one idle for the longest time is first.
                if first < 0 or (alphas[j], -idle[j]) < (alphas[first], -idle[first]):
                    first, second = j, first
                elif second < 0 or (alphas[j], -idle[j]) < (alphas[second], -idle[second]):
                    second = j
            if alphas[first] > 0.0 and second >= 0:
                share = alphas[first] / (alphas[first] + alphas[second])
                slots.normals[b, second] *= 1.0 - share
                _add(share, slots.normals[b, first], slots.normals[b, second])
                slots.offsets[b, second] += share * (slots.offsets[b, first] - slots.offsets[b, second])
                alphas[second] += alphas[first]
                _set_products(slots, b, second)
            _drop(slots, b, first)


@njit(**LEAN)
def _ascend_all(slots, lower_bounds, weights, f, room, gaps):
    """Maximize the dual over planes by pairwise steps in each block.

    Blocks with a large gap are then visited again. The dual variables and `f` are changed in place.
    Returns the gap before the steps. `room` is a workspace for a block, and `gaps` for all.
    """
    n_blocks, total, large = len(gaps), 0.0, 0.0
    plane_values, alphas, known = room
    for number in range(1 + _FOCUSED_PASSES):
        for b in range(n_blocks):
            if number > 0 and gaps[b] <= large:
                continue
            highest, mean = _values_of(slots, b, lower_bounds[b], f, plane_values)
            gaps[b] = gap = weights[b] * (highest - mean)
            total += gap if number == 0 else 0.0
            if not gap > 0.0:
                continue
            n = slots.counts[b]
            for j in range(n):
                alphas[j] = slots.alphas[b, j]
            ascend(
                plane_values, slots.products[b], known, alphas, n, weights[b], BLOCK_SHARE * gap,
                _MOST_STEPS,
            )  # fmt: skip
            for j in range(n):
                step = weights[b] * (alphas[j] - slots.alphas[b, j])
                if step != 0.0:
                    slots.alphas[b, j] = alphas[j]
                    _add(step, slots.normals[b, j], f)
        large = _LARGE * total / n_blocks
    return total
