"""Dual states of joint losses of several labels, on rows that stay or whose words change."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from ..utils.matrices import Matrix, in_threads, longest_row, ranges, short_indices, squared_lengths
from ..utils.packed_rows import PackedRows, RaggedLists
from .hulls import LabelHull
from .label_kernels import combine_identity, losses_identity, restore_identity, sweep_identity
from .words.label_word_kernels import NEWCOMERS, losses_words, sweep_words, workspace
from .words.label_word_pools import combine_words, points_words, restore_words
from .words.word_edits import WordEdits

# Pairs for which there is room at first, and then always; more are made as needed.
LEAST_PAIRS = 4096
# In a visit of all labels, rows with at most this share of the mean gap take no step.
IDLE = 0.1


class IdentityLabelHull(LabelHull):
    r"""Dual state of the plain multiclass loss: a level of each pair of a row and a label.

    .. math:: W = \sum_i c_i \sum_k \tau_{ik} (e_{y_i} - e_k) \otimes x_i, \quad
       \tau_{ik} \ge 0, \quad \sum_k \tau_{ik} \le 1

    (Crammer and Singer 2001), with exact steps over all labels of a row that have a level or should.

    Parameters
    ----------
    X : csr_matrix of shape (n, d)
        Rows in canonical format.
    codes : array of shape (n,)
        True labels, as numbers from 0 on.
    weights : array of shape (n,)
        Nonnegative weights :math:`c_i` of the losses.
    cost : array of shape (n_labels, n_labels)
        Cost of each label (column) where another is true (row); zero diagonal.
    intercept : bool
        Whether a constant feature 1 follows the d features.

    Examples
    --------
    >>> X, cost = sp.csr_matrix(np.eye(3)), 1.0 - np.eye(3)
    >>> hull = IdentityLabelHull(X, np.arange(3), np.ones(3), cost)
    >>> table, gaps = np.zeros((3, 3)), np.zeros(3)
    >>> for _ in range(20):
    ...     hull.sweep(table, np.arange(3), gaps, True)
    >>> table.round(3)
    array([[ 0.667, -0.333, -0.333],
           [-0.333,  0.667, -0.333],
           [-0.333, -0.333,  0.667]])
    >>> float(hull.losses(table).round(3).sum())
    0.0
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
        # Of each row where its pairs begin, how many there are, and for how many there is room.
        self.slots = np.zeros((X.shape[0], 3), dtype=np.int64)
        self.labels = np.zeros(LEAST_PAIRS, dtype=np.int32)
        self.levels = np.zeros(LEAST_PAIRS)
        self.used = np.zeros(1, dtype=np.int64)

    @property
    def n_labels(self) -> int:
        """How many labels there are."""
        return len(self.cost)

    def _pairs(self) -> tuple[np.ndarray, np.ndarray]:
        """Row and place in the pool of every pair that has a level, by row."""
        places, rows = ranges(self.slots[:, 0], self.slots[:, 1])
        active = self.levels[places] > 0
        return rows[active], places[active]

    @property
    def offset(self) -> float:
        rows, places = self._pairs()
        cost = self.cost[self.codes[rows], self.labels[places]]
        return float(self.weights[rows] * cost @ self.levels[places])

    def sweep(self, table: np.ndarray, order: np.ndarray, gaps: np.ndarray, every_label: bool) -> None:
        done = self._sweep(table, order, gaps, every_label)
        while done < len(order):
            self._make_room(order[done])
            order = order[done:]
            done = self._sweep(table, order, gaps, every_label)

    def _sweep(self, table: np.ndarray, order: np.ndarray, gaps: np.ndarray, every_label: bool) -> int:
        """Visit rows until a pool is full; how many were done."""
        X = self.X
        return sweep_identity(
            X.indptr, X.indices, X.data, self.codes, self.weights, self.square, self.cost,
            self.intercept, self.slots, self.labels, self.levels, self.used, table, order, gaps,
            every_label, np.zeros((3, self.n_labels)), np.zeros(self.n_labels, dtype=np.int64),
            np.zeros(self.n_labels, dtype=bool),
        )  # fmt: skip

    def _make_room(self, row: int) -> None:
        """Put pairs side by side, in pools with room for as many again, whatever row comes next."""
        size = self._room_for_pairs()
        self.labels = _compacted(self.slots, self.labels, size)
        self.levels = _compacted(self.slots, self.levels, size)
        self.used[0] = self.slots[:, 1].sum()
        _side_by_side(self.slots)

    def _room_for_pairs(self) -> int:
        """For so many pairs there is room in new pools: as many again, and any one row's."""
        return 2 * int(self.slots[:, 1].sum()) + 2 * self.n_labels + LEAST_PAIRS

    def losses(self, table: np.ndarray) -> np.ndarray:
        """See `LabelHull.losses`; in threads, which need no more than a row of scores each."""
        X, found = self.X, np.empty(self.X.shape[0])

        def ask(part: slice) -> None:
            losses_identity(
                X.indptr[part.start : part.stop + 1], X.indices, X.data, self.codes[part], self.cost,
                self.intercept, table, found[part], np.empty(self.n_labels),
            )  # fmt: skip

        in_threads(ask, len(found), X.nnz * self.n_labels)
        return found

    def combination(self) -> np.ndarray:
        X = self.X
        table = np.zeros((X.shape[1] + self.intercept, self.n_labels))
        combine_identity(
            X.indptr, X.indices, X.data, self.codes, self.weights, self.intercept, self.slots,
            self.labels, self.levels, table, np.empty(self.n_labels + 1, dtype=np.int64),
            np.empty(self.n_labels + 1),
        )  # fmt: skip
        return table

    def pack(self) -> PackedRows:
        return PackedRows((self.square,), (_listed(self.slots, self.labels, self.levels),))

    def unpack(self, packed: PackedRows) -> None:
        self.square = packed.each[0]
        self.labels, self.levels = _pooled(self.slots, packed.lists[0])
        self.used[0] = self.slots[:, 1].sum()

    def points(self) -> tuple[Matrix, np.ndarray, sp.csr_matrix]:
        """See `LabelHull.points`: the rows themselves."""
        owners, places = self._pairs()
        rows, sizes = np.unique(owners, return_counts=True)
        start = np.concatenate([[0], np.cumsum(sizes)])
        entries = self.levels[places], self.labels[places].astype(np.int64), start
        levels = sp.csr_matrix(entries, shape=(len(rows), self.n_labels))
        levels.sort_indices()
        return self.X if len(rows) == self.X.shape[0] else self.X[rows], rows, levels

    def restore(self, points: Matrix, rows: np.ndarray, levels: sp.csr_matrix) -> None:
        """See `LabelHull.restore`: levels are all that counts."""
        start, labels, sums, _ = _by_pair(rows, levels, self.codes)
        size = len(labels) + LEAST_PAIRS
        self.labels, self.levels = np.zeros(size, dtype=np.int32), np.zeros(size)
        self.used[0] = restore_identity(start, labels, sums, self.slots, self.labels, self.levels)


