"""Dual variables of members of linear functions."""

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from structinv.dual import linear_member_state as linear_members
from structinv.dual.linear_member_state import LinearMemberState
from structinv.dual.member_steps import ActiveMembers, member_losses
from structinv.oracles import Identity
from structinv.solvers import FrankWolfe, Gap, Iterations, Pegasos, Status, SVMStruct, solve
from structinv.spaces import ExplicitSpace
from structinv.structures.classes import Multiclass
from structinv.terms import Objective, WorstCase

from ..covering import each_once, slow_unless
from ..optima import kernel_optimum as optimum
from ..oracles.cases import D
from ..oracles.orbit_cases import ORBIT_CASE
from ..problems import COSTLY, SETTING, SETTINGS, assert_brackets, objective
from .cases import MEMBER_LISTS as LISTS
from .cases import MEMBER_NAMES as NAMES
from .cases import state_of

EVERY = [*SETTINGS, COSTLY]
every_setting = pytest.mark.parametrize("setting", EVERY, ids=str)
SOME = ORBIT_CASE[NAMES[-1]]


# Each list in one setting in turns, and every other one by default.
@pytest.mark.parametrize(
    ("case", "setting"),
    slow_unless(
        lambda case, setting: (
            (at := LISTS.index(case)) % 2 == 0 and (EVERY.index(setting) - at) % len(EVERY) == 0
        ),
        [(case, setting) for case in LISTS for setting in EVERY],
    ),
    ids=str,
)
def test_the_optimum_is_that_over_the_members(case, setting):
    problem = objective(case.oracle, setting)
    assert isinstance(state_of(problem), LinearMemberState)
    found = solve(problem, FrankWolfe(), Gap(1e-5), check_always=True, random_state=0)
    assert found.status is Status.CONVERGED
    assert_brackets(found, optimum(case.name, setting.name, "linear")[0])


WITHOUT_HULL = pytest.mark.parametrize("setting", [COSTLY, *SETTINGS[2:]], ids=str)
SPARSE = [Identity().discounted(0.4), Identity().only_for(1).discounted(0.4)]


@WITHOUT_HULL
@pytest.mark.parametrize("oracle", SPARSE, ids=repr)
def test_sparse_rows_take_the_steps_of_dense_ones(oracle, setting):
    found = []
    for sparse in (False, True):
        problem = objective(oracle, setting, sparse=sparse)
        state, f = state_of(problem), problem.space.zeros()
        assert isinstance(state, LinearMemberState)
        estimates = [state.sweep(f)[0] for _ in range(5)]
        found.append((estimates, f, state.offset, state.combination(), state.value(f)))
        again = state_of(problem)
        again.start(state.arrays(), f)
        np.testing.assert_array_equal(again.alphas[:, : state.alphas.shape[1]], state.alphas)
    for dense, of_sparse in zip(*found, strict=True):
        np.testing.assert_allclose(of_sparse, dense, rtol=1e-9, atol=1e-12)


@WITHOUT_HULL
def test_sparse_rows_start_other_solvers(setting):
    problem = objective(Identity(), setting, sparse=True)
    first = solve(problem, FrankWolfe(), Gap(1e-6), random_state=0)
    second = solve(problem, SVMStruct(), Gap(1e-3), warm_start=first, random_state=0)
    assert second.status is Status.CONVERGED
    third = solve(problem, FrankWolfe(), Gap(1e-5), warm_start=second, random_state=0)
    assert third.status is Status.CONVERGED
    further = solve(problem, SVMStruct(), Gap(1e-7), warm_start=first, random_state=0)
    assert further.status is Status.CONVERGED


def test_sparse_rows_of_several_classes_take_memory_for_their_entries_only():
    """Rows of n x d, dense, would take 80 MB; their planes, a class each, 8 times as much."""
    rng = np.random.default_rng(0)
    n, d, n_classes = 500, 20_000, 8
    X = sp.random(n, d, 1e-3, format="csr", random_state=rng)
    y = rng.integers(n_classes, size=n)
    for solver in (FrankWolfe(), SVMStruct(), Pegasos()):
        space = ExplicitSpace(d, n_classes, intercept=True)
        problem = Objective(space, [WorstCase(X, y, Identity(), Multiclass(), 1.0)])
        solve(problem, solver, Iterations(1), random_state=0)
        tracemalloc.start()
        solve(problem, solver, Iterations(3), random_state=0)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        element = 8 * space.size
        assert peak < 15 * element + 100 * X.nnz * n_classes


