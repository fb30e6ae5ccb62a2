"""Assignment of nodes and edges to graphs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from ..utils.matrices import Rows
from . import elimination
from .elimination import Elimination
from .example_blocks import kind_of
from .layout import Layout


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
    widths = {
        each.shape[1]: i
        for i, (each, ends) in reversed(list(enumerate(zip(validated, edges, strict=True))))
        if len(ends)
    }
    if len(widths) > 1:
        (one, i), (other, j) = sorted(widths.items(), key=lambda item: item[1])[:2]
        raise ValueError(f"X[{j}] must have {one} features per edge, as X[{i}] has, got {other}")
    width = next(iter(widths), 1)
    return [
        each if len(ends) else np.zeros((0, width)) for each, ends in zip(validated, edges, strict=True)
    ]
