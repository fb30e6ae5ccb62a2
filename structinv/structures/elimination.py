"""Exact inference for graphs of small treewidth, by variable elimination.

Each step eliminates one node and creates a table over the labels of its neighbors, the *scope* of the
node (Bertele and Brioschi 1972). The nodes of a scope are connected with each other from then on.
"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heapify, heappop, heappush

import numpy as np

from ..utils.jit import LEAN, njit

# Largest number of values in a table over a node and its scope, and in all tables of a graph.
LARGEST_TABLE = 1_000_000
ALL_TABLES = 20_000_000


@dataclass(frozen=True)
class Elimination:
    """Elimination order of the nodes of graphs, and the scope of each node.

    - `exact` (n_graphs,): true for graphs with small tables; the others have no order
    - `order` (n_nodes,): nodes of each graph, numbered from 0, in elimination order
    - `scopes` (n_scopes,): scopes of the nodes in this order, one after the other
    - `scope_starts` (n_nodes + 1,): first entry of each scope
    """

    exact: np.ndarray
    order: np.ndarray
    scopes: np.ndarray
    scope_starts: np.ndarray

    def take(self, blocks: np.ndarray, starts: np.ndarray) -> Elimination:
        """Return the elimination of some graphs; `starts` are those of all nodes."""
        nodes = _joined(starts[blocks], starts[blocks + 1])
        first, last = self.scope_starts[nodes], self.scope_starts[nodes + 1]
        return Elimination(
            self.exact[blocks],
            self.order[nodes],
            self.scopes[_joined(first, last)],
            np.r_[0, np.cumsum(last - first)],
        )


def _joined(first: np.ndarray, last: np.ndarray) -> np.ndarray:
    """Return the integers from each first to each last, exclusive."""
    lengths = last - first
    starts = np.r_[0, np.cumsum(lengths)]
    return np.repeat(first - starts[:-1], lengths) + np.arange(starts[-1])


def eliminated(
    starts: np.ndarray, edges: np.ndarray, edge_starts: np.ndarray, n_labels: int
) -> Elimination:
    """Compute orders with little fill-in, and mark the graphs with small tables.

    Shapes: `starts` (n_graphs + 1,), `edges` (n_edges, 2), `edge_starts` (n_graphs + 1,).
    """
    exact, orders, scopes = np.zeros(len(starts) - 1, dtype=bool), [], []
    for b in range(len(starts) - 1):
        n_nodes = int(starts[b + 1] - starts[b])
        found = _least_fill(n_nodes, edges[edge_starts[b] : edge_starts[b + 1]], n_labels)
        exact[b] = found is not None
        orders += list(range(n_nodes)) if found is None else found[0]
        scopes += [[]] * n_nodes if found is None else found[1]
    return Elimination(
        exact,
        np.array(orders, dtype=np.int64),
        np.array([each for scope in scopes for each in scope], dtype=np.int64),
        np.r_[0, np.cumsum([len(scope) for scope in scopes])].astype(np.int64),
    )


def _least_fill(
    n_nodes: int, edges: np.ndarray, n_labels: int
) -> tuple[list[int], list[list[int]]] | None:
    """Return the minimum fill-in order and its scopes; None if a table is too large."""
    neighbors: list[set[int]] = [set() for _ in range(n_nodes)]
    for u, v in edges.tolist():
        neighbors[u].add(v)
        neighbors[v].add(u)
    # Fill-in at the last change of the neighborhood; an outdated value can only be too large.
    fill_in = {u: _fill_in(neighbors, u) for u in range(n_nodes)}
    order: list[int] = []
    scopes: list[list[int]] = []
    entries = 0.0
    # The queue also has former numbers of nodes, which are skipped.
    queue = [(number, u) for u, number in fill_in.items()]
    heapify(queue)
    while queue:
        number, u = heappop(queue)
        if fill_in.get(u) != number:
            continue
        del fill_in[u]
        scope = neighbors[u]
        entries += float(n_labels) ** len(scope)
        large = float(n_labels) ** (len(scope) + 1) > LARGEST_TABLE or entries > ALL_TABLES
        # Trees are exact for any number of labels.
        if large and len(scope) > 1:
            return None
        order.append(u)
        scopes.append(list(scope))
        for v in scope:
            neighbors[v] |= scope
            neighbors[v] -= {u, v}
        for v in scope:
            fill_in[v] = _fill_in(neighbors, v)
            heappush(queue, (fill_in[v], v))
    when = {u: place for place, u in enumerate(order)}
    return order, [sorted(scope, key=when.__getitem__) for scope in scopes]


def _fill_in(neighbors: list[set[int]], u: int) -> int:
    """Count the pairs of neighbors of u without an edge; return an upper bound for many neighbors."""
    own = neighbors[u]
    if len(own) > 64:
        # The table is too large in any case.
        return len(own) ** 2
    return sum(len(own) - 1 - len(own & neighbors[v]) for v in own) // 2


@njit(cache=True, nogil=True)
def _edge_tables(edges, features, tables, when):
    """Return edge scores by the label of the end eliminated last, then of the other."""
    n_labels = tables.shape[1]
    scores = np.zeros((len(edges), n_labels, n_labels))
    for e in range(len(edges)):
        is_transposed = when[edges[e, 0]] < when[edges[e, 1]]
        for j in range(len(tables)):
            if features[e, j] == 0:
                continue
            for k in range(n_labels):
                for own in range(n_labels):
                    value = tables[j, own, k] if is_transposed else tables[j, k, own]
                    scores[e, k, own] += features[e, j] * value
    return scores


@njit(cache=True, nogil=True)
def _plan(order, scopes, begin, edges):
    """Return the messages of an elimination: receivers, edges, and their positions.

    `when` has the step that eliminates each node. `receiver` has the step that receives the message of
    each step. `owner[e]` is the step that eliminates the first end of edge e. `other[e]` is the position
    of its other end in the scope of the first one. `places` has the position of each scope node of a
    sender in the scope of its receiver; -1 is the receiver itself.
    """
    n_nodes = len(order)
    when = np.empty(n_nodes, np.int64)
    for i in range(n_nodes):
        when[order[i]] = i
    receiver = np.full(n_nodes, -1)
    places = np.zeros(begin[n_nodes] - begin[0], np.int64)
    for i in range(n_nodes):
        if begin[i] == begin[i + 1]:
            continue
        receiver[i] = when[scopes[begin[i]]]
        r = receiver[i]
        for p in range(begin[i], begin[i + 1]):
            places[p - begin[0]] = -1
            for q in range(begin[r], begin[r + 1]):
                if scopes[q] == scopes[p]:
                    places[p - begin[0]] = q - begin[r]
    owner, other = np.empty(len(edges), np.int64), np.empty(len(edges), np.int64)
    for e in range(len(edges)):
        first, last = when[edges[e, 0]], when[edges[e, 1]]
        owner[e], last = min(first, last), max(first, last)
        for q in range(begin[owner[e]], begin[owner[e] + 1]):
            if scopes[q] == order[last]:
                other[e] = q - begin[owner[e]]
    return when, receiver, places, owner, other


@njit(cache=True, nogil=True)
def _groups(owner, n_nodes):
    """Return the indices of `owner`, sorted by owner, and the start of each owner's indices."""
    begin = np.zeros(n_nodes + 1, np.int64)
    for each in owner:
        if each >= 0:
            begin[each + 1] += 1
    begin = np.cumsum(begin)
    place, items = begin[:-1].copy(), np.empty(begin[n_nodes], np.int64)
    for i in range(len(owner)):
        if owner[i] >= 0:
            items[place[owner[i]]] = i
            place[owner[i]] += 1
    return items, begin


