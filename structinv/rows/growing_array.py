"""Appendable array in a .npy file, with a checksum per chunk."""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import numpy as np

from .stored_array import HEADER_BYTES, header


class GrowingArray:
    """Appendable array in a .npy file."""

    def __init__(self, path: Path, dtype: np.dtype) -> None:
        self.path, self.dtype = path, dtype
        self.count, self.checksums = 0, list[int]()
        self._checksum, self._starts = 0, [0]
        # The file stays open until the caller calls `finish` or `close`.
        self._stream = open(path, "xb", buffering=1 << 20)  # noqa: SIM115
        self._stream.write(header(dtype, 0))

    def add(self, values: np.ndarray) -> None:
        """Append values to the open chunk."""
        content = np.ascontiguousarray(values, dtype=self.dtype)
        self._stream.write(content.data)
        self._checksum = zlib.crc32(content.data, self._checksum)
        self.count += len(content)

    def end_chunk(self, first: np.ndarray | None = None) -> None:
        """Close the chunk, and begin the next checksum with `first`.

        `first` is not written.
        """
        self.checksums.append(self._checksum)
        self._starts.append(self.count)
        self._checksum = 0 if first is None else zlib.crc32(first.data)

    def replaced(self, change: Callable[[np.ndarray], np.ndarray], dtype: np.dtype) -> GrowingArray:
        """Return the array with other values, in a new file that replaces this one."""
        self._stream.flush()
        other = GrowingArray(self.path.with_suffix(".new"), dtype)
        try:
            with open(self.path, "rb") as stream:
                stream.seek(HEADER_BYTES)
                for first, last in pairwise(self._starts):
                    other.add(change(np.fromfile(stream, dtype=self.dtype, count=last - first)))
                    other.end_chunk()
                rest = self.count - self._starts[-1]
                other.add(change(np.fromfile(stream, dtype=self.dtype, count=rest)))
        except BaseException:
            other.close()
            raise
        self.close()
        other._take_path(self.path)
        return other

    def _take_path(self, path: Path) -> None:
        """Rename the file, which is closed meanwhile: Windows does not rename open files."""
        self._stream.close()
        self.path = self.path.replace(path)
        self._stream = open(path, "r+b", buffering=1 << 20)  # noqa: SIM115
        self._stream.seek(0, os.SEEK_END)

    def finish(self) -> None:
        """Write the number of values to the header, and flush the file to disk."""
        self._stream.seek(0)
        self._stream.write(header(self.dtype, self.count))
        self._stream.flush()
        os.fsync(self._stream.fileno())
        self._stream.close()

    def close(self) -> None:
        """Close the file without finishing it."""
        # The disk may be too full for the buffered values.
        with suppress(OSError):
            self._stream.close()
