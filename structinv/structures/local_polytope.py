"""Maximum over the local polytope: message passing, then linear programs.

A split of the potentials among edges gives each pair of labels a loss to the best pair of its edge. The
first program has the fractions of a few labels of each node, those with small losses. It minimizes the
loss of their pairs. Its dual variables are added to the splits and close the gap for these labels. The
splits of other labels are changed until their pairs do not exceed the maximum of an edge. For this, the
changes of dual variables are limited (du Merle et al. 1999). If the gap stays open, a second program has
all labels. Small graphs share a program.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from scipy.optimize import linprog

from . import relaxed
from .graph_layout import GraphLayout
from .layout import Layout

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
    values, bounds, aims = np.zeros((3, len(graphs)))
    labels, whole = np.zeros(len(potentials), dtype=np.int64), np.ones(len(graphs), dtype=bool)
    splits = np.zeros((len(graphs.edges), 2, potentials.shape[1]))
    relaxed.messages(
        potentials, tables, *graphs.arrays, chosen, tolerance, labels, splits, values, bounds, aims
    )
    relaxation = Relaxation(labels, values, bounds, aims, whole, np.zeros(potentials.shape), {})
    blocks = np.flatnonzero(relaxation.open())
    for every in (False, True):
        if len(blocks) == 0:
            break
        part = _Part(potentials, tables, graphs, blocks, splits, labels)
        part.choose(relaxation, every)
        solved = part.solve(max_steps)
        part.raise_values(relaxation)
        lower = part.lower_bounds(relaxation)[part.edge_owners]
        splits[part.edge_rows[lower]] = part.splits[lower]
        blocks = blocks[relaxation.open()[blocks] & ~part.complete & solved]
    return relaxation


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
        self.table = relaxed.edge_tables(part.edge_features, tables)
        self.ends, self.begin = relaxed.incident(len(self.potentials), self.edges)
        self.degrees = np.diff(self.begin)
        self.tops, self.least = np.empty(len(self.edges)), np.empty(self.potentials.shape)
        self._find_tops()
        self.lost = relaxed.losses(
            self.potentials, self.table, self.edges, self.degrees, self.splits, self.tops, self.least
        )
        # Start with the fractions of the labeling.
        self.labels, each = labels[self.rows], np.eye(self.potentials.shape[1])
        first, second = each[self.labels[self.edges]].transpose(1, 0, 2)
        self.nodes, self.joint = each[self.labels], first[:, :, None] * second[:, None, :]

    def _find_tops(self) -> None:
        relaxed.edge_maxima(
            self.potentials, self.table, self.edges, self.degrees, self.splits, self.tops
        )

    def _sums(self, of_nodes: np.ndarray, of_edges: np.ndarray) -> np.ndarray:
        """Return the sums over the nodes and edges of each graph."""
        n_blocks = len(self.blocks)
        return np.bincount(self.owners, of_nodes, n_blocks) + np.bincount(
            self.edge_owners, of_edges, n_blocks
        )

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
        relaxed.fit(self.joint, self.nodes, self.edges)
        terms = np.where(self.nodes > 0, self.potentials, 0.0) * self.nodes
        shared = self._sums(terms.sum(axis=1), np.einsum("ekl,ekl->e", self.joint, self.table))
        rounded = np.argmax(self.nodes, axis=1)
        first, second = rounded[self.edges].T
        reached = self._sums(
            self.potentials[np.arange(len(rounded)), rounded],
            self.table[np.arange(len(first)), first, second],
        )
        scores = self._sums(
            self.potentials[np.arange(len(rounded)), self.labels],
            self.table[np.arange(len(first)), *self.labels[self.edges].T],
        )
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
        relaxed.totals(self.joint, self.features, self.edge_owners, features)
        found.features.update((int(self.blocks[i]), features[i]) for i in np.flatnonzero(mixed))

    def lower_bounds(self, found: Relaxation) -> np.ndarray:
        """Split the potentials of inactive labels; return True for graphs whose bound decreased."""
        few = np.where(self.active, self.potentials, -np.inf)
        relaxed.edge_maxima(few, self.table, self.edges, self.degrees, self.splits, self.tops)
        relaxed.split_others(
            self.potentials, self.table, self.edges, self.ends, self.begin, self.tops, self.active,
            self.splits,
        )  # fmt: skip
        self._find_tops()
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
