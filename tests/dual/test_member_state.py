"""Dual variables of members: of linear functions, and of kernels in blocks of rows."""

import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp

from structinv.dual import dual_state
from structinv.dual import linear_member_state as linear_members
from structinv.dual import member_state as members
from structinv.dual.base import never
from structinv.dual.case import Case
from structinv.dual.linear_member_state import LinearMemberState
from structinv.dual.member_state import MemberState
from structinv.dual.member_steps import ActiveMembers, member_losses
from structinv.kernels import Gaussian
from structinv.oracles import Identity
from structinv.solvers import FrankWolfe, Gap, Iterations, Pegasos, Status, SVMStruct, solve
from structinv.spaces import ExplicitSpace, atoms
from structinv.spaces.kernel_space import KernelSpace
from structinv.structures import Binary
from structinv.structures.classes import Multiclass
from structinv.terms import Objective, WorstCase
from structinv.utils.matrices import ALL_ROWS

from ..covering import slow_unless
from ..kernels.problems import KERNELS, optimum
from ..oracles.cases import D, Shrinkings
from ..oracles.orbit_cases import ORBIT_CASE, ORBIT_CASES
from ..problems import COSTLY, SETTING, SETTINGS, assert_brackets, objective

EVERY = [*SETTINGS, COSTLY]
every_setting = pytest.mark.parametrize("setting", EVERY, ids=str)
# Two classes and no change have in-hull steps.
LISTS = [case for case in ORBIT_CASES if case.scored and case.name not in ("identity", "only_for-none")]
NAMES = [case.name for case in LISTS]
SOME = ORBIT_CASE[NAMES[-1]]


def state_of(problem, number=0, epsilon=0.0):
    rng = np.random.default_rng(0)
    return dual_state(problem.terms[number], problem.space, rng, epsilon)


# Each list in one setting in turns.
@pytest.mark.parametrize(
    ("case", "setting"),
    slow_unless(
        lambda case, setting: (EVERY.index(setting) - LISTS.index(case)) % len(EVERY) == 0,
        [(case, setting) for case in LISTS for setting in EVERY],
    ),
    ids=str,
)
def test_the_optimum_is_that_over_the_members(case, setting):
    problem = objective(case.oracle, setting)
    assert isinstance(state_of(problem), LinearMemberState)
    found = solve(problem, FrankWolfe(), Gap(1e-6), check_always=True, random_state=0)
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


@every_setting
@pytest.mark.parametrize("room", [1, 10**9])
def test_members_are_computed_in_portions_that_fit(setting, room, monkeypatch):
    monkeypatch.setattr(linear_members, "LEAST_MADE", room)
    problem = objective(SOME.oracle, setting)
    state, f = state_of(problem), problem.space.zeros()
    state.sweep(f)
    holding = np.flatnonzero(np.any(state.alphas > 0, axis=1))
    portions = state._portions(holding)
    np.testing.assert_array_equal(np.concatenate(portions), holding)
    assert (len(portions) > 1) == (room == 1)
    assert solve(problem, FrankWolfe(), Gap(1e-5), random_state=0).status is Status.CONVERGED


@every_setting
@pytest.mark.parametrize("solver", [FrankWolfe(), SVMStruct()], ids=repr)
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


@pytest.mark.parametrize("setting", [s for s in SETTINGS if not s.slack], ids=str)
def test_two_terms_of_a_kernel_fit_find_their_members(setting):
    kernel = KERNELS["gaussian"]
    space = KernelSpace(kernel, D, setting.n_outputs, cache_mb=100.0)
    half, weights = len(setting.y) // 2, np.array(setting.weights)
    parts = [slice(0, half), slice(half, None)]

    def term(part, oracle):
        rows = setting.X[part], setting.y[part]
        return WorstCase(*rows, oracle, setting.structure, weights[part], **setting.losses)

    oracles = [ORBIT_CASE[NAMES[0]].oracle, Identity()]
    problem = Objective(space, [term(*each) for each in zip(parts, oracles, strict=True)])
    found = solve(problem, FrankWolfe(), Gap(1e-6), random_state=0)
    assert found.status is Status.CONVERGED
    assert all(isinstance(state_of(problem, number), MemberState) for number in (0, 1))
    other = KernelSpace(kernel, D, setting.n_outputs, cache_mb=0.0)
    wanted = solve(Objective(other, problem.terms), SVMStruct(), Gap(1e-6), random_state=0)
    assert found.primal == pytest.approx(wanted.primal, rel=1e-5)
    again = solve(problem, FrankWolfe(), Gap(1e-5), warm_start=found, random_state=0)
    assert again.iterations == 0


SIZES = {"one atom": 1, "few atoms": 7, "all atoms": 10_000}
# The table holds all, or a few rows; or nothing, and every row is made again.
every_cache = pytest.mark.parametrize("cache_mb", [100.0, 0.02, 0.0])
every_size = pytest.mark.parametrize("size", SIZES.values(), ids=SIZES)


