"""Label sets: trees of pairs of labels, estimators of indicator matrices, and their certificates."""

from __future__ import annotations

import pickle
from fractions import Fraction
from itertools import combinations, product

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

import structinv
from structinv import InvariantStructuredSVC
from structinv.certificates.label_sets import labels_worst_change
from structinv.kernels import Linear
from structinv.oracles import Box, FDrop, FiniteOracle, FScale, Identity
from structinv.solvers import FrankWolfe, Gap, solve
from structinv.spaces import ExplicitSpace
from structinv.structures import Layout, Multilabel, Sequence
from structinv.structures.multilabel import mutual_information, pair_counts, positions, tree_of_counts

from ..covering import pairs
from .cases import (
    N_FEATURES,
    N_ROWS,
    ORACLES,
    SIZE,
    QuarterTurns,
    by_pairs,
    heights,
    label_set_problem,
    label_sets,
)


def trees(size):
    """Return all trees over some positions, as sets of edges (by their Pruefer codes)."""
    for code in product(range(size), repeat=size - 2):
        degree = [1 + code.count(i) for i in range(size)]
        edges = []
        for i in code:
            leaf = degree.index(1)
            edges.append((leaf, i))
            degree[leaf] -= 1
            degree[i] -= 1
        edges.append(tuple(i for i in range(size) if degree[i] == 1))
        yield edges


@pytest.mark.parametrize("seed", range(4))
def test_the_tree_has_the_largest_likelihood_of_all_trees(seed):
    rng = np.random.default_rng(seed)
    y = (rng.random((40, 5)) < 0.5).astype(int)
    y[:, 3] = y[:, 1] ^ (rng.random(40) < 0.1)
    y[:, 4] &= y[:, 0]

    def information(s, t):
        total = 0.0
        for a, b in product([0, 1], repeat=2):
            share = np.mean((y[:, s] == a) & (y[:, t] == b))
            if share > 0:
                total += share * np.log(share / (np.mean(y[:, s] == a) * np.mean(y[:, t] == b)))
        return total

    shared = mutual_information(pair_counts(y), len(y))
    assert shared[1, 3] == pytest.approx(information(1, 3), abs=1e-12)
    best = max(sum(information(s, t) for s, t in edges) for edges in trees(5))
    edges = tree_of_counts(pair_counts(y), len(y))
    assert sum(information(s, t) for s, t in edges) == pytest.approx(best, abs=1e-12)
    assert sorted(edges[:, 1]) == [1, 2, 3, 4]
    assert edges[0, 0] == 0


def test_prepared_tree_is_pickled_but_not_cloned():
    codes, layout = positions(label_sets()[1])
    learned = Multilabel("tree").prepared(np.arange(2), codes, layout)
    assert learned.prepared(np.arange(2), 1 - codes, layout) is learned
    assert clone(learned).edges_ is None
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(learned)).edges_, learned.edges_)
    named = learned.named(np.arange(8.0), 2)
    assert named["pairs"].shape == (2, 2, 2)
    with pytest.raises(ValueError, match="call prepared"):
        Multilabel("tree").n_pairwise(2)


REFUSED = [
    (lambda: positions(np.zeros(3)), ValueError, r"y must have shape \(n, L\).*got \(3,\)"),
    (lambda: positions(np.zeros((3, 0))), ValueError, "one row and one column"),
    (lambda: positions(np.zeros((0, 2))), ValueError, "at least one row"),
    (lambda: positions(np.array([[0, 2]])), ValueError, "row 0, column 1"),
    (lambda: positions([[0, 1], [0]]), ValueError, "one column per label"),
    (lambda: positions(np.array([["a", "b"]])), TypeError, "got dtype"),
    (lambda: positions(sp.csr_matrix(np.eye(2))), TypeError, "toarray"),
    (
        lambda: Multilabel("tree").bind(np.arange(12) % 2, layout=Layout.of_lengths([5, *[1] * 7])),
        ValueError,
        "same number of labels in all rows",
    ),
    (
        lambda: Multilabel("all").bind(np.arange(12) % 2, layout=Layout.of_lengths([3] * 4)),
        ValueError,
        "edges must be None or 'tree'",
    ),
]


@pytest.mark.parametrize(("call", "error", "message"), REFUSED)
def test_wrong_label_sets_are_refused_by_name(call, error, message):
    with pytest.raises(error, match=message):
        call()


def fitted(pairwise=None, oracle=None, **parameters):
    X, y = label_sets()
    structure = Multilabel(pairwise)
    settings = {"C": 0.5, "tol": 1e-5, "random_state": 0} | parameters
    return InvariantStructuredSVC(structure, oracle=oracle, **settings).fit(X, y), X, y


