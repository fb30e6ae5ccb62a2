"""Exact inference for graphs without cycles, by dynamic programming.

The score of a labeling y of a graph is ``sum_u potentials[u, y_u] + sum_e sum_j features[e, j]
tables[j, y_v, y_w]`` with e = (v, w). All functions process many graphs at once. `starts` and
`edge_starts` have the first node and edge of each graph. `edges` number the nodes of a graph from 0.
"""

from __future__ import annotations

import numpy as np

from ..utils.jit import njit


def acyclic(starts: np.ndarray, edges: np.ndarray, edge_starts: np.ndarray, found: np.ndarray) -> None:
    """Compute whether each graph has no cycles; parallel edges form a cycle."""
    _acyclic(starts, edges, edge_starts, np.empty(_most(starts), dtype=np.int64), found)


def best(
    potentials: np.ndarray,
    tables: np.ndarray,
    starts: np.ndarray,
    edges: np.ndarray,
    edge_starts: np.ndarray,
    features: np.ndarray,
    chosen: np.ndarray,
    labels: np.ndarray,
) -> None:
    """Compute the best labeling of every chosen graph."""
    values = np.empty(len(chosen))
    graphs = starts, edges, edge_starts, features
    _decode(potentials, tables, graphs, chosen, labels, False, labels, values)


def second(
    potentials: np.ndarray,
    tables: np.ndarray,
    starts: np.ndarray,
    edges: np.ndarray,
    edge_starts: np.ndarray,
    features: np.ndarray,
    chosen: np.ndarray,
    codes: np.ndarray,
    labels: np.ndarray,
    values: np.ndarray,
) -> None:
    """Compute the best labeling other than the codes, and its score.

    Labels stay unchanged if there is no other labeling.
    """
    graphs = starts, edges, edge_starts, features
    _decode(potentials, tables, graphs, chosen, codes, True, labels, values)


def _decode(
    potentials: np.ndarray,
    tables: np.ndarray,
    graphs: tuple[np.ndarray, ...],
    chosen: np.ndarray,
    codes: np.ndarray,
    other_than: bool,
    labels: np.ndarray,
    values: np.ndarray,
) -> None:
    """Call `_best` with its workspaces."""
    starts, _, edge_starts, _ = graphs
    spaces = *_workspaces(starts, edge_starts, potentials.shape[1]), np.empty(_most(starts))
    _best(potentials, tables, *graphs, chosen, codes, other_than, *spaces, labels, values)


def best_by_wrong(
    potentials: np.ndarray,
    tables: np.ndarray,
    starts: np.ndarray,
    edges: np.ndarray,
    edge_starts: np.ndarray,
    features: np.ndarray,
    chosen: np.ndarray,
    codes: np.ndarray,
    best_scores: np.ndarray,
) -> None:
    """Compute the best scores of every chosen graph by the number of wrong nodes.

    Column d of `best_scores` receives the score with d wrong nodes.
    """
    graphs = starts, edges, edge_starts, features
    spaces = _workspaces(starts, edge_starts, potentials.shape[1])
    finished = np.empty((2 * _most(starts), potentials.shape[1]))
    _best_by_wrong(potentials, tables, *graphs, chosen, codes, *spaces, finished, best_scores)


def _most(starts: np.ndarray) -> int:
    return int(np.diff(starts).max(initial=0))


def _workspaces(starts: np.ndarray, edge_starts: np.ndarray, n_labels: int) -> tuple[np.ndarray, ...]:
    """Allocate arrays for the largest graph: node numbers, edge ends, and scores."""
    most = _most(starts)
    return (
        np.empty((6, most + 1), dtype=np.int64),
        np.empty((2, 2 * _most(edge_starts)), dtype=np.int64),
        np.empty((3, most + 1, n_labels)),
        np.empty((n_labels, n_labels)),
    )


