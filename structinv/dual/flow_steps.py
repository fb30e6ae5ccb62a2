"""Exact steps on the edge marginals of unperturbed sequences.

The labelings of a sequence are paths through a trellis with one node per position and label. An average
of labelings is a flow of one unit. The flow on an edge is the total dual variable of all labelings with
this edge. It is the marginal of two neighboring labels (Taskar, Guestrin and Koller 2003). Functions
share these groups of arrays, for K labels:

- ``rows``: indptr, indices and data of CSR rows.
- ``truth``: starts of the sequences, true labels (n,), costs (n, K), a mask (K + 2, K), and weights of
  the sequences. The mask of transitions, first and last labels is minus infinity for forbidden ones, and
  0 otherwise.
- ``stored``: first slot (n_blocks + 1,) and number of used slots of each sequence, edge and flow of each
  slot. The edge from label j to label k of position t has the number ``(t (K + 1) + j) K + k``. Before
  the first position, j is K.
- ``parameters``: weights by feature (d, K), and transitions, first and last labels (K + 2, K).
- ``zeros``: (d, K) and (K + 2, K), for the normal of a step.
- ``room``: arrays of `workspace`.
"""

from __future__ import annotations

import numpy as np

from ..structures.sequence import before as label_before
from ..structures.sequence import viterbi
from ..utils.jit import LEAN, njit
from .chain_steps import fill_scores, score

# Smaller flows are set to zero.
LEAST_FLOW = 1e-14


def workspace(longest: int, n_labels: int) -> tuple[np.ndarray, ...]:
    """Return arrays for the visit of a sequence of at most `longest` rows.

    They are flow, tables, links, gains, active labels, back pointers and paths.
    """
    return (
        np.zeros((longest, n_labels + 1, n_labels)),
        np.zeros((2, longest + 1, n_labels)),
        np.zeros((n_labels + 2, n_labels)),
        np.zeros((1, n_labels)),
        np.full((longest + 1, n_labels), n_labels),
        np.zeros((longest + 1, n_labels), dtype=np.int64),
        np.full((3, longest + 1), n_labels),
    )


@njit(**LEAN)
def sweep(order, moves, rows, truth, stored, parameters, zeros, room, gaps, losses):
    """Maximize the dual over each sequence of `order`, and change arrays in place.

    A visit finds the best labeling, and moves flow to it on each segment where it differs from the worst
    labeling with flow. If `moves` is False, it only computes the `losses`, without weights.
    """
    starts, codes, costs, barred, weights = truth
    flow, tables, links, gains, active, back, paths = room
    potentials, path_scores = tables[0], tables[1]
    best, worst, counts = paths[0], paths[1], paths[2]
    table, link_weights = parameters
    n_labels = costs.shape[1]
    for b in order:
        begin, size, weight = starts[b], starts[b + 1] - starts[b], weights[b]
        for j in range(n_labels + 2):
            for k in range(n_labels):
                links[j, k] = link_weights[j, k] + barred[j, k]
        fill_scores(begin, size, rows, codes, costs, (1.0, 1.0), table, potentials, potentials, gains)
        label, highest = viterbi(potentials, 0, size, links, path_scores)
        base = score(potentials, links, size, codes, begin)
        losses[b] = highest - base if highest > base else 0.0
        if not moves:
            continue
        best[size] = label
        for t in range(size - 1, 0, -1):
            label = label_before(t, label, links, path_scores)
            best[t] = label
        unpack(b, size, stored, flow, active, counts)
        mean = find_lowest(size, potentials, links, flow, active, counts, path_scores, back, worst)
        gaps[b] = weight * (highest - mean) if highest > mean else 0.0
        t = 0 if gaps[b] > 1e-15 * weight * abs(base) else size
        while t < size:
            end = t
            while end < size and best[end + 1] != worst[end + 1]:
                end += 1
            if end > t:
                move(begin, t, end, size, weight, rows, costs, paths, flow, active, parameters, zeros)
            t = end + 1
        pack(b, size, stored, flow, active, counts)


