"""Atomic creation of folders: written under a hidden name, then renamed."""

from __future__ import annotations

import ctypes
import glob
import os
import secrets
import shutil
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]


class HiddenFolder:
    """New folder next to `target` that gets its name when it is complete.

    The constructor deletes folders left by killed processes. A folder of a running process is locked,
    and stays.
    """

    def __init__(self, target: Path) -> None:
        self.target = target
        _clear(target)
        self.path = target.with_name(f".{target.name}.{secrets.token_hex(4)}.partial")
        self._aside = self.path.with_suffix(".replaced")
        self.path.mkdir()
        try:
            self._lock = _locked(self.path)
        except BaseException:
            self.path.rmdir()
            raise

    def publish(self) -> None:
        """Rename the folder to `target`, then delete the folder that it replaces."""
        # Renaming to the name of an existing folder fails unless the existing folder is empty.
        replaces = self.target.exists() and any(self.target.iterdir())
        if not (replaces and _exchanged(self.path, self.target)):
            try:
                if replaces:
                    self.target.rename(self._aside)
                self.path.rename(self.target)
            except BaseException:
                if self._aside.exists() and not self.target.exists():
                    self._aside.rename(self.target)
                raise
        for old in (self.path, self._aside):
            shutil.rmtree(old, ignore_errors=True)
        self._unlock()

    def discard(self) -> None:
        """Delete the folder."""
        shutil.rmtree(self.path, ignore_errors=True)
        self._unlock()

    def _unlock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def _exchanged(first: Path, second: Path) -> bool:
    """Exchange the names of two folders in one step, and return True on success.

    Only Linux supports this.
    """
    try:
        renameat2 = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError, TypeError):
        return False
    cwd, exchange = -100, 2
    return renameat2(cwd, os.fsencode(first), cwd, os.fsencode(second), exchange) == 0


def _locked(folder: Path) -> int | None:
    """Return a handle that locks a folder; None if it cannot be locked."""
    if fcntl is None:
        return None
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:  # another process has just deleted it
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        return None
    return handle


def _clear(target: Path) -> None:
    """Delete folders of killed processes; restore the old folder of an unfinished replacement."""
    name = f".{glob.escape(target.name)}.????????"
    for aside in target.parent.glob(f"{name}.replaced"):
        if target.exists():
            shutil.rmtree(aside, ignore_errors=True)
        else:
            aside.rename(target)
    for partial in target.parent.glob(f"{name}.partial"):
        handle = _locked(partial)
        if handle is not None:
            shutil.rmtree(partial, ignore_errors=True)
            os.close(handle)
