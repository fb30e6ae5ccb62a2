"""Base class of regions with the same body around every row."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Self

import numpy as np

from .base import Region, SquaredDistances


class Dilations(Region):
    """Base class of bodies with the same radius, or radii, around all rows.

    The distance between two bodies is the distance from a point to a body with the sum of the radii.

    Shapes: `centers` (n, d), `radius` (d,).
    """

    def __init__(self, centers: np.ndarray, radius: Any) -> None:
        self._centers = centers
        self.radius = radius

    def __len__(self) -> int:
        return len(self._centers)

    @property
    def centers(self) -> np.ndarray:
        return self._centers

    def part(self, rows: slice) -> Self:
        return type(self)(self._centers[rows], self.radius)

    def moved(self, step: np.ndarray) -> Self:
        return type(self)(self._centers + step, self.radius)

    def widened(self, other: Any) -> Region | None:
        if other.kind != self.kind:
            return super().widened(other)
        return type(self)(self._centers, self.radius + other.radius)

    def from_points(self, points: np.ndarray) -> SquaredDistances:
        return self._outside(points, self._centers, self.radius)

    def between(self, other: Any) -> SquaredDistances:
        return self._outside(self._centers, other.centers, self.radius + other.radius)

    @abstractmethod
    def _outside(self, left: np.ndarray, right: np.ndarray, radius: Any) -> SquaredDistances:
        """Return squared distances from points to bodies of this radius around other points."""
