"""Dual state for oracles that add features and also rescale those of a row."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from ..losses import Hinge
from ..spaces.base import Element
from ..utils.matrices import csr_arrays, with_data
from ..utils.row_arrays import Arrays
from . import case as needs
from .addition_state import AdditionState
from .case import Case
from .edit_steps import OwnEdits, sweep_edits
from .word_state import deviating_combination, feasible_deviations, listed_deviations

# In a pass over all rows, rows with at most this fraction of the mean gap get no step. Steps take half
# of the time of a pass.
_IDLE = 0.1


class EditState(AdditionState):
    """Dual variables and feature deviations of rows, and features that all rows add.

    A row adds features with the part of its budget that its own features do not use; see `edit_steps`.
    """

    name = "edits"

    @staticmethod
    def refuses(case: Case) -> str:
        reason = needs.adds_words(case)
        if not reason and not case.edits.multiplies:
            return "nonzero features are not edited"
        if not reason and not isinstance(case.loss, Hinge):
            loss = type(case.loss).__name__
            return f"{loss} has no compiled steps for several features of a row"
        return reason

    def __init__(self, case: Case, rng: np.random.Generator) -> None:
        super().__init__(case, rng)
        found = self.additions
        self.moves = found.moves(found.rows.shape[1], found.changed)
        self.delta = np.zeros(found.rows.nnz)
        # Entries that the last sweep changed, and their former deviations; untouched memory costs
        # nothing.
        self.undo = np.empty(found.rows.nnz, dtype=np.int64), np.empty(found.rows.nnz)
        self.n_undo = 0
        self.spent, self.mu = np.zeros((2, len(self.signs)))

    def _parts(self, f: Element) -> tuple[np.ndarray, ...]:
        return *super()._parts(f), self.spent

    def _moved(self) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        entries, before = (array[: self.n_undo] for array in self.undo)
        return [(self.delta, entries, before)]

    def _step(self, f: Element, order: np.ndarray, again: bool) -> None:
        self.least = 0.0 if again else _IDLE * float(self.gaps.mean())
        super()._step(f, order, again)

    def _sweep_rows(self, f: Element, order: np.ndarray) -> None:
        self.n_undo = sweep_edits(
            csr_arrays(self.additions.rows), self.losses, self._sums(), self.moves, self.cautious, f,
            OwnEdits(self.alphas, self.spent, self.mu, self.delta), order, self.gaps, self.least,
            *self.undo,
        )  # fmt: skip

    def _left_over(self) -> tuple[np.ndarray, np.ndarray]:
        budgets = np.maximum(self.additions.max_changes * self.alphas - self.spent, 0.0)
        return self.weights * np.minimum(self.alphas, budgets), self.weights * budgets

    def _of_rows(self) -> Element:
        rates = self.weights * self.signs
        return deviating_combination(
            self.additions.rows, self.delta, self.alphas, rates, self.space.intercept
        )

    def _rows(self, active: np.ndarray) -> sp.csr_matrix:
        rows, lengths = self.additions.rows, np.diff(self.additions.rows.indptr)
        alphas = np.repeat(np.where(self.alphas > 0, self.alphas, 1.0), lengths)
        return with_data(rows, rows.data * (1.0 + self.delta / alphas))[active]

    def _own_arrays(self) -> Arrays:
        return {**super()._own_arrays(), **listed_deviations(self.additions.rows.indptr, self.delta)}

    def _start_rows(self, arrays: Arrays) -> None:
        found = self.additions
        budgets = np.where(found.changed, found.max_changes, 0.0) * self.alphas
        self.delta, self.spent = feasible_deviations(
            arrays, found.rows.indptr, self.alphas, budgets, self.moves.drop, self.moves.grow
        )
