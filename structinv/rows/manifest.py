"""What the manifest of a folder of rows says: sizes, types, classes, and checksums of chunks."""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

FORMAT, VERSION = "structinv rows", 1
MANIFEST = "manifest.json"
INDPTR, INDICES, DATA, LABELS = "indptr.npy", "indices.npy", "data.npy", "labels.npy"

# What stands before the checksum of the manifest itself.
_CHECKSUM = b',\n"crc32": '

# A chunk has so many entries and rows together, unless a single row has more.
CHUNK_VALUES = 2**17

_TYPES = {
    INDPTR: ("int64",),
    INDICES: ("int32", "int64"),
    DATA: ("float32", "float64"),
    LABELS: ("bool", "int32", "int64", "float64"),
}


@dataclass(frozen=True)
class Manifest:
    """The content of ``manifest.json``.

    Attributes
    ----------
    n_rows, n_features, n_entries : int
    dtypes : dict
        The type of the numbers of each file.
    first_rows, first_entries : (n_chunks + 1,) arrays of int64
        Where each chunk starts, then the number of rows and the number of entries.
    checksums : dict
        CRC-32 of each chunk of each file. A chunk's part of ``indptr.npy`` includes the end of its last
        row.
    classes : list of str or None
        What the codes of ``labels.npy`` stand for; None if labels are numbers.
    notes : dict
        How the rows were made.
    """

    n_rows: int
    n_features: int
    n_entries: int
    dtypes: dict[str, np.dtype]
    first_rows: np.ndarray
    first_entries: np.ndarray
    checksums: dict[str, list[int]]
    classes: list[str] | None = None
    notes: dict[str, Any] = field(default_factory=dict)

    @property
    def counts(self) -> dict[str, int]:
        """Number of values of each file."""
        counts = {INDPTR: self.n_rows + 1, INDICES: self.n_entries, DATA: self.n_entries}
        return {name: counts.get(name, self.n_rows) for name in self.dtypes}

    def content(self) -> bytes:
        """As JSON, whose last field is the checksum of all before it."""
        content = {
            "format": FORMAT,
            "version": VERSION,
            "rows": self.n_rows,
            "features": self.n_features,
            "entries": self.n_entries,
            "classes": self.classes,
            "notes": self.notes,
            "dtypes": {name: dtype.name for name, dtype in self.dtypes.items()},
            "chunks": {
                "first_row": self.first_rows[:-1].tolist(),
                "first_entry": self.first_entries[:-1].tolist(),
                "crc32": self.checksums,
            },
        }
        # A line a field: it can be looked at.
        fields = (f"{json.dumps(name)}: {json.dumps(value)}" for name, value in content.items())
        start = ("{\n" + ",\n".join(fields)).encode("ascii")
        return start + _CHECKSUM + b"%d\n}\n" % zlib.crc32(start)


def read_manifest(folder: Path) -> tuple[Manifest, bytes]:
    """The manifest of a folder of rows, and the bytes of its file.

    Raises
    ------
    FileNotFoundError, NotADirectoryError
        If there is no such folder.
    ValueError
        If it has no manifest, or one that cannot be used.
    """
    path = folder / MANIFEST
    if folder.is_file():
        raise NotADirectoryError(
            f"{folder} is a file, and not a folder of rows: structinv convert makes one of a file"
        )
    if not folder.is_dir():
        raise FileNotFoundError(f"{folder} is no folder of rows: there is no such folder")
    if not path.is_file():
        raise ValueError(
            f"{folder} is no folder of rows: it has no {MANIFEST}, as folders of structinv convert and "
            "RowWriter have"
        )
    content = path.read_bytes()
    try:
        found = json.loads(content)
    except ValueError as error:
        raise ValueError(f"{path} is not JSON: {error}") from None
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise ValueError(f'{path} must have "format": "{FORMAT}"')
    if found.get("version") != VERSION:
        raise ValueError(
            f"{path} has version {found.get('version')!r}, and this version of structinv reads {VERSION}"
        )
    if found.get("crc32") != zlib.crc32(content.rpartition(_CHECKSUM)[0]):
        raise ValueError(f"{path} is damaged: its checksum is wrong")
    try:
        manifest = _parsed(found)
        _check(manifest)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise ValueError(f"{path} is damaged: {type(error).__name__}: {error}") from None
    return manifest, content


def _parsed(found: dict[str, Any]) -> Manifest:
    chunks, classes = found["chunks"], found["classes"]
    return Manifest(
        n_rows=int(found["rows"]),
        n_features=int(found["features"]),
        n_entries=int(found["entries"]),
        dtypes={name: np.dtype(each) for name, each in found["dtypes"].items()},
        first_rows=np.array([*chunks["first_row"], found["rows"]], dtype=np.int64),
        first_entries=np.array([*chunks["first_entry"], found["entries"]], dtype=np.int64),
        checksums=dict(chunks["crc32"]),
        classes=None if classes is None else [str(each) for each in classes],
        notes=dict(found["notes"]),
    )


def _check(manifest: Manifest) -> None:
    if not {INDPTR, INDICES, DATA} <= set(manifest.dtypes):
        raise ValueError(f"it names the files {sorted(manifest.dtypes)} only")
    for name, dtype in manifest.dtypes.items():
        if dtype.name not in _TYPES[name]:
            raise ValueError(f"{name} cannot have {dtype}")
        if len(manifest.checksums[name]) != len(manifest.first_rows) - 1:
            raise ValueError(f"{name} must have as many checksums as there are chunks")
    increasing = np.all(np.diff(manifest.first_rows) > 0) and np.all(
        np.diff(manifest.first_entries) >= 0
    )
    if not increasing or manifest.first_rows[0] != 0 or manifest.first_entries[0] != 0:
        raise ValueError("chunks must start at increasing rows and entries, from 0 on")
    if manifest.n_rows < 1 or manifest.n_features < 1:
        raise ValueError("it must have rows and features")
