"""Sets of word edits, their worst elements, and their bound oracle."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from ...utils.matrices import (
    Matrix,
    Rows,
    contiguous_writable,
    csr,
    csr_arrays,
    in_threads,
    longest_row,
    short_indices,
    take,
    with_data,
)
from ..arguments import grade_profile
from ..base import BoundOracle, Support
from ..query import Query, Violations, WorstPoints, rows_at, worst_by_support
from ..support import Costs, DeferredSupport, Grades, rounding_of_maxima
from .kernels import (
    LISTED,
    WORK_ROWS,
    Allowed,
    Asked,
    Edited,
    LabelRows,
    Maxima,
    Moves,
    Ranks,
    competitors,
    label_losses,
    label_maxima,
    ranked,
    worst_edits,
)

if TYPE_CHECKING:
    from .edits import EditOracle

_NO_NUMBERS = np.empty(0)
_NO_PLACES = np.empty(0, dtype=np.int64)
_NOTHING_ADDED = Ranks(np.zeros(1, dtype=np.int64), _NO_PLACES)


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
        return Moves(*self.rescaling(most), changed)

    def rescaling(self, most: int) -> tuple[int, float, float]:
        """Return the number of edits, and the largest decrease and increase of a factor."""
        return min(self.max_changes, most), 1.0 - self.low, self.high - 1.0

    def maxima(
        self, rows: sp.csr_matrix, V: np.ndarray, assign: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the largest ``<v, z>`` of each row, and a bound of ``<|v|, |z|>``."""
        unwanted = Edited(np.empty(0, rows.dtype), np.empty((0, 0), dtype=np.int64), _NO_PLACES)
        return self._maximize(rows, V, assign, None, None, unwanted)[:2]

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
        added, n_added = np.empty((n_rows, most), dtype=np.int64), np.zeros(n_rows, dtype=np.int64)
        edited = Edited(rows.data.copy(), added, n_added)
        _, _, reached = self._maximize(rows, V, assign, cost, grades, edited)
        points = with_data(rows, edited.data)
        return self._with_added(points, added, n_added) if self.adds else points, reached

    def worst_of_products(self, rows: sp.csr_matrix, products: np.ndarray) -> np.ndarray:
        """Return the data of worst edited rows, given products of entries and weights."""
        n_rows, ones = rows.shape[0], np.ones((1, rows.shape[1]))
        nothing_added, zeros = np.empty((n_rows, 0), dtype=np.int64), np.zeros((2, n_rows), np.int64)
        edited = Edited(rows.data.copy(), nothing_added, zeros[1])
        self._maximize(with_data(rows, products), ones, zeros[0], None, None, edited)
        return edited.data

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
        edited: Edited,
    ) -> Maxima:
        """Return maxima, bounds and grades; write the edits to nonempty arrays of `edited`."""
        n_rows, most = rows.shape[0], self._most(rows)
        V, longest = np.asarray(V, dtype=np.float64), longest_row(rows.indptr)
        ranks = ranked(V, self.value, most + longest) if self.adds else _NOTHING_ADDED
        value = self.value if self.adds else _NO_NUMBERS
        rho = _NO_NUMBERS if grades is None else np.resize(grades, most + 1)
        cost = np.zeros(n_rows) if cost is None else np.asarray(cost, dtype=np.float64)
        if len(V) == 2 and np.array_equal(V[0], -V[1]):
            # With two classes. The weights of a single direction remain in the cache of a core.
            V = V[:1]
        V, assign, cost = map(contiguous_writable, (V, assign, cost))
        allowed = Allowed(most, self.low, self.high, value, self.present)
        maxima, width = Maxima(*np.empty((3, n_rows))), longest + (most if self.adds else 0) + 1

        def maximize(part: slice) -> None:
            asked = Asked(V, assign[part], rho, cost[part])
            worst_edits(
                csr_arrays(rows, part), asked, allowed, ranks, Maxima(*(each[part] for each in maxima)),
                Edited(edited.data, edited.added[part], edited.n_added[part]),
                np.empty((WORK_ROWS, width)), np.empty((2, width), dtype=np.int64),
            )  # fmt: skip

        in_threads(maximize, n_rows, rows.nnz + n_rows * (width - longest - 1))
        return maxima


