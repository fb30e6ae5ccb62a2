"""Packed dual variables of blocks, in memory up to a limit and on disk beyond it."""

from __future__ import annotations

import pickle
import tempfile
from pathlib import Path
from typing import Any

from ..utils.packed_rows import PackedRows


class PackedStore:
    """Packed dual states of blocks; None for blocks without one."""

    def __init__(self, size: int, most_bytes: float) -> None:
        self.most_bytes = most_bytes
        self.in_memory = 0
        self._held: list[Any] = [None] * size
        self._sizes = [0] * size
        self._written = [0] * size
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def __len__(self) -> int:
        return len(self._held)

    @property
    def on_disk(self) -> int:
        """Number of bytes in files."""
        return sum(self._written)

    def __getitem__(self, number: int) -> Any:
        if not self._written[number]:
            return self._held[number]
        return pickle.loads(self._path(number).read_bytes())

    def __setitem__(self, number: int, packed: Any) -> None:
        content = b"" if isinstance(packed, PackedRows) else pickle.dumps(packed, protocol=5)
        size = packed.nbytes if isinstance(packed, PackedRows) else len(content)
        others = self.in_memory - self._sizes[number]
        if others + size > self.most_bytes:
            self._write(number, content or pickle.dumps(packed, protocol=5))
            packed, size = None, 0
        else:
            self._written[number] = 0
        self._held[number], self._sizes[number] = packed, size
        self.in_memory = others + size

    def _write(self, number: int, content: bytes) -> None:
        """Replace a block's file; OSError leaves the old file unchanged."""
        path = self._path(number)
        neighbor = path.with_suffix(".new")
        try:
            neighbor.write_bytes(content)
            neighbor.replace(path)
        except OSError as error:
            raise OSError(
                error.errno,
                f"dual variables of rows that are read in blocks could not be written to {path.parent} "
                f"({error.strerror}): set TMPDIR to a folder with more space, or raise memory_limit",
            ) from error
        self._written[number] = len(content)

    def _path(self, number: int) -> Path:
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="structinv-")
        return Path(self._folder.name, f"block-{number}")
