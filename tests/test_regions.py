"""Distances of geometric sets, against problems of least squares within bounds and cone programs."""

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import lsq_linear

from structinv.regions import Points
from structinv.regions.base import RegionUnion
from structinv.regions.ellipsoids import Ellipsoids
from structinv.regions.inner_products import Stack, pair_products
from structinv.regions.least_squares import bounded_minimum
from structinv.regions.zonotopes import AffineSubspaces, Zonotopes


def bounded(matrix, target, low, high):
    """The least square, by two solvers of another kind, the better of both."""
    fixed = low == high
    rest = target - matrix[:, fixed] @ low[fixed]
    if fixed.all():
        return rest @ rest
    free = matrix[:, ~fixed]
    bounds = (low[~fixed], high[~fixed])
    found = [lsq_linear(free, rest, bounds, method=method, tol=1e-14).cost for method in ("bvls", "trf")]
    return 2.0 * min(found)


@given(st.integers(0, 10**6), st.integers(1, 6), st.integers(1, 6), st.booleans())
def test_bounded_minimum_against_other_solvers(seed, size, rank, cut):
    rng = np.random.default_rng(seed)
    matrix = rng.standard_normal((7, rank)) @ rng.standard_normal((rank, size))
    target = 3.0 * rng.standard_normal(7)
    low, high = -rng.random(size), rng.random(size)
    if cut:
        low[rng.random(size) < 0.4] = 0.0
        high[rng.random(size) < 0.2] = 0.0
    z, gradient = np.zeros(size), np.zeros(size)
    gram, linear = matrix.T @ matrix, -matrix.T @ target
    room = np.zeros(size), np.zeros((size + 1, size)), np.zeros(size, dtype=np.intp)
    excess = bounded_minimum(gram, linear, low, high, 1e-13 * target @ target, z, gradient, *room)
    square = np.sum((target - matrix @ z) ** 2)
    expected = bounded(matrix, target, low, high)
    assert np.all((z >= low) & (z <= high))
    assert excess <= 1e-9 * (target @ target)
    # The other solvers stop a little earlier.
    assert square <= expected * (1 + 1e-9) + 1e-10
    assert square >= expected - 1e-4 * (target @ target)
    np.testing.assert_allclose(gradient, gram @ z + linear, atol=1e-9)


def some(dtype, r, seed=0):
    rng = np.random.default_rng(seed)
    rows, others = rng.standard_normal((4, 9)), rng.standard_normal((5, 9))
    directions, turned = rng.standard_normal((4, r, 9)), rng.standard_normal((5, r, 9))
    if r > 1:
        directions[:, 1], turned[0] = -3.0 * directions[:, 0], directions[0]
        others[0] = rows[0] + directions[0, 0]
    return [each.astype(dtype) for each in (rows, others)], (directions, turned)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("r", [0, 1, 3])
def test_affine_subspaces_against_least_squares(dtype, r):
    (rows, others), (directions, turned) = some(dtype, r)
    found = (
        AffineSubspaces.spanned(rows, directions).between(AffineSubspaces.spanned(others, turned)).upper
    )
    assert found.dtype == dtype
    for i, x in enumerate(rows):
        for j, y in enumerate(others):
            step = x.astype(np.float64) - y
            both = np.vstack([directions[i], turned[j]]).T
            if r:
                step = step - both @ np.linalg.lstsq(both, step, rcond=1e-9)[0]
            assert found[i, j] == pytest.approx(step @ step, abs=1e-4 if dtype == np.float32 else 1e-10)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("r", [0, 1, 3])