@dataclass(frozen=True)
class RowEdits(WordEdits):
    """Allowed edits of the words of given rows.

    - `rows` (n, d): rows; a canonical CSR matrix without zeros if words may be added
    - `changed` (n,): mask of the rows that may be edited
    - `units` (nnz,): number of edits that rescale a word as far as possible, each by an equal part;
      empty if it is always 1
    """

    rows: Matrix
    changed: np.ndarray
    units: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.int32))

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
        if query.of_two_labels and not query.points:
            return self._of_two_labels(take(self.words, rows), query)
        # The fast path requires one weight vector per label. One pass over the rows serves all labels.
        if self.word_edits.adds or not query.of_all_labels:
            return worst_by_support(self, rows, query)
        part, competitors = take(self.words, rows), query.competitors
        if competitors.alone and not query.points and not query.rounding:
            violations = self._without_points(part, query)
            if violations is not None:
                return violations
        table, codes = np.ascontiguousarray(query.weights.T, dtype=np.float64), competitors.codes
        gains, sizes = self._label_maxima(part, table, codes)
        gains += query.constants - query.constants[codes, None]
        rounding = None
        if query.rounding:
            constants = np.abs(query.constants)
            rounding = rounding_of_maxima(part, sizes, constants + constants[codes, None])
            rounding[np.arange(len(codes)), codes] = 0.0

        def points_of(places: np.ndarray, labels: np.ndarray) -> WorstPoints:
            points = self._edited_for(rows_at(part, places), table, codes[places], labels)
            return WorstPoints(points, gains[places, labels], competitors.costs[places, labels])

        return Violations(gains, competitors.costs, gains + competitors.costs, points_of, rounding)

    def _of_two_labels(self, rows: sp.csr_matrix, query: Query) -> Violations:
        """Return violations without points for two labels with the scores 0 and f."""
        codes, costs, constant = query.competitors.codes, query.competitors.costs, query.constants[0]
        # Additions need the ranks of both directions; otherwise the second one is minus the first.
        directions = query.weights
        if self.word_edits.adds:
            directions = np.vstack([directions, -directions])
        values, sizes = self.word_edits.maxima(rows, directions, codes)
        # NumPy is slow with rows of two numbers, so the two columns are contiguous.
        is_other = np.stack([codes == 1, codes == 0])
        gains = np.where(is_other, values + np.where(is_other[1], constant, -constant), 0.0).T
        rounding = None
        if query.rounding:
            rounding = np.where(is_other, rounding_of_maxima(rows, sizes, np.abs(constant)), 0.0).T
        return Violations(gains, costs, gains + costs, None, rounding)

    def _without_points(self, rows: sp.csr_matrix, query: Query) -> Violations | None:
        """Return violations whose gain plus cost is the loss for every label except the true one.

        Only the maximum over labels is then correct. The result is None if rows of one label have
        different costs.
        """
        codes, costs, n_labels = query.competitors.codes, query.competitors.costs, len(query.weights)
        cost = np.zeros((n_labels, n_labels))
        cost[codes] = costs
        if not np.array_equal(cost[codes], costs):
            return None
        table, of_rows = np.vstack([query.weights.T, query.constants]), (*csr_arrays(rows), codes, cost)
        of_labels, losses = LabelRows(*of_rows, True), np.empty(len(codes))
        edits = self.word_edits.rescaling(self.X.shape[1])
        capacity = longest_row(rows.indptr) + 1

        def compute(part: slice) -> None:
            work = competitors(1, capacity, n_labels)
            label_losses(of_labels.part(part), edits, table, losses[part], work)

        in_threads(compute, len(codes), rows.nnz * n_labels)
        gains = losses[:, None] - costs
        gains[np.arange(len(codes)), codes] = 0.0
        return Violations(gains, costs, gains + costs)

    def _label_maxima(
        self, rows: sp.csr_matrix, table: np.ndarray, codes: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the largest score gain of each label over S(x), and sizes of scores, (n, n_labels)."""
        n_labels, longest = table.shape[1], longest_row(rows.indptr)
        maxima, sizes, edits = *np.empty((2, len(codes), n_labels)), self.word_edits
        factors = min(edits.max_changes, table.shape[0]), edits.low, edits.high

        def maximize(part: slice) -> None:
            work = np.empty((n_labels + 1) * longest + LISTED), np.zeros(n_labels)
            arrays = table, codes[part], *factors, maxima[part], sizes[part]
            label_maxima(csr_arrays(rows, part), *arrays, *work)

        in_threads(maximize, len(codes), rows.nnz * n_labels)
        return maxima, sizes

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

    def edits(self) -> RowEdits:
        edits, rows = self.word_edits, self.words
        if edits.adds and not rows.data.all():
            rows = rows.copy()
            rows.eliminate_zeros()
        return RowEdits(**vars(edits), rows=rows, changed=np.ones(rows.shape[0], dtype=bool))

    def _as_given(self, points: sp.csr_matrix) -> Matrix:
        """Return points as a dense array if the rows are dense."""
        return points if sp.issparse(self.X) else points.toarray()
