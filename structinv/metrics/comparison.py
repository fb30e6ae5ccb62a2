"""Comparison of perturbation sets: sides, origin, tables of distances in tiles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..oracles import InvarianceOracle
from ..oracles.arguments import closest_of
from ..oracles.geometry import region_of, tangent_planes
from ..regions import Region
from ..regions.base import SquaredDistances, between
from ..regions.inner_products import fill_tables
from ..utils import plugins
from ..utils.parameters import brief

SIDES = ("one", "two", "mean")

Make = Callable[[InvarianceOracle, np.ndarray], Region]


class Comparison(NamedTuple):
    """Perturbation sets on two sides, and the kind of distance between them.

    - `left`: perturbation sets of X; the rows of X if `sides` is "one"
    - `right`: perturbation sets of Y
    - `sides`: kind of distance
    - `step` (d,): translation of all rows to a common origin, for precision
    """

    left: Region | np.ndarray
    right: Region
    sides: str
    step: np.ndarray

    @property
    def exact(self) -> bool:
        """True if distances are exact up to rounding."""
        return self.right.exact_between if self.sides == "two" else self.right.exact_from_points

    def distances(self, rows: slice, columns: slice) -> SquaredDistances:
        """Return distances between some rows of both sides: roots of squared distances."""
        right = self.right.part(columns)
        if not isinstance(self.left, Region):
            return _roots(right.from_points(self.left[rows]))
        left = self.left.part(rows)
        if self.sides == "two":
            return _roots(between(left, right))
        forth = _roots(right.from_points(np.ascontiguousarray(left.centers)))
        back = _roots(left.from_points(np.ascontiguousarray(right.centers)))
        found = 0.5 * (forth.upper + back.upper.T)
        return SquaredDistances(found, 0.5 * (forth.lower + back.lower.T))

    def others(self, oracle: InvarianceOracle, X: np.ndarray, make: Make) -> Comparison:
        """Return the comparison with other rows on the left side."""
        left = X + self.step if self.sides == "one" else make(oracle, X).moved(self.step)
        return self._replace(left=left)

    def numbers_a_pair(self) -> int:
        """Return the approximate number of values in memory per pair of rows."""
        return max(1, self.right.numbers_a_pair(self.sides == "two"))


def sets_of(tangents: bool) -> Make:
    """Return the function that makes the sets: `tangent_planes` or `region_of`."""
    return tangent_planes if tangents else region_of


def compare(
    oracle: InvarianceOracle, X: np.ndarray, Y: np.ndarray, sides: str, make: Make
) -> Comparison:
    """Return the perturbation sets of both sides, translated to a common origin."""
    # One pair first, since the sets of all rows may be slow.
    if len(X) > 1 or len(Y) > 1:
        _compared(oracle, X[:1], Y[:1], sides, make).distances(slice(0, 1), slice(0, 1))
    return _compared(oracle, X, Y, sides, make)


def compare_regions(left: Region, right: Region, sides: str) -> Comparison:
    """Return the comparison of given regions, translated to a common origin."""
    step = _to_origin(right)
    moved = right.moved(step)
    return Comparison(moved if left is right else left.moved(step), moved, sides, step)


def check_sizes(X: np.ndarray, Y: np.ndarray) -> None:
    """Raise ValueError if squares of entries overflow or lose precision."""
    _check_size(X)
    if Y is not X:
        _check_size(Y)


def _check_size(rows: np.ndarray) -> None:
    largest = float(np.max(np.abs(rows), initial=0.0))
    kind = np.finfo(rows.dtype)
    low, high = float(kind.tiny) ** 0.5 * 1e3, float(kind.max) ** 0.5 * 1e-3
    if largest > 0 and not low <= largest <= high:
        raise ValueError(
            f"the largest absolute value of rows of {rows.dtype} must be between {low:.0e} and "
            f"{high:.0e}, got {largest:.3g}: rescale the features"
        )


def _to_origin(region: Region) -> np.ndarray:
    centers = region.centers
    return (-np.mean(centers, axis=0, dtype=np.float64)).astype(centers.dtype)


def _compared(
    oracle: InvarianceOracle, X: np.ndarray, Y: np.ndarray, sides: str, make: Make
) -> Comparison:
    check_sizes(X, Y)
    right = make(oracle, Y)
    step = _to_origin(right)
    moved = right.moved(step)
    if X is Y and sides != "one":
        return Comparison(moved, moved, sides, step)
    return Comparison(X, moved, sides, step).others(oracle, X, make)


def table(compared: Comparison, n: int, m: int, same: bool) -> tuple[np.ndarray, np.ndarray]:
    """Compute distances and their lower bounds, (n, m) each, in several threads.

    Returns `found, least` (n, m).
    """
    found = np.empty((n, m), dtype=compared.right.centers.dtype)
    least = found if compared.exact else np.empty_like(found)
    tables = (found,) if least is found else (found, least)

    def make(rows: slice, columns: slice) -> tuple[np.ndarray, ...]:
        return compared.distances(rows, columns)[: len(tables)]

    # The error below replaces NumPy's warnings.
    with np.errstate(over="ignore", invalid="ignore"):
        fill_tables(tables, compared.numbers_a_pair(), same and compared.sides != "one", make)
    if not all(plugins.all_finite(each) for each in tables):
        raise ValueError(
            "distances must be finite, got NaN or infinity: rescale the features, since X or its "
            "perturbed samples are too large"
        )
    if same:
        for each in tables:
            np.fill_diagonal(each, 0.0)
    return found, least


def _roots(squares: SquaredDistances) -> SquaredDistances:
    found = np.sqrt(squares.upper)
    return SquaredDistances(found, found if squares.lower is squares.upper else np.sqrt(squares.lower))


def check_sides(sides: Any, allowed: tuple[str, ...] = SIDES) -> None:
    """Raise ValueError unless `sides` is one of the allowed values."""
    if not isinstance(sides, str) or sides not in allowed:
        raise ValueError(
            f"sides must be one of {list(allowed)}, got {brief(sides)}{closest_of(sides, allowed)}"
        )
