"""Manifest of a folder of rows: sizes, types, classes and checksums."""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ..utils.visible import shown

FORMAT, VERSION = "structinv rows", 1
MANIFEST = "manifest.json"
INDPTR, INDICES, DATA, LABELS = "indptr.npy", "indices.npy", "data.npy", "labels.npy"

# Text before the checksum of the manifest itself.
_CHECKSUM = b',\n"crc32": '

# Maximum number of entries plus rows per chunk; a single row may exceed it.
CHUNK_VALUES = 2**17

_TYPES = {
    INDPTR: ("int64",),
    INDICES: ("int32", "int64"),
    DATA: ("float32", "float64"),
    LABELS: ("bool", "int32", "int64", "float64"),
}


@dataclass(frozen=True)
class Manifest:
    """Content of ``manifest.json``.

    - `n_rows, n_features, n_entries`: numbers of rows, features and stored values
    - `dtypes`: type of the values of each file
    - `first_rows, first_entries` (n_chunks + 1,): first row and entry of each chunk, then the number of
      rows and entries
    - `checksums`: CRC-32 of each chunk of each file
    - `classes`: labels by their code in ``labels.npy``; None if labels are numbers
    - `notes`: origin of the rows
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
        """Return the manifest as JSON; the last field is the checksum of all before it."""
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
        # One line per field, for people.
        fields = (f"{json.dumps(name)}: {json.dumps(value)}" for name, value in content.items())
        start = ("{\n" + ",\n".join(fields)).encode("ascii")
        return start + _CHECKSUM + b"%d\n}\n" % zlib.crc32(start)


def read_manifest(folder: Path) -> tuple[Manifest, bytes]:
    """Return the manifest of a folder of rows, and the bytes of its file."""
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
    content = path.read_bytes()
    try:
        fields = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not JSON: {error}") from None
    if not isinstance(fields, dict) or fields.get("format") != FORMAT:
        raise ValueError(f'{path} must have "format": "{FORMAT}"')
    if fields.get("version") != VERSION:
        raise ValueError(
            f"{path} must have version {VERSION} for this version of structinv, got "
            f"{shown(fields.get('version'))}"
        )
    if fields.get("crc32") != zlib.crc32(content.rpartition(_CHECKSUM)[0]):
        raise ValueError(f"{path} is damaged: its checksum is wrong")
    try:
        manifest = _parsed(fields)
        _check(manifest)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise ValueError(f"{path} is damaged: {type(error).__name__}: {shown(error)}") from None
    return manifest, content


def _parsed(fields: dict[str, Any]) -> Manifest:
    chunks, classes = fields["chunks"], fields["classes"]
    return Manifest(
        n_rows=int(fields["rows"]),
        n_features=int(fields["features"]),
        n_entries=int(fields["entries"]),
        dtypes={name: np.dtype(each) for name, each in fields["dtypes"].items()},
        first_rows=np.array([*chunks["first_row"], fields["rows"]], dtype=np.int64),
        first_entries=np.array([*chunks["first_entry"], fields["entries"]], dtype=np.int64),
        checksums=dict(chunks["crc32"]),
        classes=None if classes is None else [str(each) for each in classes],
        notes=dict(fields["notes"]),
    )


def _check(manifest: Manifest) -> None:
    if not {INDPTR, INDICES, DATA} <= set(manifest.dtypes):
        raise ValueError(f"a file is missing, got {sorted(manifest.dtypes)}")
    for name, dtype in manifest.dtypes.items():
        if dtype.name not in _TYPES[name]:
            raise ValueError(f"{name} cannot have {dtype}")
        if len(manifest.checksums[name]) != len(manifest.first_rows) - 1:
            raise ValueError(f"{name} must have one checksum per chunk")
    increasing = np.all(np.diff(manifest.first_rows) > 0) and np.all(
        np.diff(manifest.first_entries) >= 0
    )
    if not increasing or manifest.first_rows[0] != 0 or manifest.first_entries[0] != 0:
        raise ValueError("chunks must start at increasing rows and entries, from 0")
    if manifest.n_rows < 1 or manifest.n_features < 1:
        raise ValueError("the numbers of rows and features must be at least 1")
