"""Best labellings of graphs without cycles, by dynamic programmes from the leaves to a root.

The score of a labelling y of a graph is ``sum_u potentials[u, y_u] + sum_e sum_j features[e, j]
tables[j, y_v, y_w]`` with e = (v, w). All functions here take many graphs at once: `starts` and
`edge_starts` say which nodes and edges each has, and `edges` number its nodes from 0.
"""

from __future__ import annotations

import numpy as np

from ..compiled import njit


@njit(cache=True, nogil=True)
def acyclic(starts, edges, edge_starts, found):
    """Whether each graph has no cycles, two edges between the same nodes being one."""
    for b in range(len(starts) - 1):
        n_nodes = starts[b + 1] - starts[b]
        parent = np.arange(n_nodes)
        found[b] = True
        for e in range(edge_starts[b], edge_starts[b + 1]):
            u, v = edges[e]
            while parent[u] != u:
                parent[u] = parent[parent[u]]
                u = parent[u]
            while parent[v] != v:
                parent[v] = parent[parent[v]]
                v = parent[v]
            if u == v:
                found[b] = False
                break
            parent[u] = v


@njit(cache=True, nogil=True)
def _preorder(n_nodes, edges, first, last):
    """Nodes, each behind its parent, and the parent and the edge to it, -1 at the first node.

    Components hang below the first node by edges that are none, whose number is -1 too.
    """
    degree = np.zeros(n_nodes + 1, dtype=np.int64)
    for e in range(first, last):
        degree[edges[e, 0] + 1] += 1
        degree[edges[e, 1] + 1] += 1
    begin = np.cumsum(degree)
    place = begin[:-1].copy()
    other, by = np.empty(2 * (last - first), np.int64), np.empty(2 * (last - first), np.int64)
    for e in range(first, last):
        for side in range(2):
            u = edges[e, side]
            other[place[u]], by[place[u]] = edges[e, 1 - side], e
            place[u] += 1
    order, parent = np.empty(n_nodes, np.int64), np.full(n_nodes, -1)
    edge, seen = np.full(n_nodes, -1), np.zeros(n_nodes, np.bool_)
    waiting, n_found = np.empty(n_nodes, np.int64), 0
    for root in range(n_nodes):
        if seen[root]:
            continue
        seen[root] = True
        parent[root] = 0 if root else -1
        waiting[0], n_waiting = root, 1
        while n_waiting:
            n_waiting -= 1
            u = waiting[n_waiting]
            order[n_found] = u
            n_found += 1
            for i in range(begin[u], begin[u + 1]):
                v = other[i]
                if not seen[v]:
                    seen[v] = True
                    parent[v], edge[v] = u, by[i]
                    waiting[n_waiting] = v
                    n_waiting += 1
    return order, parent, edge


@njit(cache=True, nogil=True)
def _table(e, u, edges, features, tables, table):
    """The scores of the edge from u to its parent, by the label of the parent and that of u."""
    n_labels = table.shape[0]
    table[:] = 0.0
    if e < 0:
        return
    turned = edges[e, 0] == u
    for j in range(len(tables)):
        factor = features[e, j]
        if factor == 0:
            continue
        for above in range(n_labels):
            for own in range(n_labels):
                value = tables[j, own, above] if turned else tables[j, above, own]
                table[above, own] += factor * value


@njit(cache=True, nogil=True)
def _row(e, u, label, edges, features, tables, row):
    """One row of `_table`: where the parent has this label."""
    row[:] = 0.0
    if e < 0:
        return
    turned = edges[e, 0] == u
    for j in range(len(tables)):
        if features[e, j] == 0:
            continue
        for k in range(len(row)):
            row[k] += features[e, j] * (tables[j, k, label] if turned else tables[j, label, k])


@njit(cache=True, nogil=True)
def _heights(own, order, parent, edge, edges, features, tables, heights, messages):
    """Of each node and label the best score of all below it; and what each node tells its parent."""
    n_labels = own.shape[1]
    table = np.empty((n_labels, n_labels))
    heights[:] = own
    for i in range(len(order) - 1, 0, -1):
        u = order[i]
        _table(edge[u], u, edges, features, tables, table)
        for j in range(n_labels):
            best = -np.inf
            for k in range(n_labels):
                value = heights[u, k] + table[j, k]
                if value > best:
                    best = value
            messages[u, j] = best
            heights[parent[u], j] += best


@njit(cache=True, nogil=True)
def _largest(values, row):
    """Where two arrays have the largest sum, of equals the first."""
    best = 0
    for k in range(1, len(values)):
        if values[k] + row[k] > values[best] + row[best]:
            best = k
    return best


@njit(cache=True, nogil=True)
def best(potentials, tables, starts, edges, edge_starts, features, chosen, labels):
    """The best labelling of every graph that is chosen."""
    n_labels = potentials.shape[1]
    row = np.empty(n_labels)
    for b in range(len(starts) - 1):
        if not chosen[b]:
            continue
        own = potentials[starts[b] : starts[b + 1]]
        order, parent, edge = _preorder(len(own), edges, edge_starts[b], edge_starts[b + 1])
        heights, messages = np.empty(own.shape), np.empty(own.shape)
        _heights(own, order, parent, edge, edges, features, tables, heights, messages)
        found = labels[starts[b] : starts[b + 1]]
        row[:] = 0.0
        found[order[0]] = _largest(heights[order[0]], row)
        for i in range(1, len(order)):
            u = order[i]
            _row(edge[u], u, found[parent[u]], edges, features, tables, row)
            found[u] = _largest(heights[u], row)


