"""Word edits against all labels at once agree with those asked for label by label."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from structinv.oracles import FDrop, FScale
from structinv.oracles.question import Question, worst_by_support
from structinv.oracles.words.bound_edits import BoundEdits
from structinv.spaces import ExplicitSpace
from structinv.structures import Layout, Multiclass, Sequence
from structinv.structures.rivals import LabelFunctions, Rivals
from structinv.terms import WorstCase
from structinv.utils.matrices import dense

from .covering import pairs

LABELS, FEATURES = 4, 7
ORACLES = [FDrop(0), FDrop(1), FDrop(3), FDrop(50), FScale(2, 0.5, 2.0), FScale(1, 1.0, 3.0)]


def asked(monkeypatch, oracle, structure, X, intercept, by_label):
    """Planes, and what a question finds, with the weights all at once or one label after the other."""
    rng = np.random.default_rng(1)
    y = np.r_[np.arange(LABELS), rng.integers(LABELS, size=X.shape[0] - LABELS)]
    layout = None if structure.rowwise else Layout.of_lengths([3] * (X.shape[0] // 3))
    term = WorstCase(X, y, oracle, structure, layout=layout)
    space = ExplicitSpace(FEATURES, LABELS, intercept=intercept, n_extra=term.labels.n_extra)
    f = np.round(rng.standard_normal(space.size), 1)
    with monkeypatch.context() as patch:
        if by_label:
            patch.setattr(BoundEdits, "worst", worst_by_support)
        planes = term.planes(space, f)
        found = space.worst(f, term.bound, slice(None), term.labels.rivals(), points=True)
        values = term.values(space, f)
    return (
        planes.offsets - space.scores(f, planes.normals),
        planes.upper,
        found.gains,
        found.upper,
        *values,
    )


@pytest.mark.parametrize(
    ("oracle", "structure", "sparse", "intercept"),
    pairs(
        [FDrop(0), FDrop(1), FDrop(3), FDrop(50), FScale(2, 0.5, 2.0), FScale(1, 1.0, 3.0)],
        [Sequence(), Multiclass()],
        [False, True],
        [False, True],
    ),
    ids=repr,
)
def test_all_labels_at_once_are_each_label_by_itself(monkeypatch, oracle, structure, sparse, intercept):
    rng = np.random.default_rng(0)
    X = rng.integers(-2, 3, size=(30, FEATURES)).astype(float)
    X[5] = 0.0
    rows = sp.csr_matrix(X) if sparse else X
    case = oracle, structure, rows, intercept
    each, together = (asked(monkeypatch, *case, by_label=alone) for alone in (True, False))
    for one, other in zip(each, together, strict=True):
        np.testing.assert_allclose(other, one, atol=1e-12)
    # The planes touch the losses.
    np.testing.assert_allclose(together[0], together[1], atol=1e-12)


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
