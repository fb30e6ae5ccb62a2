"""What may be done to words of rows, and the worst of it."""

from __future__ import annotations

from dataclasses import dataclass

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


@dataclass(frozen=True)
class WordEdits:
    """What may be done to words of rows, as compiled functions take it.

    Parameters
    ----------
    max_changes : int
        How many words of a row may change.
    low, high : float
        Factors of words that are there.
    value : (d,) array
        What may be added to each feature, 0 where nothing may; empty if nothing is added to any.
    present : bool
        Whether it may be added to features that are there.
    """

    max_changes: int
    low: float
    high: float
    value: np.ndarray
    present: bool

    @property
    def multiplies(self) -> bool:
        """Whether words that are there may change by a factor."""
        return self.max_changes > 0 and self.low < self.high

    @property
    def adds(self) -> bool:
        """Whether words may be added."""
        return self.max_changes > 0 and len(self.value) > 0

    def moves(self, most: int) -> tuple[int, float, float]:
        """How many of `most` words may be multiplied, and how much of a word can go and come."""
        return min(self.max_changes, most), 1.0 - self.low, self.high - 1.0

    def maxima(
        self, rows: sp.csr_matrix, V: np.ndarray, assign: np.ndarray, near: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """The largest ``<v, z>`` of each row, and sizes of their products, for `DeferredSupport`.

        `near` says where the gain of the last edit of each row may be.
        """
        nowhere = np.empty(0, rows.dtype), np.empty((0, 0), dtype=np.int64), _NO_PLACES
        return self._ask(rows, V, assign, None, None, near, nowhere)[:2]

    def worst(
        self,
        rows: sp.csr_matrix,
        V: np.ndarray,
        assign: np.ndarray,
        cost: np.ndarray | None = None,
        grades: np.ndarray | None = None,
    ) -> tuple[sp.csr_matrix, np.ndarray]:
        """The members furthest along the directions, and their grades."""
        n_rows, room = rows.shape[0], self._most(rows) if self.adds else 0
        edited, added = rows.data.copy(), np.empty((n_rows, room), dtype=np.int64)
        n_added = np.zeros(n_rows, dtype=np.int64)
        _, _, reached = self._ask(rows, V, assign, cost, grades, None, (edited, added, n_added))
        points = with_data(rows, edited)
        return self._with_added(points, added, n_added) if self.adds else points, reached

    def worst_of_products(self, rows: sp.csr_matrix, products: np.ndarray) -> np.ndarray:
        """The data of rows after their worst edits, given the product of each word with a weight."""
        edited, n_rows = rows.data.copy(), rows.shape[0]
        units, nowhere = np.ones((1, rows.shape[1])), np.empty((n_rows, 0), dtype=np.int64)
        written = edited, nowhere, np.zeros(n_rows, dtype=np.int64)
        facing = np.zeros(n_rows, dtype=np.int64)
        self._ask(with_data(rows, products), units, facing, None, None, None, written)
        return edited

    def _with_added(
        self, points: sp.csr_matrix, added: np.ndarray, n_added: np.ndarray
    ) -> sp.csr_matrix:
        words = added[np.arange(added.shape[1]) < n_added[:, None]]
        indptr = np.concatenate([[0], np.cumsum(n_added)])
        values = self.value[words].astype(points.dtype)
        more = sp.csr_matrix((values, words, indptr), shape=points.shape)
        more.sort_indices()
        return points + more

    def _most(self, rows: sp.csr_matrix) -> int:
        """How many edits of a row there can be."""
        return min(self.max_changes, rows.shape[1] if self.adds else longest_row(rows.indptr))

    def _ask(
        self,
        rows: sp.csr_matrix,
        V: np.ndarray,
        assign: np.ndarray,
        cost: np.ndarray | None,
        grades: np.ndarray | None,
        near: np.ndarray | None,
        written: tuple[np.ndarray, np.ndarray, np.ndarray],
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Maxima, sizes and grades; edits are written where there is room."""
        n_rows, most = rows.shape[0], self._most(rows)
        V, longest = np.asarray(V, dtype=np.float64), longest_row(rows.indptr)
        ranks = ranked(V, self.value, most + longest) if self.adds else _NOTHING_ADDED
        value = self.value if self.adds else _NO_NUMBERS
        rho = _NO_NUMBERS if grades is None else np.resize(grades, most + 1)
        cost = np.zeros(n_rows) if cost is None else np.asarray(cost, dtype=np.float64)
        near = np.zeros(n_rows) if near is None else near
        V, assign, cost, near = map(contiguous_writable, (V, assign, cost, near))
        moves = most, self.low, self.high, value, self.present, *ranks, rho
        found, room = np.empty((3, n_rows)), longest + (most if self.adds else 0) + 1
        edited, added, n_added = written

        def ask(part: slice) -> None:
            worst_edits(
                rows.indptr[part.start : part.stop + 1], rows.indices, rows.data, V, assign[part],
                *moves, cost[part], near[part], *found[:, part], edited, added[part], n_added[part],
                np.empty((WORK_ROWS, room)), np.empty((2, room), dtype=np.int64),
                np.zeros(len(value), dtype=bool),
            )  # fmt: skip

        in_threads(ask, n_rows, rows.nnz + n_rows * (room - longest - 1))
        return found[0], found[1], found[2]


@dataclass(frozen=True)
class RowEdits(WordEdits):
    """Edits of the words of given rows.

    Parameters
    ----------
    max_changes, low, high, value, present
        See `WordEdits`.
    rows : (n, d) array or CSR matrix
        The rows. Where words are added, they are canonical CSR without zeros.
    changed : (n,) array of bool
        Those that may be changed.
    """

    rows: Matrix
    changed: np.ndarray

    @property
    def most(self) -> int:
        """How many features of a row can change."""
        return min(self.max_changes, self.rows.shape[1])


def canonical_words(X: Matrix) -> sp.csr_matrix:
    """Rows as compiled functions take them: CSR, each word once and in order."""
    rows = csr(X)
    if not rows.has_canonical_format:
        rows = rows.copy()
        rows.sum_duplicates()
    return short_indices(rows)
