"""Dual state of the two-class hinge loss on sparse rows, whose words may be rescaled or dropped."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from ..compiled import njit
from ..matrices import Matrix, with_data
from .identity_hull import IdentityHull
from .word_kernels import combine, deviate, robust_losses, sweep_words, worst_edit


class DeviatingHull(IdentityHull):
    r"""Dual state of the hinge loss where words of rows are multiplied by factors.

    .. math:: w = \sum_i c_i y_i\, x_i \circ (\tau_i + \delta_i) .

    Attributes
    ----------
    delta : (nnz,) array
        The deviation of each word's factor from the level of its row.
    mu : (n,) array
        The last gain that was worth a change of the budget, for each row.
    """

    def __init__(
        self, X: sp.csr_matrix, signs: np.ndarray, weights: np.ndarray, intercept: bool = False
    ) -> None:
        super().__init__(X, signs, weights, intercept)
        self.delta = np.zeros(X.nnz, dtype=X.dtype)
        self.mu = np.zeros(X.shape[0])

    def combination(self) -> np.ndarray:
        """See `Hull.combination`."""
        X, rates = self.X, self.weights * self.signs
        f = np.zeros(X.shape[1] + self.intercept)
        combine(X.indptr, X.indices, X.data, self.delta, self.levels, rates, self.intercept, f)
        return f

    def planes(self) -> tuple[Matrix, np.ndarray]:
        r"""See `Hull.planes`; normals :math:`y_i x_i \circ (\tau_i + \delta_i)` as a CSR matrix."""
        X, length = self.X, np.diff(self.X.indptr)
        values = (np.repeat(self.levels, length) + self.delta) * X.data
        return with_data(X, values * np.repeat(self.signs, length)), self.levels.copy()


class WordHull(DeviatingHull):
    r"""Dual state of the hinge loss under rescaled or dropped words.

    .. math:: w = \sum_i c_i y_i\, x_i \circ (\tau_i + \delta_i), \quad
       \sum_j \max\Bigl(\frac{-\delta_{ij}}{1-l}, \frac{\delta_{ij}}{u-1}\Bigr)
       \le K \tau_i .

    Parameters
    ----------
    X, signs, weights, intercept
        As for `IdentityHull`; the intercept is never changed.
    max_changes : int
        Number :math:`K` of words that may change.
    low, high : float
        Range of the factors, ``0 <= low <= 1 <= high``.
    """

    def __init__(self, X, signs, weights, *, max_changes, low, high, intercept=False):
        super().__init__(X, signs, weights, intercept)
        self.max_changes = int(max_changes)
        some = self.max_changes > 0
        self.drop = (1.0 - low) * some
        self.grow = (high - 1.0) * some

    def sweep(self, f, order, gaps):
        """See `IdentityHull.sweep`."""
        X = self.X
        sweep_words(
            X.indptr,
            X.indices,
            X.data,
            self.delta,
            self.signs,
            self.weights,
            self.squares,
            self.levels,
            self.mu,
            self.max_changes,
            self.drop,
            self.grow,
            self.intercept,
            f,
            order,
            gaps,
        )

    def restore(self, normals: Matrix, levels: np.ndarray) -> None:
        """See `Hull.restore`; what does not fit the bounds or the budget is shrunk until it does."""
        super().restore(normals, levels)
        X, N = self.X, sp.csr_matrix(normals)
        deviate(
            X.indptr,
            X.indices,
            X.data,
            N.indptr,
            N.indices,
            N.data,
            self.signs,
            self.levels,
            self.max_changes,
            self.drop,
            self.grow,
            np.ones(X.nnz),
            np.zeros(X.shape[1]),
            self.delta,
        )

    def rescale(self, rows, factors):
        """See `Hull.rescale`."""
        super().rescale(rows, factors)
        _scale_entries(self.X.indptr, self.delta, rows, 1.0 / factors)

    def candidates(self, f, rows):
        """See `Hull.candidates`."""
        X, part = self.X, self.X[rows]
        averages = with_data(part, np.empty(part.nnz))
        _average_entries(X.indptr, X.data, self.delta, self.levels, rows, averages.data)
        w = f[: part.shape[1]]
        directions, assign = np.stack([-w, w]), (self.signs[rows] < 0).astype(np.int64)
        edited, values, sizes = part.data.copy(), np.empty(len(rows)), np.empty(len(rows))
        worst_edit(
            part.indptr, part.indices, part.data, directions, assign, self.max_changes,
            1.0 - self.drop, 1.0 + self.grow, edited, values, sizes,
        )  # fmt: skip
        corners = with_data(part, edited)
        return averages, corners, corners

    def absorb(self, rows, chosen, keep, steps, corners):
        """See `Hull.absorb`."""
        super().absorb(rows, chosen, keep, steps, corners)
        X = self.X
        _absorb_entries(
            X.indptr, X.data, self.delta, rows, chosen, keep, steps, corners.indptr, corners.data
        )

    def losses(self, f):
        """See `Hull.losses`."""
        X = self.X
        return robust_losses(
            X.indptr, X.indices, X.data, self.signs, self.mu, self.max_changes, self.drop, self.grow,
            self.intercept, f,
        )  # fmt: skip


@njit(cache=True, nogil=True)
def _scale_entries(indptr, entries, rows, factors):
    for r in range(len(rows)):
        for e in range(indptr[rows[r]], indptr[rows[r] + 1]):
            entries[e] *= factors[r]


@njit(cache=True, nogil=True)
def _average_entries(indptr, data, delta, tau, rows, averages):
    at = 0
    for i in rows:
        for e in range(indptr[i], indptr[i + 1]):
            averages[at] = data[e] * (tau[i] + delta[e])
            at += 1


@njit(cache=True, nogil=True)
def _absorb_entries(indptr, data, delta, rows, chosen, keep, steps, corner_indptr, corners):
    """Deviations of a share of each plane and a step of its corner, whose factors differ from one."""
    for r in range(len(chosen)):
        start, other = indptr[rows[chosen[r]]], corner_indptr[chosen[r]]
        for e in range(corner_indptr[chosen[r] + 1] - other):
            delta[start + e] *= keep[r]
            x = data[start + e]
            if x != 0.0 and steps[r] != 0.0:
                delta[start + e] += steps[r] * (corners[other + e] - x) / x
