"""Exact inference in graphs against enumeration."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from structinv.structures import Graph
from structinv.structures.graph import GraphLayout

from .cases import LABELS, drawn, enumerated, grid, place, prepared


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000), forest=st.booleans())
def test_exact_inference_equals_enumeration(seed, forest):
    layout, potentials, pairwise, codes = drawn(seed, forest=forest)
    graph = prepared(Graph("exact"), layout)
    best = graph.decode(potentials, pairwise, layout)
    other = graph.runner_up(potentials, codes, pairwise, layout)
    for b, rows, labelings, scores in enumerated(layout, potentials, pairwise):
        assert scores[place(labelings, best.labels[rows])] == pytest.approx(scores.max(), abs=1e-9)
        differ = np.any(labelings != codes[rows], axis=1)
        highest = scores[differ].max()
        assert other.upper[b] == pytest.approx(highest, abs=1e-9)
        if highest > -np.inf:
            found = place(labelings, other.labels[rows])
            assert differ[found]
            assert scores[found] == pytest.approx(highest, abs=1e-9)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000), share=st.floats(0.0, 1.0))
def test_counts_of_wrong_nodes_are_bounds(seed, share):
    layout, potentials, pairwise, codes = drawn(seed, forest=seed % 4 < 2)
    bound = Graph().bind(codes, np.arange(LABELS), layout=layout)
    every = list(enumerated(layout, potentials, pairwise))
    finite = [scores[np.isfinite(scores)] for *_, scores in every]
    lower_bounds = np.array([np.quantile(scores, share) for scores in finite]) - 1e-7
    found = bound.most_wrong(potentials, codes, lower_bounds, pairwise, layout)
    for b, rows, labelings, scores in every:
        wanted = np.sum(labelings != codes[rows], axis=1)[scores >= lower_bounds[b]].max()
        assert wanted <= found[b] <= len(labelings[0])


def test_exact_inference_raises_for_large_graphs():
    layout = GraphLayout.of_graphs([2, 400], [[(0, 1)], grid(20, 20)])
    with pytest.raises(ValueError, match="inference must be 'auto' or 'relaxed' for graph 1"):
        prepared(Graph("exact"), layout, 3)
    assert prepared(Graph("auto"), layout, 3).relaxes(3, layout)
    # What is narrow has small tables.
    narrow = GraphLayout.of_graphs([400], [grid(4, 100)])
    assert not prepared(Graph("auto"), narrow, 3).relaxes(3, narrow)
