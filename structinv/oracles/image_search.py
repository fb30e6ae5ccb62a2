"""The search for a value of a change between two ends, by halves."""

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
    centre, side = value.copy(), np.zeros(len(value), dtype=int)
    for number, tried in ((-1, left), (1, right)):
        z = change(tried)
        found = score(z)
        better = found > reached
        points[better], reached[better], value[better] = z[better], found[better], tried[better]
        side[better] = number
    return np.choose(side + 1, [low, left, centre]), np.choose(side + 1, [centre, right, high])
