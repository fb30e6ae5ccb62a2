r"""The worst edits of sparse rows, where words may also be added.

An edit of word j of a row :math:`x` gains, along a direction :math:`v`, with factors in
:math:`[l, u]` for words that are there and values :math:`a_j` that may be added,

.. math:: g_j = \max\bigl(0, (l - 1) v_j x_j, (u - 1) v_j x_j, a_j v_j\bigr),

the last for words that are absent, or for all. At most K edits gain what the K largest do. Words that
may be added are ranked once a direction; a row walks down that list past those that it has.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..compiled import njit
from .word_selection import ordered

_PLAIN: dict[str, Any] = {"cache": True, "nogil": True, "error_model": "numpy"}


def ranked(V: np.ndarray, value: np.ndarray, most: int) -> tuple[np.ndarray, np.ndarray]:
    """For each direction the words whose addition gains, the largest gains first.

    Parameters
    ----------
    V : (p, d) array
    value : (d,) array
        What is added to each word, 0 for those that must not be.
    most : int
        No more words are asked for.

    Returns
    -------
    start : (p + 1,) array of int
        Direction p has the words ``order[start[p]:start[p + 1]]``.
    order : array of int
    """
    found, most = [], max(most, 1)
    for v in V:
        gain = value * v
        places = np.flatnonzero(gain > 0)
        if len(places) > 2 * most:
            cut = len(places) - most
            places = np.sort(places[np.argpartition(gain[places], cut)[cut:]])
        found.append(places[np.argsort(-gain[places], kind="stable")])
    start = np.cumsum([0, *map(len, found)])
    return start, np.concatenate([*found, np.empty(0, dtype=np.intp)])


@njit(**_PLAIN)
def _own_gains(indices, data, start, stop, v, low, high, value, present, gain, kind):
    """Gains of the words of a row that are above 0, their places, and products with all of them.

    ``kind`` tells a place from the row's first word. Returns the number of gains, the sum of the
    products and of their sizes.
    """
    count, total, size = 0, 0.0, 0.0
    for e in range(start, stop):
        j = indices[e]
        b = v[j] * data[e]
        total += b
        size += abs(b)
        best = max((low - 1.0) * b, (high - 1.0) * b)
        if present and data[e] != 0:
            best = max(best, value[j] * v[j])
        # Without a branch, which nobody could predict.
        gain[count], kind[count] = best, e - start
        count += best > 0
    return count, total, size


@njit(**_PLAIN)
def _chosen(count, gain, kind, order, first, last, v, value, has, K, won, edits):
    """Merge the sorted gains of a row's words with those of ranked absent ones, K in all.

    ``won`` receives the gains in falling order and ``edits`` where: a place in the row, or ``-1 - j``
    for the absent word j. Returns how many there are.
    """
    size, t, at = 0, 0, first
    while size < K:
        while at < last and has[order[at]]:
            at += 1
        there = gain[t] if t < count else 0.0
        absent = value[order[at]] * v[order[at]] if at < last else 0.0
        if there <= 0 and absent <= 0:
            break
        if there >= absent:
            won[size], edits[size] = there, kind[t]
            t += 1
        else:
            won[size], edits[size] = absent, -1 - order[at]
            at += 1
        size += 1
    return size


@njit(**_PLAIN)
def _note(indices, data, start, stop, listed, has, own):
    """Mark the words of a row that are listed; how many."""
    count = 0
    for e in range(start, stop):
        j = indices[e]
        own[count] = j
        count += listed[j] & (data[e] != 0)
    for t in range(count):
        has[own[t]] = True
    return count


@njit(**_PLAIN)
def _best_number(total, won, size, reward, rho):
    """How many of the chosen edits to take where their number lowers a reward; and the value."""
    best, taken, value = total + reward * rho[0], 0, total
    for k in range(size):
        value += won[k]
        if value + reward * rho[k + 1] > best:
            best, taken = value + reward * rho[k + 1], k + 1
    return taken, best


@njit(**_PLAIN)
def _write_row(indices, data, start, stop, v, low, high, value, present, edits, taken, at, out_indices,
               out_data):  # fmt: skip
    """Write a row with the edits taken, its words in order of their indices; where the next begins."""
    first = at
    for e in range(start, stop):
        out_indices[at], out_data[at] = indices[e], data[e]
        at += 1
    for k in range(taken):
        if edits[k] >= 0:
            e = start + edits[k]
            j, b = indices[e], v[indices[e]] * data[e]
            factor = low if b < 0 else high
            if present and data[e] != 0 and value[j] * v[j] > (factor - 1.0) * b:
                out_data[first + edits[k]] += value[j]
            else:
                out_data[first + edits[k]] *= factor
    for k in range(taken):
        if edits[k] < 0:
            j, place = -1 - edits[k], at
            while place > first and out_indices[place - 1] > j:
                place -= 1
            if place > first and out_indices[place - 1] == j:
                # Stored, but zero: absent.
                out_data[place - 1] = value[j]
                continue
            for e in range(at, place, -1):
                out_indices[e], out_data[e] = out_indices[e - 1], out_data[e - 1]
            out_indices[place], out_data[place] = j, value[j]
            at += 1
    return at


@njit(**_PLAIN)
def worst_edits(indptr, indices, data, V, assign, K, low, high, value, present, ranks, order, rho, cost,
                values, sizes, grades, out_indptr, out_indices, out_data):  # fmt: skip
    r"""Support function of the edits of every row, whose number may lower a reward.

    .. math:: \max_{k \le K}\; \langle v, x_i \rangle + \sum_{m \le k} g_{(m)} + r_i \rho_k .

    Parameters
    ----------
    indptr, indices, data : arrays
        Rows in CSR format, indices in order.
    V : (p, d) array
        Directions, C-contiguous.
    assign : (n,) array of int
        Direction of each row.
    K : int
    low, high : float
        Range of the factors for words that are there.
    value : (d,) array
        What may be added to each word, 0 for nothing.
    present : bool
        Whether it may be added to words that are there.
    ranks, order : arrays
        As `ranked` gives them, for K and the longest row together.
    rho : (K + 1,) array
        Grade of each number of edits, 1 at none.
    cost : (n,) array
        Rewards.
    values, sizes, grades : (n,) arrays
        Receive the maxima, rewards included, bounds of ``<|v|, |z|>``, and the grades reached.
    out_indptr : (n + 1,) array of int
    out_indices, out_data : arrays
        Receive the edited rows, with room for K words more in each; empty if only values are wanted.
    """
    longest = 0
    for i in range(indptr.size - 1):
        longest = max(longest, indptr[i + 1] - indptr[i])
    gain, kind = np.empty(longest + 1), np.empty(longest + 1, np.int64)
    won, edits = np.empty(K), np.empty(K, np.int64)
    has, own = np.zeros(V.shape[1], np.bool_), np.empty(longest + 1, np.int64)
    listed = np.zeros(V.shape, np.bool_)
    for a in range(V.shape[0]):
        for r in range(ranks[a], ranks[a + 1]):
            listed[a, order[r]] = True
    at = 0
    for i in range(assign.size):
        start, stop, a = indptr[i], indptr[i + 1], assign[i]
        v = V[a]
        count, total, size = _own_gains(
            indices, data, start, stop, v, low, high, value, present, gain, kind
        )
        count = ordered(gain, kind, count, K)
        noted = _note(indices, data, start, stop, listed[a], has, own)
        chosen = _chosen(count, gain, kind, order, ranks[a], ranks[a + 1], v, value, has, K, won, edits)
        for t in range(noted):
            has[own[t]] = False
        taken, values[i] = _best_number(total, won, chosen, cost[i], rho)
        grades[i], sizes[i] = rho[taken], max(high, 1.0) * size
        for k in range(taken):
            sizes[i] += won[k]
        if out_indptr.size:
            at = _write_row(indices, data, start, stop, v, low, high, value, present, edits, taken, at,
                            out_indices, out_data)  # fmt: skip
            out_indptr[i + 1] = at
