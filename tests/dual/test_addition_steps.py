"""Dual state of oracles that add features and rescale those of a row, against the program itself."""

import copy

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from structinv import InvariantLinearSVC
from structinv.dual import refusals
from structinv.dual.addition_state import AdditionState
from structinv.dual.addition_steps import (
    BUDGET,
    CURVE,
    FULL,
    GAIN,
    HELD,
    MISSED,
    MISSED_SQUARES,
    SQUARES,
    SUMS,
    THRESHOLD,
    TOTAL,
    added_words,
    settle,
    weights_of,
)
from structinv.dual.edit_state import EditState
from structinv.oracles import FAdd, FDrop, FEdit, Protected
from structinv.solvers import BMRM, FrankWolfe, Gap, Status, SVMStruct, solve
from structinv.spaces import ExplicitSpace
from structinv.structures import Binary
from structinv.terms import Objective, WorstCase

from ..covering import each_once
from .cases import MARGIN_LOSSES as LOSSES
from .cases import WORDS, changes_of, state_of
from .cases import edit_objective as objective
from .cases import edit_optimum as optimum
from .cases import edit_rows as rows

VALUES = np.random.default_rng(5).uniform(0.3, 2.0, WORDS)


EVENS = np.arange(0, 30, 2)
ADDED = {
    "all": FAdd(3),
    "one": FAdd(1).only_for(1),
    "values": FAdd(3, VALUES),
    "allowed": FAdd(2, 1.5, allowed=EVENS).only_for(0),
    "present": FAdd(4, VALUES, present=True).only_for(1),
    "many": FAdd(25).only_for(1),
    "many, values": FAdd(25, VALUES).only_for(1),
    "present, many": FAdd(20, 0.3 * VALUES, present=True).only_for(0),
}
EDITED = {
    "edited": FEdit(2, add=0.3),
    "edited, one": FEdit(1, add=1.0).only_for(1),
    "edited, values": FEdit(2, add=0.3 * VALUES).only_for(1),
    "scaled": FEdit(3, add=0.2, drop=False, scale=(0.5, 2.0)),
    "dropped, scaled": FEdit(2, add=0.5, scale=(0.3, 3.0)).only_for(0),
    "edited, allowed": FEdit(2, add=1.5, allowed=EVENS).only_for(0),
    "edited, many": FEdit(25, add=0.1).only_for(1),
}
ORACLES = ADDED | EDITED


def losses_of(name):
    """Those whose steps are compiled."""
    return LOSSES if name in ADDED else ["hinge"]


SETTINGS = each_once(list(ADDED), list(LOSSES), [True, False], [0.05, 0.3])
SETTINGS += each_once(list(EDITED), ["hinge"], [True, False], [0.05, 0.3])


@pytest.mark.parametrize(("name", "loss", "intercept", "weight"), SETTINGS)
def test_the_optimum_of_the_program_lies_between_the_bounds(name, loss, intercept, weight):
    oracle = ORACLES[name]
    problem = objective(oracle, loss, intercept, weight)
    assert type(state_of(problem)) is (AdditionState if name in ADDED else EditState)
    found = solve(problem, FrankWolfe(), Gap(1e-7), random_state=0)
    best = optimum(oracle, loss, intercept, weight)
    assert found.status is Status.CONVERGED
    # Exponential cones are solved less exactly.
    tolerance = 1e-5 if loss == "logistic" else 1e-6
    assert found.dual <= best * (1 + tolerance)
    assert found.primal == pytest.approx(best, rel=tolerance)


@pytest.mark.parametrize("weight", [1e-3, 0.2, 30.0])
@pytest.mark.parametrize("name", ["one", "dropped, scaled"])
def test_weights_of_some_rows_may_be_zero(name, weight):
    each = weight * (np.arange(40) % 3)
    problem = objective(ORACLES[name], weights=each, dense=True)
    found = solve(problem, FrankWolfe(), Gap(1e-7), random_state=0)
    assert found.status is Status.CONVERGED
    assert found.primal == pytest.approx(optimum(ORACLES[name], weights=each), rel=1e-6)


def test_features_stored_as_zeros_may_be_added():
    X, y = rows()
    stored = sp.csr_matrix((X.toarray().ravel(), np.tile(np.arange(30), 40), np.arange(41) * 30))
    problem = objective(ORACLES["scaled"], weights=1.0, data=(stored, y))
    assert problem.terms[0].bound.edits().rows.data.all()
    found = solve(problem, FrankWolfe(), Gap(1e-3), random_state=0)
    assert found.status is Status.CONVERGED
    assert found.primal == pytest.approx(optimum(ORACLES["scaled"], weights=1.0), rel=1e-3)
    assert stored.nnz == 1200


