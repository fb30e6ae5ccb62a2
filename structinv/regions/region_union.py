"""Unions of regions, and distances between regions of different kinds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np

from .base import Region, SquaredDistances


class RegionUnion(Region):
    """Unions of regions; the distance is the smallest of those of the parts."""

    kind = "union"

    def __init__(self, regions: Sequence[Region]) -> None:
        self.regions = list(regions)

    def __len__(self) -> int:
        return len(self.regions[0])

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
