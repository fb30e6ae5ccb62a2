"""Dual states of joint losses of labels, for unperturbed rows and word edits."""

from __future__ import annotations

import numpy as np

from ..oracles.words.kernels import LabelRows
from ..spaces.base import Element
from ..utils.matrices import (
    csr,
    csr_arrays,
    in_threads,
    longest_row,
    ranges,
    short_indices,
    squared_lengths,
)
from ..utils.row_arrays import Arrays
from . import case as needs
from .base import DualState, FocusedSweeps, rows_at_once
from .case import Case
from .label_steps import Pairs, combine_labels, label_work, losses_of_labels, sweep_labels
from .label_word_steps import (
    NEWCOMERS,
    Deviations,
    combine_label_words,
    sweep_label_words,
    workspace,
)
from .word_state import shrunk

# For at most this number of labels, every visit includes all of them.
FEW_LABELS = 4
# Number of products between two checks of the time.
PRODUCTS_AT_ONCE = 100_000_000
# Minimum free capacity of a new pool of pairs. The first pools have memory for a few pairs per row, and
# for some deviations per pair.
LEAST_PAIRS, PAIRS_OF_A_ROW, WORDS_OF_A_PAIR = 4096, 4, 4
# If all labels compete, rows with at most this fraction of the mean gap keep their words.
IDLE = 0.1


