"""Dual state for oracles that add features and also rescale those of a row."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from ..losses import Hinge
from ..spaces.base import Element
from ..utils.matrices import with_data
from ..utils.row_arrays import Arrays
from . import case as needs
from .addition_state import AdditionState
from .case import Case
from .edit_steps import OwnEdits, edit_work, sweep_edits
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
        self.moves = self.edits.moves(self.X.shape[1], self.edits.changed)
        n_rows, nnz = self.X.shape[0], self.X.nnz
        spent, mu = np.zeros((2, n_rows))
        # Untouched memory of the last two costs nothing.
        moved, before = np.empty(nnz, dtype=np.int64), np.empty(nnz)
        self.variables = OwnEdits(self.taus, spent, mu, np.zeros(nnz), moved, before)
        self.n_moved = 0
        self.work = edit_work(self.width, self.X.shape[1])

    def _parts(self, f: Element) -> tuple[np.ndarray, ...]:
        return *super()._parts(f), self.variables.spent

    def _moved(self) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        entries, before = self.variables.moved[: self.n_moved], self.variables.before[: self.n_moved]
        return [(self.variables.delta, entries, before)]

    def _step(self, f: Element, order: np.ndarray, again: bool) -> None:
        self.least = 0.0 if again else _IDLE * float(self.gaps.mean())
        super()._step(f, order, again)

    def _sweep_rows(self, f: Element, order: np.ndarray) -> None:
        self.n_moved = sweep_edits(
            self.entries, self.losses, self.added, self.moves, self.cautious, f, self.variables, order,
            self.gaps, self.least, self.row_work, self.work,
        )  # fmt: skip

    def _left_over(self) -> tuple[np.ndarray, np.ndarray]:
        weights = self.losses.weights
        budgets = np.maximum(self.edits.max_changes * self.taus - self.variables.spent, 0.0)
        return weights * np.minimum(self.taus, budgets), weights * budgets

    def _of_rows(self) -> Element:
        rates, delta = self.losses.weights * self.losses.signs, self.variables.delta
        return deviating_combination(self.X, delta, self.taus, rates, self.space.intercept)

    def _rows(self, active: np.ndarray) -> sp.csr_matrix:
        taus = np.repeat(np.where(self.taus > 0, self.taus, 1.0), np.diff(self.X.indptr))
        return with_data(self.X, self.X.data * (1.0 + self.variables.delta / taus))[active]

    def arrays(self) -> Arrays:
        return {**super().arrays(), **listed_deviations(self.X.indptr, self.variables.delta)}

    def _start_rows(self, arrays: Arrays) -> None:
        budgets = np.where(self.edits.changed, self.edits.max_changes, 0.0) * self.taus
        self.variables.delta[:], self.variables.spent[:] = feasible_deviations(
            arrays, self.X.indptr, self.taus, budgets, self.moves.drop, self.moves.grow
        )
