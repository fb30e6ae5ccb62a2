"""Least squares within bounds, in compiled code, for very many small problems."""

from __future__ import annotations

import numpy as np

from ..compiled import njit

# Sweeps over single coordinates before Newton steps of all that are inside their bounds.
SWEEPS = 4
# Coordinates that leave their bounds: with few of them the bounds that hold are found in a handful.
ROUNDS = 200
# Parts of a diagonal entry below this share of it are rounding.
DEPENDENT = 1e-13
# Squares of what is left of a vector, below this share: it depends on others.
PARALLEL = 1e-26


@njit(cache=True, nogil=True)
def bounded_minimum(gram, linear, low, high, enough, z, gradient, factor, free):
    """Minimise ``1/2 z' gram z + linear' z`` with ``low <= z <= high``, starting from `z`.

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
    factor : (k + 1, k) array, free : (k,) array of int
        Room to work in.

    Returns
    -------
    float
        How far the value may be above the least one.
    """
    size = len(z)
    for a in range(size):
        z[a] = min(max(z[a], low[a]), high[a])
    _refresh(gram, linear, z, gradient)
    excess = _excess(low, high, z, gradient)
    for _ in range(SWEEPS):
        _sweep(gram, low, high, z, gradient)
    for _ in range(ROUNDS):
        share = 0.0
        while share < 1.0:
            n_free = 0
            for a in range(size):
                if low[a] < z[a] < high[a] and gram[a, a] > 0.0:
                    free[n_free] = a
                    n_free += 1
            if n_free == 0:
                break
            share = _newton_step(gram, low, high, z, gradient, factor, free[:n_free])
            _refresh(gram, linear, z, gradient)
        excess = _excess(low, high, z, gradient)
        if excess <= enough:
            break
        entering = _best_to_enter(gram, low, high, z, gradient)
        if entering < 0:
            break
        # Inside its bounds by a step of its own, it is free from now on.
        _step(gram, low, high, z, gradient, entering)
        _refresh(gram, linear, z, gradient)
    return excess


@njit(cache=True, nogil=True)
def _refresh(gram, linear, z, gradient):
    for a in range(len(z)):
        total = linear[a]
        for b in range(len(z)):
            total += gram[a, b] * z[b]
        gradient[a] = total


@njit(cache=True, nogil=True)
def _excess(low, high, z, gradient):
    """What the tangent plane at z loses at most within the bounds."""
    total = 0.0
    for a in range(len(z)):
        if gradient[a] > 0.0:
            total += gradient[a] * (z[a] - low[a])
        elif gradient[a] < 0.0:
            total += gradient[a] * (z[a] - high[a])
    return total


@njit(cache=True, nogil=True)
def _sweep(gram, low, high, z, gradient):
    """An exact step of one coordinate after the other."""
    for a in range(len(z)):
        _step(gram, low, high, z, gradient, a)


@njit(cache=True, nogil=True)
def _step(gram, low, high, z, gradient, a):
    """An exact step of one coordinate."""
    if gram[a, a] <= 0.0:
        return
    goal = min(max(z[a] - gradient[a] / gram[a, a], low[a]), high[a])
    step = goal - z[a]
    if step != 0.0:
        z[a] = goal
        for b in range(len(z)):
            gradient[b] += step * gram[b, a]


@njit(cache=True, nogil=True)
def _best_to_enter(gram, low, high, z, gradient):
    """The coordinate whose own step gains most, -1 if none gains."""
    best, chosen = 0.0, -1
    for a in range(len(z)):
        if gram[a, a] > 0.0:
            step = min(max(z[a] - gradient[a] / gram[a, a], low[a]), high[a]) - z[a]
            gain = -step * (gradient[a] + 0.5 * step * gram[a, a])
            if gain > best:
                best, chosen = gain, a
    return chosen


@njit(cache=True, nogil=True)
def _newton_step(gram, low, high, z, gradient, factor, free):
    """A step of the free coordinates towards their minimum, up to the first bound: which share of it."""
    size = len(free)
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
    return _move(low, high, z, step, free)


@njit(cache=True, nogil=True)
def triangular(vectors, target, factor):
    """Reduce ``|target - vectors' z|^2`` to as many numbers as there are vectors; what is left over.

    Gram and Schmidt, twice, in double precision: inner products of vectors would lose what tells nearly
    parallel ones apart.

    Parameters
    ----------
    vectors : (k, d) array of float64
        Overwritten by an orthonormal basis; zero vectors stand for those that depend on others.
    target : (d,) array
        Overwritten by what no z reaches.
    factor : (k, k + 1) array
        On return the vectors in the basis, one a column, and the target in the last.

    Returns
    -------
    float
        The square of what is left of the target.
    """
    size, d = vectors.shape
    factor[:] = 0.0
    _orthonormalise(vectors, factor)
    for _ in range(2):
        for b in range(size):
            factor[b, size] += _take_off(target, vectors[b])
    total = 0.0
    for k in range(d):
        total += target[k] ** 2
    return total


