"""Inner products of rows of a sequence, and of its labellings' normals, compiled.

See `chain_steps` for the groups of arrays.
"""

from __future__ import annotations

import numpy as np

from ..compiled import njit
from .chain_scores import factor_of


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
def gram_of(b, size, grams):
    """The inner products of the rows of an example; none where they are not kept."""
    places, values = grams
    if places[b] < 0:
        return values[:0].reshape(0, 0)
    return values[places[b] : places[b] + size * size].reshape(size, size)


@njit(cache=True, nogil=True)
def fill_products(new, begin, own, labels, edits, rows, factors, gram, wrong, moves, products):
    """Inner products of the normal of one labelling with those before it, and with itself.

    Those of rows are sums over the positions where both labellings are wrong, most often a few. `moves`
    is zero, and so afterwards.
    """
    places, counts = wrong
    mine = places[new, : counts[new]]
    add_links_of(own, labels[new], mine, 1.0, moves)
    for j in range(new + 1):
        theirs = places[j, : counts[j]]
        product = _links_against(own, labels[j], theirs, moves)
        for t in mine:
            true, label = own[t], labels[new, t]
            for s in theirs:
                shared = _shared(true, label, own[s], labels[j, s])
                if shared != 0.0:
                    inner = gram[t, s] if len(gram) > 0 else _inner(begin + t, begin + s, rows)
                    if edits.shape[2] > 0:
                        pair = edits[new, t], edits[j, s]
                        inner += _inner_edits(begin + t, begin + s, *pair, rows, factors)
                    product += shared * inner
        products[new, j] = products[j, new] = product
    add_links_of(own, labels[new], mine, -1.0, moves)


@njit(cache=True, nogil=True)
def _shared(true, label, other_true, other_label):
    """Inner product of two changes of labels."""
    total = 0.0
    if true == other_true:
        total += 1.0
    if true == other_label:
        total -= 1.0
    if label == other_true:
        total -= 1.0
    if label == other_label:
        total += 1.0
    return total


@njit(cache=True, nogil=True)
def _inner(i, j, rows):
    """Inner product of two rows."""
    indptr, ids, data = rows
    a, b, total = indptr[i], indptr[j], 0.0
    while a < indptr[i + 1] and b < indptr[j + 1]:
        if ids[a] == ids[b]:
            total += data[a] * data[b]
        step = ids[a] - ids[b]
        a += step <= 0
        b += step >= 0
    return total


@njit(cache=True, nogil=True)
def _inner_edits(i, j, mine, theirs, rows, factors):
    """How much the inner product of two rows changes with the edits of both."""
    indptr, ids, data = rows
    total = 0.0
    for edit in theirs:
        if edit > 0:
            e = indptr[j] + (edit - 1) // 2
            place = _place(ids[e], i, rows)
            if place >= 0:
                total += (factors[(edit - 1) % 2] - 1.0) * data[e] * data[indptr[i] + place]
    for edit in mine:
        if edit > 0:
            e = indptr[i] + (edit - 1) // 2
            place = _place(ids[e], j, rows)
            if place >= 0:
                x = data[indptr[j] + place] * factor_of(place, theirs, factors)
                total += (factors[(edit - 1) % 2] - 1.0) * data[e] * x
    return total


@njit(cache=True, nogil=True)
def _place(column, i, rows):
    """Where a row has an entry in the column, -1 if nowhere."""
    indptr, ids, _ = rows
    low, high = indptr[i], indptr[i + 1]
    while low < high:
        middle = (low + high) // 2
        if ids[middle] < column:
            low = middle + 1
        else:
            high = middle
    return low - indptr[i] if low < indptr[i + 1] and ids[low] == column else -1


@njit(cache=True, nogil=True)
def add_links_of(own, labels, places, amount, moves):
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
