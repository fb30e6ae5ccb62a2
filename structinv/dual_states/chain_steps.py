"""Exact steps between the labellings that examples of several rows keep, compiled.

Groups of arrays that belong together go from function to function:

- ``rows``: indptr, indices and data of CSR rows;
- ``truth``: starts of the examples, true labels (n,), costs (n, K), what is added to transitions, first
  and last labels (K + 2, K), minus infinity where they are forbidden, else zero, and the examples'
  weights;
- ``kept``: of each example its first slot (n_blocks + 1,) and the first label of that slot, how many
  slots are used, the labels of all slots, and their masses;
- ``grams``: of each example where the inner products of its rows start, -1 if they are not kept; these;
- ``parameters``: weights by feature (d, K), transitions (K, K), first and last labels (K,).
"""

from __future__ import annotations

import numpy as np

from ..compiled import njit

# A visit looks for the best labelling at most so often; each search may add a labelling.
ROUNDS = 3
# A visit ends when the gap of its example is at most this share of what it was on arrival.
VISIT_SHARE = 0.1
# Steps between the labellings known end at this share of their gap.
STEPS_SHARE = 0.1


@njit(cache=True, nogil=True)
def sweep(order, rows, truth, kept, grams, parameters, gaps):
    """Raise the dual in each example of `order`; parameters, slots and gaps change in place."""
    starts, costs = truth[0], truth[2]
    n_labels = costs.shape[1]
    longest, widest = 1, 1
    for b in order:
        longest = max(longest, starts[b + 1] - starts[b])
        widest = max(widest, kept[0][b + 1] - kept[0][b])
    potentials, heights = np.empty((longest, n_labels)), np.empty((longest, n_labels))
    total, delta = np.empty((longest, n_labels)), np.empty((longest, n_labels))
    total_moves = np.empty((n_labels + 2, n_labels))
    moves, links = np.empty((n_labels + 2, n_labels)), np.empty((n_labels + 2, n_labels))
    path, touched = np.empty(longest, dtype=np.int32), np.empty(longest, dtype=np.bool_)
    products = np.empty((widest, widest))
    wrong = np.empty((widest, longest), dtype=np.int32), np.empty(widest, dtype=np.int64)
    tables = potentials, heights, total, delta, total_moves, moves, links, path, touched, products, wrong
    for b in order:
        gaps[b] = _visit(b, rows, truth, kept, grams, parameters, tables)


@njit(cache=True, nogil=True)
def losses(blocks, rows, truth, parameters, found):
    """The loss of each example, without its weight."""
    starts, codes, costs, barred, _ = truth
    n_labels = costs.shape[1]
    longest = 1
    for b in blocks:
        longest = max(longest, starts[b + 1] - starts[b])
    potentials, heights = np.empty((longest, n_labels)), np.empty((longest, n_labels))
    links, path = np.empty((n_labels + 2, n_labels)), np.empty(longest, dtype=np.int32)
    _copy_links(parameters, barred, links)
    for b in blocks:
        begin, end = starts[b], starts[b + 1]
        _fill_potentials(begin, end - begin, rows, costs, parameters[0], potentials)
        _viterbi(potentials, links, end - begin, heights, path)
        best = _score(potentials, links, path[: end - begin])
        found[b] = max(0.0, best - _score(potentials, links, codes[begin:end]))


@njit(cache=True, nogil=True)
def add_all(rows, truth, kept, parameters):
    """Add to the parameters what all masses stand for."""
    starts, codes, costs, _, weights = truth
    first_slot, first_label, used, labels, masses = kept
    longest = 1
    for b in range(len(weights)):
        longest = max(longest, starts[b + 1] - starts[b])
    n_labels = costs.shape[1]
    delta, moves = np.zeros((longest, n_labels)), np.zeros((n_labels + 2, n_labels))
    touched = np.zeros(longest, dtype=np.bool_)
    for b in range(len(weights)):
        begin, end = starts[b], starts[b + 1]
        size = end - begin
        if used[b] == 0:
            continue
        touched[:size] = False
        for j in range(used[b]):
            amount = weights[b] * masses[first_slot[b] + j]
            if amount > 0.0:
                at = first_label[b] + j * size
                _add_move(codes[begin:end], labels[at : at + size], amount, delta, moves, touched)
        _scatter(begin, size, rows, delta, touched, parameters[0])
        for t in range(size):
            if touched[t]:
                delta[t] = 0.0
    _add_links(moves, parameters)


