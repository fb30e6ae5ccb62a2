"""Label sets of rows with a common perturbation, against enumeration."""

from __future__ import annotations

import pickle
from fractions import Fraction
from functools import cache, partial
from itertools import combinations, product

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

import structinv
from structinv import InvariantStructuredSVC
from structinv.certificates.label_sets import labels_worst_change
from structinv.kernels import Linear
from structinv.oracles import Box, FDrop, FiniteOracle, FScale, Identity, Support
from structinv.solvers import BMRM, FrankWolfe, Gap, Pegasos, Status, SVMStruct, solve
from structinv.spaces import ExplicitSpace
from structinv.spaces.kernel_space import KernelSpace
from structinv.structures import Layout, Multilabel, Sequence, check_structure
from structinv.structures.multilabel import mutual_information, pair_counts, positions, tree_of_counts
from structinv.terms import Objective
from structinv.terms.one_change import OneChange, OneChangeSearch

from ..covering import pairs
from ..problems import assert_brackets, minimum

N, FEATURES, SIZE = 8, 3, 3
WEIGHTS = np.linspace(0.2, 0.6, N)
COST = [[0.0, 0.7], [1.5, 0.0]]
RADIUS = 0.3


class Turns(FiniteOracle):
    """The first two features may be turned by a quarter, either way."""

    def orbit(self, X):
        left, right = X.copy(), X.copy()
        left[:, 0], left[:, 1] = -X[:, 1], X[:, 0]
        right[:, 0], right[:, 1] = X[:, 1], -X[:, 0]
        return np.stack([X, left, right], axis=1)


class Unlisted(FiniteOracle):
    """Turns whose members nobody lists: questions about directions only."""

    finite = False
    orbit = Turns.orbit

    def support(self, X, V, assign, cost=None, rho=None):
        return FiniteOracle.support(self, X, V, assign, cost, rho)


def data():
    """Return rows and label sets; the last label depends on the first two."""
    rng = np.random.default_rng(1)
    X = np.round(rng.standard_normal((N, FEATURES)), 1)
    y = (X[:, :2] + 0.5 * rng.standard_normal((N, 2)) > 0).astype(int)
    return X, np.column_stack([y, y.any(axis=1)])


def changes(oracle, x):
    """Return every element of S(x), or its corners."""
    if isinstance(oracle, FDrop):
        kept = [mask for mask in product([0.0, 1.0], repeat=len(x)) if sum(mask) >= len(x) - 1]
        return np.array(kept) * x
    if isinstance(oracle, Box):
        return x + RADIUS * np.array(list(product([-1.0, 1.0], repeat=len(x))))
    if isinstance(oracle, Turns | Unlisted):
        return oracle.orbit(x[None])[0]
    return x[None]


ORACLES = [Identity(), Turns(), Unlisted(), FDrop(1), Box(RADIUS)]
by_pairs = pytest.mark.parametrize("pairwise", [None, "tree"])


def problem(oracle, pairwise, *, sparse=False, space=ExplicitSpace):
    X, y = data()
    codes, layout = positions(y)
    rows = sp.csr_matrix(X) if sparse else X
    term = OneChange(rows, codes, oracle, Multilabel(pairwise), WEIGHTS, layout=layout, cost=COST)
    return Objective(space(FEATURES, SIZE, n_pairwise=term.bound_structure.n_pairwise), [term])


def pairs_of(labels, edges):
    """Return the entry of each edge's table for a label set."""
    chosen = np.zeros((len(edges), 2, 2))
    for e, (s, t) in enumerate(edges):
        chosen[e, labels[s], labels[t]] = 1.0
    return chosen.ravel()