@njit(cache=True, nogil=True)
def _orthonormalise(vectors, factor):
    """Make vectors an orthonormal basis, zero where they depend; `factor` has them in it."""
    size, d = vectors.shape
    for a in range(size):
        length = 0.0
        for k in range(d):
            length += vectors[a, k] ** 2
        for _ in range(2):
            for b in range(a):
                factor[b, a] += _take_off(vectors[a], vectors[b])
        square = 0.0
        for k in range(d):
            square += vectors[a, k] ** 2
        if square > PARALLEL * length:
            factor[a, a] = np.sqrt(square)
            vectors[a] /= factor[a, a]
        else:
            vectors[a] = 0.0


@njit(cache=True, nogil=True)
def _take_off(vector, unit):
    """Take off what of a vector is along another of length 1; how much that was."""
    product = 0.0
    for k in range(len(unit)):
        product += vector[k] * unit[k]
    for k in range(len(unit)):
        vector[k] -= product * unit[k]
    return product


@njit(cache=True, nogil=True)
def bounded_least_squares(factor, low, high, rest, z, gradient, free, work):
    """Minimise ``|factor z - c|^2 + rest`` with ``low <= z <= high``, c the last column of `factor`.

    As `bounded_minimum`, but all steps are made on the vectors themselves, not on their inner products,
    so that nearly parallel ones are told apart.

    Parameters
    ----------
    factor : (k, k + 1) array
        From `triangular`.
    low, high : (k,) arrays
    rest : float
    z : (k,) array
        The start; on return, the minimum.
    gradient, free : (k,) arrays, work : (k + 2, k) array
        Room to work in.

    Returns
    -------
    square, excess : float
        The least square, and how far half of it may be above the least one.
    """
    size = len(z)
    left = work[size]
    for a in range(size):
        z[a] = min(max(z[a], low[a]), high[a])
    square, excess = 0.0, 0.0
    for _ in range(ROUNDS):
        share = 0.0
        while share < 1.0:
            square = rest + _residual(factor, z, left, gradient)
            n_free = 0
            for a in range(size):
                if low[a] < z[a] < high[a]:
                    free[n_free] = a
                    n_free += 1
            if n_free == 0:
                break
            share = _step_on_vectors(factor, low, high, z, left, free[:n_free], work)
        square = rest + _residual(factor, z, left, gradient)
        excess = _excess(low, high, z, gradient)
        if excess <= 1e-14 * square:
            break
        entering = _best_of_columns(factor, low, high, z, gradient)
        if entering < 0:
            break
        length = 0.0
        for b in range(size):
            length += factor[b, entering] ** 2
        goal = z[entering] - gradient[entering] / length
        z[entering] = min(max(goal, low[entering]), high[entering])
    return square, excess


@njit(cache=True, nogil=True)
def _residual(factor, z, left, gradient):
    """``c - factor z`` and minus its inner products with the columns; its square."""
    size = len(z)
    total = 0.0
    for b in range(size):
        value = factor[b, size]
        for a in range(size):
            value -= factor[b, a] * z[a]
        left[b] = value
        total += value * value
    for a in range(size):
        value = 0.0
        for b in range(size):
            value -= factor[b, a] * left[b]
        gradient[a] = value
    return total


@njit(cache=True, nogil=True)
def _best_of_columns(factor, low, high, z, gradient):
    """The coordinate whose own step gains most, -1 if none gains."""
    size = len(z)
    best, chosen = 0.0, -1
    for a in range(size):
        length = 0.0
        for b in range(size):
            length += factor[b, a] ** 2
        if length > 0.0:
            step = min(max(z[a] - gradient[a] / length, low[a]), high[a]) - z[a]
            gain = -step * (gradient[a] + 0.5 * step * length)
            if gain > best:
                best, chosen = gain, a
    return chosen


@njit(cache=True, nogil=True)
def _step_on_vectors(factor, low, high, z, left, free, work):
    """A step of the free coordinates to their minimum, up to the first bound: which share of it."""
    size, n_free = len(z), len(free)
    # The free columns' orthonormal basis, a row each, and their triangular factor.
    basis, upper = work[:n_free], np.zeros((n_free, n_free))
    step = work[size + 1]
    for a in range(n_free):
        for b in range(size):
            basis[a, b] = factor[b, free[a]]
    _orthonormalise(basis, upper)
    for a in range(n_free - 1, -1, -1):
        value = 0.0
        for b in range(size):
            value += basis[a, b] * left[b]
        for c in range(a + 1, n_free):
            value -= upper[a, c] * step[c]
        step[a] = value / upper[a, a] if upper[a, a] > 0.0 else 0.0
    return _move(low, high, z, step, free)


@njit(cache=True, nogil=True)
def _move(low, high, z, step, free):
    """Move the free coordinates along a step, up to the first bound: which share of it."""
    share, first = 1.0, -1
    for a in range(len(free)):
        at = free[a]
        bound = high[at] if step[a] > 0.0 else low[at]
        if abs(step[a]) * share > abs(bound - z[at]):
            share, first = (bound - z[at]) / step[a], a
    for a in range(len(free)):
        at = free[a]
        z[at] = min(max(z[at] + share * step[a], low[at]), high[at])
    if first >= 0:
        # To the last digit, so that it is free no longer.
        z[free[first]] = high[free[first]] if step[first] > 0.0 else low[free[first]]
    return share
