"""Rows to which the same words may be added: the shared threshold, and what is shared out."""

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from structinv import InvariantLinearSVC
from structinv.dual.addition_shares import share_out
from structinv.dual.addition_state import AdditionState
from structinv.dual.addition_steps import BUDGET, SUMS, TOTAL, settle, weights_of
from structinv.oracles import FAdd, FDrop
from structinv.solvers import BMRM, FrankWolfe, Gap, Status, solve
from structinv.spaces import ExplicitSpace
from structinv.structures import Binary
from structinv.terms import Objective, WorstCase

from .covering import pairs
from .word_problems import (
    LOSSES,
    VALUES,
    assert_made_again_from_planes,
    objective,
    planes_after_a_sweep,
    rows,
    state_of,
)

ORACLES = {
    "all": FAdd(3),
    "one": FAdd(1).only_for(1),
    "values": FAdd(3, VALUES),
    "allowed": FAdd(2, 1.5, allowed=np.arange(0, 30, 2)).only_for(0),
    "present": FAdd(4, VALUES, present=True).only_for(1),
    "many": FAdd(25).only_for(1),
}
every_oracle = pytest.mark.parametrize("oracle", ORACLES.values(), ids=ORACLES)
every_loss = pytest.mark.parametrize("loss", LOSSES)


def _what_may_be_added(oracle):
    """The oracle of words, what it adds, and which rows it can be added to, (n, d)."""
    (X, y), adds = rows(), getattr(oracle, "oracle", oracle)
    value, chosen = np.zeros(30), np.arange(30) if adds.allowed is None else adds.allowed
    value[chosen] = np.broadcast_to(adds.value, 30)[chosen]
    can = (X.toarray() == 0) | adds.present
    return adds, value, can & np.isin(y, getattr(oracle, "labels", [0, 1]))[:, None] & (value > 0)


def optimum(oracle, loss, intercept=True, weights=0.3):
    """The program itself, with a threshold of its own for every row."""
    (X, y), (adds, value, can) = rows(), _what_may_be_added(oracle)
    X, (n, d) = X.toarray(), X.shape
    w, b, cost = cp.Variable(d), cp.Variable(), 0.0
    for row, c in enumerate(np.broadcast_to(weights, n)):
        s = 2 * y[row] - 1
        gains = cp.maximum(-s * cp.multiply(value * can[row], w), 0)
        depth = -s * (w @ X[row] + (b if intercept else 0.0)) + cp.sum_largest(gains, adds.max_changes)
        short = cp.pos(1 + depth)
        cost += (
            c
            * {
                "hinge": short,
                "squared_hinge": cp.square(short),
                "logistic": cp.logistic(depth),
            }[loss]
        )
    norm = cp.sum_squares(w) + (cp.square(b) if intercept else 0.0)
    return cp.Problem(cp.Minimize(0.5 * norm + cost)).solve(solver="CLARABEL")


@pytest.mark.parametrize(
    ("name", "loss", "intercept"), pairs(list(ORACLES), list(LOSSES), [True, False])
)
def test_the_optimum_of_the_program_lies_between_the_bounds(name, loss, intercept):
    oracle = ORACLES[name]
    problem = objective(oracle, loss, intercept)
    assert isinstance(state_of(problem), AdditionState)
    found = solve(problem, FrankWolfe(), Gap(1e-7), random_state=0)
    best = optimum(oracle, loss, intercept)
    assert found.status is Status.CONVERGED
    # Exponential cones are solved less exactly.
    tolerance = 1e-5 if loss == "logistic" else 1e-6
    assert found.dual <= best * (1 + tolerance)
    assert found.primal == pytest.approx(best, rel=tolerance)


@pytest.mark.parametrize("weights", [1e-3, 30.0])
def test_with_weights_of_rows_some_of_which_are_zero(weights):
    each = weights * np.arange(40) % 3
    problem = objective(FAdd(3).only_for(1), weights=each, dense=True)
    found = solve(problem, FrankWolfe(), Gap(1e-7), random_state=0)
    assert found.status is Status.CONVERGED
    best = optimum(FAdd(3).only_for(1), "hinge", weights=each)
    assert found.primal == pytest.approx(best, rel=1e-6)


@every_loss
@every_oracle
def test_after_every_sweep_the_function_is_a_sum_of_planes_of_the_sets(oracle, loss):
    problem = objective(oracle, loss)
    term, state, f = problem.terms[0], state_of(problem), problem.space.zeros()
    for _ in range(3):
        planes = planes_after_a_sweep(problem, state, f)
        if state.rest is None and loss == "hinge":
            _, value, can = _what_may_be_added(oracle)
            X, signs = term.bound.X.toarray(), 2 * term.labels.codes - 1
            points = signs[planes.blocks, None] * planes.normals.toarray()[:, :30]
            shares = (points - X[planes.blocks]) / np.where(value > 0, value, 1.0)
            assert np.all((shares >= -1e-9) & (shares <= can[planes.blocks] * (1 + 1e-9) + 1e-9))
            adds = getattr(oracle, "oracle", oracle)
            assert np.all(shares.sum(axis=1) <= adds.max_changes * (1 + 1e-9))


@every_loss
def test_a_state_is_made_again_from_its_planes(loss):
    assert_made_again_from_planes(objective(FAdd(3).only_for(1), loss))


@every_loss
def test_planes_that_no_sums_make_are_taken_as_they_are(loss):
    # Short rows of many words: sums over rows cannot be shared out.
    X, y = rows(n=12, d=8, density=0.7, seed=3)
    problem = objective(FAdd(6).only_for(1), loss, data=(X, y), weights=3.0)
    found = solve(problem, FrankWolfe(), Gap(1e-8), random_state=0)
    assert found.status is Status.CONVERGED
    again = state_of(problem)
    again.restore(found.planes)
    f = again.combination()
    assert again.offset - 0.5 * problem.space.dot(f, f) == pytest.approx(found.dual, rel=1e-6)


