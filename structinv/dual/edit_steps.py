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
from ..utils.jit import LEAN, LEAN_FAST, njit
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
    row_of,
    weight_of,
    with_coupling,
)
from .word_steps import KEEP, Block, Listed, listed, step_block


class OwnEdits(NamedTuple):
    """Variables of the rows themselves.

    - `taus, spent, mu` (n,): dual variables, parts of their budgets for own features, and K-th gains
    - `delta` (nnz,): deviations of own features
    - `moved, before` (nnz,): entries whose deviations the last sweep changed, and former deviations
    """

    taus: np.ndarray
    spent: np.ndarray
    mu: np.ndarray
    delta: np.ndarray
    moved: np.ndarray
    before: np.ndarray


class EditWork(NamedTuple):
    """Workspaces of `sweep_edits`, for rows with fewer than `width` features.

    - `words` (d + width): listed words of a row, of which the first are added
    - `gain` (d + width,), `positions` (width,): gains, and the listed entries of a row
    - `full` (2, d + 1), `n_full` (2,): full features of each side, and their number
    - `has` (d,): mask of features that a row has, False between calls
    """

    words: Listed
    gain: np.ndarray
    positions: np.ndarray
    full: np.ndarray
    n_full: np.ndarray
    has: np.ndarray


def edit_work(width: int, n_features: int) -> EditWork:
    """Return workspaces for rows with fewer than `width` features."""
    room, integers = width + n_features + 1, np.int64
    words, gain, has = listed(room, 0.0, 0.0), np.empty(room), np.zeros(n_features, dtype=bool)
    positions, full = np.empty(width, integers), np.empty((2, n_features + 1), integers)
    return EditWork(words, gain, positions, full, np.zeros(2, integers), has)


@njit(**LEAN)
def left_over(tau, spent, most):
    """Return the amounts of all features and of one feature that a row may add."""
    budget = max(most * tau - spent, 0.0)
    return budget, min(tau, budget)


@njit(**LEAN, forceinline=True)
def _list(words, at, b, q, base, dev, drop, grow, cap):
    """Append a feature to the list; return the number of features."""
    words.products[at], words.curvatures[at] = b, q
    words.bases[at], words.deviations[at] = base, dev
    words.drops[at], words.grows[at], words.caps[at] = drop, grow, cap
    return at + 1


@njit(**LEAN)
def _list_all_full(added, work):
    """List the full features of both sides."""
    place, full, n_full = added.place, work.full, work.n_full
    n_full[:] = 0
    for j in range(place.size):
        if place[j] == 2 or place[j] == -2:
            side = 0 if place[j] > 0 else 1
            full[side, n_full[side]] = j
            n_full[side] += 1


@njit(**LEAN)
def _update_full(row, added, work):
    """Remove features that are no longer full from the lists, and append new ones from a row."""
    place, n_full = added.place, work.n_full
    for side in range(2):
        full, state, kept = work.full[side], 2 - 4 * side, 0
        for k in range(n_full[side]):
            full[kept] = full[k]
            kept += place[full[k]] == state
        n_full[side] = kept
        for t in range(row.words.size if kept < added.sides[side, FULL] else 0):
            j = row.words[t]
            known = place[j] != state
            for k in range(kept):
                known = known or full[k] == j
            if not known:
                full[n_full[side]] = j
                n_full[side] += 1


@njit(**LEAN, forceinline=True)
def _push(j, change, u, added):
    """Change the rows' own part of a weight, and the gain of a held feature."""
    u[j] += change
    if added.place[j] == 1:
        added.sides[0, HELD] -= change / added.value[j]
    elif added.place[j] == -1:
        added.sides[1, HELD] += change / added.value[j]


@njit(**LEAN_FAST)
def _choose(deviations, products, cut, drop, grow, positions):
    """List entries of a row with a gain above ``cut`` or a deviation; return their number."""
    count = 0
    for t in range(deviations.size):
        positions[count] = t
        count += (max(drop * products[t], -grow * products[t]) > cut) | (deviations[t] != 0)
    return count


