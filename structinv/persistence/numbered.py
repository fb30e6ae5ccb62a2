"""Archives of skops with the same bytes for the same values."""

from __future__ import annotations

import json
from io import BytesIO
from pathlib import PurePath
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo


def numbered(content: bytes) -> bytes:
    """Return a compressed archive of skops without memory addresses and times.

    Objects and files are numbered in the order of their appearance.
    """
    stream = BytesIO()
    with ZipFile(BytesIO(content)) as given, ZipFile(stream, "w") as archive:
        schema = json.loads(given.read("schema.json"))
        names: dict[str, str] = {}
        _number(schema, {}, names)
        for old, new in names.items():
            add(archive, new, given.read(old))
        add(archive, "schema.json", json.dumps(schema))
    return stream.getvalue()


def add(archive: ZipFile, name: str, content: bytes | str) -> None:
    """Add a compressed file without a time to an archive."""
    entry = ZipInfo(name)
    # The system on which a file is written does not change its bytes.
    entry.create_system = 3
    archive.writestr(entry, content, compress_type=ZIP_DEFLATED)


def _number(node: Any, numbers: dict[int, int], names: dict[str, str]) -> None:
    """Replace addresses by numbers in a part of a schema, and collect the new names of files."""
    parts = node if isinstance(node, list) else node.values()
    if isinstance(node, dict) and "__id__" in node:
        node["__id__"] = numbers.setdefault(node["__id__"], len(numbers) + 1)
        if "file" in node:
            old = node["file"]
            node["file"] = names.setdefault(old, f"{len(names) + 1}{PurePath(old).suffix}")
    for part in parts:
        if isinstance(part, (dict, list)):
            _number(part, numbers, names)
