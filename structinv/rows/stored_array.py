"""One .npy file of a folder of rows: a reader and a writer."""

from __future__ import annotations

import os
import zlib
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

import numpy as np

from ..utils.files import named_errors

# All headers have the same length: the final one overwrites the first one.
HEADER_BYTES = 128
_MAGIC = b"\x93NUMPY\x01\x00"
# Number of bytes that a checksum reads at once.
_AT_ONCE = 1 << 24


def header(dtype: np.dtype, count: int) -> bytes:
    """Return the header of a .npy file with `count` values."""
    text = f"{{'descr': {dtype.str!r}, 'fortran_order': False, 'shape': ({count},), }}"
    length = HEADER_BYTES - len(_MAGIC) - 2
    return _MAGIC + length.to_bytes(2, "little") + text.ljust(length - 1).encode("ascii") + b"\n"


class StoredArray:
    """A .npy file with `count` values. Several threads may read at once."""

    def __init__(self, path: Path, dtype: np.dtype, count: int) -> None:
        self.path, self.dtype, self.count = path, dtype, count
        self.n_bytes = HEADER_BYTES + count * dtype.itemsize
        with named_errors(path), open(path, "rb") as stream:
            self._opened = _state(stream)
            size, start = self._opened[0], stream.read(HEADER_BYTES)
        if size != self.n_bytes:
            change = "truncated" if size < self.n_bytes else "too long"
            raise OSError(
                f"{path} is {change}: it must have {self.n_bytes} bytes according to its manifest, got "
                f"{size}"
            )
        if start != header(dtype, count):
            raise OSError(f"{path} must have the header of a .npy file of {count} values of {dtype}")

    def read(self, first: int, last: int) -> np.ndarray:
        """Read the values from `first` to `last`, exclusive, into a new array."""
        values = np.empty(last - first, dtype=self.dtype)
        self.read_into(values, first)
        return values

    def read_into(self, values: np.ndarray, first: int) -> None:
        """Fill an array with the values from `first` on.

        A file that changed raises OSError.
        """
        with named_errors(self.path), open(self.path, "rb") as stream:
            stream.seek(HEADER_BYTES + first * self.dtype.itemsize)
            n_read = stream.readinto(values.view(np.uint8).data)
            state = _state(stream)
        if state != self._opened or n_read < values.nbytes:
            change = "truncated" if state[0] < self._opened[0] else "changed"
            raise OSError(f"{self.path} cannot be read: the file was {change} after it was opened")

    def checksum(self) -> int:
        """Return the CRC-32 of all values."""
        checksum, step = 0, _AT_ONCE // self.dtype.itemsize
        for first in range(0, self.count, step):
            checksum = zlib.crc32(self.read(first, min(first + step, self.count)).data, checksum)
        return checksum


class GrowingArray:
    """Appendable array in a new .npy file."""

    def __init__(self, path: Path, dtype: np.dtype) -> None:
        self.dtype, self.count, self.checksum = dtype, 0, 0
        # The file stays open until the caller calls `finish` or `close`.
        self._stream = open(path, "xb", buffering=1 << 20)  # noqa: SIM115
        self._stream.write(header(dtype, 0))

    def add(self, values: np.ndarray) -> None:
        """Append values."""
        content = np.ascontiguousarray(values, dtype=self.dtype)
        self._stream.write(content.data)
        self.checksum = zlib.crc32(content.data, self.checksum)
        self.count += len(content)

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


def _state(stream: BinaryIO) -> tuple[int, int]:
    stat = os.fstat(stream.fileno())
    return stat.st_size, stat.st_mtime_ns
