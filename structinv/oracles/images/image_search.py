"""Local search for the best parameter of an image transformation, by halving."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

Ends = tuple[np.ndarray, np.ndarray]


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
