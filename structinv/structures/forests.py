"""Best labelings of graphs without cycles, by dynamic programs from the leaves to a root.

The score of a labeling y of a graph is ``sum_u potentials[u, y_u] + sum_e sum_j features[e, j]
tables[j, y_v, y_w]`` with e = (v, w). All functions here take many graphs at once: `starts` and
`edge_starts` say which nodes and edges each has, and `edges` number its nodes from 0.
"""

from __future__ import annotations

import numpy as np

from ..utils.jit import njit


def acyclic(starts: np.ndarray, edges: np.ndarray, edge_starts: np.ndarray, found: np.ndarray) -> None:
    """Put in place whether each graph has no cycles, two edges between the same nodes being one."""
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
    """Put in place the best labeling of every graph that is chosen."""
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
    """Put in place the best labeling of every graph chosen that differs from the codes, and its score.

    Labels stay as they are where there is none.
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
    """`_best` with its workspaces."""
    starts, _, edge_starts, _ = graphs
    room = *_workspaces(starts, edge_starts, potentials.shape[1]), np.empty(_most(starts))
    _best(potentials, tables, *graphs, chosen, codes, other_than, *room, labels, values)


def best_by_wrong(
    potentials: np.ndarray,
    tables: np.ndarray,
    starts: np.ndarray,
    edges: np.ndarray,
    edge_starts: np.ndarray,
    features: np.ndarray,
    chosen: np.ndarray,
    codes: np.ndarray,
    heights: np.ndarray,
) -> None:
    """The best score of every graph chosen with so many nodes that differ from the codes.

    Column d of `heights` becomes that with d nodes.
    """
    graphs = starts, edges, edge_starts, features
    room = _workspaces(starts, edge_starts, potentials.shape[1])
    finished = np.empty((2 * _most(starts), potentials.shape[1]))
    _best_by_wrong(potentials, tables, *graphs, chosen, codes, *room, finished, heights)


def _most(starts: np.ndarray) -> int:
    return int(np.diff(starts).max(initial=0))


def _workspaces(starts: np.ndarray, edge_starts: np.ndarray, n_labels: int) -> tuple[np.ndarray, ...]:
    """Room for the largest graph: numbers of nodes, ends of edges, scores of nodes, of an edge."""
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
    """Nodes, each behind its parent, and the parent and the edge to it, -1 at the first node.

    They are rows 0 to 2 of `nodes`. Components hang below the first node by edges that are none, whose
    number is -1 too.
    """
    order, parent, edge, begin, place = nodes[0], nodes[1], nodes[2], nodes[3], nodes[4]
    for u in range(n_nodes + 1):
        begin[u] = 0
    for e in range(first, last):
        begin[edges[e, 0] + 1] += 1
        begin[edges[e, 1] + 1] += 1
    for u in range(n_nodes):
        begin[u + 1] += begin[u]
        # A parent of -2 says that the node has not been found yet.
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
    """Scores of the edge from u to its parent, by the labels of the parent from `first` on and of u."""
    n_labels = tables.shape[1]
    for above in range(first, last):
        for own in range(n_labels):
            table[above, own] = 0.0
    if e < 0:
        return
    turned = edges[e, 0] == u
    for j in range(len(tables)):
        factor = features[e, j]
        if factor == 0:
            continue
        for above in range(first, last):
            for own in range(n_labels):
                value = tables[j, own, above] if turned else tables[j, above, own]
                table[above, own] += factor * value


@njit(cache=True, nogil=True)
def _largest(values, u, table, above):
    """The label at which a node's values and a row of the table have the largest sum, or the first."""
    best, highest = 0, values[u, 0] + table[above, 0]
    for k in range(1, values.shape[1]):
        value = values[u, k] + table[above, k]
        if value > highest:
            best, highest = k, value
    return best


