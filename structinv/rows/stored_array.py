"""Reader of one .npy file in a folder of rows."""

from __future__ import annotations

import os
import weakref
from pathlib import Path
from threading import Lock

import numpy as np

from ..utils.files import named_errors

# All headers have the same length: the final one overwrites the first one.
HEADER_BYTES = 128
_MAGIC = b"\x93NUMPY\x01\x00"


def header(dtype: np.dtype, count: int) -> bytes:
    """Return the header of a .npy file with `count` values."""
    text = f"{{'descr': {dtype.str!r}, 'fortran_order': False, 'shape': ({count},), }}"
    length = HEADER_BYTES - len(_MAGIC) - 2
    return _MAGIC + length.to_bytes(2, "little") + text.ljust(length - 1).encode("ascii") + b"\n"


class StoredArray:
    """Open .npy file with `count` values.

    Several threads may read at once. A file that is truncated or changed raises OSError.
    """

    def __init__(self, path: Path, dtype: np.dtype, count: int) -> None:
        self.path, self.dtype, self.count = path, dtype, count
        self._handle = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
        weakref.finalize(self, os.close, self._handle)
        self._lock = Lock()
        self._opened = self._state()
        there, needed = self._opened[0], HEADER_BYTES + count * dtype.itemsize
        if there > needed:
            raise OSError(f"{path} must have {needed} bytes according to its manifest, got {there}")
        self.missing = min(count, -(-(needed - there) // dtype.itemsize))
        start = np.zeros(HEADER_BYTES, dtype=np.uint8)
        self._fill(start, 0)
        if not self.missing and start.tobytes() != header(dtype, count):
            raise OSError(f"{path} must have the header of a .npy file of {count} values of {dtype}")

    def read(self, first: int, last: int, rows: str) -> np.ndarray:
        """Read the values from `first` to `last`, exclusive, into a new array.

        Error messages name `rows`.
        """
        values = np.empty(last - first, dtype=self.dtype)
        self.read_into(values, first, rows)
        return values

    def read_into(self, values: np.ndarray, first: int, rows: str) -> None:
        """Fill an array with the values from `first` on; error messages name `rows`."""
        n_read = self._fill(values.view(np.uint8), HEADER_BYTES + first * self.dtype.itemsize)
        state = self._state()
        if state != self._opened:
            change = "truncated" if state[0] < self._opened[0] else "changed"
            raise OSError(
                f"{rows} of {self.path} cannot be read: the file was {change} after it was opened"
            )
        if n_read < values.nbytes:
            raise OSError(f"{rows} of {self.path} cannot be read: the file is truncated")

    def _state(self) -> tuple[int, int]:
        stat = os.fstat(self._handle)
        return stat.st_size, stat.st_mtime_ns

    def _fill(self, into: np.ndarray, place: int) -> int:
        """Read bytes from a position until `into` is full or the file ends.

        Returns the number of bytes.
        """
        view, done = into.data, 0
        with named_errors(self.path):
            # One call reads at most 2 GB.
            while done < len(view):
                got = self._read_once(view[done:], place + done)
                if got == 0:
                    break
                done += got
        return done

    def _read_once(self, view: memoryview, place: int) -> int:
        if hasattr(os, "preadv"):
            return os.preadv(self._handle, [view], place)
        with self._lock:
            os.lseek(self._handle, place, os.SEEK_SET)
            part = os.read(self._handle, min(len(view), 1 << 24))
        view[: len(part)] = part
        return len(part)
