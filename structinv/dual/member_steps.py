"""Exact pairwise steps between active members of rows, for dense and CSR points."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from ..utils.jit import njit
from ..utils.matrices import Matrix
from .row_steps import ascend_row

# Fraction of a row's gap at which its steps end. Steps cost little compared with inner products.
ROW_SHARE = 0.1


class ActiveMembers:
    """Points of some rows' active members, for repeated steps.

    For CSR points, a step costs the number of their entries, for any number of features.

    Shapes: `points` (n_entries, n_features), `start` (n_rows + 1,).
    """

    def __init__(self, points: Matrix, start: np.ndarray) -> None:
        self.start = start
        self.n_features = points.shape[1]
        self.columns: Any = slice(0, self.n_features)
        self.entries: tuple[np.ndarray, ...] = (points,)
        self.sweep: Any = _sweep_dense
        if sp.issparse(points):
            self.columns, places = np.unique(points.indices, return_inverse=True)
            spread = np.zeros(len(self.columns))
            self.entries = points.indptr, places.ravel(), points.data, spread
            self.sweep = _sweep_csr

    def ascend(
        self, table: np.ndarray, order: np.ndarray, problem: tuple, alphas: np.ndarray
    ) -> np.ndarray:
        """Do exact steps between the members of rows; return the gaps before them.

        Shapes: `order` (m,), `alphas` (n_entries, n_labels).
        """
        gaps = np.zeros(len(self.start) - 1)
        # A copy of the columns that the points use.
        weights = np.ascontiguousarray(table[self.columns])
        constants = table[self.n_features :].T.copy()
        # Workspace for the values and the changes of a row, and for the products of its members.
        most = np.diff(self.start).max(initial=0)
        room = np.empty((2, most, weights.shape[1])), np.empty((most, most))
        rows = self.start, order, weights, constants, *room
        self.sweep(*self.entries, *rows, *problem, alphas, gaps, ROW_SHARE)
        table[self.columns] = weights
        table[self.n_features :] = constants.T
        return gaps


@njit(cache=True, nogil=True)
def _sweep_dense(
    points, start, order, weights, constants, own, kernel, codes, outputs, signs, costs, slack, grades,
    row_weights, alphas, gaps, share,
):  # fmt: skip
    n_features, n_outputs = weights.shape
    bias = 1.0 if constants.shape[1] > 0 else 0.0
    for r in order:
        first, q = start[r], start[r + 1] - start[r]
        if q == 0:
            continue
        for m in range(q):
            for k in range(n_outputs):
                own[0, m, k], own[1, m, k] = 0.0, 0.0
            for other in range(m + 1):
                kernel[m, other] = 0.0
            for j in range(n_features):
                x = points[first + m, j]
                if x == 0.0:
                    continue
                for k in range(n_outputs):
                    own[0, m, k] += x * weights[j, k]
                for other in range(m + 1):
                    kernel[m, other] += x * points[first + other, j]
            # The constant feature of all points.
            for k in range(n_outputs if bias > 0.0 else 0):
                own[0, m, k] += constants[k, 0]
            for other in range(m + 1):
                kernel[m, other] += bias
                kernel[other, m] = kernel[m, other]
        gaps[r] = ascend_row(
            own[0], own[1], q, kernel, 0, codes[r], outputs, signs, costs[r], slack, grades,
            row_weights[r], alphas, first, share,
        )  # fmt: skip
        for m in range(q):
            moved = False
            for k in range(n_outputs):
                moved = moved or own[1, m, k] != 0.0
                if bias > 0.0:
                    constants[k, 0] += own[1, m, k]
            for j in range(n_features if moved else 0):
                x = points[first + m, j]
                if x != 0.0:
                    for k in range(n_outputs):
                        weights[j, k] += x * own[1, m, k]


@njit(cache=True, nogil=True)
def _sweep_csr(
    indptr, places, data, spread, start, order, weights, constants, own, kernel, codes, outputs, signs,
    costs, slack, grades, row_weights, alphas, gaps, share,
):  # fmt: skip
    n_outputs = weights.shape[1]
    bias = 1.0 if constants.shape[1] > 0 else 0.0
    for r in order:
        first, q = start[r], start[r + 1] - start[r]
        if q == 0:
            continue
        for m in range(q):
            for k in range(n_outputs):
                own[0, m, k], own[1, m, k] = 0.0, 0.0
            for e in range(indptr[first + m], indptr[first + m + 1]):
                x = data[e]
                spread[places[e]] = x
                for k in range(n_outputs):
                    own[0, m, k] += x * weights[places[e], k]
            for k in range(n_outputs if bias > 0.0 else 0):
                own[0, m, k] += constants[k, 0]
            for other in range(m + 1):
                product = 0.0
                for e in range(indptr[first + other], indptr[first + other + 1]):
                    product += spread[places[e]] * data[e]
                kernel[m, other] = kernel[other, m] = product + bias
            for e in range(indptr[first + m], indptr[first + m + 1]):
                spread[places[e]] = 0.0
        gaps[r] = ascend_row(
            own[0], own[1], q, kernel, 0, codes[r], outputs, signs, costs[r], slack, grades,
            row_weights[r], alphas, first, share,
        )  # fmt: skip
        for m in range(q):
            moved = False
            for k in range(n_outputs):
                moved = moved or own[1, m, k] != 0.0
                if bias > 0.0:
                    constants[k, 0] += own[1, m, k]
            if not moved:
                continue
            for e in range(indptr[first + m], indptr[first + m + 1]):
                for k in range(n_outputs):
                    weights[places[e], k] += data[e] * own[1, m, k]
