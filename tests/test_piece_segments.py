"""Derivatives as sums of segments, and which losses have kinks, against the losses themselves."""

import numpy as np
import pytest

from structinv.losses import Absolute, Affine, EpsilonInsensitive, Hinge, Huber, Squared, SquaredHinge
from structinv.losses.pieces import Pieces

LOSSES = {
    "hinge": Hinge(),
    "squared hinge": SquaredHinge(),
    "squared": Squared(),
    "absolute": Absolute(),
    "epsilon-insensitive": EpsilonInsensitive(0.3),
    "epsilon-insensitive, 0": EpsilonInsensitive(0.0),
    "huber": Huber(0.7),
    "turned hinge": Affine(Hinge(), np.array([-1.0, 1.0, 1.0]), np.array([0.2, 0.0, -3.0])),
    "moved squares": Affine(Squared(), 1.0, np.array([2.0, -1.0, 0.0])),
}
SIZE = 3
every_loss = pytest.mark.parametrize("name", LOSSES)


def of_segments(segments, u):
    """The derivatives that segments add up to at u, (SIZE,)."""
    moved = u[segments.owners] - segments.start
    steep = np.where(segments.bend > 0, segments.bend, 1.0)
    linear = np.where(segments.bend > 0, moved / steep, np.where(moved > 0, np.inf, -np.inf))
    return segments.base + segments.total(np.clip(linear, segments.low, segments.high))


@every_loss
def test_segments_add_up_to_the_derivative(name):
    loss = LOSSES[name]
    weights = np.array([2.0, 0.0, 0.5])
    segments = loss.pieces().segments(weights)
    assert np.all(np.diff(segments.owners) >= 0)
    for at in np.random.default_rng(0).uniform(-4.0, 4.0, 200):
        u, step = np.full(SIZE, at), 1e-6
        slope = (loss.value(u + step) - loss.value(u - step)) / (2 * step)
        np.testing.assert_allclose(of_segments(segments, u), weights * slope, atol=1e-6)


@every_loss
def test_the_conjugate_is_the_least_of_the_segments(name):
    # Segments of a loss fill up from the lowest one: that is the least where their starts increase.
    loss = LOSSES[name]
    segments = loss.pieces().segments(np.ones(SIZE))
    u = np.random.default_rng(1).uniform(-3.0, 3.0, (50, SIZE))
    p = np.array([of_segments(segments, each) for each in u])
    constants = []
    for each, slopes in zip(u, p, strict=True):
        moved = each[segments.owners] - segments.start
        steep = np.where(segments.bend > 0, segments.bend, 1.0)
        t = np.where(segments.bend > 0, moved / steep, np.where(moved > 0, np.inf, -np.inf))
        t = np.clip(t, segments.low, segments.high)
        value = segments.total(segments.start * t + 0.5 * segments.bend * t**2)
        constants.append(loss.conjugate(slopes) - value)
    np.testing.assert_allclose(constants, np.broadcast_to(constants[0], np.shape(constants)), atol=1e-9)


def test_pieces_of_different_losses_stand_together():
    parts = [LOSSES["hinge"], LOSSES["squared"], LOSSES["epsilon-insensitive"]]
    joined = Pieces.join([(part.pieces(), 1) for part in parts]).segments(np.ones(SIZE))
    for at in (-2.0, -0.1, 0.1, 0.9, 1.1):
        u = np.full(SIZE, at)
        alone = [of_segments(part.pieces().segments(np.ones(SIZE)), u)[0] for part in parts]
        np.testing.assert_allclose(of_segments(joined, u), alone)


@every_loss
def test_kinks_and_bounded_minima(name):
    pieces = LOSSES[name].pieces()
    assert (
        pieces.kinks().all()
        == pieces.kinks().any()
        == any(kind in name for kind in ("hinge", "absolute", "insensitive") if name != "squared hinge")
    )
    assert pieces.bounds_its_minima().all() == ("hinge" not in name)
