"""Exact pairwise steps between the labelings of sequences.

If features of rows may be edited, a labeling includes the edits of its wrong rows. Functions share these
groups of arrays, for K labels:

- ``rows``: indptr, indices and data of CSR rows.
- ``zeros``: zeros for a normal, (d, K).
- ``truth``: starts of the examples, true labels (n,), costs (n, K), a mask (K + 2, K), and weights of
  the examples. The mask of transitions, first and last labels is minus infinity for forbidden ones, and
  0 otherwise.
- ``stored``: first slot of each example (n_blocks + 1,), the position of the slot's first label, and the
  number of used slots. Then follow labels and dual variables of all slots, and the edits of each label.
  An edit is 0 for none. Otherwise it is twice the position of the entry in its row, plus 1 for the
  lowest factor or 2 for the highest factor.
- ``changes``: maximum number of edited features of a row, lowest and highest factor.
- ``parameters``: weights by feature (d, K), and transitions, first and last labels (K + 2, K).
- ``room``: arrays of `workspace`.

The true label of position t is ``codes[begin + t]``, with the first row `begin` of the example. A
labeling that starts at `at` has the label ``labels[at + t]``.
"""

from __future__ import annotations

import numpy as np

from ..structures.sequence import before as label_before
from ..structures.sequence import viterbi
from ..utils.ascent import ascend
from ..utils.jit import LEAN, njit

# Maximum number of searches for the best labeling in a visit; each may add a labeling.
ROUNDS = 3
# Fraction of the example's initial gap at which a visit ends.
VISIT_SHARE = 0.1
# Fraction of their gap at which steps between stored labelings end.
STEPS_SHARE = 0.1


def workspace(longest: int, n_labels: int, n_edits: int, widest: int) -> tuple[np.ndarray, ...]:
    """Return arrays for an example of at most `longest` rows and `widest` labelings.

    They are tables, links, gains, products, wrong labels, counts and levels.
    """
    return (
        np.zeros((4, longest, n_labels)),
        np.zeros((3, n_labels + 2, n_labels)),
        np.empty((n_edits + 1, n_labels)),
        np.empty((widest, widest)),
        np.empty((widest, longest), dtype=np.int64),
        np.empty((2, widest), dtype=np.int64),
        np.empty((2, widest)),
        np.zeros((2, max(longest, n_labels)), dtype=np.int64),
    )


@njit(**LEAN)
def sweep(order, rounds, rows, truth, stored, changes, zeros, parameters, room, gaps, losses):
    """Maximize the dual over each example of `order`, and change arrays in place.

    Each visit searches for the best labeling at most `rounds` times. With 0 rounds, it only computes the
    `losses` of examples, without weights.
    """
    starts, codes, costs, barred, weights = truth
    first_slot, first_label, used, labels, alphas, edits = stored
    tables, link_tables, gains, products, wrong, counts, levels, _ = room
    table, link_weights = parameters
    n_labels, n_edits = costs.shape[1], changes[0]
    potentials, path_scores = tables[0], tables[2]
    worst = tables[0] if n_edits == 0 else tables[1]
    links, above, before = link_tables[0], levels[0], levels[1]
    for b in order:
        begin, size, weight = starts[b], starts[b + 1] - starts[b], weights[b]
        slot, first = first_slot[b], first_label[b]
        for j in range(n_labels + 2):
            for k in range(n_labels):
                links[j, k] = link_weights[j, k] + barred[j, k]
        arrival, n_known, mean, step = 0.0, 0, 0.0, 0
        done = False
        while not done:
            fill_scores(begin, size, rows, codes, costs, changes[1], table, potentials, worst, gains)
            label, best = viterbi(worst, 0, size, links, path_scores)
            base = score(potentials, links, size, codes, begin)
            if step == 0:
                losses[b] = best - base if best > base else 0.0
                for j in range(used[b] if rounds > 0 else 0):
                    at = first + j * size
                    above[j] = score(potentials, links, size, labels, at) - base
                    above[j] += add_edits(
                        begin, size, rows, codes, changes, labels, at, edits, 0.0, table
                    )
            mean = 0.0
            for j in range(used[b] if rounds > 0 else 0):
                mean += alphas[slot + j] * above[j]
            gap = weight * (best - base - mean) if best - base > mean else 0.0
            if step == 0:
                arrival = gap
            done = step == rounds or gap <= 1e-15 * weight * abs(base)
            done = done or (step > 0 and gap <= VISIT_SHARE * arrival)
            if not done:
                # The best labeling is written to the next slot, which is used if it is new.
                at = first + used[b] * size
                labels[at + size - 1] = label
                for t in range(size - 1, 0, -1):
                    label = label_before(t, label, links, path_scores)
                    labels[at + t - 1] = label
                if n_edits > 0:
                    find_edits(begin, size, rows, codes, changes[1], table, labels, at, edits, gains)
                if is_new(begin, size, first, used[b], codes, labels, edits, n_edits):
                    alphas[slot + used[b]], above[used[b]] = 0.0, best - base
                    used[b] += 1
                while n_known < used[b]:
                    counts[1, n_known] = 0
                    counts[0, n_known] = list_wrong(
                        begin, size, first + n_known * size, codes, labels, wrong[n_known]
                    )
                    n_known += 1
                for j in range(n_known):
                    before[j] = alphas[slot + j]
                example, example_alphas = (begin, size, first, n_known), alphas[slot : slot + n_known]
                one, most_steps, least = 0, 4 * n_known + 4, STEPS_SHARE * gap
                while one >= 0:
                    one = ascend(
                        above, products, counts[1], example_alphas, n_known, weight, least, most_steps
                    )
                    if one >= 0:
                        fill_products(one, example, rows, codes, labels, edits, changes, zeros, room)
                for j in range(n_known):
                    before[j] = weight * (alphas[slot + j] - before[j])
                add_normals(
                    before[:n_known], example, rows, codes, labels, edits, changes, parameters, room
                )
                step += 1
                done = step == rounds
        gaps[b] = arrival
        if n_known > 0:
            used[b] = drop_inactive(size, slot, first, n_known, n_edits, labels, alphas, edits)


