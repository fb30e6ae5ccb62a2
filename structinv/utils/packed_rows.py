"""Dual variables of rows as arrays, of which those of some rows can be taken out and put back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from .matrices import ranges


@dataclass(frozen=True)
class RaggedLists:
    """A list of entries for each row.

    Parameters
    ----------
    counts : (n,) array of int
        How many entries each row has.
    entries : tuple of (sum of counts,) arrays
        Those of all rows, row by row.
    """

    counts: np.ndarray
    entries: tuple[np.ndarray, ...]

    @classmethod
    def join(cls, parts: Sequence[RaggedLists]) -> RaggedLists:
        """Those of several sets of rows."""
        columns = zip(*(part.entries for part in parts), strict=True)
        counts = np.concatenate([part.counts for part in parts])
        return cls(counts, tuple(np.concatenate(arrays) for arrays in columns))

    def as_matrix(self, n_columns: int) -> sp.csr_matrix:
        """A CSR matrix, for entries that are a column and a value."""
        columns, values = self.entries
        indptr = np.concatenate([[0], np.cumsum(self.counts)])
        return sp.csr_matrix((values, columns, indptr), shape=(len(self.counts), n_columns))

    def take(self, rows: np.ndarray) -> RaggedLists:
        """Those of some rows."""
        starts = np.cumsum(self.counts, dtype=np.int64) - self.counts
        places, _ = ranges(starts[rows], self.counts[rows])
        return RaggedLists(self.counts[rows], tuple(array[places] for array in self.entries))

    def put(self, rows: np.ndarray, other: RaggedLists) -> RaggedLists:
        """A copy in which some rows, in increasing order, have the entries of others."""
        replaced = np.zeros(len(self.counts), dtype=bool)
        replaced[rows] = True
        counts = self.counts.copy()
        counts[rows] = other.counts
        theirs, left = np.repeat(replaced, counts), ~np.repeat(replaced, self.counts)
        entries = []
        for array, new in zip(self.entries, other.entries, strict=True):
            joined = np.empty(len(theirs), dtype=array.dtype)
            joined[theirs], joined[~theirs] = new, array[left]
            entries.append(joined)
        return RaggedLists(counts, tuple(entries))


@dataclass(frozen=True)
class PackedRows:
    """Numbers of each row, and lists of entries.

    Parameters
    ----------
    each : tuple of (n, ...) arrays
        Numbers of which each row has as many.
    lists : tuple of Lists

    Examples
    --------
    >>> words = RaggedLists(np.array([2, 1]), (np.array([7, 8, 9]),))
    >>> packed = PackedRows((np.array([1.0, 2.0]),), (words,))
    >>> some = packed.take(np.array([1]))
    >>> packed.put(np.array([0]), some).lists[0].entries
    (array([9, 9]),)
    """

    each: tuple[np.ndarray, ...]
    lists: tuple[RaggedLists, ...] = ()

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        listed = [array for own in self.lists for array in (own.counts, *own.entries)]
        return sum(array.nbytes for array in (*self.each, *listed))

    @classmethod
    def join(cls, parts: Sequence[PackedRows]) -> PackedRows:
        """Those of several sets of rows."""
        columns = zip(*(part.each for part in parts), strict=True)
        listed = zip(*(part.lists for part in parts), strict=True)
        each = tuple(np.concatenate(arrays) for arrays in columns)
        return cls(each, tuple(RaggedLists.join(own) for own in listed))

    def take(self, rows: np.ndarray) -> PackedRows:
        """Those of some rows."""
        each = tuple(array[rows] for array in self.each)
        return PackedRows(each, tuple(own.take(rows) for own in self.lists))

    def put(self, rows: np.ndarray, other: PackedRows) -> PackedRows:
        """A copy in which some rows, in increasing order, have the numbers of others."""
        each = tuple(array.copy() for array in self.each)
        for array, new in zip(each, other.each, strict=True):
            array[rows] = new
        pairs = zip(self.lists, other.lists, strict=True)
        return PackedRows(each, tuple(own.put(rows, new) for own, new in pairs))
