r"""Exact steps for rows that add the same features, with one threshold per sign.

The gain of an added feature j is :math:`g_j = -\sigma a_j w_j` for rows of sign :math:`\sigma`. The
largest gain of K features is :math:`\min_t K t + \sum_j (g_j - t)_+`. With one threshold t for all rows
of a sign, the dual depends only on the total additions :math:`m_j`. Given the dual variables of the
rows,

.. math:: w_j = u_j + \sigma a_j m_j, \quad
   m_j = \min\bigl(\max\bigl((-\sigma a_j u_j - t) / a_j^2, 0\bigr), T_j\bigr), \quad
   \sum_j m_j = K T,

Here u is the part of w of the rows themselves. T is the sum of the dual variables, and :math:`T_j` is
their sum over rows without feature j. A feature ("word" in the code) is *free* (:math:`m_j = 0`), *held*
at the threshold, or *full* (:math:`m_j = T_j`). A step on a row depends on held features only by their
common threshold. Its cost is that of a row, for any number of features that may be added.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..utils.jit import FAST, PLAIN, njit
from .margin_steps import best_alpha, conjugate, loss_value

# Replaces an infinite threshold.
_HUGE = 1e300

# Sums of a side, the rows of one sign:
# - THRESHOLD; TOTAL, the sum T of dual variables; BUDGET, the total amount, K T without other edits;
# - HELD and CURVE, the sums of gains and of ones over held features, divided by a_j^2;
# - FULL, the number of full features, and sums over them: MISSED (T - T_j), GAIN, SQUARES (a_j^2) and
#   MISSED_SQUARES (the product of both).
THRESHOLD, TOTAL, BUDGET, HELD, CURVE, FULL, MISSED, GAIN, SQUARES, MISSED_SQUARES = range(10)
# Number of the sums above, and bisection steps for a threshold.
SUMS = 10
_ROOT_STEPS = 60


class Added(NamedTuple):
    """Features that rows add, and their sums over rows.

    - `changed` (n,), `most`: mask of the rows that add features, and their maximum number K
    - `present`: whether a row may also increase its own features
    - `value, inverse` (d,): value that is added to each feature, and its reciprocal; 0 for none
    - `own` (2, d): sum of the dual variables of the rows of each sign that have a feature
    - `sides` (2, SUMS), `place` (d,): sums of both signs and states of features, as in `settle`
    """

    changed: np.ndarray
    most: int
    present: bool
    value: np.ndarray
    inverse: np.ndarray
    own: np.ndarray
    sides: np.ndarray
    place: np.ndarray


@njit(**PLAIN)
def _gaining(u, value, sigma, cut, words):
    """List the features with a gain above ``cut``; return their number and the largest gain."""
    count, high = 0, 0.0
    for j in range(value.size):
        gain = -sigma * value[j] * u[j]
        if gain > cut:
            words[count] = j
            count += 1
            high = max(high, gain)
    return count, high


@njit(**PLAIN)
def _added(t, u, own, value, sigma, total, words, count):
    """Return the total addition of the listed features at threshold t, and its slope."""
    added, slope = 0.0, 0.0
    for k in range(count):
        j = words[k]
        a = value[j]
        m = (-sigma * a * u[j] - t) / (a * a)
        if m > 0:
            room = total - own[j]
            if m < room:
                slope -= 1.0 / (a * a)
                added += m
            else:
                added += max(room, 0.0)
    return added, slope


@njit(**PLAIN)
def _threshold(u, own, value, sigma, total, budget, guess, words):
    """Return the smallest threshold within the budget, from a guess, and the number of ``words``.

    ``words`` receives all features with larger gains, and perhaps others.
    """
    if budget <= 0:
        # Nothing is added, and no feature is full.
        return _gaining(u, value, sigma, 0.0, words)[1], 0
    low = 0.5 * guess if 0.0 < guess < np.inf else 0.0
    count, high = _gaining(u, value, sigma, low, words)
    added, slope = _added(low, u, own, value, sigma, total, words, count)
    if added <= budget and low > 0:
        low = 0.0
        count, high = _gaining(u, value, sigma, low, words)
        added, slope = _added(low, u, own, value, sigma, total, words, count)
    if added <= budget:
        return 0.0, count
    t = low
    if low < guess < high:
        t = guess
        added, slope = _added(t, u, own, value, sigma, total, words, count)
    for _ in range(_ROOT_STEPS):
        if added > budget:
            low = t
        else:
            high = t
        t = t + (budget - added) / slope if slope < 0 else high
        if not low < t < high:
            t = 0.5 * (low + high)
        if t <= low or t >= high:
            break
        added, slope = _added(t, u, own, value, sigma, total, words, count)
        if added == budget:
            return t, count
    return high, count


@njit(**PLAIN)
def settle(u, own, value, sides, place):
    """Recompute each side's threshold and sums, and the state of each feature.

    Shapes: `u` (d,), `own` (2, d), `value` (d,), `sides` (2, SUMS), `place` (d,).
    """
    place[:] = 0
    words = np.empty(value.size, np.int64)
    for side in range(2):
        sums, sigma = sides[side], 1.0 - 2.0 * side
        total = sums[TOTAL]
        sums[HELD:] = 0.0
        if total < 0:
            sums[THRESHOLD] = np.inf
            continue
        t, count = _threshold(u, own[side], value, sigma, total, sums[BUDGET], sums[THRESHOLD], words)
        sums[THRESHOLD] = t
        for k in range(count):
            j = words[k]
            if -sigma * value[j] * u[j] > t:
                _hold(j, u, value, sigma, sums, place)
                move_word(j, u, own, value, sides, place)
        if t > 0 and sums[CURVE] == 0:
            _hold_next(u, value, sigma, sums, place)


@njit(**PLAIN)
def _hold_next(u, value, sigma, sums, place):
    """Set the threshold to the gain of the next feature, if full features use the whole budget.

    That feature is held with a zero addition, so that steps include the gain of a larger budget.
    """
    best, gain = -1, 0.0
    for j in range(value.size):
        if place[j] == 0 and -sigma * value[j] * u[j] > gain:
            best, gain = j, -sigma * value[j] * u[j]
    sums[THRESHOLD] = gain
    if best >= 0:
        _hold(best, u, value, sigma, sums, place)


@njit(**PLAIN)
def _hold(j, u, value, sigma, sums, place):
    """Hold a free feature."""
    a = value[j]
    sums[HELD] += -sigma * u[j] / a
    sums[CURVE] += 1.0 / (a * a)
    place[j] = 1 if sigma > 0 else -1


@njit(**PLAIN)
def _let_go(j, u, value, sigma, sums, place):
    """Free a held feature."""
    a = value[j]
    sums[HELD] -= -sigma * u[j] / a
    sums[CURVE] -= 1.0 / (a * a)
    place[j] = 0


@njit(**PLAIN)
def _fill(j, u, own, value, sigma, sums, place, sign):
    """Fill a free feature (sign 1), or free a full feature (sign -1)."""
    a = value[j]
    sums[FULL] += sign
    sums[MISSED] += sign * own[j]
    sums[GAIN] += sign * -sigma * a * u[j]
    sums[SQUARES] += sign * a * a
    sums[MISSED_SQUARES] += sign * a * a * own[j]
    place[j] = 0 if sign < 0 else (2 if sigma > 0 else -2)


@njit(**PLAIN)
def move_word(j, u, own, value, sides, place):
    """Update the state of a feature for the current thresholds."""
    a = value[j]
    if a == 0:
        return
    if place[j] == 0:
        for side in range(2):
            sigma = 1.0 - 2.0 * side
            if -sigma * a * u[j] > sides[side, THRESHOLD]:
                _hold(j, u, value, sigma, sides[side], place)
                break
        if place[j] == 0:
            return
    side = 0 if place[j] > 0 else 1
    sums, sigma = sides[side], 1.0 - 2.0 * side
    m = (-sigma * a * u[j] - sums[THRESHOLD]) / (a * a)
    if place[j] == 1 or place[j] == -1:
        if m < 0:
            _let_go(j, u, value, sigma, sums, place)
        elif m > sums[TOTAL] - own[side, j]:
            _let_go(j, u, value, sigma, sums, place)
            _fill(j, u, own[side], value, sigma, sums, place, 1.0)
    elif m < sums[TOTAL] - own[side, j]:
        _fill(j, u, own[side], value, sigma, sums, place, -1.0)
        _hold(j, u, value, sigma, sums, place)


@njit(**PLAIN)
def level_out(sums):
    """Compute the threshold of a side for its current held features."""
    if sums[CURVE] > 0:
        budget = sums[BUDGET] - sums[FULL] * sums[TOTAL] + sums[MISSED]
        sums[THRESHOLD] = max((sums[HELD] - budget) / sums[CURVE], 0.0)


@njit(**PLAIN, forceinline=True)
def weight_of(j, u, own, value, sides, place):
    """Return the weight of a held or full feature, including additions."""
    side = 0 if place[j] > 0 else 1
    sigma, sums = 1.0 - 2.0 * side, sides[side]
    if place[j] == 1 or place[j] == -1:
        return -sigma * sums[THRESHOLD] / value[j]
    return u[j] + sigma * value[j] * max(sums[TOTAL] - own[side, j], 0.0)


@njit(**PLAIN)
def weights_of(u, own, value, sides, place, f):
    """Write the weights of held and full features, including additions, into f."""
    for j in range(value.size):
        if place[j] != 0:
            f[j] = weight_of(j, u, own, value, sides, place)


@njit(**PLAIN)
def _gather(indices, u, inverse, place, work):
    """Write weights, reciprocal values and states of features into the first rows of ``work``."""
    w, by_value, at = work[0], work[1], work[2]
    for t in range(indices.size):
        j = np.uint64(indices[t])
        w[t], by_value[t], at[t] = u[j], inverse[j], place[j]


@njit(**FAST)
def _multiply(data, s, cautious, first, second, work):
    """Replace the weights by products with the row's entries; see `read_row`."""
    w, by_value, at = work[0], work[1], work[2]
    total, curve, up, down, n_full = 0.0, 0.0, 0.0, 0.0, 0.0
    for t in range(data.size):
        # Reading all values before writing lets the compiler vectorize the loop.
        x, share, where, b = np.float64(data[t]), data[t] * by_value[t], at[t], data[t] * w[t]
        is_held = abs(where) == 1.0
        b = s * (share * (first if where > 0 else second) if is_held else b)
        w[t] = b
        total += b
        curve += 0.0 if is_held and not cautious else x * x
        up += share if where == 1.0 else 0.0
        down += share if where == -1.0 else 0.0
        n_full += 1.0 if abs(where) == 2.0 else 0.0
    return total, curve, up, down, n_full