@njit(cache=True, nogil=True)
def _best(
    potentials, tables, starts, edges, edge_starts, features, chosen, codes, other_than,
    nodes, ends, room, table, loss, labels, values,
):  # fmt: skip
    """The best labeling of every graph that is chosen, or the best other than the codes."""
    n_labels = potentials.shape[1]
    order, parent, edge, child = nodes[0], nodes[1], nodes[2], nodes[5]
    heights, messages, differing = room[0], room[1], room[2]
    for b in range(len(starts) - 1):
        if not chosen[b]:
            continue
        first, n_nodes = starts[b], starts[b + 1] - starts[b]
        _preorder(n_nodes, edges, edge_starts[b], edge_starts[b + 1], nodes, ends)
        # Of each node and label the best score of all below it; and what each node tells its parent.
        for u in range(n_nodes):
            for k in range(n_labels):
                heights[u, k] = potentials[first + u, k]
        for i in range(n_nodes - 1, 0, -1):
            u, above = order[i], parent[order[i]]
            _fill(edge[u], u, 0, n_labels, edges, features, tables, table)
            for j in range(n_labels):
                highest = -np.inf
                for k in range(n_labels):
                    value = heights[u, k] + table[j, k]
                    highest = value if value > highest else highest
                messages[u, j] = highest
                heights[above, j] += highest
        # How much less the best is where a node has its code and a node below it differs, and which
        # of its children is the one below which that is.
        for u in range(n_nodes):
            loss[u], child[u] = np.inf, -1
        for i in range(n_nodes - 1 if other_than else -1, -1, -1):
            u, above = order[i], parent[order[i]]
            code = codes[first + u]
            for k in range(n_labels):
                differing[u, k] = heights[u, k]
            differing[u, code] = -np.inf if child[u] < 0 else heights[u, code] - loss[u]
            if above < 0:
                break
            code = codes[first + above]
            _fill(edge[u], u, code, code + 1, edges, features, tables, table)
            k = _largest(differing, u, table, code)
            told = differing[u, k] + table[code, k]
            if told > -np.inf and messages[u, code] - told < loss[above]:
                loss[above], child[above] = messages[u, code] - told, u
        # From the root on down; at `wanted` nothing above it differs.
        wanted = -1
        for i in range(n_nodes):
            u, above = order[i], parent[order[i]]
            label, must = 0, other_than
            if above >= 0:
                label = labels[first + above]
                must = above == wanted and label == codes[first + above] and child[above] == u
            _fill(edge[u], u, label, label + 1, edges, features, tables, table)
            k = _largest(differing if must else heights, u, table, label)
            if above < 0:
                values[b] = differing[u, k] if must else heights[u, k]
                if must and values[b] == -np.inf:
                    break
            labels[first + u] = k
            if must:
                wanted = u


@njit(cache=True, nogil=True)
def _best_by_wrong(
    potentials, tables, starts, edges, edge_starts, features, chosen, codes, nodes, ends, room, table,
    finished, heights,
):  # fmt: skip
    n_labels = potentials.shape[1]
    order, parent, edge, n_children = nodes[0], nodes[1], nodes[2], nodes[5]
    tops, sizes = nodes[3], nodes[4]
    current, told, both = room[0], room[1], room[2]
    # Tables of finished subtrees lie one after the other, the last on top.
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
                # The best of each number of differences below, by the label of the parent.
                _fill(edge[v], v, 0, n_labels, edges, features, tables, table)
                for d in range(n_below):
                    for j in range(n_labels):
                        told[d, j] = -np.inf
                        for k in range(n_labels):
                            value = finished[height + d, k] + table[j, k]
                            if value > told[d, j]:
                                told[d, j] = value
                # The best sums, by the sum of the numbers of differences.
                for c in range(size + n_below - 1):
                    for k in range(n_labels):
                        both[c, k] = -np.inf
                for c in range(size):
                    for d in range(n_below):
                        for k in range(n_labels):
                            value = current[c, k] + told[d, k]
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
            heights[b, d] = highest
