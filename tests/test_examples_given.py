"""What users give for examples: mistakes are refused by what to give, and what is plain works."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from structinv import CustomStructuredSVC, InvariantStructuredSVC
from structinv.oracles import Budget, FDrop, InvarianceOracle, Shifts
from structinv.structures import Custom, Graph, Multilabel, Sequence, check_custom

RNG = np.random.default_rng(0)
X = [RNG.normal(size=(length, 3)) for length in (3, 2, 4)]
Y = [["a" if value > 0 else "b" for value in rows[:, 0]] for rows in X]
TABLE = RNG.normal(size=(12, 4))
SETS = (TABLE[:, :3] > 0).astype(int)
MATRIX = r"X must be a matrix \(n, n_features\) for Multilabel, one row per example, got "


def refuses(error, message, structure, X, y, **more):
    model = InvariantStructuredSVC(structure)
    with pytest.raises(error, match=message):
        model.fit(X, y, **more)
    assert not [name for name in vars(model) if name.endswith("_")]


WEIGHTS = {
    "too few": ([1.0, 2.0], ValueError, r"each of 3 examples, shape \(3,\), got shape \(2,\)"),
    "column": (np.ones((3, 1)), ValueError, r"shape \(3,\), got shape \(3, 1\)"),
    "negative": ([1.0, 1.0, -2.0], ValueError, r"sample_weight\[2\] must be .* at least 0, got -2.0"),
    "nan": ([1.0, np.nan, 1.0], ValueError, r"sample_weight\[1\] must be a finite number .* got nan"),
    "text": (["a"] * 3, TypeError, "sample_weight must contain numbers, got a list"),
    "none left": ([0.0] * 3, ValueError, "sample_weight must be above 0 for at least one example"),
}


@pytest.mark.parametrize("case", WEIGHTS)
def test_a_bad_sample_weight_is_named_by_its_example(case):
    given, error, message = WEIGHTS[case]
    refuses(error, message, Sequence(), X, Y, sample_weight=given)
    model = InvariantStructuredSVC(Sequence(), tol=0.5).fit(X, Y)
    with pytest.raises(error, match=message):
        model.score(X, Y, sample_weight=given)
    custom = CustomStructuredSVC(Custom(joint_feature, cost, argmax))
    with pytest.raises(error, match=message):
        custom.fit([0, 1, 2], [0, 1, 0], sample_weight=given)


def weighted(i, value):
    """Weights of positions, those of example i being others."""
    return [value if place == i else [1.0] * len(labels) for place, labels in enumerate(Y)]


POSITIONS = {
    "length": (weighted(2, [1.0]), r"position_weight\[2\] must have a number for each of 4 positions"),
    "negative": (weighted(1, [1.0, -0.5]), r"position_weight\[1\]\[1\] must be .* got -0.5"),
    "nan": (weighted(0, [1.0, np.nan, 1.0]), r"position_weight\[0\]\[1\] must be .* got nan"),
    "examples": (weighted(0, [1.0] * 3)[:2], "numbers for each of 3 examples, got 2"),
    "none left": (
        [[0.0] * len(labels) for labels in Y],
        "position_weight must be above 0 for at least one position",
    ),
}


@pytest.mark.parametrize("case", POSITIONS)
def test_a_bad_position_weight_is_named_by_its_place(case):
    given, message = POSITIONS[case]
    refuses(ValueError, message, Sequence(), X, Y, position_weight=given)


GRAPH = (X[0], [(0, 1), (1, 2)])
SHAPES = {
    "sequences for sets": (Multilabel(), X, Y, TypeError, MATRIX + "a list.*Sequence or Graph"),
    "equal sequences for sets": (Multilabel(), [X[0], X[0]], SETS[:2], TypeError, MATRIX + "a list"),
    "tokens for sets": (Multilabel(), [[["w"]]], SETS[:1], TypeError, MATRIX + "a list"),
    "words for sets": (Multilabel(), [["w", "v"]], SETS[:1], TypeError, MATRIX + "a list"),
    "one row for sets": (Multilabel(), TABLE[0], SETS, ValueError, r"shape \(4,\).*as \[x\]"),
    "stack for sets": (Multilabel(), TABLE[None], SETS, ValueError, r"shape \(1, 12, 4\)"),
    "rows": (Sequence(), TABLE, SETS[:, 0], TypeError, r"one matrix.*as \[x\].*LinearSVC"),
    "frame": (Sequence(), pd.DataFrame(TABLE), SETS[:, 0], TypeError, r"one matrix of shape \(12, 4\)"),
    "number": (Sequence(), np.array(3.0), Y, TypeError, r"X must be a list.*an array of shape \(\)"),
    "number for labels": (Sequence(), X[:1], [np.array(3)], TypeError, r"y\[0\] must be a list"),
    "graphs for sequences": (Sequence(), [GRAPH], [Y[0]], ValueError, r"Graph\(\) accepts \(rows"),
    "rows for graphs": (Graph(), X, Y, TypeError, r"X\[0\].*edges an \(m, 2\) array.*Sequence\(\)"),
}


@pytest.mark.parametrize("case", SHAPES)
def test_examples_of_another_structure_are_refused_by_what_to_give(case):
    structure, given, labels, error, message = SHAPES[case]
    refuses(error, message, structure, given, labels)


def test_predictions_refuse_them_as_well():
    model = InvariantStructuredSVC(Multilabel(), tol=0.5).fit(TABLE, SETS)
    with pytest.raises(TypeError, match=MATRIX + "a list"):
        model.predict(X)
    assert np.array_equal(model.predict(TABLE.tolist()), model.predict(pd.DataFrame(TABLE)))


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


def test_an_array_of_examples_may_hold_an_empty_one():
    model = InvariantStructuredSVC(Sequence(), tol=0.5).fit(X, Y)
    examples = np.empty(2, dtype=object)
    examples[:] = [X[0], np.zeros((0, 3))]
    for given in (examples, pd.Series(list(examples), index=[7, 9])):
        assert [len(labels) for labels in model.predict(given)] == [3, 0]


class Unread(InvarianceOracle):
    """An oracle whose parameters cannot be."""

    def validate(self, n_features=None):
        raise ValueError("refused before rows are read")

    def support(self, X, V, assign, cost=None):
        raise AssertionError


@pytest.mark.parametrize(
    ("oracle", "error", "message"),
    [
        (Unread(), ValueError, "refused before rows are read"),
        (Budget(3), TypeError, "oracle must be an InvarianceOracle, got 3"),
        (Budget(Shifts(1)), ValueError, "Budget: oracle must be FDrop, FScale, FAdd or FEdit"),
        (
            Budget(FDrop(1)).only_for("a"),
            ValueError,
            "only_for: oracle must perturb each sample independently",
        ),
    ],
)
def test_oracles_are_looked_at_before_rows_are_read(oracle, error, message):
    with pytest.raises(error, match=message):
        InvariantStructuredSVC(Sequence(), oracle=oracle).fit("no rows at all", None)
    model = InvariantStructuredSVC(Sequence(), tol=0.5).fit(X, Y)
    with pytest.raises(error, match=message):
        model.certify("no rows at all", Y, oracle=oracle)


def joint_feature(x, y):
    return np.array([float(x == y), 1.0])


def cost(y, y2):
    return float(y != y2)


def argmax(x, w, y=None):
    return 0


FUNCTIONS = {
    "argmax without y": (
        {"argmax": lambda x, w: 0},
        r"argmax must accept 3 positional arguments.* argmax\(x, w\) and argmax\(x",
    ),
    "argmax that must have y": (
        {"argmax": lambda x, w, y: 0},
        "argmax must accept 2 positional arguments",
    ),
    "y by name alone": (
        {"argmax": lambda x, w, *, y=None: 0},
        "argmax must accept 3 positional arguments",
    ),
    "cost of one": ({"cost": lambda y: 0.0}, r"cost must accept 2 positional arguments.* cost\(y, y2\)"),
    "features of x": (
        {"joint_feature": lambda x: x},
        r"joint_feature must accept 2 positional arguments.* joint_feature\(x, y\)",
    ),
}


@pytest.mark.parametrize("case", FUNCTIONS)
def test_functions_that_do_not_take_what_they_are_asked_are_refused(case):
    wrong, message = FUNCTIONS[case]
    custom = Custom(**{"joint_feature": joint_feature, "cost": cost, "argmax": argmax} | wrong)
    for call in (
        lambda: CustomStructuredSVC(custom).fit([0, 1], [0, 1]),
        lambda: check_custom(custom, [0], [0], candidates=lambda x: (0, 1)),
    ):
        with pytest.raises(TypeError, match=message):
            call()


NAMED = [pd.DataFrame(rows, columns=["p", "q", "r"]) for rows in X]


def graphs_of(frames):
    return [(rows, [(0, 1)]) for rows in frames]


@pytest.mark.parametrize(("structure", "made"), [(Sequence(), list), (Graph(), graphs_of)])
def test_columns_of_data_frames_must_be_those_of_fit(structure, made):
    model = InvariantStructuredSVC(structure, tol=0.5)
    turned = [frame[["q", "p", "r"]] for frame in NAMED]
    with pytest.raises(ValueError, match=r"X\[2\] must have the columns \['p', .*as X\[0\] has.*\['q'"):
        model.fit(made([*NAMED[:2], turned[2]]), Y)
    model.fit(made(NAMED), Y)
    assert model.feature_names_in_.tolist() == ["p", "q", "r"]
    for ask in (model.predict, model.decision_function, model.certify):
        with pytest.raises(ValueError, match=r"X\[0\] must have the columns \['p', .*as in fit"):
            ask(made(turned))
    assert model.score(made(NAMED), Y) == model.score(made(X), Y)
    model.fit(made(X), Y)
    assert not hasattr(model, "feature_names_in_")


def test_columns_of_a_matrix_of_rows_must_be_those_of_fit():
    frame = pd.DataFrame(TABLE, columns=list("abcd"))
    model = InvariantStructuredSVC(Multilabel(), tol=0.5).fit(frame, SETS)
    with pytest.raises(ValueError, match="X must have the columns .* as in fit"):
        model.predict(frame[list("badc")])


def test_an_example_without_rows_has_no_scores():
    model = InvariantStructuredSVC(Sequence(), tol=0.5).fit(X, Y)
    empty = np.zeros((0, 3))
    assert [scores.shape for scores in model.decision_function([X[1], empty])] == [(2, 2), (0, 2)]
    assert [scores.shape for scores in model.decision_function([empty])] == [(0, 2)]


def test_a_bad_weight_of_a_class_is_named_by_its_label():
    for given, error in (({"a": -2.0, "b": 1.0}, ValueError), ({"a": "x"}, TypeError)):
        model = InvariantStructuredSVC(Sequence(), class_weight=given)
        with pytest.raises(error, match=r"class_weight\['a'\] must be a number of at least 0"):
            model.fit(X, Y)


def test_rows_that_users_give_stay_as_they_are():
    def twice():
        """The first row has its first entry in two parts, the second its entries out of order."""
        return sp.csr_matrix((np.ones(5), [0, 0, 1, 2, 1], [0, 3, 5]), shape=(2, 3))

    given, own = twice(), twice()
    model = InvariantStructuredSVC(Sequence(), tol=0.5).fit([given], [["a", "b"]])
    model.predict([given])
    for part in ("data", "indices", "indptr"):
        np.testing.assert_array_equal(getattr(given, part), getattr(own, part))


@pytest.mark.parametrize(
    ("allowed", "message"),
    [
        ([(["a"], "b")], r"set of \(from, to\) pairs of labels, got the item \(\['a'\], 'b'\)"),
        (({("a", "b")} for _ in range(1)), "set of .* pairs of labels, got <generator"),
    ],
)
def test_masks_that_are_no_pairs_of_labels_are_refused(allowed, message):
    refuses(TypeError, "allowed must be None, .*" + message, Sequence(allowed), X, Y)


@pytest.mark.parametrize("n_hashed", [0, -3, 2.5, True, "many"])
def test_a_number_of_hashed_columns_is_looked_at_whatever_rows_are(n_hashed):
    model = InvariantStructuredSVC(Sequence(), n_hashed=n_hashed)
    with pytest.raises((TypeError, ValueError), match="n_hashed must be None or an integer of at least"):
        model.fit(X, Y)


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


def test_a_token_may_have_no_features_at_all():
    model = InvariantStructuredSVC(Sequence(), tol=0.5).fit([[["u"], ["v"]]], [["a", "b"]])
    with pytest.warns(UserWarning, match="X has no feature of the training data"):
        (labels,) = model.predict([[[], []]])
    assert len(labels) == 2


EDGES = [(0, 1), (1, 2)]
GRAPHS = {
    "ragged edges": ((X[0], [(0, 1), (1,)]), r"X\[0\] must have edges \(m, 2\) of integers, got a list"),
    "words": ((X[0], EDGES, [["p"], ["q"]]), r"X\[0\] must have edge features \(m, e\) of numbers"),
    "ragged features": ((X[0], EDGES, [[1.0], [1.0, 2.0]]), r"X\[0\] must have edge features \(m, e\)"),
    "sparse features": ((X[0], EDGES, sp.csr_matrix(np.eye(2))), r"X\[0\] must have edge features"),
    "large": ((X[0], np.array([[0, 2**63 + 1]], dtype=np.uint64)), r"got \[0, 9223372036854775809\]"),
}


@pytest.mark.parametrize("case", GRAPHS)
def test_bad_edges_are_named_by_their_graph(case):
    graph, message = GRAPHS[case]
    refuses(ValueError, message, Graph(), [graph], Y[:1])


@pytest.mark.parametrize("name", ["tol", "max_steps"])
@pytest.mark.parametrize("value", ["many", None, np.nan, 0.0, -1])
def test_bad_parameters_of_a_graph_are_named(name, value):
    with pytest.raises((TypeError, ValueError), match=f"^{name} must be .*, got {value!r}$"):
        InvariantStructuredSVC(Graph(**{name: value})).fit([GRAPH], [["a", "b", "a"]])


def test_rows_with_several_labels_have_no_true_one():
    oracle = FDrop(1).only_for([1])
    model = InvariantStructuredSVC(Multilabel(), oracle=oracle)
    with pytest.raises(ValueError, match="only_for requires one class label per row"):
        model.fit(TABLE, SETS)
    model.set_params(oracle=None, tol=0.5).fit(TABLE, SETS)
    with pytest.raises(ValueError, match="only_for requires one class label per row"):
        model.certify(TABLE, SETS, oracle=oracle)


def test_scores_of_objects_need_a_labeling_for_each():
    custom = CustomStructuredSVC(Custom(joint_feature, cost, argmax)).fit([0, 1, 2], [0, 1, 0])
    for y in ([0, 1], [0, 1, 0, 0]):
        with pytest.raises(ValueError, match=rf"one labeling per example \(3\), got {len(y)}"):
            custom.score([0, 1, 2], y)
