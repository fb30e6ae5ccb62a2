"""In-hull steps of joint losses of several labels, for fixed rows and word edits."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from ..utils.matrices import Matrix, csr, in_threads, longest_row, ranges, short_indices, squared_lengths
from ..utils.packed_rows import PackedRows, RaggedLists
from .hulls import LabelHull
from .label_kernels import combine_identity, losses_identity, restore_identity, sweep_identity
from .words.label_word_kernels import NEWCOMERS, losses_words, sweep_words, workspace
from .words.label_word_pools import combine_words, points_words, restore_words
from .words.word_edits import Moves, RowEdits

# Minimum free capacity of a new pool of pairs.
LEAST_PAIRS = 4096
# If all labels compete, `WordLabelHull` does not update rows with at most this fraction of the mean gap.
IDLE = 0.1


class IdentityLabelHull(LabelHull):
    r"""In-hull steps of the plain multiclass loss: one tau per row and label.

    .. math:: W = \sum_i c_i \sum_k \tau_{ik} (e_{y_i} - e_k) \otimes x_i, \quad
       \tau_{ik} \ge 0, \quad \sum_k \tau_{ik} \le 1

    (Crammer and Singer 2001). An update is exact over the labels of the row's active set.

    Shapes: `X` (n_rows, n_features), `codes` (n_rows,), `weights` (n_rows,), `cost` (n_labels,
    n_labels).
    """

    def __init__(
        self,
        X: sp.csr_matrix,
        codes: np.ndarray,
        weights: np.ndarray,
        cost: np.ndarray,
        *,
        intercept: bool = False,
    ) -> None:
        self.X = short_indices(X)
        self.codes = np.ascontiguousarray(codes, dtype=np.int64)
        self.weights = np.array(weights, dtype=np.float64)
        self.cost = np.ascontiguousarray(cost, dtype=np.float64)
        self.intercept = bool(intercept)
        self.square = squared_lengths(self.X)
        # Start, number and capacity of the pairs of each row.
        self.slots = np.zeros((X.shape[0], 3), dtype=np.int64)
        self.labels = np.zeros(LEAST_PAIRS, dtype=np.int32)
        self.taus = np.zeros(LEAST_PAIRS)
        self.used = np.zeros(1, dtype=np.int64)

    @property
    def n_labels(self) -> int:
        """Number of labels."""
        return len(self.cost)

    def _pairs(self) -> tuple[np.ndarray, np.ndarray]:
        """Return rows and pool positions of the pairs with a positive dual variable."""
        places, rows = ranges(self.slots[:, 0], self.slots[:, 1])
        active = self.taus[places] > 0
        return rows[active], places[active]

    @property
    def offset(self) -> float:
        rows, places = self._pairs()
        cost = self.cost[self.codes[rows], self.labels[places]]
        return float(self.weights[rows] * cost @ self.taus[places])

    def sweep(self, table: np.ndarray, order: np.ndarray, gaps: np.ndarray, every_label: bool) -> None:
        done = self._sweep(table, order, gaps, every_label)
        while done < len(order):
            self._grow_pools(order[done])
            order = order[done:]
            done = self._sweep(table, order, gaps, every_label)

    def _sweep(self, table: np.ndarray, order: np.ndarray, gaps: np.ndarray, every_label: bool) -> int:
        """Update rows until a pool is full; return the number of updated rows."""
        X = self.X
        return sweep_identity(
            X.indptr, X.indices, X.data, self.codes, self.weights, self.square, self.cost,
            self.intercept, self.slots, self.labels, self.taus, self.used, table, order, gaps,
            every_label, np.zeros((3, self.n_labels)), np.zeros(self.n_labels, dtype=np.int64),
            np.zeros(self.n_labels, dtype=bool),
        )  # fmt: skip

    def _grow_pools(self, row: int) -> None:
        """Move pairs to larger pools without gaps, with capacity for `row`."""
        size = self._pool_size()
        self.labels = _compacted(self.slots, self.labels, size)
        self.taus = _compacted(self.slots, self.taus, size)
        self.used[0] = self.slots[:, 1].sum()
        _side_by_side(self.slots)

    def _pool_size(self) -> int:
        """Return the capacity of new pools: twice the used pairs, and enough for any row."""
        return 2 * int(self.slots[:, 1].sum()) + 2 * self.n_labels + LEAST_PAIRS

    def losses(self, table: np.ndarray) -> np.ndarray:
        X, found = self.X, np.empty(self.X.shape[0])

        def compute(part: slice) -> None:
            losses_identity(
                X.indptr[part.start : part.stop + 1], X.indices, X.data, self.codes[part], self.cost,
                self.intercept, table, found[part], np.empty(self.n_labels),
            )  # fmt: skip

        in_threads(compute, len(found), X.nnz * self.n_labels)
        return found

    def combination(self) -> np.ndarray:
        X = self.X
        table = np.zeros((X.shape[1] + self.intercept, self.n_labels))
        combine_identity(
            X.indptr, X.indices, X.data, self.codes, self.weights, self.intercept, self.slots,
            self.labels, self.taus, table, np.empty(self.n_labels + 1, dtype=np.int64),
            np.empty(self.n_labels + 1),
        )  # fmt: skip
        return table

    def pack(self) -> PackedRows:
        return PackedRows((self.square,), (_listed(self.slots, self.labels, self.taus),))

    def unpack(self, packed: PackedRows) -> None:
        self.square = packed.arrays[0]
        self.labels, self.taus = _pooled(self.slots, packed.lists[0])
        self.used[0] = self.slots[:, 1].sum()

    def points(self) -> tuple[Matrix, np.ndarray, sp.csr_matrix]:
        """Return the rows themselves, with the dual variables of their labels."""
        owners, places = self._pairs()
        rows, sizes = np.unique(owners, return_counts=True)
        start = np.concatenate([[0], np.cumsum(sizes)])
        entries = self.taus[places], self.labels[places].astype(np.int64), start
        taus = sp.csr_matrix(entries, shape=(len(rows), self.n_labels))
        taus.sort_indices()
        return self.X if len(rows) == self.X.shape[0] else self.X[rows], rows, taus

    def restore(self, points: Matrix, rows: np.ndarray, taus: sp.csr_matrix) -> None:
        """Initialize the state from dual variables; points are redundant."""
        start, labels, sums, _ = _by_pair(rows, taus, self.codes)
        size = len(labels) + LEAST_PAIRS
        self.labels, self.taus = np.zeros(size, dtype=np.int32), np.zeros(size)
        self.used[0] = restore_identity(start, labels, sums, self.slots, self.labels, self.taus)


class WordLabelHull(IdentityLabelHull):
    r"""In-hull steps of the multiclass loss with removed or rescaled words.

    .. math:: W = \sum_i c_i \sum_k (e_{y_i} - e_k) \otimes x_i \circ (\tau_{ik} + \delta_{ik}), \quad
       \sum_j \max\Bigl(\frac{-\delta_{ikj}}{1-l}, \frac{\delta_{ikj}}{u-1}\Bigr) \le K \tau_{ik} .

    Only nonzero deviations are stored, so memory grows with the number of pairs with a
    positive tau.
    """

    def __init__(
        self,
        edits: RowEdits,
        codes: np.ndarray,
        weights: np.ndarray,
        cost: np.ndarray,
        *,
        intercept: bool = False,
    ) -> None:
        X = csr(edits.rows)
        super().__init__(X, codes, weights, cost, intercept=intercept)
        # K-th largest gain of each row in its last update: a guess for the next one.
        self.mu = np.zeros(X.shape[0])
        self.capacity = longest_row(X.indptr) + 1
        self.moves = edits.moves(self.capacity, edits.changed)
        # Start, number and capacity of the deviations of each row.
        self.parts = np.zeros((X.shape[0], 3), dtype=np.int64)
        self.sizes = np.zeros(LEAST_PAIRS, dtype=np.int32)
        self.words = np.zeros(LEAST_PAIRS, dtype=np.int32)
        self.deviations = np.zeros(LEAST_PAIRS)
        self.used = np.zeros(2, dtype=np.int64)

    @property
    def _pools(self) -> tuple[np.ndarray, ...]:
        """The pairs of all rows, and their deviations."""
        pairs = self.slots, self.labels, self.taus, self.sizes
        return (*pairs, self.parts, self.words, self.deviations)

    def _sweep(self, table: np.ndarray, order: np.ndarray, gaps: np.ndarray, every_label: bool) -> int:
        X, most = self.X, int(self.slots[order, 1].max(initial=0)) + NEWCOMERS + 2
        work = workspace(most, self.capacity, self.n_labels, self.moves)
        least = IDLE * float(gaps.mean()) if every_label else 0.0
        return sweep_words(
            X.indptr, X.indices, X.data, self.codes, self.weights, self.square, self.cost,
            self.intercept, self.moves, self.mu, *self._pools, self.used, table, order, gaps,
            least, every_label, *work,
        )  # fmt: skip

    def _grow_pools(self, row: int) -> None:
        self.sizes = _compacted(self.slots, self.sizes, self._pool_size())
        super()._grow_pools(row)
        longest = int(self.X.indptr[row + 1] - self.X.indptr[row])
        most = 2 * (int(self.slots[row, 1]) + LEAST_PAIRS // 64)
        size = 2 * int(self.parts[:, 1].sum()) + most * longest + LEAST_PAIRS
        self.words = _compacted(self.parts, self.words, size)
        self.deviations = _compacted(self.parts, self.deviations, size)
        self.used[1] = self.parts[:, 1].sum()
        _side_by_side(self.parts)

    def losses(self, table: np.ndarray) -> np.ndarray:
        return word_losses(self.X, self.codes, self.cost, self.intercept, self.moves, self.mu, table)

    def combination(self) -> np.ndarray:
        X = self.X
        table = np.zeros((X.shape[1] + self.intercept, self.n_labels))
        combine_words(
            X.indptr, X.indices, X.data, self.codes, self.weights, self.intercept, *self._pools, table
        )
        return table

    def pack(self) -> PackedRows:
        pairs = _listed(self.slots, self.labels, self.taus, self.sizes)
        words = _listed(self.parts, self.words, self.deviations)
        return PackedRows((self.square, self.mu.astype(np.float32)), (pairs, words))

    def unpack(self, packed: PackedRows) -> None:
        self.square, self.mu[:] = packed.arrays
        pairs, words = packed.lists
        self.labels, self.taus, self.sizes = _pooled(self.slots, pairs)
        self.words, self.deviations = _pooled(self.parts, words)
        self.used[:] = self.slots[:, 1].sum(), self.parts[:, 1].sum()

    def points(self) -> tuple[Matrix, np.ndarray, sp.csr_matrix]:
        """Return one point for each pair."""
        X, (rows, places) = self.X, self._pairs()
        points = X[rows]
        points_words(
            X.indptr, X.data, rows, places, self.slots, self.taus, self.sizes, self.parts, self.words,
            self.deviations, points.data,
        )  # fmt: skip
        entries = self.taus[places], self.labels[places].astype(np.int64), np.arange(len(rows) + 1)
        return points, rows, sp.csr_matrix(entries, shape=(len(rows), self.n_labels))

    def restore(self, points: Matrix, rows: np.ndarray, taus: sp.csr_matrix) -> None:
        """Initialize the state from points, shrunk to fulfill bounds and number of edits."""
        X = self.X
        start, labels, sums, fractions = _by_pair(rows, taus, self.codes)
        given = sp.csr_matrix(fractions @ sp.csr_matrix(points))
        owners = np.repeat(np.arange(len(start) - 1), np.diff(start))
        n_pairs, n_entries = len(labels), int(np.diff(X.indptr)[owners].sum())
        self.labels = np.zeros(n_pairs + LEAST_PAIRS, dtype=np.int32)
        self.taus, self.sizes = np.zeros(len(self.labels)), np.zeros_like(self.labels)
        self.words = np.zeros(n_entries + LEAST_PAIRS, dtype=np.int32)
        self.deviations = np.zeros(len(self.words))
        self.used[:] = restore_words(
            X.indptr, X.indices, X.data, self.moves, start, labels, sums, given.indptr,
            given.indices, given.data, *self._pools, np.zeros(X.shape[1]),
        )  # fmt: skip


def _compacted(slots: np.ndarray, pool: np.ndarray, size: int) -> np.ndarray:
    """Copy a pool to another size, with no gaps between the entries of rows."""
    entries, _ = ranges(slots[:, 0], slots[:, 1])
    new = np.zeros(size, dtype=pool.dtype)
    new[: len(entries)] = pool[entries]
    return new


def _listed(slots: np.ndarray, *pools: np.ndarray) -> RaggedLists:
    """Return the entries of pools as one list per row."""
    size = int(slots[:, 1].sum())
    entries = tuple(_compacted(slots, pool, size) for pool in pools)
    return RaggedLists(slots[:, 1].astype(np.int32), entries)


def _pooled(slots: np.ndarray, lists: RaggedLists) -> list[np.ndarray]:
    """Return pools with spare capacity from one list per row, and set `slots`."""
    slots[:, 1] = lists.counts
    _side_by_side(slots)
    return [np.concatenate([entries, np.zeros(LEAST_PAIRS, entries.dtype)]) for entries in lists.entries]


def _side_by_side(slots: np.ndarray) -> None:
    """Set the starts and capacities of rows in a pool without gaps."""
    slots[:, 0] = np.cumsum(slots[:, 1]) - slots[:, 1]
    slots[:, 2] = slots[:, 1]


def _by_pair(
    rows: np.ndarray, taus: sp.csr_matrix, codes: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, sp.csr_matrix]:
    """Add up dual variables by pair of row and label, sorted by row.

    Returns the start of the pairs of each row, the label and tau of each pair, and a matrix
    (n_pairs, n_points) with the tau of each point in each pair.
    """
    given = taus.tocoo()
    counted = (given.data > 0) & (given.col != codes[rows[given.row]])
    terms, labels, sizes = (part[counted] for part in (given.row, given.col, given.data))
    n_labels = taus.shape[1]
    keys, pairs = np.unique(rows[terms] * n_labels + labels, return_inverse=True)
    fractions = sp.csr_matrix((sizes, (pairs.ravel(), terms)), shape=(len(keys), len(rows)))
    owners, pair_labels = np.divmod(keys, n_labels)
    start = np.searchsorted(owners, np.arange(len(codes) + 1))
    return start, pair_labels, np.asarray(fractions.sum(axis=1)).ravel(), fractions


def word_losses(
    X: sp.csr_matrix,
    codes: np.ndarray,
    cost: np.ndarray,
    intercept: bool,
    moves: Moves,
    near: np.ndarray,
    table: np.ndarray,
) -> np.ndarray:
    """Compute exact losses of rows with word edits, (n,); bounds exclude most labels.

    Shapes: `X` (n_rows, n_features), `codes` (n_rows,), `cost` (n_labels, n_labels), `near` (n_rows,),
    `table` (n_features [+ 1], n_labels).
    """
    found, capacity = np.empty(X.shape[0]), longest_row(X.indptr) + 1

    def compute(part: slice) -> None:
        own = moves._replace(changed=moves.changed[part])
        losses_words(
            X.indptr[part.start : part.stop + 1], X.indices, X.data, codes[part], cost, intercept,
            own, near[part], table, found[part], *workspace(1, capacity, len(cost), own),
        )  # fmt: skip

    in_threads(compute, len(found), X.nnz * len(cost))
    return found
