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
from ..utils.row_arrays import (
    Arrays,
    fitting,
    has_rows,
    join_rows,
    nbytes,
    put_rows,
    take_rows,
    zero_rows,
)
from .base import FOCUSED_PASSES, DualState, OutOfTime, never
from .case import Case

if TYPE_CHECKING:
    from ..terms import WorstCase


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

    def __contains__(self, number: int) -> bool:
        """Return whether a block has a packed state, without reading its file."""
        return self._written[number] > 0 or self._held[number] is not None

    def __getitem__(self, number: int) -> Any:
        if not self._written[number]:
            return self._held[number]
        return pickle.loads(self._path(number).read_bytes())

    def __setitem__(self, number: int, packed: Any) -> None:
        content = b"" if isinstance(packed, dict) else pickle.dumps(packed, protocol=5)
        size = nbytes(packed) if isinstance(packed, dict) else len(content)
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
    """

    name = "blocks"

    @staticmethod
    def refuses(case: Case) -> str:
        return "" if isinstance(case.term, BlockwiseTerm) else "rows are not read in blocks"

    def __init__(self, case: Case, rng: np.random.Generator) -> None:
        self.term: BlockwiseTerm = case.term
        self.space = case.space
        self.plane_tol = case.plane_tol
        kind = self._case(self.term.sample).chosen()
        if not kind.packs:
            raise ValueError(
                f"FrankWolfe does not support rows in blocks with {case.oracle}, because the dual "
                "variables of all rows depend on each other: use solver='bmrm'"
            )
        self.packs_rows, self.quick_value = kind.packs_rows, kind.quick_value
        self.rng = rng
        # Dual variables of each strip. After these, planes of blocks, by their first strip.
        self.packed = PackedStore(2 * len(self.term.strips), self.term.sizes.packed)
        self.groups = self._random_blocks()
        # Sum of all offsets.
        self.rows_offset = 0.0
        self.cached: list[CachedRows] = []
        # Gap in the last pass.
        self.gap = 0.0
        # None after a sweep that was interrupted by an error or Ctrl-C. It is then recomputed.
        self.sum: Element | None = self.space.zeros()
        # Dual variables and function of an earlier run, for blocks that were not visited yet.
        self.earlier: tuple[Arrays, Element] | None = None

    def _case(self, part: WorstCase) -> Case:
        return Case(part, self.space, self.plane_tol)

    @property
    def offset(self) -> float:
        return float(self.rows_offset)

    def _random_blocks(self) -> list[np.ndarray]:
        """Return random blocks, as the numbers of their strips."""
        strips = self.rng.permutation(len(self.term.strips))
        return [np.sort(own) for own in np.array_split(strips, len(self.term.cuts))]

    def _states(self) -> Iterator[tuple[np.ndarray, Any]]:
        """Yield the strips and the dual state of each block."""
        for strips, part in zip(self.groups, self.term.parts(self.groups), strict=True):
            place_of_planes = len(self.term.strips) + strips[0]
            if strips[0] not in self.packed:
                state = self._state(part)
                if self.earlier is not None:
                    arrays, f = self.earlier
                    state.start(take_rows(arrays, self.term.rows_in(strips)), f)
            elif place_of_planes not in self.packed:
                state = self._state(part, join_rows([self.packed[strip] for strip in strips]))
            else:
                state = self._state(part)
                state.unpack(self.packed[place_of_planes])
            yield strips, state

    def _pack(self, strips: np.ndarray, state: Any) -> Arrays:
        """Store the variables of a block by strips, and its planes if it has some."""
        found = state.arrays()
        ends = np.cumsum(np.diff(self.term.strip_edges)[strips])
        for strip, rows in zip(strips, np.split(np.arange(ends[-1]), ends[:-1]), strict=True):
            self.packed[strip] = take_rows(found, rows)
        if (planes := state.pack()) is not None:
            self.packed[len(self.term.strips) + strips[0]] = planes
        return found

    def _state(self, part: WorstCase, arrays: Arrays | None = None) -> Any:
        """Return the dual state of some rows, from stored variables if there are any."""
        case = self._case(part)
        state = case.chosen()(case, self.rng)
        if arrays is not None:
            state._start(arrays, self.space.zeros())
        return state

    def sweep(self, f: Element, out_of_time: OutOfTime = never) -> tuple[float, int]:
        # Several passes over the rows in memory, then one pass over all blocks.
        start, before, self.sum = f.copy(), self.sum, None
        visits, room = self._revisit(f, out_of_time), self.term.sizes.kept
        if self.packs_rows and np.isfinite(self.gap):
            self.groups = self._random_blocks()
        else:
            self.groups = [self.groups[k] for k in self.rng.permutation(len(self.groups))]
        # Infinite until the pass is complete, because an error or Ctrl-C leaves unvisited blocks.
        self.gap = np.inf
        total, gap, rows_offset = self.space.zeros(), 0.0, 0.0
        for strips, state in self._states():
            if out_of_time():
                gap = np.inf
                break
            offset = state.offset
            visit = state.visit_all if self.packs_rows else state.sweep
            own, rows = visit(f, out_of_time)
            packed = self._pack(strips, state)
            self.rows_offset += state.offset - offset
            gap, visits, rows_offset = gap + own, visits + rows, rows_offset + state.offset
            total += state.combination()
            if self.packs_rows:
                room -= self._cache_rows(strips, state, packed, room)
        self.gap = gap
        if np.isfinite(gap):
            self.sum, self.rows_offset, self.earlier = total, rows_offset, None
        elif before is not None:
            # Add the changes of this sweep so far.
            self.sum = before + (f - start)
        return gap, visits

    def _cache_rows(self, strips: np.ndarray, state: Any, packed: Arrays, room: int) -> int:
        """Store the rows of a block with a large gap; return their number of stored values."""
        X, gaps = state.term.X, packed["gaps"]
        rows = np.flatnonzero(gaps > state.far_off * gaps.mean())
        sizes = np.diff(X.indptr)[rows] if sp.issparse(X) else np.full(len(rows), X.shape[1])
        if sizes.sum() > room:
            order = np.argsort(-gaps[rows])
            rows = np.sort(rows[order[np.cumsum(sizes[order]) <= room]])
        if len(rows) == 0:
            return 0
        some, numbers = X[rows], self.term.rows_in(strips)[rows]
        part = self.term.of_rows(some, numbers)
        self.cached.append(CachedRows(numbers, self._state(part, take_rows(packed, rows))))
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
        packed = cached.state.arrays()
        for strip in np.unique(strips):
            selected = np.flatnonzero(strips == strip)
            places, n_rows = cached.rows[selected] - edges[strip], edges[strip + 1] - edges[strip]
            self.packed[strip] = put_rows(
                self.packed[strip], places, take_rows(packed, selected), n_rows
            )

    def value(self, f: Element) -> tuple[float, float]:
        above, reached = (
            sum(side) for side in zip(*(s.value(f) for _, s in self._states()), strict=True)
        )
        return above, reached

    def combination(self) -> Element:
        # A complete sweep has stored it, so that no block is read again.
        if self.sum is None:
            self.sum, self.rows_offset = self.space.zeros(), 0.0
            for _, state in self._states():
                self.sum += state.combination()
                self.rows_offset += state.offset
        return self.sum.copy()

    def arrays(self) -> Arrays:
        earlier = {} if self.earlier is None else self.earlier[0]
        visited = np.array([k for k in range(len(self.term.strips)) if k in self.packed], dtype=int)
        if len(visited) == 0:
            return earlier
        found, rows = join_rows([self.packed[k] for k in visited]), self.term.rows_in(visited)
        others = np.setdiff1d(np.arange(len(self.term.weights)), rows)
        first = fitting(earlier, zero_rows(found, len(self.term.weights)))
        both = join_rows([found, take_rows(first, others)])
        return take_rows(both, np.argsort(np.r_[rows, others]))

    def start(self, arrays: Arrays, f: Element) -> int:
        # Blocks start at their first visit.
        if arrays and has_rows(arrays, len(self.term.weights)):
            self.earlier, self.sum = (arrays, f), None
        return 0

    def _start(self, arrays: Arrays, f: Element) -> int:
        return self.start(arrays, f)
