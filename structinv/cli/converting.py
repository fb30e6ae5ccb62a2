"""Conversion of SVMlight files to folders of rows, in blocks of lines."""

from __future__ import annotations

import sys
from pathlib import Path

from ..datasets.opening import opened
from ..rows import RowFolder, RowWriter
from .data import svmlight_rows
from .writing import is_standard

# Bytes of a block of lines.
BLOCK_SIZE = 1 << 22


def convert_file(
    source: Path, folder: Path, dtype: str, n_features: int | None, first_feature: int
) -> RowFolder:
    """Write the rows of an SVMlight file to a folder, and return the folder."""
    if source.is_dir():
        raise ValueError(f"SOURCE must be a file, got the folder {source}")
    if is_standard(folder) or folder.exists():
        raise ValueError(f"FOLDER must be a new folder, got {folder}")
    n_lines = 0
    notes = {"first_feature": first_feature, "source": str(source)}
    with (
        opened(sys.stdin.buffer if str(source) == "-" else source) as stream,
        RowWriter(folder, n_features, dtype, notes=notes) as writer,
    ):
        while lines := stream.readlines(BLOCK_SIZE):
            try:
                X, y = svmlight_rows(b"".join(lines), first_feature, n_features)
                writer.append(X, y)
            except ValueError as error:
                place = f"lines {n_lines + 1} to {n_lines + len(lines)}"
                raise ValueError(f"{source}, {place}: {error}") from None
            n_lines += len(lines)
    return RowFolder(folder)
