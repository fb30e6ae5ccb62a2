"""Distribution of added features over rows, from the sums over all rows.

A row with dual variable h adds at most h of each missing feature. In total it adds at most its budget,
which is K h if nothing else is edited. Row by row, features with the smallest slack are added first, as
in least-laxity scheduling. The slack of a feature is the amount that later rows can add, minus the
amount that is still missing. In the code, a feature is a "word" and the array ``room`` has the slacks.
"""

from __future__ import annotations

import numpy as np

from ..utils.jit import PLAIN, njit

# Smaller fractions of a dual variable are rounding errors.
_NOTHING = 1e-14


@njit(**PLAIN)
def _sink(heap, at, size, room):
    """Move an entry of a heap down until no entry below it has less slack."""
    word = heap[at]
    while 2 * at + 1 < size:
        child = 2 * at + 1
        if child + 1 < size and room[heap[child + 1]] < room[heap[child]]:
            child += 1
        if room[heap[child]] >= room[word]:
            break
        heap[at] = heap[child]
        at = child
    heap[at] = word


@njit(**PLAIN)
def _rise(heap, at, room):
    """Move an entry of a heap up until no entry above it has more slack."""
    word = heap[at]
    while at > 0 and room[heap[(at - 1) // 2]] > room[word]:
        heap[at] = heap[(at - 1) // 2]
        at = (at - 1) // 2
    heap[at] = word


@njit(**PLAIN)
def share_out(entries, rows, taus, budgets, asked, could, present, most):
    """Distribute the required amounts of all features over rows.

    Returns where the shares of each row start, (m + 1,), and the feature and the amount of each share.
    There are at most ``most`` shares.

    Shapes: `rows` (m,), `taus` (m,), `budgets` (m,), `asked` (d,), `could` (d,).
    """
    indptr, indices, _ = entries
    starts, words, shares = np.zeros(rows.size + 1, np.int64), np.empty(most, np.int64), np.empty(most)
    room, late = could - asked, np.zeros(asked.size)
    heap = np.flatnonzero(asked > 0)
    size = heap.size
    for at in range(size // 2 - 1, -1, -1):
        _sink(heap, at, size, room)
    aside, has = np.empty(size + 1, np.int64), np.zeros(asked.size, np.bool_)
    # All slacks fall by the dual variable of each visited row. This common amount is not subtracted.
    at = 0
    for r in range(rows.size):
        h = taus[r]
        start, stop = indptr[rows[r]], indptr[rows[r] + 1]
        if not present:
            for e in range(start, stop):
                has[indices[e]] = True
        left, n_aside = budgets[r], 0
        while left > _NOTHING * h and size > 0:
            j = heap[0]
            if late[j] > 0:
                # Visited rows that have the feature could not add it.
                room[j] += late[j]
                late[j] = 0.0
                _sink(heap, 0, size, room)
                continue
            size -= 1
            heap[0] = heap[size]
            _sink(heap, 0, size, room)
            aside[n_aside] = j
            n_aside += 1
            if has[j]:
                continue
            share = min(h, min(asked[j], left))
            words[at], shares[at] = j, share
            at += 1
            left -= share
            room[j] += share
            asked[j] -= share
            if asked[j] <= _NOTHING * could[j]:
                n_aside -= 1
        for k in range(n_aside):
            heap[size] = aside[k]
            size += 1
            _rise(heap, size - 1, room)
        if not present:
            for e in range(start, stop):
                has[indices[e]] = False
                late[indices[e]] += h
        starts[r + 1] = at
    return starts, words[:at], shares[:at]