@njit(**PLAIN)
def read_row(indices, data, s, cautious, u, own, value, inverse, sides, place, full, held, work):
    """Write the products of a row's entries with the weights into ``work[0]``.

    The positions of full features are written into ``full``. For each side, the sum of entries divided
    by values over held features is written into ``held``. The loops have no branches on the states,
    because processors cannot predict them.
    """
    first, second = sides[0, THRESHOLD], sides[1, THRESHOLD]
    # A side without additions has no held features and an infinite threshold.
    first, second = -first if first < np.inf else 0.0, second if second < np.inf else 0.0
    _gather(indices, u, inverse, place, work)
    total, curve, held[0], held[1], any_full = _multiply(data, s, cautious, first, second, work)
    n_full = 0
    for t in range(indices.size if any_full > 0 else 0):
        full[n_full] = t
        n_full += abs(work[2, t]) == 2.0
    for k in range(n_full):
        t = full[k]
        b = s * np.float64(data[t]) * weight_of(indices[t], u, own, value, sides, place)
        total += b - work[0, t]
        work[0, t] = b
    return total, curve, n_full


@njit(**PLAIN)
def _add(indices, data, rate, more, own, mine, u, work):
    """Update the weights of features and the sums of their rows, also in ``work``."""
    w, rows_of = work[0], work[3]
    for t in range(indices.size):
        j = np.uint64(indices[t])
        own[mine, j] += more
        value = u[j] + rate * data[t]
        u[j], w[t] = value, value
        rows_of[t] = own[0 if value < 0 else 1, j]