@pytest.mark.parametrize(("setting", "room"), each_once(EVERY, [1, 10**9]), ids=str)
def test_members_are_computed_in_portions_that_fit(setting, room, monkeypatch):
    monkeypatch.setattr(linear_members, "LEAST_MADE", room)
    problem = objective(SOME.oracle, setting)
    state, f = state_of(problem), problem.space.zeros()
    state.sweep(f)
    holding = np.flatnonzero(np.any(state.alphas > 0, axis=1))
    portions = state._portions(holding)
    np.testing.assert_array_equal(np.concatenate(portions), holding)
    assert (len(portions) > 1) == (room == 1)
    assert solve(problem, FrankWolfe(), Gap(1e-3), random_state=0).status is Status.CONVERGED


@pytest.mark.parametrize(("setting", "solver"), each_once(EVERY, [FrankWolfe(), SVMStruct()]), ids=str)
def test_solutions_are_a_warm_start(setting, solver):
    problem = objective(SOME.oracle, setting)
    first = solve(problem, solver, Gap(1e-5), random_state=0)
    again = solve(problem, FrankWolfe(), Gap(1e-5), warm_start=first, random_state=0)
    assert again.status is Status.CONVERGED
    if isinstance(solver, FrankWolfe):
        assert again.iterations == 0
        assert again.dual >= first.dual - 1e-9 * abs(first.dual)


@every_setting
def test_steps_between_sparse_members_are_those_of_dense_ones(setting):
    rng = np.random.default_rng(0)
    problem = objective(SOME.oracle, setting)
    # Rows of several members, of one, and of none; each member has features of its own.
    start = np.cumsum([0, 4, 1, 0, 3, 5, 2, 1, 0, 4])
    n_rows, n_members, n_labels = 9, start[-1], 2 if setting.n_outputs == 1 else setting.n_outputs
    points = rng.standard_normal((n_members, D)) * (rng.random((n_members, D)) < 0.4)
    competitors = problem.terms[0].bound_structure.competitors(np.arange(n_rows))
    losses = member_losses(competitors, rng.uniform(0.5, 1.0, n_members), problem.weights)
    found = []
    for made in (points, sp.csr_matrix(points)):
        f, alphas, gaps = problem.space.zeros(), np.zeros((n_members, n_labels)), []
        for seed in range(3):
            order = np.random.default_rng(seed).permutation(n_rows)
            members_of_rows = ActiveMembers(made, start)
            for _ in range(2):
                table = problem.space.table(f)
                gaps.append(members_of_rows.ascend(table, order, losses, alphas))
        found.append((f, alphas, np.array(gaps)))
    assert np.any(found[0][1] > 0)
    for dense, of_sparse in zip(*found, strict=True):
        np.testing.assert_allclose(of_sparse, dense, rtol=1e-9, atol=1e-12)


def all_active(problem, epsilon=0.0):
    """A state in which all members and labels have a dual variable, and its part of f."""
    state, rows = state_of(problem, epsilon=epsilon), np.arange(9)
    codes = problem.terms[0].bound_structure.codes
    wrong = np.arange(state.n_labels) != codes[:, None]
    owners, members_of, labels = np.nonzero(np.repeat(wrong[:, None], state.size, axis=1))
    alphas = np.random.default_rng(0).uniform(0.1, 1.0, len(owners)) / (state.size * state.n_labels)
    state._store(rows, state._gathered(rows, owners, members_of, labels, alphas))
    return state, state.combination()


def gap_of(problem, state, f):
    return problem.value(f).upper - state.offset + 0.5 * problem.space.dot(f, f)


