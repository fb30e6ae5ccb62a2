r"""Worst edits of sparse rows, compiled: rescaling, removal and addition of words.

Let :math:`v` be a direction, :math:`[l, u]` the range of the factors, and :math:`a_j` the largest
increase of word j. The gain of an edit of word j of a row :math:`x` is

.. math:: g_j = \max\bigl(0, (l - 1) v_j x_j, (u - 1) v_j x_j, a_j v_j\bigr).

The last term applies to absent words, or to all words. The best K edits have the K largest gains.
Words that may be added are sorted once per direction. A row takes the best K of them that it lacks.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...utils.jit import njit
from ...utils.ties import TIES, best_first
from .word_selection import gains, largest, ordered, products

_PLAIN: dict[str, Any] = {"cache": True, "nogil": True, "error_model": "numpy"}
# Number of rows of the workspace of `worst_edits`.
WORK_ROWS = 3


def ranked(V: np.ndarray, value: np.ndarray, most: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the words with a positive gain of addition, best first, per direction.

    Parameters
    ----------
    V : array of shape (p, d)
        Directions.
    value : array of shape (d,)
        Largest increase of each word; 0 for words that may not be added.
    most : int
        Number of words required per direction.

    Returns
    -------
    start : array of int of shape (p + 1,)
        Direction p has the words ``order[start[p]:start[p + 1]]``.
    order : array of int
        Words of all directions.
    listed : array of bool of shape (p, d)
        Mask of the words of each direction.
    """
    words, most, listed = [], max(most, 1), np.zeros(V.shape, dtype=bool)
    for v, mask in zip(V, listed, strict=True):
        gain = value * v
        places = np.flatnonzero(gain > 0)
        places = places[best_first(gain[places], most if len(places) > 2 * most else None)]
        words.append(places)
        mask[places] = True
    start = np.cumsum([0, *map(len, words)])
    return start, np.concatenate([*words, np.empty(0, dtype=np.intp)]), listed


