"""Scores of labellings of sequences, at rows as they are and at their worst edits, compiled.

See `chain_steps` for the groups of arrays.
"""

from __future__ import annotations

import numpy as np

from ..compiled import njit


@njit(cache=True, nogil=True)
def score_tables(longest, n_labels, n_edits):
    """Room for potentials of rows as they are, at their worst edits, heights, and gains of edits."""
    potentials, heights = np.empty((longest, n_labels)), np.empty((longest, n_labels))
    worst = potentials if n_edits == 0 else np.empty((longest, n_labels))
    return potentials, worst, heights, np.empty((n_edits, n_labels)), np.empty(n_labels)


@njit(cache=True, nogil=True)
def fill_scores(begin, own, rows, costs, factors, table, scores):
    """Scores of all labels at all positions, costs included: of rows as they are, and at worst edits."""
    potentials, worst, _, gains, gain = scores
    _fill_potentials(begin, len(own), rows, costs, table, potentials)
    if len(gains) == 0:
        return
    indptr, ids, data = rows
    low, high = factors
    n_labels = len(gain)
    for t in range(len(own)):
        gains[:] = 0.0
        for e in range(indptr[begin + t], indptr[begin + t + 1]):
            x, row = data[e], table[ids[e]]
            truth = row[own[t]]
            for k in range(n_labels):
                wins = x * (row[k] - truth)
                less, more = (low - 1.0) * wins, (high - 1.0) * wins
                gain[k] = less if less > more else more
            for i in range(len(gains)):
                # The largest so far, in falling order.
                level = gains[i]
                for k in range(n_labels):
                    value, other = gain[k], level[k]
                    level[k] = value if value > other else other
                    gain[k] = other if value > other else value
        for k in range(n_labels):
            worst[t, k] = potentials[t, k]
        for i in range(len(gains)):
            for k in range(n_labels):
                worst[t, k] += gains[i, k]


@njit(cache=True, nogil=True)
def _fill_potentials(begin, size, rows, costs, table, potentials):
    """Scores of all labels at all positions, their costs included."""
    indptr, ids, data = rows
    n_labels = costs.shape[1]
    for t in range(size):
        into = potentials[t]
        for k in range(n_labels):
            into[k] = costs[begin + t, k]
        first, end = indptr[begin + t], indptr[begin + t + 1]
        for e in range(first, end - 3, 4):
            a, b = table[ids[e]], table[ids[e + 1]]
            c, d = table[ids[e + 2]], table[ids[e + 3]]
            x_a, x_b, x_c, x_d = data[e], data[e + 1], data[e + 2], data[e + 3]
            for k in range(n_labels):
                into[k] += x_a * a[k] + x_b * b[k] + x_c * c[k] + x_d * d[k]
        for e in range(end - (end - first) % 4, end):
            x, row = data[e], table[ids[e]]
            for k in range(n_labels):
                into[k] += x * row[k]


@njit(cache=True, nogil=True)
def find_edits(begin, own, labels, rows, factors, table, edits):
    """The edits of rows that give wrong labels most; of each row in the order of its entries."""
    indptr, ids, data = rows
    low, high = factors
    most = edits.shape[1]
    if most == 0:
        return
    for t in range(len(own)):
        edits[t] = 0
        if labels[t] == own[t]:
            continue
        best = np.zeros(most)
        first = indptr[begin + t]
        for e in range(first, indptr[begin + t + 1]):
            wins = data[e] * (table[ids[e], labels[t]] - table[ids[e], own[t]])
            less, more = (low - 1.0) * wins, (high - 1.0) * wins
            gain, edit = (less, 1) if less > more else (more, 2)
            if gain <= best[most - 1]:
                continue
            i = most - 1
            while i > 0 and gain > best[i - 1]:
                best[i], edits[t, i] = best[i - 1], edits[t, i - 1]
                i -= 1
            best[i], edits[t, i] = gain, 2 * (e - first) + edit
        edits[t] = np.sort(edits[t])


@njit(cache=True, nogil=True)
def edited(begin, own, labels, edits, rows, factors, table):
    """What its edits add to the score of a labelling."""
    indptr, ids, data = rows
    total = 0.0
    if edits.shape[1] == 0:
        return total
    for t in range(len(own)):
        if labels[t] != own[t]:
            for edit in edits[t]:
                if edit > 0:
                    e = indptr[begin + t] + (edit - 1) // 2
                    factor = factors[(edit - 1) % 2]
                    wins = table[ids[e], labels[t]] - table[ids[e], own[t]]
                    total += (factor - 1.0) * data[e] * wins
    return total


@njit(cache=True, nogil=True)
def copy_links(parameters, barred, links):
    """Transitions, then first and last labels, as one table; those not allowed are minus infinity."""
    n_labels = barred.shape[1]
    for j in range(n_labels):
        for k in range(n_labels):
            links[j, k] = parameters[1][j, k] + barred[j, k]
    for k in range(n_labels):
        links[n_labels, k] = parameters[2][k] + barred[n_labels, k]
        links[n_labels + 1, k] = parameters[3][k] + barred[n_labels + 1, k]


@njit(cache=True, nogil=True)
def viterbi(potentials, links, size, heights, path):
    """The best labelling; the way back is found by the same sums, so that nothing is noted forwards.

    Four labels at once, as what is best so far need not be read and written so often.
    """
    n_labels = potentials.shape[1]
    rest = n_labels % 4
    for k in range(n_labels):
        heights[0, k] = potentials[0, k] + links[n_labels, k]
    for t in range(1, size):
        into, before, own = heights[t], heights[t - 1], potentials[t]
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
        value = heights[size - 1, k] + links[n_labels + 1, k]
        if value > highest:
            best, highest = k, value
    path[size - 1] = best
    for t in range(size - 1, 0, -1):
        after, best, highest = best, 0, -np.inf
        for j in range(n_labels):
            value = heights[t - 1, j] + links[j, after]
            if value > highest:
                best, highest = j, value
        path[t - 1] = best


@njit(cache=True, nogil=True)
def score(potentials, links, labels):
    """The score of a labelling."""
    n_labels, last = potentials.shape[1], len(labels) - 1
    score = links[n_labels, labels[0]] + links[n_labels + 1, labels[last]] + potentials[0, labels[0]]
    for t in range(1, last + 1):
        score += potentials[t, labels[t]] + links[labels[t - 1], labels[t]]
    return score
