r"""Exact steps for rows that add the same features and also edit their own.

A row with dual variable :math:`\tau` uses a part s of its budget :math:`K\tau` for its own features. It
adds other features, in total at most :math:`K\tau - s`, and at most :math:`\min(\tau, K\tau - s)` of
each. As in `addition_steps`, only the sums of these two limits over the rows of a sign are stored.

In the block of one row (`word_steps`), all held features are a single one. Its gain is the threshold t
of the side, and it may take the whole budget. Each full feature is a separate one, with an amount of at
most :math:`\tau`. Steps are exact while features keep their state, with one exception. Own entries of
held features have the curvature of free ones, so these steps may be too short, but never too long.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..oracles.words.kernels import largest
from ..utils.jit import FAST, PLAIN, njit
from .addition_steps import (
    BUDGET,
    CURVE,
    FULL,
    HELD,
    MISSED,
    THRESHOLD,
    TOTAL,
    move_row,
    read_row,
    weight_of,
)
from .word_steps import KEEP, Block, Listed, step_block


class OwnEdits(NamedTuple):
    """Variables of the rows themselves.

    - `alphas, spent, mu` (n,): dual variables, parts of their budgets for own features, and K-th gains
    - `delta` (nnz,): deviations of own features
    """

    alphas: np.ndarray
    spent: np.ndarray
    mu: np.ndarray
    delta: np.ndarray


@njit(**PLAIN)
def left_over(alpha, spent, K):
    """Return the amounts of all features and of one feature that a row may add."""
    budget = max(K * alpha - spent, 0.0)
    return budget, min(alpha, budget)


@njit(**PLAIN, forceinline=True)
def _list(words, at, b, q, base, dev, drop, grow, cap):
    """Append a feature to the list; return the number of features."""
    words.products[at], words.curvatures[at] = b, q
    words.bases[at], words.deviations[at] = base, dev
    words.drops[at], words.grows[at], words.caps[at] = drop, grow, cap
    return at + 1


@njit(**PLAIN)
def _list_full(full, count, wanted, place, sigma, indices, start, stop):
    """Remove features that are no longer full from a side's list, and append new ones from a row."""
    kept = 0
    for k in range(count[0]):
        full[kept] = full[k]
        kept += place[full[k]] == 2 * sigma
    count[0] = kept
    for e in range(start, stop if kept < wanted else start):
        j, known = indices[e], place[indices[e]] != 2 * sigma
        for k in range(kept):
            known = known or full[k] == j
        if not known:
            full[count[0]] = j
            count[0] += 1


@njit(**PLAIN, forceinline=True)
def _push(j, change, u, value, sides, place):
    """Change the rows' own part of a weight, and the gain of a held feature."""
    u[j] += change
    if place[j] == 1:
        sides[0, HELD] -= change / value[j]
    elif place[j] == -1:
        sides[1, HELD] += change / value[j]


@njit(**FAST)
def _choose(delta, start, length, size, cut, drop, grow, entries):
    """List entries with a gain above ``cut`` or a deviation; return their number."""
    count = 0
    for t in range(length):
        entries[count] = start + t
        count += (max(drop * size[t], -grow * size[t]) > cut) | (delta[start + t] != 0)
    return count


@njit(**PLAIN)
def _list_own(indices, data, delta, start, c, s, drop, grow, cautious, value, place, size, entries,
              n_own, words, at, couplings):  # fmt: skip
    """List the chosen entries of a row; return their products' sum and their curvature.

    Entries of held features have no part in the curvature of the row. Their part of its couplings is
    removed instead.
    """
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
            couplings[side] += (1.0 - 2.0 * side) * s * x / value[j]
    return total, curve


