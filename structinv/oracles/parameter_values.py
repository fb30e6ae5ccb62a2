"""Values of a parameter: lists, intervals, random draws, local search."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from numbers import Real
from typing import Any

import numpy as np
from scipy import stats

from ..utils.parameters import check_integer, check_number

Ends = tuple[np.ndarray, np.ndarray]


def listed(name: str, values: Any) -> tuple[float, ...]:
    """Return the distinct values of a finite set, in the given sequence."""
    parts = values.tolist() if isinstance(values, np.ndarray) else values
    parts = (parts,) if isinstance(parts, Real) else parts
    if isinstance(parts, str) or not isinstance(parts, Iterable):
        raise TypeError(f"{name} must be a number or a sequence of numbers, got {values!r}")
    parts = tuple(parts)
    if not parts:
        raise ValueError(f"{name} must have at least one value, got {values!r}")
    # Oracles validate their values in every call, so the usual case is vectorized.
    if not set(map(type, parts)) <= {float, np.float64} or not np.all(np.isfinite(parts)):
        for part in parts:
            check_number(name, part, minimum=-np.inf)
    return tuple(dict.fromkeys(map(float, parts)))


def interval(name: str, between: Any) -> tuple[float, float]:
    """Return both ends of an interval of values, validated."""
    if isinstance(between, str) or not isinstance(between, Iterable):
        raise TypeError(f"{name} must be a pair (low, high), got {between!r}")
    ends = tuple(between)
    if len(ends) != 2:
        raise ValueError(f"{name} must be a pair (low, high), got {between!r}")
    for end in ends:
        check_number(name, end, minimum=-np.inf)
    if ends[0] > ends[1]:
        raise ValueError(f"{name} must be a pair (low, high) with low <= high, got {between!r}")
    return float(ends[0]), float(ends[1])


def check_draw(n_draws: Any, rng: Any) -> None:
    """Raise unless `n_draws` is an integer of at least 0 and `rng` a NumPy generator."""
    check_integer("n_draws", n_draws, least=0)
    if not isinstance(rng, np.random.Generator):
        raise TypeError(
            f"rng must be a numpy.random.Generator, such as numpy.random.default_rng(0), got {rng!r}"
        )


def draw(
    low: float,
    high: float,
    neutral: float,
    spread: float | None,
    size: tuple[int, ...],
    rng: np.random.Generator,
) -> np.ndarray:
    """Draw values of an interval: uniform, or normal if `spread` is given."""
    if low == high:
        return np.full(size, low)
    if spread is None:
        return rng.uniform(low, high, size)
    ends = (low - neutral) / spread, (high - neutral) / spread
    values = stats.truncnorm.rvs(*ends, loc=neutral, scale=spread, size=size, random_state=rng)
    return np.clip(values, low, high)


def neighbors(cover: np.ndarray, value: np.ndarray) -> Ends:
    """Return the next smaller and the next larger value in a cover.

    Values outside the cover are returned unchanged. Shapes: `cover` (m,), increasing, `value` (n,).
    """
    place = np.argmin(np.abs(cover - value[:, None]), axis=1)
    near = np.isclose(cover[place], value, rtol=0, atol=1e-12)
    low, high = cover[np.maximum(place - 1, 0)], cover[np.minimum(place + 1, len(cover) - 1)]
    return np.where(near, low, value), np.where(near, high, value)


def bisect(
    change: Callable[[np.ndarray], np.ndarray],
    score: Callable[[np.ndarray], np.ndarray],
    value: np.ndarray,
    ends: Ends,
    points: np.ndarray,
    reached: np.ndarray,
    times: int,
) -> None:
    """Improve values, points and scores in place, by repeated halving of intervals.

    Shapes: `value` (n,), `ends` (n,), `points` (n, d), `reached` (n,).
    """
    low, high = ends
    for _ in range(times):
        left, right = (low + value) / 2, (value + high) / 2
        center, side = value.copy(), np.zeros(len(value), dtype=int)
        for number, tried in ((-1, left), (1, right)):
            z = change(tried)
            scores = score(z)
            better = scores > reached
            points[better], reached[better], value[better] = z[better], scores[better], tried[better]
            side[better] = number
        low = np.choose(side + 1, [low, left, center])
        high = np.choose(side + 1, [center, right, high])
