"""Local search for the best parameter of an image transformation, by halving."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

Ends = tuple[np.ndarray, np.ndarray]

# Number of halvings until the interval has the size of rounding errors.
_FIT_HALVINGS = 45


def halve(
    change: Callable[[np.ndarray], np.ndarray],
    score: Callable[[np.ndarray], np.ndarray],
    value: np.ndarray,
    ends: Ends,
    points: np.ndarray,
    reached: np.ndarray,
) -> Ends:
    """Improve values, points and scores in place, and return halved intervals.

    Shapes: `value` (n,), `ends` (n,), `points` (n, d), `reached` (n,); returns (n,).
    """
    low, high = ends
    left, right = (low + value) / 2, (value + high) / 2
    center, side = value.copy(), np.zeros(len(value), dtype=int)
    for number, tried in ((-1, left), (1, right)):
        z = change(tried)
        scores = score(z)
        better = scores > reached
        points[better], reached[better], value[better] = z[better], scores[better], tried[better]
        side[better] = number
    return np.choose(side + 1, [low, left, center]), np.choose(side + 1, [center, right, high])


def passes_by(
    z: np.ndarray,
    entry_tolerance: float,
    steps: np.ndarray,
    points: np.ndarray,
    change: Callable[[np.ndarray], np.ndarray],
    *,
    smooth: bool,
) -> bool:
    """Return True if a local search finds a value whose transformed image equals `z`.

    Shapes: `z` (d,), `steps` (m,), `points` (m, d).
    """

    def closeness(points: np.ndarray) -> np.ndarray:
        return -np.linalg.norm(points - z, axis=1)

    reached = closeness(points)
    stride = np.max(np.linalg.norm(np.diff(points, axis=0), axis=1), initial=0.0)
    max_distance, tolerance = 4.0 * stride, entry_tolerance * np.sqrt(len(z))
    if -np.max(reached) > max_distance + tolerance:
        # The image is farther away than 4 times the largest distance between neighboring points.
        return False
    edges = np.r_[-np.inf, reached, -np.inf]
    peaks = np.flatnonzero((reached >= edges[:-2]) & (reached >= edges[2:]))
    peaks = peaks[np.argsort(-reached[peaks])][:8]
    ends = steps[np.maximum(peaks - 1, 0)], steps[np.minimum(peaks + 1, len(steps) - 1)]
    value, nearest, best = steps[peaks], points[peaks], reached[peaks]
    for _ in range(_FIT_HALVINGS):
        ends = halve(change, closeness, value, ends, nearest, best)
        if np.any(np.max(np.abs(nearest - z), axis=1) <= entry_tolerance):
            return True
        max_distance = max_distance / 2 if smooth else max_distance
        if -np.max(best) > max_distance + tolerance:
            break
    return False
