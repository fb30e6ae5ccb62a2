"""Output on standard error that never ends a fit if the stream is lost."""

from __future__ import annotations

import logging
import sys
import warnings
from contextlib import suppress
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
