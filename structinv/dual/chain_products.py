"""Inner products of the normals of a sequence's labelings.

`chain_steps` describes the groups of arrays.
"""

from __future__ import annotations

from ..utils.jit import njit
from .chain_scores import add_edits


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
