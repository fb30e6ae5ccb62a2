"""Interior points of the program over planes."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from structinv.solvers.barrier import Master, OuterProductRows

from ..terms.cases import assert_feasible, best


def random_master(seed, n_blocks=4, extra=10, scales=1.0):
    """Random planes, at least one a block."""
    rng = np.random.default_rng(seed)
    blocks = np.concatenate([np.arange(n_blocks), rng.integers(n_blocks, size=extra)])
    points = rng.standard_normal((len(blocks), 6)) * scales
    offsets = rng.uniform(-0.5, 2.0, len(blocks))
    weights = rng.uniform(0.1, 2.0, n_blocks)
    return Master(OuterProductRows(points, np.ones((len(blocks), 1))), offsets, blocks, weights), points


def dual_and_primal(master, points, alphas):
    """The program's two values at the masses, from their definitions."""
    alpha = alphas * master.weights[master.blocks]
    w = points.T @ alpha
    heights = master.offsets - points @ w
    highest = [max(0.0, *heights[master.blocks == block]) for block in range(len(master.weights))]
    half = 0.5 * w @ w
    return alpha @ master.offsets - half, half + master.weights @ highest


@pytest.mark.parametrize("seed", range(12))
def test_solves_the_program_of_cvxpy(seed):
    master, points = random_master(seed, n_blocks=1 + seed % 5)
    alphas, gap = master.solve(np.zeros(6), 1.0, 1e-9)
    assert_feasible(master, alphas)
    assert gap <= 1e-9
    expected = best(points, master.offsets, master.blocks, master.weights)
    assert dual_and_primal(master, points, alphas)[0] == pytest.approx(expected, abs=2e-8)


def test_the_iterate_with_the_smallest_gap_is_returned(monkeypatch):
    seen, feasible = [], Master._feasible
    monkeypatch.setattr(
        Master, "_feasible", lambda self, at: seen.append(feasible(self, at)) or seen[-1]
    )
    last = []
    for seed in range(6):
        del seen[:]
        master, points = random_master(seed, scales=10.0 ** np.arange(-3, 3))
        # Without a tolerance, the last steps are rounding errors.
        alphas, gap = master.solve(np.zeros(6), 1.0, -1.0)
        gaps = [each for _, each in seen]
        assert gap == np.nanmin(gaps)
        np.testing.assert_array_equal(alphas, seen[int(np.nanargmin(gaps))][0])
        last.append(gap == gaps[-1])
    assert not all(last)


@given(
    seed=st.integers(0, 10**6),
    powers=st.lists(st.integers(-5, 5), min_size=6, max_size=6),
    share=st.sampled_from([1e-2, 1e-4]),
)
# Without refined steps, rounding errors of Newton's equations leave a gap of 1.4e-4 of the total.
@example(seed=78, powers=[0, 1, 1, 1, 0, 4], share=1e-4)
@settings(max_examples=40, deadline=None)
def test_badly_scaled_normals_cost_nothing_in_accuracy(seed, powers, share):
    master, points = random_master(seed, scales=10.0 ** np.array(powers))
    total = master.weights @ np.maximum(0.0, [max(master.offsets[master.blocks == b]) for b in range(4)])
    alphas, gap = master.solve(np.zeros(6), total / master.n_constraints, share * total)
    assert_feasible(master, alphas)
    assert gap <= share * total
    dual, primal = dual_and_primal(master, points, alphas)
    assert primal - dual == pytest.approx(gap, rel=1e-3, abs=1e-2 * share * total)


@pytest.mark.parametrize("weight", [1e-9, 1.0, 1e9])
@pytest.mark.parametrize("points", [[[0.0, 0.0]], [[1.0, 2.0]] * 3, [[1e6, 1e-6], [-1e6, 1e-6]]])
def test_degenerate_planes(points, weight):
    points = np.array(points)
    m = len(points)
    master = Master(
        OuterProductRows(points, np.ones((m, 1))), np.ones(m), np.zeros(m, dtype=int), np.array([weight])
    )
    alphas, gap = master.solve(np.zeros(2), 10.0 * weight, 1e-6 * weight)
    assert_feasible(master, alphas)
    assert gap <= 1e-6 * weight
    dual, primal = dual_and_primal(master, points, alphas)
    assert dual <= primal + 1e-9 * weight


@pytest.mark.parametrize("n_threads", [1, 3])
@pytest.mark.parametrize("n_kinds", [1, 3, 200])
def test_outer_product_rows_equal_dense_rows(n_kinds, n_threads, monkeypatch):
    # Portions of threads end within the rows of one kind.
    monkeypatch.setattr("structinv.utils.matrices.VALUES_A_THREAD", 1)
    monkeypatch.setattr("structinv.utils.matrices.allowed_threads", lambda: n_threads)
    rng = np.random.default_rng(n_kinds)
    points = rng.standard_normal((200, 3))
    kinds = rng.integers(-1, 2, (n_kinds, 4)) * rng.random((n_kinds, 1))
    coefficients = kinds[rng.permutation(200) % n_kinds]
    dense = (coefficients[:, :, None] * points[:, None, :]).reshape(200, 12)
    rows = OuterProductRows(points, coefficients)
    factors, w = rng.random(200), rng.standard_normal(12)
    groups = rng.integers(-1, 5, 200)
    members = np.argsort(groups)
    start = np.searchsorted(groups[members], np.arange(6))
    np.testing.assert_allclose(rows.products(w), dense @ w, atol=1e-12)
    np.testing.assert_allclose(rows.combine(factors), dense.T @ factors, atol=1e-11)
    np.testing.assert_allclose(rows.second_moment(factors), (dense.T * factors) @ dense, atol=1e-11)
    expected = [(factors * (groups == g)) @ dense for g in range(5)]
    np.testing.assert_allclose(rows.sums(factors, members, start), expected, atol=1e-11)
