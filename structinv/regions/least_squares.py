"""Least squares within bounds, in compiled code, for very many small problems."""

from __future__ import annotations

import numpy as np

from ..utils.jit import njit

# Sweeps over single coordinates before Newton steps of all that are inside their bounds.
SWEEPS = 4
# Coordinates that leave their bounds: with few of them the bounds that hold are found in a handful.
ROUNDS = 200
# Parts of a diagonal entry below this share of it are rounding.
DEPENDENT = 1e-13
# Squares of what is left of a vector, below this share: it depends on others.
PARALLEL = 1e-26


@njit(cache=True, nogil=True)
def bounded_minimum(gram, linear, low, high, enough, z, gradient, squares, factor, free):
    """Minimize ``1/2 z' gram z + linear' z`` with ``low <= z <= high``, starting from `z`.

    Exact steps of single coordinates find out which bounds hold; Newton steps of the others end it.

    Parameters
    ----------
    gram : (k, k) array of float64
        Positive semi-definite.
    linear, low, high : (k,) arrays
    enough : float
        It ends where the value is surely no more than this above the least one.
    z : (k,) array
        The start; on return, the minimum.
    gradient : (k,) array
        On return ``gram z + linear``.
    squares : (k,) array, factor : (k + 1, k) array, free : (k,) array of int
        Room to work in.

    Returns
    -------
    float
        How far the value may be above the least one.
    """
    size = len(z)
    for a in range(size):
        squares[a] = gram[a, a]
        z[a] = _clipped(z[a], low[a], high[a])
    for _ in range(SWEEPS):
        for a in range(size):
            if gram[a, a] > 0.0:
                slope = linear[a]
                for b in range(size):
                    slope += gram[a, b] * z[b]
                z[a] = _clipped(z[a] - slope / gram[a, a], low[a], high[a])
    excess = 0.0
    for _ in range(ROUNDS):
        share = 0.0
        while True:
            for a in range(size):
                gradient[a] = linear[a]
                for b in range(size):
                    gradient[a] += gram[a, b] * z[b]
            n_free = 0
            for a in range(size):
                if low[a] < z[a] < high[a] and gram[a, a] > 0.0:
                    free[n_free] = a
                    n_free += 1
            if n_free == 0 or share >= 1.0:
                break
            share = _newton_step(gram, low, high, z, gradient, factor, free, n_free)
        excess, entering = _look(low, high, z, gradient, squares)
        if excess <= enough or entering < 0:
            break
        # Inside its bounds by a step of its own, it is free from now on.
        goal = z[entering] - gradient[entering] / squares[entering]
        z[entering] = _clipped(goal, low[entering], high[entering])
    return excess


@njit(cache=True, nogil=True)
def _clipped(value, low, high):
    value = low if value < low else value
    return high if value > high else value


@njit(cache=True, nogil=True)
def _look(low, high, z, gradient, squares):
    """What the tangent plane at z loses at most within the bounds, and whose own step gains most.

    `squares` are the second derivatives. No step that gains is -1.
    """
    excess, best, chosen = 0.0, 0.0, -1
    for a in range(len(z)):
        if gradient[a] > 0.0:
            excess += gradient[a] * (z[a] - low[a])
        elif gradient[a] < 0.0:
            excess += gradient[a] * (z[a] - high[a])
        if squares[a] > 0.0:
            step = _clipped(z[a] - gradient[a] / squares[a], low[a], high[a]) - z[a]
            gain = -step * (gradient[a] + 0.5 * step * squares[a])
            if gain > best:
                best, chosen = gain, a
    return excess, chosen


@njit(cache=True, nogil=True)
def _newton_step(gram, low, high, z, gradient, factor, free, size):
    """A step of the free coordinates toward their minimum, up to the first bound: which share of it."""
    step = factor[len(z)]
    for a in range(size):
        rest = -gradient[free[a]]
        for b in range(a + 1):
            entry = gram[free[a], free[b]]
            for c in range(b):
                entry -= factor[a, c] * factor[b, c]
            if b < a:
                factor[a, b] = entry * factor[b, b]
            else:
                # Of the pivot its inverse; coordinates that depend on others stay.
                kept = entry > DEPENDENT * gram[free[a], free[a]]
                factor[a, a] = 1.0 / np.sqrt(entry) if kept else 0.0
        for c in range(a):
            rest -= factor[a, c] * step[c]
        step[a] = rest * factor[a, a]
    for a in range(size - 1, -1, -1):
        rest = step[a]
        for c in range(a + 1, size):
            rest -= factor[c, a] * step[c]
        step[a] = rest * factor[a, a]
    return _move(low, high, z, step, free, size)