@cache
def optimum(number, pairwise):
    """Return the optimum over all label sets and perturbations."""
    X, y = data()
    edges = tree_of_counts(pair_counts(y), len(y)) if pairwise else np.zeros((0, 2), dtype=int)
    W, A = cp.Variable((SIZE, FEATURES)), cp.Variable(max(1, 4 * len(edges)))
    total = 0.5 * cp.sum_squares(W) + 0.5 * cp.sum_squares(A)
    for x, truth, weight in zip(X, y, WEIGHTS, strict=True):
        parts = []
        for labels in product([0, 1], repeat=SIZE):
            moved = np.array(labels) - truth
            cost = sum(COST[c][k] for c, k in zip(truth, labels, strict=True))
            part = cp.max(changes(ORACLES[number], x) @ (W.T @ moved)) + cost
            if pairwise:
                part = part + (pairs_of(labels, edges) - pairs_of(truth, edges)) @ A
            parts.append(part)
        total = total + weight * cp.maximum(*parts)
    return minimum(total)


@pytest.mark.parametrize(
    ("oracle", "pairwise", "solver"),
    pairs(ORACLES, [None, "tree"], [FrankWolfe(), SVMStruct(), BMRM()]),
    ids=repr,
)
def test_label_sets_reach_the_optimum(oracle, pairwise, solver):
    best = optimum(ORACLES.index(oracle), pairwise)
    for sparse in {False, oracle.supports_sparse}:
        given = problem(oracle, pairwise, sparse=sparse)
        found = solve(given, solver, Gap(1e-7), random_state=0)
        assert found.status is Status.CONVERGED
        assert found.primal == pytest.approx(best, rel=1e-6)
        assert found.dual == pytest.approx(best, rel=1e-6)
        assert_brackets(found, best)
    near = solve(given, Pegasos(), Gap(5e-3), random_state=0)
    assert_brackets(near, best)
    assert near.primal <= best * 1.01


def heights(problem, f, x, truth, oracle, grade=lambda number: 1.0):
    """Of every set of labels what it has more than the true one, cost and grade included, by change."""
    space, term = problem.space, problem.terms[0]
    W, pairwise = space.weights(f), space.pairwise(f)
    structure = term.bound_structure.structure
    edges = np.zeros((0, 2), dtype=int) if structure.edges is None else structure.edges_
    found = {}
    for labels in product([0, 1], repeat=len(truth)):
        more = (pairs_of(labels, edges) - pairs_of(truth, edges)) @ pairwise
        cost = sum(COST[c][k] for c, k in zip(truth, labels, strict=True))
        found[labels] = [
            (z @ W.T @ (np.array(labels) - truth) + more, cost * grade(number))
            for number, z in enumerate(changes(oracle, x))
        ]
    return found


RHO = [1.0, 0.4, 0.2]


@by_pairs
@pytest.mark.parametrize(
    ("oracle", "rho"), [*((each, None) for each in ORACLES), (Turns(), RHO), (Unlisted(), RHO)], ids=repr
)
def test_values_and_planes_equal_enumeration(oracle, rho, pairwise):
    """All labels have the grade of the perturbation that they share."""
    given = problem(oracle if rho is None else oracle.discounted(rho), pairwise)
    term, space = given.terms[0], given.space
    f = np.random.default_rng(3).standard_normal(space.size)
    X, y = data()
    best = []
    for x, truth in zip(X, y, strict=True):
        every = heights(given, f, x, truth, oracle, lambda number: 1.0 if rho is None else rho[number])
        best.append(max(gain + cost for values in every.values() for gain, cost in values))
    planes = term.planes(space, f)
    at_f = planes.offsets - space.scores(f, planes.normals)
    for found in (*term.values(space, f), planes.plane_values, at_f):
        np.testing.assert_allclose(found, best, atol=1e-9)


def test_separate_perturbations_give_an_upper_bound(monkeypatch):
    given = problem(FDrop(1), "tree")
    f = np.random.default_rng(3).standard_normal(given.space.size)
    exact, _ = given.terms[0].values(given.space, f)
    monkeypatch.setattr("structinv.terms.one_change.MOST_LABELS", 1)
    upper, attained = given.terms[0].values(given.space, f)
    planes = given.terms[0].planes(given.space, f)
    assert np.all(upper >= exact - 1e-12)
    assert np.any(upper > exact + 0.01)
    assert np.all(attained <= exact + 1e-12)
    np.testing.assert_array_equal(planes.upper, upper)
    np.testing.assert_allclose(planes.plane_values, attained, atol=1e-12)
    found = solve(given, FrankWolfe(), Gap(1e-6), random_state=0)
    assert found.status is Status.ORACLE_TOO_COARSE
    monkeypatch.undo()
    best = solve(given, FrankWolfe(), Gap(1e-7), random_state=0)
    assert found.dual <= best.primal + 1e-9
    assert found.primal >= best.dual - 1e-9


