"""Custom losses defined by cvxpy expressions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .base import ScalarLoss


class CvxpyLoss(ScalarLoss):
    """Convex loss defined by a cvxpy expression, for `Representer(method="cvxpy")`.

    The expression defines the values. Conjugates and proximal steps are computed by cvxpy, up to its
    tolerance. The loss has no derivative, and its `domain` is unbounded.

    Parameters
    ----------
    function : callable
        Function from a cvxpy expression of shape (n,) to a convex elementwise expression of that shape.
    lower_bound : float, default=0.0
        Lower bound of the loss.

    See Also
    --------
    ScalarLoss : Base class for losses with explicit formulas, for all solvers.

    Examples
    --------
    >>> import cvxpy as cp
    >>> import numpy as np
    >>> from structinv.losses import CvxpyLoss
    >>> pinball = CvxpyLoss(lambda u: cp.maximum(0.9 * u, -0.1 * u))
    >>> pinball.value(np.array([-1.0, 2.0]))
    array([0.1, 1.8])
    >>> bool(np.isclose(pinball.conjugate(np.array([0.5]))[0], 0.0, atol=1e-6))
    True
    """

    has_slopes = False

    def __init__(self, function: Callable[[Any], Any], lower_bound: float = 0.0) -> None:
        self.function = function
        self.lower_bound = lower_bound

    def validate(self) -> None:
        if not callable(self.function):
            raise TypeError(f"function must be callable as function(expression), got {self.function!r}")

    def expression(self, u: Any) -> Any:
        values = self.function(u)
        if not values.is_convex() or values.shape != u.shape:
            raise ValueError(
                f"function must return a convex expression of shape {u.shape}, got {values.curvature} "
                f"of shape {values.shape}"
            )
        return values

    def value(self, u):
        import cvxpy as cp

        u = np.asarray(u, dtype=float)
        return np.reshape(self.function(cp.Constant(u.ravel())).value, u.shape)

    def derivative(self, u):
        raise NotImplementedError("CvxpyLoss has no derivative: use it in Representer(method='cvxpy')")

    def domain(self):
        return np.array(-np.inf), np.array(np.inf)

    def conjugate(self, p):
        import cvxpy as cp

        p = np.asarray(p, dtype=float)
        t: Any = cp.Variable(p.size)
        terms = cp.multiply(p.ravel(), t) - self.function(t)
        program = cp.Problem(cp.Maximize(cp.sum(terms)))
        program.solve(solver="CLARABEL")
        values = np.full(p.size, np.inf) if terms.value is None else terms.value
        return np.reshape(values, p.shape)

    def prox(self, u, step):
        import cvxpy as cp

        u = np.asarray(u, dtype=float)
        t: Any = cp.Variable(u.size)
        steps = np.broadcast_to(step, u.shape).ravel()
        terms = cp.multiply(steps, self.function(t)) + 0.5 * cp.square(t - u.ravel())
        cp.Problem(cp.Minimize(cp.sum(terms))).solve(solver="CLARABEL")
        return np.reshape(t.value, u.shape)
