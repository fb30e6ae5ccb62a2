"""Best members of continuous families of images, and stacks of images in all estimators."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from structinv.oracles import Rotations, Scalings, Shears, Shifts
from structinv.oracles.images.image_base import ImageOracle
from structinv.oracles.images.image_maps import image_shape

FILLS = ["zero", "nearest", "reflect", "wrap", 200.0]


def some_images(shape, n=3, seed=0):
    """Images with zeros, and a whole row of them."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(0, 255, (n, int(np.prod(shape)))) * (rng.random((n, 1)) < rng.random((n, 1)) + 0.5)
    return X * (rng.random(X.shape) < 0.8)


def members_at(oracle, X, values):
    """Members of all families at many values, (n, s, d), with no matrix made of each."""
    numbers = np.repeat(np.arange(len(oracle.families())), len(values))
    warps = oracle._warps(numbers, np.tile(values, len(oracle.families())))
    shape = image_shape(oracle.shape, X.shape[1])
    return oracle._changed(X, shape, np.broadcast_to(warps, (len(X), *warps.shape)))


@st.composite
def families(draw):
    shape = draw(st.tuples(st.integers(1, 6), st.integers(1, 6), st.integers(1, 2)))
    options = {"shape": shape, "fill": draw(st.sampled_from(FILLS))}
    kind = draw(st.sampled_from([Rotations, Shifts, Scalings, Shears]))
    # Intervals that are no shorter than the distance at which sources are put on a line.
    low, width = draw(st.integers(0, 50)) / 50, draw(st.integers(0, 50)) / 50
    if kind is Rotations:
        # Around angles at which all sources meet lines at once.
        low = draw(st.sampled_from([0, 90, 180, -45, 270])) - 60 * low * draw(st.booleans())
        return Rotations(interval=(low, low + draw(st.sampled_from([10, 120, 400])) * width), **options)
    if kind is Shifts:
        between = (draw(st.sampled_from([0, 3])) * low, 3 + 4 * width)
        return Shifts(interval=between, directions=draw(st.sampled_from([4, 8])), **options)
    if kind is Scalings:
        return Scalings(interval=(0.3 + low, 1.3 + 2 * width), **options)
    return Shears(interval=(-2 * low, 2 * width), axes=draw(st.sampled_from([0, 1, (0, 1)])), **options)


def assert_exact(answer, X, V, assign):
    """The bound is what the points reach, but for rounding."""
    reached = np.einsum("nd,nd->n", answer.points, V[assign])
    # Intensities, backgrounds and gains come to some hundreds.
    sizes = np.abs(V[assign]).sum(axis=1) * 1e-11 * 1000
    assert np.all(answer.upper >= reached - 1e-6 * sizes)
    assert np.all(answer.upper <= reached + sizes)


@settings(max_examples=60)
@given(oracle=families(), seed=st.integers(0, 99))
@example(Rotations(interval=(-90, 90), shape=(4, 4), fill="wrap"), 0)
@example(Rotations(interval=(45, 45), shape=(3, 5)), 0)
@example(Shifts(interval=(0, 0), shape=(3, 5)), 0)
@example(Scalings(interval=(0.02, 30), shape=(5, 4)), 0)
def test_support_is_at_least_the_score_of_every_image(oracle, seed):
    X = some_images(oracle.shape, seed=seed)
    V = np.random.default_rng(seed).standard_normal((2, X.shape[1]))
    V[1, ::2] = 0.0
    assign = np.array([0, 1, 0])
    answer = oracle.support(X, V, assign)
    assert_exact(answer, X, V, assign)
    reached = np.einsum("nd,nd->n", answer.points, V[assign])
    members = members_at(oracle, X, np.linspace(*oracle.interval, 401))
    best = np.einsum("nsd,nd->ns", members, V[assign]).max(axis=1)
    assert np.all(reached >= best - 1e-13 * 255 * np.abs(V[assign]).sum(axis=1))
    # Whatever rounding hides of the others, it is allowed for.
    assert np.all(answer.upper >= best)