@njit(**LEAN)
def _at(c, places, begin, labels, own, n_labels):
    """Return the index in sender c's table, for labels of the receiver (`own`) and of its scope."""
    place = 0
    for p in range(begin[c] - begin[0], begin[c + 1] - begin[0]):
        place = place * n_labels + (own if places[p] < 0 else labels[places[p]])
    return place


@njit(**LEAN)
def _sums(potentials, labels, edges, edge_tables, other, senders, sent, offsets, places, begin, scores):
    """Compute the best score at and below a node for each label, given the labels of its scope."""
    n_labels = len(potentials)
    for k in range(n_labels):
        scores[k] = potentials[k]
    for e in edges:
        for k in range(n_labels):
            scores[k] += edge_tables[e, labels[other[e]], k]
    for c in senders:
        first = _at(c, places, begin, labels, 0, n_labels)
        stride = _at(c, places, begin, labels, 1, n_labels) - first
        for k in range(n_labels):
            scores[k] += sent[offsets[c] + first + stride * k]


@njit(**LEAN)
def _differing(scores, truth, labels, senders, sent, differ, offsets, places, begin):
    """Replace the score of the true label by the best one with another label below the node.

    Returns the sender below which labels then differ; -1 if there is none.
    """
    loss, sender = np.inf, -1
    for c in senders:
        place = offsets[c] + _at(c, places, begin, labels, truth, len(scores))
        if differ[place] > -np.inf and sent[place] - differ[place] < loss:
            loss, sender = sent[place] - differ[place], c
    scores[truth] = -np.inf if sender < 0 else scores[truth] - loss
    return sender