@njit(**FAST)
def _misplaced(length, first, second, first_total, second_total, work):
    """Mark features whose state has changed; return their number."""
    w, by_value, at, rows_of = work[0], work[1], work[2], work[3]
    count = 0.0
    for t in range(length):
        weight, share, where, rows = w[t], by_value[t], at[t], rows_of[t]
        over = (abs(weight) - (first if weight < 0 else second) * share) * share
        room = (first_total if weight < 0 else second_total) - rows
        wanted = 0.0 if over <= 0 else (1.0 if weight < 0 else -1.0)
        there = 0.0 if where == 0 else (1.0 if where > 0 else -1.0)
        wrong = (wanted != there) | ((over > room) != (abs(where) == 2.0))
        rows_of[t] = 1.0 if wrong else 0.0
        count += 1.0 if wrong else 0.0
    return count


@njit(**PLAIN)
def move_row(indices, data, rate, more, mine, u, own, value, sides, place, held, work):
    """Add a multiple of a row to the weights and update the states of its features.

    `read_row` must have read the row before.
    """
    sides[0, HELD] -= rate * held[0]
    sides[1, HELD] += rate * held[1]
    _add(indices, data, rate, more, own, mine, u, work)
    for side in range(2):
        level_out(sides[side])
    first, second = min(sides[0, THRESHOLD], _HUGE), min(sides[1, THRESHOLD], _HUGE)
    wrong = _misplaced(indices.size, first, second, sides[0, TOTAL], sides[1, TOTAL], work)
    for t in range(indices.size if wrong > 0 else 0):
        if work[3, t] > 0:
            move_word(indices[t], u, own, value, sides, place)
    for side in range(2):
        level_out(sides[side])


