"""Out-of-core rows: folders on disk and sliceable arrays, read in blocks."""

from .base import RowSource
from .folder import RowFolder
from .sliced_rows import SlicedRows
from .some_rows import SomeRows
from .writer import RowWriter

__all__ = ["RowFolder", "RowSource", "RowWriter", "SlicedRows", "SomeRows"]
