"""Relaxed inference for graphs, compiled: message passing and the dual bound.

Each node has fractions of its labels, which add up to 1. Each edge has fractions of the label pairs of
its ends, with the node fractions as sums. The score is linear in the fractions; labelings are the
integral points. The bound splits the potentials of a node among its edges, and adds the maximum of each
edge. It is the dual of the same linear program.

Tree-reweighted messages (Kolmogorov 2006) approach the bound quickly, but may stop above it.
`local_polytope` continues from there.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from ..utils.jit import njit

# Maximum number of message sweeps, and of sweeps that repair splits of inactive labels.
SWEEPS, REPAIRS = 60, 4


def edge_tables(features: np.ndarray, tables: np.ndarray) -> np.ndarray:
    """Return scores of each edge, by the labels of its first and second end."""
    return np.tensordot(features, tables, 1)


def incident(n_nodes: int, edges: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the edges of each node as 2 e + side, in node order, and their starts."""
    ends = np.argsort(edges.ravel(), kind="stable")
    return ends, np.r_[0, np.cumsum(np.bincount(edges.ravel(), minlength=n_nodes))]


def messages(
    potentials: np.ndarray,
    tables: np.ndarray,
    starts: np.ndarray,
    edges: np.ndarray,
    edge_starts: np.ndarray,
    features: np.ndarray,
    chosen: np.ndarray,
    tolerance: float,
    labels: np.ndarray,
    splits: np.ndarray,
    values: np.ndarray,
    bounds: np.ndarray,
    aims: np.ndarray,
) -> None:
    """Pass messages in every chosen graph, and compute a labeling and a bound.

    Shapes: `chosen` (n_graphs,), `labels` (n_nodes,), `splits` (n_edges, 2, n_labels), `values`
    (n_graphs,), `bounds` (n_graphs,), `aims` (n_graphs,).
    """
    n_labels, n_edges = potentials.shape[1], np.diff(edge_starts)
    edges = edges + np.repeat(starts[:-1], n_edges)[:, None]
    ends, begin = incident(len(potentials), edges)
    table = np.empty((int(n_edges.max(initial=0)), n_labels, n_labels))
    sent, rows = np.zeros((2, *splits.shape)), np.empty((4, n_labels))
    _messages(
        potentials, tables, starts, edges, edge_starts, features, ends, begin, chosen, tolerance,
        table, sent[0], sent[1], rows, labels.copy(), labels, splits, values, bounds, aims,
    )  # fmt: skip


@njit(cache=True, nogil=True)
def _messages(
    potentials, tables, starts, edges, edge_starts, features, ends, begin, chosen, tolerance,
    table, sent, trial_splits, rows, trial, labels, splits, values, bounds, aims,
):  # fmt: skip
    """Run `messages`. Node numbers in `edges` count all graphs, and `sent` contains zeros."""
    n_labels = potentials.shape[1]
    for b in range(len(starts) - 1):
        if not chosen[b]:
            continue
        first, last, e_first, e_last = starts[b], starts[b + 1], edge_starts[b], edge_starts[b + 1]
        value, bound, before, mean, aim = -np.inf, np.inf, np.inf, 0.0, 0.0
        for u in range(first, last):
            total, n_allowed = 0.0, 0
            for k in range(n_labels):
                if potentials[u, k] > -np.inf:
                    total += potentials[u, k]
                    n_allowed += 1
            if n_allowed == 0:
                bound = -np.inf
                break
            mean += total / n_allowed
        if bound == -np.inf:
            values[b], bounds[b], aims[b] = -np.inf, -np.inf, 0.0
            continue
        for e in range(e_first, e_last):
            total = 0.0
            for k in range(n_labels):
                for other in range(n_labels):
                    score = 0.0
                    for j in range(len(tables)):
                        score += features[e, j] * tables[j, k, other]
                    table[e - e_first, k, other] = score
                    total += score
            mean += total / n_labels**2
        for sweep in range(SWEEPS):
            for forward in (True, False):
                _pass(
                    potentials,
                    table,
                    edges,
                    ends,
                    begin,
                    first,
                    last,
                    e_first,
                    forward,
                    sent,
                    rows,
                    trial,
                )
            reached = 0.0
            for u in range(first, last):
                reached += potentials[u, trial[u]]
            for e in range(e_first, e_last):
                reached += table[e - e_first, trial[edges[e, 0]], trial[edges[e, 1]]]
            if reached > value:
                value = reached
                for u in range(first, last):
                    labels[u] = trial[u]
            if sweep % 3 == 2:
                reached = _bound(
                    potentials, table, edges, ends, begin, first, last, e_first, e_last, sent, rows,
                    trial_splits,
                )  # fmt: skip
                if reached < bound:
                    bound = reached
                    for e in range(e_first, e_last):
                        for side in range(2):
                            for k in range(n_labels):
                                splits[e, side, k] = trial_splits[e, side, k]
                # The second term allows for rounding errors.
                aim = tolerance * (bound - mean) + 1e-13 * abs(bound)
                if bound - value <= aim or before - bound <= 1e-3 * (bound - value):
                    break
                before = bound
        values[b], bounds[b], aims[b] = value, bound, aim