@pytest.mark.parametrize("name", ORACLES)
def test_the_state_is_a_sum_of_planes_after_every_sweep(name):
    for loss in losses_of(name):
        check_sum_of_planes(name, loss)


def check_sum_of_planes(name, loss):
    problem, (edits, changed) = objective(ORACLES[name], loss, weights=0.5), changes_of(ORACLES[name])
    term, state, f = problem.terms[0], state_of(problem), problem.space.zeros()
    X, signs = term.bound.X.toarray(), 2 * term.bound_structure.codes - 1
    for _ in range(4):
        state.sweep(f)
        before, f = f, state.combination()
        if state.lost < 1e-12:
            # All that rows add together could be shared out between them.
            np.testing.assert_allclose(f, before, atol=1e-10)
        if state.rest is not None:
            continue
        # The state that would take over has the same dual point.
        rest = state._successor()
        np.testing.assert_allclose(rest.offset, state.offset)
        np.testing.assert_allclose(rest.combination(), f, atol=1e-10)
        if loss != "hinge" or not np.any(state.taus):
            continue
        blocks = np.concatenate(
            [batch[each.blocks] for batch, each in zip(rest.batches, rest.sets, strict=True)]
        )
        normals = sp.vstack([each.normals for each in rest.sets]).toarray()
        points, x = signs[blocks, None] * normals[:, :WORDS], X[blocks]
        moved = points - x
        units = np.where(moved < 0, (edits.low - 1) * x, (edits.high - 1) * x)
        units = np.where((x == 0) | edits.present, edits.value, units)
        shares = np.divide(moved, units, out=np.zeros_like(moved), where=np.abs(moved) > 1e-10)
        assert np.all((shares >= -1e-9) & (shares <= 1 + 1e-9))
        assert np.all(shares.sum(axis=1) <= edits.max_changes * changed[blocks] + 1e-8)


def settled(name, loss="hinge", sweeps=3, weights=0.5):
    """A state after some sweeps, and its part of f without what the rows add together."""
    problem = objective(ORACLES[name], loss, weights=weights)
    state, f = state_of(problem), problem.space.zeros()
    for _ in range(sweeps):
        state.sweep(f)
        f = state.combination()
    assert state.rest is None
    u, state.least, state.cautious = state._of_rows(), 0.0, False
    state._count()
    state._settle(u)
    return state, u


def left_over(state):
    """What each row may still add: of one feature, and of all."""
    budgets = state.edits.max_changes * state.taus
    if isinstance(state, EditState):
        delta = np.abs(state.variables.delta)
        units = np.where(state.variables.delta < 0, state.moves.drop, state.moves.grow)
        spent = np.divide(delta, units, out=np.zeros_like(delta), where=delta > 0)
        of_rows = sp.csr_matrix((spent, state.X.indices, state.X.indptr), state.X.shape)
        budgets = budgets - of_rows.sum(axis=1).A1
    weights = state.losses.weights
    return weights * np.minimum(state.taus, budgets), weights * budgets