@njit(**LEAN)
def is_new(begin, size, first, n_used, codes, labels, edits, n_edits):
    """Return whether the labeling after the used slots is wrong and not yet stored."""
    at = first + n_used * size
    t = 0
    while t < size and labels[at + t] == codes[begin + t]:
        t += 1
    if t == size:
        return False
    for j in range(n_used):
        other = first + j * size
        s, i = 0, 0
        while s < size and labels[other + s] == labels[at + s]:
            s += 1
        while s == size and i < size * n_edits and edits[other * n_edits + i] == edits[at * n_edits + i]:
            i += 1
        if s == size and i == size * n_edits:
            return False
    return True


@njit(**LEAN)
def list_wrong(begin, size, at, codes, labels, wrong):
    """List the wrong positions of a labeling, and return their number."""
    count = 0
    for t in range(size):
        if labels[at + t] != codes[begin + t]:
            wrong[count] = t
            count += 1
    return count


@njit(**LEAN)
def add_normals(amounts, example, rows, codes, labels, edits, changes, parameters, room):
    """Add multiples of an example's normals to the parameters."""
    begin, size, first, _ = example
    tables, link_tables, _, _, wrong, counts, _, marks = room
    table, link_weights = parameters
    delta, links, moves = tables[3], link_tables[0], link_tables[1]
    indptr, ids, data = rows
    n_labels = delta.shape[1]
    for j in range(len(amounts)):
        amount, at = amounts[j], first + j * size
        if amount == 0.0:
            continue
        for q in range(counts[0, j]):
            t = wrong[j, q]
            marks[0, t] = 1
            delta[t, codes[begin + t]] += amount
            delta[t, labels[at + t]] -= amount
            add_links(begin, size, codes, labels, at, t, amount, moves)
        add_edits(begin, size, rows, codes, changes, labels, at, edits, amount, table)
    for j in range(n_labels + 2):
        for k in range(n_labels):
            links[j, k] += moves[j, k]
            link_weights[j, k] += moves[j, k]
            moves[j, k] = 0.0
    for t in range(size):
        if marks[0, t] == 0:
            continue
        marks[0, t], count, change = 0, 0, delta[t]
        for k in range(n_labels):
            if change[k] != 0.0:
                marks[1, count] = k
                count += 1
        for e in range(indptr[begin + t], indptr[begin + t + 1]):
            row, x = table[ids[e]], data[e]
            for c in range(count):
                row[marks[1, c]] += x * change[marks[1, c]]
        for k in range(n_labels):
            change[k] = 0.0


@njit(**LEAN)
def drop_inactive(size, slot, first, known, n_edits, labels, alphas, edits):
    """Move active labelings to the first slots, and return their number."""
    count = 0
    for j in range(known):
        if alphas[slot + j] > 0.0:
            if count < j:
                to, of = first + count * size, first + j * size
                alphas[slot + count] = alphas[slot + j]
                for t in range(size):
                    labels[to + t] = labels[of + t]
                for i in range(size * n_edits):
                    edits[to * n_edits + i] = edits[of * n_edits + i]
            count += 1
    for j in range(count, known):
        alphas[slot + j] = 0.0
    return count


