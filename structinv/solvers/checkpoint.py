"""Checkpoint files, from which a later run continues an unfinished fit."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable
from contextlib import suppress
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from ..spaces.base import Element
from ..terms import Objective
from ..terms.planes import PlaneSet
from ..utils.files import write_atomically
from ..utils.printing import warn
from .base import Solution, Status
from .stored_planes import packed, unpacked

# Format of the files that this version writes and reads.
FORMAT = 2


class Checkpoint:
    """Checkpoint file of a run, written at intervals and read by a later run.

    The file is a NumPy archive without pickled objects. It has the best function, the planes with their
    dual variables, and a header in JSON. Listed perturbed samples are stored as numbers, and planes of
    penalties as slopes.
    """

    def __init__(self, path: str | PathLike[str], every: float, fingerprint: dict[str, str]) -> None:
        self.path = Path(path)
        self.every = every
        self.fingerprint = fingerprint
        self.used = 0.0
        self.written = 0.0
        self._arrays: dict[str, np.ndarray] = {}
        self._header: dict[str, Any] = {}
        self._objective: Objective | None = None
        # Arguments of the last call of this object, for `rescue`.
        self._last: tuple[float, Callable[[], tuple[Element, PlaneSet]]] | None = None
        if not self.path.parent.is_dir() or self.path.is_dir():
            raise ValueError(f"checkpoint must be a file in an existing folder, got {str(path)!r}")
        if self.path.exists():
            self._read()

    def _read(self) -> None:
        try:
            with np.load(self.path, allow_pickle=False) as archive:
                self._arrays = {name: archive[name] for name in archive.files}
            self._header = json.loads(self._arrays.pop("header").tobytes())
            stored, version = self._header["fingerprint"], self._header["format"]
        except (
            OSError,
            EOFError,
            KeyError,
            TypeError,
            ValueError,
            AttributeError,
            zipfile.BadZipFile,
        ) as error:
            raise ValueError(
                f"checkpoint {str(self.path)!r} is not a checkpoint file, or is damaged"
            ) from error
        if version != FORMAT:
            raise ValueError(f"checkpoint {str(self.path)!r} has format {version}, not {FORMAT}")
        names = sorted({*stored, *self.fingerprint})
        changed = [name for name in names if stored.get(name) != self.fingerprint.get(name)]
        if changed:
            differences = ", ".join(_difference(name, stored, self.fingerprint) for name in changed)
            raise ValueError(
                f"checkpoint {str(self.path)!r} belongs to another fit, with different {differences}; "
                "delete it to start a new fit"
            )
        self.used = float(self._header["seconds"])

    def start(self, objective: Objective) -> tuple[Element, PlaneSet] | None:
        """Return the best function and the planes of an earlier run, or None."""
        self._objective = objective
        if not self._header:
            return None
        arrays, self._arrays = self._arrays, {}
        return unpacked(objective, arrays)

    def begin_anew(self, seconds: float) -> None:
        """Count the seconds of a discarded run, before the next run starts from zero."""
        self.used += seconds
        self.written = 0.0

    def __call__(self, seconds: float, so_far: Callable[[], tuple[Element, PlaneSet]]) -> None:
        """Write the file if `every` seconds have passed; see `on_iteration` of `solve`."""
        self._last = seconds, so_far
        if seconds < self.written + self.every:
            return
        self.write(seconds, *so_far())
        self.written = seconds

    def write(self, seconds: float, f: Element, planes: PlaneSet) -> None:
        """Replace the file, or warn if that fails; `seconds` is the time of this run."""
        assert self._objective is not None
        header = {
            "format": FORMAT,
            "fingerprint": self.fingerprint,
            "seconds": self.used + seconds,
            "blocks": self._objective.n_blocks,
        }
        encoded = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
        stream = io.BytesIO()
        arrays: dict[str, Any] = {"header": encoded, **packed(self._objective, f, planes)}
        np.savez(stream, **arrays)
        try:
            write_atomically(self.path, stream.getvalue())
        except OSError as error:
            # A full disk must not end the fit.
            warn(f"checkpoint {str(self.path)!r} could not be written: {error}", stacklevel=2)

    def rescue(self) -> None:
        """Write the state of a run that an error has ended, if it is still readable."""
        if self._last is not None:
            seconds, so_far = self._last
            # Further errors must not hide the error that ended the run.
            with suppress(Exception):
                self.write(seconds, *so_far())

    def close(self, solution: Solution) -> None:
        """Write the file if more time would help, and delete it otherwise."""
        if solution.status in (Status.INTERRUPTED, Status.TIME_LIMIT):
            self.write(solution.seconds, solution.f, solution.planes)
        else:
            try:
                self.path.unlink(missing_ok=True)
            except OSError as error:
                warn(f"checkpoint {str(self.path)!r} could not be deleted: {error}", stacklevel=2)


def blocks_of(path: str | PathLike[str]) -> int:
    """Return the number of blocks of the objective of a checkpoint file."""
    with np.load(path, allow_pickle=False) as archive:
        return int(json.loads(archive["header"].tobytes())["blocks"])


def _difference(name: str, stored: dict[str, str], current: dict[str, str]) -> str:
    """Return the name of a part, with both values unless they are hashes."""
    values = stored.get(name, "absent"), current.get(name, "absent")
    hashed = any(len(value) == 32 for value in values)
    return name if hashed else f"{name} (was {values[0]}, is {values[1]})"