@njit(**LEAN)
def _largest(found):
    """Return the first label with the largest value."""
    best = 0
    for k in range(1, len(found)):
        if found[k] > found[best]:
            best = k
    return best


@njit(cache=True, nogil=True)
def best(
    potentials, tables, starts, edges, edge_starts, features, order, scopes, scope_starts,
    chosen, codes, other_than, labels, values,
):  # fmt: skip
    """Compute the best labeling of chosen graphs, or the best other than the codes."""
    n_labels = potentials.shape[1]
    scores = np.empty(n_labels)
    for b in range(len(starts) - 1):
        if not chosen[b]:
            continue
        first, last = starts[b], starts[b + 1]
        n_nodes, begin = last - first, scope_starts[first:]
        of_graph = slice(edge_starts[b], edge_starts[b + 1])
        node_potentials = potentials[first:last]
        truth, own_labels = codes[first:last], labels[first:last]
        nodes = order[first:last]
        when, receiver, places, owner, other = _plan(nodes, scopes, begin, edges[of_graph])
        edge_tables = _edge_tables(edges[of_graph], features[of_graph], tables, when)
        edges_of, edges_at = _groups(owner, n_nodes)
        senders, senders_at = _groups(receiver, n_nodes)
        offsets = np.zeros(n_nodes + 1, np.int64)
        for i in range(n_nodes):
            offsets[i + 1] = offsets[i] + n_labels ** (begin[i + 1] - begin[i])
        sent = np.empty(offsets[n_nodes])
        differ = np.empty(offsets[n_nodes] if other_than else 0)
        wanted, value, loss = -1, 0.0, np.inf
        # The first half eliminates nodes in order; the second half assigns labels in reverse order.
        for step in range(2 * n_nodes):
            down = step >= n_nodes
            i = 2 * n_nodes - 1 - step if down else step
            if step == n_nodes:
                value = value if not other_than else -np.inf if wanted < 0 else value - loss
                if value == -np.inf:
                    break
            at = np.zeros(begin[i + 1] - begin[i], np.int64)
            for p in range(len(at) if down else 0):
                at[p] = own_labels[scopes[begin[i] + p]]
            below = senders[senders_at[i] : senders_at[i + 1]]
            edges_here = edges_of[edges_at[i] : edges_at[i + 1]]
            for place in range(offsets[i], offsets[i] + 1 if down else offsets[i + 1]):
                _sums(
                    node_potentials[nodes[i]], at, edges_here, edge_tables, other, below, sent, offsets,
                    places, begin, scores,
                )  # fmt: skip
                sender = -1
                if not down:
                    sent[place] = scores[_largest(scores)]
                if i == wanted if down else other_than:
                    sender = _differing(
                        scores, truth[nodes[i]], at, below, sent, differ, offsets, places, begin
                    )
                highest = _largest(scores)
                if down:
                    own_labels[nodes[i]] = highest
                    if i == wanted:
                        wanted = sender if highest == truth[nodes[i]] else -1
                    continue
                if other_than:
                    differ[place] = scores[highest]
                # Next labels of the scope; the last one changes fastest.
                for p in range(len(at) - 1, -1, -1):
                    at[p] += 1
                    if at[p] < n_labels:
                        break
                    at[p] = 0
            if not down and len(at) == 0:
                value += sent[offsets[i]]
                if (
                    other_than
                    and differ[offsets[i]] > -np.inf
                    and sent[offsets[i]] - differ[offsets[i]] < loss
                ):
                    wanted, loss = i, sent[offsets[i]] - differ[offsets[i]]
        values[b] = value