@by_pairs
def test_portions_of_directions_do_not_change_the_result(pairwise, monkeypatch):
    given = problem(Box(RADIUS), pairwise)
    f, g = np.random.default_rng(3).standard_normal((2, given.space.size))
    found = []
    for at_once in (100, 2):
        monkeypatch.setattr("structinv.terms.one_change.WEIGHTS_AT_ONCE", at_once * FEATURES)
        planes = given.terms[0].planes(given.space, f)
        at_g = given.space.scores(g, planes.normals)
        found.append([*given.terms[0].values(given.space, f), planes.offsets, planes.upper, at_g])
    for whole, parts in zip(*found, strict=True):
        np.testing.assert_allclose(parts, whole, atol=1e-12)


class Careless(Box):
    """A box with exact bounds, of which only the rows themselves are found."""

    def support(self, X, V, assign, cost=None):
        return Support(X, super().support(X, V, assign, cost).values(V, assign))


@pytest.mark.parametrize("most", [12, 1])
@by_pairs
def test_bounds_hold_if_the_oracle_finds_no_worst_point(pairwise, most, monkeypatch):
    monkeypatch.setattr("structinv.terms.one_change.MOST_LABELS", most)
    given, (X, y) = problem(Careless(RADIUS), pairwise), data()
    n_changed = []
    for seed in range(5):
        f = np.random.default_rng(seed).standard_normal(given.space.size)
        upper, attained = given.terms[0].values(given.space, f)
        for i, (x, truth) in enumerate(zip(X, y, strict=True)):
            every = heights(given, f, x, truth, Box(RADIUS))
            values = {labels: max(map(sum, each)) for labels, each in every.items()}
            best = max(values, key=values.__getitem__)
            n_changed.append(np.sum(best != truth))
            assert attained[i] <= values[best] + 1e-9
            assert values[best] <= upper[i] + 1e-9
    assert set(n_changed) >= {1, 2, 3}


def search_of(given, f, codes):
    """A search on all rows against a labeling, without costs."""
    term = given.terms[0]
    own = given.space, f, term.bound, term.bound_structure, slice(None)
    return OneChangeSearch(*own, codes, np.zeros((*codes.shape, 2)))


@pytest.mark.parametrize(
    ("oracle", "pairwise", "most"),
    pairs([Turns(), FDrop(1), Box(RADIUS)], [None, "tree"], [12, 1]),
    ids=repr,
)
def test_wrong_labels_include_labelings_within_the_rounding(oracle, pairwise, most, monkeypatch):
    monkeypatch.setattr("structinv.terms.one_change.MOST_LABELS", most)
    given, (X, y), rounding = problem(oracle, pairwise), data(), 0.4
    for seed in range(3):
        f = np.random.default_rng(seed).standard_normal(given.space.size)
        codes = np.roll(y, 1, axis=0)
        found = search_of(given, f, codes).most_wrong(y, np.full(N, rounding))
        for i in range(N):
            scores = {
                labels: np.array([gain for gain, _ in values])
                for labels, values in heights(given, f, X[i], codes[i], oracle).items()
            }
            # The predictions at listed members are known.
            best = np.max(list(scores.values()), axis=0) if oracle.finite else 0.0
            wrong = max(
                np.sum(labels != y[i])
                for labels, own in scores.items()
                if np.any(own >= best - rounding + 1e-9)
            )
            assert found[i] >= wrong
            if most == 12 or oracle.finite:
                assert found[i] == wrong