@njit(cache=True, nogil=True)
def kept_costs(truth, kept, found):
    """What the labelling in each slot that is used costs."""
    starts, _, costs, _, weights = truth
    first_slot, first_label, used, labels, _ = kept
    for b in range(len(weights)):
        size = starts[b + 1] - starts[b]
        for j in range(used[b]):
            cost, at = 0.0, first_label[b] + j * size
            for t in range(size):
                cost += costs[starts[b] + t, labels[at + t]]
            found[first_slot[b] + j] = cost


@njit(cache=True, nogil=True)
def move_slots(starts, kept, others):
    """Copy all slots that are used to others, which have room for them."""
    for b in range(len(starts) - 1):
        size, count = starts[b + 1] - starts[b], kept[2][b]
        slot, other = kept[0][b], others[0][b]
        others[4][other : other + count] = kept[4][slot : slot + count]
        at, to = kept[1][b], others[1][b]
        others[3][to : to + count * size] = kept[3][at : at + count * size]


@njit(cache=True, nogil=True)
def fill_grams(starts, rows, heads, grams):
    """The inner products of rows, where they are kept; `heads`, (d,), are -1, and so afterwards.

    Most features are those of one row of an example: each entry is multiplied with the earlier ones of
    its feature, which are linked from the last to the first.
    """
    indptr, indices, data = rows
    places, values = grams
    most = 0
    for b in range(len(places)):
        most = max(most, indptr[starts[b + 1]] - indptr[starts[b]])
    earlier, owners = np.empty(most, dtype=np.int64), np.empty(most, dtype=np.int64)
    for b in range(len(places)):
        begin, size = starts[b], starts[b + 1] - starts[b]
        if places[b] < 0:
            continue
        gram = values[places[b] : places[b] + size * size].reshape(size, size)
        gram[:] = 0.0
        first = indptr[begin]
        for t in range(size):
            for e in range(indptr[begin + t], indptr[begin + t + 1]):
                gram[t, t] += data[e] * data[e]
                other = heads[indices[e]]
                while other >= 0:
                    gram[t, owners[other]] += data[e] * data[first + other]
                    other = earlier[other]
                earlier[e - first], owners[e - first] = heads[indices[e]], t
                heads[indices[e]] = e - first
        for t in range(size):
            for s in range(t):
                gram[s, t] = gram[t, s]
        for e in range(first, indptr[begin + size]):
            heads[indices[e]] = -1


@njit(cache=True, nogil=True)
def _visit(b, rows, truth, kept, grams, parameters, tables):
    """Steps in one example, between labellings that it has and the best that are found; its gap."""
    starts, codes, costs, barred, weights = truth
    potentials, heights, total, delta, total_moves, moves, links, path, touched, products, wrong = tables
    begin, weight, slot = starts[b], weights[b], kept[0][b]
    size, room = starts[b + 1] - begin, kept[0][b + 1] - slot
    own, gram = codes[begin : begin + size], _gram_of(b, size, grams)
    labels = kept[3][kept[1][b] : kept[1][b] + room * size].reshape(room, size)
    masses = kept[4][slot : slot + room]
    _fill_potentials(begin, size, rows, costs, parameters[0], potentials)
    _copy_links(parameters, barred, links)
    total[:size], total_moves[:], touched[:size] = 0.0, 0.0, False
    above = np.empty(room)
    arrival, known = 0.0, 0
    for rounds in range(ROUNDS):
        _viterbi(potentials, links, size, heights, path)
        base, mean = _score(potentials, links, own), 0.0
        best = _score(potentials, links, path[:size]) - base
        for j in range(kept[2][b]):
            above[j] = _score(potentials, links, labels[j]) - base
            mean += masses[j] * above[j]
        gap = weight * max(0.0, best - mean)
        if rounds == 0:
            arrival = gap
        if gap <= VISIT_SHARE * arrival * (rounds > 0) or gap <= 1e-15 * weight * abs(base):
            break
        if kept[2][b] < room and _is_new(labels, kept[2][b], own, path[:size]):
            labels[kept[2][b]], masses[kept[2][b]], above[kept[2][b]] = path[:size], 0.0, best
            kept[2][b] += 1
        count = kept[2][b]
        moves[:] = 0.0
        while known < count:
            _list_wrong(known, own, labels[known], wrong)
            if len(gram) == 0:
                delta[:size] = 0.0
                _fill_response(
                    begin, own, labels[known], rows, costs, parameters[0], potentials, delta, heights
                )
            _fill_products(known, own, labels, gram, heights, wrong, moves, products)
            known += 1
        before = masses[:count].copy()
        _ascend(products, above, count, weight, masses)
        delta[:size] = 0.0
        for j in range(count):
            if masses[j] != before[j]:
                amount = weight * (masses[j] - before[j])
                _add_move(own, labels[j], amount, delta, moves, touched)
        links += moves
        total_moves += moves
        if len(gram) == 0:
            _scatter(begin, size, rows, delta, touched, parameters[0])
            _fill_potentials(begin, size, rows, costs, parameters[0], potentials)
        else:
            _respond(gram, delta, touched, size, potentials)
            total[:size] += delta[:size]
    if known > 0:
        _scatter(begin, size, rows, total, touched, parameters[0])
        _add_links(total_moves, parameters)
        _drop_idle(b, kept, labels, masses)
    return arrival


