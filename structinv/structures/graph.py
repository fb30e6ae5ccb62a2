"""Graphs of labels, such as grids and trees: layouts, and weights for edges."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from numbers import Real
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone

from ..structures import elimination, local_polytope
from ..utils.matrices import Matrix, Rows
from ..utils.parameters import check_integer
from .base import Structure
from .decodings import Decoding, Layout, laid_out
from .elimination import Elimination
from .example_blocks import Reader, as_list, kind_of


@dataclass(frozen=True)
class GraphLayout(Layout):
    """Assignment of nodes and edges to graphs.

    - `starts` (n_graphs + 1,): graph b has the nodes ``starts[b]`` to ``starts[b + 1] - 1``
    - `edges` (n_edges, 2): both ends of each edge
    - `edge_starts` (n_graphs + 1,): graph b has the edges ``edge_starts[b]`` to ``edge_starts[b + 1] -
      1``
    - `edge_features` (n_edges, n_edge_features): features of each edge
    """

    edges: np.ndarray
    edge_starts: np.ndarray
    edge_features: np.ndarray
    # Cache of elimination orders by number of labels. A part uses the cache of the whole layout.
    _known: dict[int, Elimination] = field(default_factory=dict, compare=False, repr=False)
    _whole: tuple[GraphLayout, np.ndarray] | None = field(default=None, compare=False, repr=False)

    @classmethod
    def of_graphs(
        cls, sizes: Sequence[int], edges: Sequence[Any], edge_features: Sequence[Any] | None = None
    ) -> GraphLayout:
        """Return the layout of graphs with these numbers of nodes and edges.

        Edges without features have the constant feature 1.
        """
        starts = Layout.of_lengths(sizes).starts
        ends = [
            _edges(each, int(size), i) for i, (size, each) in enumerate(zip(sizes, edges, strict=True))
        ]
        if edge_features is None:
            features = [np.ones((len(each), 1)) for each in ends]
        else:
            features = _edge_features(edge_features, ends)
        return cls(
            starts,
            np.vstack(ends),
            np.r_[0, np.cumsum([len(each) for each in ends])],
            np.vstack(features),
        )

    @classmethod
    def of(cls, layout: Layout, n_features: int) -> GraphLayout:
        """Return the layout; a plain `Layout` becomes one without edges."""
        if isinstance(layout, cls):
            return layout
        no_edges = np.zeros((0, 2), dtype=np.int64), np.zeros(len(layout) + 1, dtype=np.int64)
        return cls(layout.starts, *no_edges, np.zeros((0, n_features)))

    @classmethod
    def join(cls, layouts: Sequence[Any]) -> GraphLayout:
        by_edges = Layout.join([Layout(each.edge_starts) for each in layouts])
        # Without edges, the number of edge features is undefined.
        with_edges = [each for each in layouts if len(each.edges)] or layouts[:1]
        return cls(
            Layout.join(layouts).starts,
            np.vstack([each.edges for each in with_edges]),
            by_edges.starts,
            np.vstack([each.edge_features for each in with_edges]),
        )

    def take(self, blocks: Rows) -> Self:
        chosen = np.arange(len(self))[blocks]
        by_nodes, by_edges = Layout(self.starts), Layout(self.edge_starts)
        edges = by_edges.rows(chosen)
        return type(self)(
            by_nodes.take(chosen).starts,
            self.edges[edges],
            by_edges.take(chosen).starts,
            self.edge_features[edges],
            _whole=(self, chosen),
        )

    @property
    def arrays(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Starts, edges, edge starts and features, as arguments of compiled functions."""
        return self.starts, self.edges, self.edge_starts, self.edge_features

    def elimination(self, n_labels: int) -> Elimination:
        """Return the cached elimination order of the nodes."""
        if self._whole is not None:
            whole, blocks = self._whole
            return whole.elimination(n_labels).take(blocks, whole.starts)
        if n_labels not in self._known:
            computed = elimination.eliminated(self.starts, self.edges, self.edge_starts, n_labels)
            self._known[n_labels] = computed
        return self._known[n_labels]


