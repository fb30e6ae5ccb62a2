"""Balls and ellipsoids around rows."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from ..utils.jit import LEAN, njit
from ..utils.matrices import contiguous_read_only
from .base import Region, SquaredDistances, exactly
from .boxes import Dilations
from .inner_products import Stack, pair_products
from .point_lists import CLOSE, nearest_members

# Maximum number of steps of the search between two ellipsoids, and its relative tolerance.
STEPS = 500
TOLERANCE = 1e-10


class Balls(Dilations):
    """Balls with the same radius around all rows.

    Shapes: `centers` (n, d).
    """

    kind = "ball"

    def _outside(self, left: np.ndarray, right: np.ndarray, radius: float) -> SquaredDistances:
        squares, _ = nearest_members(left[:, None, :], right[:, None, :])
        lengths = np.sqrt(np.maximum(squares, 0.0, out=squares), out=squares)
        lengths -= radius
        np.maximum(lengths, 0.0, out=lengths)
        return exactly(np.square(lengths, out=lengths))


class Ellipsoids(Region):
    r"""Ellipsoids :math:`\{x + F u : |u|_2 \le 1\}` with factors F of shape (d, r).

    The nearest point to a given one follows from an equation for one multiplier, in the principal axes
    (Golub and Van Loan 2013, section 6.2.1). Between ellipsoids with a common factor the same equation
    applies to an ellipsoid of twice the size. Between other ellipsoids a search is used. The separating
    plane of the nearest points found gives a lower bound.

    Shapes: `lengths` (n, r).
    """

    kind = "ellipsoid"

    def __init__(self, stack: Stack, lengths: np.ndarray, common: bool) -> None:
        self.stack = stack
        self.lengths = lengths
        self.common = common

    @classmethod
    def of(cls, centers: np.ndarray, factors: np.ndarray, common: bool) -> Self:
        """Create ellipsoids from centers and factors.

        Shapes: `centers` (n, d), `factors` (n, d, r) or (1, d, r).
        """
        axes, lengths, _ = np.linalg.svd(factors.astype(np.float64), full_matrices=False)
        axes = np.where(lengths[:, :, None] > 0, axes.swapaxes(1, 2), 0.0)
        n = len(centers)
        axes = np.broadcast_to(axes, (n, *axes.shape[1:]))
        return cls(Stack.of(centers, axes), np.broadcast_to(lengths, (n, axes.shape[1])), common)

    @property
    def exact_between(self) -> bool:  # type: ignore[override]
        """True for a common factor."""
        return self.common

    @property
    def centers(self) -> np.ndarray:
        return self.stack.vectors[:, 0]

    def numbers_a_pair(self, between: bool) -> int:
        return self.stack.size ** (1 + (between and not self.common))

    def part(self, rows: slice) -> Self:
        return type(self)(self.stack.part(rows), self.lengths[rows], self.common)

    def moved(self, step: np.ndarray) -> Self:
        return type(self)(self.stack.moved(step), self.lengths, self.common)

    def from_points(self, points: np.ndarray) -> SquaredDistances:
        return self._outside(points, self.lengths)

    def between(self, other: Any) -> SquaredDistances:
        if self.common:
            return other._outside(self.centers, 2.0 * other.lengths)
        # The search uses inner products only, so it requires double precision.
        left, right = self.stack.in_double(), other.stack.in_double()
        products = pair_products(left, right)
        found, least = (np.empty((len(self), len(other))) for _ in range(2))
        inputs = left.grams, right.grams, self.lengths, other.lengths
        k = left.size + right.size - 2
        workspaces = np.empty((k, k)), np.empty((5, k))
        _between_ellipsoids(products, *map(contiguous_read_only, inputs), *workspaces, found, least)
        dtype = self.centers.dtype
        return SquaredDistances(*(each.astype(dtype, copy=False) for each in (found, least)))

    def _outside(self, points: np.ndarray, lengths: np.ndarray) -> SquaredDistances:
        """Return squared distances from points to ellipsoids with these semi-axes."""
        stack = Stack.from_vectors(np.ascontiguousarray(points[:, None, :]))
        products = pair_products(stack, self.stack)[:, 0]
        squares = np.empty(products.shape[:2], dtype=products.dtype)
        own = stack.grams[:, 0, 0], self.stack.grams[:, 0]
        inputs = map(contiguous_read_only, (stack.vectors, self.stack.vectors, *own, lengths))
        along, step = np.empty(lengths.shape[1]), np.empty(points.shape[1])
        _outside_ellipsoids(products, *inputs, CLOSE[products.dtype], along, step, squares)
        return exactly(squares)


@njit(**LEAN)
def _outside_ellipsoids(
    products, points, vectors, own_points, own, lengths, close, along, step, squares
):  # fmt: skip
    n, m, size = products.shape
    for i in range(n):
        for j in range(m):
            whole = own_points[i] + own[j, 0]
            across = whole - 2.0 * products[i, j, 0]
            for a in range(size - 1):
                # The axes are unit vectors, so the remainder is orthogonal to all of them.
                along[a] = products[i, j, a + 1] - own[j, a + 1]
                across -= along[a] * along[a]
            if across < close * whole:
                # Products are imprecise: compute both parts from the difference.
                for k in range(len(step)):
                    step[k] = float(points[i, 0, k]) - float(vectors[j, 0, k])
                for repetition in range(2):
                    for a in range(size - 1):
                        product = 0.0
                        for k in range(len(step)):
                            product += step[k] * vectors[j, a + 1, k]
                        along[a] = product if repetition == 0 else along[a] + product
                        for k in range(len(step)):
                            step[k] -= product * vectors[j, a + 1, k]
                across = 0.0
                for k in range(len(step)):
                    across += step[k] * step[k]
            squares[i, j] = across + _outside(along, lengths[j])


@njit(**LEAN)
def _outside(along, lengths):
    """Return the squared distance to the ellipsoid with these semi-axes, in its coordinates."""
    inside, flat = 0.0, 0.0
    for a in range(len(along)):
        if lengths[a] > 0.0:
            inside += (along[a] / lengths[a]) ** 2
        else:
            flat += along[a] * along[a]
    if inside <= 1.0:
        return flat
    # sum (s c / (s^2 + q))^2 decreases and is convex in q: Newton steps from the left stay on the left.
    q = 0.0
    for a in range(len(along)):
        least = lengths[a] * abs(along[a]) - lengths[a] ** 2
        q = least if least > q else q
    for _ in range(100):
        value, slope = -1.0, 0.0
        for a in range(len(along)):
            if lengths[a] > 0.0:
                part = lengths[a] * along[a] / (lengths[a] ** 2 + q)
                value += part * part
                slope -= 2.0 * part * part / (lengths[a] ** 2 + q)
        if not value > 1e-15:
            break
        # Newton steps for 1 / sqrt of the sum are longer, and also stay on the left.
        root = np.sqrt(value + 1.0)
        step = 2.0 * (value + 1.0) * (1.0 - root) / slope
        if not step > 1e-16 * q:
            break
        q += step
    total = flat
    for a in range(len(along)):
        if lengths[a] > 0.0:
            total += (q * along[a] / (lengths[a] ** 2 + q)) ** 2
    return total


@njit(**LEAN)
def _between_ellipsoids(
    products, own_left, own_right, sizes_left, sizes_right, gram, rows, found, least
):  # fmt: skip
    n, rest, m, size = products.shape
    r, s = rest - 1, size - 1
    linear = rows[0]
    for i in range(n):
        for j in range(m):
            # The objective is |x - y + F u - G v|^2 with u and v in unit balls.
            longest = 0.0
            for a in range(r):
                linear[a] = (own_left[i, a + 1, 0] - products[i, a + 1, j, 0]) * sizes_left[i, a]
                longest = sizes_left[i, a] if sizes_left[i, a] > longest else longest
            for b in range(s):
                linear[r + b] = own_right[j, b + 1, 0] - products[i, 0, j, b + 1]
                linear[r + b] *= sizes_right[j, b]
                longest = sizes_right[j, b] if sizes_right[j, b] > longest else longest
            for a in range(r):
                for c in range(r):
                    gram[a, c] = own_left[i, a + 1, c + 1] * sizes_left[i, a] * sizes_left[i, c]
                for b in range(s):
                    entry = -products[i, a + 1, j, b + 1] * sizes_left[i, a] * sizes_right[j, b]
                    gram[a, r + b] = gram[r + b, a] = entry
            for b in range(s):
                for c in range(s):
                    entry = own_right[j, b + 1, c + 1] * sizes_right[j, b] * sizes_right[j, c]
                    gram[r + b, r + c] = entry
            whole = own_left[i, 0, 0] + own_right[j, 0, 0] - 2.0 * products[i, 0, j, 0]
            rate = 0.5 / longest**2 if longest > 0.0 else 0.0
            found[i, j], least[i, j] = _search(gram, rows, r, whole, rate)


@njit(**LEAN)
def _search(gram, rows, r, whole, rate):
    """Minimize by projected gradient steps with momentum; return minimum and lower bound."""
    linear, z, ahead, gradient, last = rows[0], rows[1], rows[2], rows[3], rows[4]
    size = len(z)
    for a in range(size):
        z[a], ahead[a] = 0.0, 0.0
    momentum, best, bound = 1.0, 0.0 if whole < 0.0 else whole, 0.0
    for _ in range(STEPS):
        _derivative(gram, linear, ahead, gradient)
        for a in range(size):
            last[a], z[a] = z[a], ahead[a] - rate * gradient[a]
        # Projection on the unit balls.
        for first, end in ((0, r), (r, size)):
            length = 0.0
            for a in range(first, end):
                length += z[a] * z[a]
            length = np.sqrt(length)
            for a in range(first, end):
                z[a] = z[a] / length if length > 1.0 else z[a]
        _derivative(gram, linear, z, gradient)
        square, excess, ascent = whole, 0.0, 0.0
        for first, end in ((0, r), (r, size)):
            length = 0.0
            for a in range(first, end):
                square += z[a] * (linear[a] + gradient[a])
                excess += z[a] * gradient[a]
                ascent += gradient[a] * (z[a] - last[a])
                length += gradient[a] * gradient[a]
            excess += np.sqrt(length)
        square = 0.0 if square < 0.0 else square
        best = square if square < best else best
        if square > excess and square > 0.0:
            least = (square - excess) ** 2 / square
            bound = least if least > bound else bound
        if best - bound <= TOLERANCE * best or best <= 1e-15 * whole:
            break
        # Momentum is restarted if the objective increases.
        following = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * momentum**2))
        factor = (momentum - 1.0) / following if ascent <= 0.0 else 0.0
        momentum = following if ascent <= 0.0 else 1.0
        for a in range(size):
            ahead[a] = z[a] + factor * (z[a] - last[a])
    return best, bound if bound < best else best


@njit(**LEAN)
def _derivative(gram, linear, z, gradient):
    for a in range(len(z)):
        total = linear[a]
        for b in range(len(z)):
            total += gram[a, b] * z[b]
        gradient[a] = total
