"""Opening of plain and compressed files and of streams."""

from __future__ import annotations

import gzip
import lzma
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

# A path, or a stream of bytes.
Source: TypeAlias = str | PathLike[str] | BinaryIO

# Functions that open compressed files, by the ending of the name.
OPENERS: dict[str, Any] = {".gz": gzip.open, ".xz": lzma.open}


def name_of(source: Source) -> str:
    """Return the name of a source for messages."""
    if isinstance(source, (str, PathLike)):
        return str(Path(source))
    return str(getattr(source, "name", "the data"))


@contextmanager
def opened(source: Source) -> Iterator[BinaryIO]:
    """Open a source for reading bytes; the ending of a name decides compression."""
    if not isinstance(source, (str, PathLike)):
        yield source
        return
    try:
        with OPENERS.get(Path(source).suffix, open)(source, "rb") as stream:
            yield stream
    except (EOFError, gzip.BadGzipFile, lzma.LZMAError, zlib.error) as error:
        raise ValueError(f"{name_of(source)} is damaged or truncated: {error}") from None
