"""Quadratic programs over planes: working sets, pairwise steps on a simplex, interior points."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from structinv.spaces import ExplicitSpace
from structinv.terms.dense_planes import DensePlanes
from structinv.terms.planes import WorkingSet, room_for, simplex_ascent
from structinv.utils.ascent import ascend

from .cases import assert_feasible, best

SPACE = ExplicitSpace(6)


def planes(seed, n_blocks=4, m=14):
    """Random planes sorted by block, some blocks without any, with weights and lower bounds."""
    rng = np.random.default_rng(seed)
    blocks = np.sort(rng.integers(n_blocks, size=m))
    normals = rng.standard_normal((m, 6)) * (rng.random((m, 6)) < 0.8)
    weights = rng.uniform(0.1, 2.0, n_blocks) * (rng.random(n_blocks) < 0.85)
    return normals, rng.uniform(-0.5, 2.0, m), blocks, weights, rng.uniform(-0.2, 0.1, n_blocks)


def filled(seed, sparse=False, kind=WorkingSet, **sizes):
    normals, offsets, blocks, weights, lower_bounds = planes(seed, **sizes)
    working = kind(SPACE, weights, lower_bounds)
    working.add(sp.csr_matrix(normals) if sparse else normals, offsets, blocks)
    return working


def best_dual(working):
    normals = working.normals
    normals = normals.toarray() if sp.issparse(normals) else normals
    offsets = working.offsets - working.lower_bounds[working.blocks]
    above = best(normals, offsets, working.blocks, working.weights)
    return working.weights @ working.lower_bounds + above


def dual_of(working):
    f = working.combination()
    return working.offset - 0.5 * f @ f


@pytest.mark.parametrize("seed", range(10))
def test_ascent_solves_the_master_program(seed):
    working = filled(seed, sparse=seed % 2 == 0, n_blocks=1 + seed % 5)
    f = SPACE.zeros()
    gap = working.ascend(f, 1e-9, 20000)
    assert_feasible(working)
    assert gap <= 1e-9
    assert dual_of(working) == pytest.approx(best_dual(working), abs=2e-8)
    np.testing.assert_allclose(f, working.combination(), atol=1e-10)


@pytest.mark.parametrize("seed", range(10))
def test_steps_of_dense_planes_solve_the_master_program_before_and_after_others_join(seed):
    working, f = (
        filled(seed, sparse=seed % 2 == 0, kind=DensePlanes, n_blocks=1 + seed % 5),
        SPACE.zeros(),
    )
    for size in (0, 1, 3):
        before = dual_of(working)
        first, more = working.ascend(f, np.inf, 1), working.ascend(f, 1e-9, 20000)
        assert_feasible(working)
        assert np.all(np.diff(working.blocks) >= 0)
        assert more <= 1e-9
        assert dual_of(working) == pytest.approx(best_dual(working), abs=2e-8)
        assert dual_of(working) <= before + first + 1e-9
        np.testing.assert_allclose(f, working.combination(), atol=1e-10)
        if size == 1:
            working.prune(0)
            working.merge(2)
            slots = working._slots
            products = np.einsum("bid,bjd->bij", slots.normals, slots.normals)
            both = working._used[:, :, None] & working._used[:, None, :]
            np.testing.assert_allclose(slots.products[both], products[both], atol=1e-12)
        working.add(*(part[:4] for part in planes(seed + 50, n_blocks=1 + seed % 5)[:3]))


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


@pytest.mark.parametrize("seed", range(3))
def test_the_gap_bounds_the_distance_to_the_optimum(seed):
    working = filled(seed)
    f, optimum = SPACE.zeros(), best_dual(working)
    for _ in range(6):
        working.ascend(f, 0.0, 1)
        highest, mean = working.block_values(f)
        assert np.all(highest >= working.lower_bounds)
        assert working.weights @ (highest - mean) >= optimum - dual_of(working) - 1e-9


def test_equal_planes_and_zero_normals_end():
    working = WorkingSet(SPACE, np.array([2.0]), np.zeros(1))
    working.add(np.vstack([np.zeros((2, 6)), np.eye(6)[[0, 0]]]), np.ones(4), np.zeros(4, int))
    f = SPACE.zeros()
    assert working.ascend(f, 1e-12, 1000) <= 1e-12
    assert dual_of(working) == pytest.approx(2.0)


@pytest.mark.parametrize("kind", [WorkingSet, DensePlanes])
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_merging_keeps_the_dual_point(seed, sparse, kind):
    working = filled(seed, sparse, kind, n_blocks=3, m=30)
    f = SPACE.zeros()
    working.ascend(f, 0.0, 2)
    plain = (working.normals, working.offsets, working.blocks)
    dual, rng = dual_of(working), np.random.default_rng(seed)
    working.merge(4)
    assert np.bincount(working.blocks).max() <= 4
    assert_feasible(working)
    np.testing.assert_allclose(working.combination(), f, atol=1e-12)
    assert dual_of(working) == pytest.approx(dual, abs=1e-12)
    if kind is WorkingSet:
        dense = working.normals.toarray() if sparse else working.normals
        np.testing.assert_allclose(working.gram, dense @ dense.T, atol=1e-12)
    # Averages of planes lie below the highest of them, everywhere.
    for _ in range(10):
        g = rng.standard_normal(6)
        value = plain[1] - plain[0] @ g
        merged = working.offsets - working.normals @ g
        for block in range(3):
            if np.any(plain[2] == block):
                own = value[plain[2] == block]
                assert np.all(merged[working.blocks == block] <= own.max() + 1e-12)
                assert np.all(merged[working.blocks == block] >= own.min() - 1e-12)


@pytest.mark.parametrize("kind", [WorkingSet, DensePlanes])
@pytest.mark.parametrize("seed", range(3))
def test_pruning_drops_only_inactive_planes(seed, kind):
    working = filled(seed, kind=kind, n_blocks=3, m=30)
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


def problem_of_one_block(seed, n, dimension):
    """Vertices of any scale, some of them equal or zero, their offsets and a weight."""
    rng = np.random.default_rng(seed)
    vertices = rng.standard_normal((n, dimension)) * 10.0 ** rng.uniform(-1, 1)
    vertices[rng.random(n) < 0.1] = 0.0
    if n > 1:
        vertices[n - 1] = vertices[0]
    return vertices, rng.uniform(-1.0, 2.0, n), 10.0 ** rng.uniform(-1, 1)


def start_of_one_block(seed, n):
    """Masses that are feasible; some are zero, and now and then none is left for the null vertex."""
    rng = np.random.default_rng(seed + 1)
    alphas = rng.random(n) * (rng.random(n) < 0.6)
    total = alphas.sum()
    return alphas * rng.choice([0.0, 0.5, 1.0]) / total if total > 0 else alphas


def dual(vertices, offsets, weight, alphas):
    return alphas @ offsets - 0.5 * weight * np.sum((alphas @ vertices) ** 2)


def ascended(vertices, offsets, weight, alphas, target, most_steps=100_000):
    """Masses and heights after the steps, and which rows of the Gram matrix were asked for."""
    n = len(offsets)
    # Longer than they need be, filled with what must not be read.
    heights, gram = np.full(n + 2, np.nan), np.full((n + 2, n + 2), np.nan)
    heights[:n] = offsets - weight * vertices @ (alphas @ vertices)
    room, known, asked = np.r_[alphas, np.nan, np.nan], np.zeros(n + 2, dtype=np.int64), []
    wanted = ascend(heights, gram, known, room, n, weight, target, most_steps)
    while wanted >= 0:
        asked.append(wanted)
        gram[wanted, :n], known[wanted] = vertices @ vertices[wanted], n
        wanted = ascend(heights, gram, known, room, n, weight, target, most_steps)
    assert np.all(np.isnan(heights[n:]))
    assert np.all(np.isnan(room[n:]))
    return room[:n], heights[:n], asked


sizes = {"seed": st.integers(0, 10**6), "n": st.integers(1, 9), "dimension": st.integers(1, 6)}


@given(**sizes)
@settings(max_examples=40, deadline=None)
def test_the_steps_solve_the_quadratic_program(seed, n, dimension):
    vertices, offsets, weight = problem_of_one_block(seed, n, dimension)
    alphas, heights, asked = ascended(vertices, offsets, weight, start_of_one_block(seed, n), 1e-9)
    assert np.all(alphas >= 0)
    assert alphas.sum() <= 1 + 1e-12
    scale = weight * (vertices**2).sum(axis=1).max() + 1.0
    np.testing.assert_allclose(
        heights, offsets - weight * vertices @ (alphas @ vertices), atol=1e-11 * scale
    )
    optimum = best(vertices, offsets, np.zeros(n, dtype=int), np.array([weight])) / weight
    # The gap is that of the dual times the weight.
    assert dual(vertices, offsets, weight, alphas) >= optimum - 1e-9 / weight - 1e-8 * (
        1.0 + abs(optimum)
    )
    assert len(asked) == len(set(asked))


@given(**sizes)
@settings(max_examples=40, deadline=None)
def test_no_step_lowers_the_dual(seed, n, dimension):
    vertices, offsets, weight = problem_of_one_block(seed, n, dimension)
    alphas = start_of_one_block(seed, n)
    before = dual(vertices, offsets, weight, alphas)
    for _ in range(12):
        alphas, _, asked = ascended(vertices, offsets, weight, alphas, 0.0, most_steps=1)
        after = dual(vertices, offsets, weight, alphas)
        assert after >= before - 1e-12 * (1.0 + abs(before))
        before = after


def test_rows_of_products_are_requested_only_if_needed():
    vertices, offsets = np.eye(4), np.array([2.0, -1.0, -2.0, -3.0])
    alphas, _, asked = ascended(vertices, offsets, 1.0, np.zeros(4), 1e-12)
    assert asked == [0]
    np.testing.assert_array_equal(alphas, [1.0, 0.0, 0.0, 0.0])


@pytest.mark.parametrize("size", [1e6, 1e-6])
def test_products_may_be_huge_or_tiny(size):
    """Two vertices that differ little beside their length."""
    vertices = np.array([[size, 0.5], [size, -0.5]])
    offsets = np.array([size**2, size**2])
    alphas, _, _ = ascended(vertices, offsets, 1.0, np.array([1.0, 0.0]), 1e-14)
    np.testing.assert_allclose(alphas, [0.5, 0.5], atol=1e-3 if size > 1 else 1e-12)
