"""Exact pairwise steps between the members of a row, for dense and CSR points."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from ..utils.jit import njit
from ..utils.matrices import Matrix

# Fraction of a row's gap at which its steps end. Steps cost little compared with inner products.
ROW_SHARE = 0.1
# Maximum number of pairwise steps on a row.
MOST_STEPS = 200


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


@njit(cache=True, nogil=True)
def ascend_row(
    own, moved, q, kernel, corner, c, outputs, signs, costs, slack, grades, weight, alphas, first, share
):  # fmt: skip
    """Do exact pairwise steps between the planes of a row until its gap is small.

    Return the weighted gap before the steps.

    Shapes: `own` (at least q, n_outputs), `moved` (at least q, n_outputs), `outputs` (n_labels,),
    `signs` (n_labels,), `costs` (n_labels,), `alphas` (..., n_labels).
    """
    arrival = -1.0
    for _ in range(MOST_STEPS):
        best, best_m, best_k = 0.0, -1, -1
        low, low_m, low_k = np.inf, -2, -1
        mean, used = 0.0, 0.0
        for m in range(q):
            truth, grade = signs[c] * own[m, outputs[c]], grades[first + m]
            for k in range(alphas.shape[1]):
                if k == c:
                    continue
                factor = costs[k] if slack else 1.0
                plane_value = costs[k] * grade + factor * (signs[k] * own[m, outputs[k]] - truth)
                if plane_value > best:
                    best, best_m, best_k = plane_value, m, k
                alpha = alphas[first + m, k]
                if alpha > 0.0:
                    mean += alpha * plane_value
                    used += alpha
                    if plane_value < low:
                        low, low_m, low_k = plane_value, m, k
        gap = weight * (best - mean)
        if arrival < 0.0:
            arrival = 0.0 if gap < 0.0 else gap
        if gap <= share * arrival:
            break
        if 1.0 - used > 1e-15 and low > 0.0:
            low, low_m, low_k = 0.0, -1, -1
        if low_m == -2 or best <= low:
            break
        # Summands of the two planes: those of the label and of the true label. Member -1 is the null
        # plane.
        up = costs[best_k] if slack else 1.0
        down = (costs[low_k] if slack else 1.0) if low_m >= 0 else 0.0
        parts = (
            (best_m, outputs[best_k], up * signs[best_k]),
            (best_m, outputs[c], -up * signs[c]),
            (low_m, outputs[low_k], -down * signs[low_k]),
            (low_m, outputs[c], down * signs[c]),
        )
        square = 0.0
        for m, k, size in parts:
            for other, j, factor in parts:
                if k == j and m >= 0 and other >= 0:
                    square += size * factor * kernel[corner + m, corner + other]
        curvature = weight * square
        limit = alphas[first + low_m, low_k] if low_m >= 0 else 1.0 - used
        step = limit if curvature * limit <= best - low else (best - low) / curvature
        if best_m >= 0:
            alphas[first + best_m, best_k] += step
        if low_m >= 0:
            alphas[first + low_m, low_k] = 0.0 if step == limit else alphas[first + low_m, low_k] - step
        for m, k, size in parts:
            if m >= 0:
                change = -weight * step * size
                moved[m, k] += change
                for other in range(q):
                    own[other, k] += change * kernel[corner + m, corner + other]
    return arrival