@njit(**_PLAIN)
def worst_edits(
    indptr, indices, data, V, assign, K, low, high, value, present, ranks, order, listed, rho, cost,
    guesses, values, sizes, grades, edited, added, n_added, work, places, in_row,
):  # fmt: skip
    r"""Maximize the scores of rows over their word edits, with graded costs if given.

    .. math:: \max_{k \le K}\; \langle v, x_i \rangle + \sum_{m \le k} g_{(m)} + r_i \rho_k .

    If gains are equal, the first words of the row come before later ones and before added words.

    Parameters
    ----------
    indptr, indices, data : arrays
        Rows in CSR format, each word once.
    V : array of shape (p, d)
        Directions, C-contiguous.
    assign : array of int of shape (n,)
        Index of the direction of each row.
    K : int
        Maximum number of edits per row.
    low, high : float
        Range of the factors of words in the row.
    value : array of shape (d,)
        Largest increase of each word, 0 if not allowed; empty if no word may be added.
    present : bool
        Whether words in the row may also be increased.
    ranks, order, listed : arrays
        Outputs of `ranked` for K plus the length of the longest row.
    rho : array of shape (K + 1,)
        Grade for each number of edits, 1 for none; empty for oracles without grades.
    cost : array of shape (n,)
        Costs r, which the grades multiply.
    guesses : array of shape (n,)
        Guess of the K-th largest gain of each row; 0 for no guess.
    values, sizes : arrays of shape (n,)
        Outputs: maxima, costs included, and bounds of ``<|v|, |z|>``.
    grades : array of shape (n,)
        Output: grades of the maximizers, if there are grades.
    edited : array of shape (nnz,)
        A copy of ``data``. Output: words of the rows after their edits.
    added : array of int of shape (n, K)
        Output: words added to each row.
    n_added : array of int of shape (n,)
        Output: number of added words. If it is empty, ``edited`` and ``added`` are not written.
    work : array of shape (WORK_ROWS, longest row + K + 1)
        Workspace.
    places : array of int of shape (2, longest row + K + 1)
        Workspace.
    in_row : array of bool of shape (d,)
        Workspace of zeros, if words are added.
    """
    b, gain, best, guess = work[0], work[1], work[2], 0.0
    candidates, chosen = places[0], places[1]
    for i in range(assign.size):
        start, length, a = indptr[i], indptr[i + 1] - indptr[i], assign[i]
        v, stop, count = V[a], start + length, length
        score, abs_score = products(indices[start:stop], data[start:stop], 1.0, v, b)
        gains(b, length, low - 1.0, 1.0 - high, gain)
        if value.size:
            # Mark the words of the row that are also ranked. There is no branch, since branches on data
            # are slow.
            n_ranked = 0
            for t in range(length):
                j = indices[start + t]
                candidates[n_ranked] = j
                n_ranked += listed[a, j] & (data[start + t] != 0)
                if present and data[start + t] != 0:
                    gain[t] = max(gain[t], value[j] * v[j])
            for t in range(n_ranked):
                in_row[candidates[t]] = True
            r = ranks[a]
            while r < ranks[a + 1] and count < length + K:
                j = order[r]
                gain[count], candidates[count] = value[j] * v[j], j
                count += not in_row[j]
                r += 1
            for t in range(n_ranked):
                in_row[candidates[t]] = False
        left, total_gain = K, 0.0
        if rho.size:
            for t in range(count):
                best[t] = gain[t]
            found, left, cut, top = ordered(best, count, K), 0, np.inf, 0.0
            reached = cost[i] * rho[0]
            for k in range(found):
                total_gain += best[k]
                graded = total_gain + cost[i] * rho[k + 1]
                if graded > reached:
                    reached, left, cut, top = graded, k + 1, best[k], total_gain
            grades[i] = rho[left]
            values[i] = score + reached
        else:
            # If words of the row may not change, only added words have gains.
            first = length if low == high and not present else 0
            top, cut = largest(gain[first:], count - first, K, guesses[i] if guesses[i] > 0 else guess)
            # Guess for the next row, which often has similar gains.
            guess = 0.5 * (guess + cut)
            values[i] = score + top
        sizes[i] = max(high, 1.0) * abs_score + (top if value.size else 0.0)
        if n_added.size == 0:
            continue
        n_added[i] = 0
        # Choose the words with gains above the cut, then the first ones with gains equal to it, up to K.
        size = 0
        for t in range(count):
            chosen[size] = t
            size += gain[t] > cut * (1.0 + TIES)
        for t in range(count if size < left and cut > 0 else 0):
            if size < left and abs(gain[t] - cut) <= TIES * cut:
                chosen[size] = t
                size += 1
        for r in range(size):
            t = chosen[r]
            if t >= length:
                added[i, n_added[i]] = candidates[t]
                n_added[i] += 1
                continue
            j, factor = indices[start + t], low if b[t] < 0 else high
            rescaled = (1.0 + TIES) * (factor - 1.0) * b[t]
            if present and data[start + t] != 0 and value[j] * v[j] > rescaled:
                edited[start + t] += value[j]
            else:
                edited[start + t] *= factor


@njit(**_PLAIN)
def label_maxima(indptr, indices, data, table, codes, K, low, high, found, work, guess):
    r"""Maximize the score gain of each label over the factors of the words of a row.

    .. math:: \max_{z \in S(x_i)} \langle w_k - w_c, z \rangle
       = \langle w_k - w_c, x_i \rangle + \sum_{t \le K} g_{(t)} ,

    .. math:: g_j = \max\bigl(0, (l - 1) b_j, (u - 1) b_j\bigr), \quad b_j = (w_k - w_c)_j x_{ij}

    The function does not store ``w_k - w_c`` as directions, since there are n_labels^2 of them.

    Parameters
    ----------
    indptr, indices, data : arrays
        Rows in CSR format.
    table : array of shape (d, n_labels)
        Weights of each feature.
    codes : array of int of shape (n,)
        True labels c.
    K : int
        Maximum number of edits per row.
    low, high : float
        Range of the factors.
    found : array of shape (n, n_labels)
        Output: maxima; 0 for the true label.
    work : array of shape (n_labels, longest row)
        Workspace.
    guess : array of shape (n_labels,)
        Workspace: zeros, or guesses of the K-th largest gain of each label.
    """
    n_labels = table.shape[1]
    for i in range(codes.size):
        start, length, c = indptr[i], indptr[i + 1] - indptr[i], codes[i]
        for k in range(n_labels):
            found[i, k] = 0.0
        for e in range(length):
            row, x = table[indices[start + e]], data[start + e]
            true_weight = row[c]
            for k in range(n_labels):
                b = (row[k] - true_weight) * x
                found[i, k] += b
                less, more = (low - 1.0) * b, (high - 1.0) * b
                work[k, e] = less if less > more else more
        for k in range(n_labels):
            if k != c:
                top, cut = largest(work[k], length, K, guess[k])
                found[i, k] += top
                guess[k] = 0.5 * (guess[k] + cut)
