r"""The worst edits of sparse rows, compiled: words are multiplied by factors, dropped, or added.

An edit of word j of a row :math:`x` gains, along a direction :math:`v`, with factors in
:math:`[l, u]` for words that are there and values :math:`a_j` that may be added,

.. math:: g_j = \max\bigl(0, (l - 1) v_j x_j, (u - 1) v_j x_j, a_j v_j\bigr),

the last for words that are absent, or for all. At most K edits gain what the K largest do. Words that
may be added are ranked once for each direction; a row takes the best K that it does not have.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...utils.jit import njit
from .word_selection import gains, largest, ordered, products

_PLAIN: dict[str, Any] = {"cache": True, "nogil": True, "error_model": "numpy"}
# Rows of the workspace of `worst_edits`.
WORK_ROWS = 3


def ranked(V: np.ndarray, value: np.ndarray, most: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
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
    listed : (p, d) array of bool
        Whether a direction has a word.
    """
    found, most, listed = [], max(most, 1), np.zeros(V.shape, dtype=bool)
    for v, mine in zip(V, listed, strict=True):
        gain = value * v
        places = np.flatnonzero(gain > 0)
        if len(places) > 2 * most:
            cut = len(places) - most
            places = np.sort(places[np.argpartition(gain[places], cut)[cut:]])
        found.append(places[np.argsort(-gain[places], kind="stable")])
        mine[places] = True
    start = np.cumsum([0, *map(len, found)])
    return start, np.concatenate([*found, np.empty(0, dtype=np.intp)]), listed


@njit(**_PLAIN)
def worst_edits(
    indptr, indices, data, V, assign, K, low, high, value, present, ranks, order, listed, rho, cost,
    near, values, sizes, grades, out, added, n_added, work, places, has,
):  # fmt: skip
    r"""Support function of the edits of every row, whose number may lower a reward.

    .. math:: \max_{k \le K}\; \langle v, x_i \rangle + \sum_{m \le k} g_{(m)} + r_i \rho_k .

    Among equal gains the first words of the row are edited, before words that are added.

    Parameters
    ----------
    indptr, indices, data : arrays
        Rows in CSR format, each word once.
    V : (p, d) array
        Directions, C-contiguous.
    assign : (n,) array of int
        Direction of each row.
    K : int
    low, high : float
        Range of the factors for words that are there.
    value : (d,) array
        What may be added to each word, 0 for nothing; empty if nothing is added to any.
    present : bool
        Whether it may be added to words that are there.
    ranks, order, listed : arrays
        As `ranked` gives them, for K and the longest row together.
    rho : (K + 1,) array
        Grade of each number of edits, 1 at none; empty if they do not count.
    cost : (n,) array
        Rewards, if there are grades.
    near : (n,) array
        Where the K-th gain of each row may be; 0 for no guess.
    values, sizes : (n,) arrays
        Receive the maxima, rewards included, and bounds of ``<|v|, |z|>``.
    grades : (n,) array
        Receives the grades reached, if there are any.
    out : (nnz,) array
        A copy of ``data``; receives the words of the rows after their edits.
    added : (n, K) array of int
        Receives the words that are added to each row.
    n_added : (n,) array of int
        Receives how many there are. If it is empty, only values are wanted and nothing is written to
        ``out`` and ``added``.
    work : (WORK_ROWS, longest row + K + 1) array
    places : (2, longest row + K + 1) array of int
        Workspaces.
    has : (d,) array of bool
        A workspace of zeros, if words are added.
    """
    b, gain, best, guess = work[0], work[1], work[2], 0.0
    absent, chosen = places[0], places[1]
    for i in range(assign.size):
        start, length, a = indptr[i], indptr[i + 1] - indptr[i], assign[i]
        v, stop, count = V[a], start + length, length
        total, width = products(indices[start:stop], data[start:stop], 1.0, v, b)
        gains(b, length, low - 1.0, 1.0 - high, gain)
        if value.size:
            # Words of the row that are ranked are marked, without a branch that nobody could predict.
            noted = 0
            for t in range(length):
                j = indices[start + t]
                absent[noted] = j
                noted += listed[a, j] & (data[start + t] != 0)
                if present and data[start + t] != 0:
                    gain[t] = max(gain[t], value[j] * v[j])
            for t in range(noted):
                has[absent[t]] = True
            r = ranks[a]
            while r < ranks[a + 1] and count < length + K:
                j = order[r]
                gain[count], absent[count] = value[j] * v[j], j
                count += not has[j]
                r += 1
            for t in range(noted):
                has[absent[t]] = False
        left, won = K, 0.0
        if rho.size:
            for t in range(count):
                best[t] = gain[t]
            found, left, cut, top = ordered(best, count, K), 0, np.inf, 0.0
            reached = cost[i] * rho[0]
            for k in range(found):
                won += best[k]
                if won + cost[i] * rho[k + 1] > reached:
                    reached, left, cut, top = won + cost[i] * rho[k + 1], k + 1, best[k], won
            grades[i] = rho[left]
            values[i] = total + reached
        else:
            # Where words of the row do not change, only those that are added gain.
            first = length if low == high and not present else 0
            top, cut = largest(gain[first:], count - first, K, near[i] if near[i] > 0 else guess)
            # Rows of one kind of text have similar gains.
            guess = 0.5 * (guess + cut)
            values[i] = total + top
        sizes[i] = max(high, 1.0) * width + (top if value.size else 0.0)
        if n_added.size == 0:
            continue
        n_added[i] = 0
        # Those above the cut, without a branch, then as many that equal it as are left.
        size = 0
        for t in range(count):
            chosen[size] = t
            size += gain[t] > cut
        for t in range(count if size < left and cut > 0 else 0):
            if size < left and gain[t] == cut:
                chosen[size] = t
                size += 1
        for r in range(size):
            t = chosen[r]
            if t >= length:
                added[i, n_added[i]] = absent[t]
                n_added[i] += 1
                continue
            j, factor = indices[start + t], low if b[t] < 0 else high
            if present and data[start + t] != 0 and value[j] * v[j] > (factor - 1.0) * b[t]:
                out[start + t] += value[j]
            else:
                out[start + t] *= factor


