"""Sets of allowed word edits, and their worst elements."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from ...utils.matrices import (
    Matrix,
    contiguous_writable,
    csr,
    in_threads,
    longest_row,
    short_indices,
    with_data,
)
from .edit_kernels import WORK_ROWS, ranked, worst_edits

_NO_NUMBERS = np.empty(0)
_NO_PLACES = np.empty(0, dtype=np.int64)
_NOTHING_ADDED = np.zeros(1, dtype=np.int64), _NO_PLACES, np.zeros((0, 0), dtype=bool)


class Moves(NamedTuple):
    """Rescaling of the words of rows, in the format of the compiled functions.

    - `most`: maximum number of rescaled words of a row
    - `drop, grow`: largest decrease and increase of a factor
    - `changed` (n,): mask of the rows that may change
    """

    most: int
    drop: float
    grow: float
    changed: np.ndarray


@dataclass(frozen=True)
class WordEdits:
    """Allowed edits of words, in the format of the compiled functions.

    - `max_changes`: maximum number of edits per row
    - `low, high`: range of the factors of words in the row
    - `value` (d,): largest increase of each feature, 0 if not allowed; empty if no word may be added
    - `present`: whether nonzero features may also be increased
    """

    max_changes: int
    low: float
    high: float
    value: np.ndarray
    present: bool

    @property
    def multiplies(self) -> bool:
        """True if words in the row may be rescaled."""
        return self.max_changes > 0 and self.low < self.high

    @property
    def adds(self) -> bool:
        """True if words may be added."""
        return self.max_changes > 0 and len(self.value) > 0

    def moves(self, most: int, changed: np.ndarray) -> Moves:
        """Return the rescaling of at most `most` words of each row with ``changed[i]``."""
        return Moves(min(self.max_changes, most), 1.0 - self.low, self.high - 1.0, changed)

    def maxima(
        self,
        rows: sp.csr_matrix,
        V: np.ndarray,
        assign: np.ndarray,
        changed: np.ndarray | None = None,
        near: np.ndarray | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the largest ``<v, z>`` of each row, and a bound of ``<|v|, |z|>``.

        `changed` is a mask of the rows that may change, by default all. `near` has a guess of the K-th
        largest gain of each row.
        """
        no_outputs = np.empty(0, rows.dtype), np.empty((0, 0), dtype=np.int64), _NO_PLACES
        return self._maximize(rows, V, assign, None, None, no_outputs, changed, near)[:2]

    def worst(
        self,
        rows: sp.csr_matrix,
        V: np.ndarray,
        assign: np.ndarray,
        cost: np.ndarray | None = None,
        grades: np.ndarray | None = None,
    ) -> tuple[sp.csr_matrix, np.ndarray]:
        """Return perturbed rows with the largest ``<v, z>`` plus costs, and grades."""
        n_rows, most = rows.shape[0], self._most(rows) if self.adds else 0
        edited, added = rows.data.copy(), np.empty((n_rows, most), dtype=np.int64)
        n_added = np.zeros(n_rows, dtype=np.int64)
        outputs = edited, added, n_added
        _, _, reached = self._maximize(rows, V, assign, cost, grades, outputs)
        points = with_data(rows, edited)
        return self._with_added(points, added, n_added) if self.adds else points, reached

    def worst_of_products(self, rows: sp.csr_matrix, products: np.ndarray) -> np.ndarray:
        """Return the data of worst edited rows, given products of entries and weights."""
        edited, n_rows = rows.data.copy(), rows.shape[0]
        ones, nothing_added = np.ones((1, rows.shape[1])), np.empty((n_rows, 0), dtype=np.int64)
        outputs = edited, nothing_added, np.zeros(n_rows, dtype=np.int64)
        assign = np.zeros(n_rows, dtype=np.int64)
        self._maximize(with_data(rows, products), ones, assign, None, None, outputs)
        return edited

    def _with_added(
        self, points: sp.csr_matrix, added: np.ndarray, n_added: np.ndarray
    ) -> sp.csr_matrix:
        words = added[np.arange(added.shape[1]) < n_added[:, None]]
        indptr = np.concatenate([[0], np.cumsum(n_added)])
        values = self.value[words].astype(points.dtype)
        additions = sp.csr_matrix((values, words, indptr), shape=points.shape)
        additions.sort_indices()
        return points + additions

    def _most(self, rows: sp.csr_matrix) -> int:
        """Return the largest number of edits of any row."""
        return min(self.max_changes, rows.shape[1] if self.adds else longest_row(rows.indptr))

    def _maximize(
        self,
        rows: sp.csr_matrix,
        V: np.ndarray,
        assign: np.ndarray,
        cost: np.ndarray | None,
        grades: np.ndarray | None,
        outputs: tuple[np.ndarray, np.ndarray, np.ndarray],
        changed: np.ndarray | None = None,
        near: np.ndarray | None = None,
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return maxima, bounds and grades; write the edits to nonempty `outputs`."""
        n_rows, most = rows.shape[0], self._most(rows)
        V, longest = np.asarray(V, dtype=np.float64), longest_row(rows.indptr)
        ranks = ranked(V, self.value, most + longest) if self.adds else _NOTHING_ADDED
        value = self.value if self.adds else _NO_NUMBERS
        rho = _NO_NUMBERS if grades is None else np.resize(grades, most + 1)
        cost = np.zeros(n_rows) if cost is None else np.asarray(cost, dtype=np.float64)
        near = np.zeros(n_rows) if near is None else near
        changed = np.ones(n_rows, dtype=bool) if changed is None else changed
        V, assign, cost, near = map(contiguous_writable, (V, assign, cost, near))
        allowed = most, self.low, self.high, value, self.present, *ranks, rho
        results, width = np.empty((3, n_rows)), longest + (most if self.adds else 0) + 1
        edited, added, n_added = outputs

        def maximize(part: slice) -> None:
            worst_edits(
                rows.indptr[part.start : part.stop + 1], rows.indices, rows.data, V, assign[part],
                *allowed, cost[part], changed[part], near[part], *results[:, part], edited, added[part],
                n_added[part], np.empty((WORK_ROWS, width)),
                np.empty((2, width), dtype=np.int64), np.zeros(len(value), dtype=bool),
            )  # fmt: skip

        in_threads(maximize, n_rows, rows.nnz + n_rows * (width - longest - 1))
        return results[0], results[1], results[2]


@dataclass(frozen=True)
class RowEdits(WordEdits):
    """Allowed edits of the words of given rows.

    - `max_changes`: maximum number of edits per row
    - `low, high`: range of the factors of words in the row
    - `value` (d,): largest increase of each feature, 0 if not allowed; empty if no word may be added
    - `present`: whether nonzero features may also be increased
    - `rows` (n, d): rows; a canonical CSR matrix without zeros if words may be added
    - `changed` (n,): mask of the rows that may be edited
    """

    rows: Matrix
    changed: np.ndarray

    @property
    def most(self) -> int:
        """Largest number of edits of a row."""
        return min(self.max_changes, self.rows.shape[1])


def canonical_words(X: Matrix) -> sp.csr_matrix:
    """Return rows in CSR format, each word once and sorted."""
    rows = csr(X)
    if not rows.has_canonical_format:
        rows = rows.copy()
        rows.sum_duplicates()
    return short_indices(rows)
