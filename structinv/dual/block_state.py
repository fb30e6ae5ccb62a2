"""Dual state for rows read from disk in blocks; other blocks are packed."""

from __future__ import annotations

import pickle
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from ..spaces.base import Element
from ..terms.blockwise_term import BlockwiseTerm
from ..terms.planes import PlaneSet
from ..utils.packed_rows import PackedRows
from .base import FOCUSED_PASSES, DualState, OutOfTime, never
from .case import Case

if TYPE_CHECKING:
    from ..terms import WorstCase

# Initial dual variable of the plane of an earlier run.
FIRST_ALPHA = 0.8


class PackedStore:
    """Packed dual states of blocks; None for blocks without one."""

    def __init__(self, size: int, most_bytes: float) -> None:
        self.most_bytes = most_bytes
        self.in_memory = 0
        self._held: list[Any] = [None] * size
        self._sizes = [0] * size
        self._written = [0] * size
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def __len__(self) -> int:
        return len(self._held)

    @property
    def on_disk(self) -> int:
        """Number of bytes in files."""
        return sum(self._written)

    def __getitem__(self, number: int) -> Any:
        if not self._written[number]:
            return self._held[number]
        return pickle.loads(self._path(number).read_bytes())

    def __setitem__(self, number: int, packed: Any) -> None:
        content = b"" if isinstance(packed, PackedRows) else pickle.dumps(packed, protocol=5)
        size = packed.nbytes if isinstance(packed, PackedRows) else len(content)
        others = self.in_memory - self._sizes[number]
        if others + size > self.most_bytes:
            self._write(number, content or pickle.dumps(packed, protocol=5))
            packed, size = None, 0
        else:
            self._written[number] = 0
        self._held[number], self._sizes[number] = packed, size
        self.in_memory = others + size

    def _write(self, number: int, content: bytes) -> None:
        """Replace a block's file; OSError leaves the old file unchanged."""
        path = self._path(number)
        neighbor = path.with_suffix(".new")
        try:
            neighbor.write_bytes(content)
            neighbor.replace(path)
        except OSError as error:
            raise OSError(
                error.errno,
                f"dual variables of rows that are read in blocks could not be written to {path.parent} "
                f"({error.strerror}): set TMPDIR to a folder with more space, or raise memory_limit",
            ) from error
        self._written[number] = len(content)

    def _path(self, number: int) -> Path:
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="structinv-")
        return Path(self._folder.name, f"block-{number}")


@dataclass
class CachedRows:
    """Rows of a block that stay in memory, with numbers and a separate dual state."""

    rows: np.ndarray
    state: Any