@njit(**LEAN)
def _list_own(row, deviations, products, moves, cautious, added, n_own, at, couplings, work):
    """List the chosen entries of a row; return their products' sum and their curvature.

    Entries of held features have no part in the curvature of the row. Their part of its couplings is
    removed instead.
    """
    total, curve, place, drop, grow = 0.0, 0.0, added.place, moves.drop, moves.grow
    for k in range(n_own):
        t = work.positions[k]
        j, x, b = row.words[t], np.float64(row.values[t]), products[t]
        _list(work.words, at + k, b, row.weight * x * x, 1.0, deviations[t], drop, grow, 1.0)
        total += b
        if cautious or place[j] == 0 or place[j] == 2 or place[j] == -2:
            curve += x * x
        else:
            side = 0 if place[j] > 0 else 1
            couplings[side] += (1.0 - 2.0 * side) * row.sign * x / added.value[j]
    return total, curve


@njit(**LEAN)
def _list_added(row, budget, cap, u, added, row_full, n_row_full, work):
    """List the features that a row may add, and return their number.

    Each full feature is listed, and all held features are listed as a single one. The full features of
    the row are skipped, those at its first ``n_row_full`` positions in ``row_full``.
    """
    side, c, count, has, words = row.side, row.weight, 0, work.has, work.words
    for k in range(n_row_full):
        has[row.words[row_full[k]]] = True
    for k in range(work.n_full[side]):
        j = work.full[side, k]
        if not has[j]:
            a = added.value[j]
            profit = -(1 - 2 * side) * a * weight_of(j, u, added)
            count = _list(words, count, profit, c * a * a, 0.0, -min(cap, budget), 1.0, 0.0, 1.0)
            budget -= min(cap, budget)
    for k in range(n_row_full):
        has[row.words[row_full[k]]] = False
    threshold, curve = added.sides[side, THRESHOLD], added.sides[side, CURVE]
    if curve > 0 and threshold > 0:
        most = np.float64(added.most)
        count = _list(words, count, threshold, c / curve, 0.0, -budget, 1.0, 0.0, most)
    return count


@njit(**LEAN)
def _top(products, length, n_added, K, threshold, guess, moves, work):
    """Return the largest sum of K gains, and the K-th largest gain.

    Held features have the gain ``threshold``. They can take any part of the budget, so the K-th gain is
    at least the threshold.
    """
    above, gain = 0, work.gain
    for t in range(length):
        value = max(moves.drop * products[t], -moves.grow * products[t])
        gain[above] = value
        above += value > threshold
    for t in range(n_added):
        gain[above] = work.words.products[t]
        above += gain[above] > threshold
    if above >= K:
        return largest(gain, above, K, max(guess, threshold))
    top = (K - above) * threshold
    for t in range(above):
        top += gain[t]
    return top, threshold


@njit(**LEAN)
def _remember(row, variables, n_moved, n_own, work):
    """Store the deviations of the chosen entries of a row; return the number of all stored ones."""
    for k in range(n_own):
        entry = row.start + work.positions[k]
        variables.moved[n_moved + k], variables.before[n_moved + k] = entry, variables.delta[entry]
    return n_moved + n_own


@njit(**LEAN)
def _deviate(row, deviations, n_own, at, gamma, moves, u, added, work):
    """Move the chosen entries of a row by a fraction `gamma`; return their part of the budget."""
    old, target, rate = work.words.deviations[at:], work.words.amounts[at:], row.weight * row.sign
    spent = 0.0
    for k in range(n_own):
        t = work.positions[k]
        new = target[k] if gamma == 1.0 else old[k] + gamma * (target[k] - old[k])
        deviations[t] = new
        spent += -new / moves.drop if new < 0 else (new / moves.grow if new > 0 else 0.0)
        _push(row.words[t], rate * row.values[t] * (new - old[k]), u, added)
    return spent


