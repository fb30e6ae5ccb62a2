"""Rows of anything that slices by rows: HDF5 and zarr arrays, dask arrays, memory-mapped arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from ..utils.matrices import Matrix, refuse_half_or_masked
from .base import RowSource
from .matrix_rows import cut_evenly


class SlicedRows(RowSource):
    """Rows of an object that slices by rows, ``array[start:stop]``.

    Datasets of h5py, arrays of zarr and dask, and ``numpy.memmap`` are such objects. Each block is
    sliced, made an array of floats, and checked for numbers that are not finite. A slice that has a
    method ``compute``, as those of dask have, is computed.

    Parameters
    ----------
    array : object
        With a `shape` of two numbers and a `dtype`. A slice of rows is anything that ``numpy.asarray``
        takes, or a SciPy sparse matrix.
    density : float, default=1.0
        The share of values that a slice has in store, for sparse slices.

    Raises
    ------
    TypeError
        If the object has no shape of two numbers, or no dtype of real numbers.

    Examples
    --------
    >>> rows = SlicedRows(np.arange(6).reshape(3, 2))
    >>> rows.shape, rows.dtype, rows.block(1, 2).tolist()
    ((3, 2), dtype('float64'), [[2.0, 3.0]])
    """

    def __init__(self, array: Any, density: float = 1.0) -> None:
        shape, kind = getattr(array, "shape", None), getattr(array, "dtype", None)
        if not isinstance(shape, tuple) or len(shape) != 2 or min(shape) < 1:
            raise TypeError(f"array must have a shape of two numbers above 0, got {shape}")
        if kind is None or np.dtype(kind).kind not in "biuf":
            raise TypeError(f"array must have a dtype of real numbers, got {kind}")
        refuse_half_or_masked("array", array)
        self.array = array
        self.density = density
        self.shape = (int(shape[0]), int(shape[1]))
        self.dtype = np.dtype(np.float32 if np.dtype(kind) == np.float32 else np.float64)
        self.sparse = sp.issparse(self._slice(0, 1))

    def __repr__(self) -> str:
        n_rows, n_features = self.shape
        return f"SlicedRows({type(self.array).__name__}: {n_rows} rows, {n_features} features)"

    def block(self, start: int, stop: int) -> Matrix:
        rows = self._slice(start, stop)
        if sp.issparse(rows):
            rows = sp.csr_matrix(rows, dtype=self.dtype)
            if not rows.has_canonical_format:
                rows = rows.copy()
                rows.sum_duplicates()
        else:
            # A copy: the block must not change with the array, nor with the file that it maps.
            rows = np.array(rows, dtype=self.dtype, order="C")
        if rows.shape != (stop - start, self.shape[1]):
            raise ValueError(
                f"rows {start} to {stop - 1} must have shape {(stop - start, self.shape[1])}, got "
                f"{rows.shape}"
            )
        self._check_finite(rows, start)
        return rows

    def edges(self, most_values: int) -> np.ndarray:
        each = max(1, int(self.shape[1] * (self.density if self.sparse else 1.0)))
        return cut_evenly(self.shape[0], most_values // each)

    def _slice(self, start: int, stop: int) -> Any:
        found = self.array[start:stop]
        found = found.compute() if hasattr(found, "compute") else found
        return found if sp.issparse(found) else np.asarray(found)

    def _check_finite(self, rows: Matrix, start: int) -> None:
        values = rows.data if sp.issparse(rows) else rows
        if np.isfinite(values).all():
            return
        bad = np.flatnonzero(~np.isfinite(values).ravel())[0]
        ends = rows.indptr if sp.issparse(rows) else self.shape[1] * np.arange(rows.shape[0] + 1)
        row = int(np.searchsorted(ends, bad, side="right")) - 1
        raise ValueError(f"row {start + row} must hold finite numbers, got NaN or infinity")