class WordLabelHull(IdentityLabelHull):
    r"""Dual state of the multiclass loss under rescaled or dropped words.

    .. math:: W = \sum_i c_i \sum_k (e_{y_i} - e_k) \otimes x_i \circ (\tau_{ik} + \delta_{ik}), \quad
       \sum_j \max\Bigl(\frac{-\delta_{ikj}}{1-l}, \frac{\delta_{ikj}}{u-1}\Bigr) \le K \tau_{ik} .

    Only deviations other than zero are kept, so that memory grows with the pairs that have a level.

    Parameters
    ----------
    X, codes, weights, cost, intercept
        As for `IdentityLabelHull`; the intercept is never changed.
    edits : WordEdits
        Number :math:`K \ge 1` of words that may change, and the range :math:`[l, u]` of their factors.
    """

    def __init__(
        self,
        X: sp.csr_matrix,
        codes: np.ndarray,
        weights: np.ndarray,
        cost: np.ndarray,
        edits: WordEdits,
        *,
        intercept: bool = False,
    ) -> None:
        super().__init__(X, codes, weights, cost, intercept=intercept)
        self.edits = edits
        # Where the K-th gain of each row was last.
        self.mu = np.zeros(X.shape[0])
        self.room = longest_row(X.indptr) + 1
        # Of each row where its deviations begin, how many there are, and for how many there is room.
        self.parts = np.zeros((X.shape[0], 3), dtype=np.int64)
        self.sizes = np.zeros(LEAST_PAIRS, dtype=np.int32)
        self.words = np.zeros(LEAST_PAIRS, dtype=np.int32)
        self.deviations = np.zeros(LEAST_PAIRS)
        self.used = np.zeros(2, dtype=np.int64)

    @property
    def _changes(self) -> tuple[int, float, float]:
        """How many words may change, and how far down and up."""
        return self.edits.moves(self.room)

    @property
    def _pools(self) -> tuple[np.ndarray, ...]:
        """The pairs of all rows, and their deviations."""
        pairs = self.slots, self.labels, self.levels, self.sizes
        return (*pairs, self.parts, self.words, self.deviations)

    def _sweep(self, table: np.ndarray, order: np.ndarray, gaps: np.ndarray, every_label: bool) -> int:
        X, most = self.X, int(self.slots[order, 1].max(initial=0)) + NEWCOMERS + 2
        room = workspace(most, self.room, self.n_labels, *self._changes[1:])
        least = IDLE * float(gaps.mean()) if every_label else 0.0
        return sweep_words(
            X.indptr, X.indices, X.data, self.codes, self.weights, self.square, self.cost,
            self.intercept, *self._changes, self.mu, *self._pools, self.used, table, order, gaps,
            least, every_label, *room,
        )  # fmt: skip

    def _make_room(self, row: int) -> None:
        self.sizes = _compacted(self.slots, self.sizes, self._room_for_pairs())
        super()._make_room(row)
        longest = int(self.X.indptr[row + 1] - self.X.indptr[row])
        most = 2 * (int(self.slots[row, 1]) + LEAST_PAIRS // 64)
        size = 2 * int(self.parts[:, 1].sum()) + most * longest + LEAST_PAIRS
        self.words = _compacted(self.parts, self.words, size)
        self.deviations = _compacted(self.parts, self.deviations, size)
        self.used[1] = self.parts[:, 1].sum()
        _side_by_side(self.parts)

    def losses(self, table: np.ndarray) -> np.ndarray:
        return word_losses(self.X, self.codes, self.cost, self.intercept, self._changes, self.mu, table)

    def combination(self) -> np.ndarray:
        X = self.X
        table = np.zeros((X.shape[1] + self.intercept, self.n_labels))
        combine_words(
            X.indptr, X.indices, X.data, self.codes, self.weights, self.intercept, *self._pools, table
        )
        return table

    def pack(self) -> PackedRows:
        pairs = _listed(self.slots, self.labels, self.levels, self.sizes)
        words = _listed(self.parts, self.words, self.deviations)
        return PackedRows((self.square, self.mu.astype(np.float32)), (pairs, words))

    def unpack(self, packed: PackedRows) -> None:
        self.square, self.mu[:] = packed.each
        pairs, words = packed.lists
        self.labels, self.levels, self.sizes = _pooled(self.slots, pairs)
        self.words, self.deviations = _pooled(self.parts, words)
        self.used[:] = self.slots[:, 1].sum(), self.parts[:, 1].sum()

    def points(self) -> tuple[Matrix, np.ndarray, sp.csr_matrix]:
        """See `LabelHull.points`: a point for each pair."""
        X, (rows, places) = self.X, self._pairs()
        points = X[rows]
        points_words(
            X.indptr, X.data, rows, places, self.slots, self.levels, self.sizes, self.parts, self.words,
            self.deviations, points.data,
        )  # fmt: skip
        entries = self.levels[places], self.labels[places].astype(np.int64), np.arange(len(rows) + 1)
        return points, rows, sp.csr_matrix(entries, shape=(len(rows), self.n_labels))

    def restore(self, points: Matrix, rows: np.ndarray, levels: sp.csr_matrix) -> None:
        """See `LabelHull.restore`; what does not fit bounds or budget is shrunk until it does."""
        X = self.X
        start, labels, sums, shares = _by_pair(rows, levels, self.codes)
        given = sp.csr_matrix(shares @ sp.csr_matrix(points))
        owners = np.repeat(np.arange(len(start) - 1), np.diff(start))
        n_pairs, n_entries = len(labels), int(np.diff(X.indptr)[owners].sum())
        self.labels = np.zeros(n_pairs + LEAST_PAIRS, dtype=np.int32)
        self.levels, self.sizes = np.zeros(len(self.labels)), np.zeros_like(self.labels)
        self.words = np.zeros(n_entries + LEAST_PAIRS, dtype=np.int32)
        self.deviations = np.zeros(len(self.words))
        self.used[:] = restore_words(
            X.indptr, X.indices, X.data, *self._changes, start, labels, sums, given.indptr,
            given.indices, given.data, *self._pools, np.zeros(X.shape[1]),
        )  # fmt: skip


def _compacted(slots: np.ndarray, pool: np.ndarray, size: int) -> np.ndarray:
    """A pool of another size, in which what rows have lies side by side from the start."""
    entries, _ = ranges(slots[:, 0], slots[:, 1])
    new = np.zeros(size, dtype=pool.dtype)
    new[: len(entries)] = pool[entries]
    return new


def _listed(slots: np.ndarray, *pools: np.ndarray) -> RaggedLists:
    """What rows have in pools, row by row."""
    size = int(slots[:, 1].sum())
    entries = tuple(_compacted(slots, pool, size) for pool in pools)
    return RaggedLists(slots[:, 1].astype(np.int32), entries)


def _pooled(slots: np.ndarray, lists: RaggedLists) -> list[np.ndarray]:
    """Pools with room for some more, of lists of all rows; says in `slots` where these are."""
    slots[:, 1] = lists.counts
    _side_by_side(slots)
    return [np.concatenate([own, np.zeros(LEAST_PAIRS, own.dtype)]) for own in lists.entries]


def _side_by_side(slots: np.ndarray) -> None:
    """Where rows begin in a pool, once they lie side by side."""
    slots[:, 0] = np.cumsum(slots[:, 1]) - slots[:, 1]
    slots[:, 2] = slots[:, 1]


def _by_pair(
    rows: np.ndarray, levels: sp.csr_matrix, codes: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, sp.csr_matrix]:
    """Levels summed by pair of row and label, sorted; and what share each point has in each pair.

    Where the pairs of each row begin; label and level of each; a matrix (n_pairs, n_points).
    """
    given = levels.tocoo()
    counted = (given.data > 0) & (given.col != codes[rows[given.row]])
    terms, labels, sizes = (part[counted] for part in (given.row, given.col, given.data))
    n_labels = levels.shape[1]
    keys, pairs = np.unique(rows[terms] * n_labels + labels, return_inverse=True)
    shares = sp.csr_matrix((sizes, (pairs.ravel(), terms)), shape=(len(keys), len(rows)))
    owners, own = np.divmod(keys, n_labels)
    start = np.searchsorted(owners, np.arange(len(codes) + 1))
    return start, own, np.asarray(shares.sum(axis=1)).ravel(), shares


def word_losses(
    X: sp.csr_matrix,
    codes: np.ndarray,
    cost: np.ndarray,
    intercept: bool,
    moves: tuple[int, float, float],
    near: np.ndarray,
    table: np.ndarray,
) -> np.ndarray:
    """Exact losses of rows whose words may change, (n,): labels that cannot be worst are left out.

    Parameters
    ----------
    X : csr_matrix of shape (n, d)
    codes : (n,) array of int
    cost : (n_labels, n_labels) array
    intercept : bool
    moves : (int, float, float)
        How many words may change, and by how much a word's share falls and grows.
    near : (n,) array
        Where the gain of the last change of each row may be; 0 where nobody knows.
    table : (d [+ 1], n_labels) array
    """
    found, room = np.empty(X.shape[0]), longest_row(X.indptr) + 1

    def ask(part: slice) -> None:
        losses_words(
            X.indptr[part.start : part.stop + 1], X.indices, X.data, codes[part], cost, intercept,
            *moves, near[part], table, found[part], *workspace(1, room, len(cost), *moves[1:]),
        )  # fmt: skip

    in_threads(ask, len(found), X.nnz * len(cost))
    return found
