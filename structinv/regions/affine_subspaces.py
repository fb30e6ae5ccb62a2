"""Affine subspaces: tangent planes with unbounded coefficients."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from ..utils.jit import njit
from ..utils.matrices import contiguous_read_only, in_threads, one_blas_thread
from .base import Region, SquaredDistances, exactly
from .inner_products import Stack, pair_products
from .least_squares import orthonormalize
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

    def __len__(self) -> int:
        return len(self.stack.vectors)

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


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
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