@njit(**LEAN)
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
        truth_label, gain, edited = codes[begin + t], gains[n_edits], worst[t]
        for e in range(first, end):
            x, row = data[e], table[ids[e]]
            truth = row[truth_label]
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


@njit(**LEAN)
def find_edits(begin, size, rows, codes, factors, table, labels, at, edits, gains):
    """Find the worst edits of each row for a labeling, in the order of its entries."""
    indptr, ids, data = rows
    low, high = factors
    most = len(gains) - 1
    for t in range(size):
        truth_label, label, place = codes[begin + t], labels[at + t], (at + t) * most
        for i in range(most):
            edits[place + i], gains[i, 0] = 0, 0.0
        if label == truth_label:
            continue
        first = indptr[begin + t]
        for e in range(first, indptr[begin + t + 1]):
            wins = data[e] * (table[ids[e], label] - table[ids[e], truth_label])
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


@njit(**LEAN)
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
        truth_label, label = codes[begin + t], labels[at + t]
        for i in range((at + t) * n_edits, (at + t + 1) * n_edits):
            edit = edits[i]
            if edit > 0 and label != truth_label:
                e = indptr[begin + t] + (edit - 1) // 2
                x = (factors[(edit - 1) % 2] - 1.0) * data[e]
                total += x * (table[ids[e], label] - table[ids[e], truth_label])
                if amount != 0.0:
                    table[ids[e], truth_label] += amount * x
                    table[ids[e], label] -= amount * x
    return total


@njit(**LEAN)
def score(potentials, links, size, labels, at):
    """Return the score of a labeling, added up in the order of `viterbi`."""
    n_labels, last = links.shape[1], labels[at]
    total = potentials[0, last] + links[n_labels, last]
    for t in range(1, size):
        label = labels[at + t]
        total = total + links[last, label] + potentials[t, label]
        last = label
    return total + links[n_labels + 1, last]


@njit(**LEAN)
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
        truth_label, label = codes[i], labels[at + wrong[one, p]]
        for e in range(indptr[i], indptr[i + 1]):
            zeros[ids[e], truth_label] += data[e]
            zeros[ids[e], label] -= data[e]
    add_edits(begin, size, rows, codes, changes, labels, at, edits, 1.0, zeros)
    for j in range(counts[1, one], count):
        other, product = first + j * size, 0.0
        for q in range(counts[0, j]):
            s = wrong[j, q]
            truth_label, label = codes[begin + s], labels[other + s]
            product += add_links(begin, size, codes, labels, other, s, 0.0, moves)
            for e in range(indptr[begin + s], indptr[begin + s + 1]):
                product += data[e] * (zeros[ids[e], truth_label] - zeros[ids[e], label])
        product -= add_edits(begin, size, rows, codes, changes, labels, other, edits, 0.0, zeros)
        products[one, j] = products[j, one] = product
    counts[1, one] = count
    for j in range(moves.shape[0]):
        for k in range(moves.shape[1]):
            moves[j, k] = 0.0
    for p in range(counts[0, one]):
        i = begin + wrong[one, p]
        truth_label, label = codes[i], labels[at + wrong[one, p]]
        for e in range(indptr[i], indptr[i + 1]):
            zeros[ids[e], truth_label] = zeros[ids[e], label] = 0.0


@njit(**LEAN)
def add_links(begin, size, codes, labels, at, t, amount, moves):
    """Add a multiple of the normal's transitions at a wrong position to a table.

    They are the true transitions minus those of the labeling. A transition between two wrong positions
    belongs to the second one. The result is the inner product with the table, for an `amount` of 0.
    """
    n_labels, truth_label, label = moves.shape[1], codes[begin + t], labels[at + t]
    before, other = n_labels, n_labels
    if t > 0:
        before, other = codes[begin + t - 1], labels[at + t - 1]
    product = moves[before, truth_label] - moves[other, label]
    moves[before, truth_label] += amount
    moves[other, label] -= amount
    after = n_labels + 1
    if t == size - 1:
        product += moves[after, truth_label] - moves[after, label]
        moves[after, truth_label] += amount
        moves[after, label] -= amount
    elif labels[at + t + 1] == codes[begin + t + 1]:
        after = codes[begin + t + 1]
        product += moves[truth_label, after] - moves[label, after]
        moves[truth_label, after] += amount
        moves[label, after] -= amount
    return product
