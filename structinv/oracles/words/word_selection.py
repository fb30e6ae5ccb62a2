"""Products of a sparse row with a vector, gains of its words, and the k largest, compiled."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...utils.jit import njit

_PLAIN: dict[str, Any] = {"cache": True, "nogil": True, "error_model": "numpy"}
# Reordering of sums is allowed, infinities keep their meaning.
_FAST: dict[str, Any] = {**_PLAIN, "fastmath": {"reassoc", "contract", "nsz", "arcp", "nnan"}}
# The first cuts are guesses; later ones are numbers of the array.
_GUESSES = 12
# Numbers that are taken one after the other where so few are missing.
_FEW = 2


@njit(**_PLAIN)
def gather(indices, data, v, b):
    """Write ``v[indices[t]] * data[t]`` to ``b[t]``.

    Indices are read as unsigned, or each would be compared with zero; and one by one, which is faster
    than vector loads of scattered numbers.
    """
    for t in range(indices.size):
        b[t] = v[np.uint64(indices[t])] * data[t]


@njit(**_FAST)
def products(indices, data, sign, v, b):
    """Signed products of a row with ``v``; their sum, and that of their absolute values."""
    total, size = 0.0, 0.0
    gather(indices, data, v, b)
    for t in range(indices.size):
        value = sign * b[t]
        b[t] = value
        total += value
        size += abs(value)
    return total, size


@njit(**_FAST)
def gains(b, length, drop, grow, gain):
    """Gains ``max(drop * b, -grow * b)`` of the best edits of products b."""
    for t in range(length):
        gain[t] = max(drop * b[t], -grow * b[t])


@njit(**_FAST)
def changing(b, delta, length, drop, grow, cut, place):
    """Places of words that deviate, or whose gain is above a cut; how many there are."""
    count = 0
    for t in range(length):
        place[count] = t
        count += (max(drop * b[t], -grow * b[t]) > cut) | (delta[t] != 0)
    return count


@njit(**_FAST)
def _weigh(gain, count, cut):
    """How many numbers lie above a cut, how many equal it, and the sum of those above."""
    above, level, total = 0.0, 0.0, 0.0
    for t in range(count):
        value = gain[t]
        above += 1.0 if value > cut else 0.0
        level += 1.0 if value == cut else 0.0
        total += value if value > cut else 0.0
    return above, level, total


@njit(**_PLAIN)
def largest(gain, count, k, guess):
    """Sum of the k largest positive numbers of ``gain[:count]``, and a cut at the k-th.

    The cut lies at or below the k-th largest number, and at or above the next one: at most k numbers
    are above it, and as many as are missing equal it. It is 0 where fewer than k numbers are positive,
    and infinite for k = 0. The sum does not depend on the guess, to the last digit, so that the maximum
    of a row does not depend on the rows before it.

    Parameters
    ----------
    gain : (n,) array, n >= count
        Unchanged.
    count : int
    k : int
    guess : float
        Where the cut may be; the nearer, the fewer passes. 0 for none.

    Returns
    -------
    total, cut : float

    Examples
    --------
    >>> largest(np.array([1.0, -3.0, 2.0, 4.0]), 4, 2, 0.0)
    (6.0, 2.0)
    """
    if k <= 0:
        return 0.0, np.inf
    # So many numbers are above `low` and `high`, -1 where that is not known yet.
    low, above_low, high, above_high = 0.0, -1.0, np.inf, -1.0
    cut = guess if 0 < guess < np.inf and count > k else 0.0
    total = 0.0
    for step in range(_GUESSES + count):
        above, level, total = _weigh(gain, count, cut)
        if above <= k and (above + level >= k or cut <= 0):
            if above < k and cut > 0 and above + level == k:
                # Added up in one order, whether the cut is the k-th number or below it.
                _, _, total = _weigh(gain, count, np.nextafter(cut, 0.0))
            elif above < k:
                total += (k - above) * cut
            return total, cut
        if above > k:
            low, above_low = cut, above
        else:
            high, above_high = cut, above
        few = high < np.inf and (k - above_high <= _FEW or step >= _GUESSES)
        if above_low < 0:
            cut = 0.5 * high if step == 0 else 0.0
        elif high == np.inf:
            cut = total / above
        else:
            cut = low + (high - low) * (above_low - k) / (above_low - above_high)
        if few or (above_low >= 0 and not low < cut < high):
            # The next number of the array, so that the search ends; infinity too, but only once.
            cut = 0.0
            for t in range(count):
                if cut < gain[t] and (gain[t] < high or above_high < 0):
                    cut = gain[t]
    return total, cut


@njit(**_PLAIN)
def ordered(gain, count, k):
    """Bring the k largest positive numbers to the front, the largest first; how many there are.

    The other numbers may be lost.
    """
    _, cut = largest(gain, count, k, 0.0)
    size, level = 0, 0
    for t in range(count):
        level += gain[t] > cut
    level = k - level if cut > 0 else 0
    for t in range(count):
        value = gain[t]
        tied = value == cut and level > 0
        if value > cut or tied:
            level -= tied
            gain[size] = value
            size += 1
    # Shell's sort: short lists are sorted by insertion, long ones in strides first.
    stride = 1
    while 3 * stride < size:
        stride = 3 * stride + 1
    while stride > 0:
        for t in range(stride, size):
            value, at = gain[t], t
            while at >= stride and gain[at - stride] < value:
                gain[at] = gain[at - stride]
                at -= stride
            gain[at] = value
        stride //= 3
    return size
