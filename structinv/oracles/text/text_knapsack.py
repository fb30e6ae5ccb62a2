"""Worst edits of tokens for binary features of single words: a knapsack problem.

A binary feature is removed with the last occurrence of its word.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...utils.jit import njit
from ...utils.ties import TIES

_PLAIN: dict[str, Any] = {"cache": True, "nogil": True, "error_model": "numpy"}


@njit(**_PLAIN)
def worst_words(
    indptr, indices, word_counts, n_unknown, replaces, rows, gains, assign, ranked, n_ranked, most, best,
    chosen, marks, counts, edited, inserted, values, sizes, n_changes, features, amounts,
):  # fmt: skip
    """Compute the worst edits of `most` tokens or fewer of each text.

    Parameters
    ----------
    indptr, indices, word_counts : arrays
        Features of each text, and the number of occurrences of their words.
    n_unknown : array of int64 of shape (n_texts,)
        Number of tokens without a feature in each text.
    replaces : bool
        Whether each edit replaces a token by another word. Otherwise edits delete tokens.
    rows, gains, assign, most : arrays and int
        The same as in `worst_deletions`.
    ranked : array of shape (p, n_listed)
        Words that may be inserted, for each direction, best first.
    n_ranked : array of shape (p,)
        Number of these words with a positive gain.
    best, chosen : arrays of shape (n_longest + 1, most + 1)
        Workspaces of the knapsack problem: the largest gain for the first w words and j edits, and the
        number of edits of word w in this optimum.
    marks : array of int of shape (n_features,)
        Workspace, initially -1.
    counts, edited, inserted, values, sizes, n_changes, features, amounts : arrays
        Outputs for each text: number of edits, edited words (-1: a token without a feature), inserted
        words (-1: an unknown word), gain, bound of its absolute terms, and changes of features.
    """
    for row in range(len(rows)):
        i, direction, gain_of = rows[row], assign[row], gains[assign[row]]
        start, width = indptr[i], indptr[i + 1] - indptr[i]
        for e in range(start, start + width if replaces else start):
            marks[indices[e]] = row
        # best[w, j] is the largest gain of j edits of the first w words. The feature of a word with c
        # occurrences is removed by c edits, and unchanged by fewer. Deletions skip words without a
        # positive gain.
        for j in range(most + 1):
            best[0, j] = 0.0 if j <= n_unknown[i] or not replaces else -np.inf
        for w in range(width):
            n_occurrences, gain = word_counts[start + w], -gain_of[indices[start + w]]
            for j in range(most + 1):
                value, choice = best[w, j], 0
                if replaces:
                    for part in range(1, (n_occurrences if n_occurrences <= j else j + 1)):
                        if best[w, j - part] > value:
                            value, choice = best[w, j - part], part
                if (replaces or gain > 0) and n_occurrences <= j:
                    reached = best[w, j - n_occurrences] + gain
                    # If both are equal, earlier words are edited.
                    if reached - value > TIES * abs(reached):
                        choice = n_occurrences
                    value = max(value, reached)
                best[w + 1, j], chosen[w + 1, j] = value, choice
        # Best number of edits. Each replacement inserts the next best word that the text lacks.
        next_word, gain_inserted, highest, count, n_left = 0, 0.0, best[width, 0], 0, 0
        for j in range(1, most + 1):
            inserted[row, j - 1] = -1
            if replaces:
                while next_word < n_ranked[direction] and marks[ranked[direction, next_word]] == row:
                    next_word += 1
                if next_word < n_ranked[direction]:
                    inserted[row, j - 1] = ranked[direction, next_word]
                    gain_inserted += gain_of[ranked[direction, next_word]]
                    next_word += 1
            reached = best[width, j] + gain_inserted
            # If both are equal, fewer tokens are edited.
            if reached - highest > TIES * abs(reached):
                n_left = j
            highest = max(highest, reached)
        values[row] = highest
        n, size = 0, 0.0
        for e in range(most):
            word = inserted[row, e]
            if e >= n_left:
                inserted[row, e] = -1
            elif word >= 0:
                features[row, n], amounts[row, n] = word, 1.0
                size += abs(gain_of[word])
                n += 1
        for w in range(width, 0, -1):
            part, word = chosen[w, n_left], indices[start + w - 1]
            for _ in range(part):
                edited[row, count] = word
                count += 1
            if part == word_counts[start + w - 1]:
                features[row, n], amounts[row, n] = word, -1.0
                size += abs(gain_of[word])
                n += 1
            n_left -= part
        if replaces:
            for _ in range(n_left):
                edited[row, count] = -1
                count += 1
        counts[row], sizes[row], n_changes[row] = count, size, n


@njit(**_PLAIN)
def places_of(starts, tokens, feature_of, left, rows, counts, edited, spots):
    """Write the places of the edited tokens: the first occurrences of each word.

    `left` is a workspace of zeros with an entry for each feature and one for all other tokens.
    """
    for r in range(len(rows)):
        for e in range(counts[r]):
            left[edited[r, e]] += 1
        n_placed = 0
        for p in range(starts[rows[r]], starts[rows[r] + 1]):
            word = feature_of[tokens[p]] if tokens[p] >= 0 else -1
            if left[word] > 0:
                left[word] -= 1
                spots[r, n_placed] = p - starts[rows[r]]
                n_placed += 1