@njit(**PLAIN)
def sweep_additions(rows, losses, added, cautious, u, alphas, order, gaps):
    """Maximize over the dual variable of each row of `order`, with all additions.

    Shapes: `alphas` (n,), `order` (m,), `gaps` (n,).
    """
    indptr, indices, data = rows
    kind, signs, weights, intercept = losses.kind, losses.signs, losses.weights, losses.intercept
    adds, K, present, value, inverse, own, sides, place = added
    last, longest = u.size - 1, 0
    for i in range(indptr.size - 1):
        longest = max(longest, indptr[i + 1] - indptr[i])
    full, held, work = np.empty(longest + 1, np.int64), np.empty(2), np.empty((4, longest + 1))
    couplings = np.empty(2)
    for i in order:
        c, s = weights[i], signs[i]
        gaps[i] = 0.0
        if c == 0:
            continue
        mine = -1 if not adds[i] else (0 if s > 0 else 1)
        words, x = indices[indptr[i] : indptr[i + 1]], data[indptr[i] : indptr[i + 1]]
        margin, curve, n_full = read_row(
            words, x, s, cautious, u, own, value, inverse, sides, place, full, held, work
        )
        couplings[0], couplings[1] = -s * held[0], s * held[1]
        if intercept:
            margin += s * u[last]
            curve += 1.0
        row_gain = -margin
        if mine >= 0:
            sums, own_full, own_gain = sides[mine], 0.0, 0.0
            for k in range(n_full):
                j = words[full[k]]
                a = value[j]
                if place[j] == 2 - 4 * mine and present:
                    curve += 2.0 * np.float64(x[full[k]]) * a
                elif place[j] == 2 - 4 * mine:
                    own_full += 1.0
                    own_gain += -s * a * weight_of(j, u, own, value, sides, place)
                    curve -= a * a
            budget = K - sums[FULL] + own_full
            gain = sums[GAIN] - sums[TOTAL] * sums[SQUARES] + sums[MISSED_SQUARES]
            row_gain += sums[THRESHOLD] * budget + gain - own_gain
            curve += sums[SQUARES]
            couplings[mine] -= budget
        for side in range(2):
            if sides[side, CURVE] > 0 and sides[side, THRESHOLD] > 0:
                curve += couplings[side] ** 2 / sides[side, CURVE]
        alpha, q = alphas[i], c * max(curve, 0.0)
        gaps[i] = c * max(loss_value(kind, row_gain) + conjugate(kind, alpha) - alpha * row_gain, 0.0)
        new = best_alpha(kind, row_gain + q * alpha, q)
        step = c * (new - alpha)
        if step == 0:
            continue
        alphas[i] = new
        if mine >= 0:
            sides[mine, TOTAL] += step
            sides[mine, BUDGET] += K * step
        for k in range(n_full):
            j = words[full[k]]
            side, a = (0 if place[j] > 0 else 1), value[j]
            sides[side, GAIN] -= (1.0 - 2.0 * side) * a * s * step * np.float64(x[full[k]])
            if side == mine and not present:
                sides[side, MISSED] += step
                sides[side, MISSED_SQUARES] += a * a * step
        more = step if mine >= 0 and not present else 0.0
        move_row(words, x, s * step, more, max(mine, 0), u, own, value, sides, place, held, work)
        if intercept:
            u[last] += s * step
