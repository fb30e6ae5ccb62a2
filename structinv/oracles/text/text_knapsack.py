"""Edits of tokens where a word counts once: it goes with its last occurrence, a knapsack."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...utils.jit import njit

_PLAIN: dict[str, Any] = {"cache": True, "nogil": True, "error_model": "numpy"}


@njit(**_PLAIN)
def worst_words(
    indptr, indices, tallies, spares, must, rows, gains, assign, ranked, n_ranked, most, best, taken,
    there, counts, edited, comes, values, sizes, n_changes, features, amounts,
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
    best, taken : (n_longest + 1, most + 1) arrays
        Room for the tables of one text: the most that is won by edits of its first words.
    there : (n_features,) array of int
        Room for marks, -1 in the beginning.
    counts, edited, comes, values, sizes, n_changes, features, amounts : arrays
        Receive, for each text asked about, how many edits, the words whose occurrences they meet (-1
        for a token that is no feature), the words that come in (-1 for an unknown one), what they win,
        how large the terms of that are, and the changes of features.
    """
    for r in range(len(rows)):
        i, p, own = rows[r], assign[r], gains[assign[r]]
        start, width = indptr[i], indptr[i + 1] - indptr[i]
        for e in range(start, start + width if must else start):
            there[indices[e]] = r
        # best[w, j]: the most that is won by j edits of the first w words. A word of c occurrences wins
        # what it costs if all of them are edited, and nothing if fewer are. Where edits need not be
        # made, words that win nothing are passed over.
        for j in range(most + 1):
            best[0, j] = 0.0 if j <= spares[i] or not must else -np.inf
        for w in range(width):
            tally, gain = tallies[start + w], -own[indices[start + w]]
            for j in range(most + 1):
                value, chosen = best[w, j], 0
                if must:
                    for part in range(1, (tally if tally <= j else j + 1)):
                        if best[w, j - part] > value:
                            value, chosen = best[w, j - part], part
                if (must or gain > 0) and tally <= j and best[w, j - tally] + gain > value:
                    value, chosen = best[w, j - tally] + gain, tally
                best[w + 1, j], taken[w + 1, j] = value, chosen
        # The number of edits, of which each brings in the next word that the text lacks.
        at, won, highest, count, left = 0, 0.0, best[width, 0], 0, 0
        for j in range(1, most + 1):
            comes[r, j - 1] = -1
            if must:
                while at < n_ranked[p] and there[ranked[p, at]] == r:
                    at += 1
                if at < n_ranked[p]:
                    comes[r, j - 1] = ranked[p, at]
                    won += own[ranked[p, at]]
                    at += 1
            if best[width, j] + won > highest:
                highest, left = best[width, j] + won, j
        values[r] = highest
        n, size = 0, 0.0
        for e in range(most):
            word = comes[r, e]
            if e >= left:
                comes[r, e] = -1
            elif word >= 0:
                features[r, n], amounts[r, n] = word, 1.0
                size += abs(own[word])
                n += 1
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
def places_of(starts, tokens, feature_of, left, rows, counts, edited, spots):
    """Where in each text the tokens to edit are, rising: the first occurrences of each word.

    `left` is room for a count of each feature, and of tokens that are none, 0 in the beginning.
    """
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
