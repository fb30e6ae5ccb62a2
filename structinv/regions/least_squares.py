"""Bounded least squares for many small problems, compiled."""

from __future__ import annotations

import numpy as np

from ..utils.jit import LEAN, njit

# Number of coordinate sweeps before Newton steps.
SWEEPS = 4
# Maximum number of coordinates that become free one by one; few are needed.
ROUNDS = 200
# Pivots below this fraction of the diagonal entry are rounding errors.
DEPENDENT = 1e-13
# A vector is dependent if the squared length of its remainder is below this fraction.
PARALLEL = 1e-26


@njit(**LEAN)
def bounded_minimum(gram, linear, low, high, enough, z, gradient, squares, factor, free):
    """Minimize ``1/2 z' gram z + linear' z`` subject to ``low <= z <= high``.

    Coordinate steps find the active bounds. Newton steps of the free coordinates follow.

    Shapes: `gram` (k, k), `linear` (k,), `low` (k,), `high` (k,), `z` (k,), `gradient` (k,), `squares`
    (k,), `factor` (k,), `free` (k,).
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
        fraction = 0.0
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
            if n_free == 0 or fraction >= 1.0:
                break
            fraction = _newton_step(gram, low, high, z, gradient, factor, free, n_free)
        excess, entering = _optimality(low, high, z, gradient, squares)
        if excess <= enough or entering < 0:
            break
        # A coordinate step into the interior makes this coordinate free.
        goal = z[entering] - gradient[entering] / squares[entering]
        z[entering] = _clipped(goal, low[entering], high[entering])
    return excess


@njit(**LEAN)
def _clipped(value, low, high):
    value = low if value < low else value
    return high if value > high else value


@njit(**LEAN)
def _optimality(low, high, z, gradient, squares):
    """Return a bound of the suboptimality of z, and the coordinate whose step has the largest gain.

    `squares` are the second derivatives. The coordinate is -1 if no step has a gain.
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


@njit(**LEAN)
def _newton_step(gram, low, high, z, gradient, factor, free, size):
    """Step the free coordinates toward their minimum, up to the first bound; return the fraction."""
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
                # Inverse pivots are stored; those of dependent coordinates are 0.
                independent = entry > DEPENDENT * gram[free[a], free[a]]
                factor[a, a] = 1.0 / np.sqrt(entry) if independent else 0.0
        for c in range(a):
            rest -= factor[a, c] * step[c]
        step[a] = rest * factor[a, a]
    for a in range(size - 1, -1, -1):
        rest = step[a]
        for c in range(a + 1, size):
            rest -= factor[c, a] * step[c]
        step[a] = rest * factor[a, a]
    return _move(low, high, z, step, free, size)


@njit(**LEAN)
def orthonormalize(vectors, size, n_rows, factor):
    """Orthonormalize the first `size` vectors, and remove them from the other rows.

    With a target as the last row, ``|target - vectors' z|^2`` has one coordinate per vector afterward.
    The method is Gram-Schmidt, twice, in double precision. Inner products are too imprecise for nearly
    parallel vectors.

    Shapes: `vectors` (at least n_rows, d), `factor` (at least size, at least n_rows).
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
            independent = left > PARALLEL * length
            factor[a, a] = np.sqrt(left) if independent else 0.0
            for k in range(d):
                vectors[a, k] = vectors[a, k] / factor[a, a] if independent else 0.0
    return left


@njit(**LEAN)
def bounded_least_squares(factor, low, high, rest, z, gradient, squares, free, work):
    """Minimize ``|factor z - c|^2 + rest`` subject to ``low <= z <= high``.

    The vector c is the last column of `factor`. In contrast to `bounded_minimum`, all steps use vectors
    instead of inner products, for precision with nearly parallel vectors.

    Shapes: `factor` (k, k + 1), `low` (k,), `high` (k,), `z` (k,), `gradient` (k,), `squares` (k,),
    `free` (k,), `work` (k,).
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
        fraction = 0.0
        while True:
            # Residual ``c - factor z``, and minus its inner products with the columns.
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
            if n_free == 0 or fraction >= 1.0:
                break
            fraction = _step_on_vectors(factor, low, high, z, left, free, n_free, work)
        excess, entering = _optimality(low, high, z, gradient, squares)
        if excess <= 1e-14 * square or entering < 0:
            break
        goal = z[entering] - gradient[entering] / squares[entering]
        z[entering] = _clipped(goal, low[entering], high[entering])
    return square, excess


@njit(**LEAN)
def _step_on_vectors(factor, low, high, z, left, free, n_free, work):
    """Step the free coordinates to their minimum, up to the first bound; return the fraction."""
    size = len(z)
    # Orthonormal basis of the free columns, as rows, and their triangular factor.
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


@njit(**LEAN)
def _move(low, high, z, step, free, n_free):
    """Move the free coordinates along a step, up to the first bound; return the fraction."""
    fraction, first = 1.0, -1
    for a in range(n_free):
        at = free[a]
        bound = high[at] if step[a] > 0.0 else low[at]
        if abs(step[a]) * fraction > abs(bound - z[at]):
            fraction, first = (bound - z[at]) / step[a], a
    for a in range(n_free):
        at = free[a]
        z[at] = _clipped(z[at] + fraction * step[a], low[at], high[at])
    if first >= 0:
        # Exactly at its bound, the coordinate is no longer free.
        z[free[first]] = high[free[first]] if step[first] > 0.0 else low[free[first]]
    return fraction
