"""Relaxed labellings of graphs: the maximum over the local polytope, from below and from above.

Each node has shares of its labels, which add up to 1, and each edge shares of the pairs of labels of its
ends, whose sums are those of the ends. The score is linear in the shares; labellings are the points
where all of them are 0 or 1. The bound splits the potentials of a node among its edges, and adds up what
each edge reaches by itself: it is the dual of the same program.

Tree-reweighted messages (Kolmogorov 2006) come near to the bound quickly, and may stop short of it. From
there the method of multipliers goes on (Martins et al. 2015): shares of each edge by itself, drawn to
those of the nodes. Its quadratic programs are solved exactly: the pairs of labels that have a share
are edges of a forest between the labels of one end and those of the other, and moves around a cycle
change no sums.
"""

from __future__ import annotations

import numpy as np

from ..compiled import njit

# Sweeps of messages before the method of multipliers, and how often bounds are looked at.
SWEEPS, STEPS_BETWEEN_BOUNDS = 60, 10
# How strongly shares of edges are drawn to those of nodes at first, by the spread of edges' scores.
START_SCALE = 0.3


@njit(cache=True, nogil=True)
def _edge_tables(features, tables):
    """Scores of each edge, by the labels of its first and its second end."""
    n_labels = tables.shape[1]
    found = np.zeros((len(features), n_labels, n_labels))
    for e in range(len(features)):
        for j in range(len(tables)):
            if features[e, j] != 0:
                found[e] += features[e, j] * tables[j]
    return found


@njit(cache=True, nogil=True)
def _incident(n_nodes, edges):
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
def _bound(own, table, edges, degrees, splits):
    """What nodes without edges reach, and each edge by itself."""
    n_labels, total = own.shape[1], 0.0
    for u in range(len(own)):
        if degrees[u] == 0:
            total += own[u].max()
    for e in range(len(edges)):
        u, v = edges[e]
        highest = -np.inf
        second = own[v] / degrees[v] + splits[e, 1]
        for k in range(n_labels):
            first = own[u, k] / degrees[u] + splits[e, 0, k]
            if first > -np.inf:
                for other in range(n_labels):
                    highest = max(highest, first + table[e, k, other] + second[other])
        total += highest
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
def _walk(pairs, n_pairs, n_labels, worth, order, parent, edge, part, levels):
    """Labels of both ends that pairs touch, from roots on, and their levels but for two constants.

    Labels of the second end count from `n_labels`. A pair asks of the shares p and q of its labels
    that p + q + tau is its worth. Of each part of the forest p is its level + sigma, q its level - sigma
    - tau. Returns how many labels there are, and tau, where the shares of each end add up to 1; sigma is
    put into the levels.
    """
    part[:] = -1
    n_found, mass, slope = 0, 0.0, 0.0
    n_parts = 0
    ups, downs = np.zeros(n_pairs), np.zeros(n_pairs)
    counts = np.zeros((n_pairs, 2))
    for i in range(n_pairs):
        root = pairs[i] // n_labels
        if part[root] >= 0:
            continue
        part[root], parent[root], edge[root], levels[root] = n_parts, -1, -1, 0.0
        order[n_found] = root
        at, n_found = n_found, n_found + 1
        counts[n_parts, 0] = 1
        while at < n_found:
            u = order[at]
            at += 1
            for j in range(n_pairs):
                k, other = pairs[j] // n_labels, n_labels + pairs[j] % n_labels
                if u != k and u != other:
                    continue
                v = other if u == k else k
                if part[v] >= 0:
                    continue
                part[v], parent[v], edge[v] = n_parts, u, j
                levels[v] = worth[j] - levels[u]
                if v < n_labels:
                    ups[n_parts] += levels[v]
                    counts[n_parts, 0] += 1
                else:
                    downs[n_parts] += levels[v]
                    counts[n_parts, 1] += 1
                order[n_found] = v
                n_found += 1
        first, second = counts[n_parts]
        mass += ups[n_parts] + first * (downs[n_parts] - ups[n_parts]) / (first + second)
        slope += first * second / (first + second)
        n_parts += 1
    tau = (mass - 1.0) / slope
    for i in range(n_found):
        u = order[i]
        c = part[u]
        first, second = counts[c]
        sigma = (downs[c] - ups[c] - second * tau) / (first + second)
        levels[u] += sigma if u < n_labels else -sigma - tau
    return n_found, tau


