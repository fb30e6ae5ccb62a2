"""Viterbi algorithm for the best labeling of a sequence, compiled."""

from __future__ import annotations

import numpy as np

from ..utils.jit import njit


@njit(cache=True, nogil=True)
def viterbi(potentials, begin, size, links, best_scores):
    """Return the last label of the best labeling, and its score (Viterbi 1967).

    No back-pointers are stored: `before` computes labels from the scores. The loop takes four labels at
    once, which saves reads and writes of the highest scores.

    Shapes: `potentials` (n, n_labels), `links` (n_labels + 2, n_labels), `best_scores` (size, n_labels).
    """
    n_labels = potentials.shape[1]
    rest = n_labels % 4
    for k in range(n_labels):
        best_scores[0, k] = potentials[begin, k] + links[n_labels, k]
    for t in range(1, size):
        into, before, own = best_scores[t], best_scores[t - 1], potentials[begin + t]
        for k in range(n_labels):
            into[k] = before[0] + links[0, k]
        for j in range(1, rest):
            high, row = before[j], links[j]
            for k in range(n_labels):
                value = high + row[k]
                into[k] = value if value > into[k] else into[k]
        for j in range(rest, n_labels, 4):
            a, b, c, d = links[j], links[j + 1], links[j + 2], links[j + 3]
            high_a, high_b, high_c, high_d = before[j], before[j + 1], before[j + 2], before[j + 3]
            for k in range(n_labels):
                value, other = high_a + a[k], high_b + b[k]
                value = other if other > value else value
                third, fourth = high_c + c[k], high_d + d[k]
                third = fourth if fourth > third else third
                value = third if third > value else value
                into[k] = value if value > into[k] else into[k]
        for k in range(n_labels):
            into[k] += own[k]
    best, highest = 0, -np.inf
    for k in range(n_labels):
        value = best_scores[size - 1, k] + links[n_labels + 1, k]
        if value > highest:
            best, highest = k, value
    return best, highest


@njit(cache=True, nogil=True)
def before(t, label, links, best_scores):
    """Return the label before position t of the best labeling with `label` there.

    The first label is returned if several are equally good.
    """
    best, highest = 0, -np.inf
    for j in range(links.shape[1]):
        value = best_scores[t - 1, j] + links[j, label]
        if value > highest:
            best, highest = j, value
    return best


@njit(cache=True, nogil=True)
def best_labels(potentials, links, starts, best_scores, labels):
    """Compute the best labeling of every example into `labels`.

    `best_scores` has as many rows as the longest example.
    """
    for b in range(len(starts) - 1):
        begin, size = starts[b], starts[b + 1] - starts[b]
        label, _ = viterbi(potentials, begin, size, links, best_scores)
        labels[begin + size - 1] = label
        for t in range(size - 1, 0, -1):
            label = before(t, label, links, best_scores)
            labels[begin + t - 1] = label
