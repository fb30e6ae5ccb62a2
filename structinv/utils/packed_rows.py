"""Dual variables of rows as arrays, of which those of some rows can be taken out and put back."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .matrices import ranges


@dataclass(frozen=True)
class PackedRows:
    """Numbers of each row, and a list of entries for each row.

    Parameters
    ----------
    each : tuple of (n, ...) arrays
        Numbers of which each row has as many.
    counts : (n,) array of int
        How many entries each row has.
    entries : tuple of (sum of counts,) arrays
        Those of all rows, row by row.

    Examples
    --------
    >>> packed = PackedRows((np.array([1.0, 2.0]),), np.array([2, 1]), (np.array([7, 8, 9]),))
    >>> some = packed.take(np.array([1]))
    >>> packed.put(np.array([0]), some).entries
    (array([9, 9]),)
    """

    each: tuple[np.ndarray, ...]
    counts: np.ndarray
    entries: tuple[np.ndarray, ...] = ()

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(array.nbytes for array in (*self.each, self.counts, *self.entries))

    def take(self, rows: np.ndarray) -> PackedRows:
        """Those of some rows."""
        starts = np.cumsum(self.counts, dtype=np.int64) - self.counts
        places, _ = ranges(starts[rows], self.counts[rows])
        each = tuple(array[rows] for array in self.each)
        return PackedRows(each, self.counts[rows], tuple(array[places] for array in self.entries))

    def put(self, rows: np.ndarray, other: PackedRows) -> PackedRows:
        """A copy in which some rows, in increasing order, have the numbers of others."""
        replaced = np.zeros(len(self.counts), dtype=bool)
        replaced[rows] = True
        each = tuple(array.copy() for array in self.each)
        for array, new in zip(each, other.each, strict=True):
            array[rows] = new
        counts = self.counts.copy()
        counts[rows] = other.counts
        theirs, left = np.repeat(replaced, counts), ~np.repeat(replaced, self.counts)
        entries = []
        for array, new in zip(self.entries, other.entries, strict=True):
            joined = np.empty(len(theirs), dtype=array.dtype)
            joined[theirs], joined[~theirs] = new, array[left]
            entries.append(joined)
        return PackedRows(each, counts, tuple(entries))
