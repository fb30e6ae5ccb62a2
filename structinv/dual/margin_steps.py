"""Exact steps on slopes of points of S(x), for losses of the worst-case margin."""

from __future__ import annotations

import numpy as np

from ..losses import Hinge, Logistic, ScalarLoss, SquaredHinge
from ..utils.jit import LEAN, njit

# Numbers of losses with compiled steps.
HINGE, SQUARED_HINGE, LOGISTIC = 0, 1, 2
KINDS: dict[type[ScalarLoss], int] = {
    Hinge: HINGE,
    SquaredHinge: SQUARED_HINGE,
    Logistic: LOGISTIC,
}
# Fraction of a row's gap at which its steps end.
ROW_SHARE = 0.1
# Maximum number of Newton steps for a slope, and a step with a negligible square.
NEWTON_STEPS, NEARLY = 60, 1e-8


@njit(**LEAN)
def slope_ascent(gram, gains, order, start, weights, slopes, kind, tolerance, max_passes):
    """Maximize the dual over the slopes of stored points.

    The dual is ``sum_b c_b (-L*(tau_b)) - 1/2 |f|^2`` for slopes of at least 0, with
    ``tau_b = sum_j slopes_j`` and ``f = sum_b c_b sum_j slopes_j normal_j``.

    Shapes: `gram` (m, m), `gains` (m,), `slopes` (m,), `order` (m,), `start` (n + 1,), `weights` (n,).
    """
    total = 0.0
    for _ in range(max_passes):
        total = 0.0
        for b in range(start.shape[0] - 1):
            if start[b + 1] > start[b] and weights[b] > 0:
                members = order[start[b] : start[b + 1]]
                total += _row_ascent(gram, gains, members, weights[b], slopes, kind)
        if total <= tolerance:
            break
    return total


@njit(**LEAN)
def _row_ascent(gram, gains, members, weight, slopes, kind):
    """Do steps on one row until its gap is a tenth; return the initial gap."""
    arrival = -1.0
    for _ in range(4 * len(members) + 4):
        best, worst, alpha, mean = _ends(gains, members, slopes)
        gap = weight * (loss_value(kind, gains[best]) + conjugate(kind, alpha) - mean)
        if arrival < 0:
            arrival = 0.0 if gap < 0.0 else gap
        if gap <= ROW_SHARE * arrival or gap <= 0:
            break
        moved = _step(gram, gains, slopes, best, alpha, weight, kind)
        if worst >= 0 and worst != best:
            # Move slope from the point with the largest margin to that with the smallest.
            advantage = gains[best] - gains[worst]
            curvature = weight * (gram[best, best] + gram[worst, worst] - 2.0 * gram[best, worst])
            size = slopes[worst]
            if curvature * size > advantage:
                size = advantage / curvature
            if size > 0.0:
                moved = True
                slopes[worst] = 0.0 if size == slopes[worst] else slopes[worst] - size
                slopes[best] += size
                larger, smaller = gram[best], gram[worst]
                for k in range(gains.shape[0]):
                    gains[k] -= weight * size * (larger[k] - smaller[k])
            _, _, alpha, _ = _ends(gains, members, slopes)
            moved |= _step(gram, gains, slopes, worst, alpha, weight, kind)
        if not moved:
            break
    return arrival


@njit(**LEAN)
def _ends(gains, members, slopes):
    """Return the points with the smallest and the largest margin, and two sums.

    The second point must have a slope. The sums are those of slopes, and of slopes times negative
    margins.
    """
    best, worst, alpha, mean = members[0], -1, 0.0, 0.0
    for j in members:
        alpha += slopes[j]
        mean += slopes[j] * gains[j]
        if gains[j] > gains[best]:
            best = j
        if slopes[j] > 0 and (worst < 0 or gains[j] < gains[worst]):
            worst = j
    return best, worst, alpha, mean


@njit(**LEAN)
def _step(gram, gains, slopes, j, alpha, weight, kind):
    """Set the slope of one point to its optimum, with all others fixed; return True if it changed."""
    curvature = weight * gram[j, j]
    found = best_alpha(kind, gains[j] + curvature * alpha, curvature)
    size = found - alpha
    if size < -slopes[j]:
        size = -slopes[j]
    if size == 0.0:
        return False
    # Slopes become exactly 0, so that inactive points can be dropped.
    slopes[j] = 0.0 if size == -slopes[j] else slopes[j] + size
    own = gram[j]
    for k in range(gains.shape[0]):
        gains[k] -= weight * size * own[k]
    return True


@njit(**LEAN)
def loss_value(kind, u):
    """Return ``L(u)``."""
    if kind == LOGISTIC:
        return (0.0 if u < 0.0 else u) + np.log1p(np.exp(-abs(u)))
    short = 0.0 if 1.0 + u < 0.0 else 1.0 + u
    return short * short if kind == SQUARED_HINGE else short


@njit(**LEAN)
def conjugate(kind, t):
    """Return ``L*(t)``, with t clipped to its domain."""
    if kind == SQUARED_HINGE:
        return 0.25 * t * t - t
    inside = 0.0 if t < 0.0 else t
    inside = 1.0 if inside > 1.0 else inside
    if kind == HINGE:
        return -inside
    if inside <= 0.0 or inside >= 1.0:
        return 0.0
    return inside * np.log(inside) + (1.0 - inside) * np.log1p(-inside)


@njit(**LEAN)
def best_alpha(kind, v, q):
    """Return the minimizer t of ``L*(t) + q t^2 / 2 - v t``.

    It is L'(s) for the s with ``s + q L'(s) = v``.
    """
    if kind == SQUARED_HINGE:
        return 2.0 * (0.0 if 1.0 + v < 0.0 else 1.0 + v) / (1.0 + 2.0 * q)
    if kind == HINGE:
        if 1.0 + v <= 0.0:
            return 0.0
        return 1.0 if q <= 1.0 + v else (1.0 + v) / q
    # L'(-s) = 1 - L'(s), so s may be assumed to be negative. There L' is convex and at least exp(s) / 2:
    # s starts above the solution, and Newton's method converges without a safeguard.
    mirrored = 2.0 * v > q
    w = q - v if mirrored else v
    s = 0.0 if w > 0.0 else w
    if q > 0.0:
        half = np.log(0.5 * q)
        if w + half > 1.0:
            near = np.log(w + half) - half
            s = near if near < s else s
    slope = 0.5
    for _ in range(NEWTON_STEPS):
        small = np.exp(s)
        slope = small / (1.0 + small)
        bend = slope * (1.0 - slope)
        step = (s + q * slope - w) / (1.0 + q * bend)
        s -= step
        if step <= NEARLY:
            # The remaining error is below machine precision.
            slope -= step * bend
            break
    return 1.0 - slope if mirrored else slope
