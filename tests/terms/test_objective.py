"""Sums of terms: blocks of several terms in one numbering."""

import numpy as np

from structinv.oracles import Box, Identity
from structinv.spaces import ExplicitSpace
from structinv.structures import Binary
from structinv.terms import Objective, WorstCase


def test_planes_of_several_terms_have_the_order_of_the_blocks():
    rng = np.random.default_rng(0)
    X, f, g = rng.standard_normal((7, 3)), 0.1 * rng.standard_normal(3), rng.standard_normal(3)
    y, radii = np.arange(7) % 2, np.r_[np.zeros(3), np.full(4, 0.2)]
    parts = ((Identity(), slice(0, 3)), (Box(0.2), slice(3, 7)))
    space = ExplicitSpace(3)
    this = Objective(space, [WorstCase(X[own], y[own], oracle, Binary()) for oracle, own in parts])
    losses = 1.0 - (2 * y - 1) * (X @ f) + radii * np.abs(f).sum()
    assert np.all(losses > 0)
    moved = X - radii[:, None] * (2 * y - 1)[:, None] * np.sign(f)
    for blocks in (np.arange(7), np.array([4, 0, 5, 6, 1]), np.array([6, 3]), np.array([5, 2, 5, 0])):
        planes = this.planes(f, blocks)
        np.testing.assert_allclose(planes.upper, losses[blocks])
        np.testing.assert_allclose(planes.plane_values, losses[blocks])
        elsewhere = 1.0 - ((2 * y - 1) * (moved @ g))[blocks]
        np.testing.assert_allclose(planes.offsets - space.scores(g, planes.normals), elsewhere)
