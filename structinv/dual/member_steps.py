"""Exact pairwise steps between the members of rows: of points, and of atoms.

A block has rows of a kernel's space with the kernel matrix of their atoms.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ..spaces.atoms import AtomStore
from ..spaces.kernel_space import Expansion
from ..structures.competitors import Competitors
from ..utils.jit import LEAN, njit
from ..utils.matrices import Matrix

# Fraction of a row's gap at which its steps end. Steps cost little compared with inner products.
ROW_SHARE = 0.1
# Maximum number of pairwise steps on a row.
MOST_STEPS = 200
# Maximum number of passes over a block, and the fraction of its gap at which they end; the fraction of
# the mean gap below which rows are skipped; and the fraction of a row's gap at which its steps end.
MOST_PASSES, LEFT, ACTIVE, BLOCK_SHARE = 8, 0.1, 0.6, 0.5


class MemberLosses(NamedTuple):
    """Losses of rows over members and labels, for the compiled functions.

    - `codes` (n,), `costs` (n, n_labels): true label of each row, and the costs of all labels
    - `outputs, signs` (n_labels,): function and sign of each label
    - `slack`: whether costs are also factors of the gains
    - `grades`: factor of the costs of each member
    - `weights` (n,): weight of each loss
    """

    codes: np.ndarray
    costs: np.ndarray
    outputs: np.ndarray
    signs: np.ndarray
    slack: bool
    grades: np.ndarray
    weights: np.ndarray


def member_losses(competitors: Competitors, grades: np.ndarray, weights: np.ndarray) -> MemberLosses:
    """Return the losses of rows with some competitors."""
    labels = competitors.functions
    rows = competitors.codes, competitors.costs
    return MemberLosses(*rows, labels.outputs, labels.signs, competitors.slack, grades, weights)


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
        self, table: np.ndarray, order: np.ndarray, losses: MemberLosses, alphas: np.ndarray
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
        f, dual = (weights, constants), (losses, alphas, gaps)
        self.sweep(self.entries, self.start, order, *f, *room, *dual)
        table[self.columns] = weights
        table[self.n_features :] = constants.T
        return gaps


@njit(**LEAN)
def _sweep_dense(entries, start, order, weights, constants, work, kernel, losses, alphas, gaps):
    (points,) = entries
    n_features, n_outputs = weights.shape
    bias = 1.0 if constants.shape[1] > 0 else 0.0
    for r in order:
        first, q = start[r], start[r + 1] - start[r]
        if q == 0:
            continue
        for m in range(q):
            for k in range(n_outputs):
                work[0, m, k], work[1, m, k] = 0.0, 0.0
            for other in range(m + 1):
                kernel[m, other] = 0.0
            for j in range(n_features):
                x = points[first + m, j]
                if x == 0.0:
                    continue
                for k in range(n_outputs):
                    work[0, m, k] += x * weights[j, k]
                for other in range(m + 1):
                    kernel[m, other] += x * points[first + other, j]
            # The constant feature of all points.
            for k in range(n_outputs if bias > 0.0 else 0):
                work[0, m, k] += constants[k, 0]
            for other in range(m + 1):
                kernel[m, other] += bias
                kernel[other, m] = kernel[m, other]
        gaps[r] = _ascend_row(work, q, kernel, 0, r, losses, alphas, first, ROW_SHARE)
        for m in range(q):
            moved = False
            for k in range(n_outputs):
                moved = moved or work[1, m, k] != 0.0
                if bias > 0.0:
                    constants[k, 0] += work[1, m, k]
            for j in range(n_features if moved else 0):
                x = points[first + m, j]
                if x != 0.0:
                    for k in range(n_outputs):
                        weights[j, k] += x * work[1, m, k]


@njit(**LEAN)
def _sweep_csr(entries, start, order, weights, constants, work, kernel, losses, alphas, gaps):
    indptr, features, data, spread = entries
    n_outputs = weights.shape[1]
    bias = 1.0 if constants.shape[1] > 0 else 0.0
    for r in order:
        first, q = start[r], start[r + 1] - start[r]
        if q == 0:
            continue
        for m in range(q):
            for k in range(n_outputs):
                work[0, m, k], work[1, m, k] = 0.0, 0.0
            for e in range(indptr[first + m], indptr[first + m + 1]):
                x = data[e]
                spread[features[e]] = x
                for k in range(n_outputs):
                    work[0, m, k] += x * weights[features[e], k]
            for k in range(n_outputs if bias > 0.0 else 0):
                work[0, m, k] += constants[k, 0]
            for other in range(m + 1):
                product = 0.0
                for e in range(indptr[first + other], indptr[first + other + 1]):
                    product += spread[features[e]] * data[e]
                kernel[m, other] = kernel[other, m] = product + bias
            for e in range(indptr[first + m], indptr[first + m + 1]):
                spread[features[e]] = 0.0
        gaps[r] = _ascend_row(work, q, kernel, 0, r, losses, alphas, first, ROW_SHARE)
        for m in range(q):
            moved = False
            for k in range(n_outputs):
                moved = moved or work[1, m, k] != 0.0
                if bias > 0.0:
                    constants[k, 0] += work[1, m, k]
            if not moved:
                continue
            for e in range(indptr[first + m], indptr[first + m + 1]):
                for k in range(n_outputs):
                    weights[features[e], k] += data[e] * work[1, m, k]


@njit(**LEAN)
def _ascend_row(work, q, kernel, corner, r, losses, alphas, first, share):
    """Do exact pairwise steps between the planes of row r until its gap is small.

    `work` has the values of the q members of the row, and receives their changes. The members are those
    from `corner` on in `kernel`, and from `first` on in `alphas`. Return the weighted gap before the
    steps.

    Shapes: `work` (2, at least q, n_outputs), `alphas` (..., n_labels).
    """
    c, weight, costs, grades = losses.codes[r], losses.weights[r], losses.costs[r], losses.grades
    outputs, signs, slack = losses.outputs, losses.signs, losses.slack
    values, changes, arrival = work[0], work[1], -1.0
    for _ in range(MOST_STEPS):
        best, best_m, best_k = 0.0, -1, -1
        low, low_m, low_k = np.inf, -2, -1
        mean, used = 0.0, 0.0
        for m in range(q):
            truth, grade = signs[c] * values[m, outputs[c]], grades[first + m]
            for k in range(alphas.shape[1]):
                if k == c:
                    continue
                factor = costs[k] if slack else 1.0
                plane_value = costs[k] * grade + factor * (signs[k] * values[m, outputs[k]] - truth)
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
                changes[m, k] += change
                for other in range(q):
                    values[other, k] += change * kernel[corner + m, corner + other]
    return arrival


class RowBlock:
    """Some rows with their atoms and the kernel matrix of these.

    Shapes: `rows` (n,), `slots` (n, n_members), `atoms` (m,), `owners` (m,), `members` (m,), `start` (n
    + 1,).
    """

    def __init__(self, store: AtomStore, rows: np.ndarray, slots: np.ndarray) -> None:
        self.store = store
        self.rows = rows
        self.owners, self.members = np.nonzero(slots >= 0)
        self.atoms = slots[self.owners, self.members]
        self.start = np.searchsorted(self.owners, np.arange(len(rows) + 1))
        self.kernel = store.square(self.atoms)

    def ascend(
        self,
        f: Expansion,
        order: np.ndarray,
        losses: MemberLosses,
        alphas: np.ndarray,
    ) -> np.ndarray:
        """Do exact steps between the atoms of rows; return the gaps at the last visits.

        Shapes: `order` (r,), `alphas` (m, n_labels).
        """
        values = f.values().T
        local = np.ascontiguousarray(values[:, self.store.places[self.atoms]])
        moved, gaps = np.zeros((len(self.atoms), len(values))), np.zeros(len(self.rows))
        own = np.empty((2, np.diff(self.start).max(initial=0), len(values)))
        _passes(local, moved, own, self.kernel, self.start, order, losses, alphas, gaps)
        used = np.flatnonzero(np.any(moved != 0, axis=1))
        f.coefficients[self.atoms[used]] += moved[used]
        self.store.add(values, self.atoms[used], moved[used])
        return gaps[order]


@njit(**LEAN)
def _passes(local, moved, work, kernel, start, order, losses, alphas, gaps):
    """Visit the rows of `order` repeatedly until a fraction of their gap is left.

    `local` has the function values at the block's atoms, and `kernel` their kernel matrix. `moved`
    receives the changes of coefficients. Row r has the atoms from ``start[r]`` on. `work` is a workspace
    for the values and the changes of a row.
    """
    n_outputs = local.shape[0]
    arrival, min_gap = -1.0, -1.0
    for _ in range(MOST_PASSES):
        total = 0.0
        for r in order:
            first, q = start[r], start[r + 1] - start[r]
            if gaps[r] > min_gap and q > 0:
                for a in range(q):
                    for k in range(n_outputs):
                        work[0, a, k], work[1, a, k] = local[k, first + a], 0.0
                gaps[r] = _ascend_row(work, q, kernel, first, r, losses, alphas, first, BLOCK_SHARE)
                for a in range(q):
                    for k in range(n_outputs):
                        if work[1, a, k] != 0.0:
                            moved[first + a, k] += work[1, a, k]
                            factor = local.dtype.type(work[1, a, k])
                            for u in range(kernel.shape[1]):
                                local[k, u] += factor * kernel[first + a, u]
            total += gaps[r]
        if arrival < 0.0:
            arrival = total
        if total <= LEFT * arrival:
            break
        min_gap = ACTIVE * total / len(order)
