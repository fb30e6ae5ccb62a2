"""Exact steps between the labellings that examples of several rows keep, compiled.

A labelling remembers how the rows at which it is wrong are edited, if words of rows may change. Groups
of arrays that belong together go from function to function:

- ``rows``: indptr, indices and data of CSR rows;
- ``grams``: of each example where the inner products of its rows start, -1 if they are not kept; these;
  of rows that change none are kept;
- ``zeros``: (d, K) for a normal, where inner products are not kept;
- ``truth``: starts of the examples, true labels (n,), costs (n, K), what is added to transitions, first
  and last labels (K + 2, K), minus infinity where they are forbidden, else zero, and the examples'
  weights;
- ``kept``: of each example its first slot (n_blocks + 1,) and the first label of that slot, how many
  slots are used, the labels of all slots, their masses, and so many edits for each label, flat.
  An edit is 0 for none, else 1 or 2 and twice the place of its entry in the row: 1 is the low factor;
- ``changes``: how many words of a row may change, and the lowest and highest factor;
- ``parameters``: weights by feature (d, K), transitions (K, K), first and last labels (K,).
"""

from __future__ import annotations

import numpy as np

from ..compiled import njit
from .chain_products import add_edits, add_links_of, fill_products, gram_of
from .chain_scores import copy_links, edited, fill_scores, find_edits, score, score_tables, viterbi

# A visit looks for the best labelling at most so often; each search may add a labelling.
ROUNDS = 3
# A visit ends when the gap of its example is at most this share of what it was on arrival.
VISIT_SHARE = 0.1
# Steps between the labellings known end at this share of their gap.
STEPS_SHARE = 0.1


@njit(cache=True, nogil=True)
def sweep(order, rows, truth, kept, changes, grams, zeros, parameters, gaps):
    """Raise the dual in each example of `order`; parameters, slots and gaps change in place."""
    starts, n_labels = truth[0], truth[2].shape[1]
    longest, widest = 1, 1
    for b in order:
        longest = max(longest, starts[b + 1] - starts[b])
        widest = max(widest, kept[0][b + 1] - kept[0][b])
    scores = score_tables(longest, n_labels, changes[0])
    delta, total = np.empty((longest, n_labels)), np.empty((longest, n_labels))
    touched = np.empty(longest, dtype=np.bool_)
    moves, links = np.zeros((n_labels + 2, n_labels)), np.empty((n_labels + 2, n_labels))
    total_moves = np.empty((n_labels + 2, n_labels))
    path = np.empty(longest, dtype=np.int32)
    path_edits = np.empty((longest, changes[0]), dtype=np.int32)
    wrong = np.empty((widest, longest), dtype=np.int32), np.empty(widest, dtype=np.int64)
    products, above = np.empty((widest, widest)), np.empty(widest)
    asked = np.empty(widest, dtype=np.bool_)
    tables = delta, total, touched, links, moves, total_moves
    found = path, path_edits, wrong, products, asked, above
    for b in order:
        gaps[b] = _visit(b, rows, truth, kept, changes, grams, zeros, parameters, scores, tables, found)


@njit(cache=True, nogil=True)
def losses(blocks, rows, truth, changes, parameters, found):
    """The loss of each example, without its weight."""
    starts, codes, costs, barred, _ = truth
    n_labels = costs.shape[1]
    longest = 1
    for b in blocks:
        longest = max(longest, starts[b + 1] - starts[b])
    scores = score_tables(longest, n_labels, changes[0])
    links, path = np.empty((n_labels + 2, n_labels)), np.empty(longest, dtype=np.int32)
    copy_links(parameters, barred, links)
    for b in blocks:
        own = codes[starts[b] : starts[b + 1]]
        fill_scores(starts[b], own, rows, costs, changes[1], parameters[0], scores)
        viterbi(scores[1], links, len(own), scores[2], path)
        best = score(scores[1], links, path[: len(own)])
        found[b] = max(0.0, best - score(scores[0], links, own))


@njit(cache=True, nogil=True)
def add_all(rows, truth, kept, changes, parameters):
    """Add to the parameters what all masses stand for."""
    starts, codes, costs, _, weights = truth
    longest = 1
    for b in range(len(weights)):
        longest = max(longest, starts[b + 1] - starts[b])
    n_labels = costs.shape[1]
    delta, moves = np.zeros((longest, n_labels)), np.zeros((n_labels + 2, n_labels))
    wrong = np.empty((1, longest), dtype=np.int32), np.empty(1, dtype=np.int64)
    touched = np.zeros(longest, dtype=np.bool_)
    for b in range(len(weights)):
        begin, own = starts[b], codes[starts[b] : starts[b + 1]]
        labels, edits, masses = _slots(b, len(own), kept, changes[0])
        touched[: len(own)] = False
        for j in range(kept[2][b]):
            amount = weights[b] * masses[j]
            if amount > 0.0:
                _list_wrong(0, own, labels[j], wrong)
                places = wrong[0][0, : wrong[1][0]]
                _add_move(own, labels[j], places, amount, delta, moves, touched)
                add_edits(begin, own, labels[j], edits[j], rows, changes[1], amount, parameters[0])
        _scatter(begin, len(own), rows, delta, touched, parameters[0])
        for t in range(len(own)):
            if touched[t]:
                delta[t] = 0.0
    _add_links(moves, parameters)


