"""Dual variables of rows that are read a block at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from ..spaces.base import Element
from ..terms.in_blocks import InBlocks
from ..terms.planes import PlaneSet
from ..utils.packed_rows import PackedRows
from .base import DualState, OutOfTime, never
from .case import Case
from .focused import FOCUSED_PASSES
from .packed_store import PackedStore

if TYPE_CHECKING:
    from ..terms import WorstCase

# What the plane of an earlier run has at first.
FIRST_SHARE = 0.8


@dataclass
class KeptRows:
    """Rows of a block that stay in memory, with a dual state of their own."""

    number: int
    rows: np.ndarray
    state: Any


class BlockState(DualState):
    """A dual state of each block of rows, of which one is whole at a time.

    A sweep visits the blocks in random order. The variables of all other blocks are packed. Rows that
    are far off are kept in memory, and visited several times before the next pass (selective block
    minimization, Chang and Roth 2011).

    A run that starts from an earlier one has the sum of its planes alone. This plane gets a share of the
    dual point, and the rows get the rest. The share only falls.

    Parameters
    ----------
    case : Case
        Losses of rows that are read in blocks.
    rng : numpy.random.Generator
    """

    def __init__(self, case: Case, rng: np.random.Generator) -> None:
        self.term: InBlocks = case.term
        self.space = case.space
        self.epsilon = case.epsilon
        assert case.choose is not None
        self.choose = case.choose
        if not self.choose(self._case(self.term.sample)).packs:
            raise ValueError(
                f"FrankWolfe cannot read rows in blocks with {case.oracle}, since the dual variables of "
                "all rows belong together: take solver='bmrm'"
            )
        self.rng = rng
        self.packed = PackedStore(len(self.term.cuts), self.term.sizes.packed)
        self.offsets = np.zeros(len(self.packed))
        self.kept: list[KeptRows] = []
        # Of the last pass.
        self.gap = 0.0
        # None after a sweep that an error or Ctrl-C has cut short: then it is made anew.
        self.sum: Element | None = self.space.zeros()
        # Normal and offset of the earlier run's plane, and its share.
        self.earlier: tuple[Element, float] = (self.space.zeros(), 0.0)
        self.share = 0.0

    def _case(self, part: WorstCase) -> Case:
        return Case(part, self.space, self.epsilon, self.choose)

    @property
    def offset(self) -> float:
        return float(self.share * self.earlier[1] + self.offsets.sum())

    def _parts(self, order: np.ndarray | None = None) -> Iterator[tuple[int, WorstCase]]:
        """Number and losses of each block, with the weights that the earlier run's plane leaves."""
        for number, part in self.term.parts(order):
            yield number, self._weighed(part)

    def _weighed(self, part: WorstCase) -> WorstCase:
        part.weights = (1.0 - self.share) * part.weights
        return part

    def _state(self, part: WorstCase, packed: Any) -> Any:
        """The dual state of some rows, as it was left."""
        case = self._case(part)
        state = self.choose(case)(case, self.rng)
        if packed is not None:
            state.unpack(packed)
        return state

    def sweep(self, f: Element, out_of_time: OutOfTime = never) -> tuple[float, int]:
        """See `DualState.sweep`: rows that are kept again and again, then a pass over all blocks."""
        if self.share == 1.0:
            self._make_room(f)
        start, before, self.sum = f.copy(), self.sum, None
        visits, room = self._revisit(f, out_of_time), self.term.sizes.kept
        total, gap = self.share * self.earlier[0], 0.0
        for number, part in self._parts(self.rng.permutation(len(self.packed))):
            if out_of_time():
                gap = np.inf
                break
            state = self._state(part, self.packed[number])
            visit = state.visit_all if state.packs_rows else state.sweep
            own, rows = visit(f, out_of_time)
            packed = state.pack()
            self.packed[number], self.offsets[number] = packed, state.offset
            gap, visits = gap + own, visits + rows
            total += state.combination()
            if state.packs_rows:
                far_off = state.far_off * packed.each[0].mean()
                room -= self._keep(number, part.X, state.form, packed, far_off, room)
        self.gap = gap
        if np.isfinite(gap):
            self.sum = total
            self._lower_share(f)
        elif before is not None:
            # What the sweep has changed so far.
            self.sum = before + (f - start)
        return gap, visits

    def _keep(
        self, number: int, X: Any, form: str, packed: PackedRows, far_off: float, room: int
    ) -> int:
        """Keep the rows of a block that have a larger gap; how many values these have in store."""
        gaps = packed.each[0]
        rows = np.flatnonzero(gaps > far_off)
        sizes = np.diff(X.indptr)[rows] if sp.issparse(X) else np.full(len(rows), X.shape[1])
        if sizes.sum() > room:
            order = np.argsort(-gaps[rows])
            rows = np.sort(rows[order[np.cumsum(sizes[order]) <= room]])
        if len(rows) == 0:
            return 0
        some = X[rows]
        part = self._weighed(self.term.of_rows(some, self.term.cuts[number].start + rows))
        state = self._state(part, None)
        if state.form != form:
            # Where all of them have a label that an oracle leaves alone, say.
            return 0
        state.unpack(packed.take(rows))
        self.kept.append(KeptRows(number, rows, state))
        return int(some.nnz if sp.issparse(some) else some.size)

    def _revisit(self, f: Element, out_of_time: OutOfTime) -> int:
        """Visit the rows that are kept until little of the gap is left; how many visits."""
        if not self.kept or not np.isfinite(self.gap):
            self.kept = []
            return 0
        kind, total = self.kept[0].state, self.gap
        visits, least = 0, kind.far_off * total / len(self.term.weights)
        offsets = [each.state.offset for each in self.kept]
        for _ in range(FOCUSED_PASSES):
            active = [np.flatnonzero(each.state.gaps > least) for each in self.kept]
            left = sum(each.state.gaps[rows].sum() for each, rows in zip(self.kept, active, strict=True))
            if left <= kind.enough * total or out_of_time():
                break
            for k in self.rng.permutation(len(self.kept)):
                visits += self.kept[k].state.visit(f, active[k], out_of_time, again=True)
        for each, before in zip(self.kept, offsets, strict=True):
            self.packed[each.number] = self.packed[each.number].put(each.rows, each.state.pack())
            self.offsets[each.number] += each.state.offset - before
        self.kept = []
        return visits

    def _make_room(self, f: Element) -> None:
        """Give rows, which have no planes yet, a share beside the earlier run's plane."""
        self.share = FIRST_SHARE
        self.sum = self.share * self.earlier[0]
        f += self.sum - self.earlier[0]

    def _lower_share(self, f: Element) -> None:
        """Give the earlier run's plane the share that raises the dual most, but no more than it has."""
        if self.share == 0.0:
            return
        assert self.sum is not None
        normal, offset = self.earlier
        rest = 1.0 - self.share
        rows, height = (self.sum - self.share * normal) / rest, self.offsets.sum() / rest
        way = normal - rows
        square, gain = self.space.dot(way, way), offset - height - self.space.dot(way, rows)
        share = min(self.share, max(0.0, gain / square)) if square > 0 else 0.0
        change = (share - self.share) * way
        f += change
        self.sum = self.sum + change
        self.offsets *= (1.0 - share) / rest
        self.share = share
        # Their weights are those of the old share.
        self.kept = []

    def value(self, f: Element) -> tuple[float, float]:
        if self.share == 1.0:
            return self.term.total(self.space, f)
        each = [self._state(part, self.packed[number]).value(f) for number, part in self._parts()]
        above, reached = (sum(side) / (1.0 - self.share) for side in zip(*each, strict=True))
        return above, reached

    def combination(self) -> Element:
        """See `DualState.combination`; a whole sweep has it, so that no block is read again."""
        if self.sum is None:
            self.sum = self.share * self.earlier[0]
            for number, part in self._parts():
                self.sum += self._state(part, self.packed[number]).combination()
        return self.sum.copy()

    def planes(self) -> PlaneSet:
        """See `DualState.planes`; one, of the sum of all rows."""
        return PlaneSet.of_sum(self.space, self.combination(), self.offset, self.term.weights)

    def restore(self, planes: PlaneSet) -> None:
        """See `DualState.restore`; takes the plane of the sum of all rows."""
        normal, offset = planes.total(self.space, self.term.weights, self.term.floors)
        self.earlier = normal, float(offset)
        self.share = 1.0
        self.sum = self.earlier[0].copy()
