r"""Pairwise steps over a few points per row, if rows insert the same features.

A point of a row is a perturbed row without the features that its k edits insert. The sum of all
insertions of a sign is stored, as in `addition_steps`. Here each edit adds the average insertion
:math:`B_\sigma` of all edits of its sign, which is constant in a pass. The weights are
:math:`w = u + \sum_\sigma E_\sigma B_\sigma`. Here u is the part of the rows themselves, and E is the
number of edits of a sign, weighted by dual variables.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..utils.ascent import ascend
from ..utils.jit import njit

_PLAIN: dict[str, Any] = {"cache": True, "nogil": True, "error_model": "numpy"}
# Steps within a row end at this fraction of its gap.
_LEAVE = 0.1
_NOTHING = 1e-14


@njit(**_PLAIN)
def sweep_points(order, first, indptr, indices, data, counts, alphas, weights, signs, mine, intercept, u,
                 edits, average, squares, gains, gaps, gram, room, spread):  # fmt: skip
    """Maximize the dual over the points of each row of `order`.

    Parameters
    ----------
    order : (m,) array of int
        Rows to visit, in this order.
    first : (n + 1,) array of int
        Row i has the points ``first[i]`` to ``first[i + 1] - 1``.
    indptr, indices, data : arrays
        Points in CSR format.
    counts, alphas : (n_points,) arrays
        Number of edits and dual variable of each point; dual variables are updated in place.
    weights, signs : (n,) arrays
        Weight and sign of each row.
    mine : (n,) array of int
        Side of each row: 0 for positive rows, 1 for negative rows, -1 for rows that are not edited.
    intercept : bool
        Whether `u` ends with the weight of a constant feature, which has no insertions.
    u : (d [+ 1],) array
        Weights without insertions, updated in place.
    edits : (2,) array
        Number of edits of each side, weighted by dual variables and updated in place.
    average : (d,) array
        Average insertion of an edit: positive for features of the first side, negative for the second.
    squares, gains : (2,) arrays
        Squared length and gain of the average insertion of each side; gains are updated in place.
    gaps : (n,) array
        Receives each row's weighted gap over its points, before its step.
    gram, room : (q, q) and (4, q) arrays
        Workspace for the points of a row.
    spread : (d,) array
        Workspace of zeros.
    """
    last = u.size - 1
    plane_values, row_alphas, couplings, known = (
        room[0],
        room[1],
        room[2:4],
        np.empty(gram.shape[0], np.int64),
    )
    for i in order:
        start, n = first[i], first[i + 1] - first[i]
        gaps[i] = 0.0
        if n == 0:
            continue
        c, s, side, best, mean = weights[i], signs[i], mine[i], 0.0, 0.0
        for k in range(n):
            margin, couplings[0, k], couplings[1, k] = u[last] if intercept else 0.0, 0.0, 0.0
            for e in range(indptr[start + k], indptr[start + k + 1]):
                j = indices[e]
                other = 0 if average[j] > 0 else 1
                margin += data[e] * (u[j] + edits[other] * average[j])
                couplings[other, k] += data[e] * average[j]
            plane_values[k] = 1.0 - s * margin + (counts[start + k] * gains[side] if side >= 0 else 0.0)
            row_alphas[k], known[k] = alphas[start + k], n
            best = max(best, plane_values[k])
            mean += row_alphas[k] * plane_values[k]
        gaps[i] = c * (best - mean)
        if not gaps[i] > _NOTHING * c:
            continue
        for k in range(n):
            for e in range(indptr[start + k], indptr[start + k + 1]):
                spread[indices[e]] = data[e]
            for o in range(k + 1):
                total = 1.0 if intercept else 0.0
                for e in range(indptr[start + o], indptr[start + o + 1]):
                    total += spread[indices[e]] * data[e]
                if side >= 0:
                    one, two = counts[start + k], counts[start + o]
                    total += s * (two * couplings[side, k] + one * couplings[side, o])
                    total += one * two * squares[side]
                gram[k, o] = gram[o, k] = total
            for e in range(indptr[start + k], indptr[start + k + 1]):
                spread[indices[e]] = 0.0
        ascend(plane_values, gram, known, row_alphas, n, c, _LEAVE * gaps[i], 4 * n + 4)
        for k in range(n):
            step = c * (row_alphas[k] - alphas[start + k])
            if step == 0.0:
                continue
            alphas[start + k] = row_alphas[k]
            for e in range(indptr[start + k], indptr[start + k + 1]):
                u[indices[e]] += s * step * data[e]
            if intercept:
                u[last] += s * step
            for other in range(2):
                gains[other] -= s * step * couplings[other, k]
            if side >= 0:
                edits[side] += step * counts[start + k]
                gains[side] -= step * counts[start + k] * squares[side]