@njit(cache=True, nogil=True)
def kept_costs(truth, kept, found):
    """What the labelling in each slot that is used costs."""
    starts, _, costs, _, weights = truth
    first_slot, first_label, used, labels = kept[:4]
    for b in range(len(weights)):
        size = starts[b + 1] - starts[b]
        for j in range(used[b]):
            cost, at = 0.0, first_label[b] + j * size
            for t in range(size):
                cost += costs[starts[b] + t, labels[at + t]]
            found[first_slot[b] + j] = cost


@njit(cache=True, nogil=True)
def move_slots(starts, kept, others, n_edits):
    """Copy all slots that are used to others, which have room for them."""
    for b in range(len(starts) - 1):
        size, count = starts[b + 1] - starts[b], kept[2][b]
        slot, other = kept[0][b], others[0][b]
        others[4][other : other + count] = kept[4][slot : slot + count]
        at, to, size = kept[1][b], others[1][b], count * size
        others[3][to : to + size] = kept[3][at : at + size]
        edits = kept[5][at * n_edits : (at + size) * n_edits]
        others[5][to * n_edits : (to + size) * n_edits] = edits


@njit(cache=True, nogil=True)
def _visit(b, rows, truth, kept, changes, grams, zeros, parameters, scores, tables, found):
    """Steps in one example, between labellings that it has and the best that are found; its gap."""
    starts, codes, costs, barred, weights = truth
    delta, total, touched, links, moves, total_moves = tables
    path, path_edits, wrong, products, asked, above = found
    begin, weight, factors = starts[b], weights[b], changes[1]
    own, used, table = codes[begin : starts[b + 1]], kept[2], parameters[0]
    labels, edits, masses = _slots(b, len(own), kept, changes[0])
    path, path_edits, size, room = path[: len(own)], path_edits[: len(own)], len(own), len(masses)
    gram = gram_of(b, size, grams)
    fill_scores(begin, own, rows, costs, factors, table, scores)
    copy_links(parameters, barred, links)
    total[:size], total_moves[:], touched[:size] = 0.0, 0.0, False
    normals = begin, own, labels, edits, rows, factors, gram, wrong, moves, zeros
    arrival, known = 0.0, 0
    asked[:] = False
    for rounds in range(ROUNDS):
        viterbi(scores[1], links, size, scores[2], path)
        base, mean = score(scores[0], links, own), 0.0
        best = score(scores[1], links, path) - base
        for j in range(used[b]):
            above[j] = score(scores[0], links, labels[j]) - base
            if changes[0] > 0:
                above[j] += edited(begin, own, labels[j], edits[j], rows, factors, table)
            mean += masses[j] * above[j]
        gap = weight * max(0.0, best - mean)
        if rounds == 0:
            arrival = gap
        if gap <= VISIT_SHARE * arrival * (rounds > 0) or gap <= 1e-15 * weight * abs(base):
            break
        find_edits(begin, own, path, rows, factors, table, path_edits)
        if used[b] < room and _is_new(labels, edits, used[b], own, path, path_edits):
            labels[used[b]], edits[used[b]] = path, path_edits
            masses[used[b]], above[used[b]] = 0.0, best
            used[b] += 1
        while known < used[b]:
            _list_wrong(known, own, labels[known], wrong)
            known += 1
            if rounds > 0:
                # The products that were asked for before lack it.
                fill_products(known - 1, known, products, normals)
                asked[known - 1] = True
        before = masses[: used[b]].copy()
        _ascend(products, asked, normals, above, used[b], weight, masses)
        delta[:size] = 0.0
        for j in range(used[b]):
            if masses[j] != before[j]:
                amount, places = weight * (masses[j] - before[j]), wrong[0][j, : wrong[1][j]]
                _add_move(own, labels[j], places, amount, delta, moves, touched)
                if changes[0] > 0:
                    add_edits(begin, own, labels[j], edits[j], rows, factors, amount, table)
        links += moves
        total_moves += moves
        moves[:] = 0.0
        if len(gram) > 0:
            _respond(gram, delta, touched, size, scores[0])
            total[:size] += delta[:size]
        else:
            _scatter(begin, size, rows, delta, touched, table)
            fill_scores(begin, own, rows, costs, factors, table, scores)
    if known > 0:
        _scatter(begin, size, rows, total, touched, table)
        _add_links(total_moves, parameters)
        _drop_idle(b, used, labels, edits, masses)
    return arrival


@njit(cache=True, nogil=True)
def _slots(b, size, kept, n_edits):
    """Labels, edits and masses of an example's slots."""
    first, room = kept[1][b], kept[0][b + 1] - kept[0][b]
    labels = kept[3][first : first + room * size].reshape(room, size)
    edits = kept[5][first * n_edits : (first + room * size) * n_edits].reshape(room, size, n_edits)
    return labels, edits, kept[4][kept[0][b] : kept[0][b + 1]]


