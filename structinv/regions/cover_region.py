"""Sets of which a finite cover is known: distances by local search, with a bound."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np

from .base import Region, SquaredDistances
from .points import nearest_members

# Each side in turn, the other one as it was found.
_TURNS = 3

Score = Callable[[np.ndarray], np.ndarray]
Refine = Callable[[np.ndarray, np.ndarray, Score], np.ndarray]


class CoverRegion(Region):
    """Sets that are not known as a list, with members that stand for all others.

    The nearest member of the cover is refined by local search. No other member is farther from the
    cover than its `mesh`, so the distance is at least that to the cover less the mesh.

    Parameters
    ----------
    rows : (n, d) array
    members : (n, s, d) array
        The cover of each row.
    mesh : (n,) array
        How far a member of the set can be from its cover.
    refine : callable
        ``refine(rows, index, score)`` gives members near those of the cover that are named, with no
        smaller score, as `InvarianceOracle.refine` does. It may be called by several threads.
    step : (d,) array or 0.0
        By what `members` were moved, and what `refine` gives is to be.
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
        mine = self.rows[rows], self.members[rows], self.mesh[rows]
        return type(self)(*mine, self.refine, self.step)

    def moved(self, step: np.ndarray) -> Self:
        moved = self.members + step
        return type(self)(self.rows, moved, self.mesh, self.refine, self.step + step)

    def from_points(self, points: np.ndarray) -> SquaredDistances:
        """See `Region.from_points`; by local search."""
        squares, numbers = nearest_members(points[:, None, :], self.members)
        each = np.repeat(points, len(self), axis=0)
        refined = self._nearest(each, np.tile(np.arange(len(self)), len(points)), numbers[..., 1])
        found = np.minimum(squares, _squares(each, refined).reshape(squares.shape))
        return _bounded(squares, found, self.mesh)

    def between(self, other: Any) -> SquaredDistances:
        """See `Region.between`; by local search on either side in turn."""
        squares, numbers = nearest_members(self.members, other.members)
        rows = [np.repeat(np.arange(len(self)), len(other)), np.tile(np.arange(len(other)), len(self))]
        sides, found = (self, other), squares
        points = self.members[rows[0], numbers[..., 0].ravel()]
        for turn in range(_TURNS):
            side = (turn + 1) % 2
            goals = points
            points = sides[side]._nearest(goals, rows[side], numbers[..., side])
            found = np.minimum(found, _squares(goals, points).reshape(squares.shape))
        return _bounded(squares, found, self.mesh[:, None] + other.mesh)

    def _nearest(self, goals: np.ndarray, rows: np.ndarray, numbers: np.ndarray) -> np.ndarray:
        """Members of rows near the cover's, refined toward goals, one for each pair."""

        def score(points: np.ndarray) -> np.ndarray:
            return -_squares(goals, points + self.step)

        return self.refine(self.rows[rows], numbers.ravel(), score) + self.step


def _squares(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    steps = left.astype(np.float64) - right
    return np.einsum("ij,ij->i", steps, steps)


def _bounded(squares: np.ndarray, found: np.ndarray, mesh: np.ndarray) -> SquaredDistances:
    """With what all distances are at least, from those to the cover."""
    least = np.sqrt(np.maximum(squares, 0.0)) - mesh
    least = np.square(np.maximum(least, 0.0)).astype(found.dtype, copy=False)
    return SquaredDistances(found, np.minimum(least, found))
