"""Worst deletions of tokens for n-gram features, by dynamic programming."""

from __future__ import annotations

import numpy as np

from ...utils.jit import PLAIN, njit
from ...utils.ties import TIES


@njit(**PLAIN)
def _fill_table(
    start, length, where, entries, gains, exact, most, removal, created_gains, best, previous
):
    """Fill the dynamic programming table of one text.

    best[j + 1, k, r] is the largest gain if token j remains, k tokens before it are deleted, and the
    last r + 1 remaining tokens up to j are adjacent. A step from token i to token j adds

    - the gains of the n-grams that end at the deleted tokens between i and j,
    - the gains of the n-grams that end at j and contain a deleted token,
    - the gains of the n-grams that the gap creates.
    """
    longest, run = removal.shape[1] - 1, best.shape[2]
    best[: length + 1] = -np.inf
    # No n-gram reaches back beyond the first token.
    best[0, 0, run - 1] = 0.0
    for j in range(length):
        # Gains of created features that end at j, by order, last gap and number of deletions.
        created_gains[:] = 0.0
        for c in range(where[start + j], where[start + j + 1]):
            order, gap, gain = entries[c, 1], entries[c, 2], gains[entries[c, 0]]
            bigram = exact and order == 2
            for k in range(gap if bigram else entries[c, 3], most + 1):
                if bigram or gain > created_gains[order - 2, gap, k]:
                    created_gains[order - 2, gap, k] = gain
        deleted_gain = 0.0
        for gap in range((most if most < j else j) + 1):
            if gap > 0:
                deleted_gain += removal[j - gap, longest]
            i = j - gap - 1
            for k in range(gap, most + 1):
                for r in range(run):
                    value = best[i + 1, k - gap, r]
                    if value == -np.inf:
                        continue
                    n_adjacent = r + 2 if gap == 0 else 1
                    value += deleted_gain
                    # After n - 1 adjacent tokens no n-gram reaches back to the gap.
                    if gap > 0 or r < run - 1:
                        for order in range(n_adjacent + 1, longest + 1):
                            value += removal[j, order - 1] + created_gains[order - 2, gap, k]
                    new_run = (n_adjacent if n_adjacent < run else run) - 1
                    if value - best[j + 1, k, new_run] > TIES * abs(value):
                        previous[j + 1, k, new_run] = gap * run + r
                    best[j + 1, k, new_run] = max(value, best[j + 1, k, new_run])


@njit(**PLAIN)
def _backtrack(length, best, previous, most, removal, spots):
    """Write the places of the best deletions; return their number and their gain."""
    run = best.shape[2]
    value, at_j, at_k, at_r, tail = -np.inf, 0, 0, 0, 0.0
    for gap in range((most if most < length else length) + 1):
        if gap > 0:
            tail += removal[length - gap, removal.shape[1] - 1]
        j = length - gap
        for k in range(most - gap + 1):
            for r in range(run):
                reached = best[j, k, r] + tail
                if reached - value > TIES * abs(reached):
                    at_j, at_k, at_r = j, k, r
                value = max(value, reached)
    # From the end of the text: deletions after the last remaining token, then before each of them.
    count, j, k, r, gap = 0, length + 1, at_k, at_r, length - at_j
    while j > 0:
        for p in range(j - 2, j - 2 - gap, -1):
            spots[count] = p
            count += 1
        j -= gap + 1
        if j > 0:
            gap, before = previous[j, k, r] // run, previous[j, k, r] % run
            k, r = k - gap, before
    for e in range(count // 2):
        spots[e], spots[count - 1 - e] = spots[count - 1 - e], spots[e]
    return count, value


@njit(**PLAIN)
def worst_deletions(
    starts, ending, where, entries, exact, rows, gains, assign, most, removal, best, previous, credit,
    counts, spots, values,
):  # fmt: skip
    """Compute the worst deletions of `most` tokens or fewer of each text.

    Shapes: `starts` (n_texts + 1,), `ending` (n_tokens, n), `rows` (n,), `gains` (p, n_features),
    `assign` (n,), `removal` (n_longest, n + 1), `best` (n_longest + 1, most + 1, n - 1), `previous`
    (n_longest + 1, most + 1, n - 1), `credit` (n - 1, most + 1, most + 1).
    """
    longest = ending.shape[1]
    for r in range(len(rows)):
        start, gain_of = starts[rows[r]], gains[assign[r]]
        length = starts[rows[r] + 1] - start
        for p in range(length):
            total = 0.0
            for m in range(longest):
                feature = ending[start + p, m]
                gain = -gain_of[feature] if feature >= 0 else 0.0
                removal[p, m] = gain
                total += gain
            removal[p, longest] = total
        _fill_table(start, length, where, entries, gain_of, exact, most, removal, credit, best, previous)
        counts[r], values[r] = _backtrack(length, best, previous, most, removal, spots[r])
