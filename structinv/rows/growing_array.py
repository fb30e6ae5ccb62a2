"""An array that grows at its end in a .npy file, with a checksum of each chunk."""

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
    """A .npy file that values are appended to.

    Parameters
    ----------
    path : Path
        A new file.
    dtype : dtype

    Attributes
    ----------
    count : int
        Number of values so far.
    checksums : list of int
        CRC-32 of each chunk that is closed.
    """

    def __init__(self, path: Path, dtype: np.dtype) -> None:
        self.path, self.dtype = path, dtype
        self.count, self.checksums = 0, list[int]()
        self._checksum, self._starts = 0, [0]
        # It stays open: the caller ends with `finish` or `close`.
        self._stream = open(path, "xb", buffering=1 << 20)  # noqa: SIM115
        self._stream.write(header(dtype, 0))

    def add(self, values: np.ndarray) -> None:
        """Append values to the chunk that is open."""
        content = np.ascontiguousarray(values, dtype=self.dtype)
        self._stream.write(content.data)
        self._checksum = zlib.crc32(content.data, self._checksum)
        self.count += len(content)

    def end_chunk(self, first: np.ndarray | None = None) -> None:
        """Close the chunk. The checksum of the next one starts with `first`, which is not written."""
        self.checksums.append(self._checksum)
        self._starts.append(self.count)
        self._checksum = 0 if first is None else zlib.crc32(first.data)

    def replaced(self, change: Callable[[np.ndarray], np.ndarray], dtype: np.dtype) -> GrowingArray:
        """The array with other values, in a new file that takes the place of this one.

        Parameters
        ----------
        change : callable
            Gives the new values of some in a row.
        dtype : dtype
            Of the new values.
        """
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
        other.path = other.path.replace(self.path)
        return other

    def finish(self) -> None:
        """Write the number of values, and see that all reaches the disk."""
        self._stream.seek(0)
        self._stream.write(header(self.dtype, self.count))
        self._stream.flush()
        os.fsync(self._stream.fileno())
        self._stream.close()

    def close(self) -> None:
        """Give the file up."""
        # What is buffered may not fit onto the disk.
        with suppress(OSError):
            self._stream.close()