def test_the_unperturbed_image_wins_ties():
    X = some_images((4, 4), n=5)
    flat = np.full((1, 16), 7.0)
    oracle = Rotations(interval=(10, 20), fill="nearest")
    V = np.random.default_rng(0).standard_normal((1, 16))
    np.testing.assert_array_equal(oracle.support(flat, V, np.zeros(1, dtype=int)).points, flat)
    np.testing.assert_array_equal(oracle.support(X, X, np.arange(5)).points, X)
    np.testing.assert_array_equal(oracle.support(X, 0 * V, np.zeros(5, dtype=int)).points, X)


class Squeezes(ImageOracle):
    """Images made narrower by 1/t."""

    parameter, neutral = "factors", 1.0

    def __init__(self, factors=None, interval=None, shape=None, order=1, spread=None):
        self.factors, self.interval, self.shape, self.order = factors, interval, shape, order
        self.spread = spread

    def geometry(self, family, values):
        matrices = np.tile(np.eye(2), (len(values), 1, 1))
        matrices[:, 1, 1] = 1.0 / values
        return matrices, np.zeros((len(values), 2))

    def describe(self, family, value):
        return f"squeeze {value:g}"


class WrongWay(Rotations):
    """Turns the other way, but has the angles of its parent."""

    def geometry(self, family, values):
        return super().geometry(family, -values)


class Clockwise(WrongWay):
    """Turns the other way, and says so."""

    def turned(self, low, high):
        return -super().turned(low, high)


class Bends(Squeezes):
    """Images made narrower and shifted, on a curve."""

    def geometry(self, family, values):
        matrices, moves = super().geometry(family, values)
        moves[:, 0] = values**2
        return matrices, moves


@pytest.mark.parametrize(
    "oracle",
    [Squeezes(interval=(0.5, 1.5), shape=(4, 6)), Clockwise(interval=(-200, 30), shape=(4, 6))],
    ids=["lines", "circles"],
)
def test_custom_motions_on_lines_and_circles_are_exact(oracle):
    X = some_images((4, 6))
    V, assign = np.random.default_rng(0).standard_normal((1, 24)), np.zeros(3, dtype=int)
    answer = oracle.support(X, V, assign)
    assert_exact(answer, X, V, assign)
    best = members_at(oracle, X, np.linspace(*oracle.interval, 999))
    assert np.all(answer.points @ V[0] >= (best @ V[0]).max(axis=1) - 1e-9)


@pytest.mark.parametrize(
    "oracle",
    [
        Rotations(interval=(-10, 10), order=0),
        Rotations(interval=(-10, 10), order=3),
        # Motions that differ from the geometry.
        WrongWay(interval=(5, 30)),
        Bends(interval=(0.5, 1.5), shape=(4, 4)),
        # From further away than numbers allow.
        Shifts(interval=(0, 1e5), fill="wrap"),
        Shifts(interval=(0, 1e12)),
        Scalings(interval=(1e-6, 1.0)),
    ],
    ids=repr,
)
def test_other_motions_use_a_local_search(oracle):
    X = some_images((4, 4))
    V, assign = np.random.default_rng(0).standard_normal((1, 16)), np.zeros(3, dtype=int)
    answer = oracle.support(X, V, assign)
    assert np.all(answer.upper == np.inf)
    assert np.all(answer.points @ V[0] >= X @ V[0] - 1e-9)


@pytest.mark.parametrize(
    ("angles", "error", "message"),
    [
        (0.5, TypeError, "must return angles as"),
        (np.zeros(3), ValueError, r"angles of shape \(\d,\), got \(3,\)"),
    ],
)
def test_malformed_angles_are_an_error_by_name(angles, error, message):
    class Malformed(Squeezes):
        def turned(self, low, high):
            return angles

    oracle = Malformed(interval=(0.5, 1.5), shape=(4, 6))
    with pytest.raises(error, match=rf"^Malformed\.turned .*{message}"):
        oracle.support(some_images((4, 6)), np.ones((1, 24)), np.zeros(3, dtype=int))


