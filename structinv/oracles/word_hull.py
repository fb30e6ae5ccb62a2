"""Dual states of two-class losses on sparse rows, whose words may be rescaled or dropped."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from ..compiled import njit
from ..matrices import Matrix, with_data
from .base import Hull
from .word_kernels import (
    combine,
    deviate,
    robust_losses,
    squares,
    sweep_identity,
    sweep_words,
    worst_edit,
)


class IdentityHull(Hull):
    r"""Dual state of the plain hinge loss: one level per row.

    .. math:: w = \sum_i c_i \tau_i y_i x_i, \quad 0 \le \tau_i \le 1.

    Parameters
    ----------
    X : csr_matrix of shape (n, d)
        Rows in canonical format.
    signs : array of shape (n,)
        Labels, 1 or -1.
    weights : array of shape (n,)
        Nonnegative weights :math:`c_i` of the losses.
    intercept : bool
        Whether a constant feature 1 follows the d features.
    """

    shares = True

    def __init__(self, X, signs, weights, *, intercept=False):
        self.X = X
        self.signs = np.ascontiguousarray(signs, dtype=np.float64)
        self.weights = np.array(weights, dtype=np.float64)
        self.intercept = bool(intercept)
        self.square = squares(X.indptr, X.data)
        self.tau = np.zeros(X.shape[0])

    @property
    def offset(self):
        r"""Linear part of the dual, :math:`\sum_i c_i \tau_i`."""
        return float(self.weights @ self.tau)

    def sweep(self, f, order, gaps):
        """Improve the blocks of the rows in ``order`` and update ``f`` in place.

        Parameters
        ----------
        f : array of shape (d,) or (d + 1,)
            Parameters of the state, the intercept last.
        order : integer array
            Rows to visit.
        gaps : array of shape (n,)
            Receives the gap of each visited row, as found before its update.
        """
        X = self.X
        sweep_identity(
            X.indptr,
            X.indices,
            X.data,
            self.signs,
            self.weights,
            self.square,
            self.tau,
            self.intercept,
            f,
            order,
            gaps,
        )

    @property
    def levels(self):
        """See `Hull.levels`."""
        return self.tau

    def rescale(self, rows, factors):
        """See `Hull.rescale`."""
        self.weights[rows] *= factors
        self.tau[rows] = np.minimum(self.tau[rows] / factors, 1.0)

    def candidates(self, f, rows):
        """See `Hull.candidates`."""
        part = self.X[rows]
        averages = with_data(part, np.empty(part.nnz))
        X = self.X
        _average_entries(X.indptr, X.data, self._deviations(), self.tau, rows, averages.data)
        corners = self._corners(f, rows, part)
        return averages, corners, corners

    def _corners(self, f, rows, part):
        return part

    def absorb(self, rows, chosen, keep, steps, corners):
        """See `Hull.absorb`."""
        mine = rows[chosen]
        self.tau[mine] = keep * self.tau[mine] + steps

    def losses(self, f):
        """See `Hull.losses`."""
        return self._losses(f, np.zeros(0), 0, 0.0, 0.0)

    def _losses(self, f, mu, max_changes, drop, grow):
        X = self.X
        return robust_losses(
            X.indptr, X.indices, X.data, self.signs, mu, max_changes, drop, grow, self.intercept, f
        )

    def restore(self, normals: Matrix, levels: np.ndarray) -> None:
        """See `Hull.restore`."""
        self.tau = np.clip(levels, 0.0, 1.0)

    def combination(self):
        """Parameters recomputed from the state."""
        X = self.X
        f = np.zeros(X.shape[1] + self.intercept)
        combine(
            X.indptr,
            X.indices,
            X.data,
            self._deviations(),
            self.tau,
            self.weights * self.signs,
            self.intercept,
            f,
        )
        return f

    def planes(self):
        r"""Normals :math:`y_i x_i \circ \varphi_i` as a CSR matrix, and levels."""
        X = self.X
        length = np.diff(X.indptr)
        values = np.repeat(self.tau, length)
        if self._deviations().size:
            values += self._deviations()
        values *= X.data
        values *= np.repeat(self.signs, length)
        return sp.csr_matrix((values, X.indices, X.indptr), shape=X.shape), self.tau.copy()

    def _deviations(self):
        return np.zeros(0, dtype=self.X.dtype)


class WordHull(IdentityHull):
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
        super().__init__(X, signs, weights, intercept=intercept)
        self.max_changes = int(max_changes)
        some = self.max_changes > 0
        self.drop = (1.0 - low) * some
        self.grow = (high - 1.0) * some
        self.delta = np.zeros(X.nnz, dtype=X.dtype)
        self.mu = np.zeros(X.shape[0])

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
            self.square,
            self.tau,
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
        workspace = np.zeros(X.shape[1])
        deviate(
            X.indptr,
            X.indices,
            X.data,
            N.indptr,
            N.indices,
            N.data,
            self.signs,
            self.tau,
            self.max_changes,
            self.drop,
            self.grow,
            workspace,
            self.delta,
        )

    def rescale(self, rows, factors):
        """See `Hull.rescale`."""
        super().rescale(rows, factors)
        _scale_entries(self.X.indptr, self.delta, rows, 1.0 / factors)

    def _corners(self, f, rows, part):
        w = f[: part.shape[1]]
        directions, assign = np.stack([-w, w]), (self.signs[rows] < 0).astype(np.int64)
        edited, values, sizes = part.data.copy(), np.empty(len(rows)), np.empty(len(rows))
        worst_edit(
            part.indptr, part.indices, part.data, directions, assign, self.max_changes,
            1.0 - self.drop, 1.0 + self.grow, edited, values, sizes,
        )  # fmt: skip
        return with_data(part, edited)

    def absorb(self, rows, chosen, keep, steps, corners):
        """See `Hull.absorb`."""
        super().absorb(rows, chosen, keep, steps, corners)
        X = self.X
        _absorb_entries(
            X.indptr, X.data, self.delta, rows, chosen, keep, steps, corners.indptr, corners.data
        )

    def losses(self, f):
        """See `Hull.losses`."""
        return self._losses(f, self.mu, self.max_changes, self.drop, self.grow)

    def _deviations(self):
        return self.delta


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
            averages[at] = data[e] * (tau[i] + (delta[e] if delta.size else 0.0))
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
