"""InvariantStructuredSVC: labels of all rows of an example together."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import cross_val_score

import structinv
from structinv import InvariantStructuredSVC
from structinv.oracles import FDrop, Shifts
from structinv.solvers import Gap, SVMStruct, solve
from structinv.spaces import ExplicitSpace
from structinv.structures import Layout, Multilabel, Sequence
from structinv.structures.classes import Multiclass
from structinv.terms import Objective, WorstCase

NAMES = np.array(["B-x", "I-x", "O"])


def examples(n=30, seed=0, longest=6):
    """Noisy readings of labels, in which I-x follows B-x only."""
    rng = np.random.default_rng(seed)
    means = rng.standard_normal((3, 5))
    X, y = [], []
    for _ in range(n):
        codes = [2]
        for _ in range(rng.integers(1, longest + 1)):
            codes.append(int(rng.choice([1, 2] if codes[-1] < 2 else [0, 2])))
        codes = np.array(codes[1:])
        X.append(means[codes] + 0.7 * rng.standard_normal((len(codes), 5)))
        y.append(NAMES[codes])
    return X, y


def fitted(**parameters):
    X, y = examples()
    settings = {"C": 0.3, "random_state": 0} | parameters
    return InvariantStructuredSVC(Sequence(), **settings).fit(X, y), X, y


def objective_at(model, X, y, cost):
    """The objective without changes, over all labelings, from its definition."""
    parts = model.coef_, model.transitions_, model.start_, model.end_
    total = 0.5 * sum(np.sum(part**2) for part in parts)
    W, A, a, e = parts
    for rows, labels in zip(X, y, strict=True):
        truth = np.searchsorted(model.classes_, labels)

        def score(codes, scores):
            ends = a[codes[0]] + e[codes[-1]]
            return scores[np.arange(len(codes)), codes].sum() + A[codes[:-1], codes[1:]].sum() + ends

        scores = rows @ W.T
        every = product(range(len(model.classes_)), repeat=len(labels))
        worst = max(score(np.array(each), scores) + cost(truth, np.array(each)) for each in every)
        total += model.C * (worst - score(truth, scores))
    return total


@pytest.mark.parametrize(
    ("cost", "price"),
    [
        ("hamming", lambda truth, other: np.sum(truth != other)),
        ("mean_hamming", lambda truth, other: np.mean(truth != other)),
        ([[0, 1, 2], [3, 0, 1], [1, 0.5, 0]], None),
    ],
)
def test_the_objective_is_what_the_docstring_says(cost, price):
    model, X, y = fitted(cost=cost, tol=1e-6)
    table = np.asarray(cost) if price is None else None
    found = objective_at(model, X, y, price or (lambda truth, other: table[truth, other].sum()))
    assert found == pytest.approx(model.solution_.primal, rel=1e-9)
    assert model.solution_.dual <= found <= model.solution_.dual * (1 + 2e-6)


def test_weights_of_labels_positions_and_examples_are_factors():
    X, y = examples()
    rng = np.random.default_rng(1)
    own = rng.uniform(0, 2, len(X))
    position = [rng.uniform(0, 2, len(labels)) for labels in y]
    by_class = {"O": 0.5, "B-x": 3.0}
    model = InvariantStructuredSVC(Sequence(), C=0.3, class_weight=by_class, tol=1e-6, random_state=0)
    model.fit(X, y, sample_weight=own, position_weight=position)
    flat = np.concatenate(y)
    factors = np.concatenate(position) * np.select([flat == "O", flat == "B-x"], [0.5, 3.0], 1.0)
    layout = Layout.of_lengths([len(labels) for labels in y])
    term = WorstCase(
        np.concatenate(X), flat, FDrop(0), Sequence(), 0.3 * own, layout=layout, position_weight=factors
    )
    space = ExplicitSpace(5, 3, n_pairwise=15)
    other = solve(Objective(space, [term]), SVMStruct(), Gap(1e-6), random_state=0)
    assert model.solution_.primal == pytest.approx(other.primal, rel=3e-6)


def test_sparse_and_dense_rows_are_the_same():
    model, X, y = fitted(oracle=FDrop(1), tol=1e-8)
    sparse = [sp.csc_matrix(rows) for rows in X]
    other = clone(model).fit(sparse, y)
    np.testing.assert_allclose(other.coef_, model.coef_, atol=1e-3)
    np.testing.assert_allclose(other.certify(sparse, y).margins, model.certify(X, y).margins, atol=1e-2)
    changed, labels = other.worst_case(sparse, y)
    assert sp.issparse(changed[0])
    assert changed[0].shape == X[0].shape
    assert [len(each) for each in labels] == [len(each) for each in y]


def test_the_worst_case_is_no_better_than_what_is_certified():
    model, X, y = fitted(oracle=FDrop(1))
    certificate = model.certify(X, y)
    changed, labels = model.worst_case(X, y)
    right = [np.array_equal(a, b) for a, b in zip(labels, y, strict=True)]
    np.testing.assert_array_equal(certificate.correct, right)
    again = model.predict(changed)
    assert all(np.array_equal(a, b) for a, b in zip(again, labels, strict=True))


def test_a_mask_is_kept_in_predictions():
    X, y = examples()
    model = InvariantStructuredSVC(Sequence("iob2"), C=0.1, random_state=0).fit(X, y)
    for labels in model.predict(examples(200, seed=9)[0]):
        before = np.r_[["O"], labels[:-1]]
        assert not np.any((labels == "I-x") & (before == "O"))
    assert model.structure_.follows_ is not None
    assert model.structure.follows_ is None


def test_a_kernel_chain_is_saved_searched_and_goes_on(tmp_path):
    X, y = examples(20)
    model = InvariantStructuredSVC(
        Sequence(), oracle=Shifts(1, shape=(1, 5)), kernel="rbf", C=3.0, warm_start=True, random_state=0
    )
    model.fit(X, y)
    structinv.save(model, tmp_path / "model")
    again = structinv.load(tmp_path / "model")
    for mine, other in zip(model.predict(X), again.predict(X), strict=True):
        np.testing.assert_array_equal(mine, other)
    np.testing.assert_array_equal(again.certify(X, y).margins, model.certify(X, y).margins)
    before = model.n_iter_
    model.set_params(gamma=2.0).fit(X, y)
    model.set_params(gamma=2.0).fit(X, y)
    assert model.n_iter_ < before
    with pytest.raises(TypeError, match="does not support sparse rows"):
        model.fit([sp.csr_matrix(rows) for rows in X], y)


@pytest.mark.parametrize("n_hashed", [None, 64])
@pytest.mark.parametrize("kind", [dict, list])
def test_tokens_have_named_features(kind, n_hashed, tmp_path):
    words = {"a": ["the", "one", "this"], "n": ["cat", "dog", "sea"], "v": ["runs", "is"]}
    rng = np.random.default_rng(0)
    y = [["a", "n", "v"][: rng.integers(1, 4)] for _ in range(60)]

    def token(word):
        return {"w": word, "long": len(word) > 3} if kind is dict else [f"w={word}", word[-1]]

    X = [[token(rng.choice(words[label])) for label in labels] for labels in y]
    model = InvariantStructuredSVC(Sequence(), oracle=FDrop(1), n_hashed=n_hashed, random_state=0)
    model.fit(X[:40], y[:40])
    assert model.score(X[40:], y[40:]) > 0.9
    assert model.n_features_in_ == len(model.vectorizer_.get_feature_names_out())
    structinv.save(model, tmp_path / "model")
    again = structinv.load(tmp_path / "model")
    assert [each.tolist() for each in again.predict(X)] == [each.tolist() for each in model.predict(X)]
    assert len(model.predict([[], X[0]])[0]) == 0
    changed, _ = model.worst_case(X, y)
    assert sp.issparse(changed[0])
    assert cross_val_score(clone(model), X, y, cv=3).mean() > 0.8


def test_tokens_and_rows_of_numbers_are_not_mixed():
    model, X, _ = fitted()
    with pytest.raises(TypeError, match="got tokens with named features"):
        model.predict([[{"w": "cat"}]])
    tokens = InvariantStructuredSVC(Sequence()).fit([[["a"], ["b"]]], [[0, 1]])
    with pytest.raises(ValueError, match=r"X\[0\] must have 2 features, as in fit"):
        tokens.predict(X)


X, y = examples(3)
ROW = np.zeros((2, 5))
BAD = [
    ({"X": X, "y": y[:2]}, ValueError, "y must have labels for each of 3 examples, got 2"),
    ({"X": X, "y": [y[0], y[1][:-1], y[2]]}, ValueError, r"y\[1\] must have a label for each of"),
    ({"X": [], "y": []}, ValueError, "X must contain at least one example"),
    ({"X": [X[0], np.zeros((0, 5))], "y": [y[0], []]}, ValueError, r"X\[1\] must have at least one row"),
    ({"X": [X[0], []], "y": [y[0], []]}, ValueError, r"X\[1\] must have at least one row"),
    ({"X": [ROW, np.zeros((2, 4))], "y": [[0, 1]] * 2}, ValueError, r"X\[1\] must have 5 features"),
    ({"X": [ROW, ROW * np.nan], "y": [[0, 1]] * 2}, ValueError, r"X\[1\] must contain finite numbers"),
    ({"X": [ROW, sp.csr_matrix(ROW)], "y": [[0, 1]] * 2}, TypeError, "only sparse matrices"),
    ({"X": [sp.csr_matrix(ROW), ROW], "y": [[0, 1]] * 2}, TypeError, "only sparse matrices"),
    ({"X": [np.zeros(5), ROW], "y": [[0, 1]] * 2}, ValueError, r"X\[0\] must have two dimensions"),
    ({"X": [[[object()], [2.0]], ROW], "y": [[0, 1]] * 2}, TypeError, r"X\[0\] must contain"),
    ({"X": "words", "y": [[0, 1]]}, TypeError, "X must be a list"),
    ({"X": [np.zeros((2, 0))], "y": [[0, 1]]}, ValueError, "at least one feature"),
    ({"X": [ROW], "y": ["ab"]}, TypeError, r"y\[0\] must be a list of labels, got a str"),
    ({"X": [ROW], "y": [[0, [1]]]}, TypeError, r"y\[0\] must contain labels, got a list"),
    ({"X": [ROW], "y": [[1, 1]]}, ValueError, "at least two classes, got one class: 1"),
    ({"X": X, "y": y, "position_weight": y}, TypeError, r"position_weight\[0\] must contain numbers"),
]


def test_bad_input_is_refused_by_name():
    for given, error, message in BAD:
        model = InvariantStructuredSVC(Sequence())
        with pytest.raises(error, match=message):
            model.fit(**given)
        assert not [name for name in vars(model) if name.endswith("_")]


@pytest.mark.parametrize(
    ("parameters", "error", "message"),
    [
        ({"structure": None}, TypeError, "structure must be an instance of an output structure"),
        ({"structure": Sequence}, TypeError, r"got <class .*>: pass Sequence\(\)"),
        ({"structure": FDrop(1)}, TypeError, r"got FDrop\(max_changes=1\): pass it as oracle="),
        ({"structure": Multiclass()}, ValueError, "structure must label several rows jointly"),
        ({"cost": "zero"}, ValueError, "cost must be one of"),
        ({"cost": [[0, 1]]}, ValueError, "cost must have shape"),
        ({"oracle": FDrop(1).only_for("z")}, ValueError, "'z'"),
        ({"class_weight": {"z": 1.0}}, ValueError, "class_weight: labels must be among the classes"),
        ({"structure": Sequence({("O", "O")})}, ValueError, "it forbids that of example"),
    ],
)
def test_parameters_that_cannot_be_are_refused(parameters, error, message):
    model = InvariantStructuredSVC(**{"structure": Sequence()} | parameters)
    with pytest.raises(error, match=message):
        model.fit(X, y)
    assert not [name for name in vars(model) if name.endswith("_")]


def test_what_was_not_learned_is_refused():
    model, _, _ = fitted()
    with pytest.raises(ValueError, match=r"not among the classes: \['z'\]"):
        model.score([ROW], [["O", "z"]])
    with pytest.raises(ValueError, match=r"X\[1\] must have 5 features, as in fit, got 4"):
        model.predict([ROW, np.zeros((1, 4))])
    with pytest.raises(NotFittedError):
        InvariantStructuredSVC(Sequence()).predict(X)
    with pytest.raises(NotFittedError):
        InvariantStructuredSVC(Sequence()).certify(X, y)


def test_numbers_and_truths_are_labels_of_their_kind():
    rows = [np.eye(2), np.eye(2)]
    for labels in ([[0.5, 1.5], [0.5, 1.5]], [[True, False], [False, True]]):
        for given in (labels, [np.array(each) for each in labels]):
            model = InvariantStructuredSVC(Sequence()).fit(rows, given)
            assert model.classes_.dtype.kind == np.array(labels).dtype.kind


def test_a_single_example_is_told_how_to_be_given():
    model, X, y = fitted()
    for single in (X[0], X[0][0]):
        with pytest.raises((TypeError, ValueError), match=r"pass a single example as \[x\]"):
            model.predict(single)


def test_a_single_sentence_of_dicts_is_told_how_to_be_given():
    sentence = [{"w": "a"}, {"w": "b"}]
    model = InvariantStructuredSVC(Sequence()).fit([sentence], [[0, 1]])
    with pytest.raises(TypeError, match=r"got a dict; pass a single example as \[x\]"):
        model.predict(sentence)


def test_sets_of_labels_are_as_many_as_in_training():
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((20, 3)), rng.integers(2, size=(20, 3))
    model = InvariantStructuredSVC(Multilabel()).fit(X, Y)
    for ask in (model.score, model.certify):
        with pytest.raises(ValueError, match="y must have 3 labels per row, as in fit, got 2"):
            ask(X, Y[:, :2])
