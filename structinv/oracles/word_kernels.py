r"""Averaged planes of a robust linear SVM whose words can be rescaled or dropped.

A row :math:`x` of a sparse matrix may be changed in at most :math:`K` of its
stored entries (words), each multiplied by a factor in :math:`[l, u]`,
:math:`0 \le l \le 1 \le u`.  The robust hinge loss of a row of sign :math:`y` is

.. math:: \ell(w) = \max\bigl(0, 1 - \min_{z \in S(x)} y \langle w, z\rangle\bigr).

The convex hull of the planes of this maximum, null plane included, is described
without listing its vertices by a level :math:`\tau \in [0, 1]` and, per word, a
deviation :math:`\delta_j` from it:

.. math:: a = y\, x \circ (\tau + \delta), \quad
   \delta_j = -(1-l)\kappa_j \text{ or } (u-1)\kappa_j, \quad
   0 \le \kappa_j \le \tau, \quad \sum_j \kappa_j \le K \tau.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..compiled import njit
from .word_blocks import step_block
from .word_selection import SHORTEST, gather, largest_sum

_PLAIN: dict[str, Any] = {"cache": True, "nogil": True, "error_model": "numpy"}
# Reordering of sums is allowed, infinities keep their meaning.
_FAST: dict[str, Any] = {**_PLAIN, "fastmath": {"reassoc", "contract", "nsz", "arcp", "nnan"}}
_COUNTS = 8
_FEW = 4
_SHORT = 64
# Words whose gain is below this fraction of the row's last multiplier are left
# unchanged in a visit; a smaller block is still a valid ascent direction.
_KEEP = 0.7


@njit(**_FAST)
def _excess(gain, count, cut):
    """Number of gains above ``cut`` and the sum of their excess over it."""
    number, total = 0, 0.0
    for t in range(count):
        number += gain[t] > cut
    for t in range(count):
        total += max(gain[t] - cut, 0.0)
    return number, total


@njit(**_PLAIN)
def _sort(gain, count):
    """Sort ``gain[:count]`` in place, increasing; by insertion when short."""
    if count > 40:
        gain[:count].sort()
        return
    for t in range(1, count):
        value, at = gain[t], t
        while at > 0 and gain[at - 1] > value:
            gain[at] = gain[at - 1]
            at -= 1
        gain[at] = value


@njit(**_PLAIN)
def _largest(gain, count, k, guess):
    """Sum of the k largest of ``gain[:count]`` (positive) and a value at the k-th.

    The value lies between the k-th and the next; it is 0 when there are fewer
    than k.  Counting passes narrow the range of the k-th from a guess, and the
    few gains left in it are sorted; ``gain`` is overwritten.
    """
    if k <= 0 or count == 0:
        return 0.0, 0.0
    if count <= k:
        least = gain[:count].min() if count == k else 0.0
        return _excess(gain, count, 0.0)[1], least
    sum_all = _excess(gain, count, 0.0)[1] if guess <= 0 else 0.0
    low, high, within, beyond, sure = 0.0, np.inf, count, 0, 0.0
    for _ in range(_COUNTS):
        if within - beyond <= _FEW:
            break
        cut = guess
        if not low < guess < high:
            cut = 0.7 * high + 0.3 * low if high < np.inf else 2 * sum_all / count
        number, total = _excess(gain, count, cut)
        if number == k:
            return k * cut + total, cut
        if number > k:
            low, within = cut, number
            guess = cut + total / number
        else:
            high, beyond, sure = cut, number, number * cut + total
    left = 0
    for t in range(count):
        value = gain[t]
        gain[left] = value
        left += (value > low) & (value <= high)
    _sort(gain, left)
    for t in range(left - k + beyond, left):
        sure += gain[t]
    return sure, gain[left - k + beyond]


@njit(**_FAST)
def _scan(indices, data, delta, start, stop, sign, cut, drop, grow, f, place, size):
    """Margins of a row's words; lists those to be considered in this visit.

    A word is listed when its gain exceeds ``cut`` or it already deviates; its
    slot goes to ``place``.  ``size`` receives b_j of every word.  Returns the
    sum of all b_j and the number listed.
    """
    total, listed = 0.0, 0
    gather(indices[start:stop], data[start:stop], f, size)
    for j in range(stop - start):
        b = sign * size[j]
        total += b
        size[j] = b
    for j in range(stop - start):
        place[listed] = start + j
        b = size[j]
        listed += (max(drop * b, -grow * b) > cut) | (delta[start + j] != 0)
    return total, listed


@njit(**_PLAIN)
def _collect(place, start, size, count, cut, drop, grow, b, gain):
    """Values b_j of the listed words, and the gains above ``cut`` among them."""
    above = 0
    for t in range(count):
        b[t] = size[place[t] - start]
        gain[above] = max(drop * b[t], -grow * b[t])
        above += gain[above] > cut
    return above


@njit(**_PLAIN)
def _shorten(place, b, count, delta, cut, drop, grow):
    """Drop the unchanged words of gain at most ``cut`` from the list."""
    kept = 0
    for t in range(count):
        j, value = place[t], b[t]
        place[kept] = j
        b[kept] = value
        kept += (max(drop * value, -grow * value) > cut) | (delta[j] != 0)
    return kept


@njit(**_FAST)
def move_words(indices, data, delta, start, stop, place, count, step_tau, target, gamma, rate, f):
    """Take a share of the way to the target deviations; updates delta and f."""
    if step_tau != 0:
        scale = rate * step_tau
        for j in range(start, stop):
            f[indices[j]] += scale * data[j]
    # The change as stored, so that f stays the combination of the stored state.
    for t in range(count):
        j = place[t]
        old = delta[j]
        delta[j] = target[t] if gamma == 1.0 else old + gamma * (target[t] - old)
        f[indices[j]] += rate * data[j] * (delta[j] - old)


@njit(**_PLAIN)
def sweep_words(
    indptr,
    indices,
    data,
    delta,
    signs,
    weights,
    square,
    tau,
    mu,
    K,
    drop,
    grow,
    intercept,
    f,
    order,
    gaps,
):
    """Improve the block of each row in ``order``; ``delta``, ``tau``, ``mu``, ``f`` and ``gaps`` change.

    Given the level and one multiplier of the budget the words of a row are independent: both are
    found by Newton's method over the words that are, or may become, changed; the others enter as
    two sums.
    """
    longest = _longest(indptr)
    place = np.empty(longest + 1, np.int64)
    size, b, gain = np.empty(longest + 1), np.empty(longest + 1), np.empty(longest + 1)
    h, q, kappa = np.empty(longest + 1), np.empty(longest + 1), np.empty(longest + 1)
    dev, base = np.empty(longest + 1), np.ones(longest + 1)
    drops, grows = np.full(longest + 1, drop), np.full(longest + 1, grow)
    last = f.size - 1
    for i in order:
        c = weights[i]
        if c == 0:
            gaps[i] = 0.0
            continue
        start, stop, level = indptr[i], indptr[i + 1], tau[i]
        cut = _KEEP * mu[i]
        total, count = _scan(
            indices, data, delta, start, stop, signs[i], cut, drop, grow, f, place, size
        )
        above = _collect(place, start, size, count, cut, drop, grow, b, gain)
        if above < K and cut > 0:
            total, count = _scan(
                indices, data, delta, start, stop, signs[i], 0.0, drop, grow, f, place, size
            )
            above = _collect(place, start, size, count, 0.0, drop, grow, b, gain)
        top, threshold = _largest(gain, above, K, mu[i])
        if cut == 0 and count > 2 * K:
            count = _shorten(place, b, count, delta, _KEEP * threshold, drop, grow)
        b0, q0 = total, c * square[i]
        if intercept:
            b0 += signs[i] * f[last]
            q0 += c
        lack = 1.0 - (b0 - top)
        inner = level * b0
        for t in range(count):
            dev[t] = delta[place[t]]
            x = data[place[t]]
            inner += b[t] * dev[t]
            q[t] = c * x * x
            b0 -= b[t]
            q0 -= q[t]
        gap = max(lack, 0.0) - level + inner
        gaps[i] = max(c * gap, 0.0)
        mu[i] = threshold
        if gap <= 0:
            continue
        gamma, new = step_block(
            level, 1.0, lack, gap, c * square[i], b, q, base, dev, count, b0, q0, threshold, K, drops,
            grows, base, h, kappa,
        )  # fmt: skip
        if gamma == 0.0:
            continue
        tau[i] = new if gamma == 1.0 else level + gamma * (new - level)
        move_words(
            indices, data, delta, start, stop, place, count, tau[i] - level, kappa, gamma,
            c * signs[i], f,
        )  # fmt: skip
        if intercept:
            f[last] += c * signs[i] * (tau[i] - level)


@njit(**_PLAIN)
def combine(indptr, indices, data, delta, tau, rates, intercept, f):
    """Add ``rates[i]`` times the averaged point of each row to ``f``."""
    for i in range(tau.size):
        if rates[i] == 0:
            continue
        for j in range(indptr[i], indptr[i + 1]):
            f[indices[j]] += rates[i] * data[j] * (tau[i] + delta[j])
        if intercept:
            f[f.size - 1] += rates[i] * tau[i]


@njit(**_PLAIN)
def deviate(indptr, indices, data, n_indptr, n_indices, n_data, signs, tau, K, drop, grow, costs, w,
            delta):  # fmt: skip
    """Deviations of normals that may have lost their zeros; the workspace ``w`` holds zeros.

    The largest deviation of word j takes ``costs[j]`` of the budget.
    """
    for i in range(tau.size):
        for j in range(n_indptr[i], n_indptr[i + 1]):
            w[n_indices[j]] = n_data[j]
        cost = 0.0
        for j in range(indptr[i], indptr[i + 1]):
            factor = signs[i] * w[indices[j]] / data[j] if data[j] != 0 else tau[i]
            change = min(max(factor - tau[i], -drop * tau[i]), grow * tau[i])
            delta[j] = change
            share = -change / drop if change < 0 else (change / grow if change > 0 else 0.0)
            cost += costs[j] * share
        for j in range(indptr[i], indptr[i + 1]):
            if cost > K * tau[i]:
                delta[j] *= K * tau[i] / cost
        for j in range(n_indptr[i], n_indptr[i + 1]):
            w[n_indices[j]] = 0.0


@njit(**_FAST)
def _gains(indices, data, start, stop, v, low, high, b, gain):
    """Values v_j x_j and positive gains of a row; returns their sum and number."""
    total, above = 0.0, 0
    gather(indices[start:stop], data[start:stop], v, b)
    for t in range(stop - start):
        total += b[t]
    for t in range(stop - start):
        gain[above] = max((low - 1.0) * b[t], (high - 1.0) * b[t])
        above += gain[above] > 0
    return total, above


@njit(**_PLAIN)
def _edit(start, stop, b, cut, changes, low, high, out):
    """Apply the edits of gain above ``cut``, then ties, up to ``changes``."""
    for t in range(stop - start):
        gain = max((low - 1.0) * b[t], (high - 1.0) * b[t])
        if gain > cut:
            out[start + t] *= low if b[t] < 0 else high
            changes -= 1
    for t in range(stop - start):
        if changes <= 0 or cut <= 0:
            break
        if max((low - 1.0) * b[t], (high - 1.0) * b[t]) == cut:
            out[start + t] *= low if b[t] < 0 else high
            changes -= 1


@njit(**_PLAIN)
def _candidates(b, length, cut, low, high, gain):
    """Collect the gains from ``cut`` on in increasing order; returns their number."""
    left = 0
    for t in range(length):
        gain[left] = max((low - 1.0) * b[t], (high - 1.0) * b[t])
        left += gain[left] >= cut
    _sort(gain, left)
    return left


@njit(**_PLAIN)
def _longest(indptr):
    longest = 0
    for i in range(indptr.size - 1):
        longest = max(longest, indptr[i + 1] - indptr[i])
    return longest


@njit(**_PLAIN)
def _leaders(gain, length, k, guess, top, place):
    """The k largest positive gains in decreasing order and their places; returns their number.

    A pass without branches lists the gains above a guess of the k-th, a short sorted list takes the
    best of those. ``place`` has room for all.
    """
    listed = 0
    for t in range(length):
        place[listed] = t
        listed += gain[t] > guess
    if listed < k and guess > 0:
        listed = 0
        for t in range(length):
            place[listed] = t
            listed += gain[t] > 0
    size, least = 0, 0.0
    for c in range(listed):
        here = place[c]
        value = gain[here]
        if value <= least:
            continue
        at = size if size < k else k - 1
        size = min(size + 1, k)
        while at > 0 and top[at - 1] < value:
            top[at], place[at] = top[at - 1], place[at - 1]
            at -= 1
        top[at], place[at] = value, here
        if size == k:
            least = top[k - 1]
    return size


@njit(**_FAST)
def _products(indices, data, start, length, v, low, high, b, gain):
    """The v_j x_j of a row and the gains, positive or not; returns sum and size of the former."""
    total, size = 0.0, 0.0
    gather(indices[start : start + length], data[start : start + length], v, b)
    for t in range(length):
        total += b[t]
        size += abs(b[t])
        gain[t] = max((low - 1.0) * b[t], (high - 1.0) * b[t])
    return total, size


@njit(**_PLAIN)
def worst_edit(indptr, indices, data, V, assign, max_changes, low, high, out, values, sizes):
    r"""Support function of the edits of every row.

    .. math:: \max_{z \in S(x_i)} \langle v, z \rangle
       = \langle v, x_i \rangle + \sum_{k \le K} g_{(k)}, \quad
       g_j = \max\bigl(0, (l - 1) v_j x_{ij}, (u - 1) v_j x_{ij}\bigr).

    Parameters
    ----------
    indptr, indices, data : arrays
        Rows in CSR format.
    V : array of shape (p, d)
        Directions, C-contiguous.
    assign : integer array of shape (n,)
        Direction :math:`v` of each row.
    max_changes : int
        Number :math:`K` of words that may change.
    low, high : float
        Range of the factors, ``0 <= low <= 1 <= high``.
    out : array of shape (nnz,) or (0,)
        Copy of ``data`` that is edited; empty if only the values are wanted.
    values : array of shape (n,)
        Receives the maxima.
    sizes : array of shape (n,)
        Receives the sums of :math:`|v_j x_{ij}|`.
    """
    n, longest = indptr.size - 1, _longest(indptr)
    b, gain = np.empty(longest + 1), np.empty(longest + 1)
    short = 0 < max_changes <= _SHORT
    shortest = 0 < max_changes <= SHORTEST and out.size == 0
    listed, best, guess = np.empty(longest + 1), np.empty(_SHORT), 0.0
    place = np.empty(longest + 1, np.int64)
    for i in range(n):
        start, stop, v = indptr[i], indptr[i + 1], V[assign[i]]
        length = stop - start
        total, sizes[i] = _products(indices, data, start, length, v, low, high, b, gain)
        if shortest:
            top, least = largest_sum(gain, length, max_changes, guess, listed, best)
            total += top
            guess = 0.5 * guess + 0.3 * least
        elif short:
            size = _leaders(gain, length, max_changes, guess, best, place)
            for t in range(size):
                total += best[t]
            # Rows of one kind of text have similar gains: most words are then never looked at twice.
            guess = 0.5 * guess + (0.36 * best[size - 1] if size == max_changes else 0.0)
            if out.size:
                for t in range(size):
                    out[start + place[t]] *= low if b[place[t]] < 0 else high
        else:
            _, above = _gains(indices, data, start, stop, v, low, high, b, gain)
            top, cut = _largest(gain, above, max_changes, 0.0)
            total += top
            if out.size and max_changes > 0 and above > 0:
                _edit(start, stop, b, cut, max_changes, low, high, out)
        values[i] = total


@njit(**_PLAIN)
def worst_edit_graded(indptr, indices, data, V, assign, max_changes, low, high, rho, cost):
    r"""Support function of edits that lower a cost with their number.

    .. math:: \max_{k \le K}\; \langle v, x_i \rangle + \sum_{m \le k} g_{(m)}
       + r_i \rho_k .

    Parameters
    ----------
    indptr, indices, data, V, assign, max_changes, low, high
        As for `worst_edit`.
    rho : array of shape (max_changes + 1,)
        Grade of each number of changes, ``rho[0] = 1``.
    cost : array of shape (n,)
        Rewards :math:`r_i`.

    Returns
    -------
    data_out, values : arrays
        Edited values; attained maxima, cost included.
    grades : array of shape (n,)
        Attained :math:`\rho_k`.
    """
    n, longest = indptr.size - 1, _longest(indptr)
    b, gain = np.empty(longest + 1), np.empty(longest + 1)
    values, grades, out = np.empty(n), np.empty(n), data.copy()
    for i in range(n):
        start, stop = indptr[i], indptr[i + 1]
        total, above = _gains(indices, data, start, stop, V[assign[i]], low, high, b, gain)
        size = min(above, max_changes)
        _, cut = _largest(gain, above, max_changes, 0.0)
        left = _candidates(b, stop - start, cut, low, high, gain) if size > 0 else 0
        best, changes = total + cost[i] * rho[0], 0
        for k in range(1, size + 1):
            total += gain[left - k]
            if total + cost[i] * rho[k] > best:
                best, changes = total + cost[i] * rho[k], k
        values[i], grades[i] = best, rho[changes]
        if changes > 0:
            _edit(start, stop, b, gain[left - changes], changes, low, high, out)
    return out, values, grades


@njit(**_PLAIN)
def robust_losses(indptr, indices, data, signs, mu, K, drop, grow, intercept, f):
    """Worst-case hinge losses at ``f``; ``mu`` says where the K-th gain of a row was last."""
    n, longest = signs.size, _longest(indptr)
    b, gain, losses = np.empty(longest + 1), np.empty(longest + 1), np.empty(n)
    for i in range(n):
        start, stop, sign = indptr[i], indptr[i + 1], signs[i]
        margin, above = _gains(
            indices, data, start, stop, f, 1.0 + sign * drop, 1.0 - sign * grow, b, gain
        )
        top = _largest(gain, above, K, mu[i])[0]
        if intercept:
            margin += f[f.size - 1]
        losses[i] = max(0.0, 1.0 - sign * margin + top)
    return losses
