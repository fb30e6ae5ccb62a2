"""Losses of a margin ``t = y f``, falling where the label is met."""

from __future__ import annotations

import numpy as np
from scipy.special import expit, wrightomega, xlog1py, xlogy

from .base import ScalarLoss
from .pieces import Pieces

# Rounding that a conjugate forgives at the ends of its domain.
TOLERANCE = 1e-12


class Logistic(ScalarLoss):
    """``r(u) = log(1 + exp(-u))``.

    Examples
    --------
    >>> Logistic().value(np.array([-1000.0, 0.0, 1000.0]))
    array([1.00000000e+03, 6.93147181e-01, 0.00000000e+00])
    """

    floor = 0.0
    smooth = True

    def value(self, u):
        return np.logaddexp(0.0, -u)

    def derivative(self, u):
        return -expit(-u)

    def conjugate(self, p):
        q = np.clip(-p, 0.0, 1.0)
        return np.where(np.abs(p + q) <= TOLERANCE, xlog1py(1.0 - q, -q) + xlogy(q, q), np.inf)

    def expression(self, u):
        import cvxpy as cp

        return cp.logistic(-u)

    def prox(self, u, step):
        # The step from u to t is that from -(u + step) to -t, so that t may be taken to be positive.
        turned = u + 0.5 * step < 0
        start = np.where(turned, -(u + step), u)
        # There expit(-t) >= exp(-t) / 2, whose step is known and falls short by log(2) at most; and
        # t - start - step * expit(-t) is concave, so that Newton's method climbs without a safeguard.
        # A fixed number of iterations treats an element the same, whatever is beside it.
        half = np.log(np.maximum(0.5 * step, np.finfo(float).tiny))
        t = np.maximum(0.0, start + wrightomega(half - start))
        for _ in range(6):
            pull = expit(-t)
            t = t - (t - start - step * pull) / (1.0 + step * pull * (1.0 - pull))
        return np.where(turned, -t, t)

    def curvature(self, u):
        return expit(u) * expit(-u)


class Hinge(ScalarLoss):
    """``r(u) = max(0, 1 - u)``.

    Examples
    --------
    >>> Hinge().value(np.array([-1.0, 0.5, 2.0]))
    array([2. , 0.5, 0. ])
    """

    floor = 0.0

    def value(self, u):
        return np.maximum(0.0, 1.0 - u)

    def derivative(self, u):
        return np.where(u < 1.0, -1.0, 0.0)

    def conjugate(self, p):
        nearest = np.clip(p, -1.0, 0.0)
        return np.where(np.abs(p - nearest) <= TOLERANCE, nearest, np.inf)

    def expression(self, u):
        import cvxpy as cp

        return cp.pos(1 - u)

    def prox(self, u, step):
        return np.maximum(u, np.minimum(1.0, u + step))

    def pieces(self):
        return Pieces.row([1.0], [-1.0, 0.0], [0.0, 0.0])


class SquaredHinge(ScalarLoss):
    """``r(u) = max(0, 1 - u)^2``, without a half.

    Examples
    --------
    >>> SquaredHinge().value(np.array([-1.0, 0.5, 2.0]))
    array([4.  , 0.25, 0.  ])
    """

    floor = 0.0
    smooth = True

    def value(self, u):
        short = np.maximum(0.0, 1.0 - u)
        return short * short

    def derivative(self, u):
        return 2.0 * np.minimum(0.0, u - 1.0)

    def conjugate(self, p):
        nearest = np.minimum(p, 0.0)
        return np.where(p <= TOLERANCE, nearest + nearest * nearest / 4.0, np.inf)

    def expression(self, u):
        import cvxpy as cp

        return cp.square(cp.pos(1 - u))

    def prox(self, u, step):
        return np.where(u < 1.0, (u + 2.0 * step) / (1.0 + 2.0 * step), u)

    def curvature(self, u):
        return np.where(u < 1.0, 2.0, 0.0)

    def pieces(self):
        return Pieces.row([1.0], [-2.0, 0.0], [2.0, 0.0])