@njit(cache=True, nogil=True)
def second(
    potentials, tables, starts, edges, edge_starts, features, chosen, codes, labels, values,
):  # fmt: skip
    """The best labelling of every graph chosen that differs from the codes somewhere, and its score."""
    n_labels = potentials.shape[1]
    row = np.empty(n_labels)
    for b in range(len(starts) - 1):
        if not chosen[b]:
            continue
        own, truth = potentials[starts[b] : starts[b + 1]], codes[starts[b] : starts[b + 1]]
        order, parent, edge = _preorder(len(own), edges, edge_starts[b], edge_starts[b + 1])
        heights, messages = np.empty(own.shape), np.empty(own.shape)
        _heights(own, order, parent, edge, edges, features, tables, heights, messages)
        # How much less the best is where a node has its code and a node below it differs, and which
        # of its children is the one below which that is.
        loss, child = np.full(len(own), np.inf), np.full(len(own), -1)
        differing = np.empty((len(own), n_labels))
        for i in range(len(order) - 1, -1, -1):
            u = order[i]
            differing[u] = heights[u]
            differing[u, truth[u]] = -np.inf if child[u] < 0 else heights[u, truth[u]] - loss[u]
            if i == 0:
                break
            above = parent[u]
            _row(edge[u], u, truth[above], edges, features, tables, row)
            k = _largest(differing[u], row)
            told = differing[u, k] + row[k]
            if told > -np.inf and messages[u, truth[above]] - told < loss[above]:
                loss[above], child[above] = messages[u, truth[above]] - told, u
        row[:] = 0.0
        k = _largest(differing[order[0]], row)
        values[b] = differing[order[0], k]
        if values[b] == -np.inf:
            continue
        found = labels[starts[b] : starts[b + 1]]
        found[order[0]] = k
        wanted = order[0]
        for i in range(1, len(order)):
            u, above = order[i], parent[order[i]]
            _row(edge[u], u, found[above], edges, features, tables, row)
            if above == wanted and found[above] == truth[above] and child[above] == u:
                # Nothing differs above it.
                found[u], wanted = _largest(differing[u], row), u
            else:
                found[u] = _largest(heights[u], row)


@njit(cache=True, nogil=True)
def best_by_wrong(potentials, tables, starts, edges, edge_starts, features, chosen, codes, heights):
    """The best score of every graph chosen with so many nodes that differ from the codes.

    Column d of `heights` becomes that with d nodes.
    """
    n_labels = potentials.shape[1]
    table = np.empty((n_labels, n_labels))
    for b in range(len(starts) - 1):
        if not chosen[b]:
            continue
        own, truth = potentials[starts[b] : starts[b + 1]], codes[starts[b] : starts[b + 1]]
        n_nodes = len(own)
        order, parent, edge = _preorder(n_nodes, edges, edge_starts[b], edge_starts[b + 1])
        n_children = np.zeros(n_nodes, np.int64)
        for u in range(n_nodes):
            if parent[u] >= 0:
                n_children[parent[u]] += 1
        # Tables of finished subtrees lie one after the other, the last on top.
        finished, sizes = np.empty((2 * n_nodes, n_labels)), np.empty(n_nodes, np.int64)
        tops, height, n_finished = np.empty(n_nodes, np.int64), 0, 0
        for i in range(n_nodes - 1, -1, -1):
            u = order[i]
            current = np.full((2, n_labels), -np.inf)
            for k in range(n_labels):
                current[1 if k != truth[u] else 0, k] = own[u, k]
            for _ in range(n_children[u]):
                n_finished -= 1
                v, size = tops[n_finished], sizes[n_finished]
                height -= size
                _table(edge[v], v, edges, features, tables, table)
                current = _joined(current, _told(finished[height : height + size], table))
            finished[height : height + len(current)] = current
            tops[n_finished], sizes[n_finished] = u, len(current)
            height += len(current)
            n_finished += 1
        for d in range(n_nodes + 1):
            heights[b, d] = finished[d].max()


@njit(cache=True, nogil=True)
def _told(below, table):
    """The best of each number of differences below, by the label of the parent."""
    told = np.full(below.shape, -np.inf)
    for d in range(len(below)):
        for j in range(below.shape[1]):
            for k in range(below.shape[1]):
                value = below[d, k] + table[j, k]
                if value > told[d, j]:
                    told[d, j] = value
    return told


@njit(cache=True, nogil=True)
def _joined(one, other):
    """The best sums, by the sum of the numbers of differences."""
    both = np.full((len(one) + len(other) - 1, one.shape[1]), -np.inf)
    for c in range(len(one)):
        for d in range(len(other)):
            for k in range(one.shape[1]):
                value = one[c, k] + other[d, k]
                if value > both[c + d, k]:
                    both[c + d, k] = value
    return both
