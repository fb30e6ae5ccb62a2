"""One array of a folder of rows: a file that NumPy can load, read by its places."""

from __future__ import annotations

import os
import weakref
from pathlib import Path
from threading import Lock

import numpy as np

# All headers have one length, so that the final number of values can be written over the first one.
HEADER_BYTES = 128
_MAGIC = b"\x93NUMPY\x01\x00"


def header(dtype: np.dtype, count: int) -> bytes:
    """The start of a .npy file of `count` values.

    Examples
    --------
    >>> header(np.dtype("<f8"), 3)[10:].decode().rstrip()
    "{'descr': '<f8', 'fortran_order': False, 'shape': (3,), }"
    """
    text = f"{{'descr': {dtype.str!r}, 'fortran_order': False, 'shape': ({count},), }}"
    length = HEADER_BYTES - len(_MAGIC) - 2
    return _MAGIC + length.to_bytes(2, "little") + text.ljust(length - 1).encode("ascii") + b"\n"


class StoredArray:
    """A file of `count` values that stays open.

    Several threads may read at once. A file that is cut short or written to gives an OSError.

    Parameters
    ----------
    path : Path
    dtype : dtype
    count : int

    Attributes
    ----------
    missing : int
        How many of the values the file is too short for.

    Raises
    ------
    OSError
        If the file cannot be opened, is longer than `count` values, or starts in another way.
    """

    def __init__(self, path: Path, dtype: np.dtype, count: int) -> None:
        self.path, self.dtype, self.count = path, dtype, count
        self._handle = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
        weakref.finalize(self, os.close, self._handle)
        self._lock = Lock()
        self._opened = self._state()
        there, needed = self._opened[0], HEADER_BYTES + count * dtype.itemsize
        if there > needed:
            raise OSError(f"{path} has {there} bytes, and its manifest says {needed}")
        self.missing = min(count, -(-(needed - there) // dtype.itemsize))
        start = np.zeros(HEADER_BYTES, dtype=np.uint8)
        self._fill(start, 0)
        if not self.missing and start.tobytes() != header(dtype, count):
            raise OSError(f"{path} does not start as a .npy file of {count} values of {dtype}")

    def read(self, first: int, last: int, rows: str) -> np.ndarray:
        """Values ``first`` to ``last - 1`` in a new array; errors say that `rows` cannot be read."""
        values = np.empty(last - first, dtype=self.dtype)
        self.read_into(values, first, rows)
        return values

    def read_into(self, values: np.ndarray, first: int, rows: str) -> None:
        """Fill an array with the values from ``first`` on; see `read`."""
        n_read = self._fill(values.view(np.uint8), HEADER_BYTES + first * self.dtype.itemsize)
        state = self._state()
        if state != self._opened:
            what = "truncated" if state[0] < self._opened[0] else "changed"
            raise OSError(
                f"{rows} of {self.path} cannot be read: the file was {what} after it was opened"
            )
        if n_read < values.nbytes:
            raise OSError(f"{rows} of {self.path} cannot be read: the file is truncated")

    def _state(self) -> tuple[int, int]:
        found = os.fstat(self._handle)
        return found.st_size, found.st_mtime_ns

    def _fill(self, into: np.ndarray, place: int) -> int:
        """Read bytes from a place of the file on until `into` is full or the file ends."""
        view, done = into.data, 0
        # One call reads 2 GB at most.
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