class LabelState(FocusedSweeps, DualState):
    r"""Dual variables of the plain multiclass loss: one tau per row and label.

    The loss of row i with true label c is

    .. math:: \ell_i(W) = \max_{k,\, z \in S(x_i)} \langle w_k - w_c, z \rangle + D_{ck},
       \quad D_{cc} = 0.

    Each pair of a row and another label k has one averaged plane. It consists of a dual variable tau
    and a point of tau times the convex hull of S(x), here tau x. The taus of a row add up to at most 1:

    .. math:: W = \sum_i c_i \sum_k \tau_{ik} (e_{y_i} - e_k) \otimes x_i, \quad
       \tau_{ik} \ge 0, \quad \sum_k \tau_{ik} \le 1

    (Crammer and Singer 2001). An update is exact over the labels of the row's active set. Only pairs
    with a positive tau take memory, so memory does not grow with the number of labels. Weights are a
    C-contiguous array of shape (n_features, n_labels). With an intercept, the last of n_features + 1
    rows belongs to a constant feature that no oracle changes.
    """

    name = "labels"
    packs_rows = True
    quick_value = True
    far_off, enough = 0.4, 0.3

    def __init__(self, case: Case, rng: np.random.Generator) -> None:
        self.term, self.space, self.rng = case.term, case.space, rng
        self.X = short_indices(csr(case.edits.rows))
        bound_structure = self.term.bound_structure
        codes = np.ascontiguousarray(bound_structure.codes, dtype=np.int64)
        cost = np.ascontiguousarray(bound_structure.cost, dtype=np.float64)
        self.problem = LabelRows(*csr_arrays(self.X), codes, cost, self.space.intercept)
        self.weights = np.array(self.term.weights, dtype=np.float64)
        self.squares = squared_lengths(self.X)
        self.rows = np.flatnonzero(self.weights > 0)
        self.gaps = np.zeros(len(codes))
        self.rows_at_once = rows_at_once(self.term.bound.X, PRODUCTS_AT_ONCE // self.space.n_outputs)
        slots, size = np.zeros((len(codes), 3), np.int64), LEAST_PAIRS + PAIRS_OF_A_ROW * len(codes)
        labels, taus, used = np.zeros(size, np.int32), np.zeros(size), np.zeros(1, dtype=np.int64)
        self.pairs = Pairs(slots, labels, taus, used)

    @staticmethod
    def refuses(case: Case) -> str:
        return needs.loss_of_labels(case) or needs.keeps_words(case)

    @property
    def n_labels(self) -> int:
        """Number of labels."""
        return len(self.problem.cost)

    @property
    def offset(self) -> float:
        slots, labels, taus, _ = self.pairs
        places, rows = ranges(slots[:, 0], slots[:, 1])
        cost = self.problem.cost[self.problem.codes[rows], labels[places]]
        return float(self.weights[rows] * cost @ taus[places])

    def _step(self, f: Element, order: np.ndarray, again: bool) -> None:
        # Additional passes include only a few labels of each row.
        every_label = not again or self.space.n_outputs <= FEW_LABELS
        table = self.space.table(f)
        done = self._sweep(table, order, every_label)
        while done < len(order):
            self._grow_pools(order[done])
            order = order[done:]
            done = self._sweep(table, order, every_label)

    def _sweep(self, table: np.ndarray, order: np.ndarray, every_label: bool) -> int:
        """Update rows until a pool is full; return the number of updated rows."""
        rows = self.problem, self.weights, self.squares, self.pairs
        return sweep_labels(*rows, table, order, self.gaps, every_label, label_work(self.n_labels))

    def _grow_pools(self, row: int) -> None:
        """Move pairs to larger pools without gaps, with capacity for `row`."""
        slots, labels, taus, used = self.pairs
        size = self._pool_size()
        self.pairs = Pairs(slots, _compacted(slots, labels, size), _compacted(slots, taus, size), used)
        _side_by_side(slots, used)

    def _pool_size(self) -> int:
        """Return the capacity of new pools: twice the used pairs, and enough for any row."""
        return 2 * int(self.pairs.slots[:, 1].sum()) + 2 * self.n_labels + LEAST_PAIRS

    def value(self, f: Element) -> tuple[float, float]:
        values, table = np.empty(len(self.weights)), self.space.table(f)

        def compute(part: slice) -> None:
            work = np.empty(self.n_labels)
            losses_of_labels(self.problem.part(part), table, values[part], work)

        in_threads(compute, len(values), self.X.nnz * self.n_labels)
        value = float(self.weights @ values)
        return value, value

    def combination(self) -> Element:
        f = self.space.zeros()
        work = label_work(self.n_labels)
        combine_labels(self.problem, self.weights, self.pairs, self.space.table(f), work)
        return f

    def arrays(self) -> Arrays:
        counts, (labels, taus) = _listed(self.pairs.slots, self.pairs.labels, self.pairs.taus)
        gaps = self.gaps.astype(np.float32)
        return {"gaps": gaps, "pairs.counts": counts, "pairs.labels": labels, "pairs.taus": taus}

    def _start(self, arrays: Arrays, f: Element) -> int:
        self.gaps[:] = arrays["gaps"]
        rows, labels, taus = _feasible_pairs(arrays, self.problem.codes, self.n_labels)
        counts = np.bincount(rows, minlength=len(self.gaps))
        slots, _, _, used = self.pairs
        self.pairs = Pairs._make((slots, *_pooled(slots, used, counts, labels, taus), used))
        return 0


class WordLabelState(LabelState):
    r"""Dual variables of the multiclass loss with removed or rescaled words.

    .. math:: W = \sum_i c_i \sum_k (e_{y_i} - e_k) \otimes x_i \circ (\tau_{ik} + \delta_{ik}), \quad
       \sum_j \max\Bigl(\frac{-\delta_{ikj}}{1-l}, \frac{\delta_{ikj}}{u-1}\Bigr) \le K \tau_{ik} .

    Only nonzero deviations are stored, so memory grows with the number of pairs with a
    positive tau.

    Shapes: `mu` (n_rows,), the K-th largest gain of each row in its last update.
    """

    name = "word_labels"
    # The oracle computes the losses as fast.
    quick_value = False
    value = DualState.value

    def __init__(self, case: Case, rng: np.random.Generator) -> None:
        super().__init__(case, rng)
        n_rows = len(self.weights)
        self.mu = np.zeros(n_rows)
        self.capacity = longest_row(self.X.indptr) + 1
        self.moves = case.edits.moves(self.capacity, case.edits.changed)
        slots, sizes = np.zeros((n_rows, 3), np.int64), np.zeros(len(self.pairs.taus), np.int32)
        size = WORDS_OF_A_PAIR * len(sizes)
        words, values, used = np.zeros(size, np.int32), np.zeros(size), np.zeros(1, dtype=np.int64)
        self.deviations = Deviations(slots, sizes, words, values, used)

    @staticmethod
    def refuses(case: Case) -> str:
        return needs.loss_of_labels(case) or needs.one_edit_a_word(case)

    def _sweep(self, table: np.ndarray, order: np.ndarray, every_label: bool) -> int:
        most = int(self.pairs.slots[order, 1].max(initial=0)) + NEWCOMERS + 2
        work = workspace(most, self.capacity, self.n_labels, self.moves.drop, self.moves.grow)
        least = IDLE * float(self.gaps.mean()) if every_label else 0.0
        return sweep_label_words(
            self.problem, self.weights, self.squares, self.moves, self.mu, self.pairs, self.deviations,
            table, order, self.gaps, least, every_label, work,
        )  # fmt: skip

    def _grow_pools(self, row: int) -> None:
        slots, sizes, words, values, used = self.deviations
        sizes = _compacted(self.pairs.slots, sizes, self._pool_size())
        super()._grow_pools(row)
        longest = int(self.X.indptr[row + 1] - self.X.indptr[row])
        most = 2 * (int(self.pairs.slots[row, 1]) + LEAST_PAIRS // 64)
        size = 2 * int(slots[:, 1].sum()) + most * longest + LEAST_PAIRS
        words, values = _compacted(slots, words, size), _compacted(slots, values, size)
        self.deviations = Deviations(slots, sizes, words, values, used)
        _side_by_side(slots, used)

    def combination(self) -> Element:
        f = self.space.zeros()
        combine_label_words(self.problem, self.weights, self.pairs, self.deviations, self.space.table(f))
        return f

    def arrays(self) -> Arrays:
        slots, sizes, words, values, _ = self.deviations
        sizes = _listed(self.pairs.slots, sizes)[1][0]
        n_words, (places, deviations) = _listed(slots, words, values)
        pairs = super().arrays()
        return {
            **pairs,
            "mu": self.mu.astype(np.float32),
            "words.counts": n_words,
            "words.labels": np.repeat(pairs["pairs.labels"], sizes),
            "words.places": places,
            "words.deviations": deviations,
        }

    def _start(self, arrays: Arrays, f: Element) -> int:
        super()._start(arrays, f)
        self.mu[:] = arrays["mu"]
        n_rows, lengths = len(self.weights), np.diff(self.X.indptr)
        # Pair of each deviation, by row and label.
        rows = np.repeat(np.arange(n_rows), arrays["words.counts"])
        owners, places = np.repeat(np.arange(n_rows), self.pairs.slots[:, 1]), arrays["words.places"]
        keys = owners * self.n_labels + self.pairs.labels[: len(owners)]
        pairs = _places_of(rows * self.n_labels + arrays["words.labels"], keys)
        valid = np.flatnonzero((pairs >= 0) & (places >= 0) & (places < lengths[rows]))
        valid = valid[np.argsort(pairs[valid], kind="stable")]
        sizes = np.bincount(pairs[valid], minlength=len(owners))
        (most, drop, grow, changed), taus = self.moves, self.pairs.taus[: len(owners)]
        budgets = most * taus * changed[owners]
        deviations, _ = shrunk(arrays["words.deviations"][valid], sizes, taus, budgets, drop, grow)
        sizes = np.concatenate([sizes, np.zeros(LEAST_PAIRS, int)]).astype(np.int32)
        n_words = np.bincount(rows[valid], minlength=n_rows)
        slots, *_, used = self.deviations
        pools = _pooled(slots, used, n_words, places[valid].astype(np.int32), deviations)
        self.deviations = Deviations._make((slots, sizes, *pools, used))
        return 0


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


def _pooled(
    slots: np.ndarray, used: np.ndarray, counts: np.ndarray, *entries: np.ndarray
) -> list[np.ndarray]:
    """Return pools with spare capacity from entries row by row, and set `slots` and `used`."""
    slots[:, 1] = counts
    _side_by_side(slots, used)
    return [np.concatenate([each, np.zeros(LEAST_PAIRS, each.dtype)]) for each in entries]


def _side_by_side(slots: np.ndarray, used: np.ndarray) -> None:
    """Set the starts and capacities of rows in a pool without gaps, and its used part."""
    slots[:, 0] = np.cumsum(slots[:, 1]) - slots[:, 1]
    slots[:, 2] = slots[:, 1]
    used[0] = slots[:, 1].sum()