@njit(cache=True, nogil=True)
def _enter(pair, pairs, shares, n_pairs, n_labels, parent, edge, part):
    """Take a pair in: with no share, or, if it closes a cycle, with that of another one around it."""
    k, other = pair // n_labels, n_labels + pair % n_labels
    if part[k] < 0 or part[other] < 0 or part[k] != part[other]:
        pairs[n_pairs], shares[n_pairs] = pair, 0.0
        return n_pairs + 1
    # The way from either label to where they meet; on it shares fall and rise in turn.
    above = np.zeros(len(parent), np.bool_)
    u = k
    while u >= 0:
        above[u] = True
        u = parent[u]
    least, leaving, u = np.inf, -1, other
    meet = other
    while not above[meet]:
        meet = parent[meet]
    for side in range(2):
        u, falling = (k, True) if side == 0 else (other, True)
        while u != meet:
            if falling and shares[edge[u]] < least:
                least, leaving = shares[edge[u]], edge[u]
            falling = not falling
            u = parent[u]
    for side in range(2):
        u, falling = (k, True) if side == 0 else (other, True)
        while u != meet:
            shares[edge[u]] += -least if falling else least
            falling = not falling
            u = parent[u]
    pairs[leaving], shares[leaving] = pair, least
    return n_pairs


