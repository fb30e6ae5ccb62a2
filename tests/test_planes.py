"""Working sets of planes: quadratic programs, averages and dropped planes."""

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from structinv.spaces import ExplicitSpace
from structinv.terms.planes import PlaneSet, WorkingSet, room_for, simplex_ascent

SPACE = ExplicitSpace(6)


def planes(seed, n_blocks=4, m=14):
    """Random planes sorted by block, some blocks without any, with weights and lower bounds."""
    rng = np.random.default_rng(seed)
    blocks = np.sort(rng.integers(n_blocks, size=m))
    normals = rng.standard_normal((m, 6)) * (rng.random((m, 6)) < 0.8)
    weights = rng.uniform(0.1, 2.0, n_blocks) * (rng.random(n_blocks) < 0.85)
    return normals, rng.uniform(-0.5, 2.0, m), blocks, weights, rng.uniform(-0.2, 0.1, n_blocks)


def filled(seed, sparse=False, **sizes):
    normals, offsets, blocks, weights, lower_bounds = planes(seed, **sizes)
    working = WorkingSet(SPACE, weights, lower_bounds)
    working.add(sp.csr_matrix(normals) if sparse else normals, offsets, blocks)
    return working


def best_dual(working):
    """The largest dual value over the planes of a set, by cvxpy."""
    normals = working.normals
    normals = normals.toarray() if sp.issparse(normals) else normals
    alphas = cp.Variable(len(working), nonneg=True)
    weight = working.weights[working.blocks]
    gain = weight * (working.offsets - working.lower_bounds[working.blocks])
    member = (working.blocks[None, :] == np.arange(len(working.weights))[:, None]).astype(float)
    f = (normals * weight[:, None]).T @ alphas
    dual = working.weights @ working.lower_bounds + gain @ alphas - 0.5 * cp.sum_squares(f)
    problem = cp.Problem(cp.Maximize(dual), [member @ alphas <= 1])
    problem.solve(solver="CLARABEL", tol_gap_abs=1e-11, tol_gap_rel=1e-11, tol_feas=1e-11)
    return problem.value


def dual_of(working):
    f = working.combination()
    return working.offset - 0.5 * f @ f


def assert_feasible(working):
    assert np.all(working.alphas >= 0)
    per_block = np.bincount(working.blocks, working.alphas, minlength=len(working.weights))
    assert np.all(per_block <= 1 + 1e-12)


@pytest.mark.parametrize("seed", range(20))
def test_ascent_solves_the_master_program(seed):
    working = filled(seed, sparse=seed % 2 == 0, n_blocks=1 + seed % 5)
    f = SPACE.zeros()
    gap = working.ascend(f, 1e-9, 20000)
    assert_feasible(working)
    assert gap <= 1e-9
    assert dual_of(working) == pytest.approx(best_dual(working), abs=2e-8)
    np.testing.assert_allclose(f, working.combination(), atol=1e-10)


@given(seed=st.integers(0, 10**6), passes=st.integers(1, 5))
@settings(max_examples=40)
def test_ascent_never_lowers_the_dual_and_tells_its_gap(seed, passes):
    working = filled(seed)
    f, before = SPACE.zeros(), dual_of(working)
    for _ in range(3):
        scores = working.scores(f)
        order = np.argsort(working.blocks, kind="stable")
        start = np.searchsorted(working.blocks[order], np.arange(len(working.weights) + 1))
        alphas, weights, gram = working.alphas.copy(), working.weights, working.gram
        room = room_for(start)
        simplex_ascent(gram, scores, order, start, weights, alphas, room, 0.0, passes)
        working.ascend(f, 0.0, passes)
        np.testing.assert_array_equal(alphas, working.alphas)
        np.testing.assert_allclose(scores, working.scores(f), atol=1e-9)
        assert dual_of(working) >= before - 1e-10
        before = dual_of(working)
        assert_feasible(working)


@pytest.mark.parametrize("seed", range(5))
def test_the_gap_bounds_the_distance_to_the_optimum(seed):
    working = filled(seed)
    f, best = SPACE.zeros(), best_dual(working)
    for _ in range(6):
        working.ascend(f, 0.0, 1)
        highest, mean = working.block_values(f)
        assert np.all(highest >= working.lower_bounds)
        assert working.weights @ (highest - mean) >= best - dual_of(working) - 1e-9


def test_a_plane_below_the_floor_has_alpha_zero():
    working = WorkingSet(SPACE, np.ones(1), np.zeros(1))
    working.add(np.eye(6)[:1], np.array([-1.0]), np.zeros(1, int))
    f = SPACE.zeros()
    assert working.ascend(f, 0.0, 10) == 0.0
    assert not np.any(f)
    assert np.array_equal(working.alphas, [0.0])


