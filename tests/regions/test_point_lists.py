"""Lists of points."""

import numpy as np
import pytest

from structinv.regions import Points
from structinv.regions.point_lists import nearest_members
from structinv.regions.zonotopes import AffineSubspaces


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_nearest_members_of_two_lists_are_found_on_both_sides(dtype):
    rng = np.random.default_rng(0)
    left, right = (rng.integers(-9, 9, (3, size, 4)).astype(dtype) for size in (2, 5))
    # Near points, whose products are imprecise.
    right[1, 3] = left[2, 1] + dtype(1e-3)
    squares, numbers = nearest_members(left, right)
    steps = left[:, None, :, None].astype(float) - right[None, :, None]
    every = np.einsum("ijabk,ijabk->ijab", steps, steps)
    np.testing.assert_allclose(squares, every.min(axis=(2, 3)), rtol=1e-6)
    i, j = np.indices(squares.shape)
    reached = every[i, j, numbers[..., 0], numbers[..., 1]]
    np.testing.assert_allclose(reached, every.min(axis=(2, 3)), rtol=1e-6)


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
