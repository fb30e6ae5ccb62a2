"""Reading and validation of blocks, before compiled functions use them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import scipy.sparse as sp

from ..utils import plugins
from ..utils.matrices import Matrix, check_indices, take
from .base import RowSource


def read(source: RowSource, cuts: Sequence[slice]) -> Matrix:
    """Read ranges of rows as one block; validate blocks of third-party sources."""
    rows = source.blocks(cuts)
    if plugins.is_third_party(source):
        name = f"the block of {type(source).__name__}"
        _check_kind(name, rows, source, sum(cut.stop - cut.start for cut in cuts))
        check_cuts(name, rows, cuts)
    return rows


def check_cuts(name: str, rows: Matrix, cuts: Sequence[slice]) -> None:
    """Raise ValueError unless rows have finite values and increasing indices."""
    at = 0
    for cut in cuts:
        part = take(rows, slice(at, at + cut.stop - cut.start))
        at += cut.stop - cut.start
        check_indices(name, part, cut.start)
        if sp.issparse(part):
            _check_order(name, part, cut.start)
        check_finite(name, part, cut.start)


def check_finite(name: str, rows: Matrix, first: int) -> None:
    """Raise ValueError for a row with NaN or infinity; `first` is the first number."""
    values = rows.data if sp.issparse(rows) else rows
    if plugins.all_finite(values):
        return
    bad = np.flatnonzero(~np.isfinite(values).ravel())[0]
    ends = rows.indptr if sp.issparse(rows) else rows.shape[1] * np.arange(rows.shape[0] + 1)
    row = first + int(np.searchsorted(ends, bad, side="right")) - 1
    raise ValueError(f"{name}: row {row} must contain finite numbers, got NaN or infinity")


def _check_order(name: str, rows: sp.csr_matrix, first: int) -> None:
    """Raise ValueError for a row with unsorted or repeated indices."""
    increasing = rows.indices[1:] > rows.indices[:-1]
    starts = rows.indptr[1:-1]
    increasing[starts[(starts > 0) & (starts < len(rows.indices))] - 1] = True
    if not increasing.all():
        row = np.searchsorted(rows.indptr, np.argmin(increasing), "right") - 1
        raise ValueError(
            f"{name} must have increasing indices in each row, got others in row {first + row}"
        )


def _check_kind(name: str, rows: Matrix, source: RowSource, n_rows: int) -> None:
    """Raise TypeError or ValueError unless a block is an array or CSR matrix as its source declares."""
    expected = "a CSR matrix" if source.sparse else "a C-contiguous array"
    found = sp.issparse(rows) and rows.format == "csr"
    if not source.sparse:
        found = isinstance(rows, np.ndarray) and rows.flags.c_contiguous
    if not found or rows.dtype != source.dtype:
        got = f"{type(rows).__name__} of {getattr(rows, 'dtype', 'objects')}"
        raise TypeError(f"{name} must be {expected} of {source.dtype}, got {got}")
    if rows.shape != (n_rows, source.shape[1]):
        raise ValueError(f"{name} must have shape {(n_rows, source.shape[1])}, got {rows.shape}")


def read_ahead(source: RowSource, blocks: Sequence[Sequence[slice]]) -> Iterator[Matrix]:
    """Yield the rows of each block. A thread reads one block ahead."""
    if len(blocks) == 0:
        return
    with ThreadPoolExecutor(1) as pool:
        following = pool.submit(read, source, blocks[0])
        for cuts in blocks[1:]:
            rows, following = following.result(), pool.submit(read, source, cuts)
            yield rows
        yield following.result()
