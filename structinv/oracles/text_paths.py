"""The deletions of tokens that gain most where neighbours count: a programme over what is kept."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..compiled import njit

_PLAIN: dict[str, Any] = {"cache": True, "nogil": True, "error_model": "numpy"}


@njit(**_PLAIN)
def _loss_of(feature, share, fixed, gains):
    """What it wins that an occurrence of a feature goes."""
    if feature < 0:
        return 0.0
    gain = gains[feature]
    return 0.0 if gain > 0 and fixed else -gain * share


@njit(**_PLAIN)
def _credits(j, where, entries, gains, exact, most, credit):
    """What features that deletions create at token j win, by order, last gap and deletions so far."""
    credit[:] = 0.0
    for c in range(where[j], where[j + 1]):
        order, gap, needed = entries[c, 1], entries[c, 2], entries[c, 3]
        gain = gains[entries[c, 0]]
        if exact and order == 2:
            credit[0, gap, gap:] = gain
        elif gain > 0:
            for k in range(needed, most + 1):
                credit[order - 2, gap, k] = max(credit[order - 2, gap, k], gain)


@njit(**_PLAIN)
def _walk(start, stop, ending, share, fixed, where, entries, gains, exact, most, away, best, came):
    r"""Fill the table of one text: best[j + 1, k, r] is the most that is won by texts whose last token
    kept is j, k deleted before it and r in a row kept up to it.

    The value of a step from token i to token j is that of all n-grams that end at deleted tokens
    between, of those that end at j and reach back over a gap, and of those that the gap creates.
    """
    length, longest = stop - start, ending.shape[1]
    run = best.shape[2]
    credit = np.empty((longest - 1, most + 1, most + 1))
    best[: length + 1] = -np.inf
    # Before the first token nothing is missing.
    best[0, 0, run - 1] = 0.0
    for j in range(length):
        _credits(start + j, where, entries, gains, exact, most, credit)
        between = 0.0
        for gap in range(min(most, j) + 1):
            if gap > 0:
                between += away[start + j - gap].sum()
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
                            value += away[start + j, order - 1] + credit[order - 2, gap, k]
                    now = min(kept, run) - 1
                    if value > best[j + 1, k, now]:
                        best[j + 1, k, now] = value
                        came[j + 1, k, now] = gap * run + r


@njit(**_PLAIN)
def _deleted(length, best, came, most, away, start, spots):
    """The deletions of the best text: how many, and what they win."""
    run = best.shape[2]
    value, at_j, at_k, at_r, tail = -np.inf, 0, 0, 0, 0.0
    for gap in range(min(most, length) + 1):
        if gap > 0:
            tail += away[start + length - gap].sum()
        j = length - gap
        for k in range(most - gap + 1):
            for r in range(run):
                if best[j, k, r] + tail > value:
                    value, at_j, at_k, at_r = best[j, k, r] + tail, j, k, r
    count = 0
    for p in range(length - 1, at_j - 1, -1):
        spots[count] = p
        count += 1
    j, k, r = at_j, at_k, at_r
    while j > 0:
        gap, before = came[j, k, r] // run, came[j, k, r] % run
        for p in range(j - 2, j - 2 - gap, -1):
            spots[count] = p
            count += 1
        j, k, r = j - gap - 1, k - gap, before
    spots[:count] = spots[:count][::-1].copy()
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
    starts, ending, share, fixed, where, entries, exact, rows, gains, assign, most,
    counts, spots, values, sizes, n_changes, features, amounts,
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
        See `Created`.
    exact : bool
        Whether a bigram that is created counts if it is bad, too.
    rows : (n,) array
        The texts asked about.
    gains : (p, n_features) array
        What a unit of each feature wins along each direction.
    assign : (n,) array
    most : int
    counts, spots, values, sizes, n_changes, features, amounts : arrays
        Receive, for each text asked about, the number of deletions, their places, what they win, how
        large the terms of that are, and the changes of features.
    """
    longest = ending.shape[1]
    run, widest = longest - 1, 0
    for i in rows:
        widest = max(widest, starts[i + 1] - starts[i])
    best = np.empty((widest + 1, most + 1, run))
    came = np.zeros((widest + 1, most + 1, run), dtype=np.int64)
    away = np.empty((len(ending), longest))
    for r in range(len(rows)):
        start, stop = starts[rows[r]], starts[rows[r] + 1]
        own = gains[assign[r]]
        for p in range(start, stop):
            for m in range(longest):
                away[p, m] = _loss_of(ending[p, m], share[p, m], fixed[p, m], own)
        _walk(start, stop, ending, share, fixed, where, entries, own, exact, most, away, best, came)
        counts[r], values[r] = _deleted(stop - start, best, came, most, away, start, spots[r])
        n_changes[r], sizes[r] = _tell(
            start, stop - start, spots[r], counts[r], ending, share, fixed, where, entries, own, exact,
            features[r], amounts[r],
        )  # fmt: skip
