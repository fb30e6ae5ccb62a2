"""Edits of tokens where a word counts once: it goes with its last occurrence, a knapsack."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..compiled import njit

_PLAIN: dict[str, Any] = {"cache": True, "nogil": True, "error_model": "numpy"}


@njit(**_PLAIN)
def _fill(start, stop, tallies, features, spare, gains, must, most, best, taken):
    r"""The table of one text: best[w, j] is the most that is won by j edits of the first w words.

    A word of c occurrences wins what it costs if all of them are edited, and nothing if fewer are. Where
    edits need not be made (`must` is false), words that win nothing are passed over.
    """
    best[0] = -np.inf
    best[0, : min(spare, most) + 1] = 0.0
    for w in range(stop - start):
        tally, gain = tallies[start + w], -gains[features[start + w]]
        for j in range(most + 1):
            value, chosen = best[w, j], 0
            if must:
                for part in range(1, min(tally - 1, j) + 1):
                    if best[w, j - part] > value:
                        value, chosen = best[w, j - part], part
            if (must or gain > 0) and tally <= j and best[w, j - tally] + gain > value:
                value, chosen = best[w, j - tally] + gain, tally
            best[w + 1, j], taken[w + 1, j] = value, chosen


@njit(**_PLAIN)
def worst_words(
    indptr, indices, tallies, spares, must, rows, gains, assign, ranked, n_ranked, most,
    counts, edited, comes, values, sizes, n_changes, features, amounts,
):  # fmt: skip
    """The edits of at most `most` tokens that win most along a direction, text by text.

    Parameters
    ----------
    indptr, indices, tallies : arrays
        The words of each text that are features, and how often each occurs.
    spares : (n_texts,) array of int64
        How many other tokens each text has.
    must : bool
        Whether a token comes in for each that goes, so that the number of edits matters.
    rows, gains, assign, most : see `worst_deletions`
    ranked : (p, n_listed) array
        Along each direction the words that can come in, best first.
    n_ranked : (p,) array
        How many of them win.
    counts, edited, comes, values, sizes, n_changes, features, amounts : arrays
        Receive, for each text asked about, how many edits, the words whose occurrences they meet (-1
        for a token that is no feature), the words that come in (-1 for an unknown one), what they win,
        how large the terms of that are, and the changes of features.
    """
    widest = 0
    for i in rows:
        widest = max(widest, indptr[i + 1] - indptr[i])
    best = np.empty((widest + 1, most + 1))
    taken = np.zeros((widest + 1, most + 1), dtype=np.int64)
    there = np.full(gains.shape[1], -1, dtype=np.int64)
    news, wins = np.empty(most + 1, dtype=np.int64), np.zeros(most + 1)
    for r in range(len(rows)):
        i, own = rows[r], gains[assign[r]]
        start, stop = indptr[i], indptr[i + 1]
        news[:], wins[:] = -1, 0.0
        if must:
            for e in range(start, stop):
                there[indices[e]] = r
            at = 0
            for j in range(most):
                while at < n_ranked[assign[r]] and there[ranked[assign[r], at]] == r:
                    at += 1
                wins[j + 1] = wins[j]
                if at < n_ranked[assign[r]]:
                    news[j] = ranked[assign[r], at]
                    wins[j + 1] += own[news[j]]
                    at += 1
        _fill(start, stop, tallies, indices, spares[i] if must else most, own, must, most, best, taken)
        width, j = stop - start, 0
        for number in range(most + 1):
            if best[width, number] + wins[number] > best[width, j] + wins[j]:
                j = number
        values[r] = best[width, j] + wins[j]
        n, size, count = 0, 0.0, 0
        for e in range(j):
            comes[r, e] = news[e]
            if news[e] >= 0:
                features[r, n], amounts[r, n] = news[e], 1.0
                size += abs(own[news[e]])
                n += 1
        left = j
        for w in range(width, 0, -1):
            part, word = taken[w, left], indices[start + w - 1]
            for _ in range(part):
                edited[r, count] = word
                count += 1
            if part == tallies[start + w - 1]:
                features[r, n], amounts[r, n] = word, -1.0
                size += abs(own[word])
                n += 1
            left -= part
        if must:
            for _ in range(left):
                edited[r, count] = -1
                count += 1
        counts[r], sizes[r], n_changes[r] = count, size, n


@njit(**_PLAIN)
def places_of(starts, tokens, feature_of, n_features, rows, counts, edited, spots):
    """Where in each text the tokens to edit are, rising: the first occurrences of each word."""
    left = np.zeros(n_features + 1, dtype=np.int64)
    for r in range(len(rows)):
        for e in range(counts[r]):
            left[edited[r, e]] += 1
        found = 0
        for p in range(starts[rows[r]], starts[rows[r] + 1]):
            word = feature_of[tokens[p]] if tokens[p] >= 0 else -1
            if left[word] > 0:
                left[word] -= 1
                spots[r, found] = p - starts[rows[r]]
                found += 1
