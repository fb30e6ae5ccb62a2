r"""Steps over rows whose own words change, too, where all rows add the same words.

A row of level :math:`\tau` spends a part of its budget :math:`K\tau` on its own words; with what is left
it adds words, at most :math:`\tau` of each. What is left of all rows of a sign is shared as in
`addition_steps`. In the block of one row (`word_blocks`) all held words are one, which has the gain t,
the threshold of the side, and may take the whole budget; each full word is one of its own.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..oracles.words.word_blocks import step_block
from ..oracles.words.word_selection import largest
from ..utils.jit import njit
from .addition_steps import (
    BUDGET,
    CURVE,
    HELD,
    MISSED,
    THRESHOLD,
    TOTAL,
    level_out,
    move_word,
    weight_of,
)

_PLAIN: dict[str, Any] = {"cache": True, "nogil": True, "error_model": "numpy"}
# Reordering of sums is allowed, infinities keep their meaning.
_FAST: dict[str, Any] = {**_PLAIN, "fastmath": {"reassoc", "contract", "nsz", "arcp", "nnan"}}
# Words of a row that gain less than this share of the threshold are left as they are in a visit.
_KEEP = 0.7
# What is listed of a word: product with the weights, curvature, base, deviation, the moves for a unit of
# the budget, and how many units it can take.
_B, _Q, _BASE, _DEV, _DROP, _GROW, _CAP = range(7)


@njit(**_PLAIN)
def left_over(level, spent, K):
    """How much of all words a row may add, and how much of one of them."""
    budget = max(K * level - spent, 0.0)
    return budget, min(level, budget)


@njit(**_PLAIN, forceinline=True)
def _list(words, at, b, q, base, dev, drop, grow, cap):
    """Put a word on the list; how many there are."""
    words[_B, at], words[_Q, at], words[_BASE, at], words[_DEV, at] = b, q, base, dev
    words[_DROP, at], words[_GROW, at], words[_CAP, at] = drop, grow, cap
    return at + 1


@njit(**_PLAIN)
def _list_full(full, count, place, sigma):
    """The full words of a side, for a start."""
    count[0] = 0
    for j in range(place.size):
        if place[j] == 2 * sigma:
            full[count[0]] = j
            count[0] += 1


@njit(**_PLAIN)
def _add_full(j, full, count):
    """One more full word, unless it is listed."""
    for k in range(count[0]):
        if full[k] == j:
            return
    full[count[0]] = j
    count[0] += 1


@njit(**_PLAIN)
def _drop_others(full, count, place, sigma):
    """Leave only those words listed that are full."""
    kept = 0
    for k in range(count[0]):
        full[kept] = full[k]
        kept += place[full[k]] == 2 * sigma
    count[0] = kept


@njit(**_PLAIN, forceinline=True)
def _push(j, change, u, value, sides, place):
    """Move the rows' own part of a weight."""
    u[j] += change
    if place[j] == 1:
        sides[0, HELD] -= change / value[j]
    elif place[j] == -1:
        sides[1, HELD] += change / value[j]


@njit(**_PLAIN)
def _read(indices, data, start, stop, s, cautious, u, own, value, sides, place, size, pulls):
    """Products of a row's words with the weights; their sum and its curvature, of words as they are.

    ``pulls`` receives what the row does to the held words of both sides.
    """
    total, curve = 0.0, 0.0
    pulls[:] = 0.0
    for e in range(start, stop):
        j, x = indices[e], np.float64(data[e])
        if place[j] == 0:
            b = s * x * u[j]
            curve += x * x
        else:
            b = s * x * weight_of(j, u, own, value, sides, place)
            if cautious or place[j] == 2 or place[j] == -2:
                curve += x * x
            else:
                side = 0 if place[j] > 0 else 1
                pulls[side] -= (1.0 - 2.0 * side) * s * x / value[j]
        size[e - start] = b
        total += b
    return total, curve


@njit(**_FAST)
def _choose(delta, start, length, size, cut, drop, grow, entries):
    """Entries of words that gain more than ``cut`` or deviate; how many."""
    count = 0
    for t in range(length):
        entries[count] = start + t
        count += (max(drop * size[t], -grow * size[t]) > cut) | (delta[start + t] != 0)
    return count


@njit(**_PLAIN)
def _list_own(indices, data, delta, start, c, s, drop, grow, cautious, value, place, size, entries,
              n_own, words, at, pulls):  # fmt: skip
    """Put the chosen words of a row on the list; their sum and curvature, which others lack then."""
    total, curve = 0.0, 0.0
    for t in range(n_own):
        e = entries[t]
        j, x = indices[e], np.float64(data[e])
        _list(words, at + t, size[e - start], c * x * x, 1.0, delta[e], drop, grow, 1.0)
        total += size[e - start]
        if cautious or place[j] == 0 or place[j] == 2 or place[j] == -2:
            curve += x * x
        else:
            side = 0 if place[j] > 0 else 1
            pulls[side] += (1.0 - 2.0 * side) * s * x / value[j]
    return total, curve


