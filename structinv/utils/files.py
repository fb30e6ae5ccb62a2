"""Files that are there as a whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import BinaryIO


def write_atomically(path: str | PathLike[str], data: bytes) -> None:
    """Write a file so that its name never stands for half of it, and an old one is never lost.

    The bytes go to a neighbor of the file, reach the disk, and then take its name in one step.

    Parameters
    ----------
    path : str or path-like
        A link is followed; an existing file keeps its permissions.
    data : bytes

    Raises
    ------
    OSError
        Where the folder is absent or cannot be written; what was there stays as it was.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "numbers")
    ...     write_atomically(path, b"1 2 3")
    ...     path.read_bytes(), len(list(path.parent.iterdir()))
    (b'1 2 3', 1)
    """
    with written_atomically(path) as stream:
        stream.write(data)


@contextmanager
def written_atomically(path: str | PathLike[str]) -> Iterator[BinaryIO]:
    """A stream of bytes for what is written a part at a time; see `write_atomically`.

    The file takes its name when the block ends. After an error nothing is left.

    Parameters
    ----------
    path : str or path-like

    Raises
    ------
    OSError
        As `write_atomically`.
    """
    if Path(path).exists() and not Path(path).is_file():
        # A pipe or a device has no half: /dev/stdout is written to, not replaced.
        with Path(path).open("wb") as stream:
            yield stream
        return
    # Later, as what stands behind the name of a pipe is no path.
    target = Path(path).resolve()
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


def _permissions(target: Path) -> int:
    """Those of the file that is there, or those that a new file gets."""
    if target.exists():
        return target.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
