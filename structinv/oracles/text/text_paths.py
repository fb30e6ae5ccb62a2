"""The deletions of tokens that gain most where neighbors count: a program over what is kept."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...utils.jit import njit

_PLAIN: dict[str, Any] = {"cache": True, "nogil": True, "error_model": "numpy"}


@njit(**_PLAIN)
def _walk(start, length, where, entries, gains, exact, most, away, credit, best, came):
    r"""Fill the table of one text: best[j + 1, k, r] is the most that is won by texts whose last token
    kept is j, k deleted before it and r in a row kept up to it.

    The value of a step from token i to token j is that of all n-grams that end at deleted tokens
    between, of those that end at j and reach back over a gap, and of those that the gap creates.
    """
    longest, run = away.shape[1] - 1, best.shape[2]
    best[: length + 1] = -np.inf
    # Before the first token nothing is missing.
    best[0, 0, run - 1] = 0.0
    for j in range(length):
        # What features that deletions create at j win, by order, last gap and deletions so far.
        credit[:] = 0.0
        for c in range(where[start + j], where[start + j + 1]):
            order, gap, gain = entries[c, 1], entries[c, 2], gains[entries[c, 0]]
            bigram = exact and order == 2
            for k in range(gap if bigram else entries[c, 3], most + 1):
                if bigram or gain > credit[order - 2, gap, k]:
                    credit[order - 2, gap, k] = gain
        between = 0.0
        for gap in range((most if most < j else j) + 1):
            if gap > 0:
                between += away[j - gap, longest]
            i = j - gap - 1
            for k in range(gap, most + 1):
                for r in range(run):
                    value = best[i + 1, k - gap, r]
                    if value == -np.inf:
                        continue
                    kept = r + 2 if gap == 0 else 1
                    value += between
                    # At the end of a run of n - 1 tokens no n-gram reaches back further.
                    if gap > 0 or r < run - 1:
                        for order in range(kept + 1, longest + 1):
                            value += away[j, order - 1] + credit[order - 2, gap, k]
                    now = (kept if kept < run else run) - 1
                    if value > best[j + 1, k, now]:
                        best[j + 1, k, now] = value
                        came[j + 1, k, now] = gap * run + r


@njit(**_PLAIN)
def _deleted(length, best, came, most, away, spots):
    """The deletions of the best text: how many, and what they win."""
    run = best.shape[2]
    value, at_j, at_k, at_r, tail = -np.inf, 0, 0, 0, 0.0
    for gap in range((most if most < length else length) + 1):
        if gap > 0:
            tail += away[length - gap, away.shape[1] - 1]
        j = length - gap
        for k in range(most - gap + 1):
            for r in range(run):
                if best[j, k, r] + tail > value:
                    value, at_j, at_k, at_r = best[j, k, r] + tail, j, k, r
    # From the last to the first: what is deleted at the end, and before each token kept.
    count, j, k, r, gap = 0, length + 1, at_k, at_r, length - at_j
    while j > 0:
        for p in range(j - 2, j - 2 - gap, -1):
            spots[count] = p
            count += 1
        j -= gap + 1
        if j > 0:
            gap, before = came[j, k, r] // run, came[j, k, r] % run
            k, r = k - gap, before
    for e in range(count // 2):
        spots[e], spots[count - 1 - e] = spots[count - 1 - e], spots[e]
    return count, value


@njit(**_PLAIN)
def _tell(
    start, length, spots, count, ending, share, fixed, where, entries, gains, exact, features, amounts
):
    """Write how features change by these deletions, as the table has it; how many entries, and sizes."""
    longest, n, last, size, e = ending.shape[1], 0, -1, 0.0, 0
    gap, deleted, run = 0, 0, longest
    for p in range(length):
        at = start + p
        if e < count and spots[e] == p:
            e, gap, deleted = e + 1, gap + 1, deleted + 1
            first = 1
        else:
            run = run + 1 if gap == 0 else 1
            first = run + 1
            for order in range(max(first, 2), longest + 1):
                best, chosen = 0.0, -1
                for c in range(where[at], where[at + 1]):
                    if entries[c, 1] != order or entries[c, 2] != gap or entries[c, 3] > deleted:
                        continue
                    gain = gains[entries[c, 0]]
                    if gain > best or (exact and order == 2):
                        best, chosen = gain, entries[c, 0]
                if chosen >= 0 and last >= 0:
                    features[n], amounts[n] = chosen, 1.0
                    size += abs(gains[chosen])
                    n += 1
            gap, last = 0, p
        for order in range(first, longest + 1):
            feature = ending[at, order - 1]
            if feature >= 0 and not (gains[feature] > 0 and fixed[at, order - 1]):
                features[n], amounts[n] = feature, -share[at, order - 1]
                size += abs(gains[feature]) * share[at, order - 1]
                n += 1
    return n, size


@njit(**_PLAIN)
def worst_deletions(
    starts, ending, share, fixed, where, entries, exact, rows, gains, assign, most, away, best, came,
    credit, counts, spots, values, sizes, n_changes, features, amounts,
):  # fmt: skip
    """The deletions of at most `most` tokens that win most along a direction, text by text.

    Parameters
    ----------
    starts : (n_texts + 1,) array
    ending : (n_tokens, n) array
        The feature of each order that ends at each token, n at least 2.
    share, fixed : (n_tokens, n) arrays
        What of a feature goes with this occurrence, and whether it stays if it is good.
    where, entries : arrays
        See `CreatableFeatures`.
    exact : bool
        Whether a bigram that is created counts if it is bad, too.
    rows : (n,) array
        The texts asked about.
    gains : (p, n_features) array
        What a unit of each feature wins along each direction.
    assign : (n,) array
    most : int
    away : (n_longest, n + 1) array
        Room for what each token of the longest text has to lose.
    best, came : (n_longest + 1, most + 1, n - 1) arrays
    credit : (n - 1, most + 1, most + 1) array
        Room for the tables of one text.
    counts, spots, values, sizes, n_changes, features, amounts : arrays
        Receive, for each text asked about, the number of deletions, their places, what they win, how
        large the terms of that are, and the changes of features.
    """
    longest = ending.shape[1]
    for r in range(len(rows)):
        start, own = starts[rows[r]], gains[assign[r]]
        length = starts[rows[r] + 1] - start
        for p in range(length):
            total = 0.0
            for m in range(longest):
                # What it wins that an occurrence of a feature goes.
                feature, loss = ending[start + p, m], 0.0
                if feature >= 0 and not (own[feature] > 0 and fixed[start + p, m]):
                    loss = -own[feature] * share[start + p, m]
                away[p, m] = loss
                total += loss
            away[p, longest] = total
        _walk(start, length, where, entries, own, exact, most, away, credit, best, came)
        counts[r], values[r] = _deleted(length, best, came, most, away, spots[r])
        n_changes[r], sizes[r] = _tell(
            start, length, spots[r], counts[r], ending, share, fixed, where, entries, own, exact,
            features[r], amounts[r],
        )  # fmt: skip
