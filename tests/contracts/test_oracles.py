"""The contract of oracles: `check_oracle` and cvxpy for all cases, and `BoundOracle.worst`."""

from __future__ import annotations

from dataclasses import replace

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from structinv.oracles import (
    REGISTRY,
    FAdd,
    FDrop,
    FEdit,
    FiniteOracle,
    FScale,
    LinearChanges,
    Permutations,
    Shifts,
    check_oracle,
)
from structinv.oracles.query import Query, worst_by_support
from structinv.oracles.third_party import bind
from structinv.structures.competitors import Competitors, LabelFunctions
from structinv.utils.matrices import ALL_ROWS, dense, row_dots

from ..oracles.cases import (
    CASES,
    NOISE,
    D,
    Spots,
    rows,
    told,
)
from ..oracles.orbit_cases import ORBIT_CASES

every_case = pytest.mark.parametrize("case", CASES, ids=str)
GRADED = [case for case in CASES if case.graded]


def test_every_registered_oracle_has_a_case():
    assert {type(case.oracle) for case in CASES} >= set(REGISTRY.values())


@every_case
def test_registered_oracles_pass_check_oracle(case):
    X, y = rows()
    check_oracle(case.oracle, X[:3], y[:3], n_directions=2)
    assert case.oracle.supports_sparse == case.sparse


def test_check_oracle_takes_sparse_samples():
    X, y = rows(1)
    for case in CASES:
        if case.name in ("fedit", "unit_length-fedit", "discounted-union"):
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


def test_graded_support_is_the_maximum_over_grades():
    for case in GRADED:
        with told(case):
            X, y = rows(3)
            each = np.arange(len(X))
            for size in (0.1, 1.0, 10.0):
                rng = np.random.default_rng(3)
                V, cost = rng.standard_normal((len(X), D)), rng.uniform(0.0, size, len(X))
                answer = case.oracle.bind(X, y).support(ALL_ROWS, V, each, cost)
                wanted = [
                    case.graded_support_expression(*row).value
                    for row in zip(X, y, map(cp.Constant, V), cost, strict=True)
                ]
                reached = row_dots(answer.points, V, each) + cost * answer.rho
                np.testing.assert_allclose(reached, wanted, rtol=1e-9, atol=1e-9)


def test_expressions_are_convex():
    X, y = rows()
    v = cp.Variable(D)
    for case in CASES:
        for x, label in zip(X[:3], y[:3], strict=True):
            assert case.graded_support_expression(x, label, v, 0.5).is_dcp(), case


def test_support_of_zero_rows_is_empty():
    none = np.zeros(0, dtype=np.intp)
    for case in CASES:
        bound = case.oracle.bind(*rows())
        points = bound.support(none, np.ones((1, D)), none, np.zeros(0)).points
        assert points.shape == (0, D), case


def test_cost_defaults_to_zero():
    for case in GRADED:
        with told(case):
            bound = case.oracle.bind(*rows())
            V, assign = np.ones((1, D)), np.zeros(len(bound.X), dtype=int)
            plain = bound.support(ALL_ROWS, V, assign)
            zero = bound.support(ALL_ROWS, V, assign, np.zeros(len(assign)))
            np.testing.assert_array_equal(plain.points, zero.points)
            np.testing.assert_array_equal(plain.rho, zero.rho)


numbers = st.floats(-3.0, 3.0, allow_nan=False, width=32).map(lambda t: round(t, 3))
vectors = st.lists(numbers, min_size=D, max_size=D).map(np.array)


@pytest.mark.slow
@every_case
@given(x=vectors, v=vectors, label=st.integers(0, 2), seed=st.integers(0, 99))
def test_no_member_of_any_row_exceeds_the_support(case, x, v, label, seed):
    check_members(case, x[None, :], v[None, :], np.array([label]), seed)


@every_case
def test_no_member_exceeds_the_support(case):
    rng = np.random.default_rng(8)
    # Halves have ties, and a third of the numbers are zero.
    X, V = np.round(2 * rng.uniform(-3.0, 3.0, (2, 12, D))) / 2 * (rng.random((2, 12, D)) < 0.7)
    X[:4], V[:4] = rng.uniform(-3.0, 3.0, (2, 4, D))
    X[4], V[5], V[6] = 0.0, 0.0, X[6]
    check_members(case, X, V, np.arange(12) % 3, 8)


def check_members(case, X, V, labels, seed):
    bound, each = case.oracle.bind(X, labels), np.arange(len(X))
    answer = bound.support(ALL_ROWS, V, each)
    best = row_dots(answer.points, V, each)
    points, members = dense(answer.points), bound.sample(ALL_ROWS, 50, np.random.default_rng(seed))
    assert np.all(np.einsum("nsd,nd->ns", members, V) <= (best + 1e-9 * (1.0 + abs(best)))[:, None])
    try:
        for i, (x, v) in enumerate(zip(X, V, strict=True)):
            assert bound.contains(i, points[i])
            assert bound.contains(i, x)
            assert all(bound.contains(i, z) for z in members[i, :5])
            if np.any(v != 0):
                beyond = points[i] + 1e-3 * v / np.linalg.norm(v)
                assert not bound.contains(i, beyond)
    except NotImplementedError as error:
        assert "does not define contains" in str(error)  # noqa: PT017


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


@pytest.mark.parametrize("case", CASES + ORBIT_CASES, ids=str)
def test_worst_matches_support_and_points_attain_it(case):
    for functions in (TWO, THREE):
        check_worst(case, functions)


