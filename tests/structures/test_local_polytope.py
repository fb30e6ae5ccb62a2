"""Relaxed inference in graphs against linear programs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from structinv.structures import Graph
from structinv.structures.graph import GraphLayout
from structinv.structures.local_polytope import PAIRS_AT_ONCE

from .cases import drawn, edge_scores, grid, prepared


def local_polytope(own, table, edges):
    """Return the maximum over fractional labelings, by a linear program."""
    n_nodes, n_labels = own.shape
    first = n_nodes * n_labels + np.arange(len(edges))[:, None, None] * n_labels**2
    joint = first + np.arange(n_labels**2).reshape(n_labels, n_labels)
    rows = []
    n_variables = n_nodes * n_labels + len(edges) * n_labels**2
    for u in range(n_nodes):
        rows.append(np.bincount(u * n_labels + np.arange(n_labels), minlength=n_variables))
    for e, ends in enumerate(edges):
        for side, u in enumerate(ends):
            for k in range(n_labels):
                row = np.bincount(np.take(joint[e], k, axis=side), minlength=n_variables).astype(float)
                row[u * n_labels + k] = -1.0
                rows.append(row)
    due = np.r_[np.ones(n_nodes), np.zeros(len(rows) - n_nodes)]
    bounds = [(0, 0 if np.isinf(each) else None) for each in own.ravel()] + [(0, None)] * joint.size
    cost = -np.r_[np.where(np.isinf(own), 0.0, own).ravel(), table.ravel()]
    found = linprog(cost, A_eq=np.array(rows), b_eq=due, bounds=bounds, method="highs")
    assert found.success
    return -found.fun


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000), n_labels=st.integers(2, 4))
def test_relaxed_inference_solves_the_linear_program(seed, n_labels):
    layout, potentials, pairwise, _ = drawn(seed, n_labels=n_labels, n_features=1, largest=7)
    graph = prepared(Graph("relaxed", tol=1e-9, max_steps=20_000), layout, n_labels)
    found = graph.decode(potentials, pairwise, layout)
    table = edge_scores(layout, pairwise, n_labels)
    reached = graph.score(potentials, found.labels, pairwise, layout)
    if found.fractions is not None:
        np.testing.assert_allclose(found.fractions.sum(axis=1), 1.0, atol=1e-12)
        assert found.fractions.min() >= 0
        assert np.all(found.fractions[np.isinf(potentials)] == 0)
        each = np.where(found.fractions > 0, potentials, 0.0) * found.fractions
        reached = layout.sums(each.sum(axis=1)) + found.features @ pairwise
    for b in np.flatnonzero(~graph._exact(layout, n_labels)):
        edges = slice(*layout.edge_starts[b : b + 2])
        own = potentials[layout.starts[b] : layout.starts[b + 1]]
        best = local_polytope(own, table[edges], layout.edges[edges])
        room = 1e-6 * (1.0 + abs(best))
        assert best - room <= reached[b] <= best + 1e-9 * (1.0 + abs(best))
        if found.upper is not None:
            assert best - 1e-9 * (1.0 + abs(best)) <= found.upper[b] <= best + room


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_second_program_solves_grids_with_many_labels(seed):
    rng, n_labels, edges = np.random.default_rng(seed), 6, grid(8, 8)
    features = [rng.standard_normal((len(edges), 3)) for _ in range(2)]
    layout = GraphLayout.of_graphs([64, 64], [edges, edges[::-1]], features)
    potentials = rng.standard_normal((128, n_labels))
    pairwise = rng.standard_normal(3 * n_labels**2)
    assert len(edges) * n_labels**2 > PAIRS_AT_ONCE
    graph = prepared(Graph("relaxed", tol=1e-8), layout, n_labels)
    found = graph.decode(potentials, pairwise, layout)
    assert found.fractions is not None
    each = np.where(found.fractions > 0, potentials, 0.0) * found.fractions
    reached = layout.sums(each.sum(axis=1)) + found.features @ pairwise
    table = edge_scores(layout, pairwise, n_labels)
    for b in range(2):
        part = slice(*layout.edge_starts[b : b + 2])
        best = local_polytope(potentials[64 * b : 64 * (b + 1)], table[part], layout.edges[part])
        assert reached[b] == pytest.approx(best, rel=1e-6)
        assert best - 1e-8 * abs(best) <= found.upper[b] <= best + 1e-6 * abs(best)
