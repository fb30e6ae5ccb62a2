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

from ..compiled import njit

_PLAIN: dict[str, Any] = {"cache": True, "nogil": True, "error_model": "numpy"}
# Reordering of sums is allowed, infinities keep their meaning.
_FAST: dict[str, Any] = {**_PLAIN, "fastmath": {"reassoc", "contract", "nsz", "arcp", "nnan"}}
_NEWTON_STEPS = 5
_BISECTIONS = 40
# Of what a step may gain this share may be lost by a loose solution.
_LOSS = 0.05
_NOTHING = 1e-12


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
def _bisect(tau, mu, h, q, base, count, K, drop, grow, cap, kappa, slack):
    """Shares with the whole budget spent at a fixed level."""
    lo, hi = 0.0, 0.0
    for t in range(count):
        b = h[t] + q[t] * base[t] * tau
        hi = max(hi, max(drop[t] * b, -grow[t] * b))
    for _ in range(_BISECTIONS):
        spent, won, _, _, _, slope = _respond(tau, mu, h, q, base, count, drop, grow, cap, kappa)
        excess = spent - K * tau
        if (won * excess / spent if excess > 0 else -mu * excess) <= slack:
            break
        if excess > 0:
            lo = mu
        else:
            hi = mu
        mu = mu + excess / slope if slope > 0 else hi
        if not lo < mu < hi:
            mu = 0.5 * (lo + hi)
    _respond(tau, mu, h, q, base, count, drop, grow, cap, kappa)


@njit(**_PLAIN)
def _solve(tau, mu, cost, h, q, base, count, h0, q0, K, drop, grow, cap, kappa, slack):
    r"""Maximise a block over its level and the listed words; the level.

    Semismooth Newton on the piecewise linear optimality conditions
    :math:`\sum_j \kappa_j = K\tau` (or :math:`\mu = 0`) and worst margin equal
    to the cost (or :math:`\tau` at a bound), stopped when at most ``slack`` is lost.
    """
    start = tau
    for _ in range(_NEWTON_STEPS):
        spent, won, margin, dm_tau, dm_mu, slope = _respond(
            tau, mu, h, q, base, count, drop, grow, cap, kappa
        )
        margin += h0 + q0 * tau - mu * K
        dm_tau += q0
        dm_mu -= K
        excess = spent - K * tau
        lack = cost - margin
        loss = won * excess / spent if excess > 0 else -mu * excess
        settled = loss <= slack
        if tau < 1 or lack < 0:
            loss += lack * lack / (2 * dm_tau) if dm_tau > 0 else np.inf
        if loss <= slack:
            return tau
        old = tau
        if mu == 0 and excess <= 0 or slope == 0:
            if not settled or dm_tau <= 0:
                break
            tau = min(max(tau + lack / dm_tau, 0.0), 1.0)
        else:
            det = dm_tau * slope + dm_mu * dm_mu
            turn = (lack * slope - dm_mu * excess) / det if det > 0 else 1.0
            tau = min(max(tau + turn, 0.0), 1.0)
            mu = max(mu + (excess + dm_mu * (tau - old)) / slope, 0.0)
        if tau < 1e-12:
            break
    _bisect(start, mu, h, q, base, count, K, drop, grow, cap, kappa, slack)
    return start


@njit(**_FAST)
def _rescale(tau, cost, h, q, base, count, h0, q0, K, drop, grow, kappa):
    """Turn shares into deviations, within budget, rescaled by the best factor; the level."""
    spent = 0.0
    for t in range(count):
        spent += kappa[t]
    fit = K * tau / spent if spent > K * tau else 1.0
    slope, curve = (cost - h0) * tau, q0 * tau * tau
    for t in range(count):
        side = drop[t] if h[t] + q[t] * base[t] * tau > 0 else -grow[t]
        kappa[t] *= -side * fit
        phi = base[t] * tau + kappa[t]
        slope -= h[t] * phi
        curve += q[t] * phi * phi
    s = 1.0 / tau
    if curve > slope * tau:
        s = max(slope, 0.0) / curve
    for t in range(count):
        kappa[t] *= s
    return min(s * tau, 1.0)


@njit(**_FAST)
def _first_level(lack, b, q, base, count, q0, threshold, drop, grow, cap):
    """Where the level of a row that has none goes to, if all words that can move do."""
    curve = q0
    for t in range(count):
        side = drop[t] if b[t] > 0 else -grow[t]
        phi = base[t] - cap[t] * side if side * b[t] >= threshold else base[t]
        curve += q[t] * phi * phi
    return min(1.0, lack / curve) if curve > 0 else 1.0


@njit(**_PLAIN)
def step_block(
    level, cost, lack, gap, size, b, q, base, dev, count, b0, q0, threshold, K, drop, grow, cap, h, kappa
):
    r"""An exact step of a row towards its best level and deviations; its length, and that level.

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
    q0 = max(q0, 0.0)
    h0, first = b0 - q0 * level, level
    for t in range(count):
        h[t] = b[t] - q[t] * (base[t] * level + dev[t])
    if level <= _NOTHING:
        first = _first_level(lack, b, q, base, count, q0, threshold, drop, grow, cap)
        if first <= _NOTHING:
            return 0.0, level
    slack = max(_LOSS * gap * min(1.0, gap / (4.0 * size)), 1e-15)
    # A step that gains less than a loose solution may lose is computed exactly.
    for allowed, least in ((slack, slack), (1e-15, 0.0)):
        new = _solve(
            first, threshold, cost, h, q, base, count, h0, q0, K, drop, grow, cap, kappa, allowed
        )
        new = _rescale(new, cost, h, q, base, count, h0, q0, K, drop, grow, kappa)
        slope, curve = (new - level) * (cost - b0), q0 * (new - level) ** 2
        for t in range(count):
            d = base[t] * (new - level) + kappa[t] - dev[t]
            slope -= b[t] * d
            curve += q[t] * d * d
        gamma = 1.0 if slope >= curve else slope / curve
        if slope > 0 and gamma * (slope - 0.5 * gamma * curve) > least:
            return gamma, new
    return 0.0, level
