"""Pieces of losses against their derivatives."""

import numpy as np
import pytest

from structinv.losses.combined import Affine

from .cases import every_loss_with_pieces, mixed


@every_loss_with_pieces
def test_pieces_are_the_derivative(loss):
    pieces = loss.pieces()
    assert len(pieces.breaks) == 1
    assert pieces.slopes.shape == pieces.intercepts.shape == (1, pieces.breaks.shape[1] + 1)
    assert np.all(np.diff(pieces.breaks) >= 0)
    u = np.linspace(-5, 5, 2003)
    # The derivative at a jump is any of its subgradients.
    u = u[np.abs(u[:, None] - pieces.breaks[0]).min(axis=1, initial=1.0) > 1e-9]
    np.testing.assert_allclose(pieces.derivative(u), loss.derivative(u), atol=1e-12)
    if loss.smooth:
        np.testing.assert_allclose(pieces.curvature(u), loss.curvature(u), atol=1e-12)


@every_loss_with_pieces
def test_pieces_have_left_derivatives_at_breaks(loss):
    pieces = loss.pieces()
    for end in pieces.breaks[0]:
        left = end - 1e-9 * (1.0 + abs(end))
        assert pieces.derivative(np.array(end)) == pytest.approx(
            loss.derivative(np.array(left)), abs=1e-5
        )
        assert pieces.curvature(np.array(end)) == pieces.curvature(np.array(left))


@pytest.mark.parametrize("change", [lambda r: r, lambda r: r.smoothed(0.2)], ids=["plain", "smoothed"])
def test_joined_pieces_are_the_derivative(change):
    loss = change(mixed()[0])
    for part in (loss, Affine(loss, -1.0, 0.3), Affine(loss, np.tile([1, -1], 10), np.arange(20.0))):
        pieces = part.pieces()
        assert len(pieces.breaks) == 20
        assert np.all(pieces.breaks[:, :-1] <= pieces.breaks[:, 1:])
        u = np.random.default_rng(0).uniform(-20, 20, (400, 20))
        np.testing.assert_allclose(pieces.derivative(u), part.derivative(u), atol=1e-12)
        some = [7, 0, 19]
        np.testing.assert_array_equal(
            pieces.take(some).derivative(u[:, some]), pieces.derivative(u)[:, some]
        )