@njit(cache=True, nogil=True)
def _project(table, first, second, scale, pairs, shares, n_pairs, sums):
    """Shares of pairs, of most ``<table, shares> / scale - 1/2 |sums - (first, second)|^2``.

    `sums` are those of the labels of both ends. Pairs that have a share are given and kept, the first
    `n_pairs` of `pairs`; returns how many there are.
    """
    n_labels = len(first)
    order, parent = np.empty(2 * n_labels, np.int64), np.empty(2 * n_labels, np.int64)
    edge, part = np.empty(2 * n_labels, np.int64), np.empty(2 * n_labels, np.int64)
    levels, worth = np.empty(2 * n_labels), np.empty(2 * n_labels)
    wanted = np.empty(2 * n_labels)
    for _ in range(20 * n_labels):
        for i in range(n_pairs):
            k, other = pairs[i] // n_labels, pairs[i] % n_labels
            worth[i] = first[k] + second[other] + table[k, other] / scale
        n_found, tau = _walk(pairs, n_pairs, n_labels, worth, order, parent, edge, part, levels)
        sums[:] = 0.0
        for i in range(n_found):
            sums[order[i]] = levels[order[i]]
        left = sums.copy()
        for i in range(n_found - 1, -1, -1):
            u = order[i]
            if edge[u] >= 0:
                wanted[edge[u]] = left[u]
                left[parent[u]] -= left[u]
        step, leaving = 1.0, -1
        for i in range(n_pairs):
            if wanted[i] < 0.0 and shares[i] < step * (shares[i] - wanted[i]):
                step, leaving = shares[i] / (shares[i] - wanted[i]), i
        for i in range(n_pairs):
            shares[i] += step * (wanted[i] - shares[i])
        if leaving >= 0:
            n_pairs -= 1
            pairs[leaving], shares[leaving] = pairs[n_pairs], shares[n_pairs]
            continue
        best, pair = tau + 1e-11 * (1.0 + abs(tau)), -1
        for k in range(n_labels):
            room = first[k] - sums[k]
            if room > -np.inf:
                for other in range(n_labels):
                    value = room + second[other] - sums[n_labels + other] + table[k, other] / scale
                    if value > best:
                        best, pair = value, k * n_labels + other
        if pair < 0:
            break
        n_pairs = _enter(pair, pairs, shares, n_pairs, n_labels, parent, edge, part)
    sums[:] = 0.0
    for i in range(n_pairs):
        shares[i] = max(0.0, shares[i])
        sums[pairs[i] // n_labels] += shares[i]
        sums[n_labels + pairs[i] % n_labels] += shares[i]
    return n_pairs


@njit(cache=True, nogil=True)
def _fitted(pairs, shares, sums, first, second, found):
    """Shares of pairs near to those given, of the sums that the ends have (Altschuler et al. 2017)."""
    n_labels = len(first)
    found[:] = 0.0
    below = np.zeros(n_labels)
    for i in range(len(pairs)):
        k, other = pairs[i] // n_labels, pairs[i] % n_labels
        if shares[i] > 0:
            found[k, other] = shares[i] * min(1.0, first[k] / sums[k])
            below[other] += found[k, other]
    lacks, misses = first.copy(), second.copy()
    for i in range(len(pairs)):
        k, other = pairs[i] // n_labels, pairs[i] % n_labels
        if found[k, other] > 0:
            found[k, other] *= min(1.0, second[other] / below[other])
            lacks[k] -= found[k, other]
            misses[other] -= found[k, other]
    lacks, misses = np.maximum(0.0, lacks), np.maximum(0.0, misses)
    total = misses.sum()
    if total > 0:
        for k in range(n_labels):
            if lacks[k] > 0:
                found[k] += lacks[k] * misses / total


@njit(cache=True, nogil=True)
def _value(own, table, edges, nodes, pairs, shares, counts, sums, joint):
    """What the shares of nodes reach, with shares of pairs near to those given that fit them."""
    total = 0.0
    for u in range(len(own)):
        for k in range(own.shape[1]):
            if nodes[u, k] > 0:
                total += nodes[u, k] * own[u, k]
    for e in range(len(edges)):
        first, second, many = nodes[edges[e, 0]], nodes[edges[e, 1]], counts[e]
        _fitted(pairs[e, :many], shares[e, :many], sums[e], first, second, joint[e])
        total += np.sum(joint[e] * table[e])
    return total


@njit(cache=True, nogil=True)
def _messages(own, table, edges, ends, begin, degrees, tolerance, splits, labels):
    """Splits from tree-reweighted messages, the best labelling met, its score, the bound, and the aim.

    The aim is the gap that is small enough: the tolerance times how far the bound is above the mean
    score of all labellings, which no constants in the potentials move.
    """
    messages = np.zeros(splits.shape)
    trial, value, bound, before = labels.copy(), -np.inf, np.inf, np.inf
    mean, aim = 0.0, 0.0
    for u in range(len(own)):
        allowed = own[u] > -np.inf
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
            _split(messages, ends, begin, splits)
            bound = min(bound, _bound(own, table, edges, degrees, splits))
            # Rounding of sums of numbers as large as these is no gap.
            aim = tolerance * (bound - mean) + 1e-13 * abs(bound)
            if bound - value <= aim or before - bound <= 1e-3 * (bound - value):
                break
            before = bound
    return value, bound, aim


@njit(cache=True, nogil=True)
def _step(own, table, edges, degrees, splits, nodes, scale, pairs, shares, counts, sums):
    """One step of the method of multipliers; how far edges are from nodes, and how far nodes moved."""
    n_labels = own.shape[1]
    moved = np.zeros(nodes.shape)
    for e in range(len(edges)):
        u, v = edges[e]
        first = nodes[u] + (own[u] / degrees[u] + splits[e, 0]) / scale
        second = nodes[v] + (own[v] / degrees[v] + splits[e, 1]) / scale
        counts[e] = _project(table[e], first, second, scale, pairs[e], shares[e], counts[e], sums[e])
        moved[u] += sums[e, :n_labels] / degrees[u]
        moved[v] += sums[e, n_labels:] / degrees[v]
    apart, drift = 0.0, 0.0
    for e in range(len(edges)):
        for side in range(2):
            u = edges[e, side]
            for k in range(n_labels):
                rest = sums[e, side * n_labels + k] - moved[u, k]
                apart += rest * rest
                drift += (moved[u, k] - nodes[u, k]) ** 2
                splits[e, side, k] -= scale * rest
    for u in range(len(own)):
        if degrees[u] > 0:
            nodes[u] = moved[u]
    return apart, drift


@njit(cache=True, nogil=True)
def _multipliers(own, table, edges, degrees, splits, aim, most, labels, nodes, joint):
    """The method of multipliers, until value and bound are as near as aimed at, or for so many steps.

    `labels` are the best labelling known, and so afterwards. Shares of nodes and edges are those of the
    best point at the end.
    """
    n_labels, n_edges = own.shape[1], len(edges)
    pairs, shares = np.zeros((n_edges, 2 * n_labels), np.int64), np.zeros((n_edges, 2 * n_labels))
    counts, sums = np.ones(n_edges, np.int64), np.zeros((n_edges, 2 * n_labels))
    for e in range(n_edges):
        pairs[e, 0] = labels[edges[e, 0]] * n_labels + labels[edges[e, 1]]
        shares[e, 0] = 1.0
    _whole(edges, labels, nodes, joint)
    value, bound, fractional = _score(own, table, edges, labels), np.inf, -np.inf
    trial, next_change = labels.copy(), STEPS_BETWEEN_BOUNDS
    # Where all edges score the same, messages have found the best.
    scale = max(START_SCALE * table.std(), 1e-300)
    for step in range(1, most + 1):
        apart, drift = _step(
            own, table, edges, degrees, splits, nodes, scale, pairs, shares, counts, sums
        )
        if step == next_change:
            # Ever more rarely: the method converges for a scale that stays.
            next_change *= 2
            scale *= min(2.0, max(0.5, np.sqrt(apart / max(drift, 1e-300))))
        if step % STEPS_BETWEEN_BOUNDS and step < most:
            continue
        bound = min(bound, _bound(own, table, edges, degrees, splits))
        for u in range(len(own)):
            trial[u] = np.argmax(nodes[u])
        reached = _score(own, table, edges, trial)
        if reached > value:
            value = reached
            labels[:] = trial
        fractional = _value(own, table, edges, nodes, pairs, shares, counts, sums, joint)
        if bound - max(value, fractional) <= aim:
            break
    if value >= fractional:
        _whole(edges, labels, nodes, joint)
    return max(value, fractional), bound


@njit(cache=True, nogil=True)
def _whole(edges, labels, nodes, joint):
    """The shares of a labelling."""
    nodes[:] = 0.0
    joint[:] = 0.0
    for u in range(len(nodes)):
        nodes[u, labels[u]] = 1.0
    for e in range(len(edges)):
        joint[e, labels[edges[e, 0]], labels[edges[e, 1]]] = 1.0


@njit(cache=True, nogil=True)
def _graph(own, tables, edges, features, tolerance, most, labels, nodes, totals):
    """The best labelling met and the best shares of one graph, whether these are the same, and scores.

    Where they are not, `nodes` are the shares, and `totals` what multiplies the tables then.
    """
    n_nodes, n_labels = own.shape
    for u in range(n_nodes):
        if own[u].max() == -np.inf:
            return True, -np.inf, -np.inf
    table = _edge_tables(features, tables)
    ends, begin = _incident(n_nodes, edges)
    degrees, splits = np.diff(begin), np.zeros((len(edges), 2, n_labels))
    value, bound, aim = _messages(own, table, edges, ends, begin, degrees, tolerance, splits, labels)
    if bound - value <= aim:
        return True, value, bound
    joint = np.zeros(table.shape)
    reached, found = _multipliers(own, table, edges, degrees, splits, aim, most, labels, nodes, joint)
    whole = reached <= _score(own, table, edges, labels)
    if not whole:
        for j in range(len(tables)):
            for e in range(len(edges)):
                if features[e, j] != 0:
                    totals[j] += features[e, j] * joint[e]
    return whole, reached, min(bound, found)


@njit(cache=True, nogil=True)
def best(
    potentials, tables, starts, edges, edge_starts, features, slots, tolerance, most,
    labels, nodes, totals, whole, values, bounds,
):  # fmt: skip
    """The best shares of every graph that has a slot of at least 0, and the best labelling met.

    Parameters
    ----------
    slots : (n_graphs,) array of int
    tolerance : float
        Of the gap between value and bound, relative to how far the bound is above the mean score.
    most : int
        Steps of the method of multipliers.
    labels : (n_nodes,) array of int
        Put in here: the labelling that scores highest of those that were met.
    nodes : (n_nodes, n_labels) array
        Put in here: shares, where these are not `whole`.
    totals : (n_slots, n_tables, n_labels, n_labels) array of zeros
        Put in here: sums over edges of features times the shares of pairs of labels; where not `whole`.
    whole, values, bounds : (n_graphs,) arrays
        Put in here: whether the best shares are those of the labelling, their score, and the bound.
    """
    for b in range(len(starts) - 1):
        if slots[b] < 0:
            continue
        first, last = starts[b], starts[b + 1]
        mine = slice(edge_starts[b], edge_starts[b + 1])
        whole[b], values[b], bounds[b] = _graph(
            potentials[first:last], tables, edges[mine], features[mine], tolerance, most,
            labels[first:last], nodes[first:last], totals[slots[b]],
        )  # fmt: skip
