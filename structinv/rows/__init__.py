"""Rows that need not fit into memory: folders of rows on disk, read in blocks."""

from .base import RowSource
from .folder import RowFolder
from .writer import RowWriter

__all__ = ["RowFolder", "RowSource", "RowWriter"]
