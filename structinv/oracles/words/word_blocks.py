r"""Dual block of a row with editable words: a dual variable, an amount per word.

Word j of the averaged point is :math:`x_j (\beta_j \tau - s_j \kappa_j)`, where

- :math:`x_j` is the entry of the word in the row, or the value that is added,
- :math:`\tau` is the dual variable of the row ("level" in code),
- the base :math:`\beta_j` is 1 for a word of the row and 0 for an absent word,
- the amount of the edit satisfies :math:`0 \le \kappa_j \le c_j \tau`, where :math:`c_j` is ``cap[j]``,
- :math:`s_j` is ``drop[j]`` if the word increases the margin, else ``-grow[j]``.

The amounts add up to at most :math:`K \tau`. Given :math:`\tau` and the multiplier :math:`\mu` of this
constraint, the dual objective is a sum over words. A step changes the amounts of the *listed* words of
the row only. Sums represent the other words.
"""

from __future__ import annotations

import numpy as np

from ...utils.jit import FAST, PLAIN, njit

_NEWTON_STEPS = 5
_BISECTIONS = 40
# Tolerance of the dual objective for an approximate solution, as a fraction of the gain of a step.
_LOSS = 0.05
_NOTHING = 1e-12
# Tolerance of the dual objective for an exact solution.
_EXACT = 1e-15


@njit(**FAST)
def _respond(tau, mu, h, q, base, count, drop, grow, cap, kappa):
    """Write the best amounts of the listed words, given tau and the multiplier mu.

    Returns the sum of the amounts, a bound of their gain, the part of the listed words in the worst-case
    margin, and the derivatives for a Newton step in (tau, mu).
    """
    spent, gain_bound, margin, dm_tau, dm_mu, ds_mu = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for t in range(count):
        b = h[t] + q[t] * base[t] * tau
        rate = drop[t] if b > 0 else -grow[t]
        p = q[t] * rate * rate
        excess = rate * b - mu
        at_cap = excess >= p * cap[t] * tau
        unedited = excess <= 0
        amount = 0.0 if unedited else (cap[t] * tau if at_cap else excess / p)
        gain_bound += rate * b * amount
        b -= q[t] * rate * amount
        margin += base[t] * b - cap[t] * max(rate * b - mu, 0.0)
        keep = base[t] if unedited else (base[t] - cap[t] * rate if at_cap else 0.0)
        dm_tau += keep * keep * q[t]
        dm_mu += 0.0 if unedited else (cap[t] if at_cap else base[t] / rate)
        ds_mu += 0.0 if (unedited or at_cap) else 1.0 / p
        spent += amount
        kappa[t] = amount
    return spent, gain_bound, margin, dm_tau, dm_mu, ds_mu


@njit(**PLAIN)
def _solve(tau, mu, cost, h, q, base, count, h0, q0, K, drop, grow, cap, kappa, slack):
    r"""Maximize the dual objective over tau and the amounts of the listed words; return tau.

    The method is semismooth Newton for the piecewise linear optimality conditions
    :math:`\sum_j \kappa_j = K\tau` (or :math:`\mu = 0`) and worst-case margin = cost (or :math:`\tau`
    at a bound). It stops if the objective is within ``slack`` of its maximum. If it does not converge,
    tau keeps its initial value, and Newton steps with bisection find the multiplier.
    """
    start, fixed, lo, hi = tau, False, 0.0, 0.0
    for step in range(_NEWTON_STEPS + _BISECTIONS):
        spent, gain_bound, margin, dm_tau, dm_mu, slope = _respond(
            tau, mu, h, q, base, count, drop, grow, cap, kappa
        )
        excess = spent - K * tau
        loss = gain_bound * excess / spent if excess > 0 else -mu * excess
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
        violation, old = cost - margin, tau
        if tau < 1 or violation < 0:
            loss += violation * violation / (2 * dm_tau) if dm_tau > 0 else np.inf
        if loss <= slack:
            return tau
        no_slope = mu == 0 and excess <= 0 or slope == 0
        fixed = step + 1 == _NEWTON_STEPS or no_slope and (not settled or dm_tau <= 0)
        if not fixed:
            det = dm_tau * slope + dm_mu * dm_mu
            if no_slope:
                tau += violation / dm_tau
            else:
                tau += (violation * slope - dm_mu * excess) / det if det > 0 else 1.0
            tau = 0.0 if tau < 0.0 else (1.0 if tau > 1.0 else tau)
            if not no_slope:
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


@njit(**PLAIN)
def step_block(
    tau,
    cost,
    violation,
    gap,
    size,
    b,
    q,
    base,
    dev,
    count,
    b0,
    q0,
    threshold,
    K,
    drop,
    grow,
    cap,
    h,
    kappa,
):
    """Compute a step toward the maximum of a block, with exact line search.

    Shapes: `b` (n,), `q` (n,), `base` (n,), `dev` (n,), `drop` (n,), `grow` (n,), `cap` (n,), `h` (n,),
    `kappa` (n,).
    """
    if not np.isfinite(size):
        return 1.0, np.nan
    q0 = 0.0 if q0 < 0.0 else q0
    rest_product, first_tau, curvature = b0 - q0 * tau, tau, q0
    for t in range(count):
        h[t] = b[t] - q[t] * (base[t] * tau + dev[t])
    if tau <= _NOTHING:
        # Estimate of tau for an inactive row, if all words with large gains are edited.
        for t in range(count):
            rate = drop[t] if b[t] > 0 else -grow[t]
            phi = base[t] - cap[t] * rate if rate * b[t] >= threshold else base[t]
            curvature += q[t] * phi * phi
        first_tau = violation / curvature if violation < curvature else 1.0
        if first_tau <= _NOTHING:
            return 0.0, tau
    fraction = gap / (4.0 * size)
    slack = _LOSS * gap * (fraction if fraction < 1.0 else 1.0)
    allowed = least = slack if slack > _EXACT else _EXACT
    # If the gain is below the tolerance of the approximate solution, the step is computed exactly.
    while True:
        new = _solve(
            first_tau,
            threshold,
            cost,
            h,
            q,
            base,
            count,
            rest_product,
            q0,
            K,
            drop,
            grow,
            cap,
            kappa,
            allowed,
        )
        # Amounts are shrunk to K edits. Point and tau are then multiplied by the best common factor.
        spent = 0.0
        for t in range(count):
            spent += kappa[t]
        shrink = K * new / spent if spent > K * new else 1.0
        slope, curvature = (cost - rest_product) * new, q0 * new * new
        for t in range(count):
            rate = drop[t] if h[t] + q[t] * base[t] * new > 0 else -grow[t]
            kappa[t] *= -rate * shrink
            phi = base[t] * new + kappa[t]
            slope -= h[t] * phi
            curvature += q[t] * phi * phi
        scale = 1.0 / new
        if curvature > slope * new:
            scale = slope / curvature if slope > 0 else 0.0
        new = scale * new if scale * new < 1.0 else 1.0
        slope, curvature = (new - tau) * (cost - b0), q0 * (new - tau) ** 2
        for t in range(count):
            kappa[t] *= scale
            d = base[t] * (new - tau) + kappa[t] - dev[t]
            slope -= b[t] * d
            curvature += q[t] * d * d
        gamma = 1.0 if slope >= curvature else slope / curvature
        if slope > 0 and gamma * (slope - 0.5 * gamma * curvature) > least:
            return gamma, new
        if least == 0.0:
            return 0.0, tau
        allowed, least = _EXACT, 0.0
