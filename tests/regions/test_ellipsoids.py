"""Ellipsoids against cone programs."""

import cvxpy as cp
import numpy as np
import pytest

from structinv.oracles import LocalTangents
from structinv.regions.ellipsoids import Ellipsoids

from .cases import bounds_of


@pytest.mark.parametrize(("dtype", "far"), [(np.float32, 100.0), (np.float64, 1e7)])
def test_distances_of_near_points_from_thin_ellipsoids_are_precise(dtype, far):
    rng = np.random.default_rng(0)
    centers = (far + rng.integers(0, 9, (4, 5))).astype(dtype)
    factors = rng.integers(1, 4, (4, 5, 1)).astype(dtype) / 4
    # Points beside the segments and beyond their ends.
    steps = rng.standard_normal((12, 5)) / 16 + np.linspace(-2.0, 2.0, 12)[:, None] * factors[0, :, 0]
    points = (centers[:1] + steps).astype(dtype)
    found = Ellipsoids.of(centers, factors, False).from_points(points).upper
    way = points[:, None].astype(float) - centers
    own = factors[:, :, 0].astype(float)
    u = np.clip(np.einsum("ijk,jk->ij", way, own) / np.sum(own**2, axis=1), -1.0, 1.0)
    wanted = np.sum((way - u[..., None] * own) ** 2, axis=2)
    np.testing.assert_allclose(found[:, 0], wanted[:, 0], rtol=1e-4)


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


def test_equal_samples_have_a_lower_bound_of_0_in_single_precision():
    rng = np.random.default_rng(0)
    oracle = LocalTangents(rng.random((60, 25)), 3, 10)
    A, B = rng.random((40, 25)).astype("f4"), rng.random((30, 25)).astype("f4")
    bounds = bounds_of(oracle, A, np.vstack([A, B]))
    assert np.all(bounds.lower <= bounds.upper)
    assert np.max(np.diagonal(bounds.lower)) < 1e-6
