"""In-hull dual state of the two-class hinge loss for rescaled or removed words."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from ...utils.matrices import longest_row
from ...utils.row_arrays import Arrays
from ..hulls import IdentityHull
from .deviations import feasible_deviations, listed_deviations
from .word_edits import RowEdits
from .word_kernels import WORK_ROWS, sweep_words

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

    def sweep(self, f: np.ndarray, order: np.ndarray, gaps: np.ndarray) -> None:
        X = self.X
        sweep_words(
            X.indptr, X.indices, X.data, self.delta, self.signs, self.weights,
            self.squares, self.taus, self.mu, self.moves, self.intercept, f, order, gaps,
            np.empty((WORK_ROWS, self.width)), np.empty(self.width, dtype=np.int64),
        )  # fmt: skip

    def arrays(self) -> Arrays:
        # Few deviations are nonzero.
        words = listed_deviations(self.X.indptr, self.delta)
        return {**super().arrays(), "mu": self.mu.astype(np.float32), **words}

    def start(self, arrays: Arrays) -> None:
        super().start(arrays)
        self.mu[:] = arrays["mu"]
        most, drop, grow, changed = self.moves
        budgets = most * self.taus * changed
        self.delta[:], _ = feasible_deviations(arrays, self.X.indptr, self.taus, budgets, drop, grow)

    def _directions(self, f, rows):
        """Return ``-w`` and ``w``, and the index of the one that increases each loss."""
        w = f[: self.X.shape[1]]
        return np.stack([-w, w]), (self.signs[rows] < 0).astype(np.int64)

    def losses(self, f):
        # `mu` has good guesses of the K-th largest gains.
        V, assign = self._directions(f, slice(None))
        values, _ = self.edits.maxima(self.X, V, assign, self.moves.changed, self.mu)
        return np.maximum(0.0, 1.0 - self.signs * f[self.X.shape[1] :].sum() + values)


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
