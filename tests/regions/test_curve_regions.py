"""Regions of curves and covers."""

import numpy as np
import pytest

from structinv.metrics import set_distance
from structinv.oracles import Rotations, Trajectory
from structinv.oracles.third_party import region_of
from structinv.regions.base import RegionUnion
from structinv.regions.curve_regions import CoverRegion

from .cases import bounds_of, least


def crossing(X):
    """The first direction of some rows, and the second one of others."""
    return np.eye(3)[np.where(X[:, 2] > 0, 0, 1)][:, None]


def test_the_bound_of_crossing_curves_counts_the_gaps_of_both():
    # Lines at a distance of 0.2, nearest in the middle between members of both covers.
    lines = np.array([[-0.5, 0.0, 0.1], [0.0, -0.5, -0.1]])
    found = bounds_of(Trajectory(crossing, 1, resolution=3), lines[:1], lines[1:])
    assert found.upper[0, 0] == pytest.approx(0.2)
    assert found.lower[0, 0] <= 0.2


def shifted(X):
    return np.stack([np.roll(X, 1, axis=1), np.roll(X, 2, axis=1)], axis=1)


@pytest.mark.parametrize("oracle", [Trajectory(shifted, 2), Rotations(interval=(-20, 20), shape=(4, 4))])
def test_searches_from_both_sides_have_equal_results(oracle):
    rows = np.random.default_rng(0).random((7, 16))
    table = bounds_of(oracle, rows[:3], rows[3:])
    other = bounds_of(oracle, rows[3:], rows[:3])
    np.testing.assert_allclose(table.upper, other.upper.T, atol=1e-12)
    np.testing.assert_allclose(table.lower, other.lower.T, atol=1e-12)
    np.testing.assert_allclose(
        set_distance(oracle, rows), set_distance(oracle, rows, rows.copy()), atol=1e-7
    )


@pytest.mark.parametrize("kind", ["curve", "cover"])
def test_lower_bounds_between_crossing_segments_hold_if_searches_end_early(kind):
    rng = np.random.default_rng(0)
    t = np.linspace(-1.0, 1.0, 101)
    sides = []
    for size in (0.3, 1.0):
        centers, ways = rng.standard_normal((15, 2)), size * rng.standard_normal((15, 2))
        line = Trajectory(lambda X, ways=ways: ways[: len(X), None], 1, resolution=3)
        region = region_of(line, centers)
        if kind == "cover":
            # The search ends at the start.
            members = region.members
            region = CoverRegion(
                np.arange(15.0)[:, None],
                members,
                region.mesh,
                lambda rows, numbers, score, members=members: members[rows[:, 0].astype(int), numbers],
            )
        sides.append((region, centers[:, None] + t[:, None] * ways[:, None]))
    (left, points), (right, others) = sides
    apart = np.array([[least(a, b) for b in others] for a in points])
    with_far_ones = RegionUnion([left.moved(np.full(2, 99.0)), left])
    for found, expected in (
        (left.between(right), apart),
        (right.between(left), apart.T),
        (with_far_ones.between(RegionUnion([right])), apart),
    ):
        assert np.any(np.sqrt(found.upper) > expected + 0.01)
        assert np.all(np.sqrt(found.lower) <= expected)
