r"""Worst edits of sparse rows, compiled: rescaling, removal and addition of words.

Let :math:`v` be a direction, :math:`[l, u]` the range of the factors, and :math:`a_j` the largest
increase of word j. The gain of an edit of word j of a row :math:`x` is

.. math:: g_j = \max\bigl(0, (l - 1) v_j x_j, (u - 1) v_j x_j, a_j v_j\bigr).

The last term applies to absent words, or to all words. The best K edits have the K largest gains.
Words that may be added are sorted once per direction. A row takes the best K of them that it lacks.
"""

from __future__ import annotations

import numpy as np

from ...utils.jit import PLAIN, njit
from ...utils.matrices import TIES, best_first
from .word_selection import gains, largest, ordered, products

# Number of rows of the workspace of `worst_edits`.
WORK_ROWS = 3


def ranked(V: np.ndarray, value: np.ndarray, most: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the words with a positive gain of addition, best first, per direction.

    Shapes: `V` (p, d), `value` (d,); returns `start` (p + 1,), `listed` (p, d).
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


@njit(**PLAIN)
def worst_edits(
    indptr, indices, data, V, assign, K, low, high, value, present, ranks, order, listed, rho, cost,
    changed, guesses, values, sizes, grades, edited, added, n_added, work, places, in_row,
):  # fmt: skip
    r"""Maximize the scores of rows over their word edits, with graded costs if given.

    .. math:: \max_{k \le K}\; \langle v, x_i \rangle + \sum_{m \le k} g_{(m)} + r_i \rho_k .

    Rows without ``changed[i]`` are not edited. If gains are equal, the first words of the row come
    before later ones and before added words.

    Shapes: `V` (p, d), `assign` (n,), `value` (d,), `rho` (K + 1,), `cost` (n,), `changed` (n,),
    `guesses` (n,), `values` (n,), `sizes` (n,), `grades` (n,), `edited` (nnz,), `added` (n, K),
    `n_added` (n,), `work` (WORK_ROWS, longest row + K + 1), `places` (2, longest row + K + 1),
    `in_row` (d,).
    """
    b, gain, best, guess = work[0], work[1], work[2], 0.0
    candidates, chosen = places[0], places[1]
    for i in range(assign.size):
        start, length, a = indptr[i], indptr[i + 1] - indptr[i], assign[i]
        v, stop, count, most = V[a], start + length, length, K if changed[i] else 0
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
            while r < ranks[a + 1] and count < length + most:
                j = order[r]
                gain[count], candidates[count] = value[j] * v[j], j
                count += not in_row[j]
                r += 1
            for t in range(n_ranked):
                in_row[candidates[t]] = False
        left, total_gain = most, 0.0
        if rho.size:
            for t in range(count):
                best[t] = gain[t]
            found, left, cut, top = ordered(best, count, most), 0, np.inf, 0.0
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
            near = guesses[i] if guesses[i] > 0 else guess
            top, cut = largest(gain[first:], count - first, most, near)
            # Guess for the next row, which often has similar gains.
            guess = 0.5 * (guess + cut) if most > 0 else guess
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


@njit(**PLAIN)
def label_maxima(indptr, indices, data, table, codes, K, low, high, found, work, guess):
    r"""Maximize the score gain of each label over the factors of the words of a row.

    .. math:: \max_{z \in S(x_i)} \langle w_k - w_c, z \rangle
       = \langle w_k - w_c, x_i \rangle + \sum_{t \le K} g_{(t)} ,

    .. math:: g_j = \max\bigl(0, (l - 1) b_j, (u - 1) b_j\bigr), \quad b_j = (w_k - w_c)_j x_{ij}

    The function does not store ``w_k - w_c`` as directions, since there are n_labels^2 of them.

    Shapes: `table` (d, n_labels), `codes` (n,), `found` (n, n_labels), `work` (n_labels, longest row),
    `guess` (n_labels,).
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