def _edges(given: Any, n_nodes: int, i: int) -> np.ndarray:
    """Return the validated edges of graph i."""
    try:
        edges = np.asarray(given)
    except ValueError:
        raise ValueError(f"X[{i}] must have edges (m, 2) of integers, got {kind_of(given)}") from None
    if edges.size == 0:
        return np.zeros((0, 2), dtype=np.int64)
    if edges.ndim != 2 or edges.shape[1] != 2 or edges.dtype.kind not in "iu":
        raise ValueError(
            f"X[{i}] must have edges (m, 2) of integers, got {edges.dtype} of shape {edges.shape}"
        )
    wrong = np.flatnonzero(np.any((edges < 0) | (edges >= n_nodes), axis=1))
    if len(wrong):
        raise ValueError(
            f"X[{i}] must have edges between its nodes, 0 to {n_nodes - 1}, "
            f"got {edges[wrong[0]].tolist()}"
        )
    edges = edges.astype(np.int64)
    loops = np.flatnonzero(edges[:, 0] == edges[:, 1])
    if len(loops):
        raise ValueError(f"X[{i}] must have edges between two nodes, got {edges[loops[0]].tolist()}")
    return edges


def _edge_features(given: Sequence[Any], edges: list[np.ndarray]) -> list[np.ndarray]:
    """Return the validated features of all edges; edgeless graphs may have any."""
    validated: list[np.ndarray] = []
    # First graph with each number of features.
    widths: dict[int, int] = {}
    for i, (each, ends) in enumerate(zip(given, edges, strict=True)):
        try:
            features = np.asarray(each, dtype=np.float64)
        except (TypeError, ValueError):
            raise ValueError(
                f"X[{i}] must have edge features (m, e) of numbers, got {kind_of(each)}"
            ) from None
        if len(ends) and (features.ndim != 2 or len(features) != len(ends) or features.shape[1] < 1):
            raise ValueError(
                f"X[{i}] must have edge features (m, e), one row for each of its {len(ends)} edges, got "
                f"{features.shape}"
            )
        if not np.all(np.isfinite(features)):
            raise ValueError(f"X[{i}] must have finite edge features")
        validated.append(features)
        if len(ends):
            widths.setdefault(features.shape[1], i)
    if len(widths) > 1:
        (one, i), (other, j) = list(widths.items())[:2]
        raise ValueError(f"X[{j}] must have {one} features per edge, as X[{i}] has, got {other}")
    width = next(iter(widths), 1)
    return [
        each if len(ends) else np.zeros((0, width)) for each, ends in zip(validated, edges, strict=True)
    ]


INFERENCES = ("auto", "exact", "relaxed")


