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
# Reordering of sums is allowed, infinities keep their meaning.
_FAST: dict[str, Any] = {**_PLAIN, "fastmath": {"reassoc", "contract", "nsz", "arcp", "nnan"}}
# In place of an infinite threshold.
_HUGE = 1e300

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
def _gather(indices, u, inverse, place, work):
    """Weights, inverse values and places of words, into the first rows of ``work``."""
    w, by_value, at = work[0], work[1], work[2]
    for t in range(indices.size):
        j = np.uint64(indices[t])
        w[t], by_value[t], at[t] = u[j], inverse[j], place[j]


@njit(**_FAST)
def _multiply(data, s, cautious, first, second, work):
    """Products of words with the weights, in place of these; see `read_row`."""
    w, by_value, at = work[0], work[1], work[2]
    total, curve, up, down, n_full = 0.0, 0.0, 0.0, 0.0, 0.0
    for t in range(data.size):
        # All is read before anything is written, so that the loop takes several words at a time.
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


@njit(**_PLAIN)
def read_row(indices, data, s, cautious, u, own, value, inverse, sides, place, full, held, work):
    """Products of a row's words with the weights, into ``work[0]``.

    Also found are the entries of full words, into ``full``, and for each side the sum of entries over
    values of its held words, into ``held``. Nothing branches on where words are: frequent ones are held
    by turns, and no processor could predict it.

    Returns
    -------
    total, curve : float
        Sum of the products, and of the squares of words that are not held, or with ``cautious`` of all.
    n_full : int
    """
    first, second = sides[0, THRESHOLD], sides[1, THRESHOLD]
    # A side that adds nothing holds no word, and its threshold is infinite.
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


@njit(**_PLAIN)
def _add(indices, data, rate, more, own, mine, u, work):
    """Move the weights of words and the sums of their rows; both are listed anew."""
    w, rows_of = work[0], work[3]
    for t in range(indices.size):
        j = np.uint64(indices[t])
        own[mine, j] += more
        value = u[j] + rate * data[t]
        u[j], w[t] = value, value
        rows_of[t] = own[0 if value < 0 else 1, j]


@njit(**_FAST)
def _misplaced(length, first, second, first_total, second_total, work):
    """Mark words that do not belong where they are; how many there are."""
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


@njit(**_PLAIN)
def move_row(indices, data, rate, more, mine, u, own, value, sides, place, held, work):
    """Move a row's words, and put them where they belong; `read_row` has just read it.

    Parameters
    ----------
    rate : float
        By how much the row counts more, with its sign.
    more : float
        How much more of a word the row could add, if it did not have it.
    mine : int
        Its side.
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


@njit(**_PLAIN)
def sweep_additions(indptr, indices, data, signs, weights, adds, value, inverse, present, K, kind,
                    intercept, cautious, u, own, sides, place, levels, order, gaps):  # fmt: skip
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
    inverse : (d,) array
        One over each value, 0 where that is 0.
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
    last, longest = u.size - 1, 0
    for i in range(indptr.size - 1):
        longest = max(longest, indptr[i + 1] - indptr[i])
    full, held, work = np.empty(longest + 1, np.int64), np.empty(2), np.empty((4, longest + 1))
    pulls = np.empty(2)
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
        pulls[0], pulls[1] = -s * held[0], s * held[1]
        if intercept:
            margin += s * u[last]
            curve += 1.0
        depth = -margin
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
            depth += sums[THRESHOLD] * budget + gain - own_gain
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
