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

from ..utils.jit import LEAN, LEAN_FAST, njit
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
    - `sides` (2, SUMS): sums of both signs, as above
    - `place` (d,): state of each feature, by the sign of the rows: 0 free, 1 or -1 held, 2 or -2 full
    - `gaining` (d,): workspace for features with a gain
    """

    changed: np.ndarray
    most: int
    present: bool
    value: np.ndarray
    inverse: np.ndarray
    own: np.ndarray
    sides: np.ndarray
    place: np.ndarray
    gaining: np.ndarray


class Row(NamedTuple):
    """A row in the format of the compiled functions.

    - `words, values` (m,): its features and their values
    - `start`: place of its first entry among those of all rows
    - `sign, weight`: its sign, and the weight of its loss
    - `side`: number of its sign in the sums over rows, or -1 if it adds nothing
    """

    words: np.ndarray
    values: np.ndarray
    start: int
    sign: float
    weight: float
    side: int


class RowWork(NamedTuple):
    """Workspaces for one row.

    - `full` (width,): positions of its full features
    - `held, couplings` (2,): sums over its held features, and couplings with those of all rows
    - `values` (4, width): products, and workspaces of `read_row` and `move_row`
    """

    full: np.ndarray
    held: np.ndarray
    couplings: np.ndarray
    values: np.ndarray


def added_words(
    changed: np.ndarray, most: int, present: bool, value: np.ndarray, sides: np.ndarray
) -> Added:
    """Return features that no row adds yet, with the sums `sides`."""
    inverse = np.divide(1.0, value, out=np.zeros_like(value), where=value != 0)
    own, place = np.zeros((2, len(value))), np.zeros(len(value), dtype=np.int8)
    gaining = np.empty(len(value), dtype=np.int64)
    return Added(changed, most, present, value, inverse, own, sides, place, gaining)


def row_work(width: int) -> RowWork:
    """Return workspaces for rows with fewer than `width` features."""
    return RowWork(np.empty(width, dtype=np.int64), np.zeros(2), np.zeros(2), np.empty((4, width)))


@njit(**LEAN)
def _gaining(u, added, sigma, cut):
    """List the features with a gain above ``cut``; return their number and the largest gain."""
    count, high = 0, 0.0
    for j in range(added.value.size):
        gain = -sigma * added.value[j] * u[j]
        if gain > cut:
            added.gaining[count] = j
            count += 1
            high = max(high, gain)
    return count, high


@njit(**LEAN)
def _total(t, u, added, side, count):
    """Return the total addition of the listed features at threshold t, and its slope."""
    total, slope, sigma = 0.0, 0.0, 1.0 - 2.0 * side
    for k in range(count):
        j = added.gaining[k]
        a = added.value[j]
        m = (-sigma * a * u[j] - t) / (a * a)
        if m > 0:
            room = added.sides[side, TOTAL] - added.own[side, j]
            if m < room:
                slope -= 1.0 / (a * a)
                total += m
            else:
                total += max(room, 0.0)
    return total, slope


@njit(**LEAN)
def _threshold(u, added, side):
    """Return the smallest threshold within the budget, and the number of listed features.

    The search starts at the former threshold. All features with larger gains are listed, and perhaps
    others.
    """
    sigma, budget, guess = 1.0 - 2.0 * side, added.sides[side, BUDGET], added.sides[side, THRESHOLD]
    if budget <= 0:
        # Nothing is added, and no feature is full.
        return _gaining(u, added, sigma, 0.0)[1], 0
    low = 0.5 * guess if 0.0 < guess < np.inf else 0.0
    count, high = _gaining(u, added, sigma, low)
    total, slope = _total(low, u, added, side, count)
    if total <= budget and low > 0:
        low = 0.0
        count, high = _gaining(u, added, sigma, low)
        total, slope = _total(low, u, added, side, count)
    if total <= budget:
        return 0.0, count
    t = low
    if low < guess < high:
        t = guess
        total, slope = _total(t, u, added, side, count)
    for _ in range(_ROOT_STEPS):
        if total > budget:
            low = t
        else:
            high = t
        t = t + (budget - total) / slope if slope < 0 else high
        if not low < t < high:
            t = 0.5 * (low + high)
        if t <= low or t >= high:
            break
        total, slope = _total(t, u, added, side, count)
        if total == budget:
            return t, count
    return high, count


@njit(**LEAN)
def settle(u, added):
    """Recompute each side's threshold and sums, and the states of features; `u` (d,)."""
    value, sides, place = added.value, added.sides, added.place
    place[:] = 0
    for side in range(2):
        sums, sigma = sides[side], 1.0 - 2.0 * side
        sums[HELD:] = 0.0
        if sums[TOTAL] < 0:
            sums[THRESHOLD] = np.inf
            continue
        sums[THRESHOLD], count = _threshold(u, added, side)
        for k in range(count):
            j = added.gaining[k]
            if -sigma * value[j] * u[j] > sums[THRESHOLD]:
                _hold(j, u, added, side)
                move_word(j, u, added)
        if sums[THRESHOLD] > 0 and sums[CURVE] == 0:
            _hold_next(u, added, side)


