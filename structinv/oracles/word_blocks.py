r"""The block of a row whose words can be rescaled or dropped: a level, and shares of a budget.

All words have the level :math:`\tau`, and those listed a share :math:`\kappa_j` of what may be changed.
Given the level and one multiplier of the budget the words are independent.
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


@njit(**_FAST)
def _respond(tau, mu, h, q, count, drop, grow, kappa):
    """Best budget shares of the listed words at level tau and multiplier mu.

    Returns the spent budget, a bound of what it gains, the terms of the
    worst-case margin, and the derivatives for a Newton step on (tau, mu).
    """
    spent, won, margin, dm_tau, dm_mu, ds_mu = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for t in range(count):
        b = h[t] + q[t] * tau
        side = drop if b > 0 else -grow
        p = q[t] * side * side
        excess = side * b - mu
        full = excess >= p * tau
        idle = excess <= 0
        share = 0.0 if idle else (tau if full else excess / p)
        won += side * b * share
        b -= q[t] * side * share
        margin += b - max(side * b - mu, 0.0)
        keep = 1.0 if idle else (1.0 - side if full else 0.0)
        dm_tau += keep * keep * q[t]
        dm_mu += 0.0 if idle else (1.0 if full else 1.0 / side)
        ds_mu += 0.0 if (idle or full) else 1.0 / p
        spent += share
        kappa[t] = share
    return spent, won, margin, dm_tau, dm_mu, ds_mu


@njit(**_PLAIN)
def _bisect(tau, mu, h, q, count, K, drop, grow, kappa, slack):
    """Shares with the whole budget spent at a fixed level."""
    lo, hi = 0.0, 0.0
    for t in range(count):
        b = h[t] + q[t] * tau
        hi = max(hi, max(drop * b, -grow * b))
    for _ in range(_BISECTIONS):
        spent, won, _, _, _, slope = _respond(tau, mu, h, q, count, drop, grow, kappa)
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
    _respond(tau, mu, h, q, count, drop, grow, kappa)


@njit(**_PLAIN)
def solve_block(tau, mu, cost, h, q, count, h0, q0, K, drop, grow, kappa, slack):
    r"""Maximise a block over its level and the listed words; the level.

    Semismooth Newton on the piecewise linear optimality conditions
    :math:`\sum_j \kappa_j = K\tau` (or :math:`\mu = 0`) and worst margin equal
    to the cost (or :math:`\tau` at a bound), stopped when at most ``slack`` is lost.
    """
    start = tau
    for _ in range(_NEWTON_STEPS):
        spent, won, margin, dm_tau, dm_mu, slope = _respond(tau, mu, h, q, count, drop, grow, kappa)
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
    _bisect(start, mu, h, q, count, K, drop, grow, kappa, slack)
    return start


@njit(**_FAST)
def rescale_block(tau, cost, h, q, count, h0, q0, K, drop, grow, kappa):
    """Turn shares into deviations, within budget, rescaled by the best factor; the level."""
    spent = 0.0
    for t in range(count):
        spent += kappa[t]
    fit = K * tau / spent if spent > K * tau else 1.0
    slope, curve = (cost - h0) * tau, q0 * tau * tau
    for t in range(count):
        side = drop if h[t] + q[t] * tau > 0 else -grow
        kappa[t] *= -side * fit
        phi = tau + kappa[t]
        slope -= h[t] * phi
        curve += q[t] * phi * phi
    s = 1.0 / tau
    if curve > slope * tau:
        s = max(slope, 0.0) / curve
    for t in range(count):
        kappa[t] *= s
    return min(s * tau, 1.0)
