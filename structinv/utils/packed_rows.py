"""Arrays of dual variables per row, with extraction and replacement of rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from .matrices import ranges


@dataclass(frozen=True)
class RaggedLists:
    """One list of entries per row.

    - `counts` (n,): number of entries of each row
    - `entries` (sum of counts,): entries of all rows, row by row
    """

    counts: np.ndarray
    entries: tuple[np.ndarray, ...]

    @classmethod
    def join(cls, parts: Sequence[RaggedLists]) -> RaggedLists:
        """Concatenate the lists of several sets of rows."""
        columns = zip(*(part.entries for part in parts), strict=True)
        counts = np.concatenate([part.counts for part in parts])
        return cls(counts, tuple(np.concatenate(arrays) for arrays in columns))

    def as_matrix(self, n_columns: int) -> sp.csr_matrix:
        """Return a CSR matrix; the entries must be columns and values."""
        columns, values = self.entries
        indptr = np.concatenate([[0], np.cumsum(self.counts)])
        return sp.csr_matrix((values, columns, indptr), shape=(len(self.counts), n_columns))

    def take(self, rows: np.ndarray) -> RaggedLists:
        """Return the lists of some rows."""
        starts = np.cumsum(self.counts, dtype=np.int64) - self.counts
        places, _ = ranges(starts[rows], self.counts[rows])
        return RaggedLists(self.counts[rows], tuple(array[places] for array in self.entries))

    def put(self, rows: np.ndarray, other: RaggedLists) -> RaggedLists:
        """Return a copy with the lists of some rows, in increasing order, replaced."""
        replaced = np.zeros(len(self.counts), dtype=bool)
        replaced[rows] = True
        counts = self.counts.copy()
        counts[rows] = other.counts
        is_new, is_unchanged = np.repeat(replaced, counts), ~np.repeat(replaced, self.counts)
        entries = []
        for array, new in zip(self.entries, other.entries, strict=True):
            joined = np.empty(len(is_new), dtype=array.dtype)
            joined[is_new], joined[~is_new] = new, array[is_unchanged]
            entries.append(joined)
        return RaggedLists(counts, tuple(entries))


@dataclass(frozen=True)
class PackedRows:
    """Fixed-size arrays and lists of entries per row.

    - `arrays` (n, ...): arrays with the rows on axis 0
    - `lists`: lists of different lengths
    """

    arrays: tuple[np.ndarray, ...]
    lists: tuple[RaggedLists, ...] = ()

    @property
    def nbytes(self) -> int:
        """Number of bytes of all arrays."""
        listed = [array for each in self.lists for array in (each.counts, *each.entries)]
        return sum(array.nbytes for array in (*self.arrays, *listed))

    @classmethod
    def join(cls, parts: Sequence[PackedRows]) -> PackedRows:
        """Concatenate several sets of rows."""
        columns = zip(*(part.arrays for part in parts), strict=True)
        listed = zip(*(part.lists for part in parts), strict=True)
        each = tuple(np.concatenate(arrays) for arrays in columns)
        return cls(each, tuple(RaggedLists.join(group) for group in listed))

    def take(self, rows: np.ndarray) -> PackedRows:
        """Return some rows."""
        each = tuple(array[rows] for array in self.arrays)
        return PackedRows(each, tuple(lists.take(rows) for lists in self.lists))

    def put(self, rows: np.ndarray, other: PackedRows) -> PackedRows:
        """Return a copy with some rows, in increasing order, replaced."""
        each = tuple(array.copy() for array in self.arrays)
        for array, new in zip(each, other.arrays, strict=True):
            array[rows] = new
        pairs = zip(self.lists, other.lists, strict=True)
        return PackedRows(each, tuple(lists.put(rows, new) for lists, new in pairs))
