"""Labels and layouts that are bound to a structure: order, weights, and refused input."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from structinv.structures import Binary, Layout, Sequence
from structinv.structures.classes import Multiclass

from .cases import bound_sequence


def test_unsortable_labels_keep_their_order():
    classes, y = np.array(["a", 1, None], dtype=object), np.array([None, "a", 1, 1], dtype=object)
    assert Sequence().bind(y, classes, layout=Layout.of_lengths([4])).codes.tolist() == [2, 0, 1, 1]
    with pytest.raises(ValueError, match=r"not among the classes: \[2\]"):
        Sequence().bind(np.array([2], dtype=object), classes)


def test_weights_of_positions_multiply_costs():
    labels = Sequence().bind(np.array([0, 1]), cost=[[0, 2], [3, 0]], position_weight=[0.5, 2.0])
    np.testing.assert_array_equal(labels.competitors().costs, [[0, 1], [6, 0]])


@pytest.mark.parametrize("columns", ["abc", "bca", "cba"])
@pytest.mark.parametrize("index", ["abc", "cab"])
def test_costs_of_a_table_belong_to_the_classes_it_names(index, columns):
    pandas = pytest.importorskip("pandas")
    costs = {pair: float(place % 4 and place) for place, pair in enumerate(product("abc", repeat=2))}
    given = [[costs[true, other] for other in columns] for true in index]
    table = pandas.DataFrame(given, index=list(index), columns=list(columns))
    found = Multiclass().bind(np.array(list("bca")), cost=table).competitors().costs
    assert found.tolist() == [[costs[true, other] for other in "abc"] for true in "bca"]


STARTS = "starts must increase from 0 to the number of rows"


def predicted(n_rows=3, **given):
    return lambda: bound_sequence().predict(np.zeros((n_rows, 2)), np.zeros(8), **given)


REFUSED = [
    (lambda: bound_sequence(layout=Layout.of_lengths([2, 2])), f"layout.{STARTS}"),
    (lambda: bound_sequence(layout=Layout(np.array([0, 3, 3]))), "layout.starts must increase from 0"),
    (lambda: bound_sequence(layout=Layout(np.array([0.0, 3.0]))), "layout.starts must contain integers"),
    (lambda: bound_sequence(structure=Binary()), "layout must be None for Binary"),
    (lambda: bound_sequence(rescaling="slack"), "rescaling must be one of"),
    (lambda: bound_sequence(cost=np.ones((2, 2))), "cost must have a zero diagonal"),
    (lambda: bound_sequence(position_weight=[1.0]), "position_weight"),
    (lambda: bound_sequence(position_weight=[-1, 1, 1]), "position_weight"),
    (lambda: Multiclass().bind(np.array([1.0, np.nan, 2.0])), "got NaN"),
    (lambda: Multiclass().bind(np.zeros((3, 2))), "y must have shape"),
    (lambda: Multiclass().bind(np.array([0, 1]), np.array([1, 0])), "classes must be sorted"),
    (predicted(5, layout=Layout.of_lengths([3])), f"{STARTS}, 5"),
    (predicted(layout=Layout(np.array([0, 500]))), "starts must increase"),
    (predicted(layout=Layout(np.array([3]))), "starts must increase"),
]


@pytest.mark.parametrize(("call", "message"), REFUSED)
def test_wrong_labels_and_layouts_are_refused_by_name(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_labels_of_several_types_are_refused():
    with pytest.raises(TypeError, match="labels of one sortable type"):
        Multiclass().bind(np.array([1, None, 2], dtype=object))
