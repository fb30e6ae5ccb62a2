"""Rows whose own words change while all rows add the same words, against the program itself."""

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from structinv import InvariantLinearSVC
from structinv.dual import refusals
from structinv.dual.addition_state import AdditionState
from structinv.dual.edit_state import EditState
from structinv.dual.plane_cache import PlaneCache
from structinv.oracles import FAdd, FDrop, FEdit, Protected
from structinv.solvers import BMRM, FrankWolfe, Gap, Status, solve

from .covering import pairs
from .word_problems import (
    VALUES,
    assert_made_again_from_planes,
    objective,
    planes_after_a_sweep,
    rows,
    state_of,
)

ORACLES = {
    "all": FEdit(2, add=0.3),
    "one": FEdit(1, add=1.0).only_for(1),
    "values": FEdit(2, add=0.3 * VALUES).only_for(1),
    "scaled": FEdit(3, add=0.2, drop=False, scale=(0.5, 2.0)),
    "dropped, scaled": FEdit(2, add=0.5, scale=(0.3, 3.0)).only_for(0),
    "allowed": FEdit(2, add=1.5, allowed=np.arange(0, 30, 2)).only_for(0),
    "many": FEdit(25, add=0.1).only_for(1),
}
every_oracle = pytest.mark.parametrize("oracle", ORACLES.values(), ids=ORACLES)


def _what_may_be_done(oracle):
    """Changes of a row, factors, values, and which rows may change."""
    inner = getattr(oracle, "oracle", oracle)
    return inner.edits(30), np.isin(rows()[1], getattr(oracle, "labels", [0, 1]))


def optimum(oracle, intercept=True, weights=0.3):
    """The program itself, with the K largest gains of every row."""
    (X, y), (edits, changed) = rows(), _what_may_be_done(oracle)
    X, (n, d) = X.toarray(), X.shape
    w, b, cost = cp.Variable(d), cp.Variable(), 0.0
    for row, c in enumerate(np.broadcast_to(weights, n)):
        s, x = 2 * y[row] - 1, X[row]
        depth = -s * (w @ x + (b if intercept else 0.0))
        if changed[row]:
            own = -s * cp.multiply(x, w)
            added = -s * cp.multiply(edits.value * (x == 0), w)
            gains = cp.maximum((edits.low - 1) * own, (edits.high - 1) * own, added, 0)
            depth += cp.sum_largest(gains, edits.max_changes)
        cost += c * cp.pos(1 + depth)
    norm = cp.sum_squares(w) + (cp.square(b) if intercept else 0.0)
    return cp.Problem(cp.Minimize(0.5 * norm + cost)).solve(solver="CLARABEL")


@pytest.mark.parametrize(
    ("name", "intercept", "weight"), pairs(list(ORACLES), [True, False], [0.05, 0.5])
)
def test_the_optimum_of_the_program_lies_between_the_bounds(name, intercept, weight):
    oracle = ORACLES[name]
    problem = objective(oracle, intercept=intercept, weights=weight)
    assert isinstance(state_of(problem), EditState)
    found = solve(problem, FrankWolfe(), Gap(1e-7), random_state=0)
    best = optimum(oracle, intercept, weight)
    assert found.status is Status.CONVERGED
    assert found.dual <= best * (1 + 1e-6)
    assert found.primal == pytest.approx(best, rel=1e-6)


def test_with_weights_of_rows_some_of_which_are_zero():
    each = 0.2 * (np.arange(40) % 3)
    problem = objective(ORACLES["dropped, scaled"], weights=each, dense=True)
    found = solve(problem, FrankWolfe(), Gap(1e-7), random_state=0)
    assert found.primal == pytest.approx(optimum(ORACLES["dropped, scaled"], weights=each), rel=1e-6)


