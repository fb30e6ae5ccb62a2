"""Pairwise steps for the quadratic program of one block of the dual."""

from __future__ import annotations

import numpy as np

from .jit import LEAN, njit

# The null vertex is active if its dual variable is above this value.
LEAST_ALPHA = 1e-15
# A vertex below the null vertex by at most this fraction of the highest value counts as equal. After an
# exact step between the two, rounding decides which is lower. The null vertex is chosen, because steps
# from it gain more.
TIE = 1e-12


@njit(**LEAN)
def ascend(plane_values, gram, known, alphas, n, weight, target, most_steps):
    """Maximize the dual of one block by exact pairwise steps.

    The function is ``sum_j alpha_j b_j - weight / 2 |sum_j alpha_j v_j|^2``. The dual variables alpha of
    the vertices are non-negative, and their sum is at most 1. The rest belongs to a null vertex of value
    0. A step moves a part of the dual variable of the lowest active vertex to the highest one.

    The arrays may be longer than `n`. `plane_values` and `alphas` are changed in place.

    Shapes: `plane_values` (n,), `gram` (n, n), `known` (n,), `alphas` (n,).
    """
    for _ in range(most_steps):
        best, highest, worst, lowest, mean, free = -1, 0.0, -2, np.inf, 0.0, 1.0
        for j in range(n):
            if plane_values[j] > highest:
                best, highest = j, plane_values[j]
            if alphas[j] > 0.0:
                mean += alphas[j] * plane_values[j]
                free -= alphas[j]
                if plane_values[j] < lowest:
                    worst, lowest = j, plane_values[j]
        if free > LEAST_ALPHA and not lowest < -TIE * highest:
            worst, lowest = -1, 0.0
        if weight * (highest - mean) <= target or highest <= lowest:
            break
        if best >= 0 and known[best] < n:
            return best
        if worst >= 0 and known[worst] < n:
            return worst
        curvature = 0.0
        if best >= 0:
            curvature += gram[best, best]
        if worst >= 0:
            curvature += gram[worst, worst]
        if best >= 0 and worst >= 0:
            curvature -= 2.0 * gram[best, worst]
        limit = alphas[worst] if worst >= 0 else free
        step = limit
        if weight * curvature * limit > highest - lowest:
            step = (highest - lowest) / (weight * curvature)
        if best >= 0:
            alphas[best] += step
        if worst >= 0:
            alphas[worst] = 0.0 if step == limit else alphas[worst] - step
        size = weight * step if best >= 0 else -weight * step
        row = gram[best] if best >= 0 else gram[worst]
        if best >= 0 and worst >= 0:
            other = gram[worst]
            # The difference is computed first, because huge products may almost cancel.
            for k in range(n):
                plane_values[k] -= size * (row[k] - other[k])
        else:
            for k in range(n):
                plane_values[k] -= size * row[k]
    return -1
