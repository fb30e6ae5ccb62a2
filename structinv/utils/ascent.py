"""Pairwise steps for the quadratic program of one block of the dual."""

from __future__ import annotations

import numpy as np

from .jit import njit

# The null vertex takes part in a step only if its weight exceeds this.
LEAST_MASS = 1e-15
# Relative tolerance for equal scores of a vertex and the null vertex. After an exact step between the
# two, rounding decides the lower score. Steps from the null vertex increase the dual more.
TIE = 1e-12


@njit(cache=True, nogil=True)
def ascend(heights, gram, known, masses, n, weight, target, most_steps):
    """Maximize the dual of one block over its dual variables by exact pairwise steps.

    The objective is ``sum_j a_j b_j - weight / 2 |sum_j a_j v_j|^2`` over dual variables a >= 0 with a
    sum of at most 1. The null vertex, with gradient 0, has the rest of the sum. A step moves weight from
    the vertex with the smallest gradient to the vertex with the largest.

    The arrays may be longer than `n`. `heights` and `masses` are updated in place.

    Parameters
    ----------
    heights : (n,) array
        Gradient ``b_j - weight <v_j, sum_k a_k v_k>``.
    gram : (n, n) array
        Inner products ``<v_j, v_k>``. Only rows of vertices in a step are read.
    known : (n,) array of int
        Number of filled entries in each row of `gram`.
    masses : (n,) array
        Dual variables a.
    n : int
        Number of vertices.
    weight : float
        Factor of the quadratic part.
    target : float
        Duality gap at which the steps end: ``weight`` times the difference of the largest and the
        average gradient.
    most_steps : int
        Maximum number of steps.

    Returns
    -------
    int
        Index of a vertex with a required, unfilled row of `gram`; the caller fills it and calls again.
        -1 after the last step.
    """
    for _ in range(most_steps):
        best, highest, worst, lowest, mean, free = -1, 0.0, -2, np.inf, 0.0, 1.0
        for j in range(n):
            if heights[j] > highest:
                best, highest = j, heights[j]
            if masses[j] > 0.0:
                mean += masses[j] * heights[j]
                free -= masses[j]
                if heights[j] < lowest:
                    worst, lowest = j, heights[j]
        if free > LEAST_MASS and not lowest < -TIE * highest:
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
        limit = masses[worst] if worst >= 0 else free
        step = limit
        if weight * curvature * limit > highest - lowest:
            step = (highest - lowest) / (weight * curvature)
        if best >= 0:
            masses[best] += step
        if worst >= 0:
            masses[worst] = 0.0 if step == limit else masses[worst] - step
        size = weight * step if best >= 0 else -weight * step
        row = gram[best] if best >= 0 else gram[worst]
        if best >= 0 and worst >= 0:
            other = gram[worst]
            # Differences first: they can be much smaller than the products.
            for k in range(n):
                heights[k] -= size * (row[k] - other[k])
        else:
            for k in range(n):
                heights[k] -= size * row[k]
    return -1