def check_worst(case, functions):
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
    # The same of some rows, chosen before or afterwards.
    places = np.array([1, 2, 5])
    labels = labels[places]
    for part in (worst.take(places), bound.worst(places, question.take(places))):
        np.testing.assert_allclose(part.gains, worst.gains[places], atol=1e-12)
        found = part.points(labels)
        at_points = heights(question.take(places), found.points, labels)
        np.testing.assert_allclose(at_points, worst.gains[places, labels], atol=1e-9)


def test_answers_without_points_have_the_same_values():
    for case in CASES:
        with told(case):
            bound, question = asked(case, TWO, points=False, rounding=True)
            alone, whole = bound.worst(ALL_ROWS, question), bound.worst(ALL_ROWS, asked(case, TWO)[1])
            np.testing.assert_allclose(alone.gains, whole.gains, atol=1e-9)
            assert np.all((alone.rounding > 0) == (np.arange(2) != question.competitors.codes[:, None]))
            assert np.all(alone.rounding < 1e-10)
            at_points = bound.worst(ALL_ROWS, asked(case, TWO, rounding=True)[1]).rounding
            assert np.all(alone.rounding >= at_points * (1.0 - 1e-12))


def test_rounding_is_at_least_the_error_of_products():
    for case in CASES:
        with told(case):
            for dtype in (np.float32, np.float64):
                bound, question = asked(case, THREE, dtype=dtype, rounding=True)
                worst, codes = bound.worst(ALL_ROWS, question), question.competitors.codes
                sizes, added = np.abs(question.weights), np.abs(question.constants)
                for shift in (1, 2):
                    labels = (codes + shift) % 3
                    points = np.abs(dense(worst.points(labels).points))
                    # The sums of the absolute terms of both scores.
                    terms = (
                        np.einsum("nd,nd->n", points, sizes[labels] + sizes[codes])
                        + added[labels]
                        + added[codes]
                    )
                    least = (D + 1) * np.finfo(dtype).eps * terms
                    assert np.all(worst.rounding[np.arange(len(codes)), labels] >= least)


def test_slack_rescaling_multiplies_gains_by_costs():
    for case in CASES:
        if case.graded:
            continue
        bound, margin = asked(case, THREE)
        _, slack = asked(case, THREE, slack=True)
        one, other = bound.worst(ALL_ROWS, margin), bound.worst(ALL_ROWS, slack)
        wanted = one.gains * slack.competitors.costs
        np.testing.assert_allclose(other.gains, wanted, atol=1e-9, err_msg=case.name)
        np.testing.assert_allclose(other.costs, slack.competitors.costs, atol=1e-12, err_msg=case.name)


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


class SpotMaps(FiniteOracle):
    """The same for rows of ones, as maps."""

    def orbit(self, X):
        return self.changes(X).members()

    def changes(self, X, y=None):
        d = X.shape[1]
        return LinearChanges(
            X, [sp.csr_array(np.eye(d)), *(sp.csr_array(np.diag(1.0 + row)) for row in np.eye(d))]
        )


ONES, MIDDLE, FIRST = np.ones((1, 9)), np.eye(9)[4:5], np.eye(9)[0]
HALF = 1.0 * (np.arange(9) < 4)[None]
# Each has an oracle, a row, a direction, and the member that is chosen.
TIES = {
    "deleted words": (FDrop(2), ONES, -ONES, [0, 0, 1, 1, 1, 1, 1, 1, 1]),
    "rescaled words": (FScale(2, low=0.5, high=2.0), ONES, -ONES, [0.5, 0.5, 1, 1, 1, 1, 1, 1, 1]),
    "added words": (FAdd(2), HALF, ONES, [1, 1, 1, 1, 1, 1, 0, 0, 0]),
    "edited words": (FEdit(2), HALF, 1 - 2 * HALF, [0, 0, 1, 1, 0, 0, 0, 0, 0]),
    "graded deletions": (FDrop(2).discounted([1.0, 0.9, 0.8]), ONES, -ONES, [0, 0, 1, 1, 1, 1, 1, 1, 1]),
    "a list": (Spots(), ONES, ONES, 1 + FIRST),
    "a list of maps": (SpotMaps(), ONES, ONES, 1 + FIRST),
    "a graded list": (Spots().discounted(0.9), ONES, ONES, 1 + FIRST),
    "a union": (Spots() | FAdd(1), 0 * ONES, ONES, FIRST),
    "maps after deletions": (SpotMaps() @ FDrop(1), ONES, ONES, 1 + FIRST),
    "shifts": (Shifts(1), MIDDLE, ONES - 3 * MIDDLE, np.eye(9)[1]),
    "graded shifts": (Shifts(1).discounted(0.9), MIDDLE, ONES - 3 * MIDDLE, np.eye(9)[1]),
    "permutations": (Permutations((3, 3), axes="both"), MIDDLE, ONES, MIDDLE[0]),
}


@pytest.mark.parametrize("name", TIES)
def test_the_first_of_equal_members_is_chosen(name):
    oracle, X, V, expected = TIES[name]
    bound = bind(oracle, X, np.zeros(1))
    for noise in NOISE:
        points = bound.support(ALL_ROWS, V * (1 + noise), np.zeros(1, int), np.ones(1)).points
        assert dense(points)[0].tolist() == list(expected)