class Graph(Structure):
    """Graph with a label at every node and weights for the labels of each edge.

    The score of a labeling y of a graph with nodes x_1 to x_n, and edges (u, v) with features phi, is::

        sum over nodes u of f(x_u, y_u) + sum over edges (u, v) of sum_j phi_j P_j[y_u, y_v]

    An edge without features has the constant feature 1. Edges are directed: the label of the first end
    selects the row of P_j, and the label of the second end the column. For symmetric edges, add each
    edge in both directions, or order the ends by node number. The pairwise weights are the flattened
    tables P_j, one after the other. `named` returns them as "pairwise", of shape (n_edge_features,
    n_labels, n_labels).

    X is a list with one tuple per graph: (rows of nodes, edges) or (rows, edges, edge features). Edges
    have shape (m, 2) and number the nodes from 0. Edge features have shape (m, n_edge_features).

    Inference is exact for graphs without cycles and for graphs of small treewidth. The limits are 1e6
    values in a table of size ``n_labels ** (treewidth + 1)`` and 2e7 values in all tables of a graph.
    `runner_up` is exact for the same graphs.

    For other graphs, inference is relaxed: it maximizes over the local polytope of fractional labelings.
    The loss of training is then the relaxed loss, which is convex and bounds the loss from above.
    Certificates hold for the highest-scoring labeling, and may be loose. A prediction is the
    best labeling found, which may have a lower score.

    Parameters
    ----------
    inference : {"auto", "exact", "relaxed"}, default="auto"
        Kind of inference. "auto" is exact for each graph within the limits. "exact" raises an error for
        graphs beyond them. "relaxed" is exact only for graphs without cycles.
    tol : float, default=1e-6
        Gap at which relaxed inference stops (0 < tol < 1). It is relative to the difference between the
        maximum and the mean of the scores of all labelings.
    max_steps : int, default=100000
        Maximum number of simplex steps per graph in relaxed inference. The remaining gap is added to the
        bound of the loss.

    Attributes
    ----------
    n_edge_features_ : int
        Number of features per edge. `prepared` sets it; before, it is 1.

    See Also
    --------
    Sequence : Chain of labels, with exact inference.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.structures import Graph
    >>> from structinv.structures.graph import GraphLayout
    >>> potentials = np.array([[1.0, 0.0], [0.0, 0.1], [1.0, 0.0]])
    >>> layout = GraphLayout.of_graphs([3], [[(0, 1), (1, 2), (2, 0)]])
    >>> Graph().decode(potentials, np.zeros(4), layout).labels
    array([0, 1, 0])
    >>> Graph().decode(potentials, np.array([0.0, -1.0, -1.0, 0.0]), layout).labels
    array([0, 0, 0])
    """

    n_edge_features_: int | None = None

    def __init__(self, inference: str = "auto", *, tol: float = 1e-6, max_steps: int = 100_000) -> None:
        self.inference = inference
        self.tol = tol
        self.max_steps = max_steps

    def prepared(
        self, classes: np.ndarray | None, codes: np.ndarray, layout: Layout | None
    ) -> Structure:
        self._check()
        full_layout = laid_out(layout, len(codes))
        prepared: Graph = self
        if self.n_edge_features_ is None:
            prepared = self._of_width(GraphLayout.of(full_layout, 1).edge_features.shape[1])
        graphs = prepared._graphs(full_layout)
        if self.inference == "exact" and classes is not None:
            # Raises an error for graphs that are too large.
            prepared._exact(graphs, len(classes))
        return prepared

    def _of_width(self, n_edge_features: int) -> Graph:
        prepared = clone(self)
        prepared.n_edge_features_ = n_edge_features
        return prepared

    def summary(self, labels: np.ndarray, layout: Layout) -> int | None:
        graphs = GraphLayout.of(layout, 1)
        return graphs.edge_features.shape[1] if len(graphs.edges) else None

    def prepared_by(self, classes: np.ndarray, summaries: Sequence[Any]) -> Structure:
        self._check()
        widths = sorted({each for each in summaries if each is not None})
        if len(widths) > 1:
            raise ValueError(f"edges must have the same number of features in all graphs, got {widths}")
        if self.n_edge_features_ is not None:
            return self
        return self._of_width(widths[0] if widths else 1)

    def _check(self) -> None:
        if self.inference not in INFERENCES:
            raise ValueError(f"inference must be one of {INFERENCES}, got {self.inference!r}")
        if not isinstance(self.tol, Real):
            raise TypeError(f"tol must be a number, got {self.tol!r}")
        if not 0 < self.tol < 1:
            raise ValueError(f"tol must be above 0 and below 1, got {self.tol!r}")
        check_integer("max_steps", self.max_steps)

    def _graphs(self, layout: Layout) -> GraphLayout:
        """Return the validated layout with edges."""
        n_features = 1 if self.n_edge_features_ is None else self.n_edge_features_
        graphs = GraphLayout.of(layout, n_features)
        if len(graphs.edges) == 0:
            # Without edges, the number of edge features is undefined.
            return replace(graphs, edge_features=np.zeros((0, n_features)))
        given = graphs.edge_features.shape[1]
        if given != n_features:
            raise ValueError(
                f"edges must have {n_features} features, as in training, got {given} (edges without "
                "features have 1)"
            )
        return graphs

    def _tables(self, pairwise: np.ndarray, n_labels: int) -> np.ndarray:
        """Return the tables P, (n_edge_features, n_labels, n_labels)."""
        return np.ascontiguousarray(pairwise, dtype=np.float64).reshape(-1, n_labels, n_labels)

    def _numbers(self, potentials: np.ndarray, pairwise: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return potentials and tables as arguments of compiled functions."""
        scores = np.ascontiguousarray(potentials, dtype=np.float64)
        return scores, self._tables(pairwise, scores.shape[1])

    def n_pairwise(self, n_labels: int) -> int:
        return (1 if self.n_edge_features_ is None else self.n_edge_features_) * n_labels**2

    def named(self, pairwise: np.ndarray, n_labels: int) -> dict[str, np.ndarray]:
        return {"pairwise": self._tables(pairwise, n_labels)}

    def relaxes(self, n_labels: int, layout: Layout) -> bool:
        return not np.all(self._exact(self._graphs(layout), n_labels))

    def _exact(self, graphs: GraphLayout, n_labels: int) -> np.ndarray:
        """Return True for graphs with exact inference, (n_graphs,)."""
        order = graphs.elimination(n_labels)
        if self.inference == "relaxed":
            return order.exact & (graphs.sums(np.diff(order.scope_starts) > 1.0) == 0)
        if self.inference == "exact" and not np.all(order.exact):
            b = int(np.flatnonzero(~order.exact)[0])
            nodes, edges = graphs.lengths[b], np.diff(graphs.edge_starts)[b]
            raise ValueError(
                f"inference must be 'auto' or 'relaxed' for graph {b} ({nodes} nodes, {edges} edges) "
                f"and {int(np.sum(~order.exact)) - 1} other graphs: with {n_labels} labels exact "
                f"inference requires tables of more than {elimination.LARGEST_TABLE} numbers, or "
                f"{elimination.ALL_TABLES} in total"
            )
        return order.exact

    def _best(
        self,
        potentials: np.ndarray,
        pairwise: np.ndarray,
        graphs: GraphLayout,
        exact: np.ndarray,
        codes: np.ndarray | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return labels and scores of the best labelings of exact graphs, other than any codes."""
        scores, tables = self._numbers(potentials, pairwise)
        order = graphs.elimination(scores.shape[1])
        labels = np.zeros(len(scores), dtype=np.int64) if codes is None else codes.copy()
        values, other_than = np.full(len(graphs), -np.inf), codes is not None
        elimination.best(
            scores, tables, *graphs.arrays, order.order, order.scopes, order.scope_starts,
            exact, labels if codes is None else codes, other_than, labels, values,
        )  # fmt: skip
        return labels, values

    def decode(self, potentials: np.ndarray, pairwise: np.ndarray, layout: Layout) -> Decoding:
        graphs = self._graphs(layout)
        exact = self._exact(graphs, potentials.shape[1])
        labels, _ = self._best(potentials, pairwise, graphs, exact)
        if np.all(exact):
            return Decoding(labels)
        return self._relaxed(*self._numbers(potentials, pairwise), graphs, ~exact, labels)

    def _relaxed(
        self,
        scores: np.ndarray,
        tables: np.ndarray,
        graphs: GraphLayout,
        rest: np.ndarray,
        labels: np.ndarray,
    ) -> Decoding:
        """Decode the graphs in `rest` by relaxed inference, and update `labels`."""
        relaxation = local_polytope.maximum(scores, tables, graphs, rest, self.tol, self.max_steps)
        is_relaxed = rest[graphs.owners]
        labels[is_relaxed] = relaxation.labels[is_relaxed]
        bounds = np.where(rest, relaxation.bounds, self.score(scores, labels, tables.ravel(), graphs))
        if np.all(relaxation.whole):
            return Decoding(labels, bounds)
        is_whole = relaxation.whole[graphs.owners]
        nodes = np.where(is_whole[:, None], np.eye(scores.shape[1])[labels], relaxation.nodes)
        mixed = np.flatnonzero(~relaxation.whole)
        every = np.arange(len(mixed))
        place = sp.csr_matrix((np.ones(len(mixed)), (mixed, every)), (len(graphs), len(mixed)))
        features = sp.diags(relaxation.whole.astype(np.float64)) @ self.features(
            labels, graphs, scores.shape[1]
        )
        features = features + place @ sp.csr_matrix([relaxation.features[int(b)].ravel() for b in mixed])
        return Decoding(labels, bounds, fractions=nodes, features=sp.csr_matrix(features))

    def runner_up(
        self, potentials: np.ndarray, codes: np.ndarray, pairwise: np.ndarray, layout: Layout
    ) -> Decoding:
        graphs = self._graphs(layout)
        exact = self._exact(graphs, potentials.shape[1])
        codes = np.ascontiguousarray(codes, dtype=np.int64)
        labels, values = self._best(potentials, pairwise, graphs, exact, codes)
        if not np.all(exact):
            blocks = np.flatnonzero(~exact)
            rows = graphs.rows(blocks)
            others = super().runner_up(potentials[rows], codes[rows], pairwise, graphs.take(blocks))
            labels[rows], values[blocks] = others.labels, others.upper
        return Decoding(labels, values)

    def features(self, labels: np.ndarray, layout: Layout, n_labels: int) -> sp.csr_matrix:
        graphs = self._graphs(layout)
        owners = Layout(graphs.edge_starts).owners
        ends = labels[graphs.edges + graphs.starts[owners][:, None]]
        edge, which = np.nonzero(graphs.edge_features)
        columns = n_labels**2 * which + (n_labels * ends[:, 0] + ends[:, 1])[edge]
        shape = (len(graphs), graphs.edge_features.shape[1] * n_labels**2)
        return sp.csr_matrix((graphs.edge_features[edge, which], (owners[edge], columns)), shape)

    def drawn(self, lengths: Sequence[int], rng: np.random.Generator) -> Layout:
        edges = []
        for size in lengths:
            pairs = [(u, v) for u in range(size) for v in range(size) if u != v]
            # On average 1.2 edges per node.
            chosen = rng.random(len(pairs)) < 1.2 / max(1, size - 1)
            edges.append([pair for pair, keep in zip(pairs, chosen, strict=True) if keep])
        return GraphLayout.of_graphs(
            lengths, edges, [rng.standard_normal((len(each), 2)) for each in edges]
        )

    def length(self, example: Any) -> int:
        # `read` raises an error for examples that are not graphs.
        return super().length(example[0]) if _is_graph(example) and hasattr(example[0], "__len__") else 1

    def written_examples(self, rows: Matrix, layout: Layout) -> Any:
        graphs = self._graphs(layout)
        by_edges, features = Layout(graphs.edge_starts), graphs.edge_features
        parts = [self.written_rows(rows, layout), self.written_rows(graphs.edges, by_edges)]
        # A constant feature 1 can be omitted.
        if features.shape[1] != 1 or np.any(features != 1.0):
            parts.append(self.written_rows(features, by_edges))
        return list(zip(*parts, strict=True))

    def read(self, X: Any, reader: Reader) -> tuple[Matrix, Layout]:
        graphs = as_list("X", X, "(rows, edges) or (rows, edges, edge features)")
        for i, graph in enumerate(graphs):
            if not _is_graph(graph):
                raise TypeError(
                    f"X[{i}] must be (rows, edges) or (rows, edges, edge features), edges an (m, 2) "
                    f"array of pairs of rows, got {kind_of(graph)}; Sequence() accepts rows alone"
                )
            if len(graph) != len(graphs[0]):
                raise ValueError(f"X[{i}] must have edge features if and only if X[0] has them")
            if self.length(graph) == 0:
                raise ValueError(f"X[{i}] must have at least one node, got 0")
        rows, lengths = reader.examples([graph[0] for graph in graphs])
        features = [graph[2] for graph in graphs] if len(graphs[0]) == 3 else None
        return rows, GraphLayout.of_graphs(lengths.tolist(), [graph[1] for graph in graphs], features)


def _is_graph(example: Any) -> bool:
    return isinstance(example, (tuple, list)) and len(example) in (2, 3)
