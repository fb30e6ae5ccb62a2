"""Inner products of points and directions, and tables of pairs in tiles."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Self

import numpy as np

from ..utils.matrices import in_threads, one_blas_thread

# Number of rows per task of a thread.
_ROWS_AT_ONCE = 256


class Stack(NamedTuple):
    """Rows with directions, and their inner products.

    - `vectors` (n, 1 + r, d): each row, followed by its r directions
    - `grams` (n, 1 + r, 1 + r): inner products of the vectors of each row
    """

    vectors: np.ndarray
    grams: np.ndarray

    @classmethod
    def of(cls, centers: np.ndarray, directions: np.ndarray) -> Self:
        """Create a stack of rows (n, d) and directions (n, r, d), with the rows' dtype."""
        parts = [centers[:, None, :], directions.astype(centers.dtype, copy=False)]
        return cls.from_vectors(np.concatenate(parts, axis=1))

    @classmethod
    def from_vectors(cls, vectors: np.ndarray) -> Self:
        """Create a stack of vectors (n, 1 + r, d)."""
        grams = np.empty((*vectors.shape[:2], vectors.shape[1]))

        def fill(rows: slice) -> None:
            part = vectors[rows].astype(np.float64, copy=False)
            np.matmul(part, part.swapaxes(1, 2), out=grams[rows])

        with one_blas_thread():
            in_threads(fill, len(vectors), 4 * vectors.size, most=_ROWS_AT_ONCE)
        return cls(vectors, grams)

    @property
    def size(self) -> int:
        """Number of vectors per row, 1 + r."""
        return self.vectors.shape[1]

    def part(self, rows: slice) -> Stack:
        """Return the stack of some rows."""
        return Stack(self.vectors[rows], self.grams[rows])

    def in_double(self) -> Stack:
        """Return the stack in double precision."""
        return Stack(self.vectors.astype(np.float64, copy=False), self.grams)

    def moved(self, step: np.ndarray) -> Stack:
        """Return the stack with translated rows and unchanged directions."""
        vectors = self.vectors.copy()
        vectors[:, 0] += step
        return Stack.from_vectors(vectors)


def pair_products(left: Stack, right: Stack) -> np.ndarray:
    """Compute the inner products of all vectors of two stacks by one matrix product.

    Let x and y be rows with directions T and R. Then

    - ``|x - y|^2`` is ``grams[i, 0, 0] + grams[j, 0, 0] - 2 products[i, 0, j, 0]``,
    - ``<T_a, x - y>`` is ``grams[i, a, 0] - products[i, a, j, 0]``,
    - ``<R_b, x - y>`` is ``products[i, 0, j, b] - grams[j, b, 0]``.

    Returns shape (n, 1 + r, m, 1 + s).
    """
    d = left.vectors.shape[2]
    products = left.vectors.reshape(-1, d) @ right.vectors.reshape(-1, d).T
    return products.reshape(len(left.vectors), left.size, len(right.vectors), right.size)


# Number of values in memory per tile; they fit in the cache of a core.
ENTRIES_PER_TILE = 2**20
_MOST_COLUMNS = 256
# Number of tiles between reactions to Ctrl-C.
_TILES_AT_ONCE = 4
# Work per value, in the units of `in_threads`.
_COST = 16


def fill_table(
    table: np.ndarray, numbers: int, mirrored: bool, make: Callable[[slice, slice], np.ndarray]
) -> None:
    """Fill a table of pairs tile by tile, in several threads.

    Each thread uses one BLAS thread. Tiles depend on the sizes alone, so the table does not depend on
    the number of threads.

    Shapes: `table` (n, m).
    """
    n, m = table.shape
    parts = tiles(n, m, numbers, mirrored)

    def work(part: slice) -> None:
        for rows, columns in parts[part]:
            tile = make(rows, columns)
            if mirrored and rows == columns:
                # Rounding and searches may differ between both sides.
                tile = np.triu(tile) + np.triu(tile, 1).T
            elif mirrored:
                table[columns, rows] = tile.T
            table[rows, columns] = tile

    if len(parts) == 1:
        # For a single tile, threads cost time and save none.
        work(slice(0, 1))
        return
    with one_blas_thread():
        in_threads(work, len(parts), n * m * numbers * _COST, most=_TILES_AT_ONCE)


def tiles(n: int, m: int, numbers: int, mirrored: bool) -> list[tuple[slice, slice]]:
    """Return tiles of rows and columns; only the upper ones for symmetric tables."""
    pairs = max(1, ENTRIES_PER_TILE // numbers)
    width = min(_MOST_COLUMNS, max(1, int(np.sqrt(pairs)) if mirrored else pairs), m)
    height = width if mirrored else max(1, pairs // width)
    rows, columns = (
        [slice(first, min(first + size, last)) for first in range(0, last, size)]
        for size, last in ((height, n), (width, m))
    )
    return [(r, c) for r in rows for c in columns if not mirrored or c.start >= r.start]
