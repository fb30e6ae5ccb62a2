"""Base class of perturbation sets as geometry, and their unions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Self

import numpy as np


class SquaredDistances(NamedTuple):
    """Squared distances with lower bounds.

    Attributes
    ----------
    upper : ndarray of shape (n, m)
        Squared distances of the nearest points found, which are upper bounds.
    lower : ndarray of shape (n, m)
        Lower bounds; the same array as `upper` if distances are exact up to rounding.

    See Also
    --------
    Region : Base class with methods that return these distances.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.regions import Points
    >>> Points(np.array([[[0.0], [2.0]]])).from_points(np.array([[5.0]])).upper
    array([[9.]])
    """

    upper: np.ndarray
    lower: np.ndarray


class Region(ABC):
    """Base class of perturbation sets S(x_i) of rows, with distances.

    Methods are called for few rows at a time, by several threads. `between` compares regions of the
    same `kind`.

    Attributes
    ----------
    kind : str
        Name of the geometry, for messages.
    exact_from_points, exact_between : bool
        Whether `from_points` and `between` are exact up to rounding.

    See Also
    --------
    Points : Lists of points.
    InvarianceOracle : Its method `region` returns a region.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.oracles import Box
    >>> from structinv.regions import Region
    >>> region = Box(0.5).region(np.zeros((3, 2)))
    >>> isinstance(region, Region), region.kind, len(region)
    (True, 'box', 3)
    """

    kind: str = "region"
    exact_from_points: bool = True
    exact_between: bool = True

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.centers)

    @property
    @abstractmethod
    def centers(self) -> np.ndarray:
        """Unperturbed rows, (n, d)."""

    @abstractmethod
    def part(self, rows: slice) -> Self:
        """Return the sets of some rows.

        Parameters
        ----------
        rows : slice
            Rows.

        Returns
        -------
        Region
            Region of these rows.
        """

    @abstractmethod
    def moved(self, step: np.ndarray) -> Self:
        """Return the sets translated by a vector.

        Parameters
        ----------
        step : ndarray of shape (d,)
            Translation.

        Returns
        -------
        Region
            Translated region.
        """

    @abstractmethod
    def from_points(self, points: np.ndarray) -> SquaredDistances:
        """Return squared distances from points to the sets.

        Parameters
        ----------
        points : ndarray of shape (n, d)
            Points.

        Returns
        -------
        SquaredDistances
            Squared distances of shape (n, len(self)).
        """

    @abstractmethod
    def between(self, other: Any) -> SquaredDistances:
        """Return squared distances between the sets of two regions of the same kind.

        Parameters
        ----------
        other : Region
            Region of the same kind.

        Returns
        -------
        SquaredDistances
            Squared distances of shape (len(self), len(other)).
        """

    def widened(self, other: Any) -> Region | None:
        """Return the Minkowski sums with the sets of another region, each minus its row.

        Parameters
        ----------
        other : Region
            Region of the same rows.

        Returns
        -------
        Region or None
            Sums; None, the default, if they are not implemented for these kinds.
        """
        return None

    def listed(self) -> np.ndarray | None:
        """Return the points of all sets if these are finite.

        Returns
        -------
        ndarray of shape (n, s, d) or None
            Points; None, the default, for other sets.
        """
        return None

    def numbers_a_pair(self, between: bool) -> int:
        """Return the approximate number of values in memory per pair.

        Parameters
        ----------
        between : bool
            Whether pairs consist of two sets. Otherwise they consist of a point and a set.

        Returns
        -------
        int
            Number of values.
        """
        return 1


def exactly(squares: np.ndarray) -> SquaredDistances:
    """Return exact squared distances; negative rounding errors are set to 0."""
    np.maximum(squares, 0.0, out=squares)
    return SquaredDistances(squares, squares)


class RegionUnion(Region):
    """Unions of regions; the distance is the smallest of those of the parts."""

    kind = "union"

    def __init__(self, regions: Sequence[Region]) -> None:
        self.regions = list(regions)

    @property
    def centers(self) -> np.ndarray:
        return self.regions[0].centers

    @property
    def exact_from_points(self) -> bool:  # type: ignore[override]
        """True if distances from points are exact for all parts."""
        return all(each.exact_from_points for each in self.regions)

    @property
    def exact_between(self) -> bool:  # type: ignore[override]
        """True if both kinds of distances are exact for all parts."""
        return all(each.exact_between and each.exact_from_points for each in self.regions)

    def numbers_a_pair(self, between: bool) -> int:
        return max(each.numbers_a_pair(between) for each in self.regions)

    def part(self, rows: slice) -> Self:
        return type(self)([each.part(rows) for each in self.regions])

    def moved(self, step: np.ndarray) -> Self:
        return type(self)([each.moved(step) for each in self.regions])

    def from_points(self, points: np.ndarray) -> SquaredDistances:
        return _least([each.from_points(points) for each in self.regions])

    def between(self, other: Any) -> SquaredDistances:
        # For parts of different kinds, one of them must be a list.
        return _least([between(one, two) for one in self.regions for two in other.regions])


def between(left: Region, right: Region) -> SquaredDistances:
    """Return squared distances between the sets of two regions of any kinds."""
    if left.kind == right.kind:
        forth = left.between(right)
        if left.exact_between:
            return forth
        # A search from the other side may have another result.
        back = right.between(left)
        found = np.minimum(forth.upper, back.upper.T)
        return SquaredDistances(found, np.minimum(np.maximum(forth.lower, back.lower.T), found))
    lists = [each.listed() for each in (left, right)]
    if lists[0] is not None:
        return _of_members(lists[0], right.from_points)
    if lists[1] is not None:
        return SquaredDistances(*(each.T for each in _of_members(lists[1], left.from_points)))
    raise NotImplementedError(
        f"distances between a {left.kind} and a {right.kind} are not implemented: set sides to 'one' or "
        "'mean', which compare samples with sets"
    )


def _of_members(
    members: np.ndarray, distances: Callable[[np.ndarray], SquaredDistances]
) -> SquaredDistances:
    """Return the smallest distances over the points (n, s, d) of each list."""
    n, s, d = members.shape
    squares = distances(np.ascontiguousarray(members).reshape(-1, d))
    return SquaredDistances(*(each.reshape(n, s, -1).min(axis=1) for each in squares))


def _least(each: Sequence[SquaredDistances]) -> SquaredDistances:
    found = np.minimum.reduce([one.upper for one in each])
    return SquaredDistances(found, np.minimum.reduce([one.lower for one in each]))
