"""Exact pairwise steps between the planes of one row: members of S(x) and labels."""

from __future__ import annotations

import numpy as np

from ..utils.jit import njit

# Maximum number of pairwise steps on a row.
MOST_STEPS = 200


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
