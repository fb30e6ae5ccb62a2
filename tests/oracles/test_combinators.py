"""`only_for` and `discounted`, and what combinations have in common."""

import numpy as np
import pytest
from sklearn.model_selection import ParameterGrid

from structinv.oracles import (
    Box,
    Ellipsoid,
    FScale,
    Identity,
    TangentDerivative,
)
from structinv.oracles.union import Union
from structinv.utils.matrices import ALL_ROWS

from .cases import FACTOR, D, Loose, Reorderings, rows


def test_nested_parameters_can_be_searched():
    oracle = ((FScale(10) | Box(0.1)) @ Identity()).only_for(1)
    for params in ParameterGrid({"oracle__left__left__max_changes": [1, 2], "labels": [0, [1]]}):
        oracle.set_params(**params)
        assert oracle.oracle.left.left.max_changes == params["oracle__left__left__max_changes"]
    tangent = TangentDerivative(Ellipsoid(FACTOR), bounds=1.0)
    tangent.set_params(tangents__radius=2.0, bounds=3.0)
    assert tangent.get_params(deep=False)["tangents"].radius == 2.0
    assert tangent.get_params()["tangents__radius"] == 2.0
    assert "Ellipsoid" in repr(tangent)


def test_flags_follow_from_the_parts():
    box, ball, words = Box(0.1), Ellipsoid(FACTOR), FScale(1)
    turns = Reorderings([[0, 1, 2, 3, 4], [4, 3, 2, 1, 0]])
    flags = ("supports_sparse", "finite", "additive", "convex")

    def declared(oracle):
        return [flag for flag in flags if getattr(oracle, flag)]

    assert declared(words | words) == ["supports_sparse"]
    assert declared(words | box) == []
    assert declared(turns | Identity()) == ["finite"]
    assert declared(box | ball) == ["additive"]
    assert declared(box @ ball) == ["additive", "convex"]
    assert declared(ball @ words) == []
    assert declared(turns @ turns) == ["finite"]
    assert declared(box.only_for(1)) == ["additive", "convex"]
    assert declared(turns.discounted(0.5)) == ["finite"]
    assert declared(Ellipsoid(lambda X: X[:, :, None])) == ["convex"]
    assert declared(TangentDerivative(ball, 1.0)) == ["convex"]
    # The second part may move the points of the first one in different directions.
    assert declared(TangentDerivative(ball, 1.0) @ box) == []


@pytest.mark.parametrize(
    "oracle",
    [
        TangentDerivative(np.ones((1, D)), 1.0),
        Box(1.0) @ Identity(),
        Box(1.0).discounted(0.5),
        Box(1.0) | TangentDerivative(np.ones((1, D)), 1.0),
    ],
    ids=repr,
)
def test_oracles_without_grades_raise_if_discounted(oracle):
    X, _ = rows()
    part = oracle.right if isinstance(oracle, Union) else oracle
    with pytest.raises(NotImplementedError, match=f"{type(part).__name__} does not support grades"):
        oracle.discounted(0.5).support(X, np.ones((1, D)), np.zeros(len(X), dtype=int))


def test_labels_may_be_one_label_a_sequence_or_a_set():
    X, y = rows()
    names = np.array(["ham", "spam", "other"])[y]
    one = np.flatnonzero(names == "spam")
    for labels in ("spam", ["spam"], ("spam",), {"spam"}, np.array(["spam"])):
        bound = Box(1.0).only_for(labels).bind(X, names)
        points = bound.support(ALL_ROWS, np.ones((1, D)), np.zeros(len(X), dtype=int)).points
        np.testing.assert_array_equal(np.flatnonzero(np.any(points != X, axis=1)), one)


def test_bounds_of_rows_without_grades_include_the_whole_cost():
    X, V = rows(4)[0], np.ones((1, D))
    assign, cost = np.zeros(len(X), dtype=int), np.linspace(0.0, 2.0, len(X))
    # The first part has a bound that is too large by 1.
    oracle, y = Loose(0.5) | Box(0.1).discounted(0.5), np.arange(len(X)) % 2
    wanted = X.sum(axis=1) + 0.5 * D + 1.0 + cost
    np.testing.assert_allclose(oracle.support(X, V, assign, cost).upper, wanted)
    upper = oracle.only_for(1).bind(X, y).support(ALL_ROWS, V, assign, cost).upper
    np.testing.assert_allclose(upper, np.where(y == 1, wanted, X.sum(axis=1) + cost))
