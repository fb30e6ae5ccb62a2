"""Tables of pairs of rows, made in tiles by several threads."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..utils.matrices import in_threads, one_blas_thread

# Numbers that are held at once for a tile: they stay in a core's cache.
NUMBERS_A_TILE = 2**20
_MOST_COLUMNS = 256
# Tiles that are done before Ctrl-C is heard.
_TILES_AT_ONCE = 4
# Work on a number, in units of what a thread is worth.
_COST = 16


def fill_tables(
    tables: tuple[np.ndarray, ...],
    numbers: int,
    mirrored: bool,
    make: Callable[[slice, slice], tuple[np.ndarray, ...]],
) -> None:
    """Fill tables of the same pairs, by threads that each make tiles with one thread of BLAS.

    Tiles depend on the sizes alone, so that a table is the same for any number of threads.

    Parameters
    ----------
    tables : tuple of (n, m) arrays
        Filled in place.
    numbers : int
        About how many numbers are held at once for a pair.
    mirrored : bool
        Whether both sides are the same rows: what is below the diagonal is taken from above.
    make : callable
        From rows and columns to a tile of each table. Called by several threads.

    Examples
    --------
    >>> sums, table = np.add.outer([10.0, 20.0], [1.0, 2.0, 3.0]), np.empty((2, 3))
    >>> fill_tables((table,), 1, False, lambda rows, columns: (sums[rows, columns],))
    >>> table
    array([[11., 12., 13.],
           [21., 22., 23.]])
    """
    n, m = tables[0].shape
    parts = tiles(n, m, numbers, mirrored)

    def work(part: slice) -> None:
        for rows, columns in parts[part]:
            for table, tile in zip(tables, make(rows, columns), strict=True):
                if mirrored and rows == columns:
                    # Rounding, and searches, need not be the same from both sides.
                    tile = np.triu(tile) + np.triu(tile, 1).T
                elif mirrored:
                    table[columns, rows] = tile.T
                table[rows, columns] = tile

    if len(parts) == 1:
        # Pair by pair, threads and their limits would take most of the time.
        work(slice(0, 1))
        return
    with one_blas_thread():
        in_threads(work, len(parts), n * m * numbers * _COST, most=_TILES_AT_ONCE)


def tiles(n: int, m: int, numbers: int, mirrored: bool) -> list[tuple[slice, slice]]:
    """Blocks of rows and columns; of a symmetric table those on and above the diagonal."""
    pairs = max(1, NUMBERS_A_TILE // numbers)
    width = min(_MOST_COLUMNS, max(1, int(np.sqrt(pairs)) if mirrored else pairs), m)
    height = width if mirrored else max(1, pairs // width)
    rows, columns = (
        [slice(first, min(first + size, last)) for first in range(0, last, size)]
        for size, last in ((height, n), (width, m))
    )
    return [(r, c) for r in rows for c in columns if not mirrored or c.start >= r.start]
