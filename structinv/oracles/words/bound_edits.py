"""Bound oracle of word edits, with in-hull steps and a fast multiclass argmax."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from ...utils.matrices import Matrix, Rows, in_threads, longest_row, take, with_data
from ..arguments import grade_profile
from ..base import BoundOracle, Support
from ..label_hull import word_losses
from ..query import Query, Violations, WorstPoints, rows_at, worst_by_support
from ..support import Costs, DeferredSupport, Grades
from .edit_kernels import label_maxima
from .word_edits import RowEdits, WordEdits, canonical_words

if TYPE_CHECKING:
    from .edits import EditOracle


class BoundEdits(BoundOracle):
    """Word edits of the rows of one fit."""

    oracle: EditOracle

    @cached_property
    def words(self) -> sp.csr_matrix:
        """All rows as a CSR matrix, converted once."""
        return canonical_words(self.X)

    @cached_property
    def word_edits(self) -> WordEdits:
        """Allowed edits of the rows."""
        return self.oracle.edits(self.X.shape[1])

    def support(
        self, rows: Rows, V: np.ndarray, assign: np.ndarray, cost: Costs = None, rho: Grades = None
    ) -> Support:
        X, edits = take(self.words, rows), self.word_edits
        if rho is not None:
            grades = grade_profile(rho, self.oracle.max_changes + 1)
            points, reached = edits.worst(X, V, assign, cost, grades)
            return Support(self._as_given(points), rho=reached)
        return DeferredSupport(
            X,
            lambda: self._as_given(edits.worst(X, V, assign)[0]),
            lambda: edits.maxima(X, V, assign),
        )

    def worst(self, rows: Rows, query: Query) -> Violations:
        # The fast path requires one weight vector per label. One pass over the rows serves all labels.
        if self.word_edits.adds or not query.of_all_labels or query.rounding:
            return worst_by_support(self, rows, query)
        part, competitors = take(self.words, rows), query.competitors
        if competitors.alone and not query.points:
            violations = self._without_points(part, query)
            if violations is not None:
                return violations
        table = np.ascontiguousarray(query.weights.T, dtype=np.float64)
        gains = self._label_maxima(part, table, competitors.codes)
        gains += query.constants - query.constants[competitors.codes, None]

        def points_of(places: np.ndarray, labels: np.ndarray) -> WorstPoints:
            points = self._edited_for(rows_at(part, places), table, competitors.codes[places], labels)
            return WorstPoints(points, gains[places, labels], competitors.costs[places, labels])

        return Violations(gains, competitors.costs, gains + competitors.costs, points_of)

    def _without_points(self, rows: sp.csr_matrix, query: Query) -> Violations | None:
        """Return violations whose gain plus cost is the loss for every label except the true one.

        Only the maximum over labels is then correct. The result is None if rows of one label have
        different costs.
        """
        competitors = query.competitors
        codes, n_labels = competitors.codes, competitors.n_labels
        cost = np.zeros((n_labels, n_labels))
        cost[codes] = competitors.costs
        if not np.array_equal(cost[codes], competitors.costs):
            return None
        table = np.vstack([query.weights.T, query.constants])
        moves = self.word_edits.moves(self.X.shape[1], np.ones(len(codes), dtype=bool))
        losses = word_losses(rows, codes, cost, True, moves, np.zeros(len(codes)), table)
        gains = losses[:, None] - competitors.costs
        gains[np.arange(len(codes)), codes] = 0.0
        return Violations(gains, competitors.costs, gains + competitors.costs)

    def _label_maxima(self, rows: sp.csr_matrix, table: np.ndarray, codes: np.ndarray) -> np.ndarray:
        """Return the largest score gain of each label over S(x), (n, n_labels)."""
        n_labels, longest = table.shape[1], longest_row(rows.indptr)
        maxima, factors = np.empty((len(codes), n_labels)), self._factors

        def maximize(part: slice) -> None:
            indptr = rows.indptr[part.start : part.stop + 1]
            label_maxima(
                indptr, rows.indices, rows.data, table, codes[part], *factors, maxima[part],
                np.empty((n_labels, longest)), np.zeros(n_labels),
            )  # fmt: skip

        in_threads(maximize, len(codes), rows.nnz * n_labels)
        return maxima

    def _edited_for(
        self, rows: sp.csr_matrix, table: np.ndarray, codes: np.ndarray, labels: np.ndarray
    ) -> Matrix:
        """Return the rows after the worst edits for ``labels``, one label per row."""
        # Positions of the true labels' weights in the flattened table, and offsets to the other labels.
        places, sizes = rows.indices * np.int64(table.shape[1]), np.diff(rows.indptr)
        places += np.repeat(codes, sizes)
        weights, offsets = np.ravel(table), np.repeat(labels - codes, sizes)
        products = (weights.take(places + offsets) - weights.take(places)) * rows.data
        return self._as_given(with_data(rows, self.word_edits.worst_of_products(rows, products)))

    @property
    def _factors(self) -> tuple[int, float, float]:
        """Maximum number of rescaled words of a row, and the smallest and the largest factor."""
        edits = self.word_edits
        return min(edits.max_changes, self.X.shape[1]), edits.low, edits.high

    def edits(self) -> RowEdits:
        edits, rows = self.word_edits, self.words
        if edits.adds and not rows.data.all():
            rows = rows.copy()
            rows.eliminate_zeros()
        return RowEdits(**vars(edits), rows=rows, changed=np.ones(rows.shape[0], dtype=bool))

    def _as_given(self, points: sp.csr_matrix) -> Matrix:
        """Return points as a dense array if the rows are dense."""
        return points if sp.issparse(self.X) else points.toarray()
