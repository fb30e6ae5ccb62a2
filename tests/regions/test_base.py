"""Unions of regions."""

import numpy as np

from structinv.regions import Points
from structinv.regions.base import RegionUnion
from structinv.regions.zonotopes import AffineSubspaces


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
