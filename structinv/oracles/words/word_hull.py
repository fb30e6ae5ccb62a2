"""In-hull dual state of the two-class hinge loss for rescaled or removed words."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from ...utils.matrices import Matrix, longest_row, ranges, with_data
from ...utils.packed_rows import PackedRows, RaggedLists
from ..hulls import IdentityHull
from ..query import rows_at
from .word_edits import RowEdits
from .word_kernels import WORK_ROWS, deviate, sweep_words

# Number of matrix entries in memory at a time in `deviating_combination`.
_BLOCK = 2**18


class WordHull(IdentityHull):
    r"""In-hull dual state of the hinge loss for rescaled or removed words.

    .. math:: w = \sum_i c_i y_i\, x_i \circ (\tau_i + \delta_i), \quad
       \sum_j \max\Bigl(\frac{-\delta_{ij}}{1-l}, \frac{\delta_{ij}}{u-1}\Bigr)
       \le K \tau_i .

    Rows without ``edits.changed[i]`` have no deviations.

    Shapes: `signs` (n,), `weights` (n,), `delta` (nnz,), `mu` (n,).
    """

    def __init__(
        self, edits: RowEdits, signs: np.ndarray, weights: np.ndarray, intercept: bool = False
    ) -> None:
        X = edits.rows
        super().__init__(X, signs, weights, intercept)
        self.edits = edits
        self.delta = np.zeros(X.nnz, dtype=X.dtype)
        self.mu = np.zeros(X.shape[0])
        # Width of the workspaces of `sweep_words`.
        self.width = longest_row(X.indptr) + 1
        self.moves = edits.moves(self.width, edits.changed)

    def combination(self) -> np.ndarray:
        rates = self.weights * self.signs
        return deviating_combination(self.X, self.delta, self.taus, rates, self.intercept)

    def normals_of(self, rows: np.ndarray) -> Matrix:
        X = rows_at(self.X, rows)
        taus, signs = (np.repeat(each[rows], np.diff(X.indptr)) for each in (self.taus, self.signs))
        delta = self.delta if X is self.X else self.delta[_entries(self.X.indptr, rows)[0]]
        return with_data(X, (taus + delta) * X.data * signs)

    def sweep(self, f: np.ndarray, order: np.ndarray, gaps: np.ndarray) -> None:
        X = self.X
        sweep_words(
            X.indptr, X.indices, X.data, self.delta, self.signs, self.weights,
            self.squares, self.taus, self.mu, self.moves, self.intercept, f, order, gaps,
            np.empty((WORK_ROWS, self.width)), np.empty(self.width, dtype=np.int64),
        )  # fmt: skip

    def restore(self, normals: Matrix, taus: np.ndarray) -> None:
        # `deviate` shrinks infeasible deviations.
        super().restore(normals, taus)
        X, N = self.X, sp.csr_matrix(normals)
        deviate(
            X.indptr, X.indices, X.data, N.indptr, N.indices, N.data, self.signs, self.taus,
            *self.moves[:3], np.zeros(X.shape[1]), self.delta,
        )  # fmt: skip
        self.delta[np.repeat(~self.moves.changed, np.diff(X.indptr))] = 0.0

    def pack(self):
        # Few deviations are nonzero.
        changed = np.flatnonzero(self.delta)
        counts = np.diff(np.searchsorted(changed, self.X.indptr))
        places = changed - np.repeat(self.X.indptr[:-1], counts)
        short = np.uint16 if self.width <= 2**16 else np.int32
        entries = places.astype(short), self.delta[changed]
        inherited = super().pack()
        words = RaggedLists(counts.astype(np.int32), entries)
        return PackedRows((*inherited.arrays, self.mu.astype(np.float32)), (words,))

    def unpack(self, packed, n_features):
        super().unpack(packed, n_features)
        self.mu[:] = packed.arrays[-1]
        (words,) = packed.lists
        places, deviations = words.entries
        self.delta[np.repeat(self.X.indptr[:-1], words.counts) + places] = deviations

    def _directions(self, f, rows):
        """Return ``-w`` and ``w``, and the index of the one that increases each loss."""
        w = f[: self.X.shape[1]]
        return np.stack([-w, w]), (self.signs[rows] < 0).astype(np.int64)

    def losses(self, f):
        # `mu` has good guesses of the K-th largest gains.
        V, assign = self._directions(f, slice(None))
        values, _ = self.edits.maxima(self.X, V, assign, self.moves.changed, self.mu)
        return np.maximum(0.0, 1.0 - self.signs * f[self.X.shape[1] :].sum() + values)


def _entries(indptr: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return positions of the entries of CSR rows, and the index in `rows` of each."""
    return ranges(indptr[rows], np.diff(indptr)[rows])


def deviating_combination(
    X: sp.csr_matrix, delta: np.ndarray, taus: np.ndarray, rates: np.ndarray, intercept: bool
) -> np.ndarray:
    """Return the sum over all rows of ``rates[i]`` times the averaged point of row i.

    The averaged point of row i is its data times ``taus[i] + delta``. Blocks of rows bound the memory.
    """
    f = np.zeros(X.shape[1] + intercept)
    edges = np.unique(np.searchsorted(X.indptr, np.arange(0, X.nnz + _BLOCK, _BLOCK)))
    edges = np.append(edges[edges < len(taus)], len(taus))
    for start, stop in zip(edges[:-1], edges[1:], strict=True):
        rows, entries = slice(start, stop), slice(X.indptr[start], X.indptr[stop])
        indptr = X.indptr[start : stop + 1] - X.indptr[start]
        factors = np.repeat(taus[rows], np.diff(indptr)) + delta[entries]
        data, indices = factors * X.data[entries], X.indices[entries]
        block = sp.csr_matrix((data, indices, indptr), shape=(stop - start, X.shape[1]))
        f[: X.shape[1]] += block.T @ rates[rows]
    if intercept:
        f[-1] = rates @ taus
    return f