@njit(**LEAN)
def unpack(b, size, stored, flow, active, counts):
    """Write the flow of a sequence into a table of zeros; list the labels with flow."""
    first, used, edges, flows = stored
    n_labels = flow.shape[2]
    counts[0] = 1
    for t in range(size):
        counts[t + 1] = 0
    for i in range(first[b], first[b] + used[b]):
        k, rest = edges[i] % n_labels, edges[i] // n_labels
        t, q = rest // (n_labels + 1), 0
        flow[t, rest % (n_labels + 1), k] = flows[i]
        while q < counts[t + 1] and active[t + 1, q] != k:
            q += 1
        active[t + 1, q] = k
        counts[t + 1] = q + 1 if q == counts[t + 1] else counts[t + 1]


@njit(**LEAN)
def pack(b, size, stored, flow, active, counts):
    """Write the flow of a sequence into its slots, and reset the table to zero."""
    first, used, edges, flows = stored
    n_labels, i = flow.shape[2], first[b]
    for t in range(size):
        for p in range(counts[t]):
            j = active[t, p]
            for q in range(counts[t + 1]):
                k = active[t + 1, q]
                if flow[t, j, k] > 0.0:
                    edges[i], flows[i] = (t * (n_labels + 1) + j) * n_labels + k, flow[t, j, k]
                    flow[t, j, k] = 0.0
                    i += 1
    used[b] = i - first[b]


@njit(**LEAN)
def find_lowest(size, potentials, links, flow, active, counts, path_scores, back, worst):
    """Find the labeling with flow and the smallest score; return the mean score.

    Labels without flow are removed from the lists.
    """
    n_labels, mean = links.shape[1], 0.0
    for t in range(size):
        stored = 0
        for q in range(counts[t + 1]):
            k, low, origin, total = active[t + 1, q], np.inf, 0, 0.0
            for p in range(counts[t]):
                j = active[t, p]
                amount = flow[t, j, k]
                if amount > 0.0:
                    value = links[j, k] if t == 0 else path_scores[t, j] + links[j, k]
                    total += amount
                    mean += amount * links[j, k]
                    if value < low:
                        low, origin = value, j
            if total == 0.0:
                # Rounding errors after it are also removed.
                for i in range(n_labels if t + 1 < size else 0):
                    flow[t + 1, k, i] = 0.0
                continue
            mean += total * potentials[t, k]
            low += potentials[t, k]
            if t == size - 1:
                mean += total * links[n_labels + 1, k]
                low += links[n_labels + 1, k]
            path_scores[t + 1, k], back[t + 1, k] = low, origin
            active[t + 1, stored] = k
            stored += 1
        counts[t + 1] = stored
    label = active[size, 0]
    for q in range(1, counts[size]):
        if path_scores[size, active[size, q]] < path_scores[size, label]:
            label = active[size, q]
    for t in range(size, 0, -1):
        worst[t] = label
        label = back[t, label]
    return mean


