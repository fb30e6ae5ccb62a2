"""Dual state with a few labelings per sequence, for functions linear in x."""

from __future__ import annotations

import numpy as np

from ..spaces.base import Element
from ..utils.matrices import add_combinations, longest_row, ranges
from . import case as needs
from . import chain_steps
from .case import Case
from .sequence_state import SequenceState

# Maximum number of edits per row.
MOST_EDITS = 8


class ChainState(SequenceState):
    """Active set of labelings of each sequence, with their dual variables.

    A visit repeats a few rounds. It computes the scores of all labels, for unperturbed rows and for the
    worst edits, and adds the best labeling to the active set. Then it does exact pairwise steps between
    the labelings of the active set. Normals are not stored.
    """

    name = "chains"

    @staticmethod
    def refuses(case: Case) -> str:
        if reason := needs.chains(case):
            return reason
        edits = case.edits
        if edits is None or edits.adds or not np.all(edits.changed):
            return f"{case.oracle} does not only multiply features by factors"
        if edits.most > MOST_EDITS:
            return f"more than {MOST_EDITS} features of a row may be edited"
        if edits.most and case.space.intercept:
            return "the space has a constant feature, which is not edited"
        return ""

    def __init__(self, case: Case, rng: np.random.Generator) -> None:
        assert case.edits is not None
        n_edits, *factors = case.edits.most, case.edits.low, case.edits.high
        super().__init__(case, rng)
        self.n_edits = min(n_edits, longest_row(self._X.indptr))
        self._changes = self.n_edits, (factors[0], factors[1])
        self._stored = self._slots(np.zeros(len(self._sizes), dtype=np.int64))
        self._zeros = np.zeros((self._X.shape[1], self._truth[2].shape[1]))

    def _slots(self, room: np.ndarray) -> tuple[np.ndarray, ...]:
        """Return unused slots for `room` labelings of each sequence."""
        places = np.r_[0, np.cumsum(room * self._sizes)]
        return (
            np.r_[0, np.cumsum(room)],
            places[:-1],
            np.zeros(len(room), dtype=np.int64),
            np.zeros(places[-1], dtype=np.int32),
            np.zeros(room.sum()),
            np.zeros(places[-1] * self._changes[0], dtype=np.int32),
        )

    def _used(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return sequence and slot of each labeling, and row and position of each label."""
        first, first_label, used = self._stored[:3]
        numbers, blocks = ranges(np.zeros_like(used), used)
        layout = self.layout.take(blocks)
        begin = first_label[blocks] + numbers * layout.lengths
        places, _ = ranges(begin, layout.lengths)
        return blocks, first[blocks] + numbers, self.layout.rows(blocks), places

    def _costs(self) -> np.ndarray:
        """Return the cost of each labeling."""
        blocks, _, rows, places = self._used()
        each = self._truth[2][rows, self._stored[3][places]]
        return np.bincount(self.layout.take(blocks).owners, each, len(blocks))

    @property
    def offset(self) -> float:
        blocks, slots, _, _ = self._used()
        return float((self.weights[blocks] * self._stored[4][slots]) @ self._costs())

    def _visit(self, f: Element, order: np.ndarray, moves: bool, gaps: np.ndarray) -> np.ndarray:
        losses, slots = np.zeros(len(self.weights)), np.diff(self._stored[0])[order]
        room = chain_steps.workspace(
            int(self._sizes[order].max(initial=1)),
            self._truth[2].shape[1],
            self._changes[0],
            int(slots.max(initial=1)),
        )
        chain_steps.sweep(
            order, chain_steps.ROUNDS if moves else 0, self._rows, self._truth, self._stored,
            self._changes, self._zeros, self._parameters(f), room, gaps, losses,
        )  # fmt: skip
        return losses

    def _provide_slots(self, order: np.ndarray) -> None:
        first, used = self._stored[0], self._stored[2]
        room = np.diff(first)
        if np.all(room[order] - used[order] >= chain_steps.ROUNDS):
            return
        # For all sequences at once, because the others will need more slots soon.
        wanted = used + used // 2 + 2 * chain_steps.ROUNDS
        room[self.rows] = np.maximum(room, wanted)[self.rows]
        others = self._slots(room)
        _, slots, _, places = self._used()
        stored, self._stored = self._stored, others
        others[2][:] = used
        _, to, _, into = self._used()
        others[3][into], others[4][to] = stored[3][places], stored[4][slots]
        by_label = (-1, self._changes[0])
        if self._changes[0]:
            others[5].reshape(by_label)[into] = stored[5].reshape(by_label)[places]

    def combination(self) -> Element:
        f, (blocks, slots, rows, stored_at) = self.space.zeros(), self._used()
        table, _ = self._parameters(f)
        layout, n_labels = self.layout.take(blocks), table.shape[1]
        amounts, labels = self.weights[blocks] * self._stored[4][slots], self._stored[3][stored_at]
        codes, n_edits = self._truth[1][rows], self._changes[0]
        if len(blocks):
            moved = self.term.bound_structure.moved(
                labels.astype(np.int64), codes.astype(np.int64), layout
            )
            self.space.pairwise(f)[:] -= moved.T @ amounts
        wrong = np.flatnonzero(labels != codes)
        rows, true, other = rows[wrong], codes[wrong], labels[wrong]
        wrong_amounts = amounts[layout.owners[wrong]]
        coefficients = np.zeros((self.layout.n_rows, n_labels))
        np.add.at(coefficients, (rows, true), wrong_amounts)
        np.subtract.at(coefficients, (rows, other), wrong_amounts)
        add_combinations(self._X, coefficients, table)
        # Edited rows differ from these by a few entries.
        edits = self._stored[5].reshape(len(self._stored[3]), n_edits)[stored_at[wrong]]
        edited, which = np.nonzero(edits)
        indptr, indices, data = self._rows
        entries = indptr[rows[edited]] + (edits[edited, which] - 1) // 2
        factors = np.array(self._changes[1])[(edits[edited, which] - 1) % 2]
        changes = wrong_amounts[edited] * (factors - 1.0) * data[entries]
        np.add.at(table, (indices[entries], true[edited]), changes)
        np.subtract.at(table, (indices[entries], other[edited]), changes)
        return f

    def _listed(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        blocks, slots, _, places = self._used()
        labels, alphas, edits = self._stored[3:]
        return (
            blocks,
            labels[places],
            edits.reshape(len(labels), self._changes[0])[places],
            alphas[slots],
        )

    def _start_from(
        self, blocks: np.ndarray, labels: np.ndarray, edits: np.ndarray, alphas: np.ndarray
    ) -> None:
        used = np.bincount(blocks, minlength=len(self._sizes))
        self._stored = (
            np.r_[0, np.cumsum(used)],
            np.cumsum(used * self._sizes) - used * self._sizes,
            used,
            labels.astype(np.int32),
            alphas.astype(np.float64),
            edits.ravel(),
        )
