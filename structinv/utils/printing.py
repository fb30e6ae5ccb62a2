"""Output on standard error that never ends a fit; progress of passes."""

from __future__ import annotations

import logging
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any

# Errors of a stream that is closed or lost.
LOST = (OSError, ValueError)


class Quiet:
    """Stream that ignores the errors of another stream, which may be None."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write a text, if possible."""
        with suppress(*LOST):
            if self._stream is not None:
                self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        """Flush the stream, if possible."""
        with suppress(*LOST):
            if self._stream is not None:
                self._stream.flush()

    def isatty(self) -> bool:
        """Return True for a usable terminal."""
        with suppress(*LOST):
            return self._stream is not None and bool(self._stream.isatty())
        return False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def print_line(text: str) -> None:
    """Print a line to standard error, if possible."""
    print(text, file=Quiet(sys.stderr), flush=True)


def warn(message: str, category: type[Warning] = UserWarning, stacklevel: int = 1) -> None:
    """Warn as `warnings.warn`, also without a usable standard error."""
    with suppress(*LOST):
        warnings.warn(message, category, stacklevel=stacklevel + 1)


def log_warning(logger: logging.Logger, message: str, *values: str) -> None:
    """Log a warning, also without a usable standard error."""
    with suppress(*LOST):
        logger.warning(message, *values)


# Function of the finished fraction of the rows and the estimated remaining seconds.
Display = Callable[[float, float], None]

# Called with the number of finished rows of a pass, and that of all rows.
_report: ContextVar[Callable[[int, int], None] | None] = ContextVar("passes", default=None)


@contextmanager
def passes_shown_by(display: Display, pause: float) -> Iterator[None]:
    """Pass the progress of this thread's passes to a function, every `pause` seconds."""
    began = last_call = time.perf_counter()

    def report(done: int, total: int) -> None:
        nonlocal began, last_call
        now = time.perf_counter()
        if done == 0:
            began = last_call = now
        elif done < total and now - last_call >= pause:
            last_call = now
            display(done / total, (now - began) * (total - done) / done)

    before = _report.set(report)
    try:
        yield
    finally:
        _report.reset(before)


def report_pass(done: int, total: int) -> None:
    """Pass the number of finished rows to the display, if any; 0 starts a pass."""
    report = _report.get()
    if report is not None:
        report(done, total)
