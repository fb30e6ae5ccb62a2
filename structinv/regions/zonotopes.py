"""Affine subspaces and zonotopes: combinations of directions."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from ..utils.jit import LEAN, njit
from ..utils.matrices import contiguous_read_only, in_threads, one_blas_thread
from .base import Region, SquaredDistances, exactly
from .inner_products import Stack, pair_products
from .least_squares import bounded_least_squares, bounded_minimum, orthonormalize
from .point_lists import CLOSE

# Unit directions with singular values below this fraction of the largest one are linearly dependent.
# Smaller values come from rounding errors of tangents, which are differences of images.
DEPENDENT = 1e-6
# Squared singular values below this require a second pass, since inner products are not precise enough.
NEARLY_DEPENDENT = 1e-5
_ROWS_AT_ONCE = 256
# If the part of a direction outside the other plane has a squared length below this, distances are
# computed again, from rows and directions.
NEARLY_INSIDE = {np.dtype(np.float64): 1e-7, np.dtype(np.float32): 1e-3}


class AffineSubspaces(Region):
    r"""Tangent planes :math:`\{x + \sum_k t_k T_k\}` with unbounded coefficients.

    The distance between two planes is the distance from x - y to the span of both sets of directions
    (Simard, LeCun and Denker 1993). Directions are orthonormalized once per row. A pair with the
    orthonormal directions Q and R requires the inner products ``M = Q R'`` and a Cholesky factor of
    ``1 - M'M``, and no eigenvectors. Linearly dependent directions count once.
    """

    kind = "tangent plane"

    def __init__(self, stack: Stack) -> None:
        self.stack = stack

    @classmethod
    def spanned(cls, centers: np.ndarray, directions: np.ndarray) -> Self:
        """Create planes from points and directions.

        Shapes: `centers` (n, d), `directions` (n, r, d).
        """
        vectors = np.empty((len(centers), 1 + directions.shape[1], centers.shape[1]), centers.dtype)
        vectors[:, 0] = centers

        def span(rows: slice) -> None:
            vectors[rows, 1:] = orthonormal(directions[rows])

        with one_blas_thread():
            in_threads(span, len(centers), 8 * directions.size, most=_ROWS_AT_ONCE)
        return cls(Stack.from_vectors(vectors))

    @property
    def centers(self) -> np.ndarray:
        return self.stack.vectors[:, 0]

    def numbers_a_pair(self, between: bool) -> int:
        return self.stack.size ** (1 + between)

    def part(self, rows: slice) -> Self:
        return type(self)(self.stack.part(rows))

    def moved(self, step: np.ndarray) -> Self:
        return type(self)(self.stack.moved(step))

    def from_points(self, points: np.ndarray) -> SquaredDistances:
        return AffineSubspaces(Stack.from_vectors(points[:, None, :])).between(self)

    def between(self, other: Any) -> SquaredDistances:
        left, right = self.stack, other.stack
        products = pair_products(left, right)
        squares = np.empty((len(self), len(other)), dtype=products.dtype)
        close, near = CLOSE[products.dtype], NEARLY_INSIDE[products.dtype]
        stacks = map(contiguous_read_only, (left.vectors, right.vectors, left.grams, right.grams))
        r, s = products.shape[1] - 1, products.shape[3] - 1
        workspaces = np.empty((r, s)), np.empty((s, s)), np.empty(r), np.empty(s)
        second = np.empty((r + s + 1, left.vectors.shape[2])), np.empty((r + s, r + s + 1))
        _outside_spans(products, *stacks, close, near, *workspaces, *second, squares)
        return exactly(squares)


def orthonormal(directions: np.ndarray) -> np.ndarray:
    """Return an orthonormal basis of the directions of each row, in float64.

    Shapes: `directions` (n, r, d); returns (n, r, d).
    """
    directions = directions.astype(np.float64, copy=False)
    gram = directions @ directions.swapaxes(1, 2)
    sizes = np.sqrt(np.einsum("nii->ni", gram))
    inverse = np.divide(1.0, sizes, out=np.zeros_like(sizes), where=sizes > 0)
    gram *= inverse[:, :, None] * inverse[:, None, :]
    roots, squares = _inverse_roots(gram, DEPENDENT**2)
    basis = (roots * inverse[:, None, :]) @ directions
    # Inner products of nearly dependent directions are imprecise.
    near = np.flatnonzero(np.any((squares > 0) & (squares < NEARLY_DEPENDENT), axis=1))
    if len(near):
        vectors = basis[near]
        basis[near] = _inverse_roots(vectors @ vectors.swapaxes(1, 2), 0.5)[0] @ vectors
    return basis


def _inverse_roots(gram: np.ndarray, least: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the matrices that orthonormalize vectors with these inner products, and eigenvalues.

    Eigenvalues below `least` times the largest one are set to 0.
    """
    squares, eigenvectors = np.linalg.eigh(gram)
    squares[squares <= least * np.max(squares, axis=1, initial=0.0)[:, None]] = 0.0
    scales = np.divide(1.0, np.sqrt(squares), out=np.zeros_like(squares), where=squares > 0)
    return (eigenvectors * scales[:, None, :]).swapaxes(1, 2), squares


