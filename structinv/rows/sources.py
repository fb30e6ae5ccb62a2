"""Row sources: matrices in memory, sliceable arrays such as HDF5, selected rows."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..utils.matrices import Matrix, check_indices, refuse_half_or_masked, refuse_masked, take
from .base import STRIPS_OF_A_BLOCK, RowSource
from .reading import check_finite, read

# Number of rows whose stored values give the size of blocks of sparse rows.
FIRST_ROWS = 64


class MatrixRows(RowSource):
    """Rows of an array or a CSR matrix. Blocks are views.

    Shapes: `X` (n, d).
    """

    def __init__(self, X: Matrix) -> None:
        self.X: Any = X
        self.shape = X.shape
        self.dtype = X.dtype
        self.sparse = sp.issparse(X)

    def block(self, start: int, stop: int) -> Matrix:
        return take(self.X, slice(start, stop))

    def edges(self, most_values: int) -> np.ndarray:
        n_rows, n_features = self.shape
        if self.sparse:
            return cut_by_entries(self.X.indptr, most_values)
        return cut_evenly(n_rows, most_values // max(1, n_features))


def cut_evenly(n_rows: int, most_rows: int) -> np.ndarray:
    """Return edges of equal blocks of at most `most_rows` rows, at least one."""
    n_blocks = max(1, -(-n_rows // max(1, most_rows)))
    return np.linspace(0, n_rows, n_blocks + 1).astype(np.int64)


def cut_by_entries(indptr: np.ndarray, most_entries: int) -> np.ndarray:
    """Return edges of blocks with similar numbers of entries, up to `most_entries`.

    The limit is approximate.
    """
    n_rows, n_entries = len(indptr) - 1, int(indptr[-1])
    n_blocks = max(1, -(-n_entries // max(1, most_entries)))
    inner = np.searchsorted(indptr, np.linspace(0, n_entries, n_blocks + 1)[1:-1])
    return np.unique(np.concatenate([[0], inner, [n_rows]])).astype(np.int64)


def chunk_edges(chunks: Any, n_rows: int) -> np.ndarray | None:
    """Return the edges of chunks of rows; None without chunks."""
    if not isinstance(chunks, tuple) or len(chunks) == 0:
        return None
    sizes = chunks[0]
    ends = np.cumsum(sizes) if isinstance(sizes, tuple) else np.arange(sizes, n_rows + sizes, sizes)
    return np.unique(np.minimum(np.concatenate([[0], ends]), n_rows)).astype(np.int64)


def cut_by_chunks(edges: np.ndarray, most_rows: int) -> np.ndarray:
    """Return edges of blocks of at most `most_rows` rows, preferably between chunks."""
    cuts = [0]
    for first, last in pairwise(edges.tolist()):
        if last - cuts[-1] > most_rows and first > cuts[-1]:
            cuts.append(first)
        if last - first > most_rows:
            cuts += (first + cut_evenly(last - first, most_rows)[1:]).tolist()
    return np.unique([*cuts, edges[-1]]).astype(np.int64)


class SlicedRows(RowSource):
    """Rows of an object that supports ``array[start:stop]``.

    Such objects are datasets of h5py, arrays of zarr and dask, and ``numpy.memmap``. Each block is
    sliced, converted to floats, and checked for NaN and infinity. If a slice has a method ``compute``,
    as in dask, the method is called.

    Parameters
    ----------
    array : object
        Two-dimensional, nonempty array with the attributes `shape` and `dtype` (real numbers). A slice
        must be a SciPy sparse matrix or convertible by ``numpy.asarray``.

    Raises
    ------
    TypeError
        If `shape` or `dtype` is absent or not supported.

    See Also
    --------
    RowFolder : Sparse rows in a folder on disk.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.rows import SlicedRows
    >>> rows = SlicedRows(np.arange(6).reshape(3, 2))
    >>> rows.shape, rows.dtype, rows.block(1, 2).tolist()
    ((3, 2), dtype('float64'), [[2.0, 3.0]])
    """

    def __init__(self, array: Any) -> None:
        shape, kind = getattr(array, "shape", None), getattr(array, "dtype", None)
        if not isinstance(shape, tuple) or len(shape) != 2 or min(shape) < 1:
            raise TypeError(f"array must have a shape of two positive numbers, got {shape}")
        if kind is None or np.dtype(kind).kind not in "biuf":
            raise TypeError(f"array must have a dtype of real numbers, got {kind}")
        refuse_half_or_masked("array", array)
        self.array = array
        self.shape = (int(shape[0]), int(shape[1]))
        self.dtype = np.dtype(np.float32 if np.dtype(kind) == np.float32 else np.float64)
        first = self._slice(0, min(self.shape[0], FIRST_ROWS))
        self.sparse = sp.issparse(first)
        self._chunks = chunk_edges(getattr(array, "chunks", None), self.shape[0])
        self._values_of_a_row = max(1, first.nnz // first.shape[0]) if self.sparse else self.shape[1]

    def __repr__(self) -> str:
        n_rows, n_features = self.shape
        return f"SlicedRows({type(self.array).__name__}: {n_rows} rows, {n_features} features)"

    def block(self, start: int, stop: int) -> Matrix:
        rows = self._slice(start, stop)
        if sp.issparse(rows):
            check_indices("array", rows, start)
            rows = sp.csr_matrix(rows, dtype=self.dtype)
            if not rows.has_canonical_format:
                rows = rows.copy()
                rows.sum_duplicates()
        else:
            # A copy, because the array or a memory-mapped file may change.
            rows = np.array(rows, dtype=self.dtype, order="C")
        if rows.shape != (stop - start, self.shape[1]):
            raise ValueError(
                f"rows {start} to {stop - 1} must have shape {(stop - start, self.shape[1])}, got "
                f"{rows.shape}"
            )
        check_finite("array", rows, start)
        return rows

    def edges(self, most_values: int) -> np.ndarray:
        # Blocks consist of whole chunks, unless a chunk exceeds the limit.
        most_rows = max(1, most_values // self._values_of_a_row)
        if self._chunks is None:
            return cut_evenly(self.shape[0], most_rows)
        return cut_by_chunks(self._chunks, most_rows)

    def _strip_edges(self, most_values: int) -> np.ndarray:
        """Return edges of strips of whole chunks; a part of a chunk takes as long as the chunk."""
        least = most_values // STRIPS_OF_A_BLOCK
        if self._chunks is not None:
            least = max(least, int(np.diff(self._chunks).max()) * self._values_of_a_row)
        return self.edges(max(1, min(most_values, least)))

    def _slice(self, start: int, stop: int) -> Any:
        rows = self.array[start:stop]
        rows = rows.compute() if hasattr(rows, "compute") else rows
        refuse_masked("array", rows)
        return rows if sp.issparse(rows) else np.asarray(rows)


class SomeRows(RowSource):
    """Rows of another source, selected by number, such as a training set.

    Whole blocks of the other source are read. A pass over some rows therefore takes about as long as a
    pass over all rows, unless the rows are adjacent.

    Parameters
    ----------
    rows : RowSource
        Source of the rows.
    numbers : array-like of int of shape (n,), or array-like of bool of shape (n_rows,)
        Row numbers from 0, or a mask of all rows. Numbers must be in nondecreasing order. A repeated
        number repeats its row.

    Raises
    ------
    TypeError
        If `rows` is not a RowSource, or numbers are not integers.
    ValueError
        If numbers are empty, out of range or not in order.

    See Also
    --------
    SlicedRows : Rows of a sliceable array.
    RowFolder : Sparse rows in a folder on disk.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.rows import SlicedRows, SomeRows
    >>> rows = SlicedRows(np.arange(10).reshape(5, 2))
    >>> some = SomeRows(rows, [0, 1, 4])
    >>> some.shape, some.block(1, 3).tolist()
    ((3, 2), [[2.0, 3.0], [8.0, 9.0]])
    """

    def __init__(self, rows: RowSource, numbers: Any) -> None:
        if not isinstance(rows, RowSource):
            raise TypeError(f"rows must be a RowSource, got {rows!r}")
        n_rows = rows.shape[0]
        refuse_masked("numbers", numbers)
        numbers = np.asarray(numbers)
        if numbers.dtype.kind == "b":
            if numbers.shape != (n_rows,):
                raise ValueError(f"a mask must have shape ({n_rows},), got {numbers.shape}")
            numbers = np.flatnonzero(numbers)
        if numbers.ndim != 1 or len(numbers) == 0:
            raise ValueError(f"numbers must have shape (n,) with n above 0, got {numbers.shape}")
        if numbers.dtype.kind not in "iu":
            raise TypeError(f"numbers must be integers or booleans, got {numbers.dtype}")
        if numbers[0] < 0 or numbers[-1] >= n_rows or np.any(numbers[1:] < numbers[:-1]):
            raise ValueError(f"numbers must be from 0 to {n_rows - 1}, and sorted")
        self.rows = rows
        # int32 takes half the memory.
        self.numbers = numbers.astype(np.int32 if n_rows <= np.iinfo(np.int32).max else np.int64)
        self.shape = (len(numbers), rows.shape[1])
        self.dtype, self.sparse = rows.dtype, rows.sparse

    def __repr__(self) -> str:
        return f"SomeRows({self.shape[0]} rows of {self.rows!r})"

    @property
    def labels(self) -> np.ndarray | None:
        """Labels of the selected rows, (n,); None if the other source has no labels."""
        labels = self.rows.labels
        return None if labels is None else labels[self.numbers]

    def block(self, start: int, stop: int) -> Matrix:
        numbers = self.numbers[start:stop].astype(np.int64)
        first, last = int(numbers[0]), int(numbers[-1]) + 1
        block = read(self.rows, [slice(first, last)])
        is_whole = last - first == len(numbers) and len(np.unique(numbers)) == len(numbers)
        return block if is_whole else block[numbers - first]

    def edges(self, most_values: int) -> np.ndarray:
        # Blocks end where blocks of the other source end, so each of its blocks is read only once.
        return np.unique(np.searchsorted(self.numbers, self.rows.edges(most_values))).astype(np.int64)