@njit(**LEAN)
def move(begin, start, end, size, weight, rows, costs, paths, flow, active, parameters, zeros):
    """Do an exact step from the worst labeling to the best one on a segment.

    Both differ at all positions from `start` to ``end - 1``, and agree at the neighboring positions.
    Scores are computed from the weights, because earlier steps may have changed them. A step moves at
    most the smallest flow of all edges.
    """
    indptr, ids, data = rows
    table, link_weights = parameters
    normal, link_normal = zeros
    best, worst, counts = paths[0], paths[1], paths[2]
    n_labels, last = costs.shape[1], end if end < size else size - 1
    alone = end == start + 1
    step, gain, curvature = np.inf, 0.0, 0.0
    for t in range(start, last + 1):
        old, new, z, a = worst[t], best[t], worst[t + 1], best[t + 1]
        gain += link_weights[new, a] - link_weights[old, z]
        link_normal[new, a] += 1.0
        link_normal[old, z] -= 1.0
        step = flow[t, old, z] if flow[t, old, z] < step else step
    for t in range(start, last + 1):
        curvature += link_normal[best[t], best[t + 1]] - link_normal[worst[t], worst[t + 1]]
    if end == size:
        gain += link_weights[n_labels + 1, best[size]] - link_weights[n_labels + 1, worst[size]]
        curvature += 2.0
    for t in range(start, end):
        z, a = worst[t + 1], best[t + 1]
        gain += costs[begin + t, a] - costs[begin + t, z]
        for e in range(indptr[begin + t], indptr[begin + t + 1]):
            row, x = table[ids[e]], data[e]
            gain += x * (row[a] - row[z])
            if alone:
                curvature += 2.0 * x * x
            else:
                normal[ids[e], a] += x
                normal[ids[e], z] -= x
    for t in range(start, start if alone else end):
        z, a = worst[t + 1], best[t + 1]
        for e in range(indptr[begin + t], indptr[begin + t + 1]):
            curvature += data[e] * (normal[ids[e], a] - normal[ids[e], z])
    if weight * curvature * step > gain:
        step = gain / (weight * curvature) if gain > 0.0 else 0.0
    change = weight * step
    for t in range(start, last + 1):
        old, new, z, a = worst[t], best[t], worst[t + 1], best[t + 1]
        link_normal[new, a] = link_normal[old, z] = 0.0
        link_weights[new, a] -= change
        link_weights[old, z] += change
        flow[t, new, a] += step
        left = flow[t, old, z] - step
        flow[t, old, z] = left if left > LEAST_FLOW else 0.0
    if end == size:
        link_weights[n_labels + 1, best[size]] -= change
        link_weights[n_labels + 1, worst[size]] += change
    for t in range(start, end):
        z, a, q = worst[t + 1], best[t + 1], 0
        while q < counts[t + 1] and active[t + 1, q] != a:
            q += 1
        active[t + 1, q] = a
        counts[t + 1] = q + 1 if q == counts[t + 1] else counts[t + 1]
        for e in range(indptr[begin + t], indptr[begin + t + 1]):
            row, x = table[ids[e]], change * data[e]
            row[a] -= x
            row[z] += x
            if not alone:
                normal[ids[e], a] = normal[ids[e], z] = 0.0


@njit(**LEAN)
def split(starts, codes, stored, room, labels, alphas):
    """Split the flow of each sequence into labelings with dual variables.

    A labeling follows the largest flow, and takes the smallest flow on its path. The number of labelings
    is the number of edges minus the number of positions plus 1. Unneeded labelings and the true labeling
    have the dual variable 0.
    """
    flow, active, paths = room[0], room[4], room[6]
    counts, path, place, at = paths[2], paths[0], 0, 0
    n_labels = flow.shape[2]
    for b in range(len(starts) - 1):
        begin, size = starts[b], starts[b + 1] - starts[b]
        unpack(b, size, stored, flow, active, counts)
        for _ in range(stored[1][b] - size + 1):
            alpha, wrong = np.inf, False
            for t in range(size):
                largest = -1.0
                for q in range(counts[t + 1]):
                    k = active[t + 1, q]
                    if flow[t, path[t], k] > largest:
                        largest, path[t + 1] = flow[t, path[t], k], k
                labels[at + t] = path[t + 1]
                wrong = wrong or path[t + 1] != codes[begin + t]
                alpha = largest if largest < alpha else alpha
            if alpha > LEAST_FLOW:
                alphas[place] = alpha if wrong else 0.0
                for t in range(size):
                    left = flow[t, path[t], path[t + 1]] - alpha
                    flow[t, path[t], path[t + 1]] = left if left > LEAST_FLOW else 0.0
            place += 1
            at += size
        for t in range(size):
            for j in range(n_labels + 1):
                for k in range(n_labels):
                    flow[t, j, k] = 0.0