@njit(**LEAN)
def _hold_next(u, added, side):
    """Set the threshold to the gain of the next feature, if full features use the whole budget.

    That feature is held with a zero addition, so that steps include the gain of a larger budget.
    """
    best, gain, sigma = -1, 0.0, 1.0 - 2.0 * side
    for j in range(added.value.size):
        if added.place[j] == 0 and -sigma * added.value[j] * u[j] > gain:
            best, gain = j, -sigma * added.value[j] * u[j]
    added.sides[side, THRESHOLD] = gain
    if best >= 0:
        _hold(best, u, added, side)


@njit(**LEAN)
def _hold(j, u, added, side):
    """Hold a free feature."""
    a, sums, sigma = added.value[j], added.sides[side], 1.0 - 2.0 * side
    sums[HELD] += -sigma * u[j] / a
    sums[CURVE] += 1.0 / (a * a)
    added.place[j] = 1 if side == 0 else -1


@njit(**LEAN)
def _let_go(j, u, added, side):
    """Free a held feature."""
    a, sums, sigma = added.value[j], added.sides[side], 1.0 - 2.0 * side
    sums[HELD] -= -sigma * u[j] / a
    sums[CURVE] -= 1.0 / (a * a)
    added.place[j] = 0


@njit(**LEAN)
def _fill(j, u, added, side, sign):
    """Fill a free feature (sign 1), or free a full feature (sign -1)."""
    a, sums, sigma, own = added.value[j], added.sides[side], 1.0 - 2.0 * side, added.own[side, j]
    sums[FULL] += sign
    sums[MISSED] += sign * own
    sums[GAIN] += sign * -sigma * a * u[j]
    sums[SQUARES] += sign * a * a
    sums[MISSED_SQUARES] += sign * a * a * own
    added.place[j] = 0 if sign < 0 else (2 if side == 0 else -2)


@njit(**LEAN)
def move_word(j, u, added):
    """Update the state of a feature for the current thresholds."""
    a, place = added.value[j], added.place
    if a == 0:
        return
    if place[j] == 0:
        for side in range(2):
            sigma = 1.0 - 2.0 * side
            if -sigma * a * u[j] > added.sides[side, THRESHOLD]:
                _hold(j, u, added, side)
                break
        if place[j] == 0:
            return
    side = 0 if place[j] > 0 else 1
    sums, sigma = added.sides[side], 1.0 - 2.0 * side
    m = (-sigma * a * u[j] - sums[THRESHOLD]) / (a * a)
    if place[j] == 1 or place[j] == -1:
        if m < 0:
            _let_go(j, u, added, side)
        elif m > sums[TOTAL] - added.own[side, j]:
            _let_go(j, u, added, side)
            _fill(j, u, added, side, 1.0)
    elif m < sums[TOTAL] - added.own[side, j]:
        _fill(j, u, added, side, -1.0)
        _hold(j, u, added, side)


