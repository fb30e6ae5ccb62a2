"""Some rows of another source."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..utils.matrices import Matrix
from .base import RowSource


class SomeRows(RowSource):
    """Rows of another source that are chosen by their numbers, such as those of a training part.

    Blocks of the other source are read as a whole, and the rows are taken from them. So a pass over some
    rows takes about the time of a pass over all rows, unless they lie next to each other.

    Parameters
    ----------
    rows : RowSource
    numbers : (n,) array-like of int, or (n_rows,) array-like of bool
        Row numbers from 0 on, or a mask of all rows. Numbers must not fall, and may be repeated: a row
        comes as often as its number.

    Raises
    ------
    TypeError
        If `rows` is no RowSource, or numbers are no integers.
    ValueError
        If there are no numbers, or if they are out of range or not in order.

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
            raise ValueError(f"numbers must lie in 0 to {n_rows - 1} and must not fall")
        self.rows = rows
        # Half the memory, where that is enough.
        self.numbers = numbers.astype(np.int32 if n_rows <= np.iinfo(np.int32).max else np.int64)
        self.shape = (len(numbers), rows.shape[1])
        self.dtype, self.sparse = rows.dtype, rows.sparse

    def __repr__(self) -> str:
        return f"SomeRows({self.shape[0]} rows of {self.rows!r})"

    @property
    def labels(self) -> np.ndarray | None:
        """The labels of these rows, (n,); None if the other source has none."""
        labels = self.rows.labels
        return None if labels is None else labels[self.numbers]

    def block(self, start: int, stop: int) -> Matrix:
        own = self.numbers[start:stop].astype(np.int64)
        first, last = int(own[0]), int(own[-1]) + 1
        block = self.rows.block(first, last)
        whole = last - first == len(own) and len(np.unique(own)) == len(own)
        return block if whole else block[own - first]

    def edges(self, most_values: int) -> np.ndarray:
        """Where the other source is cut, so that none of its blocks is read twice."""
        return np.unique(np.searchsorted(self.numbers, self.rows.edges(most_values))).astype(np.int64)
