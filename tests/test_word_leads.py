"""Word edits against all labels at once agree with those asked for label by label."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from structinv.oracles import FScale
from structinv.oracles.question import Question
from structinv.structures.rivals import LabelFunctions, Rivals
from structinv.utils.matrices import dense

LABELS, FEATURES = 4, 7


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(-4, 4), min_size=1, max_size=6),
    st.integers(0, 7),
    st.sampled_from([(0.0, 1.0), (0.5, 2.0), (1.0, 1.5)]),
    st.integers(0, 100),
)
def test_the_leading_members_reach_the_leads(row, changes, factors, seed):
    X = sp.csr_matrix(np.array([row, row, row], dtype=float))
    table = np.random.default_rng(seed).integers(-2, 3, size=(len(row), 3)).astype(float)
    oracle = FScale(changes, *factors)
    bound, codes, labels = oracle.bind(X), np.zeros(3, dtype=np.int64), np.arange(3)
    rivals = Rivals(LabelFunctions.one_each(3), codes, np.zeros((3, 3)), slack=False)
    worst = bound.worst(slice(None), Question(table.T, np.zeros(3), rivals))
    found = worst.points(labels)
    points = dense(found.points)
    reached = np.einsum("ij,ij->i", points, (table - table[:, :1]).T)
    np.testing.assert_allclose(worst.gains[np.arange(3), labels], reached, atol=1e-12)
    np.testing.assert_array_equal(found.gains, worst.gains[np.arange(3), labels])
    assert all(oracle.contains(np.array(row, dtype=float), point) for point in points)
