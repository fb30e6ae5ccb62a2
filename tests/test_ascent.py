"""The quadratic program of one block: pairwise steps on a simplex with a null vertex."""

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from structinv.utils.ascent import ascend


def problem(seed, n, dimension):
    """Vertices of any scale, some of them equal or zero, their offsets and a weight."""
    rng = np.random.default_rng(seed)
    vertices = rng.standard_normal((n, dimension)) * 10.0 ** rng.uniform(-1, 1)
    vertices[rng.random(n) < 0.1] = 0.0
    if n > 1:
        vertices[n - 1] = vertices[0]
    return vertices, rng.uniform(-1.0, 2.0, n), 10.0 ** rng.uniform(-1, 1)


def start(seed, n):
    """Masses that are feasible; some are zero, and now and then none is left for the null vertex."""
    rng = np.random.default_rng(seed + 1)
    alphas = rng.random(n) * (rng.random(n) < 0.6)
    total = alphas.sum()
    return alphas * rng.choice([0.0, 0.5, 1.0]) / total if total > 0 else alphas


def dual(vertices, offsets, weight, alphas):
    return alphas @ offsets - 0.5 * weight * np.sum((alphas @ vertices) ** 2)


def best_dual(vertices, offsets, weight):
    alphas = cp.Variable(len(offsets), nonneg=True)
    norm = cp.sum_squares(np.sqrt(weight) * vertices.T @ alphas)
    program = cp.Problem(cp.Maximize(alphas @ offsets - 0.5 * norm), [cp.sum(alphas) <= 1])
    program.solve(solver="CLARABEL", tol_gap_abs=1e-11, tol_gap_rel=1e-11, tol_feas=1e-11)
    return program.value


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
@settings(max_examples=60, deadline=None)
def test_the_steps_solve_the_quadratic_program(seed, n, dimension):
    vertices, offsets, weight = problem(seed, n, dimension)
    alphas, heights, asked = ascended(vertices, offsets, weight, start(seed, n), 1e-9)
    assert np.all(alphas >= 0)
    assert alphas.sum() <= 1 + 1e-12
    scale = weight * (vertices**2).sum(axis=1).max() + 1.0
    np.testing.assert_allclose(
        heights, offsets - weight * vertices @ (alphas @ vertices), atol=1e-11 * scale
    )
    best = best_dual(vertices, offsets, weight)
    # The gap is that of the dual times the weight.
    assert dual(vertices, offsets, weight, alphas) >= best - 1e-9 / weight - 1e-8 * (1.0 + abs(best))
    assert len(asked) == len(set(asked))


@given(**sizes)
@settings(max_examples=40, deadline=None)
def test_no_step_lowers_the_dual(seed, n, dimension):
    vertices, offsets, weight = problem(seed, n, dimension)
    alphas = start(seed, n)
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


def test_steps_end_at_the_target():
    vertices, offsets = np.eye(3), np.array([0.5, 0.4, 0.3])
    alphas, _, asked = ascended(vertices, offsets, 2.0, np.zeros(3), 1.0)
    assert not asked
    assert not np.any(alphas)


def test_a_vertex_below_the_null_vertex_has_alpha_zero():
    alphas, heights, _ = ascended(np.eye(2), np.array([-1.0, -2.0]), 1.0, np.array([0.5, 0.5]), 0.0)
    np.testing.assert_array_equal(alphas, [0.0, 0.0])
    np.testing.assert_array_equal(heights, [-1.0, -2.0])


@pytest.mark.parametrize("size", [1e6, 1e-6])
def test_products_may_be_huge_or_tiny(size):
    """Two vertices that differ little beside their length."""
    vertices = np.array([[size, 0.5], [size, -0.5]])
    offsets = np.array([size**2, size**2])
    alphas, _, _ = ascended(vertices, offsets, 1.0, np.array([1.0, 0.0]), 1e-14)
    np.testing.assert_allclose(alphas, [0.5, 0.5], atol=1e-3 if size > 1 else 1e-12)