@njit(**LEAN)
def _level_out(sides):
    """Compute the threshold of each side for its current held features."""
    for side in range(2):
        sums = sides[side]
        if sums[CURVE] > 0:
            budget = sums[BUDGET] - sums[FULL] * sums[TOTAL] + sums[MISSED]
            sums[THRESHOLD] = max((sums[HELD] - budget) / sums[CURVE], 0.0)


@njit(**LEAN, forceinline=True)
def weight_of(j, u, added):
    """Return the weight of a held or full feature, including additions."""
    place = added.place[j]
    side = 0 if place > 0 else 1
    sigma = 1.0 - 2.0 * side
    if place == 1 or place == -1:
        return -sigma * added.sides[side, THRESHOLD] / added.value[j]
    return u[j] + sigma * added.value[j] * max(added.sides[side, TOTAL] - added.own[side, j], 0.0)


@njit(**LEAN)
def weights_of(u, added, f):
    """Write the weights of held and full features, including additions, into f."""
    for j in range(added.value.size):
        if added.place[j] != 0:
            f[j] = weight_of(j, u, added)


@njit(**LEAN, forceinline=True)
def row_of(i, rows, losses, changed):
    """Return row i."""
    indptr, indices, data = rows
    start, stop, s = indptr[i], indptr[i + 1], losses.signs[i]
    side = -1 if not changed[i] else (0 if s > 0 else 1)
    return Row(indices[start:stop], data[start:stop], start, s, losses.weights[i], side)


@njit(**LEAN)
def _gather(words, u, added, values):
    """Write weights, reciprocal values and states of features into the first rows of ``values``."""
    w, by_value, at = values[0], values[1], values[2]
    for t in range(words.size):
        j = np.uint64(words[t])
        w[t], by_value[t], at[t] = u[j], added.inverse[j], added.place[j]


@njit(**LEAN_FAST)
def _multiply(data, s, cautious, first, second, values):
    """Replace the weights by products with the row's entries; see `read_row`."""
    w, by_value, at = values[0], values[1], values[2]
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


@njit(**LEAN)
def read_row(row, cautious, u, added, work):
    """Write the products of a row's entries with the weights into ``work.values[0]``.

    Returns the sum of the products, the curvature, and the number of full features, whose positions are
    written into ``work.full``. For each side, the sum of entries divided by values over held features
    is written into ``work.held``. The loops have no branches on the states, because processors cannot
    predict them.
    """
    values, full = work.values, work.full
    first, second = added.sides[0, THRESHOLD], added.sides[1, THRESHOLD]
    # A side without additions has no held features and an infinite threshold.
    first, second = -first if first < np.inf else 0.0, second if second < np.inf else 0.0
    _gather(row.words, u, added, values)
    found = _multiply(row.values, row.sign, cautious, first, second, values)
    total, curve, work.held[0], work.held[1], any_full = found
    n_full = 0
    for t in range(row.words.size if any_full > 0 else 0):
        full[n_full] = t
        n_full += abs(values[2, t]) == 2.0
    for k in range(n_full):
        t = full[k]
        b = row.sign * np.float64(row.values[t]) * weight_of(row.words[t], u, added)
        total += b - values[0, t]
        values[0, t] = b
    return total, curve, n_full


@njit(**LEAN)
def _add(row, rate, more, own, u, values):
    """Update the weights of features and the sums of their rows, also in ``values``."""
    w, rows_of, side = values[0], values[3], max(row.side, 0)
    for t in range(row.words.size):
        j = np.uint64(row.words[t])
        own[side, j] += more
        value = u[j] + rate * row.values[t]
        u[j], w[t] = value, value
        rows_of[t] = own[0 if value < 0 else 1, j]


@njit(**LEAN_FAST)
def _misplaced(length, first, second, first_total, second_total, values):
    """Mark features whose state has changed; return their number."""
    w, by_value, at, rows_of = values[0], values[1], values[2], values[3]
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


