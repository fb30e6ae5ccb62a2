"""Checks of the parts of a model file, before they are read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from io import BytesIO
from typing import Any
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile

import scipy.sparse as sp

from ..utils.matrices import check_indices

# Parts of JSON may have this size in bytes, or this multiple of their compressed size. Values from JSON
# take about twenty times the memory of its text. A file of 200 binary models has the ratio 70.
JSON_BYTES, JSON_RATIO = 8e6, 100.0
# The same for all parts together. Weights of 0 have ratios of up to 1000.
BYTES, RATIO = 2e9, 200.0


def excess(archive: ZipFile, n_bytes: int) -> str:
    """Return why the parts of a model file are too large, or an empty string."""
    total = 0.0
    for part in archive.infolist():
        if part.compress_type not in (ZIP_STORED, ZIP_DEFLATED):
            return f"{part.filename} has a compression other than that of structinv.save"
        compressed = min(part.compress_size, n_bytes)
        if part.filename.endswith(".json") and part.file_size > max(JSON_BYTES, JSON_RATIO * compressed):
            return f"{part.filename} takes {_in_mb(part.file_size)}, compressed to {_in_mb(compressed)}"
        total += part.file_size
    limit = max(BYTES, RATIO * n_bytes)
    if total <= limit:
        # Sparse matrices are archives inside of the file.
        inner = (archive.read(part) for part in archive.infolist() if part.filename.endswith(".npz"))
        total += sum(map(_declared, inner))
    if total > limit:
        return f"its parts take {_in_mb(total)}, compressed to {_in_mb(n_bytes)}"
    return ""


def check_matrices(data: bytes) -> None:
    """Raise ValueError for sparse matrices with invalid indices or without a file."""
    with ZipFile(BytesIO(data)) as archive:
        for node in _nodes(json.loads(archive.read("schema.json"))):
            if node["__loader__"] == "SparseMatrixNode":
                # The sizes inside of these files were checked.
                if not node["file"].endswith(".npz"):
                    raise ValueError(f"{node['file']} is not the file of a sparse matrix")
                check_indices("a matrix", sp.load_npz(BytesIO(archive.read(node["file"]))))
            elif node["__module__"].startswith("scipy.sparse"):
                raise ValueError(f"it contains a {node['__class__']} in parts")


def _nodes(part: Any) -> Iterator[dict[str, Any]]:
    """Yield the nodes of a schema of skops."""
    if isinstance(part, dict) and "__loader__" in part:
        yield part
    parts = part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()
    for each in parts:
        yield from _nodes(each)


def _declared(content: bytes) -> float:
    with ZipFile(BytesIO(content)) as archive:
        return float(sum(part.file_size for part in archive.infolist()))


def _in_mb(n_bytes: float) -> str:
    return f"{n_bytes / 1e6:.1f} MB" if n_bytes >= 1e5 else f"{n_bytes / 1e6:.2f} MB"
