"""Exact steps between the planes of one row, of which each is a member of S(x) and a label."""

from __future__ import annotations

import numpy as np

from ..compiled import njit

MOST_STEPS = 200


@njit(cache=True, nogil=True)
def ascend_row(own, moved, kernel, c, outputs, signs, costs, slack, grades, weight, masses, share):
    """Exact pairwise steps between the planes of a row's members, until a share of its gap is left.

    `own` holds the functions' values at the members, (q, n_outputs), `moved` collects the changes of the
    members' coefficients, `kernel` is the kernel among them; `costs` are those of the row's labels.
    Returns the weighted gap on arrival.
    """
    arrival = -1.0
    for _ in range(MOST_STEPS):
        best, best_m, best_k = 0.0, -1, -1
        low, low_m, low_k = np.inf, -2, -1
        mean, used = 0.0, 0.0
        for m in range(masses.shape[0]):
            truth, grade = signs[c] * own[m, outputs[c]], grades[m]
            for k in range(masses.shape[1]):
                if k == c:
                    continue
                factor = costs[k] if slack else 1.0
                height = costs[k] * grade + factor * (signs[k] * own[m, outputs[k]] - truth)
                if height > best:
                    best, best_m, best_k = height, m, k
                if masses[m, k] > 0.0:
                    mean += masses[m, k] * height
                    used += masses[m, k]
                    if height < low:
                        low, low_m, low_k = height, m, k
        gap = weight * (best - mean)
        if arrival < 0.0:
            arrival = max(gap, 0.0)
        if gap <= share * arrival:
            break
        if 1.0 - used > 1e-15 and low > 0.0:
            low, low_m, low_k = 0.0, -1, -1
        if low_m == -2 or best <= low:
            break
        up = _lead(c, best_k, outputs, signs, costs, slack, best_m)
        down = _lead(c, low_k, outputs, signs, costs, slack, low_m)
        curvature = weight * _square(kernel, up, best_m, down, low_m)
        limit = masses[low_m, low_k] if low_m >= 0 else 1.0 - used
        step = limit if curvature * limit <= best - low else (best - low) / curvature
        if best_m >= 0:
            masses[best_m, best_k] += step
            _shift(own, moved, kernel, best_m, up, -weight * step)
        if low_m >= 0:
            masses[low_m, low_k] = 0.0 if step == limit else masses[low_m, low_k] - step
            _shift(own, moved, kernel, low_m, down, weight * step)
    return arrival


@njit(cache=True, nogil=True)
def _lead(c, k, outputs, signs, costs, slack, member):
    """Which two functions the lead of label k over c has, and times what; nothing for member -1."""
    if member < 0:
        return outputs[c], 0.0, outputs[c], 0.0
    factor = costs[k] if slack else 1.0
    return outputs[k], factor * signs[k], outputs[c], -factor * signs[c]


@njit(cache=True, nogil=True)
def _overlap(one, other):
    """The inner product of two leads as vectors over the functions."""
    total = 0.0
    for i, a in ((one[0], one[1]), (one[2], one[3])):
        for j, b in ((other[0], other[1]), (other[2], other[3])):
            if i == j:
                total += a * b
    return total


@njit(cache=True, nogil=True)
def _square(kernel, up, best_m, down, low_m):
    """The squared norm of the difference of two planes; a member of -1 is the null plane."""
    total = 0.0
    if best_m >= 0:
        total += _overlap(up, up) * kernel[best_m, best_m]
    if low_m >= 0:
        total += _overlap(down, down) * kernel[low_m, low_m]
    if best_m >= 0 and low_m >= 0:
        total -= 2.0 * _overlap(up, down) * kernel[best_m, low_m]
    return total


@njit(cache=True, nogil=True)
def _shift(own, moved, kernel, member, lead, size):
    """Add a multiple of a plane's member to the row's own values and to the changes."""
    one, a, other, b = lead
    moved[member, one] += size * a
    moved[member, other] += size * b
    for m in range(own.shape[0]):
        own[m, one] += size * a * kernel[member, m]
        own[m, other] += size * b * kernel[member, m]
