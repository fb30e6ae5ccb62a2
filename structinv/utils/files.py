"""Atomic writing of files."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Any, BinaryIO


def check_path(path: Any) -> Path:
    """Return the path; raise TypeError if it is not a string or a path."""
    if not isinstance(path, (str, PathLike)):
        raise TypeError(f"path must be a string or a path, got {path!r}")
    return Path(path)


def check_writable(path: Path) -> None:
    """Raise OSError if a file cannot be written; its message has the path."""
    folder = path.resolve().parent
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    special = path.exists() and not path.is_file()
    if not special and not folder.is_dir():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(folder))
    place = path if special else folder
    if not os.access(place, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(place))


def write_atomically(path: str | PathLike[str], data: bytes) -> None:
    """Write a file atomically: an existing file is replaced completely or not at all.

    The data are written to a temporary file in the same folder and flushed to disk. The temporary file
    is then renamed.
    """
    with written_atomically(path) as stream:
        stream.write(data)


@contextmanager
def written_atomically(path: str | PathLike[str]) -> Iterator[BinaryIO]:
    """Open a stream of bytes for writing a file in parts, like `write_atomically`.

    The file appears at the end of the `with` block. An error in the block removes the temporary file.
    """
    if Path(path).exists() and not Path(path).is_file():
        # Pipes and devices such as /dev/stdout must be written to, not replaced.
        with named_errors(path), Path(path).open("wb") as stream:
            yield stream
        return
    # Resolve after the check, because a pipe does not resolve to a path.
    target = Path(path).resolve()
    with named_errors(path):
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
        neighbor = Path(name)
        try:
            with os.fdopen(handle, "wb") as stream:
                yield stream
                stream.flush()
                os.fsync(stream.fileno())
            neighbor.chmod(_permissions(target))
            neighbor.replace(target)
        except BaseException:
            neighbor.unlink(missing_ok=True)
            raise


@contextmanager
def named_errors(path: str | PathLike[str]) -> Iterator[None]:
    """Add the path to an OSError without one, such as that of a full disk.

    The path also replaces that of a temporary file or folder next to it.
    """
    try:
        yield
    except OSError as error:
        hidden = f".{Path(path).name}."
        parts = () if error.filename is None else Path(os.fsdecode(error.filename)).parts
        temporary = any(part.startswith(hidden) for part in parts)
        if error.errno is None or (parts and not temporary):
            raise
        raise OSError(error.errno, error.strerror, os.fspath(path)) from error


def _permissions(target: Path) -> int:
    """Return the permissions of an existing file, or those of a new file."""
    if target.exists():
        return target.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