def problem(cache_mb, labels):
    rng = np.random.default_rng(0)
    y = np.arange(30) % 3
    X = np.eye(3)[y] + 0.6 * rng.standard_normal((30, 3))
    space = KernelSpace(Gaussian(1.0), 3, 1 if labels == 2 else 3, cache_mb=cache_mb)
    structure = Binary() if labels == 2 else Multiclass()
    term = WorstCase(X, np.minimum(y, labels - 1), Shrinkings(), structure, 2.0)
    return Objective(space, [term])


def in_blocks(monkeypatch, size):
    monkeypatch.setattr(members, "MOST_ATOMS", size)
    monkeypatch.setattr(members, "LEAST_ATOMS", min(size, members.LEAST_ATOMS))
    monkeypatch.setattr(members, "ROWS_AT_ONCE", 17)
    # Members are known also where the table holds few rows of them.
    monkeypatch.setattr(atoms, "COLUMNS_WORTH_A_CACHE", 0)


@every_cache
@every_size
@pytest.mark.parametrize("labels", [2, 3])
def test_steps_update_values_at_all_points(monkeypatch, size, cache_mb, labels):
    in_blocks(monkeypatch, size)
    this = problem(cache_mb, labels)
    state = MemberState(Case(this.terms[0], this.space), np.random.default_rng(0))
    f, duals = this.space.zeros(), [0.0]
    for _ in range(4):
        state.sweep(f)
        points = this.terms[0].bound.changes().members(ALL_ROWS).reshape(-1, 3)
        np.testing.assert_allclose(f.values(), f.function()(points), atol=1e-12)
        np.testing.assert_allclose(f.coefficients, state.combination().coefficients, atol=1e-12)
        duals.append(state.offset - 0.5 * this.space.dot(f, f))
    assert np.all(np.diff(duals) > 0)
    alphas = state.alphas.sum(axis=(1, 2))
    assert state.alphas.min() >= 0
    assert alphas.max() <= 1 + 1e-12


def test_a_sweep_returns_the_gap_before_its_steps(monkeypatch):
    in_blocks(monkeypatch, 7)
    monkeypatch.setattr(members, "ROWS_AT_ONCE", 1000)
    this = problem(100.0, 3)
    state = MemberState(Case(this.terms[0], this.space), np.random.default_rng(0))
    f = this.space.zeros()
    for _ in range(5):
        upper, _ = state.value(f)
        true = upper - state.offset + this.space.dot(f, f)
        gap, rows = state.sweep(f)
        assert rows == 30
        assert gap == pytest.approx(true, rel=1e-9)


def test_rows_with_many_members_add_several_per_sweep(monkeypatch):
    monkeypatch.setattr(members, "MEMBERS_A_NEWCOMER", 1)
    this = problem(100.0, 3)
    for epsilon, most in ((0.0, 3), (0.1, 1)):
        state = MemberState(Case(this.terms[0], this.space, epsilon), np.random.default_rng(0))
        assert state.newcomers == min(most, members.MOST_NEWCOMERS)
    state = MemberState(Case(this.terms[0], this.space), np.random.default_rng(0))
    state.sweep(this.space.zeros())
    each = np.count_nonzero(state.pool.slots[state.pool.numbers] >= 0, axis=1)
    assert each.max() == 3


def test_blocks_leave_out_idle_atoms():
    this = problem(100.0, 3)
    state = MemberState(Case(this.terms[0], this.space), np.random.default_rng(0))
    f = this.space.zeros()
    for _ in range(4):
        state.sweep(f)
    state._grow(f, state.rows, 1e9, never)
    values, competitors = f.values()[state.pool.numbers], state.competitors
    own = values[np.arange(30), :, competitors.codes]
    heights = competitors.costs[:, None] * state.grades[:, :, None] + values - own[:, :, None]
    heights[np.arange(30), :, competitors.codes] = -np.inf
    carrying = state.alphas > 0
    low = np.where(carrying, heights, np.inf).min(axis=(1, 2))
    low = np.where(state.alphas.sum(axis=(1, 2)) < 1 - 1e-9, np.minimum(low, 0), low)
    idle = ~carrying.any(axis=2) & (heights.max(axis=2) <= low[:, None])
    atoms_of_rows = state.pool.slots[state.pool.numbers] >= 0
    assert np.any(idle & atoms_of_rows)
    np.testing.assert_array_equal(state._atoms_of(state.rows) >= 0, atoms_of_rows & ~idle)


def test_a_run_with_plane_tol_converges_over_all_atoms():
    this = problem(100.0, 3)
    state = MemberState(Case(this.terms[0], this.space, 0.3), np.random.default_rng(0))
    f = this.space.zeros()
    while not state.converged:
        state.sweep(f)
    assert not np.any(state.idle)


@every_cache
@pytest.mark.parametrize("n_atoms", [1, 16, 40])
def test_the_kernel_among_atoms_is_that_of_their_points(monkeypatch, n_atoms, cache_mb):
    in_blocks(monkeypatch, 10)
    this = problem(cache_mb, 3)
    store, pool = this.space.atoms, Case(this.terms[0], this.space).pool
    numbers = np.random.default_rng(1).permutation(len(pool.origins))[:50]
    slots = store.slots(pool.keys(*pool.members(numbers)))[:n_atoms]
    points = store.points(slots)
    np.testing.assert_allclose(store.square(slots), Gaussian(1.0)(points, points), atol=1e-12)
