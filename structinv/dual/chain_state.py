"""A few labellings a sequence, for functions that are linear in the input."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..spaces import ExplicitSpace
from ..spaces.base import Element
from ..spaces.tensor_rows import TensorRows
from ..terms.planes import PlaneSet
from ..utils.matrices import (
    ALL_ROWS,
    Matrix,
    add_combinations,
    csr,
    dense,
    longest_row,
    products,
    ranges,
    short_indices,
)
from . import chain_steps
from .base import DualState, OutOfTime, never
from .case import Case
from .chain_products import fill_grams
from .focused import FocusedSweeps
from .labelled_rows import LabelledRows, constant_rows, labelled_rows

# Inner products of the rows of a sequence are kept up to this length: they grow with its square, as do
# sums over pairs of wrong positions.
LONGEST_KEPT = 60
PRODUCTS_AT_ONCE = 100_000_000


class ChainState(FocusedSweeps, DualState):
    """The few labellings of each sequence that have mass, and their masses; no normals.

    A visit scores the labels of all rows of a sequence, as they are and, where words may change, at the
    worst edits. Then it looks for the best labelling, takes exact pairwise steps between the labellings
    that there are, and follows the scores, several times. Scores of rows that do not change follow by
    means of their inner products; the weights are then moved at the end alone.

    Parameters
    ----------
    case : Case
        Worst cases of sequences whose rows do not change, or have words dropped or scaled; linear in the
        input.
    rng : numpy.random.Generator
    """

    verifies = True
    far_off, enough = 1.0, 0.3

    def __init__(self, case: Case, rng: np.random.Generator) -> None:
        assert case.edits is not None
        n_edits, *factors = case.edits.most, case.edits.low, case.edits.high
        self.term = term = case.term
        self.space: ExplicitSpace = case.space
        space, labels = self.space, term.labels
        self.rng = rng
        self.weights = term.weights
        X = short_indices(constant_rows(csr(term.bound.X), space))
        self._X, self._rows = X, (X.indptr, X.indices, X.data)
        assert labels.layout is not None
        self.layout = labels.layout
        n_labels, barred = labels.n_labels, np.zeros((labels.n_labels + 2, labels.n_labels))
        if labels.structure.follows_ is not None:
            barred[:-1][~labels.structure.follows_] = -np.inf
        codes, costs = labels.codes.astype(np.int32), labels.costs(ALL_ROWS)
        self._truth = self.layout.starts, codes, costs, barred, term.weights
        self._sizes = self.layout.sizes
        n_edits = min(n_edits, longest_row(X.indptr))
        self._changes = n_edits, (factors[0], factors[1])
        self._kept = self._slots(np.zeros(labels.n_blocks, dtype=np.int64))
        self._grams = self._inner_products(0 if n_edits else LONGEST_KEPT)
        some_missing = bool(np.any(self._grams[0] < 0))
        self._zeros = np.zeros((X.shape[1] if some_missing else 0, n_labels))
        self.rows = np.flatnonzero(term.weights > 0)
        self.gaps = np.zeros(labels.n_blocks)
        each = (X.nnz * n_labels + X.shape[0] * n_labels**2) // max(1, labels.n_blocks)
        self.rows_at_once = max(1, PRODUCTS_AT_ONCE // max(1, each))

    def _inner_products(self, longest: int) -> tuple[np.ndarray, np.ndarray]:
        """Those of the rows of each sequence that is not longer."""
        squares = np.where(self._sizes <= longest, self._sizes**2, 0)
        ends = np.cumsum(squares)
        grams = np.where(squares > 0, ends - squares, -1), np.zeros(ends[-1])
        entries = int(np.diff(self._rows[0][self.layout.starts]).max(initial=0))
        heads, room = np.full(self.space.stride, -1), np.empty((2, entries), dtype=np.int64)
        fill_grams(self.layout.starts, self._rows, heads, room[0], room[1], grams)
        return grams

    def _slots(self, room: np.ndarray) -> tuple[np.ndarray, ...]:
        """Slots for so many labellings of each sequence, none of them used."""
        places = np.r_[0, np.cumsum(room * self._sizes)]
        return (
            np.r_[0, np.cumsum(room)],
            places[:-1],
            np.zeros(len(room), dtype=np.int64),
            np.zeros(places[-1], dtype=np.int32),
            np.zeros(room.sum()),
            np.zeros(places[-1] * self._changes[0], dtype=np.int32),
        )

    def _parameters(self, f: Element) -> tuple[np.ndarray, np.ndarray]:
        """The parts of an element; views."""
        n_labels = self._truth[2].shape[1]
        return self.space.table(f), self.space.extra(f).reshape(n_labels + 2, n_labels)

    def _used(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Of each labelling kept its example and its slot, of each of their labels row and place."""
        first, first_label, used = self._kept[:3]
        numbers, blocks = ranges(np.zeros_like(used), used)
        layout = self.layout.take(blocks)
        begin = first_label[blocks] + numbers * layout.sizes
        places, _ = ranges(begin, layout.sizes)
        return blocks, first[blocks] + numbers, self.layout.rows(blocks), places

    def _costs(self) -> np.ndarray:
        """What each labelling kept costs."""
        blocks, _, rows, places = self._used()
        each = self._truth[2][rows, self._kept[3][places]]
        return np.bincount(self.layout.take(blocks).owners, each, len(blocks))

    @property
    def offset(self) -> float:
        blocks, slots, _, _ = self._used()
        return float((self.weights[blocks] * self._kept[4][slots]) @ self._costs())

    def sweep(self, f: Element, out_of_time: OutOfTime = never) -> tuple[float, int]:
        self._asked = 0
        gap, _ = super().sweep(f, out_of_time)
        return gap, self._asked

    def _step(self, f: Element, order: np.ndarray, again: bool) -> None:
        self._make_room(order)
        self._asked += int(self._sizes[order].sum())
        self._visit(f, order, chain_steps.ROUNDS, self.gaps)

    def _visit(self, f: Element, order: np.ndarray, rounds: int, gaps: np.ndarray) -> np.ndarray:
        """Visit examples with so many searches each; their losses, without weights."""
        losses, slots = np.zeros(len(self.weights)), np.diff(self._kept[0])[order]
        room = chain_steps.workspace(
            int(self._sizes[order].max(initial=1)),
            self._truth[2].shape[1],
            self._changes[0],
            int(slots.max(initial=1)),
        )
        chain_steps.sweep(
            order, rounds, self._rows, self._truth, self._kept, self._changes, self._grams, self._zeros,
            self._parameters(f), room, gaps, losses,
        )  # fmt: skip
        return losses

    def _make_room(self, order: np.ndarray) -> None:
        """Slots for all labellings that a visit of each sequence may find."""
        first, used = self._kept[0], self._kept[2]
        room = np.diff(first)
        if np.all(room[order] - used[order] >= chain_steps.ROUNDS):
            return
        # For all at once, as those that have room now are short soon.
        wanted = used + used // 2 + 2 * chain_steps.ROUNDS
        room[self.rows] = np.maximum(room, wanted)[self.rows]
        others = self._slots(room)
        _, slots, _, places = self._used()
        kept, self._kept = self._kept, others
        others[2][:] = used
        _, to, _, into = self._used()
        others[3][into], others[4][to] = kept[3][places], kept[4][slots]
        by_label = (-1, self._changes[0])
        if self._changes[0]:
            others[5].reshape(by_label)[into] = kept[5].reshape(by_label)[places]

    def value(self, f: Element) -> tuple[float, float]:
        found = self._visit(f, self.rows, 0, np.empty(len(self.weights)))
        value = float(self.weights @ found)
        return value, value

    def combination(self) -> Element:
        f, (blocks, slots, rows, places) = self.space.zeros(), self._used()
        table, _ = self._parameters(f)
        layout, n_labels = self.layout.take(blocks), table.shape[1]
        amounts, labels = self.weights[blocks] * self._kept[4][slots], self._kept[3][places]
        codes, n_edits = self._truth[1][rows], self._changes[0]
        if len(blocks):
            moved = self.term.labels.moved(labels.astype(np.int64), codes.astype(np.int64), layout)
            self.space.extra(f)[:] -= moved.T @ amounts
        wrong = np.flatnonzero(labels != codes)
        rows, true, other, each = rows[wrong], codes[wrong], labels[wrong], amounts[layout.owners[wrong]]
        levels = np.zeros((self.layout.n_rows, n_labels))
        np.add.at(levels, (rows, true), each)
        np.subtract.at(levels, (rows, other), each)
        add_combinations(self._X, levels, table)
        # Rows that are edited differ from these by a few entries.
        edits = self._kept[5].reshape(len(self._kept[3]), n_edits)[places[wrong]]
        own, which = np.nonzero(edits)
        indptr, indices, data = self._rows
        entries = indptr[rows[own]] + (edits[own, which] - 1) // 2
        factors = np.array(self._changes[1])[(edits[own, which] - 1) % 2]
        changes = each[own] * (factors - 1.0) * data[entries]
        np.add.at(table, (indices[entries], true[own]), changes)
        np.subtract.at(table, (indices[entries], other[own]), changes)
        return f

    def planes(self) -> PlaneSet:
        """See `DualState.planes`; the normals are made of labellings when they are asked for."""
        blocks, slots, _, places = self._used()
        labels, masses, edits = self._kept[3:]
        edits = edits.reshape(len(labels), self._changes[0])[places]
        normals = labelled_rows(self.term, self.space, blocks, labels[places], edits, self._changes[1])
        return PlaneSet(normals, self._costs(), blocks, masses[slots])

    def restore(self, planes: PlaneSet) -> None:
        """See `DualState.restore`: planes of other kinds give their masses to labellings next to them.

        What is no labelling of its example, is not allowed or is the true one is left to the null plane.
        """
        normals: Any = planes.normals
        if isinstance(normals, LabelledRows) and np.array_equal(normals.blocks, planes.blocks):
            labels = normals.labels
            if not np.array_equal(normals.layout.sizes, self._sizes[planes.blocks]):
                return
            edits = self._known(planes.blocks, normals.edits)
        else:
            labels = self._nearest(planes)
            edits = np.zeros((len(labels), self._changes[0]), dtype=np.int32)
        if len(labels):
            self._take(planes.blocks, labels, edits, planes.masses)

    def _known(self, blocks: np.ndarray, edits: np.ndarray) -> np.ndarray:
        """As many edits of labellings as there may be, of entries that there are.

        Whatever oracle they come from, they are changes that this one allows.
        """
        found = np.zeros((len(edits), self._changes[0]), dtype=np.int32)
        common = min(found.shape[1], edits.shape[1])
        if common:
            sizes = np.diff(self._rows[0])[self.layout.rows(blocks)]
            found[:, -common:] = edits[:, -common:]
            found[(found < 0) | (found > 2 * sizes[:, None])] = 0
        return found

    def _nearest(self, planes: PlaneSet) -> np.ndarray:
        """The labels whose normals are next to given ones."""
        found, bound = [np.zeros(0, dtype=np.int64)], self.term.labels
        X = constant_rows(self.term.bound.X, self.space)
        for place, block in enumerate(planes.blocks):
            rows, _ = bound.rows(np.array([block]))
            levels, own = _levels(self.space, X[rows], planes.normals[[place]]), bound.codes[rows]
            levels[np.arange(len(own)), own] -= 1.0
            found.append(np.argmin(levels, axis=1))
        return np.concatenate(found)

    def _take(
        self, blocks: np.ndarray, labels: np.ndarray, edits: np.ndarray, masses: np.ndarray
    ) -> None:
        """Give masses to labellings, one behind the other, of the blocks named."""
        bound = self.term.labels
        layout = self.layout.take(blocks)
        if labels.min() < 0 or labels.max() >= bound.n_labels:
            return
        wrong = layout.sums((labels != bound.codes[self.layout.rows(blocks)]).astype(np.int64)) > 0
        sound = wrong & (masses > 0) & bound.structure.allows(labels, layout, bound.n_labels)
        order = np.flatnonzero(sound)[np.argsort(blocks[sound], kind="stable")]
        used = np.bincount(blocks[order], minlength=len(self._sizes))
        self._kept = (
            np.r_[0, np.cumsum(used)],
            np.cumsum(used * self._sizes) - used * self._sizes,
            used,
            labels[layout.rows(order)].astype(np.int32),
            masses[order].astype(np.float64),
            edits[layout.rows(order)].ravel(),
        )


