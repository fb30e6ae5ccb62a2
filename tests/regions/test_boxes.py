"""Boxes and balls."""

import numpy as np

from structinv.regions import Boxes
from structinv.regions.base import between
from structinv.regions.ellipsoids import Balls

from ..oracles.cases import rows

X = rows(0)[0][:3] + 1.0


Y = rows(1)[0][:3]


def test_radii_of_different_bodies_add_up():
    radii = np.linspace(0.1, 0.5, 5), np.linspace(0.9, 0.2, 5)
    beyond = np.maximum(np.abs(X[:, None] - Y) - radii[0] - radii[1], 0.0)
    for left, right in (
        (Boxes(X, radii[0]), Boxes(Y, radii[1])),
        (Boxes(X, radii[1]), Boxes(Y, radii[0])),
    ):
        np.testing.assert_allclose(between(left, right).upper, np.sum(beyond**2, axis=2))
        wide = left.widened(right)
        np.testing.assert_allclose(wide.from_points(Y).upper.T, np.sum(beyond**2, axis=2))
    beyond = np.maximum(np.linalg.norm(X[:, None] - Y, axis=2) - 0.7, 0.0)
    np.testing.assert_allclose(between(Balls(X, 0.5), Balls(Y, 0.2)).upper, beyond**2)
