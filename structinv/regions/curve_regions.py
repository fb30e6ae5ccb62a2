"""Sets that are polynomial curves of one parameter."""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import numpy as np

from ..utils.polynomials import smallest_on_interval, squared_distances
from .base import Region, SquaredDistances, exactly
from .inner_products import Stack, pair_products
from .points import CLOSE, nearest_members

# Each side in turn, the other one as it was found.
_TURNS = 4


class Grid(NamedTuple):
    """Points of curves at some values of the parameter.

    Attributes
    ----------
    values : (s,) array
    points : (n, s, d) array
    mesh : (n,) array
        How far a point of the curve can be from the nearest of these.
    """

    values: np.ndarray
    points: np.ndarray
    mesh: np.ndarray


class CurveRegion(Region):
    r"""The curves :math:`\{x + \sum_k t^k x_k : a \le t \le b\}` of some rows.

    From a point, the squared distance is a polynomial of t, all of whose stationary points are found.
    Between two curves the search starts at the nearest points of a grid, then goes along either curve in
    turn; the grid's mesh bounds how much it may have missed.

    Parameters
    ----------
    stack : Stack
        Rows and their x_k.
    interval : pair of float
        a and b.
    grid : Grid

    Examples
    --------
    >>> import numpy as np
    >>> stack = Stack.of(np.zeros((1, 2)), np.array([[[1.0, 0.0], [0.0, 1.0]]]))
    >>> t = np.linspace(-1.0, 1.0, 5)
    >>> grid = Grid(t, np.stack([t, t**2], axis=1)[None], np.array([0.6]))
    >>> parabola = CurveRegion(stack, (-1.0, 1.0), grid)
    >>> parabola.from_points(np.array([[0.0, -3.0], [0.5, 0.25]])).found.round(6)
    array([[9.],
           [0.]])
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
        """See `Region.from_points`; exact."""
        alone = Stack.from_vectors(np.ascontiguousarray(points[:, None, :]))
        products = pair_products(alone, self.stack).transpose(0, 2, 1, 3)
        still = np.zeros((len(points), len(self)))
        return exactly(_nearest(alone, still, self, products)[0].astype(products.dtype, copy=False))

    def between(self, other: Any) -> SquaredDistances:
        """See `Region.between`; by a search, with a bound."""
        squares, numbers = nearest_members(self.grid.points, other.grid.points)
        products = pair_products(self.stack, other.stack).transpose(0, 2, 1, 3)
        back = products.transpose(1, 0, 3, 2)
        # Where the curve that stands still is.
        still, found = self.grid.values[numbers[..., 0]], squares
        for turn in range(_TURNS):
            if turn % 2 == 0:
                each, still = _nearest(self.stack, still, other, products)
            else:
                each, still = (a.T for a in _nearest(other.stack, still.T, self, back))
            found = np.minimum(found, each)
        least = np.sqrt(np.maximum(squares, 0.0)) - (self.grid.mesh[:, None] + other.grid.mesh)
        least = np.minimum(np.square(np.maximum(least, 0.0)), found)
        return SquaredDistances(*(each.astype(squares.dtype, copy=False) for each in (found, least)))


def _nearest(
    left: Stack, still: np.ndarray, right: CurveRegion, products: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Squared distances from a point of each left curve to each right one, and where on it they are.

    Parameters
    ----------
    left : Stack
        Of n rows.
    still : (n, m) array
        Which point of the left curve.
    right : CurveRegion
        Of m rows.
    products : (n, m, 1 + p, 1 + q) array

    Returns
    -------
    squares, values : (n, m) arrays
    """
    powers = still[..., None] ** np.arange(left.size)
    own = np.einsum("ija,iab,ijb->ij", powers, left.own, powers)
    cross = np.einsum("ija,ijab->ijb", powers, products)
    curves = squared_distances(own, cross, right.stack.own[None])
    values, squares = smallest_on_interval(curves.reshape(-1, curves.shape[-1]), *right.interval)
    values, squares = values.reshape(still.shape), squares.reshape(still.shape)
    whole = own + right.stack.own[None, :, 0, 0]
    for i, j in np.argwhere(squares < CLOSE[products.dtype] * whole):
        others = values[i, j] ** np.arange(right.stack.size)
        # The products have lost the digits of what is near.
        step = powers[i, j] @ left.vectors[i] - others @ right.stack.vectors[j]
        squares[i, j] = step @ step
    return squares, values
