"""Maximization and minimization of polynomials of one variable on an interval."""

from __future__ import annotations

import numpy as np

from .jit import LEAN, njit
from .matrices import in_threads

# Maximum number of steps of a bracketed root search.
_STEPS = 100
# Step size at which a root search ends, relative to the larger end of the interval.
_STEP = 4e-16


def largest_on_interval(
    coefficients: np.ndarray, low: float, high: float
) -> tuple[np.ndarray, np.ndarray]:
    r"""Maximize each polynomial :math:`\sum_k c_{ik} t^k` over t in [low, high].

    Between neighboring roots of a derivative, the derivative of the next lower order is monotone. It has
    at most one root there, which bisection and Newton's method compute. All stationary points follow by
    going from the highest order to the first. Rounding can hide a root only where the value differs from
    the maximum by rounding.

    Shapes: `coefficients` (n, p + 1); returns `t` (n,), `values` (n,).
    """
    table = np.ascontiguousarray(coefficients, dtype=np.float64)
    t, values = np.empty(len(table)), np.empty(len(table))

    def find(part: slice) -> None:
        size = table.shape[1]
        room = np.empty(size + 2), np.empty(size + 2), np.empty(size), np.empty((2, size + 1))
        _largest(table[part], float(low), float(high), *room, t[part], values[part])

    in_threads(find, len(table), 50 * table.size)
    return t, values


def smallest_on_interval(
    coefficients: np.ndarray, low: float, high: float
) -> tuple[np.ndarray, np.ndarray]:
    """Minimize each polynomial over t in [low, high], like `largest_on_interval`."""
    t, values = largest_on_interval(-np.asarray(coefficients, dtype=np.float64), low, high)
    return t, -values


def squared_distances(squares: np.ndarray, cross: np.ndarray, gram: np.ndarray) -> np.ndarray:
    r"""Compute the polynomials :math:`|z - \sum_k t^k x_k|^2` from inner products.

    Shapes: `cross` (..., p + 1), `gram` (..., p + 1, p + 1); returns (..., 2 p + 1).
    """
    size = cross.shape[-1]
    shape = np.broadcast_shapes(np.shape(squares), cross.shape[:-1], gram.shape[:-2])
    found = np.zeros((*shape, 2 * size - 1))
    found[..., 0] += squares
    found[..., :size] -= 2.0 * cross
    for j in range(size):
        found[..., j : j + size] += gram[..., j, :]
    return found


@njit(**LEAN)
def _value(c, t):
    total = 0.0
    for k in range(c.size - 1, -1, -1):
        total = total * t + c[k]
    return total


@njit(**LEAN)
def _root(c, slopes, factor, left, right, rising):
    """Return the root of a monotone polynomial with different signs at the two ends.

    Its derivative is `factor` times the polynomial `slopes`.
    """
    t, room = 0.5 * (left + right), _STEP * (abs(right) if abs(right) > abs(left) else abs(left))
    step = right - left
    for _ in range(_STEPS):
        here = _value(c, t)
        if here == 0.0:
            break
        if (here > 0.0) == rising:
            right = t
        else:
            left = t
        slope = factor * _value(slopes, t)
        tried = t - here / slope if slope != 0.0 else left
        # Bisect if Newton's method leaves the bracket or does not halve its step.
        if not left < tried < right or abs(tried - t) > 0.5 * abs(step):
            tried = 0.5 * (left + right)
        step = tried - t
        t = tried
        if abs(step) <= room or right - left <= room:
            break
    return t


@njit(**LEAN)
def largest_place(c, low, high, places, new_places, work):
    """Return maximizer and maximum of one polynomial on an interval within [-1, 1].

    Shapes: `c` (p + 1,), `places` (p + 3,), `others` (p + 3,), `work` (2, p + 2).
    """
    # The ends of the interval, and the sorted roots of the derivative between them.
    count = 2
    places[0], places[1] = low, high
    for order in range(c.size - 2, 0, -1):
        # The derivatives of this order and of the next, divided by the factorials of their orders.
        for row in range(2):
            for k in range(c.size - order - row):
                choose = 1.0
                for j in range(1, order + row + 1):
                    choose = choose * (k + j) / j
                work[row, k] = choose * c[k + order + row]
        here, slopes = work[0, : c.size - order], work[1, : c.size - order - 1]
        n_places = 1
        new_places[0] = low
        before = _value(here, low)
        for k in range(1, count):
            after = _value(here, places[k])
            if (before < 0.0 < after) or (after < 0.0 < before):
                left, right = places[k - 1], places[k]
                new_places[n_places] = _root(here, slopes, order + 1.0, left, right, after > 0.0)
                n_places += 1
            elif after == 0.0 and k + 1 < count:
                new_places[n_places] = places[k]
                n_places += 1
            before = after
        new_places[n_places] = high
        count = n_places + 1
        for k in range(count):
            places[k] = new_places[k]
    best, best_place = -np.inf, 0.0
    if low <= 0.0 <= high:
        best = c[0]
    for k in range(count):
        value = _value(c, places[k])
        if value > best:
            best, best_place = value, places[k]
    return best_place, best


@njit(**LEAN)
def _largest(table, low, high, places, others, scaled, work, t, values):
    size = table.shape[1]
    # Scaling by the larger end prevents overflow of powers.
    reach = abs(high) if abs(high) > abs(low) else abs(low)
    reach = reach if reach > 0.0 else 1.0
    for i in range(table.shape[0]):
        largest, power, degree = 0.0, 1.0, 0
        for k in range(size):
            scaled[k] = table[i, k] * power
            power *= reach
            if scaled[k] != 0.0:
                degree = k
                largest = abs(scaled[k]) if abs(scaled[k]) > largest else largest
        if largest > 0.0:
            for k in range(size):
                scaled[k] /= largest
        c = scaled[: degree + 1]
        where, _ = largest_place(c, low / reach, high / reach, places, others, work)
        best = where * reach
        best = low if best < low else (high if best > high else best)
        t[i], values[i] = best, _value(table[i], best)
