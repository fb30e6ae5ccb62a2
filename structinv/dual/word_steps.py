r"""Steps of the hinge loss for rescaled or removed words, compiled.

At most :math:`K` entries (words) of a sparse row :math:`x` may change. Each is multiplied by a factor in
:math:`[l, u]`, where :math:`0 \le l \le 1 \le u`. The worst-case hinge loss of a row with sign
:math:`y` is

.. math:: \ell(w) = \max\bigl(0, 1 - \min_{z \in S(x)} y \langle w, z\rangle\bigr).

An averaged plane is an element of the convex hull of the planes of this maximum and the null plane. It
has a dual variable :math:`\tau \in [0, 1]` and a deviation :math:`\delta_j` per word:

.. math:: a = y\, x \circ (\tau + \delta), \quad
   \delta_j = -(1-l)\kappa_j \text{ or } (u-1)\kappa_j, \quad
   0 \le \kappa_j \le \tau, \quad \sum_j \kappa_j \le K \tau.

In the block of a row, word j of the averaged point is :math:`x_j (\beta_j \tau - s_j \kappa_j)`, where

- :math:`x_j` is the entry of the word in the row, or the value that is added,
- :math:`\tau` is the dual variable of the row,
- the base :math:`\beta_j` is 1 for a word of the row and 0 for an absent word,
- the amount of the edit satisfies :math:`0 \le \kappa_j \le c_j \tau`, where :math:`c_j` is ``cap[j]``,
- :math:`s_j` is ``drop[j]`` if the word increases the margin, else ``-grow[j]``.

The amounts add up to at most :math:`K \tau`. Given :math:`\tau` and the multiplier :math:`\mu` of this
constraint, the dual objective is a sum over words. A step changes the amounts of the *listed* words of
the row only. Sums represent the other words.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..oracles.words.kernels import changing, gains, largest, products
from ..utils.jit import LEAN, LEAN_FAST, njit

# Words without a deviation are not updated if their gain is below this fraction of the row's last
# multiplier. The step over the other words still increases the dual objective.
KEEP = 0.7
_NEWTON_STEPS = 5
_BISECTIONS = 40
# Tolerance of the dual objective for an approximate solution, as a fraction of the gain of a step.
_LOSS = 0.05
NOTHING = 1e-12
# Tolerance of the dual objective for an exact solution.
_EXACT = 1e-15


class Listed(NamedTuple):
    """Words of a row whose amounts change in a step, and workspaces.

    - `products, curvatures`: product with the weights, and curvature of the dual
    - `bases, deviations`: base and present deviation
    - `drops, grows, caps`: decrease and increase per unit of the budget, and maximum number of units
    - `others`: workspace of products without the row itself
    - `amounts`: workspace of amounts, then the new deviations
    """

    products: np.ndarray
    curvatures: np.ndarray
    bases: np.ndarray
    deviations: np.ndarray
    drops: np.ndarray
    grows: np.ndarray
    caps: np.ndarray
    others: np.ndarray
    amounts: np.ndarray


def listed(longest: int, drop: float, grow: float) -> Listed:
    """Return a workspace for rescaled words of rows with at most `longest` words."""
    arrays = np.ones((9, longest))
    arrays[4], arrays[5] = drop, grow
    return Listed(*arrays)


class Block(NamedTuple):
    """Numbers of the block of a row.

    - `tau, cost`: dual variable, and cost of a wrong label
    - `violation, gap`: cost minus the worst-case margin, and the gap
    - `size`: curvature of the whole row
    - `product, curvature`: sums of the words that are not listed
    - `threshold, most`: K-th largest gain, and K
    """

    tau: float
    cost: float
    violation: float
    gap: float
    size: float
    product: float
    curvature: float
    threshold: float
    most: int


@njit(**LEAN_FAST)
def _respond(tau, mu, words, count):
    """Write the best amounts of the listed words, given tau and the multiplier mu.

    Returns the sum of the amounts, a bound of their gain, the part of the listed words in the worst-case
    margin, and the derivatives for a Newton step in (tau, mu).
    """
    _, q, base, _, drop, grow, cap, h, kappa = words
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


@njit(**LEAN)
def _solve(tau, mu, block, rest, q0, words, count, slack):
    r"""Maximize the dual objective over tau and the amounts of the listed words; return tau.

    The method is semismooth Newton for the piecewise linear optimality conditions
    :math:`\sum_j \kappa_j = K\tau` (or :math:`\mu = 0`) and worst-case margin = cost (or :math:`\tau`
    at a bound). It stops if the objective is within ``slack`` of its maximum. If it does not converge,
    tau keeps its initial value, and Newton steps with bisection find the multiplier.
    """
    _, q, base, _, drop, grow, _, h, _ = words
    cost, K = block.cost, block.most
    start, fixed, lo, hi = tau, False, 0.0, 0.0
    for step in range(_NEWTON_STEPS + _BISECTIONS):
        spent, gain_bound, margin, dm_tau, dm_mu, slope = _respond(tau, mu, words, count)
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
        margin += rest + q0 * tau - mu * K
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
            fixed = tau < NOTHING
        if fixed:
            tau = start
            for t in range(count):
                b = h[t] + q[t] * base[t] * tau
                gain = drop[t] * b if b > 0 else -grow[t] * b
                hi = gain if gain > hi else hi
    return start


@njit(**LEAN)
def step_block(block, words, count):
    """Compute a step toward the maximum of a block, with exact line search.

    Returns the fraction of the way to the new point, and its dual variable. The first ``count`` words
    are listed; ``amounts`` receives their deviations at the new point.
    """
    tau, cost, violation, gap, size, b0, q0, threshold, K = block
    b, q, base, dev, drop, grow, cap, h, kappa = words
    if not np.isfinite(size):
        return 1.0, np.nan
    q0 = 0.0 if q0 < 0.0 else q0
    rest_product, first_tau, curvature = b0 - q0 * tau, tau, q0
    for t in range(count):
        h[t] = b[t] - q[t] * (base[t] * tau + dev[t])
    if tau <= NOTHING:
        # Estimate of tau for an inactive row, if all words with large gains are edited.
        for t in range(count):
            rate = drop[t] if b[t] > 0 else -grow[t]
            phi = base[t] - cap[t] * rate if rate * b[t] >= threshold else base[t]
            curvature += q[t] * phi * phi
        first_tau = violation / curvature if violation < curvature else 1.0
        if first_tau <= NOTHING:
            return 0.0, tau
    fraction = gap / (4.0 * size)
    slack = _LOSS * gap * (fraction if fraction < 1.0 else 1.0)
    allowed = least = slack if slack > _EXACT else _EXACT
    # If the gain is below the tolerance of the approximate solution, the step is computed exactly.
    while True:
        new = _solve(first_tau, threshold, block, rest_product, q0, words, count, allowed)
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


@njit(**LEAN_FAST)
def move_words(indices, data, delta, start, stop, place, count, step_tau, target, gamma, rate, f):
    """Move deviations by a fraction gamma of the way to their targets; update f."""
    if step_tau != 0:
        scale = rate * step_tau
        for j in range(start, stop):
            f[indices[j]] += scale * data[j]
    # Changes are computed from stored values, so that f remains consistent with them.
    for t in range(count):
        j = place[t]
        old = delta[j]
        delta[j] = target[t] if gamma == 1.0 else old + gamma * (target[t] - old)
        f[indices[j]] += rate * data[j] * (delta[j] - old)


@njit(**LEAN)
def add_points(rows, delta, taus, rates, f):
    """Add the averaged points of rows to f, with a rate for each row."""
    indptr, indices, data = rows
    for i in range(taus.size):
        for j in range(indptr[i], indptr[i + 1]):
            f[np.uint64(indices[j])] += (taus[i] + delta[j]) * data[j] * rates[i]


@njit(**LEAN)
def _unit_gains(b, units, drop, grow, most, cut, gain):
    """List the gains of single edits above ``cut``; return their number.

    ``b`` has the product of one unit of each word. A word is listed once per unit, up to ``most`` times.
    """
    size = 0
    for t in range(units.size):
        value = max(drop * b[t], -grow * b[t])
        for _ in range(min(units[t], most) if value > cut else 0):
            gain[size] = value
            size += 1
    return size


@njit(**LEAN)
def _top_units(b, units, moves, guess, of_unit, gain):
    """Return the results of `largest` for edits of single units; write the products of one unit."""
    for t in range(units.size):
        of_unit[t] = b[t] / units[t]
    K, drop, grow, _ = moves
    count = _unit_gains(of_unit, units, drop, grow, K, KEEP * guess, gain)
    if count < K and guess > 0:
        count = _unit_gains(of_unit, units, drop, grow, K, 0.0, gain)
    return largest(gain, count, K, guess)


@njit(**LEAN)
def losses_of_units(rows, units, losses, moves, f, mu, values, work):
    """Compute the worst-case losses of rows whose words have several units.

    ``mu`` has guesses of the K-th largest gains. Workspaces as in `sweep_words`.
    """
    indptr, indices, data = rows
    signs, last = losses.signs, f.size - 1
    for i in range(values.size):
        start, stop, top = indptr[i], indptr[i + 1], 0.0
        total, _ = products(indices[start:stop], data[start:stop], signs[i], f, work[0])
        if moves.changed[i]:
            top, _ = _top_units(work[0], units[start:stop], moves, mu[i], work[2], work[1])
        if losses.intercept:
            total += signs[i] * f[last]
        values[i] = max(1.0 - total + top, 0.0)


@njit(**LEAN)
def sweep_words(rows, units, losses, moves, delta, taus, mu, f, order, gaps, words, work, place):
    """Update the block of each row in ``order``.

    This modifies ``delta``, ``taus``, ``mu``, ``f`` and ``gaps``. The listed words are those with a
    deviation or a large gain. Rows without ``moves.changed[i]`` have neither. The workspaces ``words``,
    ``work`` (3 rows) and ``place`` (integers) are one word longer than the longest row, ``work[1]`` with
    every word once per unit.
    """
    size, gain, of_unit, b, q, dev, kappa = (
        work[0], work[1], work[2], words.products, words.curvatures, words.deviations, words.amounts
    )  # fmt: skip
    indptr, indices, data = rows
    signs, weights, square, intercept = losses.signs, losses.weights, losses.squares, losses.intercept
    K, drop, grow, changed = moves
    last = f.size - 1
    for i in order:
        c = weights[i]
        gaps[i] = 0.0
        if c == 0:
            continue
        start, stop, tau = indptr[i], indptr[i + 1], taus[i]
        length, count, above, deviations = stop - start, 0, 0, delta[start:stop]
        total, _ = products(indices[start:stop], data[start:stop], signs[i], f, size)
        top, threshold = 0.0, 0.0
        if changed[i] and units.size:
            top, threshold = _top_units(size, units[start:stop], moves, mu[i], of_unit, gain)
            count = changing(of_unit, deviations, length, drop, grow, KEEP * threshold, place)
        elif changed[i]:
            # The K-th gain changes little between updates, so words far below it are skipped.
            cut = KEEP * mu[i]
            if cut > 0:
                count = changing(size, deviations, length, drop, grow, cut, place)
                for t in range(count):
                    value = size[place[t]]
                    gain[above] = max(drop * value, -grow * value)
                    above += gain[above] > cut
            if above < K or cut == 0:
                gains(size, length, drop, grow, gain)
                above = length
            top, threshold = largest(gain, above, K, mu[i])
            if above == length:
                count = changing(size, deviations, length, drop, grow, KEEP * threshold, place)
        b0, q0 = total, c * square[i]
        if intercept:
            b0 += signs[i] * f[last]
            q0 += c
        violation, inner = 1.0 - (b0 - top), tau * b0
        for t in range(count):
            j = place[t]
            x = data[start + j]
            b[t], dev[t], q[t] = size[j], delta[start + j], c * x * x
            if units.size:
                n = units[start + j]
                words.drops[t], words.grows[t], words.caps[t] = drop / n, grow / n, n
            inner += b[t] * dev[t]
            b0 -= b[t]
            q0 -= q[t]
            place[t] = start + j
        gap = (violation if violation > 0 else 0.0) - tau + inner
        gaps[i] = 0.0 if gap < 0 else c * gap
        mu[i] = threshold
        if gap <= 0:
            continue
        block = Block(tau, 1.0, violation, gap, c * square[i], b0, q0, threshold, K)
        gamma, new = step_block(block, words, count)
        if gamma == 0.0:
            continue
        taus[i] = new if gamma == 1.0 else tau + gamma * (new - tau)
        move_words(
            indices, data, delta, start, stop, place, count, taus[i] - tau, kappa, gamma,
            c * signs[i], f,
        )  # fmt: skip
        if intercept:
            f[last] += c * signs[i] * (taus[i] - tau)