@njit(cache=True, nogil=True)
def _gram_of(b, size, grams):
    """The inner products of the rows of an example; none where they are not kept."""
    places, values = grams
    if places[b] < 0:
        return values[:0].reshape(0, 0)
    return values[places[b] : places[b] + size * size].reshape(size, size)


@njit(cache=True, nogil=True)
def _fill_potentials(begin, size, rows, costs, table, potentials):
    """Scores of all labels at all positions, their costs included."""
    indptr, indices, data = rows
    n_labels = costs.shape[1]
    for t in range(size):
        into = potentials[t]
        for k in range(n_labels):
            into[k] = costs[begin + t, k]
        first, end = indptr[begin + t], indptr[begin + t + 1]
        for e in range(first, end - 3, 4):
            a, b = table[indices[e]], table[indices[e + 1]]
            c, d = table[indices[e + 2]], table[indices[e + 3]]
            x_a, x_b, x_c, x_d = data[e], data[e + 1], data[e + 2], data[e + 3]
            for k in range(n_labels):
                into[k] += x_a * a[k] + x_b * b[k] + x_c * c[k] + x_d * d[k]
        for e in range(end - (end - first) % 4, end):
            x, row = data[e], table[indices[e]]
            for k in range(n_labels):
                into[k] += x * row[k]


@njit(cache=True, nogil=True)
def _copy_links(parameters, barred, links):
    """Transitions, then first and last labels, as one table; those not allowed are minus infinity."""
    n_labels = barred.shape[1]
    for j in range(n_labels):
        for k in range(n_labels):
            links[j, k] = parameters[1][j, k] + barred[j, k]
    for k in range(n_labels):
        links[n_labels, k] = parameters[2][k] + barred[n_labels, k]
        links[n_labels + 1, k] = parameters[3][k] + barred[n_labels + 1, k]


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
def _viterbi(potentials, links, size, heights, path):
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
def _score(potentials, links, labels):
    """The score of a labelling."""
    n_labels, last = potentials.shape[1], len(labels) - 1
    score = links[n_labels, labels[0]] + links[n_labels + 1, labels[last]] + potentials[0, labels[0]]
    for t in range(1, last + 1):
        score += potentials[t, labels[t]] + links[labels[t - 1], labels[t]]
    return score


@njit(cache=True, nogil=True)
def _is_new(labels, count, own, path):
    """Whether a labelling is neither the true one nor among those known."""
    j = 0
    while j < count and not _equal(labels[j], path):
        j += 1
    return j == count and not _equal(own, path)


@njit(cache=True, nogil=True)
def _equal(left, right):
    t = 0
    while t < len(left) and left[t] == right[t]:
        t += 1
    return t == len(left)


