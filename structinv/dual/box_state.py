r"""Dual state of dense rows in boxes, :math:`|z_k - x_{ik}| \le r_k`.

An averaged plane is an element of the convex hull of its planes and the null plane. It has a dual
variable :math:`\tau_i` and a point :math:`p_i`:

.. math:: a_i = y_i p_i, \quad \text{offset } \tau_i, \quad 0 \le \tau_i \le 1, \quad
   |p_{ik} - \tau_i x_{ik}| \le \tau_i r_k.

An update of a row maximizes the dual over :math:`(\tau_i, p_i)` of this row,

.. math:: D = \sum_i c_i \tau_i - \tfrac12 \Bigl\| \sum_i c_i a_i \Bigr\|^2 .
"""

from __future__ import annotations

import numpy as np

from ..spaces.base import Element
from ..utils.jit import LEAN, njit
from ..utils.row_arrays import Arrays
from . import case as needs
from .base import DualState
from .case import Case
from .row_state import HingeState

_MATH = {"reassoc", "contract", "nsz", "arcp"}
# Maximum number of steps of Newton's method for tau.
_TAU_STEPS = 60
# Slope of the dual objective at which tau has converged. The objective is then too small by about the
# square of this.
_SETTLED = 1e-10


@njit(**LEAN, fastmath=_MATH)
def _box_slope(tau, target, x, radius, c):
    """Return the features' part of slope and curvature in tau of the dual objective.

    The objective is that of the best point for each tau.
    """
    slope, curve = 0.0, 0.0
    for k in range(x.size):
        high, low = x[k] + radius[k], x[k] - radius[k]
        end = high if target[k] > tau * high else (low if target[k] < tau * low else 0.0)
        slope += (target[k] - tau * end) * end
        curve += end * end
    return c * slope, c * curve


@njit(**LEAN, fastmath=_MATH)
def _look(x, point, radius, y, c, f, target):
    """Return worst-case margin and margin of the point; set `target`, the free optimum.

    The free optimum is the best point without bounds.
    """
    margin, inner = 0.0, 0.0
    for k in range(x.size):
        b = y * f[k]
        margin += b * x[k] - radius[k] * abs(b)
        inner += b * point[k]
        target[k] = point[k] - b / c
    return margin, inner


@njit(**LEAN)
def _sweep_box(X, losses, boxes, variables, f, order, gaps, target, unchanged):
    """Update rows exactly: at a given tau, each feature has its own optimum."""
    d, signs, weights, intercept = X.shape[1], losses.signs, losses.weights, losses.intercept
    (radii, changed), (taus, points) = boxes, variables
    for i in order:
        c, y, tau, x, radius = weights[i], signs[i], taus[i], X[i], radii if changed[i] else unchanged
        gaps[i] = 0.0
        if c == 0:
            continue
        margin, inner = _look(x, points[i], radius, y, c, f, target)
        # The intercept adds ``-free - bias * tau`` to the slope.
        intercept_rate, intercept_offset = 0.0, 0.0
        if intercept:
            margin += y * f[d]
            inner += y * f[d] * tau
            intercept_rate = c
            intercept_offset = y * f[d] - c * tau
        gap = c * ((1.0 - margin if margin < 1.0 else 0.0) - tau + inner)
        if gap <= 0.0:
            continue
        gaps[i] = gap
        # Newton's method for the root of the slope, with bisection if a step leaves the bracket. `low`
        # and `high` are outside [0, 1] as long as that end may be the solution.
        low, high, old = -1.0, 2.0, tau
        for _ in range(_TAU_STEPS):
            slope, curve = _box_slope(tau, target, x, radius, c)
            slope, curve = slope + 1.0 - intercept_offset - intercept_rate * tau, curve + intercept_rate
            if (tau == 1.0 and slope > 0.0) or (tau == 0.0 and slope < 0.0):
                break
            if abs(slope) <= _SETTLED + 1e-13 * tau * curve:
                break
            low, high = (tau, high) if slope > 0.0 else (low, tau)
            new = tau + slope / curve if curve > 0.0 else 1.0
            new = 0.0 if new < 0.0 else (1.0 if new > 1.0 else new)
            if not low < new < high:
                new = 0.5 * ((low if low > 0.0 else 0.0) + (high if high < 1.0 else 1.0))
            if new == tau:
                break
            tau = new
        taus[i] = tau
        for k in range(d):
            least, most = tau * (x[k] - radius[k]), tau * (x[k] + radius[k])
            new = least if target[k] < least else target[k]
            new = most if new > most else new
            f[k] += c * y * (new - points[i, k])
            points[i, k] = new
        if intercept:
            f[d] += c * y * (tau - old)


class BoxState(HingeState):
    r"""Dual variables for boxes: :math:`|z_k - x_{ik}| \le r_k` for each feature k.

    Updates are exact. Let g be `f` without the row. Then the point :math:`p_i = y_i a_i` has
    :math:`p_{ik} = \mathrm{clip}(-y_i g_k / c_i, \tau (x_{ik} - r_k), \tau (x_{ik} + r_k))`, and
    tau is the root of a decreasing, piecewise linear function.

    Shapes: `points` (n_rows, n_features).
    """

    name = "boxes"
    # The oracle computes the losses as fast.
    quick_value = False
    value = DualState.value

    def __init__(self, case: Case, rng: np.random.Generator) -> None:
        super().__init__(case, rng)
        assert case.boxes is not None
        self.boxes = case.boxes
        self.points = np.zeros(self.X.shape)
        # Workspace, and radii of rows that may not change.
        self.targets, self.unchanged = np.zeros((2, self.X.shape[1]))

    @staticmethod
    def refuses(case: Case) -> str:
        reason = needs.hinge_of_rows(case)
        if not reason and case.boxes is None:
            return f"{case.oracle} does not declare boxes"
        return reason

    def _step(self, f: Element, order: np.ndarray, again: bool) -> None:
        _sweep_box(
            self.X, self.losses, (self.boxes.radius, self.boxes.changed), (self.taus, self.points), f,
            order, self.gaps, self.targets, self.unchanged,
        )  # fmt: skip

    def combination(self) -> Element:
        rates = self.losses.signs * self.losses.weights
        f: np.ndarray = rates @ self.points
        return np.append(f, rates @ self.taus) if self.losses.intercept else f

    def arrays(self) -> Arrays:
        return {**super().arrays(), "changes": self.points - self.taus[:, None] * self.X}

    def _start(self, arrays: Arrays, f: Element) -> int:
        super()._start(arrays, f)
        self.points = self.taus[:, None] * self.X
        if arrays["changes"].shape == self.points.shape:
            limits = np.outer(self.taus * self.boxes.changed, self.boxes.radius)
            self.points = self.points + np.clip(arrays["changes"], -limits, limits)
        return 0
