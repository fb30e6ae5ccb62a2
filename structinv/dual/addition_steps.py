r"""Steps over rows that all add the same words: one threshold for each side, instead of one a row.

The largest gain of K words that may be added, :math:`g_j = -\sigma a_j w_j` for rows of sign
:math:`\sigma`, is :math:`\min_t K t + \sum_j (g_j - t)_+`. With one threshold t for all rows of a sign
the dual needs only what is added in all, :math:`m_j`, and that in closed form: given the levels,

.. math:: w_j = u_j + \sigma a_j m_j, \quad
   m_j = \min\bigl(\max\bigl((-\sigma a_j u_j - t) / a_j^2, 0\bigr), T_j\bigr), \quad
   \sum_j m_j = K T,

with u the rows' own part of w, T the levels' sum and :math:`T_j` that over rows without word j. So a
word is *free* (:math:`m_j = 0`), *held* at the threshold, or *full* (:math:`m_j = T_j`), and a step over
the level of a row sees, in place of all held words, their common threshold: the cost of a step is that
of a row, however many words may be added.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..utils.jit import njit
from .margin_steps import best_level, conjugate, loss_value

_PLAIN: dict[str, Any] = {"cache": True, "nogil": True, "error_model": "numpy"}

# What is kept of a side, rows of one sign: the threshold; the sum of levels, T; how much may be added
# in all, K T where nothing else is changed; of held words the sums of gains and of ones, by a_j^2; of
# full words how many there are, and the sums of what is missed of T, of gains, of a_j^2, and of both.
THRESHOLD, TOTAL, BUDGET, HELD, CURVE, FULL, MISSED, GAIN, SQUARES, MISSED_SQUARES = range(10)
# Number of the sums above, and bisection steps for a threshold.
SUMS = 10
_ROOT_STEPS = 60


@njit(**_PLAIN)
def _gaining(u, value, sigma, cut, words):
    """List the words whose addition gains more than ``cut``; how many, and the largest gain."""
    count, high = 0, 0.0
    for j in range(value.size):
        gain = -sigma * value[j] * u[j]
        if gain > cut:
            words[count] = j
            count += 1
            high = max(high, gain)
    return count, high


@njit(**_PLAIN)
def _added(t, u, own, value, sigma, total, words, count):
    """What is added in all of the listed words at threshold t, and its slope."""
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


@njit(**_PLAIN)
def _threshold(u, own, value, sigma, total, budget, guess, words):
    """The smallest threshold at which no more than the budget is added, from a guess.

    Words that gain more are among the ``words`` listed; also returned is how many are.
    """
    if budget <= 0:
        # Nothing is added, and no word is full.
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


@njit(**_PLAIN)
def settle(u, own, value, sides, place):
    """Find each side's threshold anew, and which words are free, held and full.

    Parameters
    ----------
    u : (d,) array
        The weights without what is added.
    own : (2, d) array
        By side, the sum of levels over rows that have the word, if it cannot be added to them.
    value : (d,) array
        What may be added, 0 for nothing.
    sides : (2, SUMS) array
        The positive rows' side, then that of the negative; `TOTAL` and `BUDGET` are given, the first
        negative for a side that adds nothing; the rest is found.
    place : (d,) array of int
        Receives 0 for free words, 1 and 2 for held and full ones of the first side, -1 and -2 for those
        of the second.
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


@njit(**_PLAIN)
def _hold_next(u, value, sigma, sums, place):
    """Where full words take the whole budget, the threshold is the gain of the word that comes next.

    It is held, nothing of it being added, so that rows can see what more budget would gain.
    """
    best, gain = -1, 0.0
    for j in range(value.size):
        if place[j] == 0 and -sigma * value[j] * u[j] > gain:
            best, gain = j, -sigma * value[j] * u[j]
    sums[THRESHOLD] = gain
    if best >= 0:
        _hold(best, u, value, sigma, sums, place)


@njit(**_PLAIN)
def _hold(j, u, value, sigma, sums, place):
    """A word becomes a held one."""
    a = value[j]
    sums[HELD] += -sigma * u[j] / a
    sums[CURVE] += 1.0 / (a * a)
    place[j] = 1 if sigma > 0 else -1


@njit(**_PLAIN)
def _let_go(j, u, value, sigma, sums, place):
    """A held word becomes a free one."""
    a = value[j]
    sums[HELD] -= -sigma * u[j] / a
    sums[CURVE] -= 1.0 / (a * a)
    place[j] = 0


@njit(**_PLAIN)
def _fill(j, u, own, value, sigma, sums, place, sign):
    """A free word becomes a full one, or with sign -1 the other way round."""
    a = value[j]
    sums[FULL] += sign
    sums[MISSED] += sign * own[j]
    sums[GAIN] += sign * -sigma * a * u[j]
    sums[SQUARES] += sign * a * a
    sums[MISSED_SQUARES] += sign * a * a * own[j]
    place[j] = 0 if sign < 0 else (2 if sigma > 0 else -2)


@njit(**_PLAIN)
def move_word(j, u, own, value, sides, place):
    """A word goes where it belongs at the thresholds as they are."""
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


@njit(**_PLAIN)
def level_out(sums):
    """The threshold of a side's held words as they are."""
    if sums[CURVE] > 0:
        budget = sums[BUDGET] - sums[FULL] * sums[TOTAL] + sums[MISSED]
        sums[THRESHOLD] = max((sums[HELD] - budget) / sums[CURVE], 0.0)


