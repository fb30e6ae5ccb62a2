"""In-hull steps of joint losses of several labels, for fixed rows and word edits."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from ..utils.matrices import csr, in_threads, longest_row, ranges, short_indices, squared_lengths
from ..utils.row_arrays import Arrays
from .hulls import LabelHull
from .label_kernels import combine_identity, losses_identity, sweep_identity
from .words.deviations import shrunk
from .words.label_word_kernels import (
    NEWCOMERS,
    combine_words,
    losses_words,
    sweep_words,
    workspace,
)
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

    def arrays(self) -> Arrays:
        counts, (labels, taus) = _listed(self.slots, self.labels, self.taus)
        return {"pairs.counts": counts, "pairs.labels": labels, "pairs.taus": taus}

    def start(self, arrays: Arrays) -> None:
        rows, labels, taus = _feasible_pairs(arrays, self.codes, self.n_labels)
        counts = np.bincount(rows, minlength=len(self.codes))
        self.labels, self.taus = _pooled(self.slots, counts, labels, taus)
        self.used[0] = self.slots[:, 1].sum()


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

    def arrays(self) -> Arrays:
        sizes = _listed(self.slots, self.sizes)[1][0]
        n_words, (places, deviations) = _listed(self.parts, self.words, self.deviations)
        pairs = super().arrays()
        return {
            **pairs,
            "mu": self.mu.astype(np.float32),
            "words.counts": n_words,
            "words.labels": np.repeat(pairs["pairs.labels"], sizes),
            "words.places": places,
            "words.deviations": deviations,
        }

    def start(self, arrays: Arrays) -> None:
        super().start(arrays)
        self.mu[:] = arrays["mu"]
        n_rows, lengths = len(self.codes), np.diff(self.X.indptr)
        # Pair of each deviation, by row and label.
        rows = np.repeat(np.arange(n_rows), arrays["words.counts"])
        owners, places = np.repeat(np.arange(n_rows), self.slots[:, 1]), arrays["words.places"]
        keys = owners * self.n_labels + self.labels[: len(owners)]
        pairs = _places_of(rows * self.n_labels + arrays["words.labels"], keys)
        valid = np.flatnonzero((pairs >= 0) & (places >= 0) & (places < lengths[rows]))
        valid = valid[np.argsort(pairs[valid], kind="stable")]
        sizes = np.bincount(pairs[valid], minlength=len(owners))
        (most, drop, grow, changed), taus = self.moves, self.taus[: len(owners)]
        budgets = most * taus * changed[owners]
        deviations, _ = shrunk(arrays["words.deviations"][valid], sizes, taus, budgets, drop, grow)
        self.sizes = np.concatenate([sizes, np.zeros(LEAST_PAIRS, int)]).astype(np.int32)
        n_words = np.bincount(rows[valid], minlength=n_rows)
        self.words, self.deviations = _pooled(
            self.parts, n_words, places[valid].astype(np.int32), deviations
        )
        self.used[1] = self.parts[:, 1].sum()


def _places_of(wanted: np.ndarray, keys: np.ndarray) -> np.ndarray:
    """Return the place of each wanted number among unsorted keys, -1 for none."""
    if len(keys) == 0:
        return np.full(len(wanted), -1)
    order = np.argsort(keys, kind="stable")
    places = order[np.minimum(np.searchsorted(keys, wanted, sorter=order), len(keys) - 1)]
    return np.where(keys[places] == wanted, places, -1)


def _feasible_pairs(
    arrays: Arrays, codes: np.ndarray, n_labels: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return row, wrong label and dual variable of pairs; those of a row are at most 1 in total."""
    rows = np.repeat(np.arange(len(codes)), arrays["pairs.counts"])
    labels, taus = arrays["pairs.labels"], arrays["pairs.taus"]
    known = (labels >= 0) & (labels < n_labels) & (labels != codes[rows]) & (taus > 0)
    chosen = np.flatnonzero(known)
    rows, labels, taus = rows[chosen], labels[chosen].astype(np.int32), taus[chosen]
    totals = np.bincount(rows, taus, len(codes))
    return rows, labels, taus / np.maximum(totals, 1.0)[rows]


def _compacted(slots: np.ndarray, pool: np.ndarray, size: int) -> np.ndarray:
    """Copy a pool to another size, with no gaps between the entries of rows."""
    entries, _ = ranges(slots[:, 0], slots[:, 1])
    new = np.zeros(size, dtype=pool.dtype)
    new[: len(entries)] = pool[entries]
    return new


def _listed(slots: np.ndarray, *pools: np.ndarray) -> tuple[np.ndarray, tuple[np.ndarray, ...]]:
    """Return the number of entries of each row, and the entries of pools row by row."""
    size = int(slots[:, 1].sum())
    return slots[:, 1].astype(np.int32), tuple(_compacted(slots, pool, size) for pool in pools)


def _pooled(slots: np.ndarray, counts: np.ndarray, *entries: np.ndarray) -> list[np.ndarray]:
    """Return pools with spare capacity from entries row by row, and set `slots`."""
    slots[:, 1] = counts
    _side_by_side(slots)
    return [np.concatenate([each, np.zeros(LEAST_PAIRS, each.dtype)]) for each in entries]


def _side_by_side(slots: np.ndarray) -> None:
    """Set the starts and capacities of rows in a pool without gaps."""
    slots[:, 0] = np.cumsum(slots[:, 1]) - slots[:, 1]
    slots[:, 2] = slots[:, 1]


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
