"""Which rows add which words, where only the sums over rows are known.

A row of level h adds at most h of each word that it does not have, and no more in all than its budget,
K h where nothing else is changed. Row by row, the words come first whose demand leaves the least room,
as in scheduling by least laxity: a word's room is what the rows still to come could add of it, less what
is still asked for.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..utils.jit import njit

_PLAIN: dict[str, Any] = {"cache": True, "nogil": True, "error_model": "numpy"}
# Shares of a level that are nothing but rounding.
_NOTHING = 1e-14


@njit(**_PLAIN)
def _sink(heap, at, size, room):
    """Let an entry of a heap go down to where no entry below it has less room."""
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


@njit(**_PLAIN)
def _rise(heap, at, room):
    """Let an entry of a heap go up to where no entry above it has more room."""
    word = heap[at]
    while at > 0 and room[heap[(at - 1) // 2]] > room[word]:
        heap[at] = heap[(at - 1) // 2]
        at = (at - 1) // 2
    heap[at] = word


@njit(**_PLAIN)
def share_out(indptr, indices, rows, levels, budgets, asked, could, present, starts, words, shares):
    """Share out what is asked of each word between rows.

    Parameters
    ----------
    indptr, indices : arrays
        All rows in CSR format.
    rows : (m,) array of int
        The rows that share.
    levels : (m,) array
        Their levels, above 0: how much of one word each may add.
    budgets : (m,) array
        How much of all words each may add, at most K times its level.
    asked : (d,) array
        How much of each word is asked for; what remains is left there.
    could : (d,) array
        The sum of levels over those rows that may add the word.
    present : bool
        Whether words may be added to rows that have them.
    starts : (m + 1,) array of int
    words, shares : arrays
        Receive the words of row r of `rows` and how much of each, from ``starts[r]`` on, with room for
        ``m (K + 1)`` entries and one more a word.
    """
    room, late = could - asked, np.zeros(asked.size)
    heap, size = np.flatnonzero(asked > 0), 0
    size = heap.size
    for at in range(size // 2 - 1, -1, -1):
        _sink(heap, at, size, room)
    aside, has = np.empty(size + 1, np.int64), np.zeros(asked.size, np.bool_)
    # Rooms are kept as they would be if no row had passed: all fall by the level of a row together.
    at = 0
    starts[0] = 0
    for r in range(rows.size):
        h = levels[r]
        start, stop = indptr[rows[r]], indptr[rows[r] + 1]
        if not present:
            for e in range(start, stop):
                has[indices[e]] = True
        left, n_aside = budgets[r], 0
        while left > _NOTHING * h and size > 0:
            j = heap[0]
            if late[j] > 0:
                # Rows passed that have the word, and could not have added it.
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
