"""Regions with a finite cover: distances by local search, with lower bounds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np

from .base import Region, SquaredDistances
from .point_lists import nearest_members

# Number of alternating searches on both sides.
_N_SEARCHES = 3

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

    def __len__(self) -> int:
        return len(self.members)

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
