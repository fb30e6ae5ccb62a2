"""Word edits of rows against all labels at once, compiled: no direction of all features is made."""

from __future__ import annotations

import numpy as np

from ..compiled import njit
from ..matrices import longest_row


def word_leads(
    indptr: np.ndarray,
    indices: np.ndarray,
    data: np.ndarray,
    table: np.ndarray,
    codes: np.ndarray,
    max_changes: int,
    low: float,
    high: float,
    found: np.ndarray,
) -> None:
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
    room = _workspaces(indptr, table.shape[1], max_changes)
    _word_leads(indptr, indices, data, table, codes, max_changes, low, high, *room, found)


def word_edits(
    indptr: np.ndarray,
    indices: np.ndarray,
    data: np.ndarray,
    table: np.ndarray,
    codes: np.ndarray,
    labels: np.ndarray,
    max_changes: int,
    low: float,
    high: float,
    edited: np.ndarray,
) -> None:
    """The worst edit of every row for one label each: `edited`, a copy of the data, changes in place."""
    room = _workspaces(indptr, 2, max_changes)
    _word_edits(indptr, indices, data, table, codes, labels, max_changes, low, high, *room, edited)


def _workspaces(indptr: np.ndarray, n_rows: int, max_changes: int) -> tuple[np.ndarray, np.ndarray]:
    """Room for `n_rows` numbers for each word of the longest row, and for its largest gains."""
    longest = longest_row(indptr)
    return np.empty((n_rows, longest)), np.empty(max(1, min(max_changes, longest)))


@njit(cache=True, nogil=True)
def _word_leads(indptr, indices, data, table, codes, max_changes, low, high, gains, best, found):
    """See `word_leads`."""
    n_labels = table.shape[1]
    for i in range(len(codes)):
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
                gains[k, e] = less if less > more else more
        for k in range(n_labels):
            if k != c:
                found[i, k] += _sum_of_largest(gains, k, length, max_changes, best)


@njit(cache=True, nogil=True)
def _word_edits(
    indptr, indices, data, table, codes, labels, max_changes, low, high, gains, best, edited
):
    """See `word_edits`."""
    for i in range(len(codes)):
        start, length, c, k = indptr[i], indptr[i + 1] - indptr[i], codes[i], labels[i]
        if k == c:
            continue
        for e in range(length):
            row = table[indices[start + e]]
            b = (row[k] - row[c]) * data[start + e]
            less, more = (low - 1.0) * b, (high - 1.0) * b
            gains[0, e], gains[1, e] = less if less > more else more, b
        _sum_of_largest(gains, 0, length, max_changes, best)
        left, cut = max_changes if max_changes < length else length, best[0]
        # Those above the smallest of the largest, then as many that equal it as are left.
        for e in range(length):
            if gains[0, e] > cut and gains[0, e] > 0.0:
                edited[start + e] *= low if gains[1, e] < 0.0 else high
                left -= 1
        for e in range(length):
            if left > 0 and gains[0, e] == cut and gains[0, e] > 0.0:
                edited[start + e] *= low if gains[1, e] < 0.0 else high
                left -= 1


@njit(cache=True, nogil=True)
def _sum_of_largest(gains, k, length, count, best):
    """Sum of the `count` largest positive gains of row k; `best` is a heap of them, smallest first."""
    size = count if count < length else length
    if size == 0:
        best[0] = np.inf
        return 0.0
    for e in range(size):
        best[e] = 0.0
    for e in range(length):
        value = gains[k, e]
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