@njit(**_PLAIN, forceinline=True)
def weight_of(j, u, own, value, sides, place):
    """The weight of a held or full word, with what is added."""
    side = 0 if place[j] > 0 else 1
    sigma, sums = 1.0 - 2.0 * side, sides[side]
    if place[j] == 1 or place[j] == -1:
        return -sigma * sums[THRESHOLD] / value[j]
    return u[j] + sigma * value[j] * max(sums[TOTAL] - own[side, j], 0.0)


@njit(**_PLAIN)
def weights_of(u, own, value, sides, place, f):
    """The weights of held and full words, with what is added, into f; others are left as they are."""
    for j in range(value.size):
        if place[j] != 0:
            f[j] = weight_of(j, u, own, value, sides, place)


@njit(**_PLAIN)
def sweep_additions(indptr, indices, data, signs, weights, adds, value, present, K, kind, intercept,
                    cautious, u, own, sides, place, levels, order, gaps):  # fmt: skip
    """Raise the dual in the level of each row of `order`; what all rows add follows at once.

    Parameters
    ----------
    indptr, indices, data : arrays
        Rows in CSR format.
    signs, weights : (n,) arrays
    adds : (n,) array of bool
        Rows to which words may be added.
    value, own, sides, place
        See `settle`; they belong together, and are kept up to date.
    present : bool
        Whether words may be added to rows that have them.
    K : int
        How many words each row may add.
    kind : int
        The loss; see `margin_steps.KINDS`.
    intercept : bool
        Whether `u` ends with the coefficient of a constant feature, to which nothing is added.
    cautious : bool
        Whether a step takes held words for free ones in its curvature: shorter, and never too long.
    u : (d [+ 1],) array
        The weights without what is added.
    levels : (n,) array
    order : (m,) array of int
    gaps : (n,) array
        Receives each row's weighted gap on arrival.
    """
    last = u.size - 1
    pulls = np.empty(2)
    for i in order:
        c, s = weights[i], signs[i]
        gaps[i] = 0.0
        if c == 0:
            continue
        mine = -1 if not adds[i] else (0 if s > 0 else 1)
        start, stop = indptr[i], indptr[i + 1]
        margin, curve, own_full, own_gain = 0.0, 0.0, 0.0, 0.0
        pulls[:] = 0.0
        for e in range(start, stop):
            j, x = indices[e], np.float64(data[e])
            if place[j] == 0:
                margin += x * u[j]
                curve += x * x
                continue
            side, a = (0 if place[j] > 0 else 1), value[j]
            sigma, sums = 1.0 - 2.0 * side, sides[side]
            if place[j] == 1 or place[j] == -1:
                margin -= x * sigma * sums[THRESHOLD] / a
                pulls[side] -= sigma * s * x / a
                if cautious:
                    curve += x * x
                continue
            w = u[j] + sigma * a * (sums[TOTAL] - own[side, j])
            margin += x * w
            curve += x * x
            if side == mine:
                if present:
                    curve += 2.0 * x * a
                else:
                    own_full += 1.0
                    own_gain += -sigma * a * w
                    curve -= a * a
        if intercept:
            margin += u[last]
            curve += 1.0
        depth = -s * margin
        if mine >= 0:
            sums = sides[mine]
            budget = K - sums[FULL] + own_full
            full = sums[GAIN] - sums[TOTAL] * sums[SQUARES] + sums[MISSED_SQUARES]
            depth += sums[THRESHOLD] * budget + full - own_gain
            curve += sums[SQUARES]
            pulls[mine] -= budget
        for side in range(2):
            if sides[side, CURVE] > 0 and sides[side, THRESHOLD] > 0:
                curve += pulls[side] ** 2 / sides[side, CURVE]
        level, q = levels[i], c * max(curve, 0.0)
        gaps[i] = c * max(loss_value(kind, depth) + conjugate(kind, level) - level * depth, 0.0)
        new = best_level(kind, depth + q * level, q)
        step = c * (new - level)
        if step == 0:
            continue
        levels[i] = new
        _take(indices, data, start, stop, s * step, step, mine, value, present, K, u, own, sides, place)
        if intercept:
            u[last] += s * step


@njit(**_PLAIN)
def _take(indices, data, start, stop, rate, step, mine, value, present, K, u, own, sides, place):
    """Take a step over the level of a row: its words, its side, and where its words belong now."""
    if mine >= 0:
        sides[mine, TOTAL] += step
        sides[mine, BUDGET] += K * step
    for e in range(start, stop):
        j = indices[e]
        change, a = rate * data[e], value[j]
        u[j] += change
        if place[j] != 0:
            side = 0 if place[j] > 0 else 1
            sums, sigma = sides[side], 1.0 - 2.0 * side
            if place[j] == 1 or place[j] == -1:
                sums[HELD] -= sigma * change / a
            else:
                sums[GAIN] -= sigma * a * change
                if side == mine and not present:
                    sums[MISSED] += step
                    sums[MISSED_SQUARES] += a * a * step
        if mine >= 0 and not present:
            own[mine, j] += step
    for side in range(2):
        level_out(sides[side])
    for e in range(start, stop):
        move_word(indices[e], u, own, value, sides, place)
    for side in range(2):
        level_out(sides[side])
