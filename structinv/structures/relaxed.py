"""Relaxed labellings of graphs, compiled: messages along edges, their bound, and what a program needs.

Each node has shares of its labels, which add up to 1, and each edge shares of the pairs of labels of its
ends, whose sums are those of the ends. The score is linear in the shares; labellings are the points
where all of them are 0 or 1. The bound splits the potentials of a node among its edges, and adds up what
each edge reaches by itself: it is the dual of the same program.

Tree-reweighted messages (Kolmogorov 2006) come near to the bound quickly, and may stop short of it;
`local_polytope` goes on from there.
"""

from __future__ import annotations

import numpy as np

from ..compiled import njit

# Most sweeps of messages, and of splits of labels that a program does not have.
SWEEPS, REPAIRS = 60, 4


@njit(cache=True, nogil=True)
def edge_tables(features, tables):
    """Scores of each edge, by the labels of its first and its second end."""
    n_labels = tables.shape[1]
    found = np.zeros((len(features), n_labels, n_labels))
    for e in range(len(features)):
        for j in range(len(tables)):
            if features[e, j] != 0:
                found[e] += features[e, j] * tables[j]
    return found


@njit(cache=True, nogil=True)
def incident(n_nodes, edges):
    """Edges of each node as 2 e + side, one node after the other, and where those of each begin."""
    begin = np.zeros(n_nodes + 1, np.int64)
    for e in range(len(edges)):
        begin[edges[e, 0] + 1] += 1
        begin[edges[e, 1] + 1] += 1
    begin = np.cumsum(begin)
    place, ends = begin[:-1].copy(), np.empty(2 * len(edges), np.int64)
    for e in range(len(edges)):
        for side in range(2):
            u = edges[e, side]
            ends[place[u]] = 2 * e + side
            place[u] += 1
    return ends, begin


@njit(cache=True, nogil=True)
def _send(table, side, given, told):
    """What an end tells the other one: the most that its labels, worth `given`, reach there."""
    n_labels = len(given)
    told[:] = -np.inf
    if side == 0:
        for k in range(n_labels):
            for other in range(n_labels):
                told[other] = max(told[other], given[k] + table[k, other])
    else:
        for other in range(n_labels):
            for k in range(n_labels):
                told[other] = max(told[other], given[k] + table[other, k])
    told -= told.max()


@njit(cache=True, nogil=True)
def _sweep(own, table, edges, ends, begin, messages, forward, labels):
    """One pass of tree-reweighted messages; forward passes also choose a labelling as they go."""
    n_nodes, n_labels = own.shape
    heights, given, told = np.empty(n_labels), np.empty(n_labels), np.empty(n_labels)
    for step in range(n_nodes):
        u = step if forward else n_nodes - 1 - step
        ahead, worth = 0, own[u].copy()
        heights[:] = own[u]
        for i in range(begin[u], begin[u + 1]):
            e, side = ends[i] // 2, ends[i] % 2
            v = edges[e, 1 - side]
            ahead += v > u
            heights += messages[e, side]
            if v > u:
                worth += messages[e, side]
            elif forward:
                worth += table[e, :, labels[v]] if side == 0 else table[e, labels[v]]
        if forward:
            labels[u] = np.argmax(worth)
        share = 1.0 / max(1, ahead, begin[u + 1] - begin[u] - ahead)
        for i in range(begin[u], begin[u + 1]):
            e, side = ends[i] // 2, ends[i] % 2
            if (edges[e, 1 - side] > u) == forward:
                given[:] = share * heights - messages[e, side]
                _send(table[e], side, given, told)
                messages[e, 1 - side] = told


