"""Zonotopes: bounded combinations of directions, such as segments."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from ..utils.jit import njit
from ..utils.matrices import contiguous_read_only
from .base import Region, SquaredDistances
from .inner_products import Stack, pair_products
from .least_squares import bounded_least_squares, bounded_minimum, orthonormalize
from .point_lists import CLOSE

# Tolerance of squared distances, relative to the squared lengths of the rows.
TOLERANCE = 1e-13


class Zonotopes(Region):
    r"""Zonotopes :math:`\{x + \sum_k t_k T_k : a_k \le t_k \le b_k\}` of some rows.

    Distances of segments (Pozdnoukhov and Bengio 2006, eqs. 10 and 11) and tangent distances with
    bounded coefficients (eqs. 16 and 17) are small bounded least squares problems. Their matrices are
    inner products of directions, which are computed for all pairs at once.

    Shapes: `low` (n, r), `high` (n, r).
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
        return self.stack.vectors[:, 0]

    def numbers_a_pair(self, between: bool) -> int:
        return self.stack.size ** (1 + between)

    def part(self, rows: slice) -> Self:
        return type(self)(self.stack.part(rows), self.low[rows], self.high[rows])

    def moved(self, step: np.ndarray) -> Self:
        return type(self)(self.stack.moved(step), self.low, self.high)

    def widened(self, other: Any) -> Region | None:
        if other.kind != self.kind:
            return super().widened(other)
        vectors = np.concatenate([self.stack.vectors, other.stack.vectors[:, 1:]], axis=1)
        bounds = ((self.low, other.low), (self.high, other.high))
        low, high = (np.concatenate(each, axis=1) for each in bounds)
        return Zonotopes(Stack.from_vectors(vectors), low, high)

    def from_points(self, points: np.ndarray) -> SquaredDistances:
        no_bounds = np.zeros((len(points), 0))
        stack = Stack.from_vectors(np.ascontiguousarray(points[:, None, :]))
        return Zonotopes(stack, no_bounds, no_bounds).between(self)

    def between(self, other: Any) -> SquaredDistances:
        left, right, dtype = self.stack, other.stack, self.centers.dtype
        reach = self._reach(), other._reach()
        if any(far > size for far, size in map(_largest, (left, right), reach)):
            # Steps that are longer than the rows cancel, so single precision is not enough.
            left, right = left.in_double(), right.in_double()
        products = pair_products(left, right)
        found, least = (np.empty((len(self), len(other)), dtype=products.dtype) for _ in range(2))
        stacks = left.vectors, right.vectors, left.grams, right.grams
        bounds = self.low, self.high, other.low, other.high
        inputs = map(contiguous_read_only, (*stacks, *bounds, *reach))
        # Workspaces for one pair, and for a second computation with higher precision.
        k, d = left.size + right.size - 2, self.centers.shape[1]
        first = np.empty((k, k)), np.empty((6, k)), np.empty((k + 1, k)), np.empty(k, dtype=np.int64)
        second = np.empty((k + 1, d)), np.empty((k, k + 1)), np.empty((2 * k + 2, k))
        _between(products, *inputs, CLOSE[products.dtype], *first, *second, found, least)
        return SquaredDistances(*(each.astype(dtype, copy=False) for each in (found, least)))

    def _reach(self) -> np.ndarray:
        """Return bounds of the distances from rows to elements of their sets, (n,)."""
        lengths = np.sqrt(np.einsum("naa->na", self.stack.grams)[:, 1:])
        return np.sum(np.maximum(np.abs(self.low), np.abs(self.high)) * lengths, axis=1)


def _largest(stack: Stack, reach: np.ndarray) -> tuple[float, float]:
    """Return the largest bound in `reach`, and the largest length of a row."""
    sizes = np.sqrt(stack.grams[:, 0, 0])
    return float(np.max(reach, initial=0.0)), float(np.max(sizes, initial=0.0))


@njit(cache=True, nogil=True)
def _between(
    products, left, right, own_left, own_right, low_left, high_left, low_right, high_right, reach_left,
    reach_right, close, gram, rows, factor, free, vectors, whole_factor, work, found, least,
):  # fmt: skip
    n, rest, m, size = products.shape
    r, s = rest - 1, size - 1
    linear, low, high, z, gradient, squares = rows[0], rows[1], rows[2], rows[3], rows[4], rows[5]
    for i in range(n):
        for j in range(m):
            # Objective |x - y + T't - R'u|^2: its matrix, and half of its derivative at 0.
            for a in range(r):
                low[a], high[a], z[a] = low_left[i, a], high_left[i, a], 0.0
                linear[a] = own_left[i, a + 1, 0] - products[i, a + 1, j, 0]
                for b in range(r):
                    gram[a, b] = own_left[i, a + 1, b + 1]
                for b in range(s):
                    gram[a, r + b] = gram[r + b, a] = -products[i, a + 1, j, b + 1]
            for b in range(s):
                low[r + b], high[r + b], z[r + b] = low_right[j, b], high_right[j, b], 0.0
                linear[r + b] = own_right[j, b + 1, 0] - products[i, 0, j, b + 1]
                for a in range(s):
                    gram[r + b, r + a] = own_right[j, b + 1, a + 1]
            whole = own_left[i, 0, 0] + own_right[j, 0, 0]
            enough = TOLERANCE * whole
            excess = bounded_minimum(
                gram, linear, low, high, enough, z, gradient, squares, factor, free
            )  # fmt: skip
            square = whole - 2.0 * products[i, 0, j, 0]
            for a in range(r + s):
                square += z[a] * (linear[a] + gradient[a])
            if square < close * (whole + (reach_left[i] + reach_right[j]) ** 2):
                # Products are imprecise for near points and nearly parallel directions: use rows and
                # directions.
                for k in range(vectors.shape[1]):
                    for a in range(r):
                        vectors[a, k] = -float(left[i, a + 1, k])
                    for b in range(s):
                        vectors[r + b, k] = right[j, b + 1, k]
                    vectors[r + s, k] = float(left[i, 0, k]) - float(right[j, 0, k])
                outside = orthonormalize(vectors, r + s, r + s + 1, whole_factor)
                square, excess = bounded_least_squares(
                    whole_factor, low, high, outside, z, gradient, squares, free, work
                )  # fmt: skip
                enough = TOLERANCE * square
            square = 0.0 if square < 0.0 else square
            found[i, j] = least[i, j] = square
            if excess > enough:
                # The plane orthogonal to the shortest step found separates both sets.
                bound = square - excess
                least[i, j] = bound * bound / square if square > 0.0 and bound > 0.0 else 0.0
