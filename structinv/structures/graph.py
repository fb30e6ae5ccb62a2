"""Graphs of labels: nodes have labels, and what the two ends of an edge have together is learnt."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone

from ..matrices import Matrix, Rows, stack
from . import elimination, forests, relaxed
from .base import Decoding, Structure
from .elimination import Elimination
from .layout import Layout

INFERENCES = ("auto", "exact", "relaxed")


@dataclass(frozen=True)
class GraphLayout(Layout):
    """Which nodes and edges belong to which graph.

    Parameters
    ----------
    starts : (n_graphs + 1,) array of int
        Graph b has the nodes ``starts[b]`` to ``starts[b + 1] - 1``.
    edges : (n_edges, 2) array of int
        The two ends of each edge; each graph numbers its nodes from 0.
    edge_starts : (n_graphs + 1,) array of int
        Graph b has the edges ``edge_starts[b]`` to ``edge_starts[b + 1] - 1``.
    edge_features : (n_edges, n_edge_features) array

    Examples
    --------
    >>> layout = GraphLayout.of_graphs([2, 3], [[(0, 1)], [(0, 1), (2, 1)]])
    >>> layout.take(np.array([1])).edges
    array([[0, 1],
           [2, 1]])
    >>> layout.edge_features.shape
    (3, 1)
    """

    edges: np.ndarray
    edge_starts: np.ndarray
    edge_features: np.ndarray
    # Orders of elimination by the number of labels, which are found when they are asked for; a part asks
    # the whole that it was taken from, so that they are found once.
    _known: dict[int, Elimination] = field(default_factory=dict, compare=False, repr=False)
    _whole: tuple[GraphLayout, np.ndarray] | None = field(default=None, compare=False, repr=False)

    @classmethod
    def of_graphs(
        cls, sizes: Sequence[int], edges: Sequence[Any], edge_features: Sequence[Any] | None = None
    ) -> GraphLayout:
        """Graphs of so many nodes and with these edges; without features every edge has a constant 1.

        Raises
        ------
        ValueError
            If edges or features do not fit; the message names the graph.
        """
        starts = Layout.of_lengths(sizes).starts
        ends = [_edges(each, int(size), i) for i, (size, each) in enumerate(zip(sizes, edges, strict=True))]
        if edge_features is None:
            features = [np.ones((len(each), 1)) for each in ends]
        else:
            features = _edge_features(edge_features, ends)
        return cls(
            starts, np.vstack(ends), np.r_[0, np.cumsum([len(each) for each in ends])], np.vstack(features)
        )

    @classmethod
    def of(cls, layout: Layout, n_features: int) -> GraphLayout:
        """A layout that may know no edges: then there are none."""
        if isinstance(layout, cls):
            return layout
        none = np.zeros((0, 2), dtype=np.int64), np.zeros(len(layout) + 1, dtype=np.int64)
        return cls(layout.starts, *none, np.zeros((0, n_features)))

    def take(self, blocks: Rows) -> Self:
        """See `Layout.take`."""
        chosen = np.arange(len(self))[blocks]
        by_edges = Layout(self.edge_starts)
        edges = by_edges.rows(chosen)
        return type(self)(
            super_starts(self.starts, chosen),
            self.edges[edges],
            super_starts(self.edge_starts, chosen),
            self.edge_features[edges],
            _whole=(self, chosen),
        )

    @property
    def arrays(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Starts, edges, starts of edges and features, as compiled functions take them."""
        return self.starts, self.edges, self.edge_starts, self.edge_features

    def acyclic(self) -> np.ndarray:
        """Which graphs have no cycles, (n_graphs,) of bool."""
        found = np.zeros(len(self), dtype=bool)
        forests.acyclic(self.starts, self.edges, self.edge_starts, found)
        return found

    def elimination(self, n_labels: int) -> Elimination:
        """In which order nodes are eliminated, and for which graphs that is little work."""
        if self._whole is not None:
            whole, blocks = self._whole
            return whole.elimination(n_labels).take(blocks, whole.starts)
        if n_labels not in self._known:
            found = elimination.eliminated(self.starts, self.edges, self.edge_starts, n_labels)
            self._known[n_labels] = found
        return self._known[n_labels]