@by_pairs
def test_estimator_supports_indicator_matrices(pairwise):
    model, X, y = fitted(pairwise, Box(0.1))
    predicted = model.predict(X)
    assert predicted.shape == y.shape
    assert set(np.unique(predicted)) <= {0, 1}
    assert model.score(X, y) == pytest.approx(np.mean(predicted == y))
    np.testing.assert_allclose(model.decision_function(X), X @ model.coef_.T)
    assert model.coef_.shape == (SIZE, N_FEATURES)
    proven = model.certify(X, y)
    assert proven.accuracy <= np.mean(np.all(predicted == y, axis=1))
    assert proven.position_accuracy <= model.score(X, y)
    assert model.certify(X, oracle=Identity()).accuracy == 1.0
    moved, labels = model.worst_case(X, y)
    assert moved.shape == X.shape
    np.testing.assert_array_equal(model.predict(moved), labels)
    wrong = np.sum(labels != y, axis=1)
    assert np.all(wrong <= proven.most_wrong)
    if pairwise:
        assert model.pairs_.shape == (SIZE - 1, 2, 2)
        np.testing.assert_allclose(model.pairs_.sum(axis=(1, 2)), 0.0, atol=1e-9)
        np.testing.assert_array_equal(model.structure_.edges_, tree_of_counts(pair_counts(y), len(y)))


def test_weights_of_rows_and_positions_are_factors():
    X, y = label_sets()
    twice = InvariantStructuredSVC(Multilabel(), tol=1e-8, random_state=0)
    one = clone(twice).fit(np.vstack([X, X[:2]]), np.vstack([y, y[:2]]))
    other = clone(twice).fit(X, y, sample_weight=np.r_[2.0, 2.0, np.ones(N_ROWS - 2)])
    np.testing.assert_allclose(one.coef_, other.coef_, atol=1e-3)
    none = clone(twice).fit(X, y, position_weight=np.tile([1.0, 1.0, 0.0], (N_ROWS, 1)))
    np.testing.assert_allclose(none.coef_[2], 0.0, atol=1e-8)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"y": label_sets()[1][:5]}, ValueError, "y must have labels for each of 8 rows, got 5"),
        ({"y": label_sets()[1] + 1}, ValueError, "y must contain 0 .absent. and 1 .present., got 2"),
        ({"y": np.zeros((N_ROWS, 2), dtype=int)}, ValueError, "at least two classes"),
        ({"X": [label_sets()[0]]}, TypeError, "X must be a matrix"),
        ({"X": np.full((N_ROWS, 2), np.nan)}, ValueError, "NaN"),
    ],
)
def test_estimator_raises_for_invalid_indicator_matrices(change, error, message):
    X, y = label_sets()
    with pytest.raises(error, match=message):
        InvariantStructuredSVC(Multilabel()).fit(**({"X": X, "y": y} | change))


@by_pairs
def test_kernels_support_indicator_matrices(pairwise, tmp_path):
    X, y = label_sets()
    settings = {"C": 0.5, "tol": 1e-6, "random_state": 0}
    linear = InvariantStructuredSVC(Multilabel(pairwise), oracle=QuarterTurns(), **settings).fit(X, y)
    model = InvariantStructuredSVC(
        Multilabel(pairwise), oracle=QuarterTurns(), kernel=Linear(), **settings
    ).fit(X, y)
    assert model.solution_.primal == pytest.approx(linear.solution_.primal, rel=1e-5)
    np.testing.assert_array_equal(model.predict(X), linear.predict(X))
    one, other = model.certify(X, y), linear.certify(X, y)
    np.testing.assert_allclose(one.margins, other.margins, atol=1e-2)
    np.testing.assert_array_equal(one.most_wrong, other.most_wrong)
    assert model.worst_case(X, y)[0].shape == X.shape
    rbf = InvariantStructuredSVC(Multilabel(pairwise), oracle=QuarterTurns(), kernel="rbf", **settings)
    rbf.fit(X, y)
    structinv.save(rbf.set_params(oracle=None), tmp_path / "rbf.model")
    again = structinv.load(tmp_path / "rbf.model")
    np.testing.assert_array_equal(again.predict(X), rbf.predict(X))


