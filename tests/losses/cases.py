"""Every registered loss and combinations of them."""

import numpy as np
import pytest
from hypothesis import strategies as st

from structinv.losses import (
    REGISTRY,
    Absolute,
    EpsilonInsensitive,
    Hinge,
    Huber,
    Logistic,
    Pieces,
    ScalarLoss,
    SquaredHinge,
)
from structinv.losses.base import MoreauEnvelope
from structinv.losses.combined import Affine, ConcatenatedLoss


class Pinball(ScalarLoss):
    """Loss of a quantile."""

    lower_bound = 0.0

    def __init__(self, quantile=0.5):
        self.quantile = quantile

    def value(self, u):
        return np.maximum(-self.quantile * u, (1 - self.quantile) * u)

    def derivative(self, u):
        return np.where(u < 0, -self.quantile, 1 - self.quantile)

    def conjugate(self, p):
        low, high = self.domain()
        return np.where((p >= low - 1e-12) & (p <= high + 1e-12), 0.0, np.inf)

    def prox(self, u, step):
        return u - np.clip(u, -step * self.quantile, step * (1 - self.quantile))

    def pieces(self):
        return Pieces.row([0.0], [-self.quantile, 1 - self.quantile], [0.0, 0.0])


LOSSES = [
    *(loss() for loss in REGISTRY.values()),
    EpsilonInsensitive(0.0),
    EpsilonInsensitive(1.5),
    Huber(0.3),
    Affine(Hinge(), -1.0, 0.3),
    Affine(SquaredHinge(), -1),
    Affine(EpsilonInsensitive(0.5), 1.0, -0.7),
    Affine(Logistic(), -1.0, 0.4),
    ConcatenatedLoss([Huber(0.7)], [1]),
    ConcatenatedLoss([Affine(Absolute(), -1.0, 2.0)], [1]),
    MoreauEnvelope(Hinge(), 0.4),
    MoreauEnvelope(EpsilonInsensitive(0.5), 1e-3),
    MoreauEnvelope(Affine(Hinge(), -1.0, 0.5), 2.0),
    MoreauEnvelope(Huber(0.5), 0.7),
    MoreauEnvelope(Logistic(), 0.7),
    Affine(Absolute(), -1.0, 2.0).smoothed(0.3),
    Pinball(0.9),
]
every_loss = pytest.mark.parametrize("loss", LOSSES, ids=repr)
every_loss_with_pieces = pytest.mark.parametrize(
    "loss", [loss for loss in LOSSES if loss.pieces() is not None], ids=repr
)
every_kinked_loss = pytest.mark.parametrize("loss", [x for x in LOSSES if not x.smooth], ids=repr)
numbers = st.floats(-20, 20, allow_nan=False)
steps = st.floats(1e-2, 1e2)


def mixed():
    """Return one loss of every kind in a concatenation, and the separate losses."""
    rng = np.random.default_rng(5)
    signs, targets = rng.choice([-1.0, 1.0], 5), rng.normal(size=5)
    families = [
        Affine(Hinge(), signs),
        Affine(EpsilonInsensitive(0.3), signs, targets),
        Huber(0.6),
        Affine(SquaredHinge(), -1.0, targets),
    ]
    ones = [loss.take([i]) for loss in families for i in range(5)]
    return ConcatenatedLoss(families, [5, 5, 5, 5]), ones
