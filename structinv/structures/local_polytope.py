"""Maximum over the local polytope: message passing, then linear programs.

A split of the potentials among edges gives each pair of labels a loss to the best pair of its edge. The
first program has the fractions of a few labels of each node, those with small losses. It minimizes the
loss of their pairs. Its dual variables are added to the splits and close the gap for these labels. The
splits of other labels are changed until their pairs do not exceed the maximum of an edge. For this, the
changes of dual variables are limited (du Merle et al. 1999). If the gap stays open, a second program has
all labels. Small graphs share a program.

Before, tree-reweighted messages (Kolmogorov 2006) approach the bound quickly, but may stop above it.
Each node has fractions of its labels, which add up to 1. Each edge has fractions of the label pairs of
its ends, with the node fractions as sums. The score is linear in the fractions; labelings are the
integral points. The bound is the sum of the edges' maxima: it is the dual of the same linear program.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp
from scipy.optimize import linprog

from ..utils.jit import LEAN, njit
from .decodings import Layout

if TYPE_CHECKING:
    from .graph import GraphLayout

# Maximum number of message sweeps, and of sweeps that repair splits of inactive labels.
SWEEPS, REPAIRS = 60, 4
# Labels of the first program: largest loss, in units of the graph's gap, and average number per node.
# Largest change of a dual variable, relative to the largest loss.
START_GAPS, START_LABELS, START_MOVES = 30.0, 4.0, 0.25
# Approximate number of label pairs in a shared program.
PAIRS_AT_ONCE = 3000
# Fractions up to this value are set to 0. Relative tolerance for equal values.
LEAST_SHARE, ROUNDING = 1e-9, 1e-13


@dataclass(frozen=True)
class Relaxation:
    """Maximum of each chosen graph over the local polytope, with bounds.

    - `labels` (n_nodes,): best labeling found
    - `values, bounds, aims` (n_graphs,): score attained by the labeling or by fractions, upper bound of
      the maximum, and largest acceptable gap
    - `whole` (n_graphs,): true if the labeling attains the value
    - `nodes` (n_nodes, n_labels): fractions of labels, for graphs that are not `whole`
    - `features` (n_edge_features, n_labels, n_labels): factors of the tables of each such graph
    """

    labels: np.ndarray
    values: np.ndarray
    bounds: np.ndarray
    aims: np.ndarray
    whole: np.ndarray
    nodes: np.ndarray
    features: dict[int, np.ndarray]

    def open(self) -> np.ndarray:
        """Return True for each graph whose gap is too large, (n_graphs,)."""
        return np.isfinite(self.bounds) & (self.values < self.bounds - self.aims)


def maximum(
    potentials: np.ndarray,
    tables: np.ndarray,
    graphs: GraphLayout,
    chosen: np.ndarray,
    tolerance: float,
    max_steps: int,
) -> Relaxation:
    """Maximize over the local polytope of the chosen graphs.

    Shapes: `potentials` (n_nodes, n_labels), `tables` (n_edge_features, n_labels, n_labels), `chosen`
    (n_graphs,).
    """
    relaxation, splits = _by_messages(potentials, tables, graphs, chosen, tolerance)
    blocks = np.flatnonzero(relaxation.open())
    for every in (False, True):
        if len(blocks) == 0:
            break
        part = _Part(potentials, tables, graphs, blocks, splits, relaxation.labels)
        part.choose(relaxation, every)
        solved = part.solve(max_steps)
        part.raise_values(relaxation)
        lower = part.lower_bounds(relaxation)[part.edge_owners]
        splits[part.edge_rows[lower]] = part.splits[lower]
        blocks = blocks[relaxation.open()[blocks] & ~part.complete & solved]
    return relaxation


def _by_messages(
    potentials: np.ndarray, tables: np.ndarray, graphs: GraphLayout, chosen: np.ndarray, tolerance: float
) -> tuple[Relaxation, np.ndarray]:
    """Pass messages in every chosen graph; return labelings with bounds, and splits.

    Shapes: `splits` (n_edges, 2, n_labels).
    """
    (n_nodes, n_labels), n_edges = potentials.shape, np.diff(graphs.edge_starts)
    starts, edges, edge_starts, features = graphs.arrays
    edges = edges + np.repeat(starts[:-1], n_edges)[:, None]
    ends, begin = _incident(n_nodes, edges)
    values, bounds, aims = np.zeros((3, len(graphs)))
    labels, whole = np.zeros(n_nodes, dtype=np.int64), np.ones(len(graphs), dtype=bool)
    splits, sent, trial_splits = np.zeros((3, len(edges), 2, n_labels))
    table, rows = np.empty((int(n_edges.max(initial=0)), n_labels, n_labels)), np.empty((4, n_labels))
    _messages(
        potentials, tables, starts, edges, edge_starts, features, ends, begin, chosen, tolerance,
        table, sent, trial_splits, rows, labels.copy(), labels, splits, values, bounds, aims,
    )  # fmt: skip
    return Relaxation(labels, values, bounds, aims, whole, np.zeros(potentials.shape), {}), splits


def _incident(n_nodes: int, edges: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the edges of each node as 2 e + side, in node order, and their starts."""
    ends = np.argsort(edges.ravel(), kind="stable")
    return ends, np.r_[0, np.cumsum(np.bincount(edges.ravel(), minlength=n_nodes))]