@pytest.mark.parametrize("most", [12, 1])
@pytest.mark.parametrize("oracle", [FDrop(1), Box(2.0)], ids=str)
def test_sizes_are_at_least_those_at_the_points_found(oracle, most, monkeypatch):
    monkeypatch.setattr("structinv.terms.one_change.MOST_LABELS", most)
    given = problem(oracle, None, space=partial(ExplicitSpace, intercept=True))
    _, y = data()
    for seed in range(10):
        f = np.random.default_rng(seed).standard_normal(given.space.size)
        weights, constants = np.abs(given.space.weights(f)), np.abs(given.space.constants(f))
        found = search_of(given, f, y).worst(other=True)
        summands = np.abs(found.points) @ weights.T + constants
        assert np.all(found.sizes >= np.sum(summands * (found.labels != y), axis=1) * (1 - 1e-12))


@pytest.mark.parametrize(
    ("oracle", "pairwise", "most"), pairs(ORACLES, [None, "tree"], [12, 1]), ids=repr
)
def test_certificates_equal_enumeration(oracle, pairwise, most, monkeypatch):
    given = problem(oracle, pairwise)
    f = solve(given, FrankWolfe(), Gap(1e-3), random_state=0).f
    monkeypatch.setattr("structinv.terms.one_change.MOST_LABELS", most)
    labels = given.terms[0].bound_structure
    X, y = data()
    found = labels_worst_change(given.space, f, oracle, labels, X)
    proven = found.certificate()
    exact = most == 12 or oracle.finite
    for i in range(N):
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


def test_trees_keep_the_contract_of_structures():
    check_structure(Multilabel("tree"), longest=5, trials=20)


def test_prepared_tree_is_pickled_but_not_cloned():
    codes, layout = positions(data()[1])
    learned = Multilabel("tree").prepared(np.arange(2), codes, layout)
    assert learned.prepared(np.arange(2), 1 - codes, layout) is learned
    assert clone(learned).edges_ is None
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(learned)).edges_, learned.edges_)
    named = learned.named(np.arange(8.0), 2)
    assert named["pairs"].shape == (2, 2, 2)
    with pytest.raises(ValueError, match="call prepared"):
        Multilabel("tree").n_pairwise(2)


X, LABEL_SETS = data()
CODES, LAYOUT = positions(LABEL_SETS)


def one_change(X=X, codes=CODES, oracle=None, structure=None, layout=LAYOUT, **options):
    return OneChange(X, codes, oracle or Identity(), structure or Multilabel(), layout=layout, **options)


def attacked(labels):
    space = ExplicitSpace(FEATURES, SIZE)
    return labels_worst_change(space, np.zeros(9), Identity(), labels, X)


OF_ONE_ROW = "labels must be a BoundStructure of one row per example"
REFUSED = [
    (lambda: positions(np.zeros(3)), ValueError, r"y must have shape \(n, L\).*got \(3,\)"),
    (lambda: positions(np.zeros((3, 0))), ValueError, "one row and one column"),
    (lambda: positions(np.zeros((0, 2))), ValueError, "at least one row"),
    (lambda: positions(np.array([[0, 2]])), ValueError, "row 0, column 1"),
    (lambda: positions([[0, 1], [0]]), ValueError, "one column per label"),
    (lambda: positions(np.array([["a", "b"]])), TypeError, "got dtype"),
    (lambda: positions(sp.csr_matrix(np.eye(2))), TypeError, "toarray"),
    (lambda: one_change(structure=Multilabel("all")), ValueError, "edges must be None or 'tree'"),
    (
        lambda: Multilabel("tree").bind(CODES, layout=Layout.of_lengths([5, *[1] * (3 * N - 5)])),
        ValueError,
        "same number of labels in all rows",
    ),
    (
        lambda: one_change(layout=Layout.of_lengths([4, 2, *[3] * (N - 2)])),
        ValueError,
        "same number of positions for every row",
    ),
    (lambda: one_change(X[:7]), ValueError, "labels for each of 7 rows"),
    (lambda: one_change(oracle=Box(0.1).only_for(1)), ValueError, "only_for"),
    (lambda: one_change(structure=Sequence()), TypeError, "positions share one row"),
    (lambda: one_change(codes=np.arange(len(CODES)) % 3), ValueError, "absent"),
    (lambda: one_change(rescaling="slack"), ValueError, "rescaling must be one of"),
    (lambda: Objective(ExplicitSpace(FEATURES, SIZE + 1), [one_change()]), ValueError, "n_outputs"),
    (
        lambda: Objective(KernelSpace(Linear(), FEATURES, SIZE), [one_change(oracle=Box(RADIUS))]),
        ValueError,
        "oracle must be finite if functions are not linear",
    ),
    (lambda: attacked(Sequence().bind(CODES, layout=LAYOUT)), TypeError, OF_ONE_ROW),
    (lambda: attacked(CODES), TypeError, OF_ONE_ROW),
]