def test_zonotopes_against_least_squares(dtype, r):
    (rows, others), (directions, turned) = some(dtype, r)
    rng = np.random.default_rng(1)
    low, high = -rng.random((5, r)), 2.0 * rng.random((5, r))
    left = Zonotopes(Stack.of(rows, directions), low[:4], high[:4])
    right = Zonotopes(Stack.of(others, turned), low, high)
    found, least = left.between(right)
    for i, x in enumerate(rows):
        for j, y in enumerate(others):
            both = np.vstack([-directions[i], turned[j]]).T
            bounds = np.concatenate([low[i], low[j]]), np.concatenate([high[i], high[j]])
            expected = bounded(both, x.astype(np.float64) - y, *bounds)
            assert found[i, j] == pytest.approx(expected, abs=1e-4 if dtype == np.float32 else 1e-8)
            assert least[i, j] == pytest.approx(found[i, j], abs=1e-5 if dtype == np.float32 else 1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_ellipsoids_against_cone_programs(seed):
    rng = np.random.default_rng(seed)
    rows, others = rng.standard_normal((3, 6)), 2.0 * rng.standard_normal((3, 6))
    left, right = rng.standard_normal((3, 6, 2)), rng.standard_normal((3, 6, 2))
    left[0, :, 1] = 2.0 * left[0, :, 0]
    right[1] = 0.0
    one, two = Ellipsoids.of(rows, left, common=False), Ellipsoids.of(others, right, common=False)
    from_points, between = two.from_points(rows), one.between(two)
    for i in range(3):
        for j in range(3):
            u, v = cp.Variable(2), cp.Variable(2)
            inside = [cp.norm(u) <= 1, cp.norm(v) <= 1]
            step = rows[i] - others[j]
            point = cp.Problem(cp.Minimize(cp.norm(step - right[j] @ v)), inside).solve("CLARABEL")
            both = step + left[i] @ u - right[j] @ v
            pair = cp.Problem(cp.Minimize(cp.norm(both)), inside).solve("CLARABEL")
            assert np.sqrt(from_points.upper[i, j]) == pytest.approx(point, abs=1e-6)
            assert np.sqrt(between.upper[i, j]) == pytest.approx(pair, abs=1e-6)
            assert np.sqrt(between.lower[i, j]) <= pair + 1e-6
            assert between.lower[i, j] >= 0.99 * between.upper[i, j] - 1e-9


def test_ellipsoids_of_a_common_shape_are_exact():
    rng = np.random.default_rng(0)
    rows, factor = rng.standard_normal((4, 5)), rng.standard_normal((1, 5, 3))
    common = Ellipsoids.of(rows, factor, common=True)
    apart = Ellipsoids.of(rows, np.repeat(factor, 4, axis=0), common=False)
    found, searched = common.between(common), apart.between(apart)
    np.testing.assert_allclose(found.upper, searched.upper, atol=1e-8)
    assert found.lower is found.upper
    assert common.exact_between
    assert not apart.exact_between


def test_distances_of_near_points_are_precise():
    rng = np.random.default_rng(0)
    rows = 1e4 + rng.standard_normal((1, 50))
    near = rows + 1e-6 * rng.standard_normal((3, 50))
    expected = np.sum((near - rows) ** 2, axis=1)
    np.testing.assert_allclose(Points(rows[:, None]).from_points(near).upper[:, 0], expected, rtol=1e-5)
    directions = rng.standard_normal((1, 2, 50))
    plane = AffineSubspaces.spanned(rows, directions)
    basis = np.linalg.qr(directions[0].T)[0]
    across = (near - rows) - (near - rows) @ basis @ basis.T
    np.testing.assert_allclose(plane.from_points(near).upper[:, 0], np.sum(across**2, axis=1), rtol=1e-5)


def test_unions_compare_lists_with_all_others():
    rng = np.random.default_rng(0)
    rows, others = rng.standard_normal((3, 4)), rng.standard_normal((2, 4))
    members = rng.standard_normal((3, 5, 4))
    left = RegionUnion([Points(members), AffineSubspaces.spanned(rows, rng.standard_normal((3, 1, 4)))])
    flats = AffineSubspaces.spanned(others, rng.standard_normal((2, 1, 4)))
    right = RegionUnion([flats])
    expected = np.minimum(
        flats.from_points(members.reshape(-1, 4)).upper.reshape(3, 5, 2).min(axis=1),
        left.regions[1].between(flats).upper,
    )
    np.testing.assert_allclose(left.between(right).upper, expected)
    np.testing.assert_allclose(right.between(left).upper, expected.T)


def test_products_of_pairs_are_inner_products():
    rng = np.random.default_rng(0)
    left, right = rng.standard_normal((2, 3, 4)), rng.standard_normal((5, 2, 4))
    stacks = [Stack.from_vectors(each) for each in (left, right)]
    np.testing.assert_allclose(pair_products(*stacks), np.einsum("iad,jbd->iajb", left, right))
    np.testing.assert_allclose(stacks[0].grams, np.einsum("iad,ibd->iab", left, left))