@njit(**_PLAIN)
def label_maxima(indptr, indices, data, table, codes, K, low, high, found, work, guess):
    r"""What each label wins against the true one at the worst factors of every row.

    .. math:: \max_{z \in S(x_i)} \langle w_k - w_c, z \rangle
       = \langle w_k - w_c, x_i \rangle + \sum_{t \le K} g_{(t)}, \quad
       g_j = \max\bigl(0, (l - 1) b_j, (u - 1) b_j\bigr), \quad b_j = (w_k - w_c)_j x_{ij}

    No direction of all features is made.

    Parameters
    ----------
    indptr, indices, data : arrays
        Rows in CSR format.
    table : (d, n_labels) array
        The weights of each feature.
    codes : (n,) array of int
        The true labels c.
    K : int
    low, high : float
        Range of the factors.
    found : (n, n_labels) array
        Receives the maxima; 0 for the true label.
    work : (n_labels, longest row) array
        Workspace.
    guess : (n_labels,) array
        Workspace: zeros, or where the K-th gain of each label may be.
    """
    n_labels = table.shape[1]
    for i in range(codes.size):
        start, length, c = indptr[i], indptr[i + 1] - indptr[i], codes[i]
        for k in range(n_labels):
            found[i, k] = 0.0
        for e in range(length):
            row, x = table[indices[start + e]], data[start + e]
            own = row[c]
            for k in range(n_labels):
                b = (row[k] - own) * x
                found[i, k] += b
                less, more = (low - 1.0) * b, (high - 1.0) * b
                work[k, e] = less if less > more else more
        for k in range(n_labels):
            if k != c:
                top, cut = largest(work[k], length, K, guess[k])
                found[i, k] += top
                guess[k] = 0.5 * (guess[k] + cut)
