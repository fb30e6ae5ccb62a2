"""Dual variables of members in the space of a kernel, in blocks of rows."""

import numpy as np
import pytest

from structinv.dual import dual_state
from structinv.dual import member_state as members
from structinv.dual.base import never
from structinv.dual.case import Case
from structinv.dual.member_state import MemberState
from structinv.kernels import Gaussian
from structinv.oracles import Identity, Shifts
from structinv.solvers import FrankWolfe, Gap, Status, SVMStruct, solve
from structinv.spaces import atoms
from structinv.spaces.kernel_space import KernelSpace
from structinv.spaces.point_sums import PointSums
from structinv.structures import Binary
from structinv.structures.classes import Multiclass
from structinv.terms import Objective, WorstCase
from structinv.utils.matrices import ALL_ROWS

from ..kernel_problems import KERNELS
from ..oracles.cases import D, Shrinkings
from ..oracles.orbit_cases import ORBIT_CASE
from ..problems import SETTINGS
from ..solvers.cases import Turned, data, machine
from .cases import MEMBER_NAMES as NAMES
from .cases import state_of


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


@pytest.mark.parametrize("columns", [1, 7])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_many_atoms_at_once_fill_the_cache_as_far_as_it_goes(monkeypatch, columns, dtype):
    monkeypatch.setattr(atoms, "COLUMNS_WORTH_A_CACHE", columns)
    n = 40
    this, term = machine(cache_mb=columns * 3 * n * dtype().itemsize / 1e6, dtype=dtype)
    state = dual_state(term, this.space, np.random.default_rng(0))
    arrays = {
        "pairs.counts": np.ones(n, dtype=int),
        "pairs.members": np.zeros(n, dtype=int),
        "pairs.labels": 1 - term.bound_structure.codes,
        "pairs.alphas": np.full(n, 0.5),
    }
    state.start(arrays, this.space.zeros())
    assert this.space.atoms.n_cached_rows == columns
    f = state.combination()
    for _ in range(30):
        state.sweep(f)
    best = solve(machine()[0], FrankWolfe(), Gap(1e-6), random_state=0)
    reached = state.offset - 0.5 * this.space.dot(f, f)
    assert reached == pytest.approx(best.dual, rel=1e-4)


@pytest.mark.parametrize("n_outputs", [1, 2])
def test_inner_products_with_long_sums(n_outputs):
    rng = np.random.default_rng(0)
    space = KernelSpace(Gaussian(2.0), 3, n_outputs)
    points = rng.standard_normal((6, 3))
    keys = space.atoms.add_points(points, np.zeros((6, 2), dtype=int))
    left, right = rng.integers(6, size=9), rng.integers(6, size=12)
    a, b = rng.standard_normal((9, n_outputs)), rng.standard_normal((12, n_outputs))
    first = PointSums(keys[left], a, np.array([0, 0, 4, 9]))
    second = PointSums(keys[right], b, np.array([0, 5, 12]))
    terms = space.kernel.matrix(points, points)[np.ix_(left, right)] * (a @ b.T)
    wanted = np.add.reduceat(np.add.reduceat(terms, [0, 4]), [0, 5], axis=1)
    np.testing.assert_allclose(space.gram(first, second), np.r_[np.zeros((1, 2)), wanted], atol=1e-14)
    np.testing.assert_allclose(space.gram(second, first), np.c_[np.zeros((2, 1)), wanted.T], atol=1e-14)


def test_other_weights_on_the_same_rows_go_on_with_the_same_members():
    this, term = machine()
    earlier = solve(this, FrankWolfe(), Gap(1e-3), random_state=0)
    again = WorstCase(term.X.copy(), data()[1], Turned(), Binary(), 3.0)
    state = dual_state(again, this.space, np.random.default_rng(0))
    assert isinstance(state, MemberState)
    later = solve(
        Objective(this.space, [again]), FrankWolfe(), Gap(1e-5), warm_start=earlier, random_state=0
    )
    cold = solve(machine(weights=3.0)[0], FrankWolfe(), Gap(1e-5), random_state=0)
    assert (later.status, cold.status) == (Status.CONVERGED, Status.CONVERGED)
    assert later.primal == pytest.approx(cold.primal, rel=2e-5)
    assert later.iterations < cold.iterations
    other = WorstCase(term.X + 1.0, data()[1], Turned(), Binary(), 3.0)
    assert not isinstance(dual_state(other, this.space, np.random.default_rng(0)), MemberState)


def test_members_of_a_union_are_asked_for_by_numbers_it_has():
    bound = (Shifts(1, shape=(2, 2)) | Shifts(2, shape=(2, 2))).bind(np.ones((2, 4)))
    for index in ([-1, 0], [0, 9]):
        with pytest.raises(ValueError, match="index must contain numbers of perturbed samples, from 0"):
            bound.changes().points(slice(None), np.array(index))
