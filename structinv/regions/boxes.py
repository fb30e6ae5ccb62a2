"""Regions with the same body around every row, such as boxes."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Self

import numpy as np

from ..utils.jit import LEAN, njit
from .base import Region, SquaredDistances, exactly


class Dilations(Region):
    """Base class of bodies with the same radius, or radii, around all rows.

    The distance between two bodies is the distance from a point to a body with the sum of the radii.

    Shapes: `centers` (n, d), `radius` (d,).
    """

    def __init__(self, centers: np.ndarray, radius: Any) -> None:
        self._centers = centers
        self.radius = radius

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


class Boxes(Dilations):
    r"""Axis-aligned boxes with the same radii around all rows.

    The distance from a point is ``sqrt(sum_i max(0, |x_i - y_i| - r_i)^2)``. Between two boxes the radii
    are added (Pozdnoukhov and Bengio 2006, eqs. 14 and 15; the printed eq. 15 lacks the square).

    Parameters
    ----------
    centers : ndarray of shape (n, d)
        Centers of the boxes.
    radius : ndarray of shape (d,)
        Radii along the axes (>= 0).

    See Also
    --------
    Ellipsoids : Ellipsoids around rows.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.regions import Boxes
    >>> boxes = Boxes(np.array([[0.0, 0.0]]), np.array([1.0, 0.5]))
    >>> np.sqrt(boxes.from_points(np.array([[4.0, 4.5]])).upper)
    array([[5.]])
    """

    kind = "box"

    def _outside(self, left: np.ndarray, right: np.ndarray, radius: np.ndarray) -> SquaredDistances:
        dtype = np.result_type(left, right)
        squares = np.empty((len(left), len(right)), dtype=dtype)
        left, right = (np.ascontiguousarray(each, dtype=dtype) for each in (left, right))
        _outside_boxes(left, right, radius.astype(dtype), squares)
        return exactly(squares)


@njit(**LEAN, fastmath={"reassoc", "contract"})
def _outside_boxes(left, right, radius, squares):
    nothing = radius.dtype.type(0.0)
    for i in range(left.shape[0]):
        x = left[i]
        for j in range(right.shape[0]):
            y = right[j]
            total = nothing
            for k in range(len(radius)):
                outside = abs(x[k] - y[k]) - radius[k]
                outside = outside if outside > nothing else nothing
                total += outside * outside
            squares[i, j] = total