@every_setting
@pytest.mark.parametrize("name", ["discounted-only_for", "only_for-discounted", "discounted-member"])
def test_gaps_of_rows_are_those_of_their_own_grades(name, setting):
    # Rows of one label have grades, and those of another have none.
    problem, rows = objective(ORBIT_CASE[name].oracle, setting), np.arange(9)
    state, f = all_active(problem)
    found = state._score_members(f, rows, np.zeros(9, dtype=int))
    assert found.sum() == pytest.approx(gap_of(problem, state, f), rel=1e-9)
    # All members are active, so that steps between them start at the same gap.
    block = state._active_block(rows, np.full(9, -1))
    points = ActiveMembers(state._points(block.rows, block.members), block.start)
    before = [state._ascend(f.copy(), rows, block, points, np.array([row]))[row] for row in rows]
    np.testing.assert_allclose(before, found, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", ["discounted-only_for", "only_for-discounted", "discounted-member"])
def test_the_gap_of_a_single_row_is_that_of_its_own_members(name):
    setting = SETTING["multiclass"]
    # Rows of each label, and the first and the last one.
    for row in (0, 4, 8):
        weights = tuple(np.where(np.arange(9) == row, 0.5, 0.0))
        problem = objective(ORBIT_CASE[name].oracle, replace(setting, weights=weights))
        state, f = state_of(problem), problem.space.zeros()
        for _ in range(3):
            # The gap is that before the steps.
            before = gap_of(problem, state, f)
            assert state.sweep(f)[0] == pytest.approx(before, rel=1e-9, abs=1e-12)


@every_setting
@pytest.mark.parametrize("epsilon", [0.02, 0.1])
def test_a_converged_state_has_the_gap_of_its_plane_tol(setting, epsilon):
    # Steps between many active members may lower some of them far below the others.
    problem = objective(ORBIT_CASE["shrinkings"].oracle, setting, factor=10.0)
    state, f = all_active(problem, epsilon)
    sweeps = 0
    while not state.converged:
        state.sweep(f)
        sweeps += 1
        assert sweeps < 500
    allowed = epsilon * problem.weights.sum()
    assert gap_of(problem, state, f) <= 1.02 * allowed


def test_members_and_labels_that_do_not_exist_are_left_out():
    problem = objective(SOME.oracle, SETTING["multiclass"])
    state = state_of(problem)
    codes = problem.terms[0].bound_structure.codes
    wrong = (codes + 1) % state.n_labels
    ones = np.ones(len(codes), dtype=int)
    for numbers, labels in [
        (0 * ones, codes), (state.size * ones, wrong), (-ones, wrong), (0 * ones, -ones)
    ]:  # fmt: skip
        arrays = {"gaps": state.gaps, "pairs.counts": ones, "pairs.members": numbers}
        state.start({**arrays, "pairs.labels": labels, "pairs.alphas": 1.0 * ones}, None)
        assert not np.any(state.alphas)


def test_rows_may_need_more_alphas_than_allocated():
    rng = np.random.default_rng(0)
    setting = SETTING["multiclass-slack"]
    problem = objective(SOME.oracle, setting)
    state = state_of(problem)
    before = state.alphas.shape[1]
    rows = np.arange(2)
    n, a = state.size, state.n_labels
    owners, members = np.repeat(rows, n * a), np.tile(np.repeat(np.arange(n), a), 2)
    alternatives = np.tile(np.arange(a), 2 * n)
    alphas = rng.uniform(0.1, 1.0, len(owners)) / (n * a)
    state._store(rows, state._gathered(rows, owners, members, alternatives, alphas))
    assert state.alphas.shape[1] == n * a > before
    active = state._active(rows)
    for got, wanted in zip(active, (owners, members, alternatives, alphas), strict=True):
        np.testing.assert_allclose(got, wanted)


def test_plane_tol_leaves_members_out():
    setting = SETTING["multiclass"]
    problem = objective(ORBIT_CASE[NAMES[0]].oracle, setting)
    loose = solve(problem, FrankWolfe(0.5), Gap(1e-6), random_state=0)
    tight = solve(problem, FrankWolfe(), Gap(1e-6), random_state=0)
    assert loose.status in (Status.WITHIN_PLANE_TOL, Status.CONVERGED)
    assert loose.primal - loose.dual <= 0.5 * np.sum(setting.weights) + 1e-3
    n_loose, n_tight = (len(each.dual_variables[0]["pairs.alphas"]) for each in (loose, tight))
    assert n_loose <= n_tight
