"""The search for a value of a change between two ends, by halves."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

Ends = tuple[np.ndarray, np.ndarray]

# Halvings down to rounding.
_FIT_HALVINGS = 45


def halve(
    change: Callable[[np.ndarray], np.ndarray],
    score: Callable[[np.ndarray], np.ndarray],
    value: np.ndarray,
    ends: Ends,
    points: np.ndarray,
    reached: np.ndarray,
) -> Ends:
    """Improve values, their points and what these have reached, in place; the half that remains.

    Parameters
    ----------
    change : callable
        From values (n,) to points (n, d).
    score : callable
        From points (n, d) to numbers (n,), which are to grow.
    value : (n,) array
    ends : pair of (n,) arrays
        Below and above the values.
    points : (n, d) array
    reached : (n,) array

    Returns
    -------
    pair of (n,) arrays
        The ends of the two quarters on both sides of the best values.
    """
    low, high = ends
    left, right = (low + value) / 2, (value + high) / 2
    center, side = value.copy(), np.zeros(len(value), dtype=int)
    for number, tried in ((-1, left), (1, right)):
        z = change(tried)
        found = score(z)
        better = found > reached
        points[better], reached[better], value[better] = z[better], found[better], tried[better]
        side[better] = number
    return np.choose(side + 1, [low, left, center]), np.choose(side + 1, [center, right, high])


def passes_by(
    z: np.ndarray,
    near: float,
    steps: np.ndarray,
    points: np.ndarray,
    change: Callable[[np.ndarray], np.ndarray],
    *,
    smooth: bool,
) -> bool:
    """Whether a family has a member at `z`, found from many steps along it.

    Parameters
    ----------
    z : (d,) array
    near : float
        How far entries may be apart.
    steps : (m,) array
        Values, in order.
    points : (m, d) array
        Their members.
    change : callable
        From values (k,) to members (k, d).
    smooth : bool
        Whether members of near values are near one another; nearest pixels jump.
    """

    def closeness(points: np.ndarray) -> np.ndarray:
        return -np.linalg.norm(points - z, axis=1)

    reached = closeness(points)
    stride = np.max(np.linalg.norm(np.diff(points, axis=0), axis=1), initial=0.0)
    reach, room = 4.0 * stride, near * np.sqrt(len(z))
    if -np.max(reached) > reach + room:
        # Further away than anything between two steps can be.
        return False
    edges = np.r_[-np.inf, reached, -np.inf]
    peaks = np.flatnonzero((reached >= edges[:-2]) & (reached >= edges[2:]))
    peaks = peaks[np.argsort(-reached[peaks])][:8]
    ends = steps[np.maximum(peaks - 1, 0)], steps[np.minimum(peaks + 1, len(steps) - 1)]
    value, found, best = steps[peaks], points[peaks], reached[peaks]
    for _ in range(_FIT_HALVINGS):
        ends = halve(change, closeness, value, ends, found, best)
        if np.any(np.max(np.abs(found - z), axis=1) <= near):
            return True
        reach = reach / 2 if smooth else reach
        if -np.max(best) > reach + room:
            break
    return False