@njit(cache=True, nogil=True)
def _pass(potentials, table, edges, ends, begin, first, last, e_first, forward, messages, rows, labels):
    """Run a pass of tree-reweighted messages; forward passes also choose labels.

    The message of one end is the highest score by the label of the other end, minus the maximum.
    """
    n_labels = potentials.shape[1]
    incoming, scores, message = rows[0], rows[1], rows[2]
    for step in range(last - first):
        u = first + step if forward else last - 1 - step
        n_later_neighbors, degree = 0, begin[u + 1] - begin[u]
        for k in range(n_labels):
            incoming[k] = scores[k] = potentials[u, k]
        for i in range(begin[u], begin[u + 1]):
            e, side = ends[i] // 2, ends[i] % 2
            v = edges[e, 1 - side]
            n_later_neighbors += v > u
            for k in range(n_labels):
                incoming[k] += messages[e, side, k]
                if v > u:
                    scores[k] += messages[e, side, k]
                elif forward and side == 0:
                    scores[k] += table[e - e_first, k, labels[v]]
                elif forward:
                    scores[k] += table[e - e_first, labels[v], k]
        if forward:
            labels[u] = 0
            for k in range(1, n_labels):
                if scores[k] > scores[labels[u]]:
                    labels[u] = k
        parts = (
            n_later_neighbors
            if n_later_neighbors > degree - n_later_neighbors
            else degree - n_later_neighbors
        )
        share = 1.0 / parts if parts > 0 else 1.0
        for i in range(begin[u], begin[u + 1]):
            e, side = ends[i] // 2, ends[i] % 2
            if (edges[e, 1 - side] > u) != forward:
                continue
            highest = -np.inf
            for k in range(n_labels):
                scores[k], message[k] = share * incoming[k] - messages[e, side, k], -np.inf
            for k in range(n_labels):
                for other in range(n_labels):
                    own_label, other_label = (k, other) if side == 0 else (other, k)
                    value = scores[own_label] + table[e - e_first, k, other]
                    if value > message[other_label]:
                        message[other_label] = value
            for k in range(n_labels):
                highest = message[k] if message[k] > highest else highest
            for k in range(n_labels):
                messages[e, 1 - side, k] = message[k] - highest