def test_a_score_that_hardly_depends_on_the_angle_is_bounded():
    """No angle is better than others, so that no interval can be discarded early."""
    rows, columns = np.indices((12, 12)) - 5.5
    ring = np.exp(-((np.hypot(rows, columns) - 3.0) ** 2)).reshape(1, -1)
    oracle = Rotations(interval=(-180, 180), shape=(12, 12))
    for V in (ring, np.ones_like(ring)):
        answer = oracle.support(ring, V, np.zeros(1, dtype=int))
        assert_exact(answer, ring, V, np.zeros(1, dtype=int))
        members = members_at(oracle, ring, np.linspace(-180, 180, 2001))[0]
        assert answer.upper[0] >= np.max(members @ V[0])


def test_a_sharp_peak_in_the_middle_of_an_arc_is_found():
    """Scores next to the unperturbed image and to half a turn are nearly equal."""
    X, V = np.array([[1.0, 1.0, 1.0, 1.0, 0.999, 0.999, 0.999]]), np.eye(7)[[5]]
    oracle = Rotations(interval=(80, 280), shape=(1, 7), resolution=2)
    answer = oracle.support(X, V, np.zeros(1, dtype=int))
    assert answer.upper[0] >= X[0, ::-1] @ V[0]
    np.testing.assert_allclose(answer.points @ V[0], X[:, ::-1] @ V[0], rtol=1e-12)


def test_scores_that_bend_more_and_more_along_an_arc_are_bounded():
    X = np.array([[0.0, 0.0, 2.0, 1.0, 1.0, -1.0, -2.0, 1.0, 2.0]])
    V = np.array([[0.0, -1.0, 0.0, -1.0, 1.0, 0.0, 0.0, 0.0, 0.0]])
    oracle = Rotations(interval=(-39.2, 50), shape=(3, 3), resolution=2)
    answer = oracle.support(X, V, np.zeros(1, dtype=int))
    members = members_at(oracle, X, np.linspace(-39.2, 50, 2001))[0]
    assert np.max(members @ V[0]) <= answer.upper[0]


def test_no_angle_next_to_a_quarter_turn_exceeds_the_bound():
    """Sources of pixels are near lines of the grid, and the score is nearly constant."""
    X = np.array([[1.0, 0.0, -2.0, 1.0, 2.0, 1.0, 1.0, 2.0, 1.0]])
    V = np.array([[0.0, -1.0, 1.0, 0.0, 0.0, -1.0, 0.0, 0.0, 0.0]])
    oracle = Rotations(interval=(-120, 60), shape=(3, 3))
    answer = oracle.support(X, V, np.zeros(1, dtype=int))
    assert_exact(answer, X, V, np.zeros(1, dtype=int))
    members = members_at(oracle, X, -90.0 + np.linspace(-0.01, 0.01, 2001))[0]
    assert np.max(members @ V[0]) <= answer.upper[0]


@pytest.mark.parametrize("outlier", [1e2, 1e4, 1e8])
def test_upper_bounds_include_rounding_errors(outlier):
    """A shift by 3 turns the row by less than what rounding of the outlier hides."""
    image, weights = np.zeros((4, 8)), np.zeros((4, 8))
    image[3, 2], image[0, 0] = 1.0, outlier
    weights[3, 3], weights[3, 5] = 1.0, 1.0 + 3.6e-15 * outlier
    oracle = Shifts(interval=(0.0, 4.0), shape=(4, 8))
    answer = oracle.support(image.reshape(1, -1), weights.reshape(1, -1), np.array([0]))
    moved = np.zeros((4, 8))
    moved[:, 3:] = image[:, :-3]
    assert moved.ravel() @ weights.ravel() <= answer.upper[0]
