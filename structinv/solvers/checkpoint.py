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

from ..terms import Objective
from ..utils.files import write_atomically
from ..utils.printing import warn
from ..utils.row_arrays import Arrays
from .base import Solution, Start, Status

# Format of the files that this version writes and reads.
FORMAT = 3
# Errors for files that are damaged, or are no checkpoints.
UNREADABLE = OSError, EOFError, KeyError, TypeError, ValueError, AttributeError, zipfile.BadZipFile


class Checkpoint:
    """Checkpoint file of a run, written at intervals and read by a later run.

    The file is a NumPy archive without pickled objects. It has the best function, the dual variables,
    and a header in JSON. A later run may have other parameters or rows, because its bounds are
    recomputed from the dual variables.
    """

    def __init__(self, path: str | PathLike[str], every: float, model: str) -> None:
        self.path = Path(path)
        self.every = every
        self.model = model
        self.used = 0.0
        self.written = 0.0
        self._arrays: Arrays = {}
        self._rows = -1
        self._objective: Objective | None = None
        # Arguments of the last call of this object, for `__exit__`.
        self._last: tuple[float, Callable[[], Start]] | None = None
        if not self.path.parent.is_dir() or self.path.is_dir():
            raise ValueError(f"checkpoint must be a file in an existing folder, got {str(path)!r}")
        if self.path.exists():
            self._read()

    def _read(self) -> None:
        try:
            with np.load(self.path, allow_pickle=False) as archive:
                self._arrays = {name: archive[name] for name in archive.files}
            header = json.loads(self._arrays.pop("header").tobytes())
            model, version = header["model"], header["format"]
            self._rows, self.used = int(header["rows"]), float(header["seconds"])
        except UNREADABLE as error:
            raise ValueError(
                f"checkpoint {str(self.path)!r} is not a checkpoint file, or is damaged"
            ) from error
        if version != FORMAT:
            raise ValueError(f"checkpoint {str(self.path)!r} has format {version}, not {FORMAT}")
        if model != self.model:
            raise self._foreign(f"that of a {model}, not of {self.model}")

    def _foreign(self, difference: str) -> ValueError:
        return ValueError(
            f"checkpoint {str(self.path)!r} belongs to another fit, {difference}; delete it to start a "
            "new fit"
        )

    def start(self, objective: Objective) -> Start | None:
        """Return the best function and the dual variables of an earlier run, or None."""
        self._objective = objective
        if self._rows < 0:
            return None
        if self._rows != objective.rows_of_a_pass:
            raise self._foreign(f"with {self._rows} rows, not {objective.rows_of_a_pass}")
        parts: dict[str, Arrays] = {}
        for name, array in self._arrays.items():
            owner, _, own = name.partition(" ")
            parts.setdefault(owner, {})[own] = array
        self._arrays = {}
        f = objective.space.from_arrays(parts.get("f", {}))
        if not objective.space.accepts(f):
            raise self._foreign("with another number of features, classes or functionals")
        return Start(f, [parts.get(str(number), {}) for number in range(len(objective.terms))])

    def __call__(self, seconds: float, so_far: Callable[[], Start]) -> None:
        """Write the file if `every` seconds have passed; see `on_iteration` of `solve`."""
        self._last = seconds, so_far
        if seconds < self.written + self.every:
            return
        self.write(seconds, so_far())
        self.written = seconds

    def write(self, seconds: float, state: Start | Solution) -> None:
        """Replace the file, or warn if that fails; `seconds` is the time of this run."""
        assert self._objective is not None
        header = {
            "format": FORMAT,
            "model": self.model,
            "rows": self._objective.rows_of_a_pass,
            "seconds": self.used + seconds,
        }
        parts = [("f", self._objective.space.arrays_of(state.f))]
        parts += [(str(number), own) for number, own in enumerate(state.dual_variables)]
        arrays: Any = {f"{owner} {name}": own for owner, each in parts for name, own in each.items()}
        arrays["header"] = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
        stream = io.BytesIO()
        np.savez(stream, **arrays)
        try:
            write_atomically(self.path, stream.getvalue())
        except OSError as error:
            # A full disk must not end the fit.
            warn(f"checkpoint {str(self.path)!r} could not be written: {error}", stacklevel=2)

    def __enter__(self) -> Checkpoint:
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        """Write the state of a run that an OSError of a disk or a cluster has ended, if readable."""
        if self._last is not None and kind is not None and issubclass(kind, OSError):
            seconds, so_far = self._last
            # Further errors must not hide the error that ended the run.
            with suppress(Exception):
                self.write(seconds, so_far())

    def close(self, solution: Solution) -> None:
        """Write the file if more time would help, and delete it otherwise."""
        if solution.status in (Status.INTERRUPTED, Status.TIME_LIMIT):
            self.write(solution.seconds, solution)
        else:
            try:
                self.path.unlink(missing_ok=True)
            except OSError as error:
                warn(f"checkpoint {str(self.path)!r} could not be deleted: {error}", stacklevel=2)