def test_what_other_terms_add_to_the_function_is_left_as_it_is():
    X, y = rows()
    space = ExplicitSpace(30, intercept=True)
    terms = [
        WorstCase(X, y, FAdd(3).only_for(1), Binary(), 0.2),
        WorstCase(X, y, FDrop(2), Binary(), 0.2),
    ]
    problem = Objective(space, terms)
    found = solve(problem, FrankWolfe(), Gap(1e-7), random_state=0)
    other = solve(problem, BMRM(), Gap(1e-7), random_state=0)
    assert found.status is Status.CONVERGED
    assert found.primal == pytest.approx(other.primal, rel=1e-6)


@pytest.mark.parametrize("oracle", [FAdd(0), FDrop(2), FAdd(2) | FDrop(2), FAdd(2).discounted(0.5)])
def test_other_changes_are_refused(oracle):
    assert not isinstance(state_of(objective(oracle)), AdditionState)


class FewWords(FAdd):
    """An answer of its own, which no threshold knows."""

    def support(self, X, V, assign, cost=None):
        """See `FAdd.support`."""
        return FAdd(1).support(X, V, assign, cost)


def test_a_subclass_that_answers_for_itself_is_asked():
    problem = objective(FewWords(3))
    assert not isinstance(state_of(problem), AdditionState)
    found = solve(problem, FrankWolfe(), Gap(1e-6), random_state=0)
    assert found.primal == pytest.approx(optimum(FAdd(1), "hinge"), rel=1e-5)


@given(seed=st.integers(0, 10_000), budget=st.sampled_from([1.0, 3.0, 20.0]))
def test_what_is_added_in_all_is_nearest_to_zero(seed, budget):
    rng = np.random.default_rng(seed)
    d, K = 12, 2
    u, value = rng.standard_normal(d), np.where(rng.random(d) < 0.8, rng.uniform(0.2, 2.0, d), 0.0)
    total = budget * np.array([rng.random(), rng.random() if rng.random() < 0.7 else -1.0])
    own = rng.random((2, d)) * np.maximum(total, 0.0)[:, None]
    sides, place = np.zeros((2, SUMS)), np.zeros(d, dtype=np.int8)
    sides[:, TOTAL], sides[:, BUDGET] = total, K * total
    settle(u, own, value, sides, place)
    w = np.empty(d)
    weights_of(u, own, value, sides, place, w)
    added = cp.Variable((2, d), nonneg=True)
    f = u + cp.multiply(value, added[0] - added[1])
    limits = [
        constraint
        for side in range(2)
        for constraint in (
            added[side] <= np.maximum(total[side] - own[side], 0.0),
            cp.sum(added[side]) <= K * max(total[side], 0.0),
        )
    ]
    least = cp.Problem(cp.Minimize(cp.sum_squares(f)), limits).solve(solver="CLARABEL")
    assert w @ w == pytest.approx(least, rel=1e-6, abs=1e-7)


@given(seed=st.integers(0, 10_000), density=st.sampled_from([0.0, 0.1, 0.5]))
def test_shares_keep_to_what_rows_may_add(seed, density):
    rng = np.random.default_rng(seed)
    n, d, K = int(rng.integers(1, 12)), int(rng.integers(1, 15)), int(rng.integers(1, 5))
    X = sp.csr_matrix((rng.random((n, d)) < density).astype(float))
    rows, levels = np.arange(n), rng.uniform(0.1, 1.0, n)
    absent = X.toarray() == 0
    could = levels @ absent
    # Shares that rows can have, as the mean of draws of K words each.
    wanted = np.zeros((n, d))
    for _ in range(3):
        for row in range(n):
            words = np.flatnonzero(absent[row])
            some = rng.permutation(words)[: rng.integers(0, K + 1)]
            wanted[row, some] += levels[row] / 3
    asked = wanted.sum(axis=0)
    left, starts = asked.copy(), np.zeros(n + 1, dtype=np.int64)
    words, shares = np.empty(n * (K + 1) + d, dtype=np.int64), np.empty(n * (K + 1) + d)
    share_out(X.indptr, X.indices, rows, levels, K * levels, left, could, False, starts, words, shares)
    size = starts[-1]
    found = sp.csr_matrix((shares[:size], words[:size], starts), (n, d)).toarray()
    np.testing.assert_allclose(found.sum(axis=0) + left, asked, atol=1e-12)
    assert np.all(found <= levels[:, None] * (1 + 1e-12))
    assert np.all(found[~absent] == 0)
    assert np.all(found.sum(axis=1) <= K * levels * (1 + 1e-12))
    if density == 0.0:
        np.testing.assert_allclose(left, 0.0, atol=1e-10)


def test_rows_that_say_all_words_and_sides_without_rows():
    X = sp.csr_matrix(np.array([[1.0, 1.0], [1.0, 1.0], [0.0, 2.0]]))
    model = InvariantLinearSVC(FAdd(2).only_for([1]), tol=1e-6, random_state=0)
    model.fit(X, np.array([1, 0, 0]))
    assert model.solution_.status is Status.CONVERGED
    plain = InvariantLinearSVC(FAdd(1).only_for([1]), tol=1e-6, random_state=0)
    plain.fit(X[:2], np.array([1, 0]))
    # Rows that have every word cannot be added to.
    assert plain.certify(X[:2], np.array([1, 0])).exact.all()