@pytest.mark.parametrize(("call", "error", "message"), REFUSED)
def test_wrong_arguments_raise_with_their_name(call, error, message):
    with pytest.raises(error, match=message):
        call()


def fitted(pairwise=None, oracle=None, **parameters):
    X, y = data()
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
    assert model.coef_.shape == (SIZE, FEATURES)
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
    X, y = data()
    twice = InvariantStructuredSVC(Multilabel(), tol=1e-8, random_state=0)
    one = clone(twice).fit(np.vstack([X, X[:2]]), np.vstack([y, y[:2]]))
    other = clone(twice).fit(X, y, sample_weight=np.r_[2.0, 2.0, np.ones(N - 2)])
    np.testing.assert_allclose(one.coef_, other.coef_, atol=1e-3)
    none = clone(twice).fit(X, y, position_weight=np.tile([1.0, 1.0, 0.0], (N, 1)))
    np.testing.assert_allclose(none.coef_[2], 0.0, atol=1e-8)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"y": data()[1][:5]}, ValueError, "y must have labels for each of 8 rows, got 5"),
        ({"y": data()[1] + 1}, ValueError, "y must contain 0 .absent. and 1 .present., got 2"),
        ({"y": np.zeros((N, 2), dtype=int)}, ValueError, "at least two classes"),
        ({"X": [data()[0]]}, TypeError, "X must be a matrix"),
        ({"X": np.full((N, 2), np.nan)}, ValueError, "NaN"),
    ],
)
def test_estimator_raises_for_invalid_indicator_matrices(change, error, message):
    X, y = data()
    with pytest.raises(error, match=message):
        InvariantStructuredSVC(Multilabel()).fit(**({"X": X, "y": y} | change))


@by_pairs
def test_kernels_support_indicator_matrices(pairwise, tmp_path):
    X, y = data()
    settings = {"C": 0.5, "tol": 1e-6, "random_state": 0}
    linear = InvariantStructuredSVC(Multilabel(pairwise), oracle=Turns(), **settings).fit(X, y)
    model = InvariantStructuredSVC(
        Multilabel(pairwise), oracle=Turns(), kernel=Linear(), **settings
    ).fit(X, y)
    assert model.solution_.primal == pytest.approx(linear.solution_.primal, rel=1e-5)
    np.testing.assert_array_equal(model.predict(X), linear.predict(X))
    one, other = model.certify(X, y), linear.certify(X, y)
    np.testing.assert_allclose(one.margins, other.margins, atol=1e-2)
    np.testing.assert_array_equal(one.most_wrong, other.most_wrong)
    assert model.worst_case(X, y)[0].shape == X.shape
    rbf = InvariantStructuredSVC(Multilabel(pairwise), oracle=Turns(), kernel="rbf", **settings)
    rbf.fit(X, y)
    structinv.save(rbf.set_params(oracle=None), tmp_path / "rbf.model")
    again = structinv.load(tmp_path / "rbf.model")
    np.testing.assert_array_equal(again.predict(X), rbf.predict(X))


def test_products_that_become_zero_are_not_certified():
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((20, 4)).astype(np.float32), (rng.random((20, 2)) < 0.5).astype(int)
    model = InvariantStructuredSVC(Multilabel(), oracle=FDrop(1), random_state=0).fit(X, Y)
    model.coef_ = np.full_like(model.coef_, 1e-41)
    rows = np.full((2, 4), 1e-6, np.float32)
    assert not model.predict(rows).any()
    assert not model.certify(rows, np.ones((2, 2), dtype=int)).correct.any()