class _Part:
    """Some of the graphs as one graph, with the losses of label pairs.

    Shapes: `blocks` (n,).
    """

    def __init__(
        self,
        potentials: np.ndarray,
        tables: np.ndarray,
        graphs: GraphLayout,
        blocks: np.ndarray,
        splits: np.ndarray,
        labels: np.ndarray,
    ) -> None:
        part = graphs.take(blocks)
        self.blocks, self.rows, self.owners = blocks, graphs.rows(blocks), part.owners
        self.by_nodes, self.by_edges = Layout(part.starts), Layout(part.edge_starts)
        self.edge_rows = Layout(graphs.edge_starts).rows(blocks)
        self.edge_owners = self.by_edges.owners
        self.features = part.edge_features
        self.edges = part.edges + part.starts[self.edge_owners][:, None]
        self.potentials, self.splits = potentials[self.rows], splits[self.edge_rows]
        self.table = np.tensordot(part.edge_features, tables, 1)
        self.ends, self.begin = _incident(len(self.potentials), self.edges)
        self.degrees = np.diff(self.begin)
        self.tops = self._tops(self.potentials)
        self.lost, self.least = self._losses()
        # Start with the fractions of the labeling.
        self.labels, each = labels[self.rows], np.eye(self.potentials.shape[1])
        first, second = each[self.labels[self.edges]].transpose(1, 0, 2)
        self.nodes, self.joint = each[self.labels], first[:, :, None] * second[:, None, :]

    def _parts(self, potentials: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return each edge's part of the potentials of both ends, (n_edges, n_labels)."""
        first, second = (potentials[ends] / self.degrees[ends][:, None] for ends in self.edges.T)
        return first + self.splits[:, 0], second + self.splits[:, 1]

    def _tops(self, potentials: np.ndarray) -> np.ndarray:
        """Return the maximum of each edge, with its part of the potentials of both ends."""
        first, second = self._parts(potentials)
        found: np.ndarray = np.max(first[:, :, None] + self.table + second[:, None, :], axis=(1, 2))
        return found

    def _losses(self) -> tuple[np.ndarray, np.ndarray]:
        """Return each label pair's loss to the best pair of its edge, and the least loss of each label.

        Shapes: returns (n_edges, n_labels, n_labels), (n_nodes, n_labels).
        """
        own = self.potentials
        first, second = self._parts(own)
        lost = self.tops[:, None, None] - first[:, :, None] - self.table - second[:, None, :]
        alone = (self.degrees == 0)[:, None] | (own == -np.inf)
        least = np.where(alone, own.max(axis=1, keepdims=True) - own, 0.0)
        np.add.at(least, self.edges[:, 0], lost.min(axis=2))
        np.add.at(least, self.edges[:, 1], lost.min(axis=1))
        return lost, least

    def _sums(self, of_nodes: np.ndarray, of_edges: np.ndarray) -> np.ndarray:
        """Return the sums over the nodes and edges of each graph."""
        n_blocks = len(self.blocks)
        return np.bincount(self.owners, of_nodes, n_blocks) + np.bincount(
            self.edge_owners, of_edges, n_blocks
        )

    def _scores(self, labels: np.ndarray) -> np.ndarray:
        """Return the score of a labeling of each graph."""
        own = self.potentials[np.arange(len(labels)), labels]
        return self._sums(own, self.table[np.arange(len(self.edges)), *labels[self.edges].T])

    def choose(self, found: Relaxation, every: bool) -> None:
        """Choose the active labels of the programs and the limits of the dual variables."""
        n_labels, allowed = self.potentials.shape[1], self.potentials > -np.inf
        limits = START_GAPS * (found.bounds - found.values)[self.blocks]
        if every or self.table.size <= PAIRS_AT_ONCE:
            limits[:] = np.inf
        elif n_labels > START_LABELS:
            each = np.split(self.least, self.by_nodes.starts[1:-1])
            limits = np.minimum(
                limits, [np.quantile(losses, START_LABELS / n_labels) for losses in each]
            )
        self.active = allowed & (self.least <= limits[self.owners][:, None])
        self.active[np.arange(len(self.rows)), self.labels] = True
        self.complete = self.by_nodes.sums((allowed & ~self.active).sum(axis=1)) == 0
        self.moves = np.where(self.complete, np.inf, np.maximum(START_MOVES * limits, 1e-9))

    def solve(self, max_steps: int) -> np.ndarray:
        """Solve linear programs for fractions and splits; return True for solved graphs."""
        counts = self.active.sum(axis=1)[self.edges]
        pairs = np.bincount(self.edge_owners, counts[:, 0] * counts[:, 1], len(self.blocks))
        portions = (np.cumsum(pairs) // PAIRS_AT_ONCE).astype(np.int64)
        solved = np.zeros(len(self.blocks), dtype=bool)
        for each in np.unique(portions):
            chosen = np.flatnonzero(portions == each)
            solved[chosen] = self._solve(chosen, max_steps * len(chosen))
        return solved

    def _solve(self, chosen: np.ndarray, max_steps: int) -> bool:
        """Solve the program of some of the graphs; return True if it has a solution."""
        rows, edges = self.by_nodes.rows(chosen), self.by_edges.rows(chosen)
        places = np.zeros(len(self.potentials), dtype=np.int64)
        places[rows] = np.arange(len(rows))
        ends = places[self.edges[edges]]
        isolated = np.where(self.degrees[rows] == 0, 1.0, 0.0)[:, None]
        active = self.active[rows]
        node_loss = isolated * np.where(active, self.least[rows], 0.0)
        moves = self.moves[self.edge_owners[edges]]
        solution = _program(active, ends, node_loss, self.lost[edges], moves, max_steps)
        if solution is None:
            return False
        self.nodes[rows], self.joint[edges], duals = solution
        # The splits of a node add up to 0 over its edges.
        total = np.zeros(self.nodes[rows].shape)
        for side in range(2):
            np.add.at(total, ends[:, side], duals[:, side])
        total /= np.maximum(1, self.degrees[rows])[:, None]
        self.splits[edges] += duals - total[ends]
        return True

    def raise_values(self, found: Relaxation) -> None:
        """Store the fractions, or their rounded labeling, if the score is higher."""
        _fit(self.joint, self.nodes, self.edges)
        terms = np.where(self.nodes > 0, self.potentials, 0.0) * self.nodes
        shared = self._sums(terms.sum(axis=1), np.einsum("ekl,ekl->e", self.joint, self.table))
        rounded = np.argmax(self.nodes, axis=1)
        reached, scores = self._scores(rounded), self._scores(self.labels)
        better = (reached > scores)[self.owners]
        found.labels[self.rows[better]] = rounded[better]
        scores = np.maximum(scores, reached)
        whole = shared <= scores + ROUNDING * (1.0 + np.abs(scores))
        values = np.where(whole, scores, shared)
        risen = values >= found.values[self.blocks]
        found.values[self.blocks[risen]] = values[risen]
        found.whole[self.blocks[risen]] = whole[risen]
        mixed = risen & ~whole
        rows = mixed[self.owners]
        found.nodes[self.rows[rows]] = self.nodes[rows]
        n_labels = self.potentials.shape[1]
        features = np.zeros((len(whole), self.features.shape[1], n_labels, n_labels))
        flat, shape = self.joint.reshape(len(self.joint), -1), (len(whole), len(self.joint))
        for j, factors in enumerate(self.features.T):
            of_graph = sp.csr_matrix((factors, np.arange(len(flat)), self.by_edges.starts), shape)
            features[:, j] = (of_graph @ flat).reshape(-1, n_labels, n_labels)
        found.features.update((int(self.blocks[i]), features[i]) for i in np.flatnonzero(mixed))

    def lower_bounds(self, found: Relaxation) -> np.ndarray:
        """Split the potentials of inactive labels; return True for graphs whose bound decreased."""
        few = np.where(self.active, self.potentials, -np.inf)
        self.tops = self._tops(few)
        _split_others(
            self.potentials, self.table, self.edges, self.ends, self.begin, self.tops, self.active,
            self.splits,
        )  # fmt: skip
        self.tops = self._tops(self.potentials)
        alone = np.where(self.degrees == 0, self.potentials.max(axis=1), 0.0)
        bounds = self._sums(alone, self.tops)
        lower = bounds < found.bounds[self.blocks]
        found.bounds[self.blocks[lower]] = bounds[lower]
        return lower


def _program(
    active: np.ndarray,
    edges: np.ndarray,
    node_loss: np.ndarray,
    lost: np.ndarray,
    moves: np.ndarray,
    max_steps: int,
) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """Return the fractions with the smallest loss, and the dual variables.

    Shapes: `active` (n_nodes, n_labels), `edges` (n_edges, 2), `node_loss` (n_nodes, n_labels), `lost`
    (n_edges, n_labels, n_labels), `moves` (n_edges,); returns `nodes` (n_nodes, n_labels), `joint`
    (n_edges, n_labels, n_labels), `duals` (n_edges, 2, n_labels).
    """
    ends = active[edges]
    edge, first, second = np.nonzero(ends[:, 0, :, None] & ends[:, 1, None, :])
    # One column per active label and per pair; one row per node and per label of an end.
    columns, n_nodes = np.cumsum(active).reshape(active.shape) - 1, len(active)
    rows = n_nodes + np.cumsum(ends).reshape(ends.shape) - 1
    n_own, n_rows = int(active.sum()), n_nodes + int(ends.sum())
    pairs = n_own + np.arange(len(edge))
    of_ends = np.nonzero(ends)
    where = np.concatenate(
        [np.nonzero(active)[0], rows[of_ends], rows[edge, 0, first], rows[edge, 1, second]]
    )
    which = np.concatenate([np.arange(n_own), columns[edges[of_ends[:2]], of_ends[2]], pairs, pairs])
    signs = np.concatenate([np.ones(n_own), -np.ones(len(of_ends[0])), np.ones(2 * len(edge))])
    price = moves[of_ends[0]]
    paid, price = rows[of_ends][np.isfinite(price)], price[np.isfinite(price)]
    both, n_columns = np.repeat([1.0, -1.0], len(paid)), n_own + len(edge) + 2 * len(paid)
    where = np.concatenate([where, paid, paid])
    which = np.concatenate([which, np.arange(n_own + len(edge), n_columns)])
    answer = linprog(
        np.concatenate([node_loss[active], lost[edge, first, second], price, price]),
        A_eq=sp.csc_matrix((np.concatenate([signs, both]), (where, which)), (n_rows, n_columns)),
        b_eq=np.concatenate([np.ones(n_nodes), np.zeros(n_rows - n_nodes)]),
        method="highs-ds",
        options={
            "maxiter": max_steps,
            "primal_feasibility_tolerance": 1e-10,
            "dual_feasibility_tolerance": 1e-10,
        },
    )
    if answer.status != 0:
        return None
    fractions = np.where(answer.x > LEAST_SHARE, answer.x, 0.0)
    nodes, joint, duals = np.zeros(active.shape), np.zeros(lost.shape), np.zeros(ends.shape)
    nodes[active], joint[edge, first, second] = fractions[:n_own], fractions[n_own : n_own + len(edge)]
    nodes /= nodes.sum(axis=1, keepdims=True)
    duals[of_ends] = answer.eqlin.marginals[n_nodes:]
    return nodes, joint, duals


def _fit(joint: np.ndarray, nodes: np.ndarray, edges: np.ndarray) -> None:
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


@njit(**LEAN)
def _messages(
    potentials, tables, starts, edges, edge_starts, features, ends, begin, chosen, tolerance,
    table, sent, trial_splits, rows, trial, labels, splits, values, bounds, aims,
):  # fmt: skip
    """Run `_by_messages`. Node numbers in `edges` count all graphs, and `sent` contains zeros."""
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
                    potentials, table, edges, ends, begin, first, last, e_first, forward, sent, rows,
                    trial,
                )  # fmt: skip
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


@njit(**LEAN)
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
        parts = max(n_later_neighbors, degree - n_later_neighbors)
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


@njit(**LEAN)
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
                e, side = ends[i] // 2, ends[i] % 2
                splits[e, side, k] = mean[k] / degree - sent[e, side, k]
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


@njit(cache=True, nogil=True)
def _split_others(own, table, edges, ends, begin, tops, active, splits):
    """Change the splits of inactive labels until no edge exceeds its maximum.

    The number of sweeps is limited, so some edges may stay above.

    Shapes: `tops` (n_edges,), `active` (n_nodes, n_labels), `splits` (n_edges, 2, n_labels).
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
