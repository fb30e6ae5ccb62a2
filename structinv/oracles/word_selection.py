"""Products of a row with a vector, and the sum of the largest of some gains, without branches."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..compiled import njit

_PLAIN: dict[str, Any] = {"cache": True, "nogil": True, "error_model": "numpy"}
# Reordering of sums is allowed, infinities keep their meaning.
_FAST: dict[str, Any] = {**_PLAIN, "fastmath": {"reassoc", "contract", "nsz", "arcp", "nnan"}}
# A list of so many numbers is kept in order by one exchange after the other.
SHORTEST = 16


@njit(**_PLAIN)
def gather(indices, data, v, b):
    """Write ``v[indices[t]] * data[t]`` to ``b[t]``.

    Indices are read as unsigned, or each would be compared with zero; and one by one, which is faster
    than vector loads of scattered numbers.
    """
    for t in range(indices.size):
        b[t] = v[np.uint64(indices[t])] * data[t]


@njit(**_PLAIN)
def _above(gain, length, cut, listed):
    """List the gains above ``cut``; returns their number."""
    count = 0
    for t in range(length):
        value = gain[t]
        listed[count] = value
        count += value > cut
    return count


@njit(**_FAST)
def _count_above(listed, count, cut):
    number = 0
    for t in range(count):
        number += listed[t] > cut
    return number


@njit(**_FAST)
def _mean(listed, count):
    total = 0.0
    for t in range(count):
        total += listed[t]
    return total / count


@njit(**_PLAIN)
def _narrowed(listed, count, k, cut):
    """Drop numbers that at least k others are above: those up to the mean, or half-way to it."""
    mean = _mean(listed, count)
    for higher in (mean, 0.5 * (mean + cut)):
        if _count_above(listed, count, higher) >= k:
            return _above(listed, count, higher, listed)
    return count


@njit(**_PLAIN)
def largest_sum(gain, length, k, guess, listed, best):
    """Sum of the k largest positive numbers of ``gain[:length]``, and the k-th (0 if there are fewer).

    Numbers above a guess of the k-th, which may be wrong, are listed first; the k largest of these are
    kept in decreasing order, each newcomer pushing smaller ones down. The sum is that of the ordered
    list, so that it does not depend on the guess.

    Parameters
    ----------
    gain : (n,) array, n >= length
    length : int
    k : int
        At most ``best.size``.
    guess : float
        At least 0.
    listed : (n + 1,) array
        Overwritten; room for all and one more.
    best : array
        Receives the k largest, zeros where there are fewer.

    Examples
    --------
    >>> listed, best = np.empty(5), np.empty(2)
    >>> largest_sum(np.array([1.0, -3.0, 2.0, 4.0]), 4, 2, 0.0, listed, best)
    (6.0, 2.0)
    """
    if k <= 0:
        return 0.0, 0.0
    count = _above(gain, length, guess, listed)
    if count < k and guess > 0:
        count = _above(gain, length, 0.0, listed)
    if count > 2 * k:
        count = _narrowed(listed, count, k, guess)
    for j in range(k):
        best[j] = 0.0
    for t in range(count):
        value = listed[t]
        for j in range(k):
            other = best[j]
            best[j] = max(other, value)
            value = min(other, value)
    total = 0.0
    for j in range(k):
        total += best[j]
    return total, best[k - 1]