@njit(cache=True, nogil=True)
def _add_move(own, labels, amount, delta, moves, touched):
    """Add a multiple of a labelling's normal: positions and labels, then transitions and ends."""
    n_labels, last = delta.shape[1], len(own) - 1
    for t in range(last + 1):
        wrong = labels[t] != own[t]
        if wrong:
            touched[t] = True
            delta[t, own[t]] += amount
            delta[t, labels[t]] -= amount
        if t > 0 and (wrong or labels[t - 1] != own[t - 1]):
            moves[own[t - 1], own[t]] += amount
            moves[labels[t - 1], labels[t]] -= amount
    if labels[0] != own[0]:
        moves[n_labels, own[0]] += amount
        moves[n_labels, labels[0]] -= amount
    if labels[last] != own[last]:
        moves[n_labels + 1, own[last]] += amount
        moves[n_labels + 1, labels[last]] -= amount


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
def _fill_response(begin, own, labels, rows, costs, table, potentials, delta, response):
    """How much a labelling's normal adds to the potentials; `delta` is zero.

    The normal is put among the weights, rows are scored, and it is taken away.
    """
    size = len(own)
    wrong = labels != own
    for t in range(size):
        if wrong[t]:
            delta[t, own[t]], delta[t, labels[t]] = 1.0, -1.0
    _scatter(begin, size, rows, delta, wrong, table)
    _fill_potentials(begin, size, rows, costs, table, response)
    response[:size] -= potentials[:size]
    delta[:size] *= -1.0
    _scatter(begin, size, rows, delta, wrong, table)


@njit(cache=True, nogil=True)
def _fill_products(new, own, labels, gram, response, wrong, moves, products):
    """Inner products of the normal of one labelling with those before it, and with itself.

    Of rows they are sums over the positions where both labellings are wrong, most often a few; where the
    inner products of rows are not kept, `response` is what the normal adds to the potentials. `moves` is
    zero, and so afterwards.
    """
    places, counts = wrong
    mine = places[new, : counts[new]]
    _add_links_of(own, labels[new], mine, 1.0, moves)
    for j in range(new + 1):
        theirs = places[j, : counts[j]]
        product = _links_against(own, labels[j], theirs, moves)
        if len(gram) == 0:
            for s in theirs:
                product += response[s, own[s]] - response[s, labels[j, s]]
        else:
            for t in mine:
                product += _row_against(t, labels[new, t], own, labels[j], theirs, gram[t])
        products[new, j] = products[j, new] = product
    _add_links_of(own, labels[new], mine, -1.0, moves)


@njit(cache=True, nogil=True)
def _row_against(t, label, own, labels, places, gram):
    """Inner product of what a labelling changes at position t with all of another's changes."""
    total, true = 0.0, own[t]
    for s in places:
        shared = 0.0
        if own[s] == true:
            shared += 1.0
        if own[s] == label:
            shared -= 1.0
        if labels[s] == true:
            shared -= 1.0
        if labels[s] == label:
            shared += 1.0
        total += gram[s] * shared
    return total


@njit(cache=True, nogil=True)
def _add_links_of(own, labels, places, amount, moves):
    """Add a multiple of the true links less those of a labelling that is wrong in `places`."""
    n_labels, last = moves.shape[1], len(own) - 1
    for t in places:
        if t > 0:
            moves[own[t - 1], own[t]] += amount
            moves[labels[t - 1], labels[t]] -= amount
        else:
            moves[n_labels, own[0]] += amount
            moves[n_labels, labels[0]] -= amount
        if t == last:
            moves[n_labels + 1, own[last]] += amount
            moves[n_labels + 1, labels[last]] -= amount
        elif labels[t + 1] == own[t + 1]:
            moves[own[t], own[t + 1]] += amount
            moves[labels[t], labels[t + 1]] -= amount


@njit(cache=True, nogil=True)
def _links_against(own, labels, places, moves):
    """Inner product of the same with what is in the table."""
    n_labels, last, total = moves.shape[1], len(own) - 1, 0.0
    for t in places:
        if t > 0:
            total += moves[own[t - 1], own[t]] - moves[labels[t - 1], labels[t]]
        else:
            total += moves[n_labels, own[0]] - moves[n_labels, labels[0]]
        if t == last:
            total += moves[n_labels + 1, own[last]] - moves[n_labels + 1, labels[last]]
        elif labels[t + 1] == own[t + 1]:
            total += moves[own[t], own[t + 1]] - moves[labels[t], labels[t + 1]]
    return total


@njit(cache=True, nogil=True)
def _ascend(products, above, count, weight, masses):
    """Pairwise steps between known labellings, and the true one, until most of their gap is gone."""
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
def _drop_idle(b, kept, labels, masses):
    """Forget labellings that have no mass."""
    count = 0
    for j in range(kept[2][b]):
        if masses[j] > 0.0:
            if count < j:
                labels[count], masses[count] = labels[j], masses[j]
            count += 1
    for j in range(count, kept[2][b]):
        masses[j] = 0.0
    kept[2][b] = count
