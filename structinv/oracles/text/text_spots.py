"""Worst token edits if gains add up: places, and features of inserted tokens."""

from __future__ import annotations

from ...utils.jit import PLAIN, njit
from ...utils.ties import TIES


@njit(**PLAIN)
def new_features(
    indptr, indices, rows, gains, assign, ranked, n_ranked, repeats, most, marks, created, creation
):  # fmt: skip
    """Compute the features that successive edits create, best first, and their gains.

    Each edit creates m features of order m. If `repeats` is true, each is the best one. Otherwise it is
    the next best feature that the text lacks.

    Shapes: `ranked` (p, n, n_listed), `n_ranked` (p, n), `marks` (n_features,), `created` (n, most,
    n_created), `creation` (n, most).
    """
    for r in range(len(rows)):
        gain_of, p = gains[assign[r]], assign[r]
        for e in range(indptr[rows[r]], indptr[rows[r] + 1]):
            marks[indices[e]] = r
        for e in range(most):
            creation[r, e] = 0.0
            for column in range(created.shape[2]):
                created[r, e, column] = -1
        for m in range(ranked.shape[1]):
            at, column = 0, m * (m + 1) // 2
            for e in range(most):
                for c in range(m + 1):
                    while not repeats and at < n_ranked[p, m] and marks[ranked[p, m, at]] == r:
                        at += 1
                    if at >= n_ranked[p, m]:
                        break
                    feature = ranked[p, m, at]
                    created[r, e, column + c] = feature
                    creation[r, e] += gain_of[feature]
                    at += not repeats


@njit(**PLAIN)
def worst_spots(
    starts, ending, between, places, certain, rows, gains, assign, most, created, creation, scores,
    listed, counts, spots, inserted, values,
):  # fmt: skip
    """Compute the worst edits at `most` places or fewer of each text.

    Shapes: `scores` (n_tokens,), `listed` (most,).
    """
    longest, creates, inner = ending.shape[1], created.shape[2] > 0, 1 if between else 0
    for r in range(len(rows)):
        start, stop, gain_of = starts[rows[r]], starts[rows[r] + 1], gains[assign[r]]
        length, n_listed = stop - start, 0
        # scores[p] is the gain of the n-grams that an edit of token p breaks, or an insertion before it.
        # An insertion before the first token breaks no n-gram.
        for p in range(length if places else 0):
            scores[p] = 0.0
        for at in range(start, stop if places else start):
            for m in range(longest):
                feature = ending[at, m]
                if feature >= 0:
                    gain = -gain_of[feature]
                    if gain > 0 or (certain and m == 0):
                        for back in range(m + 1 - inner):
                            scores[at - start - back] += gain
        # Places of the largest scores, in decreasing sequence, the first of equal ones.
        for p in range(length if places else 0):
            least = scores[p] - TIES * abs(scores[p])
            if n_listed == most and least <= scores[listed[n_listed - 1]]:
                continue
            place = n_listed if n_listed < most else most - 1
            while place > 0 and scores[listed[place - 1]] < least:
                listed[place] = listed[place - 1]
                place -= 1
            listed[place] = p
            n_listed += n_listed < most
        value, count = 0.0, 0
        for e in range(most):
            gain = scores[listed[e]] if e < n_listed else 0.0
            if between:
                gain = gain if gain > 0.0 else 0.0
            elif e >= n_listed:
                break
            if gain + creation[r, e] <= 0:
                break
            breaks = e < n_listed and (not between or gain > 0)
            spots[r, count] = listed[e] if breaks else length
            inserted[r, count] = created[r, e, 0] if creates else -1
            count += 1
            value += gain + creation[r, e]
        counts[r], values[r] = count, value
