r"""The block of a row whose words can be edited: a level, and shares of a budget.

Word j of the averaged point is :math:`u_j (\beta_j \tau - s_j \kappa_j)`: it has the level
:math:`\tau` times a base :math:`\beta_j`, 1 for a word of the row and 0 for one that is absent, and a
share :math:`\kappa_j \le c_j \tau` of what may be changed, with :math:`c_j` its `cap[j]`. The side
:math:`s_j` is `drop[j]` where the word counts for the row and ``-grow[j]`` elsewhere. Given the level
and one multiplier of the budget the words are independent.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...utils.jit import njit

_PLAIN: dict[str, Any] = {"cache": True, "nogil": True, "error_model": "numpy"}
# Reordering of sums is allowed, infinities keep their meaning.
_FAST: dict[str, Any] = {**_PLAIN, "fastmath": {"reassoc", "contract", "nsz", "arcp", "nnan"}}
_NEWTON_STEPS = 5
_BISECTIONS = 40
# Of what a step may gain this share may be lost by a loose solution.
_LOSS = 0.05
_NOTHING = 1e-12
# What an exact solution may lose.
_EXACT = 1e-15


@njit(**_FAST)
def _respond(tau, mu, h, q, base, count, drop, grow, cap, kappa):
    """Best budget shares of the listed words at level tau and multiplier mu.

    Returns the spent budget, a bound of what it gains, the terms of the
    worst-case margin, and the derivatives for a Newton step on (tau, mu).
    """
    spent, won, margin, dm_tau, dm_mu, ds_mu = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for t in range(count):
        b = h[t] + q[t] * base[t] * tau
        side = drop[t] if b > 0 else -grow[t]
        p = q[t] * side * side
        excess = side * b - mu
        full = excess >= p * cap[t] * tau
        idle = excess <= 0
        share = 0.0 if idle else (cap[t] * tau if full else excess / p)
        won += side * b * share
        b -= q[t] * side * share
        margin += base[t] * b - cap[t] * max(side * b - mu, 0.0)
        keep = base[t] if idle else (base[t] - cap[t] * side if full else 0.0)
        dm_tau += keep * keep * q[t]
        dm_mu += 0.0 if idle else (cap[t] if full else base[t] / side)
        ds_mu += 0.0 if (idle or full) else 1.0 / p
        spent += share
        kappa[t] = share
    return spent, won, margin, dm_tau, dm_mu, ds_mu


@njit(**_PLAIN)
def _solve(tau, mu, cost, h, q, base, count, h0, q0, K, drop, grow, cap, kappa, slack):
    r"""Maximize a block over its level and the listed words; the level.

    Semismooth Newton on the piecewise linear optimality conditions
    :math:`\sum_j \kappa_j = K\tau` (or :math:`\mu = 0`) and worst margin equal
    to the cost (or :math:`\tau` at a bound), stopped when at most ``slack`` is lost.
    Where it fails the level stays, and the multiplier alone is bisected.
    """
    start, fixed, lo, hi = tau, False, 0.0, 0.0
    for step in range(_NEWTON_STEPS + _BISECTIONS):
        spent, won, margin, dm_tau, dm_mu, slope = _respond(
            tau, mu, h, q, base, count, drop, grow, cap, kappa
        )
        excess = spent - K * tau
        loss = won * excess / spent if excess > 0 else -mu * excess
        settled = loss <= slack
        if fixed:
            if settled:
                break
            lo, hi = (mu, hi) if excess > 0 else (lo, mu)
            mu = mu + excess / slope if slope > 0 else hi
            mu = mu if lo < mu < hi else 0.5 * (lo + hi)
            continue
        margin += h0 + q0 * tau - mu * K
        dm_tau += q0
        dm_mu -= K
        lack, old = cost - margin, tau
        if tau < 1 or lack < 0:
            loss += lack * lack / (2 * dm_tau) if dm_tau > 0 else np.inf
        if loss <= slack:
            return tau
        idle = mu == 0 and excess <= 0 or slope == 0
        fixed = step + 1 == _NEWTON_STEPS or idle and (not settled or dm_tau <= 0)
        if not fixed:
            det = dm_tau * slope + dm_mu * dm_mu
            if idle:
                tau += lack / dm_tau
            else:
                tau += (lack * slope - dm_mu * excess) / det if det > 0 else 1.0
            tau = 0.0 if tau < 0.0 else (1.0 if tau > 1.0 else tau)
            if not idle:
                mu += (excess + dm_mu * (tau - old)) / slope
                mu = 0.0 if mu < 0.0 else mu
            fixed = tau < _NOTHING
        if fixed:
            tau = start
            for t in range(count):
                b = h[t] + q[t] * base[t] * tau
                gain = drop[t] * b if b > 0 else -grow[t] * b
                hi = gain if gain > hi else hi
    return start


@njit(**_PLAIN)
def step_block(
    level, cost, lack, gap, size, b, q, base, dev, count, b0, q0, threshold, K, drop, grow, cap, h, kappa
):
    r"""An exact step of a row toward its best level and deviations; its length, and that level.

    Parameters
    ----------
    level : float
        Of the row, tau.
    cost : float
        The margin asked for.
    lack, gap : float
        By how much the worst margin falls short of the cost; loss minus averaged plane, above 0.
    size : float
        Curvature of the row as it is, for the scale of what a step gains.
    b, q, base, dev : (n,) arrays
        Of listed words the products with the weights, curvatures, bases, and deviations now.
    count : int
        How many are listed.
    b0, q0 : float
        Sums of the products and curvatures of all other words.
    threshold : float
        The K-th largest gain.
    K : int
    drop, grow : (n,) arrays
        The moves of listed words for a unit of the budget.
    cap : (n,) array
        How many units each can take.
    h : (n,) array
        Overwritten.
    kappa : (n,) array
        Receives the deviations that are best.

    Returns
    -------
    gamma : float
        Length of the step, in [0, 1]; 0 if it gains nothing.
    new : float
        The level at the end of a step of length 1; not a number if squares of the row overflow.
    """
    if not np.isfinite(size):
        return 1.0, np.nan
    q0 = 0.0 if q0 < 0.0 else q0
    h0, first, curve = b0 - q0 * level, level, q0
    for t in range(count):
        h[t] = b[t] - q[t] * (base[t] * level + dev[t])
    if level <= _NOTHING:
        # Where the level of a row that has none goes to, if all words that can move do.
        for t in range(count):
            side = drop[t] if b[t] > 0 else -grow[t]
            phi = base[t] - cap[t] * side if side * b[t] >= threshold else base[t]
            curve += q[t] * phi * phi
        first = lack / curve if lack < curve else 1.0
        if first <= _NOTHING:
            return 0.0, level
    share = gap / (4.0 * size)
    slack = _LOSS * gap * (share if share < 1.0 else 1.0)
    allowed = least = slack if slack > _EXACT else _EXACT
    # A step that gains less than a loose solution may lose is computed exactly.
    while True:
        new = _solve(
            first, threshold, cost, h, q, base, count, h0, q0, K, drop, grow, cap, kappa, allowed
        )
        # Shares become deviations within the budget, rescaled by the best factor.
        spent = 0.0
        for t in range(count):
            spent += kappa[t]
        fit = K * new / spent if spent > K * new else 1.0
        slope, curve = (cost - h0) * new, q0 * new * new
        for t in range(count):
            side = drop[t] if h[t] + q[t] * base[t] * new > 0 else -grow[t]
            kappa[t] *= -side * fit
            phi = base[t] * new + kappa[t]
            slope -= h[t] * phi
            curve += q[t] * phi * phi
        scale = 1.0 / new
        if curve > slope * new:
            scale = slope / curve if slope > 0 else 0.0
        new = scale * new if scale * new < 1.0 else 1.0
        slope, curve = (new - level) * (cost - b0), q0 * (new - level) ** 2
        for t in range(count):
            kappa[t] *= scale
            d = base[t] * (new - level) + kappa[t] - dev[t]
            slope -= b[t] * d
            curve += q[t] * d * d
        gamma = 1.0 if slope >= curve else slope / curve
        if slope > 0 and gamma * (slope - 0.5 * gamma * curve) > least:
            return gamma, new
        if least == 0.0:
            return 0.0, level
        allowed, least = _EXACT, 0.0
