"""Losses written as expressions."""

import cvxpy as cp
import numpy as np

from structinv.losses import CvxpyLoss

from .cases import Pinball


def test_expressions_have_the_conjugates_and_steps_of_their_formula():
    quantile = 0.9
    loss = CvxpyLoss(lambda u: cp.maximum(-quantile * u, (1 - quantile) * u))
    known = Pinball(quantile)
    u, step = np.array([[-2.0, 0.02, 3.0], [0.4, -0.3, 1.0]]), np.array([0.1, 0.5, 20.0])
    np.testing.assert_allclose(loss.value(u), known.value(u), atol=1e-12)
    np.testing.assert_allclose(loss.prox(u, step), known.prox(u, step), atol=1e-4)
    np.testing.assert_allclose(loss.prox(u, 0.5), known.prox(u, 0.5), atol=1e-4)
    p = np.array([-0.8, -0.3, 0.05])
    np.testing.assert_allclose(loss.conjugate(p), known.conjugate(p), atol=1e-6)
