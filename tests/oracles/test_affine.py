"""Boxes, ellipsoids and tangents."""

import cvxpy as cp
import numpy as np

from structinv.oracles import Box, Ellipsoid, Identity, TangentDerivative
from structinv.utils.matrices import row_dots

from .cases import BENT, FACTOR, RADII, D, ellipsoid, row_factor, rows


def test_grades_follow_the_factor_of_each_row():
    X, y = rows(3)
    V, assign = np.random.default_rng(3).standard_normal((2, D)), np.arange(len(X)) % 2
    cost = np.linspace(0.0, 3.0, len(X))
    answer = Ellipsoid(row_factor, 0.3).discounted(BENT).support(X, V, assign, cost)
    most = ellipsoid(row_factor, 0.3, BENT)
    wanted = [most(*row).value for row in zip(X, y, map(cp.Constant, V[assign]), cost, strict=True)]
    reached = row_dots(answer.points, V, assign) + cost * answer.rho
    np.testing.assert_allclose(reached, wanted, rtol=1e-9, atol=1e-9)


def test_tangents_are_derivatives_per_unit():
    X, _ = rows()
    np.testing.assert_array_equal(Ellipsoid(FACTOR, 9.0).tangents(X)[1], FACTOR.T)
    np.testing.assert_array_equal(Box(RADII).tangents(X)[0], np.eye(D)[RADII > 0])
    np.testing.assert_array_equal(TangentDerivative(FACTOR.T, 3.0).tangents(X)[2], FACTOR.T)
    assert Identity().tangents(X).shape == (len(X), 0, D)
