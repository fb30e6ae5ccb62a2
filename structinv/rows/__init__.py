"""Out-of-core rows: folders on disk and sliceable arrays, read in blocks."""

from .base import RowSource
from .folder import RowFolder
from .sources import SlicedRows, SomeRows
from .writer import RowWriter

__all__ = ["RowFolder", "RowSource", "RowWriter", "SlicedRows", "SomeRows"]