def super_starts(starts: np.ndarray, blocks: np.ndarray) -> np.ndarray:
    """The boundaries of some of the blocks alone."""
    return np.r_[0, np.cumsum(np.diff(starts)[blocks])]


class Graph(Structure):
    """A label for every node of a graph; edges score the labels of their two ends together.

    The score of a labelling y of a graph with nodes x_1 to x_n, and edges (u, v) with features phi, is

        sum over nodes u of f(x_u, y_u) + sum over edges (u, v) of sum_j phi_j P_j[y_u, y_v]

    Edges without features have a constant one. Edges have a direction: the label of the first end is the
    row of P_j, that of the second the column; where the two ends play the same part, give each edge in
    both directions, or one and let the order of the nodes say which. The extra parameters are the tables
    P_j, flat, one behind the other.

    The best labelling is exact for graphs without cycles and for graphs of small treewidth (no table has
    more than 1e6 numbers, ``n_labels ** (treewidth + 1)``). For others the maximum over the local polytope
    takes its place, of shares of labels that agree along edges; it is no less. The loss of training is then
    the *relaxed* one, another convex problem, which is no less than the loss of labellings: its bounds close,
    and hold for the loss of labellings from above. Certificates stay sound, and may miss some.
    Predictions are the best labelling that was found.

    Parameters
    ----------
    inference : {"auto", "exact", "relaxed"}, default="auto"
        "exact" refuses graphs that are too large for it; "auto" is exact where it can be, graph by
        graph; "relaxed" is exact for graphs without cycles only.
    tol : float, default=1e-6
        Gap of relaxed inference at which it ends, relative to how far the maximum lies above the mean
        score of all labellings.
    max_steps : int, default=2000
        Most steps of relaxed inference; what is left of the gap then goes into the bounds of the loss.

    Attributes
    ----------
    n_edge_features_ : int
        How many features each edge has; only of a structure that has been `prepared`, 1 before.

    Examples
    --------
    >>> import numpy as np
    >>> potentials = np.array([[1.0, 0.0], [0.0, 0.1], [1.0, 0.0]])
    >>> layout = GraphLayout.of_graphs([3], [[(0, 1), (1, 2), (2, 0)]])
    >>> Graph().decode(potentials, np.zeros(4), layout).labels
    array([0, 1, 0])
    >>> Graph().decode(potentials, np.array([0.0, -1.0, -1.0, 0.0]), layout).labels
    array([0, 0, 0])
    """

    n_edge_features_: int | None = None

    def __init__(self, inference: str = "auto", *, tol: float = 1e-6, max_steps: int = 2000) -> None:
        self.inference = inference
        self.tol = tol
        self.max_steps = max_steps

    def prepared(
        self, classes: np.ndarray | None, codes: np.ndarray, layout: Layout | None
    ) -> Structure:
        """See `Structure.prepared`: knows how many features edges have.

        Raises
        ------
        ValueError
            For parameters out of range, edges with another number of features than in training, and
            graphs that are too large for exact inference.
        """
        self._check()
        known = Layout.of_rows(len(codes)) if layout is None else layout
        own: Graph = self
        if self.n_edge_features_ is None:
            own = clone(self)
            own.n_edge_features_ = GraphLayout.of(known, 1).edge_features.shape[1]
        graphs = own._graphs(known)
        if self.inference == "exact" and classes is not None:
            own._kinds(graphs, len(classes))
        return own

    def _check(self) -> None:
        if self.inference not in INFERENCES:
            raise ValueError(f"inference must be one of {INFERENCES}, got {self.inference!r}")
        if not 0 < self.tol < 1:
            raise ValueError(f"tol must be above 0 and below 1, got {self.tol!r}")
        if self.max_steps < 1:
            raise ValueError(f"max_steps must be at least 1, got {self.max_steps!r}")

    def _graphs(self, layout: Layout) -> GraphLayout:
        """The layout with its edges, looked at."""
        wanted = 1 if self.n_edge_features_ is None else self.n_edge_features_
        graphs = GraphLayout.of(layout, wanted)
        given = graphs.edge_features.shape[1]
        if given != wanted:
            raise ValueError(f"edges must have {wanted} features, as in training, got {given}")
        return graphs

    def _tables(self, extra: np.ndarray, n_labels: int) -> np.ndarray:
        """The tables P, (n_edge_features, n_labels, n_labels)."""
        return np.ascontiguousarray(extra, dtype=np.float64).reshape(-1, n_labels, n_labels)

    def n_extra(self, n_labels: int) -> int:
        """See `Structure.n_extra`."""
        return (1 if self.n_edge_features_ is None else self.n_edge_features_) * n_labels**2

    def named(self, extra: np.ndarray, n_labels: int) -> dict[str, np.ndarray]:
        """See `Structure.named`: "pairwise", (n_edge_features, n_labels, n_labels)."""
        return {"pairwise": self._tables(extra, n_labels)}

    def relaxes(self, n_labels: int, layout: Layout) -> bool:
        """See `Structure.relaxes`."""
        return bool(np.any(self._kinds(self._graphs(layout), n_labels)[2]))

    def _kinds(
        self, graphs: GraphLayout, n_labels: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, Elimination | None]:
        """Which graphs have no cycles, which others small tables, which neither; orders of elimination."""
        trees = graphs.acyclic()
        if np.all(trees) or self.inference == "relaxed":
            return trees, np.zeros_like(trees), ~trees, None
        order = graphs.elimination(n_labels)
        narrow = order.exact & ~trees
        rest = ~(trees | narrow)
        if self.inference == "exact" and np.any(rest):
            b = int(np.flatnonzero(rest)[0])
            raise ValueError(
                f"inference must be 'auto' or 'relaxed' for graph {b}, with {graphs.sizes[b]} nodes and "
                f"{np.diff(graphs.edge_starts)[b]} edges, and {int(rest.sum()) - 1} others: with {n_labels} "
                f"labels exact inference needs a table of more than {elimination.LARGEST_TABLE} numbers"
            )
        return trees, narrow, rest, order

    def decode(self, potentials: np.ndarray, extra: np.ndarray, layout: Layout) -> Decoding:
        """See `Structure.decode`; with shares where the relaxed maximum is no labelling."""
        graphs, n_labels = self._graphs(layout), potentials.shape[1]
        scores, tables = np.ascontiguousarray(potentials, dtype=np.float64), self._tables(extra, n_labels)
        trees, narrow, rest, order = self._kinds(graphs, n_labels)
        labels, values = np.zeros(len(scores), dtype=np.int64), np.zeros(len(graphs))
        forests.best(scores, tables, *graphs.arrays, trees, labels)
        if order is not None:
            elimination.best(
                scores, tables, *graphs.arrays, order.order, order.scopes, order.scope_starts,
                narrow, labels, False, labels, values,
            )  # fmt: skip
        if not np.any(rest):
            return Decoding(labels)
        return self._relaxed(scores, tables, graphs, rest, labels)

    def _relaxed(
        self, scores: np.ndarray, tables: np.ndarray, graphs: GraphLayout, rest: np.ndarray, labels: np.ndarray
    ) -> Decoding:
        """The other graphs too, whose labels and shares are put in."""
        nodes = np.zeros(scores.shape)
        totals = np.zeros((int(rest.sum()), *tables.shape))
        whole, (values, bounds) = np.ones(len(graphs), dtype=bool), np.zeros((2, len(graphs)))
        slots = np.where(rest, np.cumsum(rest) - 1, -1)
        relaxed.best(
            scores, tables, *graphs.arrays, slots, self.tol, self.max_steps,
            labels, nodes, totals, whole, values, bounds,
        )  # fmt: skip
        bounds[~rest] = self.score(scores, labels, tables.ravel(), graphs)[~rest]
        if np.all(whole):
            return Decoding(labels, bounds)
        mixed = np.flatnonzero(~whole)
        own = whole[graphs.owners]
        nodes[own] = np.eye(scores.shape[1])[labels[own]]
        place = np.eye(len(graphs))[:, mixed]
        features = sp.diags(whole.astype(np.float64)) @ self.features(labels, graphs, scores.shape[1])
        features = features + sp.csr_matrix(place) @ sp.csr_matrix(
            totals[slots[mixed]].reshape(len(mixed), -1)
        )
        return Decoding(labels, bounds, nodes, sp.csr_matrix(features))

    def runner_up(
        self, potentials: np.ndarray, codes: np.ndarray, extra: np.ndarray, layout: Layout
    ) -> Decoding:
        """See `Structure.runner_up`: one programme a graph; where inference is relaxed, one a node."""
        graphs, n_labels = self._graphs(layout), potentials.shape[1]
        scores, tables = np.ascontiguousarray(potentials, dtype=np.float64), self._tables(extra, n_labels)
        trees, narrow, rest, order = self._kinds(graphs, n_labels)
        codes = np.ascontiguousarray(codes, dtype=np.int64)
        labels, values = codes.copy(), np.full(len(graphs), -np.inf)
        forests.second(scores, tables, *graphs.arrays, trees, codes, labels, values)
        if order is not None:
            elimination.best(
                scores, tables, *graphs.arrays, order.order, order.scopes, order.scope_starts,
                narrow, codes, True, labels, values,
            )  # fmt: skip
        if np.any(rest):
            blocks = np.flatnonzero(rest)
            rows = graphs.rows(blocks)
            found = super().runner_up(scores[rows], codes[rows], extra, graphs.take(blocks))
            labels[rows], values[blocks] = found.labels, found.upper
        return Decoding(labels, values)

    def by_differences(
        self, potentials: np.ndarray, codes: np.ndarray, extra: np.ndarray, layout: Layout
    ) -> list[np.ndarray]:
        """The best score of labellings of each graph by how many nodes differ from the one given.

        Parameters
        ----------
        potentials : (n_rows, n_labels) array
        codes : (n_rows,) array of int
            The labelling given.
        extra : (n_extra,) array
        layout : Layout
            Of graphs without cycles.

        Returns
        -------
        list of (n_nodes + 1,) arrays
            Entry d of a graph's is for d nodes that differ; minus infinity where there is no such labelling.

        Raises
        ------
        ValueError
            If a graph has a cycle.
        """
        graphs = self._graphs(layout)
        cyclic = np.flatnonzero(~graphs.acyclic())
        if len(cyclic):
            raise ValueError(f"graphs must have no cycles for counts of differences, graph {cyclic[0]} has one")
        scores, tables = np.ascontiguousarray(potentials, dtype=np.float64), self._tables(extra, potentials.shape[1])
        values = np.zeros(len(scores) + len(graphs))
        forests.by_differences(scores, tables, *graphs.arrays, np.ascontiguousarray(codes, dtype=np.int64), values)
        return np.split(values, graphs.starts[1:-1] + np.arange(1, len(graphs)))

    def features(self, labels: np.ndarray, layout: Layout, n_labels: int) -> sp.csr_matrix:
        """See `Structure.features`: edge features, summed by the labels of the ends."""
        graphs = self._graphs(layout)
        owners = Layout(graphs.edge_starts).owners
        ends = labels[graphs.edges + graphs.starts[owners][:, None]]
        edge, which = np.nonzero(graphs.edge_features)
        columns = n_labels**2 * which + (n_labels * ends[:, 0] + ends[:, 1])[edge]
        shape = (len(graphs), graphs.edge_features.shape[1] * n_labels**2)
        return sp.csr_matrix((graphs.edge_features[edge, which], (owners[edge], columns)), shape)

    def drawn(self, lengths: Sequence[int], rng: np.random.Generator) -> Layout:
        """See `Structure.drawn`: graphs with about as many edges as nodes."""
        edges = []
        for size in lengths:
            pairs = [(u, v) for u in range(size) for v in range(size) if u != v]
            kept = rng.random(len(pairs)) < 1.2 / max(1, size - 1)
            edges.append([pair for pair, keep in zip(pairs, kept, strict=True) if keep])
        return GraphLayout.of_graphs(
            lengths, edges, [rng.standard_normal((len(each), 2)) for each in edges]
        )

    def read(self, X: Sequence[Any]) -> tuple[Matrix, GraphLayout]:
        """Rows and layout of graphs as users give them.

        Parameters
        ----------
        X : list of (rows, edges) or (rows, edges, edge features)
            Rows of nodes (n, d), arrays or CSR; edges (m, 2) of int; their features (m, e).

        Returns
        -------
        rows : (n_rows, d) array or CSR matrix
        layout : GraphLayout

        Raises
        ------
        TypeError, ValueError
            If a graph is none, or does not fit the others; the message names it.
        """
        if isinstance(X, (np.ndarray, str, bytes)) or not isinstance(X, Sequence) or len(X) == 0:
            raise TypeError("X must be a list of graphs, of (rows, edges) or (rows, edges, edge features)")
        rows = []
        for i, graph in enumerate(X):
            if not isinstance(graph, (tuple, list)) or len(graph) not in (2, 3):
                raise TypeError(
                    f"X[{i}] must be (rows, edges) or (rows, edges, edge features), got "
                    f"{type(graph).__name__}"
                )
            if len(graph) != len(X[0]):
                raise ValueError(f"X[{i}] must have edge features if and only if X[0] has them")
            rows.append(_nodes(graph[0], i))
            if rows[-1].shape[1] != rows[0].shape[1]:
                raise ValueError(
                    f"X[{i}] must have nodes of {rows[0].shape[1]} features, as X[0] has, got "
                    f"{rows[-1].shape[1]}"
                )
        features = [graph[2] for graph in X] if len(X[0]) == 3 else None
        layout = GraphLayout.of_graphs([len_of(each) for each in rows], [graph[1] for graph in X], features)
        return stack(rows), layout


