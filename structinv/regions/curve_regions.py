"""Curves of one parameter, and other regions with a finite cover."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np

from ..utils.polynomials import smallest_on_interval, squared_distances
from .base import Region, SquaredDistances, exactly
from .inner_products import Stack, pair_products
from .point_lists import CLOSE, nearest_members

# Number of alternating searches on both sides, for covers and for curves.
_N_SEARCHES, _N_CURVE_SEARCHES = 3, 4

Score = Callable[[np.ndarray], np.ndarray]
Refine = Callable[[np.ndarray, np.ndarray, Score], np.ndarray]


class CoverRegion(Region):
    """Infinite sets with finite covers.

    A local search refines the nearest element of the cover. The lower bound is the distance to the cover
    minus the mesh.

    Shapes: `rows` (n, d), `members` (n, s, d), `mesh` (n,), `step` (d,).
    """

    kind = "cover"
    exact_from_points = False
    exact_between = False

    def __init__(
        self,
        rows: np.ndarray,
        members: np.ndarray,
        mesh: np.ndarray,
        refine: Refine,
        step: np.ndarray | float = 0.0,
    ) -> None:
        self.rows = rows
        self.members = members
        self.mesh = mesh
        self.refine = refine
        self.step = step

    @property
    def centers(self) -> np.ndarray:
        return self.members[:, 0]

    def numbers_a_pair(self, between: bool) -> int:
        return self.members.shape[1] ** (1 + between) + 8 * self.members.shape[2]

    def part(self, rows: slice) -> Self:
        selected = self.rows[rows], self.members[rows], self.mesh[rows]
        return type(self)(*selected, self.refine, self.step)

    def moved(self, step: np.ndarray) -> Self:
        moved = self.members + step
        return type(self)(self.rows, moved, self.mesh, self.refine, self.step + step)

    def from_points(self, points: np.ndarray) -> SquaredDistances:
        squares, numbers = nearest_members(points[:, None, :], self.members)
        each = np.repeat(points, len(self), axis=0)
        refined = self._nearest(each, np.tile(np.arange(len(self)), len(points)), numbers[..., 1])
        found = np.minimum(squares, _squares(each, refined).reshape(squares.shape))
        return _bounded(squares, found, self.mesh)

    def between(self, other: Any) -> SquaredDistances:
        # Local searches on both sides alternate.
        squares, numbers = nearest_members(self.members, other.members)
        rows = [np.repeat(np.arange(len(self)), len(other)), np.tile(np.arange(len(other)), len(self))]
        sides, found = (self, other), squares
        points = self.members[rows[0], numbers[..., 0].ravel()]
        for number in range(_N_SEARCHES):
            side = (number + 1) % 2
            goals = points
            points = sides[side]._nearest(goals, rows[side], numbers[..., side])
            found = np.minimum(found, _squares(goals, points).reshape(squares.shape))
        return _bounded(squares, found, self.mesh[:, None] + other.mesh)

    def _nearest(self, goals: np.ndarray, rows: np.ndarray, numbers: np.ndarray) -> np.ndarray:
        """Refine elements of the cover toward goals, one for each pair."""

        def score(points: np.ndarray) -> np.ndarray:
            return -_squares(goals, points + self.step)

        return self.refine(self.rows[rows], numbers.ravel(), score) + self.step


def _squares(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    steps = left.astype(np.float64) - right
    return np.einsum("ij,ij->i", steps, steps)


def _bounded(squares: np.ndarray, found: np.ndarray, mesh: np.ndarray) -> SquaredDistances:
    """Return squared distances with lower bounds, from squared distances to the cover."""
    least = np.sqrt(np.maximum(squares, 0.0)) - mesh
    least = np.square(np.maximum(least, 0.0)).astype(found.dtype, copy=False)
    return SquaredDistances(found, np.minimum(least, found))


class CurveRegion(Region):
    r"""Polynomial curves :math:`\{x + \sum_k t^k x_k : a \le t \le b\}` of some rows.

    The squared distance from a point is a polynomial of t, and all its stationary points are found.
    Between two curves a search starts at the nearest points of the covers and alternates between the
    curves. The covers have the points at some values of the parameter; their mesh gives a lower bound.

    Shapes: `values` (s,), `members` (n, s, d), `mesh` (n,).
    """

    kind = "curve"
    exact_between = False

    def __init__(
        self,
        stack: Stack,
        interval: tuple[float, float],
        values: np.ndarray,
        members: np.ndarray,
        mesh: np.ndarray,
    ) -> None:
        self.stack = stack
        self.interval = interval
        self.values = values
        self.members = members
        self.mesh = mesh

    @property
    def centers(self) -> np.ndarray:
        return self.stack.vectors[:, 0]

    def numbers_a_pair(self, between: bool) -> int:
        return max(self.stack.size, len(self.values)) ** (1 + between) + 4 * self.stack.size

    def part(self, rows: slice) -> Self:
        cover = self.values, self.members[rows], self.mesh[rows]
        return type(self)(self.stack.part(rows), self.interval, *cover)

    def moved(self, step: np.ndarray) -> Self:
        cover = self.values, self.members + step, self.mesh
        return type(self)(self.stack.moved(step), self.interval, *cover)

    def from_points(self, points: np.ndarray) -> SquaredDistances:
        stack = Stack.from_vectors(np.ascontiguousarray(points[:, None, :]))
        products = pair_products(stack, self.stack).transpose(0, 2, 1, 3)
        fixed = np.zeros((len(points), len(self)))
        return exactly(_nearest(stack, fixed, self, products)[0].astype(products.dtype, copy=False))

    def between(self, other: Any) -> SquaredDistances:
        squares, numbers = nearest_members(self.members, other.members)
        products = pair_products(self.stack, other.stack).transpose(0, 2, 1, 3)
        back = products.transpose(1, 0, 3, 2)
        # Values of the parameter on the curve whose point is fixed.
        fixed, found = self.values[numbers[..., 0]], squares
        for number in range(_N_CURVE_SEARCHES):
            if number % 2 == 0:
                nearer, fixed = _nearest(self.stack, fixed, other, products)
            else:
                nearer, fixed = (a.T for a in _nearest(other.stack, fixed.T, self, back))
            found = np.minimum(found, nearer)
        each = _bounded(squares, found, self.mesh[:, None] + other.mesh)
        return SquaredDistances(*(part.astype(squares.dtype, copy=False) for part in each))


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
