"""Tables of pairs of rows, computed in tiles by several threads."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..utils.matrices import in_threads, one_blas_thread

# Number of values in memory per tile; they fit in the cache of a core.
ENTRIES_PER_TILE = 2**20
_MOST_COLUMNS = 256
# Number of tiles between reactions to Ctrl-C.
_TILES_AT_ONCE = 4
# Work per value, in the units of `in_threads`.
_COST = 16


def fill_tables(
    tables: tuple[np.ndarray, ...],
    numbers: int,
    mirrored: bool,
    make: Callable[[slice, slice], tuple[np.ndarray, ...]],
) -> None:
    """Fill tables of the same pairs tile by tile, in several threads.

    Each thread uses one BLAS thread. Tiles depend on the sizes alone, so tables do not depend on the
    number of threads.

    Shapes: `tables` (n, m).
    """
    n, m = tables[0].shape
    parts = tiles(n, m, numbers, mirrored)

    def work(part: slice) -> None:
        for rows, columns in parts[part]:
            for table, tile in zip(tables, make(rows, columns), strict=True):
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
