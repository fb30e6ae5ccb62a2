"""Declared sizes of the parts of a model file, checked before they are read."""

from __future__ import annotations

from io import BytesIO
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile

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


def _declared(content: bytes) -> float:
    with ZipFile(BytesIO(content)) as archive:
        return float(sum(part.file_size for part in archive.infolist()))


def _in_mb(n_bytes: float) -> str:
    return f"{n_bytes / 1e6:.1f} MB" if n_bytes >= 1e5 else f"{n_bytes / 1e6:.2f} MB"
