"""Iteration over rows: all rows of a file at once, rows of a folder in blocks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sklearn.utils.validation import _num_samples

from ..estimators.row_sources import in_blocks
from ..rows import RowSource


def parts_of(X: Any) -> Iterator[tuple[Any, slice]]:
    """Yield parts of the rows, in order, with the slice of their numbers."""
    if isinstance(X, RowSource):
        yield from in_blocks(X, lambda rows, numbers: (rows, numbers))
    else:
        yield X, slice(0, _num_samples(X))