@pytest.mark.parametrize(
    ("oracle", "pairwise", "most"), pairs(ORACLES, [None, "tree"], [12, 1]), ids=repr
)
def test_certificates_equal_enumeration(oracle, pairwise, most, monkeypatch):
    given = label_set_problem(oracle, pairwise)
    f = solve(given, FrankWolfe(), Gap(1e-3), random_state=0).f
    monkeypatch.setattr("structinv.terms.one_change.MOST_LABELS", most)
    labels = given.terms[0].bound_structure
    X, y = label_sets()
    found = labels_worst_change(given.space, f, oracle, labels, X)
    proven = found.certificate()
    exact = most == 12 or oracle.finite
    for i in range(N_ROWS):
        every = heights(given, f, X[i], y[i], oracle)
        gains = {labels: np.array([gain for gain, _ in values]) for labels, values in every.items()}
        margin = -max(gain.max() for labels, gain in gains.items() if labels != tuple(y[i]))
        assert proven.margins[i] <= margin + 1e-12
        assert found.attacked[i] >= margin - 1e-12
        table = np.array(list(gains.values()))
        wrong = np.array([np.sum(labels != y[i]) for labels in gains])[np.argmax(table, axis=0)].max()
        assert wrong <= proven.most_wrong[i] <= SIZE
        if exact:
            assert found.bounds[i] == pytest.approx(margin, abs=1e-9)
            assert proven.exact[i]
            reached = heights(given, f, found.points[i], y[i], Identity())
            gain = max(values[0][0] for labels, values in reached.items() if labels != tuple(y[i]))
            assert -gain == pytest.approx(margin, abs=1e-9)
        if oracle.finite:
            assert proven.most_wrong[i] == wrong
    assert 1.0 - np.mean(proven.most_wrong) / SIZE == proven.position_accuracy >= proven.accuracy
    assert np.all(proven.most_wrong[proven.correct] == 0)


def certified(oracle, weights, X, y):
    codes, layout = positions(y)
    labels = Multilabel().bind(codes, np.arange(2), layout=layout)
    space = ExplicitSpace(weights.shape[1], len(weights))
    return labels_worst_change(space, weights.T.ravel(), oracle, labels, X).certificate()


def test_margins_are_below_exact_ones_where_perturbations_cancel():
    rng = np.random.default_rng(0)
    X, weights = rng.standard_normal((20, 4)), rng.standard_normal((2, 4))
    X[:, 1], weights[:, 1] = X[:, 0], -weights[:, 0]
    y = (X @ weights.T > 0).astype(int)
    found = certified(FScale(2, 1.0, 1e9), weights, X, y)
    scaled = [[], *([j] for j in range(4)), *map(list, combinations(range(4), 2))]
    for x, truth, bound in zip(X, y, found.margins.tolist(), strict=True):
        for columns in scaled:
            z = x.copy()
            z[columns] *= 1e9
            margins = [
                (1 if label else -1) * sum(map(Fraction.__mul__, map(Fraction, w), map(Fraction, z)))
                for w, label in zip(weights, truth, strict=True)
            ]
            # The best other set changes all labels with negative margins, or the weakest one.
            lost = [margin for margin in margins if margin < 0]
            assert bound <= (sum(lost) if lost else min(margins))


class Raised(FiniteOracle):
    """Two features may be raised alike."""

    def orbit(self, X):
        return np.stack([X, X + 1e9 * np.array([1.0, 0.0, 0.0, 1.0])], axis=1)


def test_labels_within_rounding_of_large_members_count_as_wrong():
    rng = np.random.default_rng(0)
    X, weights = rng.standard_normal((40, 4)), rng.standard_normal((2, 4))
    X[:, [0, 3]], weights[:, 3] = 0.0, -weights[:, 0]
    weights[:, 1:3] *= 1e-8
    y = (X @ weights.T > 0).astype(int)
    found = certified(Raised(), weights, X, y)
    wrong = np.sum((Raised().orbit(X) @ weights.T > 0) != y[:, None], axis=2).max(axis=1)
    assert np.any(found.attacked > 0)
    assert not np.any(found.correct)
    assert np.all(found.most_wrong >= np.maximum(wrong, 1))


def test_certificates_of_label_sets_require_bound_labels_of_one_row():
    X, y = label_sets()
    codes, layout = positions(y)
    for labels in (Sequence().bind(codes, layout=layout), codes):
        with pytest.raises(TypeError, match="labels must be a BoundStructure of one row per example"):
            labels_worst_change(ExplicitSpace(N_FEATURES, SIZE), np.zeros(9), Identity(), labels, X)


def test_products_that_become_zero_are_not_certified():
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((20, 4)).astype(np.float32), (rng.random((20, 2)) < 0.5).astype(int)
    model = InvariantStructuredSVC(Multilabel(), oracle=FDrop(1), random_state=0).fit(X, Y)
    model.coef_ = np.full_like(model.coef_, 1e-41)
    rows = np.full((2, 4), 1e-6, np.float32)
    assert not model.predict(rows).any()
    assert not model.certify(rows, np.ones((2, 2), dtype=int)).correct.any()
