"""Rows of sliceable arrays: HDF5, zarr, dask and memory-mapped arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from ..utils.matrices import Matrix, check_indices, refuse_half_or_masked, refuse_masked
from .base import STRIPS_OF_A_BLOCK, RowSource
from .checked_blocks import check_finite
from .matrix_rows import cut_evenly

# Number of rows whose stored values give the size of blocks of sparse rows.
FIRST_ROWS = 64


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
    for first, last in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
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