@njit(cache=True, nogil=True)
def _acyclic(starts, edges, edge_starts, parent, found):
    for b in range(len(starts) - 1):
        for u in range(starts[b + 1] - starts[b]):
            parent[u] = u
        found[b] = True
        for e in range(edge_starts[b], edge_starts[b + 1]):
            u, v = edges[e, 0], edges[e, 1]
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
def _preorder(n_nodes, edges, first, last, nodes, ends):
    """Compute a preorder of the nodes, and each node's parent and edge to it.

    They are rows 0 to 2 of `nodes`. The parent and edge of the first node are -1. Other components
    become children of the first node, with edge -1.
    """
    order, parent, edge, begin, place = nodes[0], nodes[1], nodes[2], nodes[3], nodes[4]
    for u in range(n_nodes + 1):
        begin[u] = 0
    for e in range(first, last):
        begin[edges[e, 0] + 1] += 1
        begin[edges[e, 1] + 1] += 1
    for u in range(n_nodes):
        begin[u + 1] += begin[u]
        # A parent of -2 marks an unvisited node.
        place[u], parent[u], edge[u] = begin[u], -2, -1
    for e in range(first, last):
        for side in range(2):
            u = edges[e, side]
            ends[0, place[u]], ends[1, place[u]] = edges[e, 1 - side], e
            place[u] += 1
    waiting, n_found = place, 0
    for root in range(n_nodes):
        if parent[root] > -2:
            continue
        parent[root] = 0 if root else -1
        waiting[0], n_waiting = root, 1
        while n_waiting:
            n_waiting -= 1
            u = waiting[n_waiting]
            order[n_found] = u
            n_found += 1
            for i in range(begin[u], begin[u + 1]):
                v = ends[0, i]
                if parent[v] == -2:
                    parent[v], edge[v] = u, ends[1, i]
                    waiting[n_waiting] = v
                    n_waiting += 1


@njit(cache=True, nogil=True)
def _fill(e, u, first, last, edges, features, tables, table):
    """Compute scores of the edge from u to its parent, by the labels of both.

    Only labels `first` to `last` - 1 of the parent are computed.
    """
    n_labels = tables.shape[1]
    for above in range(first, last):
        for own in range(n_labels):
            table[above, own] = 0.0
    if e < 0:
        return
    is_transposed = edges[e, 0] == u
    for j in range(len(tables)):
        factor = features[e, j]
        if factor == 0:
            continue
        for above in range(first, last):
            for own in range(n_labels):
                value = tables[j, own, above] if is_transposed else tables[j, above, own]
                table[above, own] += factor * value


@njit(cache=True, nogil=True)
def _largest(values, u, table, above):
    """Return the first label with the largest sum of node value and table row."""
    best, highest = 0, values[u, 0] + table[above, 0]
    for k in range(1, values.shape[1]):
        value = values[u, k] + table[above, k]
        if value > highest:
            best, highest = k, value
    return best


@njit(cache=True, nogil=True)
def _best(
    potentials, tables, starts, edges, edge_starts, features, chosen, codes, other_than,
    nodes, ends, spaces, table, loss, labels, values,
):  # fmt: skip
    """Compute the best labeling of chosen graphs, or the best other than the codes."""
    n_labels = potentials.shape[1]
    order, parent, edge, child = nodes[0], nodes[1], nodes[2], nodes[5]
    best_scores, messages, differing = spaces[0], spaces[1], spaces[2]
    for b in range(len(starts) - 1):
        if not chosen[b]:
            continue
        first, n_nodes = starts[b], starts[b + 1] - starts[b]
        _preorder(n_nodes, edges, edge_starts[b], edge_starts[b + 1], nodes, ends)
        # `best_scores`: best score of each node's subtree by the node's label. `messages`: the best
        # score with the edge to the parent, by the parent's label.
        for u in range(n_nodes):
            for k in range(n_labels):
                best_scores[u, k] = potentials[first + u, k]
        for i in range(n_nodes - 1, 0, -1):
            u, above = order[i], parent[order[i]]
            _fill(edge[u], u, 0, n_labels, edges, features, tables, table)
            for j in range(n_labels):
                highest = -np.inf
                for k in range(n_labels):
                    value = best_scores[u, k] + table[j, k]
                    highest = value if value > highest else highest
                messages[u, j] = highest
                best_scores[above, j] += highest
        # `loss`: decrease of the best score if a node has its code and a node below differs.
        # `child`: the child whose subtree differs.
        for u in range(n_nodes):
            loss[u], child[u] = np.inf, -1
        for i in range(n_nodes - 1 if other_than else -1, -1, -1):
            u, above = order[i], parent[order[i]]
            code = codes[first + u]
            for k in range(n_labels):
                differing[u, k] = best_scores[u, k]
            differing[u, code] = -np.inf if child[u] < 0 else best_scores[u, code] - loss[u]
            if above < 0:
                break
            code = codes[first + above]
            _fill(edge[u], u, code, code + 1, edges, features, tables, table)
            k = _largest(differing, u, table, code)
            message = differing[u, k] + table[code, k]
            if message > -np.inf and messages[u, code] - message < loss[above]:
                loss[above], child[above] = messages[u, code] - message, u
        # Assign labels from the root down. The subtree of `wanted` must contain a difference, because
        # all its ancestors have their codes.
        wanted = -1
        for i in range(n_nodes):
            u, above = order[i], parent[order[i]]
            label, must = 0, other_than
            if above >= 0:
                label = labels[first + above]
                must = above == wanted and label == codes[first + above] and child[above] == u
            _fill(edge[u], u, label, label + 1, edges, features, tables, table)
            k = _largest(differing if must else best_scores, u, table, label)
            if above < 0:
                values[b] = differing[u, k] if must else best_scores[u, k]
                if must and values[b] == -np.inf:
                    break
            labels[first + u] = k
            if must:
                wanted = u


