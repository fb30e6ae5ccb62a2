"""Losses of several elements against those of each."""

import numpy as np
import pytest

from structinv.losses import CvxpyLoss, Hinge, Logistic, Squared
from structinv.losses.base import MoreauEnvelope
from structinv.losses.combined import Affine, ConcatenatedLoss

from .cases import mixed


@pytest.mark.parametrize("change", [lambda r: r, lambda r: r.smoothed(0.2)], ids=["plain", "smoothed"])
def test_concatenated_losses_use_their_own_elements(change):
    loss, ones = change(mixed()[0]), [change(one) for one in mixed()[1]]
    loss.validate()
    u = np.random.default_rng(1).normal(scale=3, size=(3, 20))
    step = np.linspace(0.1, 2.0, 20)
    methods = ["value", "derivative", "conjugate", *(["curvature"] if loss.smooth else [])]
    for name in methods:
        wanted = np.hstack([getattr(one, name)(u[:, [i]]) for i, one in enumerate(ones)])
        np.testing.assert_allclose(getattr(loss, name)(u), wanted, atol=1e-14)
        assert getattr(loss, name)(0.5).shape == (20,)
    for name in ("prox", "conjugate_prox"):
        wanted = np.hstack([getattr(one, name)(u[:, [i]], step[i]) for i, one in enumerate(ones)])
        np.testing.assert_allclose(getattr(loss, name)(u, step), wanted, atol=1e-14)
        np.testing.assert_allclose(getattr(loss, name)(u, 0.3), getattr(loss, name)(u, np.full(20, 0.3)))
    for ends in zip(loss.domain(), zip(*(one.domain() for one in ones), strict=True), strict=True):
        np.testing.assert_array_equal(ends[0], np.hstack(ends[1]))
    with pytest.raises(ValueError, match="19"):
        loss.value(np.zeros(19))


@pytest.mark.parametrize(
    "indices", [[3, 1, 12, 11, 4], np.arange(20) % 3 == 0, slice(4, 17), slice(0), [-1]]
)
@pytest.mark.parametrize(
    "change", [lambda r: r, lambda r: MoreauEnvelope(r, 0.2)], ids=["plain", "smoothed"]
)
def test_taking_elements(change, indices):
    loss = change(mixed()[0])
    part = loss.take(indices)
    chosen = np.arange(20)[indices]
    u = np.random.default_rng(1).normal(scale=3, size=20)
    np.testing.assert_array_equal(part.value(u[chosen]), loss.value(u)[chosen])
    np.testing.assert_array_equal(part.derivative(u[chosen]), loss.derivative(u)[chosen])
    assert Hinge().take(chosen).value(0.0) == 1.0


def test_joined_is_smooth_and_bounded_as_its_losses():
    class Raised(Squared):
        lower_bound = -3.0

    assert ConcatenatedLoss([Squared(), Raised()], [1, 1]).lower_bound == -3.0
    assert ConcatenatedLoss([Squared(), Logistic()], [1, 1]).smooth
    assert not ConcatenatedLoss([Squared(), Hinge()], [1, 1]).smooth


def test_joined_has_slopes_only_if_all_its_losses_have():
    without = CvxpyLoss(abs)
    assert not Affine(without, -1.0).has_slopes
    assert not ConcatenatedLoss([Squared(), without], [1, 1]).has_slopes
    assert ConcatenatedLoss([Squared(), Hinge()], [1, 1]).has_slopes
