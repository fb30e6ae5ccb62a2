"""Compiled search for the worst edits of rows that keep their length."""

from __future__ import annotations

import numpy as np

from ...utils.jit import PLAIN, njit
from ..ratio_kernels import add_line

# Number of supporting lines for a row.
_MOST_LINES = 64
# Relative bound of rounding errors.
_ROUNDING = 1e-13


@njit(**PLAIN)
def _move(v, theta, l1, x, low, high):
    """Return the number z in [low, high] with the largest ``v z - theta |z|^p``, and its gain over x."""
    if theta > 0.0 and not l1:
        z = min(max(v / (2.0 * theta), low), high)
        return z, (z - x) * (v - theta * (z + x))
    best, gain = x, 0.0
    for end in (low, high, min(max(0.0, low), high)):
        size = abs(end) - abs(x) if l1 else end * end - x * x
        value = v * (end - x) - theta * size
        if value > gain:
            best, gain = end, value
    return best, gain


@njit(**PLAIN)
def worst_of_length(
    indptr, indices, data, V, assign, most, low, high, value, tallest, present, fixed, where, listed, l1,
    tolerance, values, upper, edited, added, raised, n_added,
):  # fmt: skip
    """Maximize ``<v, z>`` over edited rows z of the same length, with upper bounds.

    Let a be the product ``<v, z>`` of an edited row and q its squared length, or its length for l1. All
    pairs (q, a) lie below the lines ``a = H(theta) + theta q``, where H(theta) is the largest
    ``a - theta q``: a sum of the largest gains of single features. The search adds the line that cuts
    off the largest ratio of a and length. For l1, it is Dinkelbach's method (1967).

    Shapes: `V` (p, d), `assign` (n,), `value` (d,), `fixed` (d,), `values` (n,), `upper` (n,), `edited`
    (nnz,), `added` (n, most), `raised` (n, most), `n_added` (n,).
    """
    widest = 0
    for i in range(assign.size):
        widest = max(widest, indptr[i + 1] - indptr[i])
    marks = np.full(V.shape[1], -1, np.int64)
    least, largest, moved = np.empty(widest), np.empty(widest), np.empty(widest)
    top, goal, code = np.empty(most + 1), np.empty(most + 1), np.empty(most + 1, np.int64)
    slopes, heights = np.empty(_MOST_LINES), np.empty(_MOST_LINES)
    at_a, at_q, ends = np.empty(_MOST_LINES), np.empty(_MOST_LINES), np.empty(4)
    used = np.empty(_MOST_LINES, np.int64)
    for i in range(assign.size):
        start, v, own = indptr[i], V[assign[i]], indptr[i + 1] - indptr[i]
        first, last = where[assign[i]], where[assign[i] + 1]
        # A row is free if edits may remove all its features. Then lengths have no lower bound.
        q0, free, smallest, steepest = 0.0, own <= most, np.inf, 0.0
        for t in range(own):
            f, x = indices[start + t], data[start + t]
            marks[f], least[t], largest[t] = i, x, x
            if not fixed[f]:
                least[t], largest[t] = min(low * x, high * x), max(low * x, high * x)
                if present:
                    largest[t] = max(largest[t], x + value[f])
            free = free and least[t] <= 0.0 <= largest[t]
            q0 += abs(x) if l1 else x * x
            for end in (x, least[t], largest[t]):
                if end != 0.0:
                    smallest = min(smallest, abs(end))
            steepest = max(steepest, abs(v[f]))
        for r in range(first, last if free else first):
            smallest, steepest = min(smallest, value[listed[r]]), max(steepest, abs(v[listed[r]]))
        length = (q0 if l1 else np.sqrt(q0)) if own > 0 else 1.0
        values[i], upper[i], n_added[i] = 0.0, 0.0, 0
        best, bound, floor = -np.inf, np.inf, 0.0 if free else -np.inf
        n_lines, lowest, highest, alpha = 0, 0.0, 0.0, 1.0
        ends[:], scale = 0.0, 0.0
        # Stage 0 is the row, 1 its smallest edits, 2 and 3 bound q, and 4 is the search.
        stage, theta = 0, 0.0
        while True:
            n_top, spared, fewest = 0, -1, np.inf
            rest = max(-theta, 0.0) * (tallest if l1 else tallest * tallest)
            for t in range(own if free and not l1 and stage > 1 else 0):
                # After stage 1, a free row has an unchanged feature.
                f, x = indices[start + t], data[start + t]
                _, gain = _move(alpha * v[f], theta, l1, x, least[t], largest[t])
                if gain < fewest:
                    spared, fewest = t, gain
            for item in range(own + last - first if stage > 0 else 0):
                if item == spared:
                    continue
                if item < own:
                    f, x = indices[start + item], data[start + item]
                    z, gain = _move(alpha * v[f], theta, l1, x, least[item], largest[item])
                else:
                    f = listed[first + item - own]
                    if n_top == most and max(alpha * v[f], 0.0) * tallest + rest <= top[most - 1]:
                        # No later feature has a larger gain.
                        break
                    if marks[f] == i:
                        continue
                    z, gain = _move(alpha * v[f], theta, l1, 0.0, 0.0, value[f])
                if gain <= 0.0 or most == 0 or (n_top == most and gain <= top[most - 1]):
                    continue
                at = n_top if n_top < most else most - 1
                while at > 0 and top[at - 1] < gain:
                    top[at], goal[at], code[at] = top[at - 1], goal[at - 1], code[at - 1]
                    at -= 1
                top[at], goal[at], code[at] = gain, z, item
                n_top = min(n_top + 1, most)
            for t in range(own):
                moved[t] = data[start + t]
            a, q, size = 0.0, 0.0, 0.0
            for k in range(n_top):
                if code[k] < own:
                    moved[code[k]] = goal[k]
                else:
                    a += v[listed[first + code[k] - own]] * goal[k]
                    q += goal[k] if l1 else goal[k] * goal[k]
            size = abs(a)
            for t in range(own):
                term = v[indices[start + t]] * moved[t]
                a += term
                size += abs(term)
                q += abs(moved[t]) if l1 else moved[t] * moved[t]
            divisor = q if l1 else np.sqrt(q)
            ratio = a / divisor if divisor > 0.0 else 0.0
            if ratio > best:
                best = ratio
                factor, n = length / divisor if divisor > 0.0 else 0.0, 0
                for t in range(own):
                    edited[start + t] = factor * moved[t]
                for k in range(n_top):
                    if code[k] >= own:
                        added[i, n] = listed[first + code[k] - own]
                        raised[i, n] = factor * goal[k]
                        n += 1
                n_added[i] = n
            if free and best < 0.0:
                best = 0.0
                for t in range(own):
                    edited[start + t] = 0.0
                n_added[i] = 0
            height = alpha * a - theta * q
            if stage == 0:
                scale = size / divisor if divisor > 0.0 else 0.0
                if own + last - first == 0:
                    bound = best
                    break
                # Removed features and small ones have the largest gains.
                stage, theta = 1, 10.0 * max(steepest, 1e-100) / smallest
                if l1 or not free:
                    stage, alpha, theta = 2, 0.0, 1.0
                continue
            if stage == 1:
                # All features change and are small: the largest ratio if no feature is unchanged.
                floor = best
                if own == 0:
                    bound = best
                    break
                stage, alpha, theta = 2, 0.0, 1.0
                continue
            if stage == 2:
                lowest = smallest if free and l1 else q
                lowest *= 1.0 - _ROUNDING
                ends[0], ends[1] = a, q
                stage, theta = 3, -1.0
                continue
            if stage == 3:
                highest, ends[2], ends[3] = q * (1.0 + _ROUNDING), a, q
                stage, alpha = 4, 1.0
                # The line of slope 0 shows whether all ratios are below 0.
                theta = best if l1 else max(best, 0.0) / (2.0 * np.sqrt(max(q0, lowest)))
                continue
            height += _ROUNDING * (size + abs(theta) * q)
            if l1:
                # If no edit has a larger ratio than theta, it is the largest.
                bound = theta + max(height, 0.0) / lowest if best > theta else best
                n_lines += 1
                if best <= theta or n_lines == _MOST_LINES:
                    break
                theta = best
                continue
            bound, place, chord = add_line(
                slopes, heights, at_a, at_q, n_lines, theta, height, a, q, lowest, highest, ends, used
            )
            n_lines += 1
            if bound - best <= tolerance * (scale + abs(bound)) or n_lines == _MOST_LINES:
                break
            # The tangent of the curve of this ratio; below 0, the line through the edits on both sides.
            theta = bound / (2.0 * np.sqrt(place))
            if best < 0.0 and not np.isnan(chord):
                theta = chord
            known = False
            for line in range(n_lines):
                known = known or abs(slopes[line] - theta) <= 1e-13 * abs(theta)
            if known:
                break
        values[i], upper[i] = length * best, length * max(bound, best, floor)