@njit(**LEAN)
def _raise_limits(row, before, after, n_row_full, added, row_full):
    """Update the sums for a row's new left-over amounts; return the increase of that of a feature."""
    more, sums = row.weight * (after[1] - before[1]), added.sides[row.side]
    sums[TOTAL] = max(sums[TOTAL] + more, 0.0)
    sums[BUDGET] += row.weight * (after[0] - before[0])
    for k in range(n_row_full):
        if added.place[row.words[row_full[k]]] == 2 - 4 * row.side:
            sums[MISSED] += more
    return more


@njit(**LEAN)
def sweep_edits(rows, losses, added, moves, cautious, u, variables, order, gaps, least, row_work, work):
    """Maximize over the dual variable and the own features of each row of `order`.

    Steps include the additions of all rows. Returns the number of `variables.moved`.

    Shapes: `u` (d [+ 1],), `order` (m,), `gaps` (n,).
    """
    squares, intercept, words = losses.squares, losses.intercept, work.words
    couplings, held, row_full = row_work.couplings, row_work.held, row_work.full
    taus, spent, mu = variables.taus, variables.spent, variables.mu
    n_moved, last, products = 0, u.size - 1, row_work.values[0]
    _list_all_full(added, work)
    for i in order:
        row = row_of(i, rows, losses, added.changed)
        c, s, tau = row.weight, row.sign, taus[i]
        gaps[i] = 0.0
        if c == 0:
            continue
        deviations = variables.delta[row.start : row.start + row.words.size]
        total, curve, n_row_full = read_row(row, cautious, u, added, row_work)
        couplings[0], couplings[1] = (0.0, 0.0) if cautious else (-s * held[0], s * held[1])
        if intercept:
            total += s * u[last]
            curve += 1.0
        n_own, n_added, most, top, threshold = 0, 0, 0, 0.0, 0.0
        rest, inner, limits = total, tau * total, left_over(tau, spent[i], added.most)
        if row.side >= 0:
            most, held_gain = added.most, added.sides[row.side, THRESHOLD]
            n_added = _list_added(row, limits[0], limits[1], u, added, row_full, n_row_full, work)
            top, threshold = _top(products, row.words.size, n_added, most, held_gain, mu[i], moves, work)
            mu[i] = threshold
            n_own = _choose(
                deviations, products, KEEP * threshold, moves.drop, moves.grow, work.positions
            )
            own, own_curve = _list_own(
                row, deviations, products, moves, cautious, added, n_own, n_added, couplings, work
            )
            rest -= own
            curve = max(curve - own_curve, 0.0)
        count = n_added + n_own
        for t in range(count):
            inner += words.products[t] * words.deviations[t]
        lack = 1.0 - (total - top)
        gap = max(lack, 0.0) - tau + inner
        gaps[i] = c * max(gap, 0.0)
        if gaps[i] <= least:
            continue
        curve, row_size = c * with_coupling(curve, couplings, added.sides), c * (squares[i] + intercept)
        block = Block(tau, 1.0, lack, gap, row_size, rest, curve, threshold, most)
        gamma, new = step_block(block, words, count)
        if gamma == 0.0:
            continue
        taus[i] = new if gamma == 1.0 else tau + gamma * (new - tau)
        n_moved = _remember(row, variables, n_moved, n_own, work)
        spent[i] = _deviate(row, deviations, n_own, n_added, gamma, moves, u, added, work)
        more, step = 0.0, c * s * (taus[i] - tau)
        if row.side >= 0:
            new_limits = left_over(taus[i], spent[i], added.most)
            more = _raise_limits(row, limits, new_limits, n_row_full, added, row_full)
        if intercept:
            u[last] += step
        move_row(row, step, more, u, added, row_work)
        _update_full(row, added, work)
    return n_moved
