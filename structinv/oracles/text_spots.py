"""Edits of tokens whose gains add up: places in the text, and the features that new tokens make."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..compiled import njit

_PLAIN: dict[str, Any] = {"cache": True, "nogil": True, "error_model": "numpy"}


@njit(**_PLAIN)
def _span(order, between):
    """At how many places an edit breaks an n-gram: its tokens, or the gaps between them."""
    return order - between


@njit(**_PLAIN)
def _score(start, stop, ending, share, gains, between, certain, scores):
    """What an edit wins at each place by the n-grams that it breaks."""
    scores[: stop - start] = 0.0
    for at in range(start, stop):
        for m in range(ending.shape[1]):
            feature = ending[at, m]
            if feature < 0:
                continue
            gain = -gains[feature] * share[at, m]
            if gain > 0 or (certain and m == 0):
                for back in range(_span(m + 1, between)):
                    scores[at - start - back] += gain


@njit(**_PLAIN)
def _largest(scores, length, most, listed):
    """The places of the `most` largest scores, in falling order; how many."""
    count = 0
    for p in range(length):
        if count == most and scores[p] <= scores[listed[count - 1]]:
            continue
        at = count if count < most else most - 1
        while at > 0 and scores[listed[at - 1]] < scores[p]:
            listed[at] = listed[at - 1]
            at -= 1
        listed[at] = p
        count = min(count + 1, most)
    return count


@njit(**_PLAIN)
def _new_features(ranked, n_ranked, gains, there, stamp, often, most, news, wins):
    """The features that edit after edit makes, those of each order best first; and what they win.

    m features of order m an edit: the best one each time, or where a feature counts once (`often` is
    false) the next one that the text lacks.
    """
    wins[:] = 0.0
    news[:] = -1
    for order in range(1, len(n_ranked) + 1):
        at, column = 0, order * (order - 1) // 2
        for e in range(most):
            for c in range(order):
                while not often and at < n_ranked[order - 1] and there[ranked[order - 1, at]] == stamp:
                    at += 1
                if at >= n_ranked[order - 1]:
                    break
                feature = ranked[order - 1, at]
                news[e, column + c] = feature
                wins[e] += gains[feature]
                at += not often


@njit(**_PLAIN)
def worst_spots(
    starts, ending, share, between, places, makes, often, certain, indptr, indices, rows, gains,
    assign, ranked, n_ranked, most, counts, spots, comes, values, sizes, n_changes, features, amounts,
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
    makes : bool
        Whether tokens come in at all.
    often : bool
        Whether a feature counts as often as it is there.
    certain : bool
        Whether a token that goes takes the feature that it is itself, be that good or bad.
    indptr, indices : arrays
        The features of each text.
    rows, gains, assign : arrays
        See `worst_deletions`.
    ranked : (p, n, n_listed) array
        Along each direction the features of each order that can come in, best first.
    n_ranked : (p, n) array
        How many of them win.
    most : int
    counts, spots, comes, values, sizes, n_changes, features, amounts : arrays
        See `worst_deletions`; `comes` has the single words that come in, as features, -1 for an unknown
        one. Places are in falling order of what they win; without chosen places all are the end of the
        text.
    """
    longest, widest = ending.shape[1], 1
    for i in rows:
        widest = max(widest, starts[i + 1] - starts[i])
    scores, listed = np.empty(widest), np.empty(most + 1, dtype=np.int64)
    there = np.full(gains.shape[1], -1, dtype=np.int64)
    news = np.empty((most, longest * (longest + 1) // 2), dtype=np.int64)
    wins = np.zeros(most)
    for r in range(len(rows)):
        i = rows[r]
        start, length, own = starts[i], starts[i + 1] - starts[i], gains[assign[r]]
        if makes:
            for e in range(indptr[i], indptr[i + 1]):
                there[indices[e]] = r
            _new_features(ranked[assign[r]], n_ranked[assign[r]], own, there, r, often, most, news, wins)
        found = 0
        if places:
            _score(start, start + length, ending, share, own, between, certain, scores)
            # Gap p lies before token p; there is none before the first.
            found = _largest(scores, length, most, listed)
        value, size, n = 0.0, 0.0, 0
        count = 0
        for e in range(most):
            gain = scores[listed[e]] if e < found else 0.0
            if between:
                gain = max(gain, 0.0)
            elif e >= found:
                break
            if gain + wins[e] <= 0:
                break
            spots[r, count] = listed[e] if e < found and (not between or gain > 0) else length
            comes[r, count] = news[e, 0] if makes else -1
            count += 1
            value += gain + wins[e]
            if makes:
                for feature in news[e]:
                    if feature >= 0:
                        features[r, n], amounts[r, n] = feature, 1.0
                        size += abs(own[feature])
                        n += 1
            if e < found and (not between or gain > 0):
                for m in range(longest):
                    for back in range(_span(m + 1, between)):
                        at = start + listed[e] + back
                        if at >= start + length or ending[at, m] < 0:
                            continue
                        feature = ending[at, m]
                        if own[feature] < 0 or (certain and m == 0):
                            features[r, n], amounts[r, n] = feature, -share[at, m]
                            size += abs(own[feature]) * share[at, m]
                            n += 1
        counts[r], values[r], sizes[r], n_changes[r] = count, value, size, n
