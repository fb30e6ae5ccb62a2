"""Polynomial curves of one parameter."""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import numpy as np

from ..utils.polynomials import smallest_on_interval, squared_distances
from .base import Region, SquaredDistances, exactly
from .inner_products import Stack, pair_products
from .point_lists import CLOSE, nearest_members

# Number of alternating searches on both curves.
_N_SEARCHES = 4


class Grid(NamedTuple):
    """Covers of curves: points at some values of the parameter.

    - `values` (s,): values of the parameter
    - `points` (n, s, d): points of the curves
    - `mesh` (n,): bound of the distance from any point of a curve to its cover
    """

    values: np.ndarray
    points: np.ndarray
    mesh: np.ndarray


class CurveRegion(Region):
    r"""Polynomial curves :math:`\{x + \sum_k t^k x_k : a \le t \le b\}` of some rows.

    The squared distance from a point is a polynomial of t, and all its stationary points are found.
    Between two curves a search starts at the nearest points of the covers and alternates between the
    curves. The mesh of the covers gives a lower bound.
    """

    kind = "curve"
    exact_between = False

    def __init__(self, stack: Stack, interval: tuple[float, float], grid: Grid) -> None:
        self.stack = stack
        self.interval = interval
        self.grid = grid

    def __len__(self) -> int:
        return len(self.stack.vectors)

    @property
    def centers(self) -> np.ndarray:
        return self.stack.vectors[:, 0]

    def numbers_a_pair(self, between: bool) -> int:
        return max(self.stack.size, len(self.grid.values)) ** (1 + between) + 4 * self.stack.size

    def part(self, rows: slice) -> Self:
        grid = Grid(self.grid.values, self.grid.points[rows], self.grid.mesh[rows])
        return type(self)(self.stack.part(rows), self.interval, grid)

    def moved(self, step: np.ndarray) -> Self:
        grid = self.grid._replace(points=self.grid.points + step)
        return type(self)(self.stack.moved(step), self.interval, grid)

    def from_points(self, points: np.ndarray) -> SquaredDistances:
        stack = Stack.from_vectors(np.ascontiguousarray(points[:, None, :]))
        products = pair_products(stack, self.stack).transpose(0, 2, 1, 3)
        fixed = np.zeros((len(points), len(self)))
        return exactly(_nearest(stack, fixed, self, products)[0].astype(products.dtype, copy=False))

    def between(self, other: Any) -> SquaredDistances:
        squares, numbers = nearest_members(self.grid.points, other.grid.points)
        products = pair_products(self.stack, other.stack).transpose(0, 2, 1, 3)
        back = products.transpose(1, 0, 3, 2)
        # Values of the parameter on the curve whose point is fixed.
        fixed, found = self.grid.values[numbers[..., 0]], squares
        for number in range(_N_SEARCHES):
            if number % 2 == 0:
                nearer, fixed = _nearest(self.stack, fixed, other, products)
            else:
                nearer, fixed = (a.T for a in _nearest(other.stack, fixed.T, self, back))
            found = np.minimum(found, nearer)
        least = np.sqrt(np.maximum(squares, 0.0)) - (self.grid.mesh[:, None] + other.grid.mesh)
        least = np.minimum(np.square(np.maximum(least, 0.0)), found)
        return SquaredDistances(*(each.astype(squares.dtype, copy=False) for each in (found, least)))


def _nearest(
    left: Stack, fixed: np.ndarray, right: CurveRegion, products: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return squared distances from points of left curves to right curves, and nearest values.

    Shapes: `fixed` (n, m), `products` (n, m, 1 + p, 1 + q); returns `squares, values` (n, m).
    """
    powers = fixed[..., None] ** np.arange(left.size)
    own = np.einsum("ija,iab,ijb->ij", powers, left.grams, powers)
    cross = np.einsum("ija,ijab->ijb", powers, products)
    curves = squared_distances(own, cross, right.stack.grams[None])
    values, squares = smallest_on_interval(curves.reshape(-1, curves.shape[-1]), *right.interval)
    values, squares = values.reshape(fixed.shape), squares.reshape(fixed.shape)
    whole = own + right.stack.grams[None, :, 0, 0]
    for i, j in np.argwhere(squares < CLOSE[products.dtype] * whole):
        others = values[i, j] ** np.arange(right.stack.size)
        # Products are imprecise for near points.
        step = powers[i, j] @ left.vectors[i] - others @ right.stack.vectors[j]
        squares[i, j] = step @ step
    return squares, values
