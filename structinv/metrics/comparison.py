"""How two sets are compared, and tables of it in tiles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..matrices import in_threads, one_blas_thread
from ..oracles import InvarianceOracle
from ..oracles.arguments import closest_of
from ..oracles.geometry import region_of, tangent_planes
from ..regions import Region, SquaredDistances
from ..regions.parts import between

SIDES = ("one", "two", "mean")
# Numbers that are held at once for a tile: they stay in a core's cache.
_NUMBERS_A_TILE = 2**20
_MOST_COLUMNS = 256
# Tiles that are done before Ctrl-C is heard.
_TILES_AT_ONCE = 4

Make = Callable[[InvarianceOracle, np.ndarray], Region]


class Comparison(NamedTuple):
    """The sets of rows, and whose points are compared with whose.

    Attributes
    ----------
    left : Region or array
        The sets of X, or with `sides` "one" their rows alone.
    right : Region
        The sets of Y.
    sides : str
    step : (d,) array
        By what all rows were moved, so that few digits are lost.
    """

    left: Region | np.ndarray
    right: Region
    sides: str
    step: np.ndarray

    @property
    def exact(self) -> bool:
        """Whether distances are those of nearest points, up to rounding."""
        return self.right.exact_between if self.sides == "two" else self.right.exact_from_points

    def distances(self, rows: slice, columns: slice) -> SquaredDistances:
        """Distances, not their squares, of some rows of either side."""
        right = self.right.part(columns)
        if not isinstance(self.left, Region):
            return _roots(right.from_points(self.left[rows]))
        left = self.left.part(rows)
        if self.sides == "two":
            return _roots(between(left, right))
        forth = _roots(right.from_points(np.ascontiguousarray(left.centers)))
        back = _roots(left.from_points(np.ascontiguousarray(right.centers)))
        found = 0.5 * (forth.found + back.found.T)
        return SquaredDistances(found, 0.5 * (forth.least + back.least.T))

    def others(self, oracle: InvarianceOracle, X: np.ndarray, make: Make) -> Comparison:
        """The same with other rows on the left."""
        left = X + self.step if self.sides == "one" else make(oracle, X).moved(self.step)
        return self._replace(left=left)

    def numbers_a_pair(self) -> int:
        """About how many numbers are held at once for a pair of rows."""
        return max(1, self.right.numbers_a_pair(self.sides == "two"))


def sets_of(tangents: bool) -> Make:
    """What makes the sets of rows: those of the oracle, or its tangent planes."""
    return tangent_planes if tangents else region_of


def compare(
    oracle: InvarianceOracle, X: np.ndarray, Y: np.ndarray, sides: str, make: Make
) -> Comparison:
    """The sets of both sides around a common origin, where few digits are lost.

    Raises
    ------
    TypeError, ValueError, NotImplementedError
        If the oracle does not tell what is asked, before much is done.
    """
    # One pair first, since the sets of all rows may take long.
    if len(X) > 1 or len(Y) > 1:
        _compared(oracle, X[:1], Y[:1], sides, make).distances(slice(0, 1), slice(0, 1))
    return _compared(oracle, X, Y, sides, make)


def compare_regions(left: Region, right: Region, sides: str) -> Comparison:
    """The comparison of sets that are known already; see `compare`."""
    step = _to_origin(right)
    moved = right.moved(step)
    return Comparison(moved if left is right else left.moved(step), moved, sides, step)


def _to_origin(region: Region) -> np.ndarray:
    centers = region.centers
    return (-np.mean(centers, axis=0, dtype=np.float64)).astype(centers.dtype)


def _compared(
    oracle: InvarianceOracle, X: np.ndarray, Y: np.ndarray, sides: str, make: Make
) -> Comparison:
    right = make(oracle, Y)
    step = _to_origin(right)
    moved = right.moved(step)
    if X is Y and sides != "one":
        return Comparison(moved, moved, sides, step)
    return Comparison(X, moved, sides, step).others(oracle, X, make)


def table(compared: Comparison, n: int, m: int, same: bool) -> tuple[np.ndarray, np.ndarray]:
    """Distances that were found and what they are at least, (n, m) each, by several threads.

    Parameters
    ----------
    compared : Comparison
        Of n rows and m rows.
    n, m : int
    same : bool
        Whether both sides are the same rows: symmetric tables are then made by halves, and rows are at
        distance 0 from their own set.
    """
    found = np.empty((n, m), dtype=compared.right.centers.dtype)
    least = found if compared.exact else np.empty_like(found)
    mirrored = same and compared.sides != "one"

    def fill(rows: slice, columns: slice) -> None:
        some = compared.distances(rows, columns)
        found[rows, columns] = some.found
        if least is not found:
            least[rows, columns] = some.least
        if mirrored:
            for whole in (found,) if least is found else (found, least):
                tile = whole[rows, columns]
                # Rounding, and searches, need not be the same from both sides.
                whole[columns, rows] = np.triu(tile) + np.triu(tile, 1).T if rows == columns else tile.T

    tiles = _tiles(n, m, compared.numbers_a_pair(), mirrored)

    def work(part: slice) -> None:
        for rows, columns in tiles[part]:
            fill(rows, columns)

    with one_blas_thread():
        in_threads(work, len(tiles), n * m * compared.numbers_a_pair() * 16, most=_TILES_AT_ONCE)
    if same:
        np.fill_diagonal(found, 0.0)
        np.fill_diagonal(least, 0.0)
    return found, least


def _tiles(n: int, m: int, numbers: int, mirrored: bool) -> list[tuple[slice, slice]]:
    """Blocks of rows and columns; of a symmetric table those on and above the diagonal."""
    pairs = max(1, _NUMBERS_A_TILE // numbers)
    width = min(_MOST_COLUMNS, max(1, int(np.sqrt(pairs)) if mirrored else pairs), m)
    height = width if mirrored else max(1, pairs // width)
    rows = [slice(first, min(first + height, n)) for first in range(0, n, height)]
    columns = [slice(first, min(first + width, m)) for first in range(0, m, width)]
    kept: Any = [(r, c) for r in rows for c in columns if not mirrored or c.start >= r.start]
    return list(kept)


def _roots(squares: SquaredDistances) -> SquaredDistances:
    found = np.sqrt(squares.found)
    return SquaredDistances(found, found if squares.least is squares.found else np.sqrt(squares.least))


def check_sides(sides: Any, allowed: tuple[str, ...] = SIDES) -> None:
    """Raise ValueError unless it is one of the words allowed."""
    if not isinstance(sides, str) or sides not in allowed:
        raise ValueError(
            f"sides must be one of {list(allowed)}, got {sides!r}{closest_of(sides, allowed)}"
        )