def len_of(rows: Matrix) -> int:
    """How many rows there are."""
    return int(rows.shape[0])


def _nodes(rows: Any, i: int) -> Matrix:
    """Rows of graph i, looked at."""
    found = rows if sp.issparse(rows) else np.asarray(rows)
    if found.ndim != 2 or found.shape[0] < 1:
        raise ValueError(f"X[{i}] must have rows of nodes, (n, d) with n of at least 1, got {found.shape}")
    return found


def _edges(given: Any, n_nodes: int, i: int) -> np.ndarray:
    """Edges of graph i, looked at."""
    edges = np.asarray(given)
    if edges.size == 0:
        return np.zeros((0, 2), dtype=np.int64)
    if edges.ndim != 2 or edges.shape[1] != 2 or edges.dtype.kind not in "iu":
        raise ValueError(
            f"X[{i}] must have edges (m, 2) of integers, got {edges.dtype} of shape {edges.shape}"
        )
    edges = edges.astype(np.int64)
    wrong = np.flatnonzero(np.any((edges < 0) | (edges >= n_nodes), axis=1))
    if len(wrong):
        raise ValueError(
            f"X[{i}] must have edges between its nodes, 0 to {n_nodes - 1}, got {edges[wrong[0]].tolist()}"
        )
    loops = np.flatnonzero(edges[:, 0] == edges[:, 1])
    if len(loops):
        raise ValueError(f"X[{i}] must have edges between two nodes, got {edges[loops[0]].tolist()}")
    return edges


def _edge_features(given: Sequence[Any], edges: list[np.ndarray]) -> list[np.ndarray]:
    """Features of the edges of all graphs, looked at; a graph without edges may have any."""
    found: list[np.ndarray] = []
    for i, (each, own) in enumerate(zip(given, edges, strict=True)):
        features = np.asarray(each, dtype=np.float64)
        if len(own) and (features.ndim != 2 or len(features) != len(own) or features.shape[1] < 1):
            raise ValueError(
                f"X[{i}] must have edge features (m, e), one row for each of its {len(own)} edges, got "
                f"{features.shape}"
            )
        if not np.all(np.isfinite(features)):
            raise ValueError(f"X[{i}] must have finite edge features")
        found.append(features)
    widths = {each.shape[1]: i for i, (each, own) in reversed(list(enumerate(zip(found, edges, strict=True)))) if len(own)}
    if len(widths) > 1:
        (one, i), (other, j) = sorted(widths.items(), key=lambda item: item[1])[:2]
        raise ValueError(f"X[{j}] must have {one} features an edge, as X[{i}] has, got {other}")
    width = next(iter(widths), 1)
    return [each if len(own) else np.zeros((0, width)) for each, own in zip(found, edges, strict=True)]
