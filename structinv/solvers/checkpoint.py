"""A run's dual point in a file, from which a later run goes on."""

from __future__ import annotations

import io
import json
import warnings
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
from .archive import packed, unpacked
from .base import Solution, Status

# Of the files that this version writes and reads.
FORMAT = 2


class Checkpoint:
    """Writes what a run has now and then, and reads what an earlier one left.

    The file is a NumPy archive without any pickle: the best function, the planes with their masses
    (of members of orbits only the numbers, of penalties the slopes), and a header in JSON.

    Parameters
    ----------
    path : str or path-like
    every : float
        Seconds between two writings.
    fingerprint : dict of str to str
        What the run is about, part by part.

    Attributes
    ----------
    used : float
        Seconds that earlier runs have spent.

    Raises
    ------
    ValueError
        If the path cannot hold the file, or the file that is there belongs to another run: the
        message names what differs.
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
        # What the last call was told.
        self._last: tuple[float, Callable[[], tuple[Element, PlaneSet]]] | None = None
        if not self.path.parent.is_dir() or self.path.is_dir():
            raise ValueError(f"checkpoint must be a file in a folder that exists, got {str(path)!r}")
        if self.path.exists():
            self._read()

    def _read(self) -> None:
        try:
            with np.load(self.path, allow_pickle=False) as archive:
                self._arrays = {name: archive[name] for name in archive.files}
            self._header = json.loads(self._arrays.pop("header").tobytes())
            theirs, version = self._header["fingerprint"], self._header["format"]
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
                f"checkpoint {str(self.path)!r} is a file of another kind, or damaged"
            ) from error
        if version != FORMAT:
            raise ValueError(f"checkpoint {str(self.path)!r} has format {version}, not {FORMAT}")
        names = sorted({*theirs, *self.fingerprint})
        different = [name for name in names if theirs.get(name) != self.fingerprint.get(name)]
        if different:
            told = ", ".join(_difference(name, theirs, self.fingerprint) for name in different)
            raise ValueError(
                f"checkpoint {str(self.path)!r} is of another fit, with different {told}; "
                "delete it to start afresh"
            )
        self.used = float(self._header["seconds"])

    def start(self, objective: Objective) -> tuple[Element, PlaneSet] | None:
        """The best function and the planes that an earlier run left, None if there was none.

        Parameters
        ----------
        objective : Objective
            What is to be lowered, and written about from now on.
        """
        self._objective = objective
        if not self._header:
            return None
        arrays, self._arrays = self._arrays, {}
        return unpacked(objective, arrays)

    def begin_anew(self, seconds: float) -> None:
        """A run of so many seconds is given up: the next one starts at nothing, and they count."""
        self.used += seconds
        self.written = 0.0

    def __call__(self, seconds: float, so_far: Callable[[], tuple[Element, PlaneSet]]) -> None:
        """Write if it is time to; see `on_iteration` of `solve`."""
        self._last = seconds, so_far
        if seconds < self.written + self.every:
            return
        self.write(seconds, *so_far())
        self.written = seconds

    def write(self, seconds: float, f: Element, planes: PlaneSet) -> None:
        """Replace the file, or warn that it cannot be; `seconds` are those of this run."""
        assert self._objective is not None
        header = {
            "format": FORMAT,
            "fingerprint": self.fingerprint,
            "seconds": self.used + seconds,
            "blocks": self._objective.n_blocks,
        }
        told = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
        stream = io.BytesIO()
        arrays: dict[str, Any] = {"header": told, **packed(self._objective, f, planes)}
        np.savez(stream, **arrays)
        try:
            write_atomically(self.path, stream.getvalue())
        except OSError as error:
            # A full disk is no reason to lose the fit as well.
            warnings.warn(f"checkpoint {str(self.path)!r} could not be written: {error}", stacklevel=2)

    def rescue(self) -> None:
        """Write what a run has that an error has ended, if that can still be told."""
        if self._last is not None:
            seconds, so_far = self._last
            # The error that ended the run is raised, and not one of its consequences.
            with suppress(Exception):
                self.write(seconds, *so_far())

    def close(self, solution: Solution) -> None:
        """Write once more where more time would help, delete the file where all is done."""
        if solution.status in (Status.INTERRUPTED, Status.TIME_LIMIT):
            self.write(solution.seconds, solution.f, solution.planes)
        else:
            try:
                self.path.unlink(missing_ok=True)
            except OSError as error:
                warnings.warn(
                    f"checkpoint {str(self.path)!r} could not be deleted: {error}", stacklevel=2
                )


def blocks_of(path: str | PathLike[str]) -> int:
    """How many blocks the objective has that a file with a dual point is about."""
    with np.load(path, allow_pickle=False) as archive:
        return int(json.loads(archive["header"].tobytes())["blocks"])


def _difference(name: str, theirs: dict[str, str], ours: dict[str, str]) -> str:
    """The name, with both values where they are short enough to be told."""
    values = theirs.get(name, "absent"), ours.get(name, "absent")
    hashed = any(len(value) == 32 for value in values)
    return name if hashed else f"{name} (was {values[0]}, is {values[1]})"
