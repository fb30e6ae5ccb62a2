"""Word edits of rows against all labels at once, compiled: no direction of all features is made."""

from __future__ import annotations

import numpy as np

from ..compiled import njit


@njit(cache=True, nogil=True)
def word_leads(indptr, indices, data, table, codes, max_changes, low, high, found):
    r"""What each label wins against the true one at its worst edit of every row.

    .. math:: \max_{z \in S(x_i)} \langle w_k - w_c, z \rangle
       = \langle w_k - w_c, x_i \rangle + \sum_{t \le K} g_{(t)}, \quad
       g_j = \max\bigl(0, (l - 1) b_j, (u - 1) b_j\bigr), \quad b_j = (w_k - w_c)_j x_{ij}

    Parameters
    ----------
    indptr, indices, data : arrays
        Rows in CSR format.
    table : (d, n_labels) array
        The weights of each feature.
    codes : (n,) array of int
        The true labels c.
    max_changes : int
        Number K of words that may change.
    low, high : float
        Range of the factors, ``0 <= low <= 1 <= high``.
    found : (n, n_labels) array
        Receives the maxima; 0 for the true label.
    """
    n_labels = table.shape[1]
    longest = 0
    for i in range(len(codes)):
        longest = max(longest, indptr[i + 1] - indptr[i])
    gains = np.empty((n_labels, longest))
    best = np.empty(max(1, min(max_changes, longest)))
    for i in range(len(codes)):
        start, length, c = indptr[i], indptr[i + 1] - indptr[i], codes[i]
        found[i] = 0.0
        for e in range(length):
            row, x = table[indices[start + e]], data[start + e]
            own = row[c]
            for k in range(n_labels):
                b = (row[k] - own) * x
                found[i, k] += b
                gains[k, e] = max((low - 1.0) * b, (high - 1.0) * b)
        for k in range(n_labels):
            if k != c:
                found[i, k] += _sum_of_largest(gains[k], length, max_changes, best)


@njit(cache=True, nogil=True)
def word_edits(indptr, indices, data, table, codes, labels, max_changes, low, high, edited):
    """The worst edit of every row for one label each: `edited`, a copy of the data, changes in place."""
    longest = 0
    for i in range(len(codes)):
        longest = max(longest, indptr[i + 1] - indptr[i])
    gains, b = np.empty(longest), np.empty(longest)
    best = np.empty(max(1, min(max_changes, longest)))
    for i in range(len(codes)):
        start, length, c, k = indptr[i], indptr[i + 1] - indptr[i], codes[i], labels[i]
        if k == c:
            continue
        for e in range(length):
            row = table[indices[start + e]]
            b[e] = (row[k] - row[c]) * data[start + e]
            gains[e] = max((low - 1.0) * b[e], (high - 1.0) * b[e])
        _sum_of_largest(gains, length, max_changes, best)
        left, cut = min(max_changes, length), best[0]
        # Those above the smallest of the largest, then as many that equal it as are left.
        for e in range(length):
            if gains[e] > cut and gains[e] > 0.0:
                edited[start + e] *= low if b[e] < 0.0 else high
                left -= 1
        for e in range(length):
            if left > 0 and gains[e] == cut and gains[e] > 0.0:
                edited[start + e] *= low if b[e] < 0.0 else high
                left -= 1


@njit(cache=True, nogil=True)
def _sum_of_largest(gains, length, count, best):
    """Sum of the `count` largest of positive gains; `best` is a heap of them, the smallest first."""
    size = min(count, length)
    if size == 0:
        best[0] = np.inf
        return 0.0
    best[:size] = 0.0
    for e in range(length):
        value = gains[e]
        if value <= best[0]:
            continue
        at = 0
        while 2 * at + 1 < size:
            child = 2 * at + 1
            if child + 1 < size and best[child + 1] < best[child]:
                child += 1
            if best[child] >= value:
                break
            best[at] = best[child]
            at = child
        best[at] = value
    total = 0.0
    for t in range(size):
        total += best[t]
    return total