@njit(cache=True, nogil=True)
def _best_by_wrong(
    potentials, tables, starts, edges, edge_starts, features, chosen, codes, nodes, ends, spaces, table,
    finished, best_scores,
):  # fmt: skip
    n_labels = potentials.shape[1]
    order, parent, edge, n_children = nodes[0], nodes[1], nodes[2], nodes[5]
    tops, sizes = nodes[3], nodes[4]
    current, message, both = spaces[0], spaces[1], spaces[2]
    # `finished` is a stack of the tables of finished subtrees.
    for b in range(len(starts) - 1):
        if not chosen[b]:
            continue
        first, n_nodes = starts[b], starts[b + 1] - starts[b]
        _preorder(n_nodes, edges, edge_starts[b], edge_starts[b + 1], nodes, ends)
        for u in range(n_nodes):
            n_children[u] = 0
        for i in range(1, n_nodes):
            n_children[parent[order[i]]] += 1
        height, n_finished = 0, 0
        for i in range(n_nodes - 1, -1, -1):
            u, size = order[i], 2
            for k in range(n_labels):
                wrong = 1 if k != codes[first + u] else 0
                current[wrong, k], current[1 - wrong, k] = potentials[first + u, k], -np.inf
            for _ in range(n_children[u]):
                n_finished -= 1
                v, n_below = tops[n_finished], sizes[n_finished]
                height -= n_below
                # Best score by the number of wrong nodes below and the label of the parent.
                _fill(edge[v], v, 0, n_labels, edges, features, tables, table)
                for d in range(n_below):
                    for j in range(n_labels):
                        message[d, j] = -np.inf
                        for k in range(n_labels):
                            value = finished[height + d, k] + table[j, k]
                            if value > message[d, j]:
                                message[d, j] = value
                # Best sum by the joint number of wrong nodes.
                for c in range(size + n_below - 1):
                    for k in range(n_labels):
                        both[c, k] = -np.inf
                for c in range(size):
                    for d in range(n_below):
                        for k in range(n_labels):
                            value = current[c, k] + message[d, k]
                            if value > both[c + d, k]:
                                both[c + d, k] = value
                size += n_below - 1
                for c in range(size):
                    for k in range(n_labels):
                        current[c, k] = both[c, k]
            for c in range(size):
                for k in range(n_labels):
                    finished[height + c, k] = current[c, k]
            tops[n_finished], sizes[n_finished] = u, size
            height += size
            n_finished += 1
        for d in range(n_nodes + 1):
            highest = -np.inf
            for k in range(n_labels):
                if finished[d, k] > highest:
                    highest = finished[d, k]
            best_scores[b, d] = highest
