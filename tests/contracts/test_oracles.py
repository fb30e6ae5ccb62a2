"""The contract of oracles: `check_oracle` and cvxpy for all cases, and `BoundOracle.worst`."""

from __future__ import annotations

from dataclasses import replace

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.model_selection import ParameterGrid

from structinv.oracles import (
    REGISTRY,
    Box,
    Budget,
    Ellipsoid,
    FDrop,
    FScale,
    Identity,
    InvarianceOracle,
    Sampled,
    Support,
    TangentDerivative,
    Trajectory,
    check_oracle,
)
from structinv.oracles.base import CountedChanges
from structinv.oracles.query import Query, best_members, worst_by_support
from structinv.oracles.third_party import bind
from structinv.oracles.union import Union
from structinv.structures.competitors import Competitors, LabelFunctions
from structinv.utils.matrices import ALL_ROWS, dense, row_dots

from ..oracles.cases import (
    BENT,
    CASES,
    FACTOR,
    RADII,
    D,
    Reorderings,
    ellipsoid,
    row_factor,
    row_lags,
    row_powers,
    rows,
)
from ..oracles.orbit_cases import ORBIT_CASES
from ..oracles.test_oracle_checks import Faulty

every_case = pytest.mark.parametrize("case", CASES, ids=str)


def test_every_registered_oracle_has_a_case():
    assert {type(case.oracle) for case in CASES} >= set(REGISTRY.values())


@every_case
def test_registered_oracles_pass_check_oracle(case):
    X, y = rows()
    check_oracle(case.oracle, X[:3], y[:3], n_directions=4)
    assert case.oracle.supports_sparse == case.sparse


@pytest.mark.parametrize("case", [case for case in CASES if case.sparse], ids=str)
def test_registered_oracles_pass_check_oracle_with_sparse_samples(case):
    X, y = rows(1)
    check_oracle(case.oracle, sp.csr_matrix(X), y, n_directions=2, random_state=1)


