"""Exact steps on single dual coordinates of losses whose derivatives are piecewise linear."""

from __future__ import annotations

import numpy as np

from ..utils.jit import njit


@njit(cache=True, nogil=True)
def coordinate_sweeps(
    gram, border, functionals, coefficients, weights, breaks, intercepts, slopes, order, n_sweeps
):
    """Maximize the dual over one coefficient after the other.

    With a_i all that moves, the optimum is the u where the line of slope ``- 1 / (c_i G_ii)`` through
    the present point ``(u_i, p_i)``, p_i = - a_i / c_i, meets the curve of subgradients of r_i.

    Parameters
    ----------
    gram : (n, n) array
    border : (n,) array
        G is `gram` plus the outer product of this vector with itself; empty for none.
    functionals, coefficients : (n,) arrays
        u and a, changed in place.
    weights : (n,) array
        The c_i, above 0 for those visited.
    breaks, intercepts, slopes : (n, m) and (n, m + 1) arrays
        See `structinv.losses.pieces.Pieces`.
    order : (k,) array of int
        The coordinates to visit, in this order.
    n_sweeps : int
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
    """The subgradient p at the x with ``x + reach (p - before) = u``."""
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