@njit(cache=True, nogil=True)
def _add_links(moves, parameters):
    n_labels = moves.shape[1]
    for j in range(n_labels):
        for k in range(n_labels):
            parameters[1][j, k] += moves[j, k]
    for k in range(n_labels):
        parameters[2][k] += moves[n_labels, k]
        parameters[3][k] += moves[n_labels + 1, k]


@njit(cache=True, nogil=True)
def _is_new(labels, edits, count, own, path, path_edits):
    """Whether a labelling is neither the true one nor among those known."""
    j = 0
    while j < count and not (_equal(labels[j], path) and _equal(edits[j].ravel(), path_edits.ravel())):
        j += 1
    return j == count and not _equal(own, path)


@njit(cache=True, nogil=True)
def _equal(left, right):
    t = 0
    while t < len(left) and left[t] == right[t]:
        t += 1
    return t == len(left)


@njit(cache=True, nogil=True)
def _list_wrong(new, own, labels, wrong):
    """List the positions where a labelling differs from the true one."""
    places, counts = wrong
    count = 0
    for t in range(len(own)):
        if labels[t] != own[t]:
            places[new, count] = t
            count += 1
    counts[new] = count


@njit(cache=True, nogil=True)
def _add_move(own, labels, places, amount, delta, moves, touched):
    """Add a multiple of a labelling's normal: positions and labels, then transitions and ends."""
    for t in places:
        touched[t] = True
        delta[t, own[t]] += amount
        delta[t, labels[t]] -= amount
    add_links_of(own, labels, places, amount, moves)


@njit(cache=True, nogil=True)
def _respond(gram, delta, touched, size, potentials):
    """Potentials after a change of the weights, which is a sum of rows times changes of labels."""
    for t in range(size):
        if touched[t]:
            change = delta[t]
            for s in range(size):
                product = gram[t, s]
                if product != 0.0:
                    into = potentials[s]
                    for k in range(len(change)):
                        into[k] += product * change[k]


@njit(cache=True, nogil=True)
def _scatter(begin, size, rows, total, touched, table):
    """Add the rows of an example, times their changes of labels, to the weights."""
    indptr, indices, data = rows
    n_labels = total.shape[1]
    changed = np.empty(n_labels, dtype=np.int64)
    for t in range(size):
        if not touched[t]:
            continue
        count = 0
        for k in range(n_labels):
            if total[t, k] != 0.0:
                changed[count] = k
                count += 1
        for e in range(indptr[begin + t], indptr[begin + t + 1]):
            row, x = table[indices[e]], data[e]
            for c in range(count):
                row[changed[c]] += x * total[t, changed[c]]


@njit(cache=True, nogil=True)
def _ascend(products, asked, normals, above, count, weight, masses):
    """Pairwise steps between known labellings, and the true one, until most of their gap is gone.

    Inner products are asked for when a labelling takes part, which few do.
    """
    arrival = -1.0
    for _ in range(4 * count + 4):
        best, highest, mean, free = -1, 0.0, 0.0, 1.0
        for j in range(count):
            mean += masses[j] * above[j]
            free -= masses[j]
            if above[j] > highest:
                best, highest = j, above[j]
        gap = highest - mean
        if arrival < 0.0:
            arrival = gap
        if gap <= 0.0 or gap < STEPS_SHARE * arrival:
            break
        worst, lowest = -2, highest
        # The true labelling (-1) gives mass away only if it has some to give.
        if free > 1e-15:
            worst, lowest = -1, 0.0
        for j in range(count):
            if masses[j] > 0.0 and (worst == -2 or above[j] < lowest):
                worst, lowest = j, above[j]
        if worst == -2 or worst == best or highest <= lowest:
            break
        for one in (best, worst):
            if one >= 0 and not asked[one]:
                fill_products(one, count, products, normals)
                asked[one] = True
        _exchange(products, above, count, weight, masses, best, worst, highest - lowest, free)


@njit(cache=True, nogil=True)
def _exchange(products, above, count, weight, masses, best, worst, advantage, free):
    """Exact step of mass from labelling `worst` to labelling `best`, -1 being the true one."""
    curvature = 0.0
    if best >= 0:
        curvature += products[best, best]
    if worst >= 0:
        curvature += products[worst, worst]
    if best >= 0 and worst >= 0:
        curvature -= 2.0 * products[best, worst]
    limit = masses[worst] if worst >= 0 else free
    step = limit
    if weight * curvature * limit > advantage:
        step = advantage / (weight * curvature)
    if best >= 0:
        masses[best] += step
        for j in range(count):
            above[j] -= weight * step * products[best, j]
    if worst >= 0:
        masses[worst] = 0.0 if step == limit else masses[worst] - step
        for j in range(count):
            above[j] += weight * step * products[worst, j]


@njit(cache=True, nogil=True)
def _drop_idle(b, used, labels, edits, masses):
    """Forget labellings that have no mass."""
    count = 0
    for j in range(used[b]):
        if masses[j] > 0.0:
            if count < j:
                labels[count], edits[count], masses[count] = labels[j], edits[j], masses[j]
            count += 1
    for j in range(count, used[b]):
        masses[j] = 0.0
    used[b] = count