@njit(**PLAIN)
def _list_added(indices, c, mine, budget, cap, K, u, own, value, sides, place, full, n_full, mine_full,
                n_mine, has, words):  # fmt: skip
    """List the features that a row may add, and return their number.

    Each full feature is listed, and all held features are listed as a single one. The full features of
    the row's ``n_mine`` entries in ``mine_full`` are skipped.
    """
    sigma, count = 1 - 2 * mine, 0
    for k in range(n_mine):
        has[indices[mine_full[k]]] = True
    for k in range(n_full[mine, 0]):
        j = full[mine, k]
        if not has[j]:
            a = value[j]
            profit = -sigma * a * weight_of(j, u, own, value, sides, place)
            count = _list(words, count, profit, c * a * a, 0.0, -min(cap, budget), 1.0, 0.0, 1.0)
            budget -= min(cap, budget)
    for k in range(n_mine):
        has[indices[mine_full[k]]] = False
    threshold, curve = sides[mine, THRESHOLD], sides[mine, CURVE]
    if curve > 0 and threshold > 0:
        count = _list(words, count, threshold, c / curve, 0.0, -budget, 1.0, 0.0, np.float64(K))
    return count


@njit(**PLAIN)
def _top(size, length, words, n_added, K, threshold, guess, drop, grow, gain):
    """Return the largest sum of K gains, and the K-th largest gain.

    Held features have the gain ``threshold``. They can take any part of the budget, so the K-th gain is
    at least the threshold.
    """
    above = 0
    for t in range(length):
        value = max(drop * size[t], -grow * size[t])
        gain[above] = value
        above += value > threshold
    for t in range(n_added):
        gain[above] = words.products[t]
        above += gain[above] > threshold
    if above >= K:
        return largest(gain, above, K, max(guess, threshold))
    top = (K - above) * threshold
    for t in range(above):
        top += gain[t]
    return top, threshold


