"""Steps in blocks of rows, in the space of a kernel."""

import numpy as np
import pytest

from structinv.dual import member_state as members
from structinv.dual.base import never
from structinv.dual.case import Case
from structinv.dual.member_state import MemberState
from structinv.kernels import Gaussian
from structinv.solvers import REGISTRY, Gap, solve
from structinv.spaces import atoms
from structinv.spaces.kernel_space import KernelSpace
from structinv.structures import Binary
from structinv.structures.classes import Multiclass
from structinv.terms import Objective, WorstCase
from structinv.utils.matrices import ALL_ROWS

from .oracle_cases import Shrinkings

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


def test_blocks_of_any_size_reach_the_same_optimum(monkeypatch):
    found = []
    for size in (20, 10_000):
        in_blocks(monkeypatch, size)
        solution = solve(problem(100.0, 3), REGISTRY["frank_wolfe"](), Gap(1e-4), random_state=0)
        assert solution.relative_gap <= 1e-4
        found.append(solution.primal)
    assert found[0] == pytest.approx(found[1], rel=2e-4)


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
