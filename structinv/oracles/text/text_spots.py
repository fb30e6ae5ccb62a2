"""Edits of tokens whose gains add up: places in the text, and the features that new tokens make."""

from __future__ import annotations

from typing import Any

from ...utils.jit import njit

_PLAIN: dict[str, Any] = {"cache": True, "nogil": True, "error_model": "numpy"}


@njit(**_PLAIN)
def new_features(
    indptr, indices, rows, gains, assign, ranked, n_ranked, often, most, there, news, wins
):  # fmt: skip
    """The features that edit after edit makes, those of each order best first; and what they win.

    m features of order m an edit: the best one each time, or where a feature counts once (`often` is
    false) the next one that the text lacks.

    Parameters
    ----------
    indptr, indices : arrays
        The features of each text.
    rows, gains, assign : arrays
        See `worst_deletions`.
    ranked : (p, n, n_listed) array
        Along each direction the features of each order that can come in, best first.
    n_ranked : (p, n) array
        How many of them win.
    often : bool
        Whether a feature counts as often as it is there.
    most : int
    there : (n_features,) array of int
        Room for marks, -1 in the beginning.
    news : (n, most, n_made) array of int
        Receives the features that each edit makes, -1 for none.
    wins : (n, most) array
        Receives what they win.
    """
    for r in range(len(rows)):
        own, p = gains[assign[r]], assign[r]
        for e in range(indptr[rows[r]], indptr[rows[r] + 1]):
            there[indices[e]] = r
        for e in range(most):
            wins[r, e] = 0.0
            for column in range(news.shape[2]):
                news[r, e, column] = -1
        for m in range(ranked.shape[1]):
            at, column = 0, m * (m + 1) // 2
            for e in range(most):
                for c in range(m + 1):
                    while not often and at < n_ranked[p, m] and there[ranked[p, m, at]] == r:
                        at += 1
                    if at >= n_ranked[p, m]:
                        break
                    feature = ranked[p, m, at]
                    news[r, e, column + c] = feature
                    wins[r, e] += own[feature]
                    at += not often


@njit(**_PLAIN)
def worst_spots(
    starts, ending, share, between, places, certain, rows, gains, assign, most, news, wins, scores,
    listed, counts, spots, comes, values, sizes, n_changes, features, amounts,
):  # fmt: skip
    """The edits of at most `most` places that win most along a direction, text by text.

    Parameters
    ----------
    starts, ending, share : arrays
        See `worst_deletions`.
    between : bool
        Whether tokens come in between tokens, and not in their place.
    places : bool
        Whether places are chosen: single words that come in break nothing.
    certain : bool
        Whether a token that goes takes the feature that it is itself, be that good or bad.
    rows, gains, assign : arrays
        See `worst_deletions`.
    most : int
    news, wins : arrays
        See `new_features`; `news` has no columns where no tokens come in.
    scores : (n_tokens,) array
        Room for a score of each token of the longest text.
    listed : (most,) array of int
        Room for places.
    counts, spots, comes, values, sizes, n_changes, features, amounts : arrays
        See `worst_deletions`; `comes` has the single words that come in, as features, -1 for an unknown
        one. Places are in falling order of what they win; without chosen places all are the end of the
        text.
    """
    longest, makes, inner = ending.shape[1], news.shape[2] > 0, 1 if between else 0
    for r in range(len(rows)):
        start, stop, own = starts[rows[r]], starts[rows[r] + 1], gains[assign[r]]
        length, found = stop - start, 0
        # What an edit wins at each place by the n-grams that it breaks: at one of their tokens, or in a
        # gap between them. Gap p lies before token p; there is none before the first.
        for p in range(length if places else 0):
            scores[p] = 0.0
        for at in range(start, stop if places else start):
            for m in range(longest):
                feature = ending[at, m]
                if feature >= 0:
                    gain = -own[feature] * share[at, m]
                    if gain > 0 or (certain and m == 0):
                        for back in range(m + 1 - inner):
                            scores[at - start - back] += gain
        # The places of the largest scores, in falling order.
        for p in range(length if places else 0):
            if found == most and scores[p] <= scores[listed[found - 1]]:
                continue
            place = found if found < most else most - 1
            while place > 0 and scores[listed[place - 1]] < scores[p]:
                listed[place] = listed[place - 1]
                place -= 1
            listed[place] = p
            found += found < most
        value, size, n, count = 0.0, 0.0, 0, 0
        for e in range(most):
            gain = scores[listed[e]] if e < found else 0.0
            if between:
                gain = gain if gain > 0.0 else 0.0
            elif e >= found:
                break
            if gain + wins[r, e] <= 0:
                break
            breaks = e < found and (not between or gain > 0)
            spots[r, count] = listed[e] if breaks else length
            comes[r, count] = news[r, e, 0] if makes else -1
            count += 1
            value += gain + wins[r, e]
            for column in range(news.shape[2]):
                feature = news[r, e, column]
                if feature >= 0:
                    features[r, n], amounts[r, n] = feature, 1.0
                    size += abs(own[feature])
                    n += 1
            for m in range(longest if breaks else 0):
                for back in range(m + 1 - inner):
                    at = start + listed[e] + back
                    if at >= stop or ending[at, m] < 0:
                        continue
                    feature = ending[at, m]
                    if own[feature] < 0 or (certain and m == 0):
                        features[r, n], amounts[r, n] = feature, -share[at, m]
                        size += abs(own[feature]) * share[at, m]
                        n += 1
        counts[r], values[r], sizes[r], n_changes[r] = count, value, size, n
