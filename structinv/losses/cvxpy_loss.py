"""Losses that a user writes in the language of cvxpy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .base import ScalarLoss


class CvxpyLoss(ScalarLoss):
    """A convex loss given as a cvxpy expression, for `Representer(method="cvxpy")`.

    Values are those of the expression; conjugates and proximal steps are programs that cvxpy solves,
    exact to its tolerance.

    Parameters
    ----------
    function : callable
        From a cvxpy expression of shape (n,) to a convex one of that shape, elementwise.
    floor : float, default=0.0
        A lower bound of the loss.

    Examples
    --------
    >>> import cvxpy as cp
    >>> pinball = CvxpyLoss(lambda u: cp.maximum(0.9 * u, -0.1 * u))
    >>> pinball.value(np.array([-1.0, 2.0]))
    array([0.1, 1.8])
    >>> bool(np.isclose(pinball.conjugate(np.array([0.5]))[0], 0.0, atol=1e-6))
    True
    """

    has_slopes = False

    def __init__(self, function: Callable[[Any], Any], floor: float = 0.0) -> None:
        self.function = function
        self.floor = floor

    def validate(self) -> None:
        if not callable(self.function):
            raise TypeError(f"function must be callable as function(expression), got {self.function!r}")

    def expression(self, u: Any) -> Any:
        """See `ScalarLoss.expression`; ValueError if it is not convex, or not elementwise."""
        found = self.function(u)
        if not found.is_convex() or found.shape != u.shape:
            raise ValueError(
                f"function must give a convex expression of shape {u.shape}, got {found.curvature} "
                f"of shape {found.shape}"
            )
        return found

    def value(self, u):
        import cvxpy as cp

        u = np.asarray(u, dtype=float)
        return np.reshape(self.function(cp.Constant(u.ravel())).value, u.shape)

    def derivative(self, u):
        """See `ScalarLoss.derivative`; not known."""
        raise NotImplementedError("a CvxpyLoss has no derivative; Representer(method='cvxpy') takes it")

    def domain(self):
        """See `ScalarLoss.domain`; not known."""
        return np.array(-np.inf), np.array(np.inf)

    def conjugate(self, p):
        import cvxpy as cp

        p = np.asarray(p, dtype=float)
        t: Any = cp.Variable(p.size)
        own = cp.multiply(p.ravel(), t) - self.function(t)
        program = cp.Problem(cp.Maximize(cp.sum(own)))
        program.solve(solver="CLARABEL")
        values = np.full(p.size, np.inf) if own.value is None else own.value
        return np.reshape(values, p.shape)

    def prox(self, u, step):
        import cvxpy as cp

        u = np.asarray(u, dtype=float)
        t: Any = cp.Variable(u.size)
        steps = np.broadcast_to(step, u.shape).ravel()
        own = cp.multiply(steps, self.function(t)) + 0.5 * cp.square(t - u.ravel())
        cp.Problem(cp.Minimize(cp.sum(own))).solve(solver="CLARABEL")
        return np.reshape(t.value, u.shape)
