"""Exact dual coordinate steps for losses with piecewise linear derivatives."""

from __future__ import annotations

import numpy as np

from ..utils.jit import njit


@njit(cache=True, nogil=True)
def coordinate_sweeps(
    gram, border, functionals, coefficients, weights, breaks, intercepts, slopes, order, n_sweeps
):
    """Maximize the dual over one coefficient after the other.

    If only a_i changes, the optimum is where a line meets the curve of subgradients of r_i. The line has
    the slope ``- 1 / (c_i G_ii)`` and contains the current point ``(u_i, p_i)``, p_i = - a_i / c_i.

    Shapes: `gram` (n, n), `border` (n,), `functionals` (n,), `coefficients` (n,), `weights` (n,),
    `breaks` (n, m + 1), `intercepts` (n, m + 1), `slopes` (n, m + 1), `order` (k,).
    """
    bordered = len(border) > 0
    for _ in range(n_sweeps):
        for i in order:
            square = gram[i, i] + border[i] ** 2 if bordered else gram[i, i]
            before = -coefficients[i] / weights[i]
            after = _slope(
                functionals[i], before, weights[i] * square, breaks[i], intercepts[i], slopes[i]
            )
            change = -weights[i] * (after - before)
            if change != 0.0:
                coefficients[i] += change
                _add(functionals, gram[i], change)
                if bordered:
                    _add(functionals, border, change * border[i])


@njit(cache=True, nogil=True)
def _slope(u, before, reach, breaks, intercepts, slopes):
    """Return the subgradient p at the solution x of ``x + reach (p - before) = u``."""
    last = len(breaks)
    for k in range(last):
        if not np.isfinite(breaks[k]):
            last = k
            break
        below = breaks[k] + reach * (intercepts[k] + slopes[k] * breaks[k] - before)
        if below >= u:
            last = k
            break
        above = breaks[k] + reach * (intercepts[k + 1] + slopes[k + 1] * breaks[k] - before)
        if above >= u:
            return before + (u - breaks[k]) / reach
    x = (u + reach * (before - intercepts[last])) / (1.0 + reach * slopes[last])
    return intercepts[last] + slopes[last] * x


@njit(cache=True, nogil=True)
def _add(functionals, row, change):
    for k in range(len(functionals)):
        functionals[k] += change * row[k]
