"""Edits of words of given rows, with in-hull steps and questions about all labels at once."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from ..matrices import Matrix, Rows, in_threads, longest_row, take, with_data
from .arguments import grade_profile
from .base import BoundOracle, Support
from .edit_kernels import label_maxima
from .hulls import Hull, LabelHull
from .identity_hull import IdentityHull
from .label_hull import IdentityLabelHull, WordLabelHull, word_losses
from .support import Additions
from .word_edits import WordEdits, canonical_words
from .word_hull import WordHull

if TYPE_CHECKING:
    from .edits import EditOracle


class BoundEdits(BoundOracle):
    """Edits of words of given rows."""

    oracle: EditOracle

    @cached_property
    def words(self) -> sp.csr_matrix:
        """All rows; dense ones become sparse once, and not in each call."""
        return canonical_words(self.X)

    @cached_property
    def word_edits(self) -> WordEdits:
        """What may be done to them."""
        return self.oracle.edits(self.X.shape[1])

    def support(
        self, rows: Rows, V: np.ndarray, assign: np.ndarray, cost: np.ndarray | None = None
    ) -> Support:
        points, _ = self.word_edits.worst(take(self.words, rows), V, assign)
        return Support(self._as_given(points))

    def graded_support(
        self,
        rows: Rows,
        V: np.ndarray,
        assign: np.ndarray,
        cost: np.ndarray,
        rho: float | Sequence[float],
    ) -> Support:
        grades = grade_profile(rho, self.oracle.max_changes + 1)
        points, reached = self.word_edits.worst(take(self.words, rows), V, assign, cost, grades)
        return Support(self._as_given(points), rho=reached)

    def maximum(self, rows: Rows, V: np.ndarray, assign: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return self.word_edits.maxima(take(self.words, rows), V, assign)

    def hull(self, signs: np.ndarray, weights: np.ndarray, intercept: bool) -> Hull | None:
        if self.word_edits.adds:
            return None
        if not self.word_edits.multiplies:
            return IdentityHull(self.words, signs, weights, intercept)
        return WordHull(self.words, signs, weights, self.word_edits, intercept)

    def label_hull(
        self, codes: np.ndarray, weights: np.ndarray, cost: np.ndarray, intercept: bool
    ) -> LabelHull | None:
        if self.word_edits.adds:
            return None
        if not self.word_edits.multiplies:
            return IdentityLabelHull(self.words, codes, weights, cost, intercept=intercept)
        return WordLabelHull(self.words, codes, weights, cost, self.word_edits, intercept=intercept)

    def edits(self) -> tuple[int, float, float] | None:
        return None if self.word_edits.adds else self._factors

    @property
    def _factors(self) -> tuple[int, float, float]:
        """How many words of a row may be multiplied, and the lowest and the highest factor."""
        edits = self.word_edits
        return min(edits.max_changes, self.X.shape[1]), edits.low, edits.high

    def additions(self) -> Additions | None:
        edits = self.word_edits
        if not edits.adds:
            return None
        rows = self.words
        if not rows.data.all():
            rows = rows.copy()
            rows.eliminate_zeros()
        adds = np.ones(rows.shape[0], dtype=bool)
        return Additions(
            rows, adds, edits.max_changes, edits.value, edits.present, edits.low, edits.high
        )

    def largest_leads(
        self, rows: Rows, table: np.ndarray, codes: np.ndarray, cost: np.ndarray, intercept: bool
    ) -> np.ndarray | None:
        if self.word_edits.adds:
            return None
        return word_losses(take(self.words, rows), codes, cost, intercept, self.word_edits, table)

    def leads(
        self, rows: Rows, table: np.ndarray, codes: np.ndarray, intercept: bool
    ) -> np.ndarray | None:
        if self.word_edits.adds:
            return None
        part, n_labels, factors = take(self.words, rows), table.shape[1], self._factors
        found, room = np.empty((len(codes), n_labels)), longest_row(part.indptr)
        table = np.ascontiguousarray(table, dtype=np.float64)

        def ask(some: slice) -> None:
            indptr = part.indptr[some.start : some.stop + 1]
            label_maxima(
                indptr, part.indices, part.data, table, codes[some], *factors, found[some],
                np.empty((n_labels, room)), np.zeros(n_labels),
            )  # fmt: skip

        in_threads(ask, len(codes), part.nnz * n_labels)
        return found + (table[-1] - table[-1][codes, None]) if intercept else found

    def leading(
        self, rows: Rows, table: np.ndarray, codes: np.ndarray, labels: np.ndarray
    ) -> Matrix | None:
        if self.word_edits.adds:
            return None
        part = take(self.words, rows)
        # The place in the table of each word's weight for the true label, and from there to the other.
        places, sizes = part.indices * np.int64(table.shape[1]), np.diff(part.indptr)
        places += np.repeat(codes, sizes)
        weights, own = np.ravel(table), np.repeat(labels - codes, sizes)
        products = (weights.take(places + own) - weights.take(places)) * part.data
        return self._as_given(with_data(part, self.word_edits.worst_of_products(part, products)))

    def _as_given(self, points: sp.csr_matrix) -> Matrix:
        """Points that are dense if the rows are."""
        return points if sp.issparse(self.X) else points.toarray()
