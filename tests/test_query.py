"""`BoundOracle.worst`: for every oracle it agrees with `support`."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from structinv.oracles import FDrop, FScale
from structinv.oracles.checked_oracle import bind
from structinv.oracles.query import Query, Violations, rows_at, worst_at, worst_by_support
from structinv.structures.decodings import Competitors, LabelFunctions
from structinv.utils.matrices import ALL_ROWS, dense

from .oracle_cases import CASES, D, rows

TWO = LabelFunctions(np.zeros(2, dtype=np.int64), np.array([-1.0, 1.0]))
THREE = LabelFunctions.one_each(3)


def asked(case, functions, slack=False, seed=0, **more):
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
    return bind(case.oracle, X, y), Query(weights, constants, competitors, **more)


def heights(question, points, labels):
    """Score differences of labels at points."""
    values = dense(points) @ question.weights.T + question.constants
    return question.competitors.gain_of(values, labels)


@pytest.mark.parametrize("functions", [TWO, THREE], ids=["two", "three"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_worst_matches_support_and_points_attain_it(case, functions):
    bound, question = asked(case, functions)
    worst, reference = bound.worst(ALL_ROWS, question), worst_by_support(bound, ALL_ROWS, question)
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
@pytest.mark.parametrize("case", CASES, ids=str)
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


@pytest.mark.parametrize("case", [case for case in CASES if not case.oracle.graded], ids=str)
def test_slack_rescaling_multiplies_gains_by_costs(case):
    bound, margin = asked(case, THREE)
    _, slack = asked(case, THREE, slack=True)
    one, other = bound.worst(ALL_ROWS, margin), bound.worst(ALL_ROWS, slack)
    np.testing.assert_allclose(other.gains, one.gains * slack.competitors.costs, atol=1e-9)
    np.testing.assert_allclose(other.costs, slack.competitors.costs, atol=1e-12)


def test_levels_are_stacked_and_masks_merge_rows():
    bound, question = asked(next(case for case in CASES if type(case.oracle) is FDrop), THREE)
    worst = bound.worst(ALL_ROWS, question)
    both = Violations.of_levels([worst, worst])
    np.testing.assert_array_equal(both.gains[..., 1], worst.gains)
    assert Violations.of_levels([worst]) is worst
    mask = np.arange(len(worst.gains)) % 3 == 0
    parts = [worst.take(np.flatnonzero(each)) for each in (mask, ~mask)]
    joined, labels = Violations.by_mask(mask, *parts), (question.competitors.codes + 2) % 3
    np.testing.assert_array_equal(joined.upper, worst.upper)
    for places in (np.arange(len(mask)), np.array([0, 3, 6]), np.array([1, 2]), np.array([2, 3])):
        found, wanted = (each.take(places).points(labels[places]) for each in (joined, worst))
        np.testing.assert_array_equal(dense(found.points), dense(wanted.points))
        np.testing.assert_array_equal(found.gains, wanted.gains)


def test_a_single_member_has_its_grade():
    _, question = asked(CASES[0], THREE)
    X, _ = rows(3)
    grades = np.linspace(0.0, 1.0, len(X))
    worst = worst_at(X, question, grades)
    np.testing.assert_allclose(worst.costs, question.competitors.costs * grades[:, None])
    labels = (question.competitors.codes + 1) % 3
    np.testing.assert_allclose(worst.points(labels).gains, heights(question, X, labels))
    assert rows_at(X, np.arange(len(X))) is X


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
