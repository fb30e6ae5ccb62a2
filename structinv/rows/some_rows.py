"""Selected rows of another row source."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..utils.matrices import Matrix, refuse_masked
from .base import RowSource
from .checked_blocks import read


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