@njit(**LEAN)
def _outside_spans(
    products, left, right, own_left, own_right, close, near, cross, factor, along, across, vectors,
    whole_factor, squares,
):  # fmt: skip
    n, rest, m, size = products.shape
    r, s = rest - 1, size - 1
    for i in range(n):
        for j in range(m):
            whole = own_left[i, 0, 0] + own_right[j, 0, 0]
            square = whole - 2.0 * products[i, 0, j, 0]
            for a in range(r):
                along[a] = own_left[i, a + 1, 0] - products[i, a + 1, j, 0]
                square -= along[a] * along[a]
                for b in range(s):
                    cross[a, b] = products[i, a + 1, j, b + 1]
            for b in range(s):
                across[b] = products[i, 0, j, b + 1] - own_right[j, b + 1, 0]
                for a in range(r):
                    across[b] -= cross[a, b] * along[a]
            # Without directions on the left, those on the right are already orthonormal.
            nearly = r > 0 and _orthogonal(cross, own_right[j], across, factor, near)
            for b in range(s):
                square -= across[b] * across[b]
            if nearly or square < close * whole:
                # Products are imprecise: use rows and directions.
                for k in range(vectors.shape[1]):
                    for a in range(r):
                        vectors[a, k] = left[i, a + 1, k]
                    for b in range(s):
                        vectors[r + b, k] = right[j, b + 1, k]
                    vectors[r + s, k] = float(left[i, 0, k]) - float(right[j, 0, k])
                square = orthonormalize(vectors, r + s, r + s + 1, whole_factor)
            squares[i, j] = square


@njit(**LEAN)
def _orthogonal(cross, own, across, factor, near):
    """Replace `across`, w, by a vector with the squared length ``w' (1 - M'M)^-1 w``.

    Returns True if a direction is nearly in the span of the other ones.
    """
    r, s = cross.shape
    nearly = False
    for b in range(s):
        # 1 - M'M in its lower triangle, then its Cholesky factor.
        for c in range(b + 1):
            # `own` has 1 on its diagonal, or 0 for zero vectors.
            entry = own[b + 1, c + 1]
            for a in range(r):
                entry -= cross[a, b] * cross[a, c]
            for k in range(c):
                entry -= factor[b, k] * factor[c, k]
            if c < b:
                factor[b, c] = entry * factor[c, c]
            else:
                # Inverse pivots are stored; those of zero vectors are 0.
                known = own[b + 1, b + 1] > 0.5
                factor[b, b] = 1.0 / np.sqrt(entry) if known and entry > near else 0.0
                nearly = nearly or (known and entry <= near)
        for k in range(b):
            across[b] -= factor[b, k] * across[k]
        across[b] *= factor[b, b]
    return nearly


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


@njit(**LEAN)
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
