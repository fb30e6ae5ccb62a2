"""Products of sparse rows, gains of words, and the k largest gains; compiled."""

from __future__ import annotations

import numpy as np

from ...utils.jit import FAST, PLAIN, njit

# Maximum number of interpolated cuts in `largest`. Later cuts are elements, so that the search ends.
_GUESSES = 12
# If at most this number of elements is missing, `largest` selects them one by one.
_FEW = 2


@njit(**PLAIN)
def gather(indices, data, v, b):
    """Write ``v[indices[t]] * data[t]`` to ``b[t]``.

    Unsigned indices avoid a comparison with zero. Scalar loads are faster here than vector loads.
    """
    for t in range(indices.size):
        b[t] = v[np.uint64(indices[t])] * data[t]


@njit(**FAST)
def products(indices, data, sign, v, b):
    """Write signed products of a row with ``v``; return their sum and absolute sum."""
    total, size = 0.0, 0.0
    gather(indices, data, v, b)
    for t in range(indices.size):
        value = sign * b[t]
        b[t] = value
        total += value
        size += abs(value)
    return total, size


@njit(**FAST)
def gains(b, length, drop, grow, gain):
    """Write the gain ``max(drop * b, -grow * b)`` of the best edit of each word."""
    for t in range(length):
        gain[t] = max(drop * b[t], -grow * b[t])


@njit(**FAST)
def changing(b, delta, length, drop, grow, cut, place):
    """Write positions of words with a deviation or gain above ``cut``; count them."""
    count = 0
    for t in range(length):
        place[count] = t
        count += (max(drop * b[t], -grow * b[t]) > cut) | (delta[t] != 0)
    return count


@njit(**FAST)
def _weigh(gain, count, cut):
    """Return the number of elements above a cut, the number equal to it, and the sum above it."""
    above, level, total = 0.0, 0.0, 0.0
    for t in range(count):
        value = gain[t]
        above += 1.0 if value > cut else 0.0
        level += 1.0 if value == cut else 0.0
        total += value if value > cut else 0.0
    return above, level, total


@njit(**PLAIN)
def largest(gain, count, k, guess):
    """Return the sum of the k largest positive elements of an array, and a cut.

    The cut separates the k-th largest element from the next one: at most k elements are above it, and
    the missing ones equal it. It is 0 if fewer than k elements are positive, and infinite for k = 0. The
    sum does not depend on the guess, to the last bit. A guess may therefore come from another row.

    Shapes: `gain` (n,).
    """
    if k <= 0:
        return 0.0, np.inf
    # `above_low` and `above_high` are the numbers of elements above `low` and `high`; -1 if unknown.
    low, above_low, high, above_high = 0.0, -1.0, np.inf, -1.0
    cut = guess if 0 < guess < np.inf and count > k else 0.0
    total = 0.0
    for step in range(_GUESSES + count):
        above, level, total = _weigh(gain, count, cut)
        if above <= k and (above + level >= k or cut <= 0):
            if above < k and cut > 0 and above + level == k:
                # Sum all k elements in one pass, so that the rounding does not depend on the cut.
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
            # The largest element below `high`, so that the search ends; infinity at most once.
            cut = 0.0
            for t in range(count):
                if cut < gain[t] and (gain[t] < high or above_high < 0):
                    cut = gain[t]
    return total, cut


@njit(**PLAIN)
def ordered(gain, count, k):
    """Move the k largest positive elements to the front, in decreasing order.

    Returns their number. Other elements may be overwritten.
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
    # Shell's sort: insertion sort with decreasing strides.
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