@njit(cache=True, nogil=True)
def _split(messages, ends, begin, splits):
    """How the potentials of nodes are split among their edges, beyond equal parts, from messages."""
    for u in range(len(begin) - 1):
        mean = np.zeros(messages.shape[2])
        for i in range(begin[u], begin[u + 1]):
            mean += messages[ends[i] // 2, ends[i] % 2]
        mean /= max(1, begin[u + 1] - begin[u])
        for i in range(begin[u], begin[u + 1]):
            splits[ends[i] // 2, ends[i] % 2] = mean - messages[ends[i] // 2, ends[i] % 2]


@njit(cache=True, nogil=True)
def heights(own, table, edges, degrees, splits, found):
    """What each edge reaches by itself, with its part of the potentials of both ends."""
    n_labels = own.shape[1]
    for e in range(len(edges)):
        u, v = edges[e]
        found[e] = -np.inf
        second = own[v] / degrees[v] + splits[e, 1]
        for k in range(n_labels):
            first = own[u, k] / degrees[u] + splits[e, 0, k]
            if first > -np.inf:
                for other in range(n_labels):
                    found[e] = max(found[e], first + table[e, k, other] + second[other])


@njit(cache=True, nogil=True)
def _bound(own, table, edges, degrees, splits):
    """What nodes without edges reach, and each edge by itself."""
    found = np.empty(len(edges))
    heights(own, table, edges, degrees, splits, found)
    total = found.sum()
    for u in range(len(own)):
        if degrees[u] == 0:
            total += own[u].max()
    return total


@njit(cache=True, nogil=True)
def _score(own, table, edges, labels):
    """The score of a labelling."""
    total = 0.0
    for u in range(len(own)):
        total += own[u, labels[u]]
    for e in range(len(edges)):
        total += table[e, labels[edges[e, 0]], labels[edges[e, 1]]]
    return total


@njit(cache=True, nogil=True)
def _messages(own, table, edges, tolerance, splits, labels):
    """Splits from tree-reweighted messages, the best labelling met, its score, the bound, and the aim.

    The aim is the gap that is small enough: the tolerance times how far the bound is above the mean
    score of all labellings, which no constants in the potentials move.
    """
    ends, begin = incident(len(own), edges)
    degrees, messages = np.diff(begin), np.zeros(splits.shape)
    trial, found = labels.copy(), splits.copy()
    value, bound, before, mean, aim = -np.inf, np.inf, np.inf, 0.0, 0.0
    for u in range(len(own)):
        allowed = own[u] > -np.inf
        if not np.any(allowed):
            return -np.inf, -np.inf, 0.0
        mean += own[u][allowed].mean()
    for e in range(len(edges)):
        mean += table[e].mean()
    for sweep in range(SWEEPS):
        _sweep(own, table, edges, ends, begin, messages, True, trial)
        _sweep(own, table, edges, ends, begin, messages, False, trial)
        reached = _score(own, table, edges, trial)
        if reached > value:
            value = reached
            labels[:] = trial
        if sweep % 3 == 2:
            _split(messages, ends, begin, found)
            reached = _bound(own, table, edges, degrees, found)
            if reached < bound:
                bound = reached
                splits[:] = found
            # Rounding of sums of numbers as large as these is no gap.
            aim = tolerance * (bound - mean) + 1e-13 * abs(bound)
            if bound - value <= aim or before - bound <= 1e-3 * (bound - value):
                break
            before = bound
    return value, bound, aim


@njit(cache=True, nogil=True)
def messages(
    potentials, tables, starts, edges, edge_starts, features, chosen, tolerance,
    labels, splits, values, bounds, aims,
):  # fmt: skip
    """Messages in every graph that is chosen.

    Parameters
    ----------
    chosen : (n_graphs,) array of bool
    tolerance : float
        Of the gap between value and bound, relative to how far the bound is above the mean score.
    labels : (n_nodes,) array of int
        Put in here: the labelling that scores highest of those that were met.
    splits : (n_edges, 2, n_labels) array of zeros
        Put in here: what is added to the equal part of the potentials of each end that an edge has.
    values, bounds, aims : (n_graphs,) arrays
        Put in here: the score of the labelling, the bound, and the gap that is small enough.
    """
    for b in range(len(starts) - 1):
        if chosen[b]:
            first, last = starts[b], starts[b + 1]
            mine = slice(edge_starts[b], edge_starts[b + 1])
            values[b], bounds[b], aims[b] = _messages(
                potentials[first:last], edge_tables(features[mine], tables), edges[mine], tolerance,
                splits[mine], labels[first:last],
            )  # fmt: skip


@njit(cache=True, nogil=True)
def losses(own, table, edges, degrees, splits, tops, found):
    """What each pair of labels of an edge reaches less than the best one, and each label at least.

    Parameters
    ----------
    tops : (n_edges,) array
        The `heights` of edges.
    found : (n_nodes, n_labels) array
        Put in here: the sum over a label's edges of the least that it loses there; infinity for labels
        that are not allowed.

    Returns
    -------
    (n_edges, n_labels, n_labels) array
    """
    n_labels = own.shape[1]
    lost = np.empty(table.shape)
    for u in range(len(own)):
        for k in range(n_labels):
            found[u, k] = own[u].max() - own[u, k] if degrees[u] == 0 or own[u, k] == -np.inf else 0.0
    for e in range(len(edges)):
        u, v = edges[e]
        second = own[v] / degrees[v] + splits[e, 1]
        least = np.full((2, n_labels), np.inf)
        for k in range(n_labels):
            first = own[u, k] / degrees[u] + splits[e, 0, k]
            for other in range(n_labels):
                each = tops[e] - first - table[e, k, other] - second[other]
                lost[e, k, other] = each
                least[0, k], least[1, other] = min(least[0, k], each), min(least[1, other], each)
        found[u] += least[0]
        found[v] += least[1]
    return lost


@njit(cache=True, nogil=True)
def split_others(own, table, edges, ends, begin, tops, active, splits):
    """Change splits of labels that are not active until no edge reaches more than its top, if possible.

    Parameters
    ----------
    ends, begin : arrays of int
        See `incident`.
    tops : (n_edges,) array
        What each edge reaches with active labels.
    active : (n_nodes, n_labels) array of bool
        Labels whose splits stay.
    splits : (n_edges, 2, n_labels) array
    """
    n_nodes, n_labels = own.shape
    above = np.empty(np.max(np.diff(begin)))
    for sweep in range(REPAIRS):
        changed = False
        for step in range(n_nodes):
            u = step if sweep % 2 == 0 else n_nodes - 1 - step
            degree = begin[u + 1] - begin[u]
            for k in range(n_labels):
                if active[u, k] or own[u, k] == -np.inf or degree == 0:
                    continue
                for i in range(degree):
                    e, side = ends[begin[u] + i] // 2, ends[begin[u] + i] % 2
                    v, best = edges[e, 1 - side], -np.inf
                    part = begin[v + 1] - begin[v]
                    for other in range(n_labels):
                        pair = table[e, k, other] if side == 0 else table[e, other, k]
                        best = max(best, pair + own[v, other] / part + splits[e, 1 - side, other])
                    above[i] = best + own[u, k] / degree + splits[e, side, k] - tops[e]
                if above[:degree].max() > 0.0:
                    changed = True
                    mean = above[:degree].mean()
                    for i in range(degree):
                        e, side = ends[begin[u] + i] // 2, ends[begin[u] + i] % 2
                        splits[e, side, k] -= above[i] - mean
        if not changed:
            break


@njit(cache=True, nogil=True)
def fit(joint, nodes, edges):
    """Make the shares of pairs add up to those that the ends have (Altschuler et al. 2017, alg. 2)."""
    n_labels = nodes.shape[1]
    for e in range(len(edges)):
        first, second = nodes[edges[e, 0]], nodes[edges[e, 1]]
        below, total = np.zeros(n_labels), 0.0
        lacks, misses = first.copy(), second.copy()
        for k in range(n_labels):
            own = joint[e, k].sum()
            if own > first[k]:
                joint[e, k] *= first[k] / own
            below += joint[e, k]
        for k in range(n_labels):
            for other in range(n_labels):
                if below[other] > second[other]:
                    joint[e, k, other] *= second[other] / below[other]
                lacks[k] -= joint[e, k, other]
                misses[other] -= joint[e, k, other]
        lacks, misses = np.maximum(0.0, lacks), np.maximum(0.0, misses)
        total = misses.sum()
        if total > 0:
            for k in range(n_labels):
                if lacks[k] > 0:
                    joint[e, k] += lacks[k] * misses / total


@njit(cache=True, nogil=True)
def totals(joint, features, owners, found):
    """Sums over the edges of each graph of features times the shares of pairs, put in place."""
    n_labels = joint.shape[1]
    for e in range(len(joint)):
        b = owners[e]
        for k in range(n_labels):
            for other in range(n_labels):
                if joint[e, k, other] > 0:
                    for j in range(features.shape[1]):
                        found[b, j, k, other] += features[e, j] * joint[e, k, other]
