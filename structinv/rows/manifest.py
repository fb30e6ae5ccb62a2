"""Manifest of a folder of rows: sizes, types, classes and checksums."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ..utils.texts import shown

FORMAT, VERSION = "structinv rows", 1
MANIFEST = "manifest.json"
INDPTR, INDICES, DATA, LABELS = "indptr.npy", "indices.npy", "data.npy", "labels.npy"

_DTYPES = {
    INDPTR: ("int64",),
    INDICES: ("int32", "int64"),
    DATA: ("float32", "float64"),
    LABELS: ("bool", "int32", "int64", "float64"),
}


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