def _levels(space: ExplicitSpace, rows: Matrix, normal: Any) -> np.ndarray:
    """How much of each row there is in a normal, for each label, (n, n_labels).

    Where a normal says what it is a sum of, its points are looked for among the rows; else least squares
    tell, of rows that depend on one another the smallest of all answers.
    """
    if isinstance(normal, TensorRows):
        points, levels = normal.points, np.zeros((rows.shape[0], space.n_outputs))
        places = _places(rows, points) if points.shape[1] == rows.shape[1] else None
        if places is not None:
            np.add.at(levels, places, dense(normal.coefficients))
            return levels
    f = space.combine(normal, np.ones(1))
    gram = np.asarray(dense(rows @ rows.T), dtype=np.float64)
    solved: np.ndarray = np.linalg.lstsq(gram, products(rows, space.table(f)), rcond=None)[0]
    return solved


def _places(rows: Matrix, points: Matrix) -> list[int] | None:
    """Which row each point is, in rising order; None if one is none of them."""
    own, theirs = (np.diag(dense(each @ each.T)) for each in (rows, points))
    inner = dense(points @ rows.T)
    apart = theirs[:, None] + own - 2.0 * inner
    same = apart <= 8 * np.finfo(rows.dtype).eps * (theirs[:, None] + own)
    places: list[int] = []
    for each in same:
        later = np.flatnonzero(each)
        later = later[later > (places[-1] if places else -1)]
        if len(later) == 0:
            return None
        places.append(int(later[0]))
    return places