@njit(**_PLAIN)
def _list_added(indices, start, stop, c, mine, budget, cap, K, u, own, value, sides, place, full, n_full,
                has, words):  # fmt: skip
    """List the words that a row may add: full ones, and all held ones as one of their own; how many."""
    sigma, count = 1 - 2 * mine, 0
    _drop_others(full[mine], n_full[mine], place, sigma)
    if n_full[mine, 0] > 0:
        for e in range(start, stop):
            has[indices[e]] = True
    for k in range(n_full[mine, 0]):
        j = full[mine, k]
        if not has[j]:
            a = value[j]
            worth = -sigma * a * weight_of(j, u, own, value, sides, place)
            count = _list(words, count, worth, c * a * a, 0.0, -min(cap, budget), 1.0, 0.0, 1.0)
            budget -= min(cap, budget)
    if n_full[mine, 0] > 0:
        for e in range(start, stop):
            has[indices[e]] = False
    threshold, curve = sides[mine, THRESHOLD], sides[mine, CURVE]
    if curve > 0 and threshold > 0:
        count = _list(words, count, threshold, c / curve, 0.0, -budget, 1.0, 0.0, np.float64(K))
    return count


@njit(**_PLAIN)
def _top(size, length, words, n_added, K, threshold, guess, drop, grow, gain):
    """The largest sum of K gains, if any number of words gains the threshold; and the K-th of them."""
    above = 0
    for t in range(length):
        gain[above] = max(drop * size[t], -grow * size[t])
        above += gain[above] > threshold
    for t in range(n_added):
        gain[above] = words[_B, t]
        above += gain[above] > threshold
    if above >= K:
        return largest(gain, above, K, max(guess, threshold))
    top = (K - above) * threshold
    for t in range(above):
        top += gain[t]
    return top, threshold