class BlockState(DualState):
    """One dual state per block of rows; all but the current one are packed.

    A block consists of strips from different parts of the rows. Each pass creates blocks of other
    strips, because fixed blocks converge slowly. The rows of a block cancel their common effects on f
    among themselves. Opposite effects of two blocks are reduced only in small steps.

    Rows with a large gap stay in memory, and are visited several times before the next pass (selective
    block minimization, Chang and Roth 2011).

    After a warm start, the planes of the earlier run are a single plane. It has one dual variable
    ("share"), which never increases. The rows have the rest.
    """

    def __init__(self, case: Case, rng: np.random.Generator) -> None:
        self.term: BlockwiseTerm = case.term
        self.space = case.space
        self.plane_tol = case.plane_tol
        assert case.choose is not None
        self.choose = case.choose
        kind = self.choose(self._case(self.term.sample))
        if not kind.packs:
            raise ValueError(
                f"FrankWolfe does not support rows in blocks with {case.oracle}, because the dual "
                "variables of all rows depend on each other: use solver='bmrm'"
            )
        self.packs_rows, self.quick_value = kind.packs_rows, kind.quick_value
        self.rng = rng
        # Packed variables of each strip. States that do not pack rows store a block with its first
        # strip.
        self.packed = PackedStore(len(self.term.strips), self.term.sizes.packed)
        self.groups = self._random_blocks()
        # Sum of all offsets.
        self.rows_offset = 0.0
        self.cached: list[CachedRows] = []
        # Gap in the last pass.
        self.gap = 0.0
        # None after a sweep that was interrupted by an error or Ctrl-C. It is then recomputed.
        self.sum: Element | None = self.space.zeros()
        # Normal and offset of the earlier run's plane, and its dual variable.
        self.earlier: tuple[Element, float] = (self.space.zeros(), 0.0)
        self.earlier_alpha = 0.0

    def _case(self, part: WorstCase) -> Case:
        return Case(part, self.space, self.plane_tol, self.choose)

    @property
    def offset(self) -> float:
        return float(self.earlier_alpha * self.earlier[1] + self.rows_offset)

    def _random_blocks(self) -> list[np.ndarray]:
        """Return random blocks, as the numbers of their strips."""
        strips = self.rng.permutation(len(self.term.strips))
        return [np.sort(own) for own in np.array_split(strips, len(self.term.cuts))]

    def _states(self) -> Iterator[tuple[np.ndarray, Any]]:
        """Yield the strips and the dual state of each block."""
        for strips, part in zip(self.groups, self.term.parts(self.groups), strict=True):
            yield strips, self._state(self._weighed(part), self._packed(strips))

    def _packed(self, strips: np.ndarray) -> Any:
        """Return the packed variables of a block; None before its first visit."""
        if not self.packs_rows or self.packed[strips[0]] is None:
            return self.packed[strips[0]]
        return PackedRows.join([self.packed[strip] for strip in strips])

    def _pack(self, strips: np.ndarray, packed: Any) -> None:
        if not self.packs_rows:
            self.packed[strips[0]] = packed
            return
        first = 0
        for strip in strips:
            after = first + self.term.strips[strip].stop - self.term.strips[strip].start
            self.packed[strip] = packed.take(np.arange(first, after))
            first = after

    def _weighed(self, part: WorstCase) -> WorstCase:
        part.weights = (1.0 - self.earlier_alpha) * part.weights
        return part

    def _state(self, part: WorstCase, packed: Any) -> Any:
        """Return the dual state of some rows, from packed variables if there are any."""
        case = self._case(part)
        state = self.choose(case)(case, self.rng)
        if packed is not None:
            state.unpack(packed)
        return state

    def sweep(self, f: Element, out_of_time: OutOfTime = never) -> tuple[float, int]:
        # Several passes over the rows in memory, then one pass over all blocks.
        if self.earlier_alpha == 1.0:
            self._reduce_earlier_alpha(f)
        start, before, self.sum = f.copy(), self.sum, None
        visits, room = self._revisit(f, out_of_time), self.term.sizes.kept
        if self.packs_rows and np.isfinite(self.gap):
            self.groups = self._random_blocks()
        else:
            self.groups = [self.groups[k] for k in self.rng.permutation(len(self.groups))]
        # Infinite until the pass is complete, because an error or Ctrl-C leaves unvisited blocks.
        self.gap = np.inf
        total, gap, rows_offset = self.earlier_alpha * self.earlier[0], 0.0, 0.0
        for strips, state in self._states():
            if out_of_time():
                gap = np.inf
                break
            offset = state.offset
            visit = state.visit_all if self.packs_rows else state.sweep
            own, rows = visit(f, out_of_time)
            packed = state.pack()
            self._pack(strips, packed)
            self.rows_offset += state.offset - offset
            gap, visits, rows_offset = gap + own, visits + rows, rows_offset + state.offset
            total += state.combination()
            if self.packs_rows:
                room -= self._cache_rows(strips, state, packed, room)
        self.gap = gap
        if np.isfinite(gap):
            self.sum, self.rows_offset = total, rows_offset
            self._lower_earlier_alpha(f)
        elif before is not None:
            # Add the changes of this sweep so far.
            self.sum = before + (f - start)
        return gap, visits

    def _cache_rows(self, strips: np.ndarray, state: Any, packed: PackedRows, room: int) -> int:
        """Store the rows of a block with a large gap; return their number of stored values."""
        X, gaps = state.term.X, packed.arrays[0]
        rows = np.flatnonzero(gaps > state.far_off * gaps.mean())
        sizes = np.diff(X.indptr)[rows] if sp.issparse(X) else np.full(len(rows), X.shape[1])
        if sizes.sum() > room:
            order = np.argsort(-gaps[rows])
            rows = np.sort(rows[order[np.cumsum(sizes[order]) <= room]])
        if len(rows) == 0:
            return 0
        some, numbers = X[rows], self.term.rows_in(strips)[rows]
        part = self._weighed(self.term.of_rows(some, numbers))
        self.cached.append(CachedRows(numbers, self._state(part, packed.take(rows))))
        return int(some.nnz if sp.issparse(some) else some.size)

    def _revisit(self, f: Element, out_of_time: OutOfTime) -> int:
        """Visit the rows in memory until their gap is small; return the number of visits."""
        if not self.cached or not np.isfinite(self.gap):
            self.cached = []
            return 0
        kind, total = self.cached[0].state, self.gap
        visits, least = 0, kind.far_off * total / len(self.term.weights)
        offsets = [each.state.offset for each in self.cached]
        for _ in range(FOCUSED_PASSES):
            active = [np.flatnonzero(each.state.gaps > least) for each in self.cached]
            left = sum(
                each.state.gaps[rows].sum() for each, rows in zip(self.cached, active, strict=True)
            )
            if left <= kind.enough * total or out_of_time():
                break
            for k in self.rng.permutation(len(self.cached)):
                visits += self.cached[k].state.visit(f, active[k], out_of_time, again=True)
        for each, before in zip(self.cached, offsets, strict=True):
            self._write_back(each)
            self.rows_offset += each.state.offset - before
        self.cached = []
        return visits

    def _write_back(self, cached: CachedRows) -> None:
        """Write the variables of rows in memory into those of their strips."""
        edges = self.term.strip_edges
        strips = np.searchsorted(edges, cached.rows, side="right") - 1
        packed = cached.state.pack()
        for strip in np.unique(strips):
            selected = np.flatnonzero(strips == strip)
            places = cached.rows[selected] - edges[strip]
            self.packed[strip] = self.packed[strip].put(places, packed.take(selected))

    def _reduce_earlier_alpha(self, f: Element) -> None:
        """Reduce the dual variable of the earlier run's plane, so that rows can get planes."""
        self.earlier_alpha = FIRST_ALPHA
        self.sum = self.earlier_alpha * self.earlier[0]
        f += self.sum - self.earlier[0]

    def _lower_earlier_alpha(self, f: Element) -> None:
        """Lower the dual variable of the earlier run's plane to its optimum, but do not raise it."""
        if self.earlier_alpha == 0.0:
            return
        assert self.sum is not None
        normal, offset = self.earlier
        rest = 1.0 - self.earlier_alpha
        rows, rows_offset = (self.sum - self.earlier_alpha * normal) / rest, self.rows_offset / rest
        direction = normal - rows
        square, gain = (
            self.space.dot(direction, direction),
            offset - rows_offset - self.space.dot(direction, rows),
        )
        earlier_alpha = min(self.earlier_alpha, max(0.0, gain / square)) if square > 0 else 0.0
        change = (earlier_alpha - self.earlier_alpha) * direction
        f += change
        self.sum = self.sum + change
        self.rows_offset *= (1.0 - earlier_alpha) / rest
        self.earlier_alpha = earlier_alpha
        # The weights of the rows in memory depend on the old share.
        self.cached = []

    def value(self, f: Element) -> tuple[float, float]:
        if self.earlier_alpha == 1.0:
            return self.term.total(self.space, f)
        each = [state.value(f) for _, state in self._states()]
        above, reached = (sum(side) / (1.0 - self.earlier_alpha) for side in zip(*each, strict=True))
        return above, reached

    def combination(self) -> Element:
        # A complete sweep has stored it, so that no block is read again.
        if self.sum is None:
            self.sum = self.earlier_alpha * self.earlier[0]
            for _, state in self._states():
                self.sum += state.combination()
        return self.sum.copy()

    def planes(self) -> PlaneSet:
        # One plane, of the sum of all rows.
        return PlaneSet.of_sum(self.space, self.combination(), self.offset, self.term.weights)

    def restore(self, planes: PlaneSet) -> None:
        # The plane of the sum of all rows.
        normal, offset = planes.total(self.space, self.term.weights, self.term.lower_bounds)
        self.earlier = normal, float(offset)
        self.earlier_alpha = 1.0
        self.sum = self.earlier[0].copy()
