"""Dual state of the two-class hinge loss on sparse rows whose words may be rescaled or dropped."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from ...utils.matrices import Matrix, longest_row, ranges, with_data
from ...utils.packed_rows import PackedRows, RaggedLists
from ..identity_hull import IdentityHull
from ..query import rows_at
from .word_edits import WordEdits
from .word_kernels import WORK_ROWS, deviate, sweep_words

# Entries of rows that are combined at a time.
_BLOCK = 2**18


class WordHull(IdentityHull):
    r"""Dual state of the hinge loss under rescaled or dropped words.

    .. math:: w = \sum_i c_i y_i\, x_i \circ (\tau_i + \delta_i), \quad
       \sum_j n_{ij} \max\Bigl(\frac{-\delta_{ij}}{1-l}, \frac{\delta_{ij}}{u-1}\Bigr)
       \le K \tau_i ,

    with n = 1; or where single occurrences are changed, the number of occurrences of each word.

    Parameters
    ----------
    X, signs, weights, intercept
        As for `IdentityHull`; the intercept is never changed.
    edits : WordEdits
        Number :math:`K` of words that may change, and the range :math:`[l, u]` of their factors.
    tallies : (nnz,) array of int64, optional
        How often each word occurs in its text, where at most K occurrences may change: each of n is a
        share 1 / n of the word. Such a state does not share levels.

    Attributes
    ----------
    delta : (nnz,) array
        The deviation of each word's factor from the level of its row.
    mu : (n,) array
        The last gain that was worth a change of the budget, for each row.
    """

    def __init__(
        self,
        X: sp.csr_matrix,
        signs: np.ndarray,
        weights: np.ndarray,
        edits: WordEdits,
        intercept: bool = False,
        tallies: np.ndarray | None = None,
    ) -> None:
        super().__init__(X, signs, weights, intercept)
        self.edits = edits
        self.delta = np.zeros(X.nnz, dtype=X.dtype)
        self.mu = np.zeros(X.shape[0])
        self.shares = tallies is None
        self.tallies = np.empty(0, dtype=np.int64) if tallies is None else tallies
        # Rows with an entry for each unit of the budget that a word can take.
        self.units = X if tallies is None else _occurrences(X, tallies)
        # Room for the longest row and one more: sweeps over few rows need not look for it.
        self.room = longest_row(self.units.indptr) + 1
        self.max_changes, self.drop, self.grow = edits.moves(self.room)

    def combination(self) -> np.ndarray:
        rates = self.weights * self.signs
        return deviating_combination(self.X, self.delta, self.levels, rates, self.intercept)

    def planes(self) -> tuple[Matrix, np.ndarray]:
        r"""See `Hull.planes`; normals :math:`y_i x_i \circ (\tau_i + \delta_i)` as a CSR matrix."""
        return self.normals_of(np.arange(self.X.shape[0])), self.levels.copy()

    def normals_of(self, rows: np.ndarray) -> Matrix:
        some = rows_at(self.X, rows)
        levels, signs = (
            np.repeat(each[rows], np.diff(some.indptr)) for each in (self.levels, self.signs)
        )
        delta = self.delta if some is self.X else self.delta[_entries(self.X.indptr, rows)[0]]
        return with_data(some, (levels + delta) * some.data * signs)

    def sweep(self, f: np.ndarray, order: np.ndarray, gaps: np.ndarray) -> None:
        X = self.X
        sweep_words(
            X.indptr, X.indices, X.data, self.tallies, self.delta, self.signs, self.weights,
            self.squares, self.levels, self.mu, self.max_changes, self.drop, self.grow, self.intercept,
            f, order, gaps, np.empty((WORK_ROWS, self.room)), np.empty(self.room, dtype=np.int64),
        )  # fmt: skip

    def restore(self, normals: Matrix, levels: np.ndarray) -> None:
        """See `Hull.restore`; what does not fit the bounds or the budget is shrunk until it does."""
        super().restore(normals, levels)
        X, N = self.X, sp.csr_matrix(normals)
        costs = np.ones(X.nnz) if self.shares else self.tallies.astype(np.float64)
        deviate(
            X.indptr, X.indices, X.data, N.indptr, N.indices, N.data, self.signs, self.levels,
            self.max_changes, self.drop, self.grow, costs, np.zeros(X.shape[1]), self.delta,
        )  # fmt: skip

    def pack(self):
        """See `Hull.pack`; of the deviations those that are not zero, by their places in the row."""
        changed = np.flatnonzero(self.delta)
        counts = np.diff(np.searchsorted(changed, self.X.indptr))
        places = changed - np.repeat(self.X.indptr[:-1], counts)
        short = np.uint16 if self.room <= 2**16 else np.int32
        entries = places.astype(short), self.delta[changed]
        own = super().pack()
        words = RaggedLists(counts.astype(np.int32), entries)
        return PackedRows((*own.each, self.mu.astype(np.float32)), (words,))

    def unpack(self, packed, n_features):
        super().unpack(packed, n_features)
        self.mu[:] = packed.each[-1]
        (words,) = packed.lists
        places, deviations = words.entries
        self.delta[np.repeat(self.X.indptr[:-1], words.counts) + places] = deviations

    def rescale(self, rows, factors):
        super().rescale(rows, factors)
        entries, row = _entries(self.X.indptr, rows)
        self.delta[entries] /= factors[row]

    def candidates(self, f, rows):
        X, part = self.X, self.X[rows]
        own = with_data(X, self.delta)[rows].data
        levels = np.repeat(self.levels[rows], np.diff(part.indptr))
        averages = with_data(part, part.data * (levels + own))
        corners, _ = self.edits.worst(part, *self._directions(f, rows))
        return averages, corners, corners

    def _directions(self, f, rows):
        """The directions in which rows lose most, and which of them each row faces."""
        w = f[: self.X.shape[1]]
        return np.stack([-w, w]), (self.signs[rows] < 0).astype(np.int64)

    def absorb(self, rows, chosen, keep, steps, corners):
        """See `Hull.absorb`; deviations of a corner are those of its factors from 1."""
        super().absorb(rows, chosen, keep, steps, corners)
        entries, row = _entries(self.X.indptr, rows[chosen])
        x, corner = self.X.data[entries], corners.data[_entries(corners.indptr, chosen)[0]]
        moved = (x != 0) & (steps[row] != 0)
        self.delta[entries] *= keep[row]
        share = steps[row[moved]] * (corner[moved] - x[moved]) / x[moved]
        self.delta[entries[moved]] += share

    def losses(self, f):
        """See `Hull.losses`; the last K-th gain of each row is where the search for the next begins."""
        V, assign = self._directions(f, slice(None))
        values, _ = self.edits.maxima(self.units, V, assign, self.mu)
        return np.maximum(0.0, 1.0 - self.signs * f[self.X.shape[1] :].sum() + values)


def _occurrences(X: sp.csr_matrix, tallies: np.ndarray) -> sp.csr_matrix:
    """The rows with an entry for each occurrence of a word, each of an equal share of it."""
    units = sp.csr_matrix(X.shape, dtype=X.dtype)
    units.indices, units.data = np.repeat(X.indices, tallies), np.repeat(X.data / tallies, tallies)
    units.indptr = np.concatenate([[0], np.cumsum(tallies)])[X.indptr].astype(X.indptr.dtype)
    return units


def _entries(indptr: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The entries of some rows of a CSR matrix, and for each the place of its row in `rows`."""
    return ranges(indptr[rows], np.diff(indptr)[rows])


def deviating_combination(
    X: sp.csr_matrix, delta: np.ndarray, levels: np.ndarray, rates: np.ndarray, intercept: bool
) -> np.ndarray:
    """Sum of ``rates[i]`` times the averaged point of each row, in blocks that bound the memory.

    The averaged point of row i is its data times ``levels[i] + delta``.
    """
    f = np.zeros(X.shape[1] + intercept)
    edges = np.unique(np.searchsorted(X.indptr, np.arange(0, X.nnz + _BLOCK, _BLOCK)))
    edges = np.append(edges[edges < len(levels)], len(levels))
    for start, stop in zip(edges[:-1], edges[1:], strict=True):
        rows, entries = slice(start, stop), slice(X.indptr[start], X.indptr[stop])
        indptr = X.indptr[start : stop + 1] - X.indptr[start]
        factors = np.repeat(levels[rows], np.diff(indptr)) + delta[entries]
        data, indices = factors * X.data[entries], X.indices[entries]
        block = sp.csr_matrix((data, indices, indptr), shape=(stop - start, X.shape[1]))
        f[: X.shape[1]] += block.T @ rates[rows]
    if intercept:
        f[-1] = rates @ levels
    return f