def assert_sums_over_rows(state):
    has, (amounts, budgets) = state.X.toarray() != 0, left_over(state)
    for side, sign in enumerate([1.0, -1.0]):
        mine = state.edits.changed & (state.losses.signs == sign)
        if np.any(mine):
            sums, own = state.sides[side], amounts[mine] @ has[mine]
            assert sums[TOTAL] == pytest.approx(amounts[mine].sum(), rel=1e-9, abs=1e-12)
            assert sums[BUDGET] == pytest.approx(budgets[mine].sum(), rel=1e-9, abs=1e-9)
            wanted = 0.0 if state.edits.present else own
            np.testing.assert_allclose(state.added.own[side], wanted, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", ORACLES)
def test_steps_keep_the_sums_over_rows_and_features(name):
    state, u = settled(name)
    for _ in range(3):
        state._sweep_rows(u, np.random.default_rng(0).permutation(state.rows))
        assert_sums_over_rows(state)
        for side, sign in enumerate([1, -1]):
            place, a, own = state.added.place * sign, state.edits.value, state.added.own[side]
            held, full = place == 1, place == 2
            sums, gains = state.sides[side], -sign * a * u[:WORDS]
            wanted = {
                HELD: np.sum(gains[held] / a[held] ** 2),
                CURVE: np.sum(1 / a[held] ** 2),
                FULL: full.sum(),
                MISSED: own[full].sum(),
            }
            if isinstance(state, AdditionState) and not isinstance(state, EditState):
                wanted[GAIN] = gains[full].sum()
                wanted[SQUARES] = np.sum(a[full] ** 2)
                wanted[MISSED_SQUARES] = own[full] @ a[full] ** 2
            for number, value in wanted.items():
                assert sums[number] == pytest.approx(value, rel=1e-8, abs=1e-9), number
        state._settle(u)


def worst_depths(state, w, b):
    """Minus the worst margin of each row: held features have the gain of the threshold, any number."""
    X, depths, K = state.X.toarray(), [], state.edits.max_changes
    for x, s, changed in zip(X, state.losses.signs, state.edits.changed, strict=True):
        depths.append(-s * (x @ w + b))
        if not changed:
            continue
        side = 0 if s > 0 else 1
        threshold = state.sides[side, THRESHOLD]
        free = (state.added.place * s == 2) & ((x == 0) | state.edits.present)
        gains = -s * state.edits.value[free] * w[free]
        if isinstance(state, EditState):
            own = s * x * w
            own = np.maximum(state.moves.drop * own, -state.moves.grow * own)
            every = np.concatenate([gains, own, np.full(K, threshold)])
            depths[-1] += np.sort(every)[-K:].sum()
        else:
            depths[-1] += K * threshold + np.sum(gains - threshold)
    return np.array(depths)


@pytest.mark.parametrize("name", ORACLES)
def test_gaps_of_rows_add_up_to_the_gap_over_what_all_add(name):
    for loss in losses_of(name):
        check_gaps_of_rows(name, loss)


def check_gaps_of_rows(name, loss):
    state, u = settled(name, loss)
    w = state._weights(u)
    depths = worst_depths(state, w[:WORDS], w[WORDS])
    short = np.maximum(0.0, 1.0 + depths)
    losses = {"hinge": short, "squared_hinge": short**2, "logistic": np.logaddexp(0.0, depths)}[loss]
    gaps = np.zeros(len(depths))
    for row in state.rows:
        fresh = copy.deepcopy(state)
        fresh._sweep_rows(u.copy(), np.array([row]))
        gaps[row] = fresh.gaps[row]
    upper = 0.5 * w @ w + state.losses.weights @ losses
    assert gaps.sum() == pytest.approx(upper - state._dual_at(u), rel=1e-8, abs=1e-9)


@pytest.mark.parametrize("name", ADDED)
def test_a_step_on_a_row_leaves_no_gap_while_features_keep_their_state(name):
    for loss in LOSSES:
        check_step_on_a_row(name, loss)


def check_step_on_a_row(name, loss):
    state, u = settled(name, loss)
    n_kept = 0
    for row in state.rows:
        fresh, v = copy.deepcopy(state), u.copy()
        fresh._sweep_rows(v, np.array([row]))
        fresh._settle(v)
        if np.array_equal(fresh.added.place, state.added.place):
            n_kept += 1
            fresh._sweep_rows(v, np.array([row]))
            assert fresh.gaps[row] <= 1e-9
    assert n_kept > 0


@pytest.mark.parametrize("name", ORACLES)
def test_sums_follow_a_fraction_of_steps_that_lower_the_dual(name, monkeypatch):
    state, u = settled(name, sweeps=8)
    state.dual = before = state._dual_at(u)

    def sweep_too_far(f, order):
        state.taus[:] = np.where(state.taus > 0.5, 0.0, 1.0)
        if isinstance(state, EditState):
            state.n_moved = len(state.variables.delta)
            state.variables.moved[:] = np.arange(state.n_moved)
            state.variables.before[:] = state.variables.delta
            state.variables.delta[:] = state.variables.spent[:] = 0.0
        f[:] = state._of_rows()
        state._count()

    monkeypatch.setattr(state, "_sweep_rows", sweep_too_far)
    state._step(u, state.rows, True)
    assert state.cautious
    np.testing.assert_allclose(u, state._of_rows(), atol=1e-10)
    assert_sums_over_rows(state)
    assert state.dual >= before - 1e-2 * abs(before)


@pytest.mark.parametrize("loss", LOSSES)
def test_sums_that_cannot_be_shared_out_start_again(loss):
    # Short rows of many words: sums over rows cannot be shared out.
    X, y = rows(n=12, d=8, density=0.7, seed=3)
    problem = objective(FAdd(6).only_for(1), loss, data=(X, y), weights=3.0)
    found = solve(problem, FrankWolfe(), Gap(1e-8), random_state=0)
    assert found.status is Status.CONVERGED
    again = state_of(problem)
    again.start(found.dual_variables[0], found.f)
    f = again.combination()
    assert again.offset - 0.5 * problem.space.dot(f, f) <= found.primal
    warm = solve(problem, FrankWolfe(), Gap(1e-8), warm_start=found, random_state=0)
    assert warm.status is Status.CONVERGED
    assert warm.primal == pytest.approx(found.primal, rel=1e-7)


def test_parts_of_other_terms_in_f_are_unchanged():
    X, y = rows(n=20)
    space = ExplicitSpace(30, intercept=True)
    terms = [
        WorstCase(X, y, FAdd(3).only_for(1), Binary(), 0.2),
        WorstCase(X, y, FDrop(2), Binary(), 0.2),
    ]
    problem = Objective(space, terms)
    found = solve(problem, FrankWolfe(), Gap(1e-7), random_state=0)
    other = solve(problem, SVMStruct(), Gap(1e-7), random_state=0)
    assert found.status is Status.CONVERGED
    assert found.primal == pytest.approx(other.primal, rel=1e-6)


@pytest.mark.parametrize(
    "oracle",
    [FAdd(0), FDrop(2), FAdd(2) | FDrop(2), FAdd(2).discounted(0.5), FEdit(2), FEdit(0, add=1.0),
     FEdit(2, add=1.0) | FDrop(2), Protected(FEdit(2, add=1.0), [0])],
)  # fmt: skip
def test_other_changes_are_refused(oracle):
    assert not isinstance(state_of(objective(oracle)), AdditionState | EditState)


@given(seed=st.integers(0, 10_000), budget=st.sampled_from([1.0, 3.0, 20.0]))
def test_what_is_added_in_all_is_nearest_to_zero(seed, budget):
    rng = np.random.default_rng(seed)
    d, K = 12, 2
    u, value = rng.standard_normal(d), np.where(rng.random(d) < 0.8, rng.uniform(0.2, 2.0, d), 0.0)
    total = budget * np.array([rng.random(), rng.random() if rng.random() < 0.7 else -1.0])
    own = rng.random((2, d)) * np.maximum(total, 0.0)[:, None]
    sides = np.zeros((2, SUMS))
    sides[:, TOTAL], sides[:, BUDGET] = total, K * total
    of_rows = added_words(np.ones(0, dtype=bool), K, False, value, sides)
    of_rows.own[:] = own
    settle(u, of_rows)
    w = u.copy()
    weights_of(u, of_rows, w)
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


def test_rows_with_all_features_and_signs_without_rows():
    X = sp.csr_matrix(np.array([[1.0, 1.0], [1.0, 1.0], [0.0, 2.0]]))
    model = InvariantLinearSVC(FAdd(2).only_for([1]), tol=1e-6, random_state=0)
    model.fit(X, np.array([1, 0, 0]))
    assert model.solution_.status is Status.CONVERGED
    plain = InvariantLinearSVC(FAdd(1).only_for([1]), tol=1e-6, random_state=0)
    plain.fit(X[:2], np.array([1, 0]))
    # Rows that have every word cannot be added to.
    assert plain.certify(X[:2], np.array([1, 0])).exact.all()


@settings(max_examples=15)
@given(
    seed=st.integers(0, 10_000), changes=st.integers(1, 4), add=st.sampled_from([0.05, 0.5, 2.0]),
    density=st.sampled_from([0.1, 0.4, 0.8]), weight=st.sampled_from([0.05, 1.0, 20.0]),
)  # fmt: skip
def test_planes_come_to_the_same(seed, changes, add, density, weight):
    data = rows(n=12, d=8, density=density, seed=seed)
    problem = objective(FEdit(changes, add=add).only_for(1), data=data, weights=weight)
    found = solve(problem, FrankWolfe(), Gap(1e-6), random_state=0)
    other = solve(problem, BMRM(), Gap(1e-6), random_state=0)
    # Some problems stall at a gap above 1e-6, but all bounds are of the same optimum.
    assert found.relative_gap <= 1e-3
    assert max(found.dual, other.dual) <= min(found.primal, other.primal) * (1 + 1e-9)


def test_budgets_move_to_features_without_additions():
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


def test_other_losses_are_refused_by_name():
    problem = objective(FEdit(2, add=1.0), "logistic")
    told = refusals(problem.terms[0], problem.space)
    assert told["edits"] == "Logistic has no compiled steps for several features of a row"
    assert told["additions"] == "nonzero features are also edited"
    assert refusals(objective(FAdd(2)).terms[0], problem.space)["edits"] == (
        "nonzero features are not edited"
    )


def test_empty_rows_and_long_rows():
    X = sp.csr_matrix(np.vstack([np.zeros(60), np.ones(60), np.eye(60)[:8]]))
    y = np.array([0, 1, 0, 1, 0, 1, 0, 1, 0, 1])
    model = InvariantLinearSVC(FEdit(3, add=0.1), tol=1e-6, random_state=0).fit(X, y)
    assert model.solution_.status is Status.CONVERGED
