"""Scores and inner products of labelings of sequences, with worst edits.

`chain_steps` describes the groups of arrays. The true label of position t is ``codes[begin + t]``, with
the first row `begin` of the example. A labeling that starts at `at` has the label ``labels[at + t]``.
"""

from __future__ import annotations

from ..utils.jit import njit


@njit(cache=True, nogil=True)
def fill_scores(begin, size, rows, codes, costs, factors, table, potentials, worst, gains):
    """Compute scores plus costs of all labels at all positions.

    `potentials` receives those of unperturbed rows, and `worst` those at the worst edits. `gains` has
    one row for each edit and one more; with a single row, `worst` is unchanged.
    """
    indptr, ids, data = rows
    low, high = factors
    n_edits, n_labels = len(gains) - 1, costs.shape[1]
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
        if n_edits == 0:
            continue
        for i in range(n_edits):
            for k in range(n_labels):
                gains[i, k] = 0.0
        own, gain, edited = codes[begin + t], gains[n_edits], worst[t]
        for e in range(first, end):
            x, row = data[e], table[ids[e]]
            truth = row[own]
            for k in range(n_labels):
                wins = x * (row[k] - truth)
                less, more = (low - 1.0) * wins, (high - 1.0) * wins
                gain[k] = less if less > more else more
            for i in range(n_edits):
                # The largest gains so far, in decreasing order.
                level = gains[i]
                for k in range(n_labels):
                    value, other = gain[k], level[k]
                    level[k] = value if value > other else other
                    gain[k] = other if value > other else value
        for k in range(n_labels):
            edited[k] = into[k]
        for i in range(n_edits):
            for k in range(n_labels):
                edited[k] += gains[i, k]


@njit(cache=True, nogil=True)
def find_edits(begin, size, rows, codes, factors, table, labels, at, edits, gains):
    """Find the worst edits of each row for a labeling, in the order of its entries."""
    indptr, ids, data = rows
    low, high = factors
    most = len(gains) - 1
    for t in range(size):
        own, label, place = codes[begin + t], labels[at + t], (at + t) * most
        for i in range(most):
            edits[place + i], gains[i, 0] = 0, 0.0
        if label == own:
            continue
        first = indptr[begin + t]
        for e in range(first, indptr[begin + t + 1]):
            wins = data[e] * (table[ids[e], label] - table[ids[e], own])
            less, more = (low - 1.0) * wins, (high - 1.0) * wins
            gain, edit = (less, 1) if less > more else (more, 2)
            if gain <= gains[most - 1, 0]:
                continue
            i = most - 1
            while i > 0 and gain > gains[i - 1, 0]:
                gains[i, 0], edits[place + i] = gains[i - 1, 0], edits[place + i - 1]
                i -= 1
            gains[i, 0], edits[place + i] = gain, 2 * (e - first) + edit
        for i in range(1, most):
            edit, j = edits[place + i], i
            while j > 0 and edits[place + j - 1] > edit:
                edits[place + j] = edits[place + j - 1]
                j -= 1
            edits[place + j] = edit


@njit(cache=True, nogil=True)
def add_edits(begin, size, rows, codes, changes, labels, at, edits, amount, table):
    """Add a multiple of the edits' part of a labeling's normal to weights.

    If `amount` is 0, the weights are unchanged, and the result is the effect of the edits on the
    labeling's score.
    """
    indptr, ids, data = rows
    n_edits, factors = changes
    total = 0.0
    if n_edits == 0:
        return total
    for t in range(size):
        own, label = codes[begin + t], labels[at + t]
        for i in range((at + t) * n_edits, (at + t + 1) * n_edits):
            edit = edits[i]
            if edit > 0 and label != own:
                e = indptr[begin + t] + (edit - 1) // 2
                x = (factors[(edit - 1) % 2] - 1.0) * data[e]
                total += x * (table[ids[e], label] - table[ids[e], own])
                if amount != 0.0:
                    table[ids[e], own] += amount * x
                    table[ids[e], label] -= amount * x
    return total


@njit(cache=True, nogil=True)
def score(potentials, links, size, labels, at):
    """Return the score of a labeling, added up in the order of `viterbi`."""
    n_labels, last = links.shape[1], labels[at]
    total = potentials[0, last] + links[n_labels, last]
    for t in range(1, size):
        label = labels[at + t]
        total = total + links[last, label] + potentials[t, label]
        last = label
    return total + links[n_labels + 1, last]


@njit(cache=True, nogil=True)
def fill_products(one, example, rows, codes, labels, edits, changes, zeros, room):
    """Compute the missing inner products of the normal of one labeling.

    The normal is written into zero arrays of weights and transitions, which are zero again at the end.
    """
    begin, size, first, count = example
    links, products, wrong, counts = room[1], room[3], room[4], room[5]
    indptr, ids, data = rows
    moves, at = links[2], first + one * size
    for p in range(counts[0, one]):
        add_links(begin, size, codes, labels, at, wrong[one, p], 1.0, moves)
    for p in range(counts[0, one]):
        i = begin + wrong[one, p]
        own, label = codes[i], labels[at + wrong[one, p]]
        for e in range(indptr[i], indptr[i + 1]):
            zeros[ids[e], own] += data[e]
            zeros[ids[e], label] -= data[e]
    add_edits(begin, size, rows, codes, changes, labels, at, edits, 1.0, zeros)
    for j in range(counts[1, one], count):
        other, product = first + j * size, 0.0
        for q in range(counts[0, j]):
            s = wrong[j, q]
            own, label = codes[begin + s], labels[other + s]
            product += add_links(begin, size, codes, labels, other, s, 0.0, moves)
            for e in range(indptr[begin + s], indptr[begin + s + 1]):
                product += data[e] * (zeros[ids[e], own] - zeros[ids[e], label])
        product -= add_edits(begin, size, rows, codes, changes, labels, other, edits, 0.0, zeros)
        products[one, j] = products[j, one] = product
    counts[1, one] = count
    for j in range(moves.shape[0]):
        for k in range(moves.shape[1]):
            moves[j, k] = 0.0
    for p in range(counts[0, one]):
        i = begin + wrong[one, p]
        own, label = codes[i], labels[at + wrong[one, p]]
        for e in range(indptr[i], indptr[i + 1]):
            zeros[ids[e], own] = zeros[ids[e], label] = 0.0


@njit(cache=True, nogil=True)
def add_links(begin, size, codes, labels, at, t, amount, moves):
    """Add a multiple of the normal's transitions at a wrong position to a table.

    They are the true transitions minus those of the labeling. A transition between two wrong positions
    belongs to the second one. The result is the inner product with the table, for an `amount` of 0.
    """
    n_labels, own, label = moves.shape[1], codes[begin + t], labels[at + t]
    before, other = n_labels, n_labels
    if t > 0:
        before, other = codes[begin + t - 1], labels[at + t - 1]
    product = moves[before, own] - moves[other, label]
    moves[before, own] += amount
    moves[other, label] -= amount
    after = n_labels + 1
    if t == size - 1:
        product += moves[after, own] - moves[after, label]
        moves[after, own] += amount
        moves[after, label] -= amount
    elif labels[at + t + 1] == codes[begin + t + 1]:
        after = codes[begin + t + 1]
        product += moves[own, after] - moves[label, after]
        moves[own, after] += amount
        moves[label, after] -= amount
    return product
