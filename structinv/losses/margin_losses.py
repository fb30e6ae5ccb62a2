"""Losses of a margin ``t = y f``: logistic, hinge and squared hinge."""

from __future__ import annotations

import numpy as np
from scipy.special import expit, wrightomega, xlog1py, xlogy

from .base import ScalarLoss
from .piecewise_linear import Pieces

# Tolerance of conjugates at the limits of their domain.
TOLERANCE = 1e-12


class Logistic(ScalarLoss):
    """Logistic loss ``r(u) = log(1 + exp(-u))``.

    See Also
    --------
    Hinge : Piecewise linear loss.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.losses import Logistic
    >>> Logistic().value(np.array([-1000.0, 0.0, 1000.0]))
    array([1.00000000e+03, 6.93147181e-01, 0.00000000e+00])
    """

    lower_bound = 0.0
    of_margins = True
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
        # By symmetry, the step from u to t equals that from -(u + step) to -t: take t >= 0.
        is_mirrored = u + 0.5 * step < 0
        start = np.where(is_mirrored, -(u + step), u)
        # For t >= 0, expit(-t) >= exp(-t) / 2. The step of this bound has a closed form, which is too
        # short by at most log(2). The function t - start - step * expit(-t) is concave, so Newton's
        # method needs no safeguard. The fixed number of iterations makes elements independent.
        half = np.log(np.maximum(0.5 * step, np.finfo(float).tiny))
        t = np.maximum(0.0, start + wrightomega(half - start))
        for _ in range(6):
            slope = expit(-t)
            t = t - (t - start - step * slope) / (1.0 + step * slope * (1.0 - slope))
        return np.where(is_mirrored, -t, t)

    def curvature(self, u):
        return expit(u) * expit(-u)


class Hinge(ScalarLoss):
    """Hinge loss ``r(u) = max(0, 1 - u)``.

    See Also
    --------
    SquaredHinge : Smooth variant.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.losses import Hinge
    >>> Hinge().value(np.array([-1.0, 0.5, 2.0]))
    array([2. , 0.5, 0. ])
    """

    lower_bound = 0.0
    of_margins = True

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
    """Squared hinge loss ``r(u) = max(0, 1 - u)^2``, without a factor 1/2.

    See Also
    --------
    Hinge : Variant without the square.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.losses import SquaredHinge
    >>> SquaredHinge().value(np.array([-1.0, 0.5, 2.0]))
    array([4.  , 0.25, 0.  ])
    """

    lower_bound = 0.0
    of_margins = True
    smooth = True

    def value(self, u):
        violation = np.maximum(0.0, 1.0 - u)
        return violation * violation

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