def test_a_step_between_two_planes_is_exact():
    # Nearly parallel planes that nothing but their mean can beat: one swap of mass solves it.
    working = WorkingSet(SPACE, np.ones(1), np.zeros(1))
    normals = np.array([[10.0, 1.0, 0, 0, 0, 0], [10.0, -0.8, 0, 0, 0, 0]])
    working.add(normals, np.array([500.0, 500.0]), np.zeros(2, int))
    f = SPACE.zeros()
    assert working.ascend(f, 1e-9, 3) <= 1e-9
    np.testing.assert_allclose(f, [10.0, 0, 0, 0, 0, 0], atol=1e-9)
    np.testing.assert_allclose(working.alphas, [0.8 / 1.8, 1 / 1.8], atol=1e-9)


def test_equal_planes_and_zero_normals_end():
    working = WorkingSet(SPACE, np.array([2.0]), np.zeros(1))
    working.add(np.vstack([np.zeros((2, 6)), np.eye(6)[[0, 0]]]), np.ones(4), np.zeros(4, int))
    f = SPACE.zeros()
    assert working.ascend(f, 1e-12, 1000) <= 1e-12
    assert dual_of(working) == pytest.approx(2.0)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_merging_keeps_the_dual_point(seed, sparse):
    working = filled(seed, sparse, n_blocks=3, m=30)
    f = SPACE.zeros()
    working.ascend(f, 0.0, 2)
    plain = (working.normals, working.offsets, working.blocks)
    dual, rng = dual_of(working), np.random.default_rng(seed)
    working.merge(4)
    assert np.bincount(working.blocks).max() <= 4
    assert_feasible(working)
    np.testing.assert_allclose(working.combination(), f, atol=1e-12)
    assert dual_of(working) == pytest.approx(dual, abs=1e-12)
    dense = working.normals.toarray() if sparse else working.normals
    np.testing.assert_allclose(working.gram, dense @ dense.T, atol=1e-12)
    # Averages of planes lie below the highest of them, everywhere.
    for _ in range(10):
        g = rng.standard_normal(6)
        value = plain[1] - plain[0] @ g
        merged = working.offsets - working.normals @ g
        for block in range(3):
            if np.any(plain[2] == block):
                highest = value[plain[2] == block].max()
                assert np.all(merged[working.blocks == block] <= highest + 1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_pruning_drops_only_inactive_planes(seed):
    working = filled(seed, n_blocks=3, m=30)
    f = SPACE.zeros()
    for _ in range(3):
        working.ascend(f, 1e-9, 5000)
    dual, used = dual_of(working), np.count_nonzero(working.alphas)
    working.prune(10)
    assert len(working) == 30
    working.prune(1)
    assert len(working) == used < 30
    assert dual_of(working) == pytest.approx(dual, abs=1e-12)
    assert_feasible(working)
    # It goes on as before with what is left.
    working.add(*(part[:5] for part in planes(seed + 1, n_blocks=3)[:3]))
    working.ascend(f, 1e-9, 5000)
    assert dual_of(working) == pytest.approx(best_dual(working), abs=2e-8)


def test_an_empty_working_set_is_valid():
    working = WorkingSet(SPACE, np.array([1.0, 2.0]), np.array([0.5, -0.25]))
    f = SPACE.zeros()
    assert working.ascend(f, 0.0, 10) == 0.0
    working.merge(3)
    working.prune(0)
    assert not np.any(working.combination())
    assert working.offset == 0.0
    np.testing.assert_array_equal(working.block_values(f)[0], [0.5, -0.25])


def test_totals_of_plane_sets_under_other_weights():
    normals, offsets, blocks, weights, lower_bounds = planes(3)
    alphas = np.full(len(offsets), 0.1)
    single = PlaneSet(normals, offsets, blocks, alphas)
    f, offset = single.total(SPACE, weights, lower_bounds)
    working = WorkingSet(SPACE, weights, lower_bounds)
    working.add(normals, offsets, blocks, alphas)
    np.testing.assert_allclose(f, working.combination())
    assert offset == pytest.approx(working.offset)

    summed = PlaneSet.of_sum(SPACE, f, offset, weights)
    doubled, twice = summed.total(SPACE, 2 * weights, lower_bounds)
    np.testing.assert_allclose(doubled, 2 * f)
    assert twice == pytest.approx(2 * offset)
    with pytest.raises(ValueError, match="proportional"):
        summed.total(SPACE, weights + np.arange(4), lower_bounds)
    with pytest.raises(ValueError, match="proportional"):
        summed.total(SPACE, weights[:-1], lower_bounds[:-1])
    with pytest.raises(ValueError, match="single blocks"):
        summed.by_block()
    assert single.by_block() is single
