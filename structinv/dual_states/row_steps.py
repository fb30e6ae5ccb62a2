"""Exact steps between the planes of one row, of which each is a member of S(x) and a label."""

from __future__ import annotations

import numpy as np

from ..compiled import njit

MOST_STEPS = 200
ROW_SHARE = 0.1


@njit(cache=True, nogil=True)
def ascend_row(
    local, moved, kernel, slots, c, outputs, signs, costs, slack, grades, weight, masses, known
):
    """Exact pairwise steps between the planes of a row's own atoms, until its gap is a tenth.

    `local` holds the functions' values at the row's members, `moved` collects the changes of the
    atoms' coefficients; `costs` are those of the row's labels. Returns the weighted gap on arrival, over
    all members or the `known` atoms.
    """
    size, n_labels = masses.shape
    arrival, target = -1.0, 0.0
    for _ in range(MOST_STEPS):
        best_height, best_m, best_k = 0.0, -1, -1
        low, low_m, low_k = np.inf, -2, -1
        highest, mean, used = 0.0, 0.0, 0.0
        for m in range(size):
            atom = slots[m] >= 0
            if not atom and (known or arrival >= 0.0):
                continue
            truth = signs[c] * local[outputs[c], m]
            for k in range(n_labels):
                if k == c:
                    continue
                factor = costs[k] if slack else 1.0
                height = costs[k] * grades[m] + factor * (signs[k] * local[outputs[k], m] - truth)
                highest = max(highest, height)
                if not atom:
                    continue
                if height > best_height:
                    best_height, best_m, best_k = height, m, k
                if masses[m, k] > 0.0:
                    mean += masses[m, k] * height
                    used += masses[m, k]
                    if height < low:
                        low, low_m, low_k = height, m, k
        gap = weight * (best_height - mean)
        if arrival < 0.0:
            arrival = max(weight * (highest - mean), 0.0)
            target = ROW_SHARE * max(gap, 0.0)
        if gap <= target:
            break
        if 1.0 - used > 1e-15 and low > 0.0:
            low, low_m, low_k = 0.0, -1, -1
        if low_m == -2 or best_height <= low:
            break
        _step(
            local, moved, kernel, c, outputs, signs, costs, slack, weight, masses, 1.0 - used,
            best_m, best_k, low_m, low_k, best_height - low,
        )  # fmt: skip
    return arrival


@njit(cache=True, nogil=True)
def _lead(into, c, k, outputs, signs, costs, slack):
    """What multiplies each function's value in the lead of label k over c."""
    into[:] = 0.0
    factor = costs[k] if slack else 1.0
    into[outputs[k]] += factor * signs[k]
    into[outputs[c]] -= factor * signs[c]


@njit(cache=True, nogil=True)
def _step(
    local, moved, kernel, c, outputs, signs, costs, slack, weight, masses, free, best_m, best_k, low_m,
    low_k, advantage,
):  # fmt: skip
    """Move mass from one plane of a row to another, of member -1 being the null plane."""
    up, down = np.zeros(local.shape[0]), np.zeros(local.shape[0])
    if best_m >= 0:
        _lead(up, c, best_k, outputs, signs, costs, slack)
    if low_m >= 0:
        _lead(down, c, low_k, outputs, signs, costs, slack)
    curvature = 0.0
    if best_m >= 0:
        curvature += np.sum(up * up) * kernel[best_m, best_m]
    if low_m >= 0:
        curvature += np.sum(down * down) * kernel[low_m, low_m]
    if best_m >= 0 and low_m >= 0:
        curvature -= 2.0 * np.sum(up * down) * kernel[best_m, low_m]
    limit = masses[low_m, low_k] if low_m >= 0 else free
    step = limit
    if weight * curvature * limit > advantage:
        step = advantage / (weight * curvature)
    if best_m >= 0:
        masses[best_m, best_k] += step
        _shift(local, moved, kernel[best_m], best_m, up, -weight * step)
    if low_m >= 0:
        masses[low_m, low_k] = 0.0 if step == limit else masses[low_m, low_k] - step
        _shift(local, moved, kernel[low_m], low_m, down, weight * step)


@njit(cache=True, nogil=True)
def _shift(local, moved, products, member, factors, size):
    """Add a multiple of an atom to the row's own values and to the changes."""
    for k in range(local.shape[0]):
        if factors[k] != 0.0:
            change = size * factors[k]
            moved[k, member] += change
            for m in range(local.shape[1]):
                local[k, m] += change * products[m]
