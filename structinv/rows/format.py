"""Files of a folder of rows: arrays, and a manifest of their sizes and checksums."""

from __future__ import annotations

import json
import os
import zlib
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from ..utils.files import named_errors
from ..utils.texts import shown

# All headers have the same length: the final one overwrites the first one.
HEADER_BYTES = 128
_MAGIC = b"\x93NUMPY\x01\x00"
# Number of bytes that a checksum reads at once.
_AT_ONCE = 1 << 24
FORMAT, VERSION = "structinv rows", 1
MANIFEST = "manifest.json"
INDPTR, INDICES, DATA, LABELS = "indptr.npy", "indices.npy", "data.npy", "labels.npy"
_DTYPES = {
    INDPTR: ("int64",),
    INDICES: ("int32", "int64"),
    DATA: ("float32", "float64"),
    LABELS: ("bool", "int32", "int64", "float64"),
}


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


def content_of(fields: dict[str, Any]) -> bytes:
    """Return a manifest as JSON, one line per field."""
    fields = {"format": FORMAT, "version": VERSION, **fields}
    lines = (f"{json.dumps(name)}: {json.dumps(value)}" for name, value in fields.items())
    return ("{\n" + ",\n".join(lines) + "\n}\n").encode("ascii")


def read_manifest(folder: Path) -> dict[str, Any]:
    """Return the validated fields of the manifest of a folder of rows.

    - `rows, features, entries`: numbers of rows, features and stored values
    - `dtypes, crc32`: type of the values of each file, and their checksum
    - `classes`: labels by their code in ``labels.npy``; None if labels are numbers
    - `notes`: origin of the rows
    """
    path = folder / MANIFEST
    if folder.is_file():
        raise NotADirectoryError(
            f"{folder} must be a folder of rows, got a file: convert it with structinv convert"
        )
    if not folder.is_dir():
        raise FileNotFoundError(f"{folder} must be a folder of rows, but does not exist")
    if not path.is_file():
        raise ValueError(
            f"{folder} must be a folder of rows, but has no {MANIFEST}: write it with structinv convert "
            "or RowWriter"
        )
    try:
        fields = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not JSON: {error}") from None
    if not isinstance(fields, dict) or fields.get("format") != FORMAT:
        raise ValueError(f'{path} must have "format": "{FORMAT}"')
    if fields.get("version") != VERSION:
        raise ValueError(
            f"{path} must have version {VERSION} for this version of structinv, got "
            f"{shown(fields.get('version'))}"
        )
    try:
        _check(fields)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ValueError(f"{path} is damaged: {type(error).__name__}: {shown(error)}") from None
    return fields


def _check(fields: dict[str, Any]) -> None:
    for name, least in (("rows", 1), ("features", 1), ("entries", 0)):
        if type(fields[name]) is not int or fields[name] < least:
            raise ValueError(f"{name} must be an integer of at least {least}, got {fields[name]!r}")
    for name in {INDPTR, INDICES, DATA, *fields["dtypes"]}:
        if fields["dtypes"][name] not in _DTYPES[name]:
            raise ValueError(f"{name} cannot have {fields['dtypes'][name]}")
        if type(fields["crc32"][name]) is not int:
            raise ValueError(f"{name} must have a checksum")
    classes = fields["classes"]
    if classes is not None and not all(isinstance(each, str) for each in classes):
        raise ValueError("classes must be strings")
    if not isinstance(fields["notes"], dict):
        raise ValueError("notes must be an object")
