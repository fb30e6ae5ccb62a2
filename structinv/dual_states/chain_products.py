"""Inner products of rows of a sequence, and of its labellings' normals, compiled.

See `chain_steps` for the groups of arrays.
"""

from __future__ import annotations

import numpy as np

from ..compiled import njit
from .chain_scores import edited


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
def fill_products(one, count, products, normals):
    """Inner products of the normal of one labelling with those of all, itself included.

    ``normals`` is all that tells the normals: the example's first row, true labels, labels and edits of
    labellings, rows, factors, inner products of rows, where labellings are wrong, and tables of
    transitions and of weights that are zero, and so afterwards. Where inner products of rows are kept,
    products of normals are sums over the positions where both labellings are wrong, most often a few.
    Else the one normal is put among the weights.
    """
    begin, own, labels, edits, rows, factors, gram, wrong, moves, table = normals
    places, counts = wrong
    mine = places[one, : counts[one]]
    add_links_of(own, labels[one], mine, 1.0, moves)
    if len(gram) == 0:
        _add_rows(begin, own, labels[one], mine, rows, table)
        add_edits(begin, own, labels[one], edits[one], rows, factors, 1.0, table)
    for j in range(count):
        theirs = places[j, : counts[j]]
        product = _links_against(own, labels[j], theirs, moves)
        if len(gram) == 0:
            product += _rows_against(begin, own, labels[j], theirs, rows, table)
            product -= edited(begin, own, labels[j], edits[j], rows, factors, table)
        else:
            for t in mine:
                true, label = own[t], labels[one, t]
                for s in theirs:
                    product += gram[t, s] * _shared(true, label, own[s], labels[j, s])
        products[one, j] = products[j, one] = product
    add_links_of(own, labels[one], mine, -1.0, moves)
    if len(gram) == 0:
        _clear_rows(begin, own, labels[one], mine, rows, table)


@njit(cache=True, nogil=True)
def _add_rows(begin, own, labels, places, rows, table):
    """Add the rows at which a labelling is wrong to the weights."""
    indptr, ids, data = rows
    for t in places:
        for e in range(indptr[begin + t], indptr[begin + t + 1]):
            table[ids[e], own[t]] += data[e]
            table[ids[e], labels[t]] -= data[e]


@njit(cache=True, nogil=True)
def _rows_against(begin, own, labels, places, rows, table):
    """Inner product of the same with what is in the table."""
    indptr, ids, data = rows
    total = 0.0
    for t in places:
        true, label = own[t], labels[t]
        for e in range(indptr[begin + t], indptr[begin + t + 1]):
            total += data[e] * (table[ids[e], true] - table[ids[e], label])
    return total


@njit(cache=True, nogil=True)
def _clear_rows(begin, own, labels, places, rows, table):
    """Make zero what the same were added to."""
    indptr, ids, _ = rows
    for t in places:
        for e in range(indptr[begin + t], indptr[begin + t + 1]):
            table[ids[e], own[t]] = 0.0
            table[ids[e], labels[t]] = 0.0


@njit(cache=True, nogil=True)
def add_edits(begin, own, labels, edits, rows, factors, amount, table):
    """Add a multiple of what edits take from a labelling's rows, or add to them, to the weights."""
    indptr, ids, data = rows
    if edits.shape[1] == 0:
        return
    for t in range(len(own)):
        if labels[t] != own[t]:
            for edit in edits[t]:
                if edit > 0:
                    e = indptr[begin + t] + (edit - 1) // 2
                    x = amount * (factors[(edit - 1) % 2] - 1.0) * data[e]
                    table[ids[e], own[t]] += x
                    table[ids[e], labels[t]] -= x


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
