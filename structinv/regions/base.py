"""Base class of regions: perturbation sets as geometric sets, with distances."""

from __future__ import annotations

from abc import ABC, abstractmethod
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

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of rows."""

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