@every_oracle
def test_after_every_sweep_the_function_is_a_sum_of_planes_of_the_sets(oracle):
    problem, (edits, changed) = objective(oracle, weights=0.5), _what_may_be_done(oracle)
    term, state, f = problem.terms[0], state_of(problem), problem.space.zeros()
    X, signs = term.bound.X.toarray(), 2 * term.labels.codes - 1
    for _ in range(4):
        planes = planes_after_a_sweep(problem, state, f)
        if state.rest is not None:
            continue
        points, x = signs[planes.blocks, None] * planes.normals.toarray()[:, :30], X[planes.blocks]
        moved = points - x
        units = np.where(
            x > 0,
            np.where(moved < 0, (edits.low - 1) * x, (edits.high - 1) * x),
            edits.value,
        )
        shares = np.divide(moved, units, out=np.zeros_like(moved), where=np.abs(moved) > 1e-10)
        assert np.all((shares >= -1e-9) & (shares <= 1 + 1e-9))
        assert np.all(shares.sum(axis=1) <= edits.max_changes * changed[planes.blocks] + 1e-8)


@every_oracle
def test_a_state_is_made_again_from_its_planes(oracle):
    assert_made_again_from_planes(objective(oracle))


@settings(max_examples=25)
@given(
    seed=st.integers(0, 10_000), changes=st.integers(1, 4), add=st.sampled_from([0.05, 0.5, 2.0]),
    density=st.sampled_from([0.1, 0.4, 0.8]), weight=st.sampled_from([0.05, 1.0, 20.0]),
)  # fmt: skip
def test_planes_come_to_the_same(seed, changes, add, density, weight):
    data = rows(n=12, d=8, density=density, seed=seed)
    problem = objective(FEdit(changes, add=add).only_for(1), data=data, weights=weight)
    found = solve(problem, FrankWolfe(), Gap(1e-6), random_state=0)
    other = solve(problem, BMRM(), Gap(1e-6), random_state=0)
    assert found.status is Status.CONVERGED
    assert found.primal == pytest.approx(other.primal, rel=3e-6)


def test_budgets_move_to_words_that_nothing_is_added_of_yet():
    X = sp.csr_matrix(
        [
            [1.0, -1, 2, 0, 0, 2, 0, 0, -3, 0, 0, 0, 1, -2],
            [0, 3, -2, 0, 1, 0, -2, 0, 3, 1, 4, 0, -3, 0],
            [0, -1, 1, 3, 1, 1, 0, 1, 0, 0, -3, 2, 1, 1],
            [-1, 0, 2, 0, 3, 2, 0, 2, 1, 1, -1, 0, 3, 0],
        ]
    )
    oracle = FEdit(4, add=0.1, drop=False, scale=(0.8556740915363903, 3.512824889195336))
    data = X, np.array([0, 1, 1, 1])
    problem = objective(oracle, data=data, weights=0.5, intercept=False)
    found = solve(problem, FrankWolfe(), Gap(1e-6), random_state=0)
    assert found.status is Status.CONVERGED
    assert found.iterations < 100


@pytest.mark.parametrize(
    "oracle", [FDrop(2), FEdit(2), FEdit(0, add=1.0), FEdit(2, add=1.0) | FDrop(2),
               Protected(FEdit(2, add=1.0), [0])],
)  # fmt: skip
def test_other_changes_are_refused(oracle):
    assert not isinstance(state_of(objective(oracle)), EditState)


def test_other_losses_are_refused_by_name():
    problem = objective(FEdit(2, add=1.0), "logistic")
    told = refusals(problem.terms[0], problem.space)
    assert told["edits"] == "Logistic has no compiled steps over several words of a row"
    assert told["additions"] == "words that are in the rows change, too"
    assert refusals(objective(FAdd(2)).terms[0], problem.space)["edits"] == (
        "words that are in the rows do not change"
    )


def test_protected_words_take_planes():
    problem = objective(Protected(FEdit(2, add=0.5), [0, 1]).only_for(1))
    assert isinstance(state_of(problem), PlaneCache)
    assert not isinstance(state_of(problem), AdditionState)


def test_rows_without_words_and_long_rows():
    X = sp.csr_matrix(np.vstack([np.zeros(60), np.ones(60), np.eye(60)[:8]]))
    y = np.array([0, 1, 0, 1, 0, 1, 0, 1, 0, 1])
    model = InvariantLinearSVC(FEdit(3, add=0.1), tol=1e-6, random_state=0).fit(X, y)
    assert model.solution_.status is Status.CONVERGED
