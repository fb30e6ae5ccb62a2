"""Lines and curves around a row: `Segment`, `Offset`, `Trajectory`, `Sampled` and `LocalTangents`."""

import numpy as np
import pytest

from structinv import InvariantSVC
from structinv.oracles import (
    FiniteOracle,
    Offset,
    Protected,
    Segment,
    Trajectory,
)
from structinv.utils.matrices import ALL_ROWS

from .cases import bends, rows

LINES = [Segment(0.3, 1.7, resolution=5), Segment(0.1, 1.0), Offset(0.8, resolution=6)]


class Mirrored(FiniteOracle):
    """Reverse the features."""

    def orbit(self, X):
        return np.stack([X, X[:, ::-1]], axis=1)


class Doubled(FiniteOracle):
    """The row and its double."""

    def orbit(self, X):
        return np.stack([X, 2.0 * X], axis=1)


ENDS = [(-1.0, 1.0), (0.0, 2.0), (-0.3, 0.5)]
# Covers, and the least share of the mesh that a member is away from them.
COVERS = [(line, 0.99) for line in LINES]
COVERS += [(Trajectory(lambda X: X[:, None], 1, ends, resolution=12), 0.99) for ends in ENDS]
COVERS += [(Trajectory(bends, 5, ends, resolution=12), 0.0) for ends in ENDS]
COVERS += [(LINES[2] @ LINES[0], 0.5), (LINES[0] @ Mirrored(), 0.5), (LINES[0] @ Doubled(), 0.5)]


@pytest.mark.parametrize(("oracle", "tight"), COVERS)
def test_the_mesh_is_the_largest_distance_from_the_cover(oracle, tight):
    X, _ = rows()
    cover = oracle.changes(X)
    np.testing.assert_array_equal(cover.members()[:, 0], X)
    members = oracle.sample(X, 6000, np.random.default_rng(0))
    for z, points, mesh in zip(members, cover.members(), cover.mesh(), strict=True):
        away = np.linalg.norm(z[:, None] - points, axis=2).min(axis=1).max()
        assert tight * mesh <= away <= mesh * (1 + 1e-12) + 1e-15


def test_the_mesh_of_a_segment_after_an_offset_is_infinite():
    assert np.all(np.isinf((Segment(0.3, 1.7) @ Offset(0.8)).changes(rows()[0]).mesh()))


# The bound between the points of the cover is wider than the gap asked for.
@pytest.mark.filterwarnings("ignore:InvariantSVC ended with status 'oracle too coarse'")
def test_compositions_of_factor_and_offset_are_certified():
    rng = np.random.default_rng(0)
    y = np.arange(40) % 2
    X = np.where(y[:, None] == 1, [2.0, -2.0], [-2.0, 2.0]) + 0.1 * rng.standard_normal((40, 2))
    oracle = Offset(0.5, resolution=33) @ Segment(0.8, 1.25, resolution=33)
    model = InvariantSVC(oracle, C=10.0, gamma=0.2, tol=0.1).fit(X, y)
    assert model.solution_.relative_gap < 1.0
    assert model.certify(X, y).accuracy == 1.0


def test_member_names_have_factors_and_offsets():
    X, _ = rows()
    assert Segment(0.5, 2.0, resolution=4).changes(X).names == ["identity", "x 0.5", "x 1.5", "x 2"]
    assert Offset(1.0, resolution=3).bind(X).changes().names == ["identity", "-1", "+1"]
    np.testing.assert_array_equal(Segment(0.5, 2.0, resolution=4).changes(X).members()[:, 1], X / 2)
    np.testing.assert_array_equal(Offset(1.0, resolution=3).changes(X).members()[:, 2], X + 1)
    assert Segment(1, 1).bind(X).changes().names == ["identity"]
    np.testing.assert_array_equal(Segment(1, 1).changes(X).mesh(), 0.0)


@pytest.mark.parametrize(
    "oracle",
    [*LINES, Trajectory(bends, 5, (-0.2, 0.3), resolution=7), Protected(Segment(0.3, 1.7), [0, 3])],
)
def test_refining_finds_the_nearest_member_to_a_point_on_the_line(oracle):
    X, _ = rows()
    target = oracle.sample(X, 1, np.random.default_rng(1))[:, 0]
    cover = oracle.changes(X)
    nearest = np.argmin(np.linalg.norm(cover.members() - target[:, None], axis=2), axis=1)
    found = oracle.changes(X).refine(ALL_ROWS, nearest, lambda z: -np.linalg.norm(z - target, axis=1))
    assert np.max(np.linalg.norm(found - target, axis=1)) < 1e-3
    with pytest.raises(ValueError, match="index must contain 8 numbers from 0"):
        oracle.changes(X).points(ALL_ROWS, np.full(len(X), 99))