@njit(cache=True, nogil=True)
def orthonormalize(vectors, size, n_rows, factor):
    """Make the first `size` vectors an orthonormal basis, and take it off the other rows.

    With a target as the last row this reduces ``|target - vectors' z|^2`` to as many numbers as there
    are vectors. Gram and Schmidt, twice, in double precision: inner products of vectors would lose what
    tells nearly parallel ones apart.

    Parameters
    ----------
    vectors : (at least n_rows, d) array of float64
        Overwritten by the basis; zero vectors stand for those that depend on others.
    size, n_rows : int
    factor : (at least size, at least n_rows) array
        On return the rows in the basis, one a column.

    Returns
    -------
    float
        The square of what is left of the last row.
    """
    d, left = vectors.shape[1], 0.0
    for a in range(n_rows):
        length = 0.0
        for k in range(d):
            length += vectors[a, k] ** 2
        for b in range(size):
            factor[b, a] = 0.0
        for _ in range(2):
            for b in range(a if a < size else size):
                product = 0.0
                for k in range(d):
                    product += vectors[a, k] * vectors[b, k]
                for k in range(d):
                    vectors[a, k] -= product * vectors[b, k]
                factor[b, a] += product
        left = 0.0
        for k in range(d):
            left += vectors[a, k] ** 2
        if a < size:
            kept = left > PARALLEL * length
            factor[a, a] = np.sqrt(left) if kept else 0.0
            for k in range(d):
                vectors[a, k] = vectors[a, k] / factor[a, a] if kept else 0.0
    return left


@njit(cache=True, nogil=True)
def bounded_least_squares(factor, low, high, rest, z, gradient, squares, free, work):
    """Minimize ``|factor z - c|^2 + rest`` with ``low <= z <= high``, c the last column of `factor`.

    As `bounded_minimum`, but all steps are made on the vectors themselves, not on their inner products,
    so that nearly parallel ones are told apart.

    Parameters
    ----------
    factor : (k, k + 1) array
        From `orthonormalize`, of k vectors and the target.
    low, high : (k,) arrays
    rest : float
    z : (k,) array
        The start; on return, the minimum.
    gradient, squares, free : (k,) arrays, work : (2 k + 2, k) array
        Room to work in.

    Returns
    -------
    square, excess : float
        The least square, and how far half of it may be above the least one.
    """
    size = len(z)
    left = work[size]
    for a in range(size):
        squares[a] = 0.0
        for b in range(size):
            squares[a] += factor[b, a] ** 2
        z[a] = _clipped(z[a], low[a], high[a])
    square, excess = 0.0, 0.0
    for _ in range(ROUNDS):
        share = 0.0
        while True:
            # ``c - factor z``, and minus its inner products with the columns.
            square = 0.0
            for b in range(size):
                left[b] = factor[b, size]
                for a in range(size):
                    left[b] -= factor[b, a] * z[a]
                square += left[b] * left[b]
            square += rest
            n_free = 0
            for a in range(size):
                gradient[a] = 0.0
                for b in range(size):
                    gradient[a] -= factor[b, a] * left[b]
                if low[a] < z[a] < high[a]:
                    free[n_free] = a
                    n_free += 1
            if n_free == 0 or share >= 1.0:
                break
            share = _step_on_vectors(factor, low, high, z, left, free, n_free, work)
        excess, entering = _look(low, high, z, gradient, squares)
        if excess <= 1e-14 * square or entering < 0:
            break
        goal = z[entering] - gradient[entering] / squares[entering]
        z[entering] = _clipped(goal, low[entering], high[entering])
    return square, excess


@njit(cache=True, nogil=True)
def _step_on_vectors(factor, low, high, z, left, free, n_free, work):
    """A step of the free coordinates to their minimum, up to the first bound: which share of it."""
    size = len(z)
    # The free columns' orthonormal basis, a row each, and their triangular factor.
    step, upper = work[size + 1], work[size + 2 :]
    for a in range(n_free):
        for b in range(size):
            work[a, b] = factor[b, free[a]]
    orthonormalize(work, n_free, n_free, upper)
    for a in range(n_free - 1, -1, -1):
        value = 0.0
        for b in range(size):
            value += work[a, b] * left[b]
        for c in range(a + 1, n_free):
            value -= upper[a, c] * step[c]
        step[a] = value / upper[a, a] if upper[a, a] > 0.0 else 0.0
    return _move(low, high, z, step, free, n_free)


@njit(cache=True, nogil=True)
def _move(low, high, z, step, free, n_free):
    """Move the free coordinates along a step, up to the first bound: which share of it."""
    share, first = 1.0, -1
    for a in range(n_free):
        at = free[a]
        bound = high[at] if step[a] > 0.0 else low[at]
        if abs(step[a]) * share > abs(bound - z[at]):
            share, first = (bound - z[at]) / step[a], a
    for a in range(n_free):
        at = free[a]
        z[at] = _clipped(z[at] + share * step[a], low[at], high[at])
    if first >= 0:
        # To the last digit, so that it is free no longer.
        z[free[first]] = high[free[first]] if step[first] > 0.0 else low[free[first]]
    return share