@njit(**LEAN)
def move_row(row, rate, more, u, added, work):
    """Add a multiple of a row to the weights and update the states of its features.

    `read_row` must have read the row before.
    """
    sides, values = added.sides, work.values
    sides[0, HELD] -= rate * work.held[0]
    sides[1, HELD] += rate * work.held[1]
    _add(row, rate, more, added.own, u, values)
    _level_out(sides)
    first, second = min(sides[0, THRESHOLD], _HUGE), min(sides[1, THRESHOLD], _HUGE)
    wrong = _misplaced(row.words.size, first, second, sides[0, TOTAL], sides[1, TOTAL], values)
    for t in range(row.words.size if wrong > 0 else 0):
        if values[3, t] > 0:
            move_word(row.words[t], u, added)
    _level_out(sides)


@njit(**LEAN, forceinline=True)
def with_coupling(curve, couplings, sides):
    """Add the curvature of a row's step through the held features of both sides."""
    for side in range(2):
        if sides[side, CURVE] > 0 and sides[side, THRESHOLD] > 0:
            curve += couplings[side] ** 2 / sides[side, CURVE]
    return curve


@njit(**LEAN, forceinline=True)
def _without_full(row, curve, n_full, u, added, full):
    """Return number and gain of the full features of its side that a row has, and its curvature."""
    count, gain = 0.0, 0.0
    for k in range(n_full):
        j = row.words[full[k]]
        a = added.value[j]
        if added.place[j] == 2 - 4 * row.side and added.present:
            curve += 2.0 * np.float64(row.values[full[k]]) * a
        elif added.place[j] == 2 - 4 * row.side:
            count += 1.0
            gain += -row.sign * a * weight_of(j, u, added)
            curve -= a * a
    return count, gain, curve


@njit(**LEAN)
def _change_sums(row, step, n_full, added, full):
    """Update the sums of both sides for a step of a row; return that of the rows of its features."""
    sides, adds = added.sides, row.side >= 0 and not added.present
    if row.side >= 0:
        sides[row.side, TOTAL] += step
        sides[row.side, BUDGET] += added.most * step
    for k in range(n_full):
        j = row.words[full[k]]
        side, a = (0 if added.place[j] > 0 else 1), added.value[j]
        change = (1.0 - 2.0 * side) * a * row.sign * step
        sides[side, GAIN] -= change * np.float64(row.values[full[k]])
        if side == row.side and adds:
            sides[side, MISSED] += step
            sides[side, MISSED_SQUARES] += a * a * step
    return step if adds else 0.0


@njit(**LEAN)
def sweep_additions(rows, losses, added, cautious, u, taus, order, gaps, work):
    """Maximize over the dual variable of each row of `order`, with all additions.

    Shapes: `u` (d [+ 1],), `taus` (n,), `order` (m,), `gaps` (n,).
    """
    kind, intercept, couplings, last = losses.kind, losses.intercept, work.couplings, u.size - 1
    for i in order:
        row = row_of(i, rows, losses, added.changed)
        c, s = row.weight, row.sign
        gaps[i] = 0.0
        if c == 0:
            continue
        margin, curve, n_full = read_row(row, cautious, u, added, work)
        couplings[0], couplings[1] = -s * work.held[0], s * work.held[1]
        if intercept:
            margin += s * u[last]
            curve += 1.0
        gain = -margin
        if row.side >= 0:
            sums = added.sides[row.side]
            n_own, own_gain, curve = _without_full(row, curve, n_full, u, added, work.full)
            budget = added.most - sums[FULL] + n_own
            of_full = sums[GAIN] - sums[TOTAL] * sums[SQUARES] + sums[MISSED_SQUARES]
            gain += sums[THRESHOLD] * budget + of_full - own_gain
            curve += sums[SQUARES]
            couplings[row.side] -= budget
        curve = with_coupling(curve, couplings, added.sides)
        tau, q = taus[i], c * max(curve, 0.0)
        gaps[i] = c * max(loss_value(kind, gain) + conjugate(kind, tau) - tau * gain, 0.0)
        new = best_alpha(kind, gain + q * tau, q)
        step = c * (new - tau)
        if step == 0:
            continue
        taus[i] = new
        more = _change_sums(row, step, n_full, added, work.full)
        move_row(row, s * step, more, u, added, work)
        if intercept:
            u[last] += s * step
