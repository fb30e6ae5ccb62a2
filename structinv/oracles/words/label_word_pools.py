"""Dual states with word deviations: weights, points, restoration; compiled.

`label_word_kernels` describes the pools of pairs and deviations.
"""

from __future__ import annotations

from ...utils.jit import PLAIN, njit


@njit(**PLAIN)
def combine_words(indptr, indices, data, codes, weights, intercept, slots, labels, taus, sizes, parts,
                  words, deviations, W):  # fmt: skip
    """Add the weighted sum of the averaged planes of all rows to ``W``."""
    last = W.shape[0] - 1
    for i in range(codes.size):
        start, at, truth = indptr[i], parts[i, 0], codes[i]
        for p in range(slots[i, 0], slots[i, 0] + slots[i, 1]):
            k, rate = labels[p], weights[i] * taus[p]
            if rate != 0:
                for j in range(start, indptr[i + 1]):
                    W[indices[j], truth] += rate * data[j]
                    W[indices[j], k] -= rate * data[j]
                if intercept:
                    W[last, truth] += rate
                    W[last, k] -= rate
            for e in range(at, at + sizes[p]):
                j = start + words[e]
                moved = weights[i] * data[j] * deviations[e]
                W[indices[j], truth] += moved
                W[indices[j], k] -= moved
            at += sizes[p]


@njit(**PLAIN)
def points_words(indptr, data, rows, places, slots, taus, sizes, parts, words, deviations, out):
    """Write averaged points of pairs to ``out``, rescaled to a dual variable of 1."""
    at = 0
    for p in range(rows.size):
        i, place, e = rows[p], places[p], parts[rows[p], 0]
        for other in range(slots[i, 0], place):
            e += sizes[other]
        for j in range(indptr[i], indptr[i + 1]):
            out[at + j - indptr[i]] = data[j]
        for d in range(e, e + sizes[place]):
            out[at + words[d]] += data[indptr[i] + words[d]] * deviations[d] / taus[place]
        at += indptr[i + 1] - indptr[i]


@njit(**PLAIN)
def restore_words(indptr, indices, data, moves, start, labels_in, taus_in, n_indptr, n_indices, n_data,
                  slots, labels, taus, sizes, parts, words, deviations, w):  # fmt: skip
    """Restore dual variables and points of pairs, shrunk to feasible ones.

    The pairs are sorted by row. Deviations are shrunk to their bounds and to K edits, and dual variables
    to a sum of at most 1. The workspace ``w`` contains zeros. Returns the used sizes of the pools of
    pairs and of deviations.
    """
    at, e = 0, 0
    for i in range(slots.shape[0]):
        K, drop, grow = moves.most, moves.drop, moves.grow
        if not moves.changed[i]:
            drop, grow = 0.0, 0.0
        slots[i, 0], slots[i, 1], parts[i, 0], total = at, 0, e, 0.0
        for p in range(start[i], start[i + 1]):
            total += taus_in[p]
        shrink = 1.0 / max(total, 1.0)
        for p in range(start[i], start[i + 1]):
            tau, cost, first = shrink * taus_in[p], 0.0, e
            for d in range(n_indptr[p], n_indptr[p + 1]):
                w[n_indices[d]] = shrink * n_data[d]
            for j in range(indptr[i], indptr[i + 1]):
                if data[j] == 0:
                    continue
                change = w[indices[j]] / data[j] - tau
                change = min(max(change, -drop * tau), grow * tau)
                # Smaller deviations are rounding errors.
                if abs(change) > 1e-15 * tau:
                    cost += -change / drop if change < 0 else change / grow
                    words[e], deviations[e] = j - indptr[i], change
                    e += 1
            for d in range(first, e):
                if cost > K * tau:
                    deviations[d] *= K * tau / cost
            for d in range(n_indptr[p], n_indptr[p + 1]):
                w[n_indices[d]] = 0.0
            labels[at], taus[at], sizes[at] = labels_in[p], tau, e - first
            at += 1
        slots[i, 1], parts[i, 1] = at - slots[i, 0], e - parts[i, 0]
        slots[i, 2], parts[i, 2] = slots[i, 1], parts[i, 1]
    return at, e