@njit(cache=True, nogil=True)
def _bound(
    potentials, table, edges, ends, begin, first, last, e_first, e_last, sent, rows, splits,
):  # fmt: skip
    """Compute splits from messages, and return the sum of the edges' maxima.

    The sum is an upper bound. A split is added to an equal part of the node's potential. Nodes without
    edges contribute their highest potential.
    """
    n_labels, total = potentials.shape[1], 0.0
    mean, second = rows[0], rows[1]
    for u in range(first, last):
        degree, highest = begin[u + 1] - begin[u], -np.inf
        for k in range(n_labels):
            mean[k] = 0.0
            highest = potentials[u, k] if potentials[u, k] > highest else highest
        if degree == 0:
            total += highest
        for i in range(begin[u], begin[u + 1]):
            for k in range(n_labels):
                mean[k] += sent[ends[i] // 2, ends[i] % 2, k]
        for i in range(begin[u], begin[u + 1]):
            for k in range(n_labels):
                splits[ends[i] // 2, ends[i] % 2, k] = (
                    mean[k] / degree - sent[ends[i] // 2, ends[i] % 2, k]
                )
    for e in range(e_first, e_last):
        u, v, highest = edges[e, 0], edges[e, 1], -np.inf
        for k in range(n_labels):
            second[k] = potentials[v, k] / (begin[v + 1] - begin[v]) + splits[e, 1, k]
        for k in range(n_labels):
            height = potentials[u, k] / (begin[u + 1] - begin[u]) + splits[e, 0, k]
            for other in range(n_labels):
                value = height + table[e - e_first, k, other] + second[other]
                highest = value if value > highest else highest
        total += highest
    return total


def edge_maxima(
    own: np.ndarray,
    table: np.ndarray,
    edges: np.ndarray,
    degrees: np.ndarray,
    splits: np.ndarray,
    found: np.ndarray,
) -> None:
    """Compute the maximum of each edge, with its part of the potentials of both ends."""
    first, second = _parts(own, edges, degrees, splits)
    np.max(first[:, :, None] + table + second[:, None, :], axis=(1, 2), out=found)


def _parts(
    own: np.ndarray, edges: np.ndarray, degrees: np.ndarray, splits: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return each edge's part of the potentials of both ends."""
    first, second = (own[each] / degrees[each][:, None] for each in edges.T)
    return first + splits[:, 0], second + splits[:, 1]


def losses(
    own: np.ndarray,
    table: np.ndarray,
    edges: np.ndarray,
    degrees: np.ndarray,
    splits: np.ndarray,
    tops: np.ndarray,
    found: np.ndarray,
) -> np.ndarray:
    """Return each label pair's loss to the best pair of its edge, and update `found`.

    Shapes: `tops` (n_edges,), `found` (n_nodes, n_labels); returns (n_edges, n_labels, n_labels).
    """
    first, second = _parts(own, edges, degrees, splits)
    lost = tops[:, None, None] - first[:, :, None] - table - second[:, None, :]
    alone = (degrees == 0)[:, None] | (own == -np.inf)
    found[:] = np.where(alone, own.max(axis=1, keepdims=True) - own, 0.0)
    np.add.at(found, edges[:, 0], lost.min(axis=2))
    np.add.at(found, edges[:, 1], lost.min(axis=1))
    return lost


def split_others(
    own: np.ndarray,
    table: np.ndarray,
    edges: np.ndarray,
    ends: np.ndarray,
    begin: np.ndarray,
    tops: np.ndarray,
    active: np.ndarray,
    splits: np.ndarray,
) -> None:
    """Change the splits of inactive labels until no edge exceeds its maximum.

    The number of sweeps is limited, so some edges may stay above.

    Shapes: `tops` (n_edges,), `active` (n_nodes, n_labels), `splits` (n_edges, 2, n_labels).
    """
    above = np.empty(int(np.diff(begin).max(initial=0)))
    _split_others(own, table, edges, ends, begin, tops, active, above, splits)


@njit(cache=True, nogil=True)
def _split_others(own, table, edges, ends, begin, tops, active, above, splits):
    n_nodes, n_labels = own.shape
    for sweep in range(REPAIRS):
        changed = False
        for step in range(n_nodes):
            u = step if sweep % 2 == 0 else n_nodes - 1 - step
            degree = begin[u + 1] - begin[u]
            for k in range(n_labels):
                if active[u, k] or own[u, k] == -np.inf or degree == 0:
                    continue
                highest, total = -np.inf, 0.0
                for i in range(degree):
                    e, side = ends[begin[u] + i] // 2, ends[begin[u] + i] % 2
                    v, best = edges[e, 1 - side], -np.inf
                    part = begin[v + 1] - begin[v]
                    for other in range(n_labels):
                        pair = table[e, k, other] if side == 0 else table[e, other, k]
                        value = pair + own[v, other] / part + splits[e, 1 - side, other]
                        best = value if value > best else best
                    above[i] = best + own[u, k] / degree + splits[e, side, k] - tops[e]
                    highest = above[i] if above[i] > highest else highest
                    total += above[i]
                if highest > 0.0:
                    changed = True
                    for i in range(degree):
                        e, side = ends[begin[u] + i] // 2, ends[begin[u] + i] % 2
                        splits[e, side, k] -= above[i] - total / degree
        if not changed:
            break


def fit(joint: np.ndarray, nodes: np.ndarray, edges: np.ndarray) -> None:
    """Adjust pair fractions to the node fractions (Altschuler et al. 2017, alg. 2)."""
    first, second = nodes[edges].transpose(1, 0, 2)
    for axis, target in ((2, first), (1, second)):
        sums = joint.sum(axis=axis)
        joint *= np.expand_dims(
            np.divide(target, sums, out=np.ones(sums.shape), where=sums > target), axis
        )
    first_deficit = np.maximum(0.0, first - joint.sum(axis=2))
    second_deficit = np.maximum(0.0, second - joint.sum(axis=1))
    totals = second_deficit.sum(axis=1, keepdims=True)
    ratios = np.divide(second_deficit, totals, out=np.zeros(second_deficit.shape), where=totals > 0)
    joint += first_deficit[:, :, None] * ratios[:, None, :]


def totals(joint: np.ndarray, features: np.ndarray, owners: np.ndarray, found: np.ndarray) -> None:
    """Add each graph's sum of edge features times pair fractions to `found`."""
    flat, every = joint.reshape(len(joint), -1), np.arange(len(joint))
    for j in range(features.shape[1]):
        place = sp.csr_matrix((features[:, j], (owners, every)), (len(found), len(joint)))
        found[:, j] += (place @ flat).reshape(found[:, j].shape)
