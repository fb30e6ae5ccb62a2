"""The sets S(x) of some rows as geometry: what distances between sets ask."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NamedTuple, Self

import numpy as np


class SquaredDistances(NamedTuple):
    """Squares of distances: of the nearest points that were found, and what they are at least.

    Attributes
    ----------
    found : (n, m) array
        Squared distances of points of both sets: the true ones are at most these.
    least : (n, m) array
        What no points can be below. The array `found` itself where the nearest points are known
        exactly, up to rounding.
    """

    found: np.ndarray
    least: np.ndarray


class Region(ABC):
    """The sets S(x_i) of some rows.

    Distances are asked about few rows at a time, from several threads at once. `kind` tells what
    `between` can compare: regions of the same kind.

    Attributes
    ----------
    kind : str
        The name of the geometry, for messages.
    exact_from_points, exact_between : bool
        Whether `from_points` and `between` find the nearest points, up to rounding.
    """

    kind: str = "region"
    exact_from_points: bool = True
    exact_between: bool = True

    @abstractmethod
    def __len__(self) -> int:
        """The number of rows."""

    @property
    @abstractmethod
    def centers(self) -> np.ndarray:
        """The rows themselves, (n, d)."""

    @abstractmethod
    def part(self, rows: slice) -> Self:
        """The sets of some of the rows."""

    @abstractmethod
    def moved(self, step: np.ndarray) -> Self:
        """The same sets moved by a vector, (d,): distances do not change if all are moved alike."""

    @abstractmethod
    def from_points(self, points: np.ndarray) -> SquaredDistances:
        """From each point to each set.

        Parameters
        ----------
        points : (n, d) array

        Returns
        -------
        SquaredDistances
            Of shape (n, len(self)).
        """

    @abstractmethod
    def between(self, other: Any) -> SquaredDistances:
        """From each set to each set of another region of the same kind, (len(self), len(other))."""

    def widened(self, other: Any) -> Region | None:
        """The sums of each set and that of another region around the same rows, less the row itself.

        None, the default, where the sum of these kinds is not known.
        """
        return None

    def listed(self) -> np.ndarray | None:
        """All points of each set, (n, s, d), where these are lists; None, the default, elsewhere."""
        return None

    def numbers_a_pair(self, between: bool) -> int:
        """About how many numbers are held at once for a pair: of two sets, or of a point and a set."""
        return 1


def exactly(squares: np.ndarray) -> SquaredDistances:
    """Squares that rounding may have left a little below 0, as they are known exactly."""
    np.maximum(squares, 0.0, out=squares)
    return SquaredDistances(squares, squares)