@njit(**_PLAIN)
def sweep_edits(indptr, indices, data, delta, signs, weights, squares, edited, value, K, drop, grow,
                intercept, cautious, u, own, sides, place, levels, spent, mu, order, gaps):  # fmt: skip
    """Raise the dual in the level and the own words of each row of `order`.

    Parameters
    ----------
    indptr, indices, data : arrays
        Rows in CSR format.
    delta : (nnz,) array
        Deviations of the factors of words from their row's level.
    signs, weights, squares : (n,) arrays
        The last the squared length of each row, with the constant feature.
    edited : (n,) array of bool
        Rows that may be changed.
    value, own, sides, place
        See `addition_steps.settle`; they belong together. `own` is kept up to date for words that are
        held or full.
    K : int
        How many changes a row may have.
    drop, grow : float
        How far a factor may fall below 1, and rise above it.
    intercept : bool
        Whether `u` ends with the coefficient of a constant feature, which never changes.
    cautious : bool
        Whether held words of a row that do not change by themselves are taken for free ones.
    u : (d [+ 1],) array
        The weights without what is added.
    levels, spent, mu : (n,) arrays
        Of each row its level, how much of its budget its own words have, and its K-th largest gain.
    order : (m,) array of int
    gaps : (n,) array
        Receives each row's weighted gap on arrival.
    """
    last, longest = u.size - 1, 0
    for i in range(indptr.size - 1):
        longest = max(longest, indptr[i + 1] - indptr[i])
    room = longest + value.size + 2
    words, entries, size = np.empty((7, room)), np.empty(longest + 1, np.int64), np.empty(longest + 1)
    gain = np.empty(room)
    h, kappa, pulls = np.empty(room), np.empty(room), np.empty(2)
    full, n_full = np.empty((2, value.size + 1), np.int64), np.zeros((2, 1), np.int64)
    has = np.zeros(value.size, np.bool_)
    for side in range(2):
        _list_full(full[side], n_full[side], place, 1 - 2 * side)
    for i in order:
        c, s, level = weights[i], signs[i], levels[i]
        gaps[i] = 0.0
        if c == 0:
            continue
        mine = -1 if not edited[i] else (0 if s > 0 else 1)
        start, stop = indptr[i], indptr[i + 1]
        total, curve = _read(
            indices, data, start, stop, s, cautious, u, own, value, sides, place, size, pulls
        )
        if intercept:
            total += s * u[last]
            curve += 1.0
        n_own, n_added, most, budget, cap, top, threshold = 0, 0, 0, 0.0, 0.0, 0.0, 0.0
        rest, inner = total, level * total
        if mine >= 0:
            most, (budget, cap) = K, left_over(level, spent[i], K)
            n_added = _list_added(
                indices, start, stop, c, mine, budget, cap, K, u, own, value, sides, place, full, n_full,
                has, words,
            )  # fmt: skip
            top, threshold = _top(
                size, stop - start, words, n_added, K, sides[mine, THRESHOLD], mu[i], drop, grow, gain,
            )  # fmt: skip
            mu[i] = threshold
            n_own = _choose(delta, start, stop - start, size, _KEEP * threshold, drop, grow, entries)
            listed, listed_curve = _list_own(
                indices, data, delta, start, c, s, drop, grow, cautious, value, place, size, entries,
                n_own, words, n_added, pulls,
            )  # fmt: skip
            rest -= listed
            curve = max(curve - listed_curve, 0.0)
        count = n_added + n_own
        for t in range(count):
            inner += words[_B, t] * words[_DEV, t]
        lack = 1.0 - (total - top)
        gap = max(lack, 0.0) - level + inner
        gaps[i] = c * max(gap, 0.0)
        if gap <= 0:
            continue
        for side in range(2):
            if sides[side, CURVE] > 0 and sides[side, THRESHOLD] > 0:
                curve += pulls[side] ** 2 / sides[side, CURVE]
        gamma, new = step_block(
            level, 1.0, lack, gap, c * squares[i], words[_B], words[_Q], words[_BASE], words[_DEV],
            count, rest, c * curve, threshold, most, words[_DROP], words[_GROW], words[_CAP], h, kappa,
        )  # fmt: skip
        if gamma == 0.0:
            continue
        levels[i] = new if gamma == 1.0 else level + gamma * (new - level)
        spent[i] = _deviate(
            indices, data, delta, entries, n_own, words[_DEV, n_added:], kappa[n_added:], gamma, c * s,
            drop, grow, u, value, sides, place,
        )  # fmt: skip
        more, step = 0.0, c * s * (levels[i] - level)
        if mine >= 0:
            budget_now, cap_now = left_over(levels[i], spent[i], K)
            more = c * (cap_now - cap)
            sides[mine, TOTAL] = max(sides[mine, TOTAL] + more, 0.0)
            sides[mine, BUDGET] += c * (budget_now - budget)
        if intercept:
            u[last] += step
        _take(
            indices, data, start, stop, entries, n_own, step, mine, more, u, own, value, sides, place,
            full, n_full,
        )  # fmt: skip


@njit(**_PLAIN)
def _deviate(indices, data, delta, entries, count, old, target, gamma, rate, drop, grow, u, value, sides,
             place):  # fmt: skip
    """Move the listed words of a row a share of the way; how much of its budget they have then."""
    spent = 0.0
    for t in range(count):
        e = entries[t]
        delta[e] = target[t] if gamma == 1.0 else old[t] + gamma * (target[t] - old[t])
        spent += -delta[e] / drop if delta[e] < 0 else (delta[e] / grow if delta[e] > 0 else 0.0)
        _push(indices[e], rate * data[e] * (delta[e] - old[t]), u, value, sides, place)
    return spent


@njit(**_PLAIN)
def _take(indices, data, start, stop, entries, n_own, step, mine, more, u, own, value, sides, place,
          full, n_full):  # fmt: skip
    """Take a step over the level of a row; its words go where they belong."""
    for side in range(2):
        level_out(sides[side])
    if step == 0 and more == 0:
        for t in range(n_own):
            _rearrange(indices[entries[t]], u, own, value, sides, place, full, n_full)
        start = stop
    for e in range(start, stop):
        j = indices[e]
        if place[j] != 0:
            if mine >= 0:
                own[mine, j] += more
                if place[j] == 2 * (1 - 2 * mine):
                    sides[mine, MISSED] += more
            _push(j, step * data[e], u, value, sides, place)
        else:
            u[j] += step * data[e]
            if not value[j] * abs(u[j]) > sides[0 if u[j] < 0 else 1, THRESHOLD]:
                continue
        _rearrange(j, u, own, value, sides, place, full, n_full)
    for side in range(2):
        level_out(sides[side])


@njit(**_PLAIN, forceinline=True)
def _rearrange(j, u, own, value, sides, place, full, n_full):
    """Put a word where it belongs."""
    before = place[j]
    move_word(j, u, own, value, sides, place)
    if place[j] != before and (place[j] == 2 or place[j] == -2):
        side = 0 if place[j] > 0 else 1
        _add_full(j, full[side], n_full[side])
