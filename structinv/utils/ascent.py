"""Pairwise steps on a simplex with a null vertex: the quadratic program of one block of the dual."""

from __future__ import annotations

import numpy as np

from .jit import njit

# A null vertex with less mass than this gives none away.
LEAST_MASS = 1e-15
# A vertex that is lower than the null vertex by at most this share of the highest one counts as equal.
# After an exact step between the two, rounding decides which is lower. The null vertex is taken, since
# steps from it gain more.
TIE = 1e-12


@njit(cache=True, nogil=True)
def ascend(heights, gram, known, masses, n, weight, target, most_steps):
    """Raise the dual of one block over the masses of its vertices by exact pairwise steps.

    Maximizes ``sum_j masses_j b_j - weight / 2 |sum_j masses_j v_j|^2`` over masses that are
    non-negative and sum to at most one. The mass that is missing lies on the null vertex, whose height
    is zero. A step moves mass from the lowest vertex that has some to the highest one.

    The arrays may be longer than `n`. `heights` and `masses` are changed in place.

    Parameters
    ----------
    heights : (n,) array
        The gradient ``b_j - weight <v_j, sum_k masses_k v_k>``.
    gram : (n, n) array
        Inner products ``<v_j, v_k>``. Only the rows of vertices that take part in a step are read.
    known : (n,) array of int
        The number of entries that are filled in each row of `gram`.
    masses : (n,) array
    n : int
        The number of vertices.
    weight : float
    target : float
        The steps end when the duality gap, ``weight`` times the highest height less the average one, is
        at most this.
    most_steps : int

    Returns
    -------
    int
        A vertex whose row of `gram` is needed and not filled. The caller fills it and calls again. -1
        where the steps have ended.
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
            # The difference first: where products are huge, little of them may be left.
            for k in range(n):
                heights[k] -= size * (row[k] - other[k])
        else:
            for k in range(n):
                heights[k] -= size * row[k]
    return -1
