"""Affine subspaces and zonotopes against least squares."""

import numpy as np
import pytest

from structinv.metrics import tangent_distance
from structinv.oracles import InvarianceOracle, Segment
from structinv.regions.inner_products import Stack
from structinv.regions.zonotopes import AffineSubspaces, Zonotopes

from .cases import bounded, bounds_of, parallel, some


@pytest.mark.parametrize(
    ("angle", "dtype"), [(1e-2, "f4"), (1e-4, "f4"), (1e-4, "f8"), (1e-7, "f8"), (1e-9, "f8")]
)
def test_nearly_parallel_directions_are_distinguished(angle, dtype):
    rows, expected = parallel(angle, dtype)
    bounds = bounds_of(Segment(0.5, 2.0), rows[:1], rows[1:])
    near = max(1e-5 if dtype == "f4" else 1e-9, 1e-15 / angle)
    assert bounds.upper[0, 0] == pytest.approx(expected, rel=near)
    assert bounds.lower[0, 0] <= expected * (1 + near)
    # Planes through the origin and both rows hold their difference.
    assert tangent_distance(Segment(0.5, 2.0), rows.astype(np.float64))[0, 1] < 1e-12


class Planes(InvarianceOracle):
    """The same tangents of all rows."""

    def __init__(self, directions):
        self.directions = directions

    def support(self, X, V, assign, cost=None):
        raise NotImplementedError

    def tangents(self, X):
        return np.tile(self.directions, (len(X), 1, 1))


@pytest.mark.parametrize(
    ("angle", "expected"), [(1e-2, 4.0), (1e-4, 4.0), (4e-6, 4.0), (1e-6, 5.0), (0.0, 5.0)]
)
def test_tangents_of_a_row_span_a_plane_down_to_the_documented_tolerance(angle, expected):
    # Half of the angle is the smaller singular value, relative to the larger one.
    turn = np.linalg.qr(np.random.default_rng(0).standard_normal((3, 3)))[0]
    directions = np.array([[2.0, 0.0, 0.0], [30.0, 30.0 * angle, 0.0]]) @ turn
    X = np.array([[0.0, 0.0, 0.0], [7.0, 3.0, 4.0]]) @ turn
    for sides in ("one", "two"):
        found = tangent_distance(Planes(directions), X, sides=sides)
        assert found[0, 1] == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize(("dtype", "offset", "rtol"), [("f4", 1e3, 1e-4), ("f8", 1e6, 1e-6)])
def test_distances_of_samples_far_from_0_are_precise(dtype, offset, rtol):
    # Segments then reach much further than they lie apart.
    rng = np.random.default_rng(0)
    X = (rng.standard_normal((8, 3)) + offset).astype(dtype)
    bounds = bounds_of(Segment(0.25, 4.0), X[:4], X[4:])
    for i, j in np.ndindex(4, 4):
        x, z = X[i].astype(np.longdouble), X[4 + j].astype(np.longdouble)
        # Multiples shrink together until one of them is at the low end.
        least = min(
            np.linalg.norm(low - np.clip(low @ far / (far @ far), 0.25, 4.0) * far)
            for low, far in ((0.25 * x, z), (0.25 * z, x))
        )
        assert bounds.upper[i, j] == pytest.approx(float(least), rel=rtol)
        assert bounds.lower[i, j] <= float(least) * (1 + rtol)


def test_zonotopes_far_from_their_rows_have_precise_distances_in_single_precision():
    rng = np.random.default_rng(0)
    rows, directions = 5.0 * rng.standard_normal((6, 9)), rng.standard_normal((1, 2, 9))
    directions = np.repeat(directions, 6, axis=0)
    found = []
    for dtype in (np.float32, np.float64):
        # Both precisions have the same numbers.
        stack = Stack.of(*(each.astype(np.float32).astype(dtype) for each in (rows, directions)))
        far = Zonotopes(stack, np.full((6, 2), 999.0), np.full((6, 2), 1000.0))
        found.append(far.part(slice(3)).between(far.part(slice(3, 6))))
    np.testing.assert_allclose(found[0].upper, found[1].upper, rtol=1e-5)
    assert np.all(found[0].lower <= found[1].upper * (1 + 1e-5))


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