@every_case
def test_support_is_the_maximum_of_a_convex_program(case):
    X, y = rows(2)
    V = np.random.default_rng(2).standard_normal((6, D))
    V[-1] = 0.0
    assign = np.arange(len(X)) % len(V)
    answer = case.oracle.bind(X, y).support(ALL_ROWS, V, assign)
    wanted = [
        case.support_expression(x, label, cp.Constant(V[a])).value
        for x, label, a in zip(X, y, assign, strict=True)
    ]
    reached = row_dots(answer.points, V, assign)
    np.testing.assert_allclose(reached, wanted, rtol=1e-9, atol=1e-9)
    # A bound that allows for rounding is that of an exact answer, too.
    upper = reached if answer.upper is None else answer.upper
    np.testing.assert_allclose(upper, wanted, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("size", [0.1, 1.0, 10.0])
@pytest.mark.parametrize("case", [case for case in CASES if case.graded], ids=str)
def test_graded_support_is_the_maximum_over_grades(case, size):
    X, y = rows(3)
    rng = np.random.default_rng(3)
    V, cost = rng.standard_normal((len(X), D)), rng.uniform(0.0, size, len(X))
    each = np.arange(len(X))
    answer = case.oracle.bind(X, y).support(ALL_ROWS, V, each, cost)
    wanted = [
        case.graded_support_expression(*row).value
        for row in zip(X, y, map(cp.Constant, V), cost, strict=True)
    ]
    reached = row_dots(answer.points, V, each) + cost * answer.rho
    np.testing.assert_allclose(reached, wanted, rtol=1e-9, atol=1e-9)


def test_grades_follow_the_factor_of_each_row():
    X, y = rows(3)
    V, assign = np.random.default_rng(3).standard_normal((2, D)), np.arange(len(X)) % 2
    cost = np.linspace(0.0, 3.0, len(X))
    answer = Ellipsoid(row_factor, 0.3).discounted(BENT).support(X, V, assign, cost)
    most = ellipsoid(row_factor, 0.3, BENT)
    wanted = [most(*row).value for row in zip(X, y, map(cp.Constant, V[assign]), cost, strict=True)]
    reached = row_dots(answer.points, V, assign) + cost * answer.rho
    np.testing.assert_allclose(reached, wanted, rtol=1e-9, atol=1e-9)


@every_case
def test_expressions_are_convex(case):
    X, y = rows()
    v = cp.Variable(D)
    for x, label in zip(X[:3], y[:3], strict=True):
        assert case.graded_support_expression(x, label, v, 0.5).is_dcp()


@every_case
def test_support_of_zero_rows_is_empty(case):
    bound = case.oracle.bind(*rows())
    none = np.zeros(0, dtype=np.intp)
    assert bound.support(none, np.ones((1, D)), none, np.zeros(0)).points.shape == (0, D)


@pytest.mark.parametrize("case", [case for case in CASES if case.graded], ids=str)
def test_cost_defaults_to_zero(case):
    bound = case.oracle.bind(*rows())
    V, assign = np.ones((1, D)), np.zeros(len(bound.X), dtype=int)
    plain = bound.support(ALL_ROWS, V, assign)
    zero = bound.support(ALL_ROWS, V, assign, np.zeros(len(assign)))
    np.testing.assert_array_equal(plain.points, zero.points)
    np.testing.assert_array_equal(plain.rho, zero.rho)


numbers = st.floats(-3.0, 3.0, allow_nan=False, width=32).map(lambda t: round(t, 3))
vectors = st.lists(numbers, min_size=D, max_size=D).map(np.array)


@every_case
@settings(max_examples=10)
@given(x=vectors, v=vectors, label=st.integers(0, 2), seed=st.integers(0, 99))
def test_no_member_exceeds_the_support(case, x, v, label, seed):
    bound = case.oracle.bind(x[None, :], np.array([label]))
    answer = bound.support(ALL_ROWS, v[None, :], np.array([0]))
    best = (answer.points @ v).item()
    members = bound.sample(ALL_ROWS, 50, np.random.default_rng(seed))[0]
    assert np.all(members @ v <= best + 1e-9 * (1.0 + abs(best)))
    try:
        assert bound.contains(0, answer.points[0])
        assert bound.contains(0, x)
        assert all(bound.contains(0, z) for z in members[:5])
        if np.any(v != 0):
            beyond = answer.points[0] + 1e-3 * v / np.linalg.norm(v)
            assert not bound.contains(0, beyond)
    except NotImplementedError as error:
        assert "does not define contains" in str(error)  # noqa: PT017


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


def test_a_union_contains_the_members_of_each_of_its_parts():
    X, _ = rows()
    parts = [FScale(1, 1.0, 3.0), Box(0.1), FDrop(D)]
    bound = (parts[0] | parts[1] | parts[2]).bind(X)
    V, assign = -np.ones((1, D)), np.zeros(len(X), dtype=int)
    for part in parts:
        points = part.support(X, V, assign).points
        alone = part.bind(X)
        for row, z in enumerate(points):
            assert alone.contains(row, z)
            assert bound.contains(row, z)
            assert not bound.contains(row, z + 10.0)


def test_random_parts_of_a_union_are_independent_between_rows():
    n_draws = 2000
    bound = (Identity() | Box(1.0)).bind(np.zeros((2, D)))
    first = np.all(bound.sample(ALL_ROWS, n_draws, np.random.default_rng(0)) == 0, axis=2)
    noise = 4.0 * np.sqrt(0.25 / n_draws)
    np.testing.assert_allclose(first.mean(axis=1), 0.5, atol=noise)
    np.testing.assert_allclose(np.mean(first[0] & first[1]), 0.25, atol=noise)


@pytest.mark.parametrize("left", [Sampled(row_lags), Trajectory(row_powers, 2)], ids=["list", "curve"])
def test_lists_after_other_members_are_those_of_each_member(left):
    X, _ = rows()
    right = Reorderings([[0, 1, 2, 3, 4], [4, 3, 2, 1, 0], [1, 0, 2, 4, 3]])
    V = np.random.default_rng(0).standard_normal((3, D))
    for number, v in enumerate(V):
        assign = np.full(len(X), number)
        points = np.moveaxis(right.orbit(X), 1, 0)
        best = np.max([left.support(z, V, assign).points @ v for z in points], axis=0)
        found = (left @ right).bind(X).support(ALL_ROWS, V, assign).points @ v
        np.testing.assert_allclose(found, best)


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_rows_with_scores_that_are_not_finite_have_no_gains(wrong):
    scores = np.random.default_rng(0).standard_normal((3, 4, 2))
    costs = np.ones((3, 2)) - np.eye(2)[[0, 1, 0]]
    competitors = Competitors(LabelFunctions.one_each(2), np.array([0, 1, 0]), costs, slack=False)
    gains, _, members = best_members(scores, competitors, None)
    spoilt = scores.copy()
    spoilt[1, 2, 0] = wrong
    found, _, others = best_members(spoilt, competitors, None)
    assert np.all(np.isnan(found[1]))
    np.testing.assert_array_equal(found[::2], gains[::2])
    np.testing.assert_array_equal(others[::2], members[::2])


class Unfound(InvarianceOracle):
    """Rows moved along the first feature, which are bounded but never found."""

    def support(self, X, V, assign, cost=None):
        return Support(X, np.einsum("ij,ij->i", X, V[assign]) + 3.0 * np.abs(V[assign, 0]))


class TestCompose:
    def test_pairs_without_a_support_are_errors(self):
        X, _ = rows(4)
        oracle = FScale(2, 0.2, 4.0) @ Ellipsoid(np.eye(D))
        with pytest.raises(NotImplementedError, match="support of FScale @ Ellipsoid: the left oracle"):
            oracle.support(X, np.ones((1, D)), np.zeros(len(X), dtype=int))

    def test_compositions_combine_the_bounds_of_the_parts(self):
        X, _ = rows(4)
        loose, V = Loose(0.5), np.ones((1, D))
        assign = np.zeros(len(X), dtype=int)
        turns = Reorderings([[0, 1, 2, 3, 4], [4, 3, 2, 1, 0]])
        for oracle in (Box(0.1) @ loose, loose @ Box(0.1), turns @ loose, loose @ turns):
            answer = oracle.support(X, V, assign)
            reached = answer.points @ V[0]
            np.testing.assert_allclose(answer.upper, reached + 1.0)
        answer = (loose | Identity()).support(X, V, assign)
        np.testing.assert_allclose(answer.upper, X.sum(axis=1) + 0.5 * D + 1.0)

    def test_the_bound_of_maps_is_that_of_any_map(self):
        X, _ = rows(4)
        oracle = Reorderings([[0, 1, 2, 3, 4], [4, 3, 2, 1, 0]]) @ Unfound()
        V, hidden = np.eye(D), 3.0 * np.eye(D)[:1]
        members = np.stack([X, X + hidden, X - hidden], axis=1)
        for number, v in enumerate(V):
            answer = oracle.support(X, V, np.full(len(X), number))
            best = [(members[:, :, order] @ v).max(axis=1) for order in (np.s_[:], np.s_[::-1])]
            assert np.all(answer.upper >= np.max(best, axis=0) - 1e-12)

    def test_compositions_of_graded_parts_raise(self):
        X, _ = rows()
        graded = FDrop(1).discounted(0.5)
        for oracle in (
            graded @ Box(1.0),
            Box(1.0) @ (graded | Identity()),
            graded.only_for(0) @ FDrop(10),
        ):
            with pytest.raises(NotImplementedError, match="Compose does not support grades"):
                oracle.bind(X, np.zeros(len(X)))

        with pytest.raises(NotImplementedError, match="Faulty has grades"):
            (Box(1.0) @ Faulty("ignores reward")).support(
                X, np.ones((1, D)), np.zeros(len(X), dtype=int)
            )

    def test_contains_is_not_defined(self):
        with pytest.raises(NotImplementedError, match="does not define contains"):
            (Box(1.0) @ FScale(1)).contains(np.ones(D), np.ones(D))


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


class WithGrades(InvarianceOracle):
    """A box of another class, which takes grades."""

    def support(self, X, V, assign, cost=None, rho=None):
        return Box(1.0).support(X, V, assign, cost, rho)


class WithoutGrades(InvarianceOracle):
    def support(self, X, V, assign, cost=None):
        return Box(1.0).support(X, V, assign)


def test_third_party_oracles_take_grades_by_the_argument_rho():
    X, _ = rows()
    V, assign, cost = np.ones((1, D)), np.zeros(len(X), dtype=int), np.full(len(X), 2.0)
    answer = WithGrades().discounted(0.5).support(X, V, assign, cost)
    wanted = Box(1.0).discounted(0.5).support(X, V, assign, cost)
    np.testing.assert_array_equal(answer.points, wanted.points)
    np.testing.assert_array_equal(answer.rho, wanted.rho)
    with pytest.raises(NotImplementedError, match="WithoutGrades does not support grades"):
        WithoutGrades().discounted(0.5).support(X, V, assign, cost)


@pytest.mark.parametrize("view", ["orbit", "tangents"])
def test_unsupported_methods_raise_with_their_name(view):
    with pytest.raises(NotImplementedError, match=f"FScale does not define {view}"):
        getattr(FScale(1), view)(np.ones((1, D)))


def test_tangents_are_derivatives_per_unit():
    X, _ = rows()
    np.testing.assert_array_equal(Ellipsoid(FACTOR, 9.0).tangents(X)[1], FACTOR.T)
    np.testing.assert_array_equal(Box(RADII).tangents(X)[0], np.eye(D)[RADII > 0])
    np.testing.assert_array_equal(TangentDerivative(FACTOR.T, 3.0).tangents(X)[2], FACTOR.T)
    assert Identity().tangents(X).shape == (len(X), 0, D)


def test_labels_may_be_one_label_a_sequence_or_a_set():
    X, y = rows()
    names = np.array(["ham", "spam", "other"])[y]
    one = np.flatnonzero(names == "spam")
    for labels in ("spam", ["spam"], ("spam",), {"spam"}, np.array(["spam"])):
        bound = Box(1.0).only_for(labels).bind(X, names)
        points = bound.support(ALL_ROWS, np.ones((1, D)), np.zeros(len(X), dtype=int)).points
        np.testing.assert_array_equal(np.flatnonzero(np.any(points != X, axis=1)), one)


class Loose(InvarianceOracle):
    """A box whose bound is too large by 1."""

    additive = True

    def __init__(self, radius):
        self.radius = radius

    def support(self, X, V, assign, cost=None):
        answer = Box(self.radius).support(X, V, assign)
        return Support(answer.points, row_dots(answer.points, V, assign) + 1.0)


class LooseEdits(Loose):
    """Such boxes by a number of edits, with grades."""

    def counted(self):
        return CountedChanges(2, lambda number: Loose(0.5 * number), [1.0, 0.5, 0.25])


class TestBounds:
    """Bounds of inexact parts, which are too large by 1, include the costs."""

    X, V = rows(4)[0], np.ones((1, D))
    assign, cost = np.zeros(len(X), dtype=int), np.linspace(0.0, 2.0, len(X))

    def test_rows_without_grades_have_the_whole_cost(self):
        oracle, y = Loose(0.5) | Box(0.1).discounted(0.5), np.arange(len(self.X)) % 2
        wanted = self.X.sum(axis=1) + 0.5 * D + 1.0 + self.cost
        upper = oracle.support(self.X, self.V, self.assign, self.cost).upper
        np.testing.assert_allclose(upper, wanted)
        bound = oracle.only_for(1).bind(self.X, y)
        upper = bound.support(ALL_ROWS, self.V, self.assign, self.cost).upper
        np.testing.assert_allclose(upper, np.where(y == 1, wanted, self.X.sum(axis=1) + self.cost))

    def test_budgets_add_the_cost_at_the_grade_of_all_edits(self):
        scenarios = Budget(LooseEdits(1.0)).bind(self.X).scenarios()
        for levels, grade in zip(scenarios, [1.0, 0.5, 0.25], strict=True):
            for number, level in enumerate(levels):
                upper = level.support(ALL_ROWS, self.V, self.assign, self.cost).upper
                wanted = self.X.sum(axis=1) + 0.5 * number * D + 1.0 + grade * self.cost
                np.testing.assert_allclose(upper, wanted)


TWO = LabelFunctions(np.zeros(2, dtype=np.int64), np.array([-1.0, 1.0]))
THREE = LabelFunctions.one_each(3)


def asked(case, functions, slack=False, seed=0, dtype=np.float64, **more):
    """Return a bound oracle and a query for its rows."""
    X, y = rows(3)
    rng = np.random.default_rng(seed)
    n_labels = len(functions)
    codes = rng.integers(n_labels, size=len(X))
    costs = rng.uniform(0.5, 2.0, size=(len(X), n_labels))
    costs[np.arange(len(X)), codes] = 0.0
    weights = rng.standard_normal((functions.n_outputs, D))
    constants = rng.standard_normal(functions.n_outputs)
    competitors = Competitors(functions, codes, costs, slack)
    return bind(case.oracle, X.astype(dtype), y), Query(weights, constants, competitors, **more)


def heights(question, points, labels):
    """Score differences of labels at points."""
    values = dense(points) @ question.weights.T + question.constants
    return question.competitors.gain_of(values, labels)


@pytest.mark.parametrize("functions", [TWO, THREE], ids=["two", "three"])
@pytest.mark.parametrize("case", CASES + ORBIT_CASES, ids=str)
def test_worst_matches_support_and_points_attain_it(case, functions):
    bound, question = asked(case, functions)
    reference = worst_by_support(bound, ALL_ROWS, question)
    if getattr(case, "scored", False):
        # Scores of all members come together: nobody asks for one direction at a time.
        bound.support = None
    worst = bound.worst(ALL_ROWS, question)
    total = reference.gains + reference.costs
    np.testing.assert_allclose(worst.gains + worst.costs, total, rtol=1e-9, atol=1e-9)
    assert np.all(worst.upper >= worst.gains + worst.costs - 1e-12)
    assert np.all(worst.upper <= reference.upper + 1e-9)
    labels = (question.competitors.codes + 1) % len(functions)
    found, every = worst.points(labels), np.arange(len(labels))
    np.testing.assert_allclose(heights(question, found.points, labels), found.gains, atol=1e-9)
    np.testing.assert_allclose(found.gains, worst.gains[every, labels], atol=1e-12)
    np.testing.assert_allclose(found.costs, worst.costs[every, labels], atol=1e-12)


@pytest.mark.parametrize("functions", [TWO, THREE], ids=["two", "three"])
@pytest.mark.parametrize("case", CASES + ORBIT_CASES, ids=str)
def test_take_returns_the_answers_of_some_rows(case, functions):
    bound, question = asked(case, functions)
    worst = bound.worst(ALL_ROWS, question)
    places = np.array([1, 2, 5])
    labels = (question.competitors.codes[places] + 1) % len(functions)
    for part in (worst.take(places), bound.worst(places, question.take(places))):
        np.testing.assert_allclose(part.gains, worst.gains[places], atol=1e-12)
        found = part.points(labels)
        at_points = heights(question.take(places), found.points, labels)
        np.testing.assert_allclose(at_points, worst.gains[places, labels], atol=1e-9)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_answers_without_points_have_the_same_values(case):
    bound, question = asked(case, TWO, points=False, rounding=True)
    alone, whole = bound.worst(ALL_ROWS, question), bound.worst(ALL_ROWS, asked(case, TWO)[1])
    np.testing.assert_allclose(alone.gains, whole.gains, atol=1e-9)
    assert np.all((alone.rounding > 0) == (np.arange(2) != question.competitors.codes[:, None]))
    assert np.all(alone.rounding < 1e-10)
    at_points = bound.worst(ALL_ROWS, asked(case, TWO, rounding=True)[1]).rounding
    assert np.all(alone.rounding >= at_points * (1.0 - 1e-12))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_rounding_is_at_least_the_error_of_products(case, dtype):
    bound, question = asked(case, THREE, dtype=dtype, rounding=True)
    worst, codes = bound.worst(ALL_ROWS, question), question.competitors.codes
    sizes, added = np.abs(question.weights), np.abs(question.constants)
    for shift in (1, 2):
        labels = (codes + shift) % 3
        points = np.abs(dense(worst.points(labels).points))
        # The sums of the absolute terms of both scores.
        terms = (
            np.einsum("nd,nd->n", points, sizes[labels] + sizes[codes]) + added[labels] + added[codes]
        )
        least = (D + 1) * np.finfo(dtype).eps * terms
        assert np.all(worst.rounding[np.arange(len(codes)), labels] >= least)


@pytest.mark.parametrize("case", [case for case in CASES if not case.oracle.graded], ids=str)
def test_slack_rescaling_multiplies_gains_by_costs(case):
    bound, margin = asked(case, THREE)
    _, slack = asked(case, THREE, slack=True)
    one, other = bound.worst(ALL_ROWS, margin), bound.worst(ALL_ROWS, slack)
    np.testing.assert_allclose(other.gains, one.gains * slack.competitors.costs, atol=1e-9)
    np.testing.assert_allclose(other.costs, slack.competitors.costs, atol=1e-12)


@pytest.mark.parametrize("by_row", [False, True], ids=["costs of labels", "costs of rows"])
def test_queries_of_the_largest_sum_match_all_labels(by_row):
    case = next(case for case in CASES if type(case.oracle) is FDrop)
    bound, question = asked(case, THREE)
    if not by_row:
        cost = np.array([[0.0, 1.0, 2.0], [0.5, 0.0, 1.0], [3.0, 1.5, 0.0]])
        question = replace(
            question, competitors=replace(question.competitors, costs=cost[question.competitors.codes])
        )
    whole = bound.worst(ALL_ROWS, question)
    alone = replace(question, points=False, competitors=replace(question.competitors, alone=True))
    largest = bound.worst(ALL_ROWS, alone)
    for name in ("upper", "gains"):
        sums = [getattr(each, name) + (name == "gains") * each.costs for each in (largest, whole)]
        np.testing.assert_allclose(*(each.max(axis=1) for each in sums), rtol=1e-12)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(-4, 4), min_size=1, max_size=6),
    st.integers(0, 7),
    st.sampled_from([(0.0, 1.0), (0.5, 2.0), (1.0, 1.5)]),
    st.integers(0, 100),
)
def test_worst_points_attain_the_gains(row, changes, factors, seed):
    X = sp.csr_matrix(np.array([row, row, row], dtype=float))
    table = np.random.default_rng(seed).integers(-2, 3, size=(len(row), 3)).astype(float)
    oracle = FScale(changes, *factors)
    bound, codes, labels = oracle.bind(X), np.zeros(3, dtype=np.int64), np.arange(3)
    competitors = Competitors(LabelFunctions.one_each(3), codes, np.zeros((3, 3)), slack=False)
    worst = bound.worst(slice(None), Query(table.T, np.zeros(3), competitors))
    found = worst.points(labels)
    points = dense(found.points)
    reached = np.einsum("ij,ij->i", points, (table - table[:, :1]).T)
    np.testing.assert_allclose(worst.gains[np.arange(3), labels], reached, atol=1e-12)
    np.testing.assert_array_equal(found.gains, worst.gains[np.arange(3), labels])
    assert all(oracle.contains(np.array(row, dtype=float), point) for point in points)