@njit(**PLAIN)
def sweep_edits(rows, losses, added, moves, cautious, u, variables, order, gaps, least, moved, before):
    """Maximize over the dual variable and the own features of each row of `order`.

    Steps include the additions of all rows. The entries whose deviations change are written into
    `moved`, and their former deviations into `before`; returns their number.

    Shapes: `u` (d [+ 1],), `order` (m,), `gaps` (n,), `moved` (nnz,), `before` (nnz,).
    """
    indptr, indices, data = rows
    signs, weights, squares, intercept = losses.signs, losses.weights, losses.squares, losses.intercept
    edited, K, _, value, inverse, own, sides, place = added
    drop, grow = moves.drop, moves.grow
    alphas, spent, mu, delta = variables
    n_moved = 0
    last, longest = u.size - 1, 0
    for i in range(indptr.size - 1):
        longest = max(longest, indptr[i + 1] - indptr[i])
    room = longest + value.size + 2
    table = np.empty((9, room))
    words = Listed(
        table[0], table[1], table[2], table[3], table[4], table[5], table[6], table[7], table[8]
    )
    entries, work = np.empty(longest + 1, np.int64), np.empty((4, longest + 1))
    gain, size = np.empty(room), work[0]
    couplings, held = np.empty(2), np.empty(2)
    row_full = np.empty(longest + 1, np.int64)
    full, n_full = np.empty((2, value.size + 1), np.int64), np.zeros((2, 1), np.int64)
    has = np.zeros(value.size, np.bool_)
    for j in range(value.size):
        if place[j] == 2 or place[j] == -2:
            side = 0 if place[j] > 0 else 1
            full[side, n_full[side, 0]] = j
            n_full[side, 0] += 1
    for i in order:
        c, s, alpha = weights[i], signs[i], alphas[i]
        gaps[i] = 0.0
        if c == 0:
            continue
        mine = -1 if not edited[i] else (0 if s > 0 else 1)
        start, stop = indptr[i], indptr[i + 1]
        total, curve, n_row_full = read_row(
            indices[start:stop], data[start:stop], s, cautious, u, own, value, inverse, sides, place,
            row_full, held, work,
        )  # fmt: skip
        couplings[0], couplings[1] = (0.0, 0.0) if cautious else (-s * held[0], s * held[1])
        if intercept:
            total += s * u[last]
            curve += 1.0
        n_own, n_added, most, budget, cap, top, threshold = 0, 0, 0, 0.0, 0.0, 0.0, 0.0
        rest, inner = total, alpha * total
        if mine >= 0:
            most, (budget, cap) = K, left_over(alpha, spent[i], K)
            n_added = _list_added(
                indices[start:stop], c, mine, budget, cap, K, u, own, value, sides, place, full, n_full,
                row_full, n_row_full, has, words,
            )  # fmt: skip
            top, threshold = _top(
                size, stop - start, words, n_added, K, sides[mine, THRESHOLD], mu[i], drop, grow, gain,
            )  # fmt: skip
            mu[i] = threshold
            n_own = _choose(delta, start, stop - start, size, KEEP * threshold, drop, grow, entries)
            listed, listed_curve = _list_own(
                indices, data, delta, start, c, s, drop, grow, cautious, value, place, size, entries,
                n_own, words, n_added, couplings,
            )  # fmt: skip
            rest -= listed
            curve = max(curve - listed_curve, 0.0)
        count = n_added + n_own
        for t in range(count):
            inner += words.products[t] * words.deviations[t]
        lack = 1.0 - (total - top)
        gap = max(lack, 0.0) - alpha + inner
        gaps[i] = c * max(gap, 0.0)
        if gaps[i] <= least:
            continue
        for side in range(2):
            if sides[side, CURVE] > 0 and sides[side, THRESHOLD] > 0:
                curve += couplings[side] ** 2 / sides[side, CURVE]
        size_of_row, curve = c * (squares[i] + intercept), c * curve
        block = Block(alpha, 1.0, lack, gap, size_of_row, rest, curve, threshold, most)
        gamma, new = step_block(block, words, count)
        if gamma == 0.0:
            continue
        alphas[i] = new if gamma == 1.0 else alpha + gamma * (new - alpha)
        for t in range(n_own):
            moved[n_moved], before[n_moved] = entries[t], delta[entries[t]]
            n_moved += 1
        former, target = words.deviations[n_added:], words.amounts[n_added:]
        spent[i] = _deviate(
            indices, data, delta, entries, n_own, former, target, gamma, c * s, drop, grow, u, value,
            sides, place,
        )  # fmt: skip
        more, step = 0.0, c * s * (alphas[i] - alpha)
        if mine >= 0:
            budget_now, cap_now = left_over(alphas[i], spent[i], K)
            more = c * (cap_now - cap)
            sides[mine, TOTAL] = max(sides[mine, TOTAL] + more, 0.0)
            sides[mine, BUDGET] += c * (budget_now - budget)
            for k in range(n_row_full):
                if place[indices[start + row_full[k]]] == 2 - 4 * mine:
                    sides[mine, MISSED] += more
        if intercept:
            u[last] += step
        move_row(
            indices[start:stop], data[start:stop], step, more, max(mine, 0), u, own, value, sides, place,
            held, work,
        )  # fmt: skip
        for side in range(2):
            _list_full(
                full[side], n_full[side], sides[side, FULL], place, 1 - 2 * side, indices, start, stop
            )
    return n_moved


@njit(**PLAIN)
def _deviate(indices, data, delta, entries, count, old, target, gamma, rate, drop, grow, u, value, sides,
             place):  # fmt: skip
    """Move the listed entries of a row by a fraction `gamma`; return their part of the budget."""
    spent = 0.0
    for t in range(count):
        e = entries[t]
        delta[e] = target[t] if gamma == 1.0 else old[t] + gamma * (target[t] - old[t])
        spent += -delta[e] / drop if delta[e] < 0 else (delta[e] / grow if delta[e] > 0 else 0.0)
        _push(indices[e], rate * data[e] * (delta[e] - old[t]), u, value, sides, place)
    return spent
