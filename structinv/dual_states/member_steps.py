"""Exact steps between the members that carry a row, on explicit points that are dense or CSR."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from ..compiled import njit
from ..matrices import Matrix
from .row_steps import ascend_row

# Of a row's gap, what its steps leave: all of them cost little beside the row's own products.
ROW_SHARE = 0.1


class CarryingMembers:
    """Points of some rows' members, over which the rows take steps again and again.

    Of CSR points only the columns that they use are looked at, so that a step costs their entries,
    whatever the number of features.

    Parameters
    ----------
    points : (n_entries, n_features) array or CSR matrix
    start : (n_rows + 1,) array of int
        Row r owns the points ``start[r]`` to ``start[r + 1] - 1``.
    """

    def __init__(self, points: Matrix, start: np.ndarray) -> None:
        self.start = start
        self.n_features = points.shape[1]
        self.columns: Any = slice(0, self.n_features)
        self.entries: tuple[np.ndarray, ...] = (points,)
        self.sweep: Any = _sweep_dense
        if sp.issparse(points):
            self.columns, places = np.unique(points.indices, return_inverse=True)
            self.entries = points.indptr, places.ravel(), points.data
            self.sweep = _sweep_csr

    def ascend(
        self, table: np.ndarray, order: np.ndarray, problem: tuple, masses: np.ndarray
    ) -> np.ndarray:
        """Exact steps in each row of `order` between its members; the gaps of these on arrival.

        Parameters
        ----------
        table : (n_features [+ 1], n_outputs) array
            Weights by feature, the constants last; changed in place.
        order : (m,) array of int
        problem : tuple
            Codes of the rows; outputs and signs of the labels; what these cost each row, and whether
            that is a factor, too; the members' grades; the rows' weights.
        masses : (n_entries, n_labels) array
            Changed in place.
        """
        gaps = np.zeros(len(self.start) - 1)
        # A copy of those columns only that the points use.
        weights = np.ascontiguousarray(table[self.columns])
        constants = table[self.n_features :].T.copy()
        rows = self.start, order, weights, constants
        self.sweep(*self.entries, *rows, *problem, masses, gaps)
        table[self.columns] = weights
        table[self.n_features :] = constants.T
        return gaps


@njit(cache=True, nogil=True)
def _sweep_dense(
    points, start, order, weights, constants, codes, outputs, signs, costs, slack, grades,
    row_weights, masses, gaps,
):  # fmt: skip
    n_features, n_outputs = weights.shape
    for r in order:
        mine = slice(start[r], start[r + 1])
        members = points[mine]
        q = len(members)
        if q == 0:
            continue
        local, moved = np.zeros((q, n_outputs)), np.zeros((q, n_outputs))
        kernel = np.zeros((q, q))
        for m in range(q):
            for j in range(n_features):
                x = members[m, j]
                if x == 0.0:
                    continue
                for k in range(n_outputs):
                    local[m, k] += x * weights[j, k]
                for other in range(m + 1):
                    kernel[m, other] += x * members[other, j]
            kernel[: m + 1, m] = kernel[m, : m + 1]
        _add_constants(local, kernel, constants)
        gaps[r] = ascend_row(
            local, moved, kernel, codes[r], outputs, signs, costs[r], slack, grades[mine],
            row_weights[r], masses[mine], ROW_SHARE,
        )  # fmt: skip
        for m in range(q):
            if not np.any(moved[m]):
                continue
            for j in range(n_features):
                x = members[m, j]
                if x != 0.0:
                    for k in range(n_outputs):
                        weights[j, k] += x * moved[m, k]
        _move_constants(moved, constants)


@njit(cache=True, nogil=True)
def _sweep_csr(
    indptr, places, data, start, order, weights, constants, codes, outputs, signs, costs, slack, grades,
    row_weights, masses, gaps,
):  # fmt: skip
    n_columns, n_outputs = weights.shape
    spread = np.zeros(n_columns)
    for r in order:
        first, q = start[r], start[r + 1] - start[r]
        if q == 0:
            continue
        mine = slice(first, start[r + 1])
        local, moved = np.zeros((q, n_outputs)), np.zeros((q, n_outputs))
        kernel = np.zeros((q, q))
        for m in range(q):
            for e in range(indptr[first + m], indptr[first + m + 1]):
                x = data[e]
                spread[places[e]] = x
                for k in range(n_outputs):
                    local[m, k] += x * weights[places[e], k]
            for other in range(m + 1):
                for e in range(indptr[first + other], indptr[first + other + 1]):
                    kernel[m, other] += spread[places[e]] * data[e]
            for e in range(indptr[first + m], indptr[first + m + 1]):
                spread[places[e]] = 0.0
            kernel[: m + 1, m] = kernel[m, : m + 1]
        _add_constants(local, kernel, constants)
        gaps[r] = ascend_row(
            local, moved, kernel, codes[r], outputs, signs, costs[r], slack, grades[mine],
            row_weights[r], masses[mine], ROW_SHARE,
        )  # fmt: skip
        for m in range(q):
            if not np.any(moved[m]):
                continue
            for e in range(indptr[first + m], indptr[first + m + 1]):
                for k in range(n_outputs):
                    weights[places[e], k] += data[e] * moved[m, k]
        _move_constants(moved, constants)


@njit(cache=True, nogil=True)
def _add_constants(local, kernel, constants):
    """What the constant feature of all points adds to values and inner products."""
    if constants.shape[1] > 0:
        kernel += 1.0
        for k in range(local.shape[1]):
            local[:, k] += constants[k, 0]


@njit(cache=True, nogil=True)
def _move_constants(moved, constants):
    if constants.shape[1] > 0:
        for k in range(moved.shape[1]):
            constants[k, 0] += np.sum(moved[:, k])
