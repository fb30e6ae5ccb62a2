"""Losses of an error, symmetric about zero: squared, absolute, Huber and others."""

from __future__ import annotations

import numpy as np

from ..utils.parameters import check_number
from .base import ScalarLoss
from .piecewise_linear import Pieces


class Squared(ScalarLoss):
    """Squared loss ``r(u) = u^2``, without a factor 1/2.

    See Also
    --------
    Huber : Variant that is linear for large errors.

    Examples
    --------
    >>> from structinv.losses import Squared
    >>> Squared().value(3.0), Squared().derivative(3.0), Squared().conjugate(2.0)
    (9.0, 6.0, 1.0)
    """

    lower_bound = 0.0
    smooth = True

    def value(self, u):
        return u * u

    def derivative(self, u):
        return 2.0 * u

    def conjugate(self, p):
        return p * p / 4.0

    def expression(self, u):
        import cvxpy as cp

        return cp.square(u)

    def prox(self, u, step):
        return u / (1.0 + 2.0 * step)

    def curvature(self, u):
        return np.full(np.shape(u), 2.0)

    def pieces(self):
        return Pieces.row([], [0.0], [2.0])


class EpsilonInsensitive(ScalarLoss):
    """Epsilon-insensitive loss ``r(u) = max(0, |u| - epsilon)``.

    Parameters
    ----------
    epsilon : float, default=0.1
        Half the width of the interval without loss (>= 0).

    See Also
    --------
    Absolute : Special case with ``epsilon=0``.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.losses import EpsilonInsensitive
    >>> EpsilonInsensitive(0.5).value(np.array([-2.0, 0.3, 1.0]))
    array([1.5, 0. , 0.5])
    """

    lower_bound = 0.0

    def __init__(self, epsilon: float = 0.1) -> None:
        self.epsilon = epsilon

    def validate(self) -> None:
        check_number("epsilon", self.epsilon)

    def value(self, u):
        return np.maximum(0.0, np.abs(u) - self.epsilon)

    def derivative(self, u):
        return np.where(np.abs(u) > self.epsilon, np.sign(u), 0.0)

    def conjugate(self, p):
        return np.where(np.abs(p) <= 1.0 + 1e-12, self.epsilon * np.abs(p), np.inf)

    def expression(self, u):
        import cvxpy as cp

        return cp.pos(cp.abs(u) - self.epsilon)

    def prox(self, u, step):
        excess = np.abs(u) - self.epsilon
        return u - np.sign(u) * np.clip(excess, 0.0, step)

    def pieces(self):
        if self.epsilon == 0:
            return Pieces.row([0.0], [-1.0, 1.0], [0.0, 0.0])
        return Pieces.row([-self.epsilon, self.epsilon], [-1.0, 0.0, 1.0], [0.0, 0.0, 0.0])


class Absolute(EpsilonInsensitive):
    """Absolute loss ``r(u) = |u|``.

    See Also
    --------
    EpsilonInsensitive : Variant without loss for small errors.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.losses import Absolute
    >>> Absolute().value(np.array([-2.0, 0.5]))
    array([2. , 0.5])
    """

    def __init__(self) -> None:
        self.epsilon = 0.0


class Huber(ScalarLoss):
    """Huber loss: ``u^2`` if ``|u| <= width``, else ``2 width |u| - width^2``.

    Parameters
    ----------
    width : float, default=1.0
        Largest absolute error of the quadratic part (> 0).

    See Also
    --------
    Squared : Quadratic for all errors.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.losses import Huber
    >>> Huber(1.0).value(np.array([-2.0, 0.5, 1.0]))
    array([3.  , 0.25, 1.  ])
    """

    lower_bound = 0.0
    smooth = True

    def __init__(self, width: float = 1.0) -> None:
        self.width = width

    def validate(self) -> None:
        check_number("width", self.width, strict=True)

    def value(self, u):
        inside = np.minimum(np.abs(u), self.width)
        return inside * (2.0 * np.abs(u) - inside)

    def derivative(self, u):
        return 2.0 * np.clip(u, -self.width, self.width)

    def conjugate(self, p):
        return np.where(np.abs(p) <= 2.0 * self.width * (1.0 + 1e-12), p * p / 4.0, np.inf)

    def expression(self, u):
        import cvxpy as cp

        return cp.huber(u, self.width)  # type: ignore[arg-type]

    def prox(self, u, step):
        shrunk = u / (1.0 + 2.0 * step)
        return np.where(np.abs(shrunk) <= self.width, shrunk, u - 2.0 * step * self.width * np.sign(u))

    def curvature(self, u):
        return np.where(np.abs(u) <= self.width, 2.0, 0.0)

    def pieces(self):
        end = 2.0 * self.width
        return Pieces.row([-self.width, self.width], [-end, 0.0, end], [0.0, 2.0, 0.0])
