"""What users give for examples: mistakes are refused by what to give, and what is plain works."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.model_selection import KFold
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer

from structinv import (
    CustomStructuredSVC,
    InvariantLinearSVC,
    InvariantStructuredSVC,
    InvariantSVC,
    VirtualSVC,
    certify,
    select_changes,
)
from structinv.oracles import Budget, FDrop, InvarianceOracle, Shifts
from structinv.structures import Custom, Graph, Multilabel, Sequence

from .cases import argmax, cost, joint_feature

RNG = np.random.default_rng(0)
X = [RNG.normal(size=(length, 3)) for length in (3, 2, 4)]
Y = [["a" if value > 0 else "b" for value in rows[:, 0]] for rows in X]
TWO, BOTH = [X[0], X[2][:3]], [[0, 1, 1], [1, 0, 0]]
TABLE = RNG.normal(size=(12, 4))
SETS = (TABLE[:, :3] > 0).astype(int)
EDGES = [(0, 1), (1, 2)]
MATRIX = r"X must be a matrix \(n, n_features\) for Multilabel, one row per example, got "
UNMASKED = " must be an array without a mask"


def masked(values):
    values = np.asarray(values)
    return np.ma.array(values, mask=values == values.ravel()[0])


def infinite(values):
    values = np.array(values)
    values[0][0], values[-1][-1] = np.inf, -np.inf
    return values


def weighted(i, value):
    """Weights of positions, those of example i being others."""
    return [value if place == i else [1.0] * len(labels) for place, labels in enumerate(Y)]


def refuses(message, structure, X, y, **more):
    model = InvariantStructuredSVC(structure)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises((TypeError, ValueError), match=message):
            model.fit(X, y, **more)
    assert not [name for name in vars(model) if name.endswith("_")]


# Structures, examples, labels, and what is said of them.
REFUSED = [
    (Multilabel(), X, Y, MATRIX + "a list.*Sequence or Graph"),
    (Multilabel(), [X[0], X[0]], SETS[:2], MATRIX + "a list"),
    (Multilabel(), [[["w"]]], SETS[:1], MATRIX + "a list"),
    (Multilabel(), [["w", "v"]], SETS[:1], MATRIX + "a list"),
    (Multilabel(), TABLE[0], SETS, r"shape \(4,\).*as \[x\]"),
    (Multilabel(), TABLE[None], SETS, r"shape \(1, 12, 4\)"),
    (Multilabel(), masked(TABLE), SETS, "X" + UNMASKED),
    (Multilabel(), TABLE, masked(SETS), "y" + UNMASKED),
    (Multilabel(), infinite(TABLE), SETS, "infinity"),
    (Sequence(), infinite(TWO), BOTH, "infinity"),
    (Sequence(), TABLE, SETS[:, 0], r"one matrix.*as \[x\].*LinearSVC"),
    (Sequence(), pd.DataFrame(TABLE), SETS[:, 0], r"one matrix of shape \(12, 4\)"),
    (Sequence(), np.array(3.0), Y, r"X must be a list.*an array of shape \(\)"),
    (Sequence(), X[:1], [np.array(3)], r"y\[0\] must be a list"),
    (Sequence(), [(X[0], EDGES)], [Y[0]], r"Graph\(\) accepts \(rows"),
    (Sequence(), [TWO[0], masked(TWO[1])], BOTH, r"X\[1\]" + UNMASKED),
    (Sequence(), masked(TWO), BOTH, "X" + UNMASKED),
    (Sequence(), TWO, [BOTH[0], masked(BOTH[1])], rf"y\[1\]{UNMASKED}.*position_we"),
    (Sequence(), TWO, masked(BOTH), rf"y{UNMASKED}.*position_weight"),
    (Sequence(), TWO, [pd.DataFrame({"y": each}) for each in BOTH], r"y\[0\] must have one d.*\(3, 1\)"),
    (Sequence(), TWO, [pd.DataFrame(np.eye(3))] * 2, r"y\[0\] must have one dimension"),
    (Sequence(), TWO, [np.array([BOTH[0]]), BOTH[1]], r"y\[0\] must have one dimension, got .*\(1, 3\)"),
    (Sequence(), TWO, pd.DataFrame(BOTH), "y must be a list with labels.* got a DataFrame"),
    (Sequence([(["a"], "b")]), X, Y, r"allowed must .*pairs of labels, got the item \(\['a'\]"),
    (Sequence({("a", "b")} for _ in range(1)), X, Y, "allowed must .* pairs of labels, got <generator"),
    (Graph(), X, Y, r"X\[0\].*edges an \(m, 2\) array.*Sequence\(\)"),
    (Graph(), [(masked(each), EDGES) for each in TWO], BOTH, r"X\[0\]" + UNMASKED),
    (Graph(), [(X[0], [(0, 1), (1,)])], Y[:1], r"X\[0\] must have edges \(m, 2\) of integers, got a"),
    (Graph(), [(X[0], EDGES, [["p"], ["q"]])], Y[:1], r"X\[0\] must have edge features \(m, e\) of"),
    (Graph(), [(X[0], EDGES, [[1.0], [1.0, 2.0]])], Y[:1], r"X\[0\] must have edge features \(m, e\)"),
    (Graph(), [(X[0], EDGES, sp.csr_matrix(np.eye(2)))], Y[:1], r"X\[0\] must have edge features"),
    (Graph(), [(X[0], np.array([[0, 2**63 + 1]], dtype=np.uint64))], Y[:1], r"got \[0, 92233720368547"),
]  # fmt: skip


def test_what_is_no_example_is_refused_by_what_to_give():
    for structure, given, labels, message in REFUSED:
        refuses(message, structure, given, labels)


MISSING = {
    "numbers": (pd.array([None, 1, 2], dtype="Int64"), "<NA>"),
    "truths": (pd.Series([None, True, False], dtype="boolean"), "<NA>"),
    "objects": ([pd.NA, "a", "b"], "<NA>"),
    "None": ([None, "a", "b"], "None"),
    "None among numbers": (np.array([None, 1, 2]), "None"),
}


@pytest.mark.parametrize("case", MISSING)
def test_what_is_missing_is_no_label(case):
    labels, written = MISSING[case]
    known = [labels[1], labels[2], labels[2]]
    message = rf"y\[1\] must contain labels, got {written}: fill in .* position_weight .* to 0"
    refuses(message, Sequence(), TWO, [known, labels])


WEIGHTS = [
    ({"sample_weight": [1.0, 2.0]}, r"each of 3 examples, shape \(3,\), got shape \(2,\)"),
    ({"sample_weight": np.ones((3, 1))}, r"shape \(3,\), got shape \(3, 1\)"),
    ({"sample_weight": [1.0, 1.0, -2.0]}, r"sample_weight\[2\] must be .* at least 0, got -2.0"),
    ({"sample_weight": [1.0, np.nan, 1.0]}, r"sample_weight\[1\] must be a finite number .* got nan"),
    ({"sample_weight": ["a"] * 3}, "sample_weight must contain numbers, got a list"),
    ({"sample_weight": [0.0] * 3}, "sample_weight must be above 0 for at least one example"),
    ({"sample_weight": masked(np.ones(3))}, "sample_weight" + UNMASKED),
    ({"position_weight": weighted(2, [1.0])}, r"position_weight\[2\] must have a number for each of 4"),
    ({"position_weight": weighted(1, [1.0, -0.5])}, r"position_weight\[1\]\[1\] must be .* got -0.5"),
    ({"position_weight": weighted(0, [1.0, np.nan, 1.0])}, r"position_weight\[0\]\[1\] must .* got nan"),
    ({"position_weight": weighted(0, [1.0] * 3)[:2]}, "numbers for each of 3 examples, got 2"),
    ({"position_weight": [[0.0] * len(labels) for labels in Y]}, "position_weight must be above 0 for"),
    ({"position_weight": weighted(1, masked(np.ones(2)))}, r"position_weight\[1\]" + UNMASKED),
]


def test_a_bad_weight_is_named_by_its_place():
    for given, message in WEIGHTS:
        refuses(message, Sequence(), X, Y, **given)


def test_weights_are_refused_alike_in_scores_and_for_objects():
    model = InvariantStructuredSVC(Sequence(), tol=0.5).fit(X, Y)
    custom = CustomStructuredSVC(Custom(joint_feature, cost, argmax))
    for ask in (lambda **w: model.score(X, Y, **w), lambda **w: custom.fit([0, 1, 2], [0, 1, 0], **w)):
        with pytest.raises(ValueError, match=r"sample_weight\[2\] must be .* at least 0, got -2.0"):
            ask(sample_weight=[1.0, 1.0, -2.0])


def test_weights_that_leave_no_cost_are_refused():
    message = "product of class_weight, position_weight and sample_weight must be above 0"
    for by_class, by_position, by_example, said in (
        ({"a": 0, "b": 0}, None, None, "class_weight must be above 0 for at least one class"),
        ({"a": 0}, [[float(label == "a") for label in labels] for labels in Y], None, message),
        (None, weighted(1, [0.0, 0.0]), [0.0, 1.0, 0.0], message),
    ):
        model = InvariantStructuredSVC(Sequence(), class_weight=by_class)
        with pytest.raises(ValueError, match=said):
            model.fit(X, Y, by_example, by_position)


OF_CLASSES = [
    ("balance", "class_weight must be None, 'balanced' or a dict of labels, got 'balance'"),
    (3, "class_weight must be None, 'balanced' or a dict of labels, got 3"),
    ({"a": -2.0, "b": 1.0}, r"class_weight\['a'\] must be a number of at least 0"),
    ({"a": "x"}, r"class_weight\['a'\] must be a number of at least 0"),
]


@pytest.mark.parametrize(("given", "message"), OF_CLASSES)
def test_a_bad_weight_of_a_class_is_named_by_its_label(given, message):
    model = InvariantStructuredSVC(Sequence(), class_weight=given)
    with pytest.raises((TypeError, ValueError), match=message):
        model.fit(X, Y)


def test_weights_of_classes_are_refused_alike_by_every_estimator():
    rows = TABLE[:, :3], SETS[:, 0]
    for model, data in (
        (InvariantStructuredSVC(Multilabel()), (TABLE, SETS)),
        (InvariantLinearSVC(), rows),
        (InvariantSVC(), rows),
        (VirtualSVC(Shifts(1, shape=(1, 3))), rows),
    ):
        for given, message in (
            ("balance", "class_weight must be None, 'balanced' or a dict of labels, got 'balance'"),
            ({0: 0.0, 1: 0}, "class_weight must be above 0 for at least one class, got only zeros"),
        ):
            with pytest.raises(ValueError, match=message):
                clone(model).set_params(class_weight=given).fit(*data)


def test_predictions_and_certificates_refuse_them_as_well():
    model = InvariantStructuredSVC(Multilabel(), tol=0.5).fit(TABLE, SETS)
    with pytest.raises(TypeError, match=MATRIX + "a list"):
        model.predict(X)
    assert np.array_equal(model.predict(TABLE.tolist()), model.predict(pd.DataFrame(TABLE)))
    model = InvariantStructuredSVC(Sequence(), tol=0.5).fit(TWO, BOTH)
    for ask in (model.predict, model.decision_function, model.certify):
        with pytest.raises(TypeError, match=r"X\[0\]" + UNMASKED):
            ask([masked(TWO[0])])
    for ask in (model.score, model.certify):
        with pytest.raises(TypeError, match=r"y\[0\]" + UNMASKED):
            ask(TWO, [masked(BOTH[0]), BOTH[1]])


LABELS = {
    "unsigned and signed": (np.uint64(2**63 + 1), -5),
    "beyond 64 bits of a sign": (2**63, 0),
    "two large ones": (2**63 + 1, 2**63 + 2),
    "zeros at the end": ("a\0", "a"),
}


@pytest.mark.parametrize("case", LABELS)
def test_labels_come_back_as_they_were(case):
    first, second = LABELS[case]
    y = [[first if label == "a" else second for label in labels] for labels in Y]
    model = InvariantStructuredSVC(Sequence(), C=10.0).fit(X, y)
    assert [labels.tolist() for labels in model.predict(X)] == y


def test_examples_may_be_empty_in_predictions():
    model = InvariantStructuredSVC(Sequence(), tol=0.5).fit(X, Y)
    empty, examples = np.zeros((0, 3)), np.empty(2, dtype=object)
    examples[:] = [X[0], empty]
    for given in (examples, pd.Series(list(examples), index=[7, 9])):
        assert [len(labels) for labels in model.predict(given)] == [3, 0]
    assert [scores.shape for scores in model.decision_function([X[1], empty])] == [(2, 2), (0, 2)]
    assert [scores.shape for scores in model.decision_function([empty])] == [(0, 2)]


def test_a_token_may_have_no_features_at_all():
    model = InvariantStructuredSVC(Sequence(), tol=0.5).fit([[["u"], ["v"]]], [["a", "b"]])
    with pytest.warns(UserWarning, match="X has no feature of the training data"):
        (labels,) = model.predict([[[], []]])
    assert len(labels) == 2


def test_rows_that_users_give_stay_as_they_are():
    def twice():
        """The first row has its first entry in two parts, the second its entries out of order."""
        return sp.csr_matrix((np.ones(5), [0, 0, 1, 2, 1], [0, 3, 5]), shape=(2, 3))

    given, own = twice(), twice()
    model = InvariantStructuredSVC(Sequence(), tol=0.5).fit([given], [["a", "b"]])
    model.predict([given])
    for part in ("data", "indices", "indptr"):
        np.testing.assert_array_equal(getattr(given, part), getattr(own, part))


class Unread(InvarianceOracle):
    """An oracle whose parameters cannot be."""

    def validate(self, n_features=None):
        raise ValueError("refused before rows are read")

    def support(self, X, V, assign, cost=None):
        raise AssertionError


@pytest.mark.parametrize(
    ("oracle", "message"),
    [
        (Unread(), "refused before rows are read"),
        (Budget(3), "oracle must be an InvarianceOracle, got 3"),
        (Budget(Shifts(1)), "Budget: oracle must be FDrop, FScale, FAdd or FEdit"),
        (Budget(FDrop(1)).only_for("a"), "only_for: oracle must perturb each sample independently"),
    ],
)
def test_oracles_are_looked_at_before_rows_are_read(oracle, message):
    with pytest.raises((TypeError, ValueError), match=message):
        InvariantStructuredSVC(Sequence(), oracle=oracle).fit("no rows at all", None)
    model = InvariantStructuredSVC(Sequence(), tol=0.5).fit(X, Y)
    with pytest.raises((TypeError, ValueError), match=message):
        model.certify("no rows at all", Y, oracle=oracle)


def test_rows_with_several_labels_have_no_true_one():
    oracle = FDrop(1).only_for([1])
    model = InvariantStructuredSVC(Multilabel(), oracle=oracle)
    with pytest.raises(ValueError, match="only_for requires one class label per row"):
        model.fit(TABLE, SETS)
    model.set_params(oracle=None, tol=0.5).fit(TABLE, SETS)
    with pytest.raises(ValueError, match="only_for requires one class label per row"):
        model.certify(TABLE, SETS, oracle=oracle)


def graphs_of(frames):
    return [(rows, [(0, 1)]) for rows in frames]


@pytest.mark.parametrize(("structure", "made"), [(Sequence(), list), (Graph(), graphs_of)])
def test_columns_of_data_frames_must_be_those_of_fit(structure, made):
    model = InvariantStructuredSVC(structure, tol=0.5)
    named = [pd.DataFrame(rows, columns=["p", "q", "r"]) for rows in X]
    turned = [frame[["q", "p", "r"]] for frame in named]
    with pytest.raises(ValueError, match=r"X\[2\] must have the columns \['p', .*as X\[0\] has.*\['q'"):
        model.fit(made([*named[:2], turned[2]]), Y)
    model.fit(made(named), Y)
    assert model.feature_names_in_.tolist() == ["p", "q", "r"]
    for ask in (model.predict, model.decision_function, model.certify):
        with pytest.raises(ValueError, match=r"X\[0\] must have the columns \['p', .*as in fit"):
            ask(made(turned))
    assert model.score(made(named), Y) == model.score(made(X), Y)
    model.fit(made(X), Y)
    assert not hasattr(model, "feature_names_in_")


def test_columns_of_a_matrix_of_rows_must_be_those_of_fit():
    frame = pd.DataFrame(TABLE, columns=list("abcd"))
    model = InvariantStructuredSVC(Multilabel(), tol=0.5).fit(frame, SETS)
    with pytest.raises(ValueError, match="X must have the columns .* as in fit"):
        model.predict(frame[list("badc")])


@pytest.mark.parametrize("n_hashed", [0, -3, 2.5, True, "many"])
def test_a_number_of_hashed_columns_is_looked_at_whatever_rows_are(n_hashed):
    model = InvariantStructuredSVC(Sequence(), n_hashed=n_hashed)
    with pytest.raises((TypeError, ValueError), match="n_hashed must be None or an integer of at least"):
        model.fit(X, Y)


@pytest.mark.parametrize("name", ["tol", "max_steps"])
@pytest.mark.parametrize("value", ["many", None, np.nan, 0.0, -1])
def test_bad_parameters_of_a_graph_are_named(name, value):
    with pytest.raises((TypeError, ValueError), match=f"^{name} must be .*, got {value!r}$"):
        InvariantStructuredSVC(Graph(**{name: value})).fit([(X[0], EDGES)], [["a", "b", "a"]])


def test_certify_of_any_classifier_names_that_of_whole_labelings():
    model = InvariantStructuredSVC(Sequence(), tol=0.5).fit(X, Y)
    pipe = Pipeline([("same", FunctionTransformer(validate=False)), ("model", model)])
    for given, message in (
        (pipe, r"pipe\[-1\]\.certify\(pipe\[:-1\]\.transform\(X\), y, oracle="),
        (model, r"model\.certify\(X, y, oracle="),
    ):
        with pytest.raises(TypeError, match=message):
            certify(given, FDrop(1), X, Y)
    assert len(pipe[-1].certify(pipe[:-1].transform(X), Y, oracle=FDrop(1)).margins) == len(X)


# Objects.


# Changes are selected on examples: lists are cut by example, shares are those of positions.

GRID = {"oracle__max_changes": [0, 1]}


def machine(structure):
    return InvariantStructuredSVC(structure, oracle=FDrop(0), tol=0.1, random_state=0)


def sequences(n=16):
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(length, 4)) for length in rng.integers(2, 5, size=n)]
    return X, [["ab"[int(value > 0)] for value in rows[:, 0] + rows[:, 1]] for rows in X]


def tokens():
    X, y = sequences()
    return [[[f"{name}={value > 0}" for name, value in enumerate(row)] for row in rows] for rows in X], y


def graphs():
    X, y = sequences()
    return [(rows, [(t, t + 1) for t in range(len(rows) - 1)]) for rows in X], y


def sets():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(16, 4))
    return X, (X[:, :3] > 0).astype(int)


SELECTED = {
    "sequences": (Sequence(), sequences),
    "tokens": (Sequence(), tokens),
    "graphs": (Graph(), graphs),
    "sets": (Multilabel(), sets),
}


def some(data, rows):
    return [data[i] for i in rows] if isinstance(data, list) else data[rows]


@pytest.mark.parametrize("case", SELECTED)
def test_shares_are_those_of_positions_on_examples_that_were_not_seen(case):
    structure, draw = SELECTED[case]
    X, y = draw()
    found = select_changes(machine(structure), X, y, GRID, cv=2, oracle=FDrop(1))
    for setting, params in enumerate(found.cv_results_["params"]):
        for fold, (train, test) in enumerate(KFold(2).split(X)):
            model = machine(structure).set_params(**params).fit(some(X, train), some(y, train))
            clean = model.score(some(X, test), some(y, test))
            certificate = model.certify(some(X, test), some(y, test), oracle=FDrop(1))
            assert found.cv_results_[f"split{fold}_test_clean"][setting] == clean
            certified = found.cv_results_[f"split{fold}_test_certified"][setting]
            assert certified == certificate.position_accuracy
    machine(structure).set_params(**found.best_params_).fit(X, y)


def halved(X):
    return [rows[:, :2] for rows in X]


def test_a_pipeline_of_lists_ends_in_a_structured_model():
    X, y = sequences()
    model = make_pipeline(FunctionTransformer(halved), machine(Sequence()))
    grid = {"invariantstructuredsvc__oracle__max_changes": [0, 1]}
    found = select_changes(model, X, y, grid, cv=2, oracle=FDrop(1))
    plain = select_changes(machine(Sequence()), halved(X), y, GRID, cv=2, oracle=FDrop(1))
    results = (each.cv_results_["mean_test_certified"] for each in (found, plain))
    np.testing.assert_array_equal(*results)
