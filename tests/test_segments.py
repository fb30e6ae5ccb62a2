"""`Segment` and `Offset`: rescaled samples and shifted baselines."""

import numpy as np
import pytest

from structinv import InvariantSVC
from structinv.oracles import FiniteOracle, Offset, Segment
from structinv.utils.matrices import ALL_ROWS

from .oracle_cases import rows

LINES = [Segment(0.3, 1.7, resolution=5), Segment(0.1, 1.0), Offset(0.8, resolution=6)]


class Mirrored(FiniteOracle):
    """Reverse the features."""

    def orbit(self, X):
        return np.stack([X, X[:, ::-1]], axis=1)


@pytest.mark.parametrize(
    ("oracle", "error", "message"),
    [
        (Segment(1.5, 2.0), ValueError, r"low must be at most 1.*low=1.5 and high=2.0"),
        (Segment(0.1, 0.9), ValueError, "high at least 1"),
        (Segment(np.nan, 2.0), ValueError, "low must be a finite number"),
        (Segment(0.5, np.inf), ValueError, "high must be a finite number"),
        (Segment(0.5, 2.0, resolution=1), ValueError, "resolution must be an integer of at least 2"),
        (Offset(-1.0), ValueError, "limit must be at least 0, got -1.0"),
        (Offset(np.nan), ValueError, "limit must be a finite number"),
        (Offset(1.0, resolution=0), ValueError, "resolution"),
    ],
)
def test_parameters_out_of_range_raise_with_their_name(oracle, error, message):
    X, y = rows()
    with pytest.raises(error, match=message):
        oracle.bind(X, y)
    with pytest.raises(error, match=message):
        oracle.changes(X)


@pytest.mark.parametrize(
    ("oracle", "tight"),
    [*((line, 0.99) for line in LINES),
     (Offset(0.8, resolution=6) @ Segment(0.3, 1.7, resolution=5), 0.5),
     (Segment(0.3, 1.7, resolution=5) @ Mirrored(), 0.5)],
    ids=str,
)  # fmt: skip
def test_the_mesh_is_the_largest_distance_from_the_cover(oracle, tight):
    X, _ = rows()
    cover = oracle.changes(X)
    np.testing.assert_array_equal(cover.members()[:, 0], X)
    members = oracle.sample(X, 20000, np.random.default_rng(0))
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
    assert Segment(0.5, 2.0, resolution=4).bind(X).changes().names == [
        "identity",
        "x 0.5",
        "x 1.5",
        "x 2",
    ]
    assert Offset(1.0, resolution=3).bind(X).changes().names == ["identity", "-1", "+1"]
    np.testing.assert_array_equal(Segment(0.5, 2.0, resolution=4).changes(X).members()[:, 1], X / 2)
    np.testing.assert_array_equal(Offset(1.0, resolution=3).changes(X).members()[:, 2], X + 1)
    assert Segment(1, 1).bind(X).changes().names == ["identity"]
    np.testing.assert_array_equal(Segment(1, 1).changes(X).mesh(), 0.0)


@pytest.mark.parametrize("oracle", LINES, ids=repr)
def test_refining_finds_the_nearest_member_to_a_point_on_the_line(oracle):
    X, _ = rows()
    target = oracle.sample(X, 1, np.random.default_rng(1))[:, 0]
    cover = oracle.changes(X)
    nearest = np.argmin(np.linalg.norm(cover.members() - target[:, None], axis=2), axis=1)
    found = oracle.changes(X).refine(ALL_ROWS, nearest, lambda z: -np.linalg.norm(z - target, axis=1))
    assert np.max(np.linalg.norm(found - target, axis=1)) < 1e-3
    with pytest.raises(ValueError, match="index must contain 8 numbers from 0"):
        oracle.changes(X).points(ALL_ROWS, np.full(len(X), 99))


@pytest.mark.parametrize("oracle", LINES, ids=repr)
def test_lines_have_in_hull_steps(oracle):
    X, _ = rows()
    assert oracle.bind(X).hull(np.ones(len(X)), np.ones(len(X)), True) is not None
