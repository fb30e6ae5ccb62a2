"""Sets that are bounded combinations of directions: segments, and tangent planes cut off."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from ..compiled import njit
from ..matrices import contiguous_read_only
from .base import Region, SquaredDistances
from .least_squares import bounded_least_squares, bounded_minimum, triangular
from .points import CLOSE
from .products import Stack, pair_products

# Of the length of what is compared: what the least square may still be below that found.
ENOUGH = 1e-13


class Zonotopes(Region):
    r"""Sets :math:`\{x + \sum_k t_k T_k : a_k \le t_k \le b_k\}`.

    Distances of segments (Pozdnoukhov and Bengio 2006, eqs. 10 and 11) and tangent distances with
    bounded coefficients (eqs. 16 and 17) are small least squares problems within bounds, whose matrices
    are inner products of directions. Those are made for all pairs at once.

    Parameters
    ----------
    stack : Stack
        Rows and their directions.
    low, high : (n, r) arrays of float64
        The bounds a and b.

    Examples
    --------
    >>> import numpy as np
    >>> stack = Stack.of(np.array([[0.0, 0.0]]), np.array([[[1.0, 0.0]]]))
    >>> segment = Zonotopes(stack, np.array([[-1.0]]), np.array([[2.0]]))
    >>> segment.from_points(np.array([[5.0, 4.0], [1.0, 1.0]])).found
    array([[25.],
           [ 1.]])
    """

    kind = "zonotope"

    def __init__(self, stack: Stack, low: np.ndarray, high: np.ndarray) -> None:
        self.stack = stack
        self.low = low
        self.high = high

    def __len__(self) -> int:
        return len(self.low)

    @property
    def centers(self) -> np.ndarray:
        """See `Region.centers`."""
        return self.stack.vectors[:, 0]

    def numbers_a_pair(self, between: bool) -> int:
        """See `Region.numbers_a_pair`."""
        return self.stack.size ** (1 + between)

    def part(self, rows: slice) -> Self:
        """See `Region.part`."""
        return type(self)(self.stack.part(rows), self.low[rows], self.high[rows])

    def moved(self, step: np.ndarray) -> Self:
        """See `Region.moved`."""
        return type(self)(self.stack.moved(step), self.low, self.high)

    def widened(self, other: Any) -> Region | None:
        """See `Region.widened`: with the directions of both."""
        if other.kind != self.kind:
            return super().widened(other)
        vectors = np.concatenate([self.stack.vectors, other.stack.vectors[:, 1:]], axis=1)
        bounds = ((self.low, other.low), (self.high, other.high))
        low, high = (np.concatenate(each, axis=1) for each in bounds)
        return Zonotopes(Stack.from_vectors(vectors), low, high)

    def from_points(self, points: np.ndarray) -> SquaredDistances:
        """See `Region.from_points`."""
        nothing = np.zeros((len(points), 0))
        alone = Stack.from_vectors(np.ascontiguousarray(points[:, None, :]))
        return Zonotopes(alone, nothing, nothing).between(self)

    def between(self, other: Any) -> SquaredDistances:
        """See `Region.between`."""
        left, right, dtype = self.stack, other.stack, self.centers.dtype
        reach = self._reach(), other._reach()
        if any(far > size for far, size in map(_largest, (left, right), reach)):
            # Steps that are longer than what they make up for cancel.
            left, right = left.in_double(), right.in_double()
        products = pair_products(left, right)
        found, least = (np.empty((len(self), len(other)), dtype=products.dtype) for _ in range(2))
        read = left.vectors, right.vectors, left.own, right.own
        bounds = self.low, self.high, other.low, other.high
        given = map(contiguous_read_only, (*read, *bounds, *reach))
        _between(products, *given, CLOSE[products.dtype], found, least)
        return SquaredDistances(*(each.astype(dtype, copy=False) for each in (found, least)))

    def _reach(self) -> np.ndarray:
        """How far from its row a set may reach, (n,): the sum over its directions."""
        lengths = np.sqrt(np.einsum("naa->na", self.stack.own)[:, 1:])
        return np.sum(np.maximum(np.abs(self.low), np.abs(self.high)) * lengths, axis=1)


def _largest(stack: Stack, reach: np.ndarray) -> tuple[float, float]:
    """The furthest reach of these sets, and the longest of the rows."""
    sizes = np.sqrt(stack.own[:, 0, 0])
    return float(np.max(reach, initial=0.0)), float(np.max(sizes, initial=0.0))


@njit(cache=True, nogil=True)
def _between(
    products,
    left,
    right,
    own_left,
    own_right,
    low_left,
    high_left,
    low_right,
    high_right,
    reach_left,
    reach_right,
    close,
    found,
    least,
):
    n, rest, m, size = products.shape
    r, s = rest - 1, size - 1
    gram, linear = np.empty((r + s, r + s)), np.empty(r + s)
    low, high, z = np.empty(r + s), np.empty(r + s), np.empty(r + s)
    gradient, factor = np.empty(r + s), np.empty((r + s + 1, r + s))
    free = np.empty(r + s, dtype=np.intp)
    for i in range(n):
        low[:r], high[:r] = low_left[i], high_left[i]
        gram[:r, :r] = own_left[i, 1:, 1:]
        for j in range(m):
            # |x - y + T't - R'u|^2, its matrix and half of its derivative at 0.
            low[r:], high[r:] = low_right[j], high_right[j]
            gram[r:, r:] = own_right[j, 1:, 1:]
            for a in range(r):
                linear[a] = own_left[i, a + 1, 0] - products[i, a + 1, j, 0]
                for b in range(s):
                    gram[a, r + b] = gram[r + b, a] = -products[i, a + 1, j, b + 1]
            for b in range(s):
                linear[r + b] = own_right[j, b + 1, 0] - products[i, 0, j, b + 1]
            whole = own_left[i, 0, 0] + own_right[j, 0, 0]
            z[:] = 0.0
            enough = ENOUGH * whole
            excess = bounded_minimum(gram, linear, low, high, enough, z, gradient, factor, free)
            square = whole - 2.0 * products[i, 0, j, 0]
            for a in range(r + s):
                square += z[a] * (linear[a] + gradient[a])
            if square < close * (whole + (reach_left[i] + reach_right[j]) ** 2):
                # The products have lost the digits of what is near, or nearly parallel.
                square, excess = _again(left[i], right[j], low, high, z, gradient, free)
                enough = ENOUGH * square
            found[i, j] = square = max(square, 0.0)
            least[i, j] = square if excess <= enough else _least(square, excess)


@njit(cache=True, nogil=True)
def _least(square, excess):
    """What squared distances are at least: the plane across the shortest step found keeps both apart."""
    return max(square - excess, 0.0) ** 2 / square if square > 0.0 else 0.0


@njit(cache=True, nogil=True)
def _again(left, right, low, high, z, gradient, free):
    """The least square and its excess, from rows and directions themselves."""
    r, size, d = left.shape[0] - 1, len(z), left.shape[1]
    vectors, target = np.empty((size, d)), np.empty(d)
    factor, work = np.empty((size, size + 1)), np.empty((size + 2, size))
    for k in range(d):
        target[k] = float(left[0, k]) - float(right[0, k])
        for a in range(r):
            vectors[a, k] = -float(left[a + 1, k])
        for b in range(size - r):
            vectors[r + b, k] = float(right[b + 1, k])
    rest = triangular(vectors, target, factor)
    return bounded_least_squares(factor, low, high, rest, z, gradient, free, work)
