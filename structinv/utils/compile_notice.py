"""Notices about compilation: one log record per process, progress on a terminal."""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TextIO

from .printing import Quiet, log_warning

_LOG = logging.getLogger("structinv")
# Total compile time in seconds above which a message is logged.
_WORTH_A_MESSAGE = 0.5
# Seconds between two updates of the line on the terminal.
_PAUSE = 2.0
_COMPILING = (
    "structinv: compiling functions on first use. This usually takes 3 to 30 seconds in total, which "
    "are not part of the training time. %s"
)
_CACHED = (
    "Later processes load them from a cache on disk. Run `structinv warm` to compile them in advance."
)
_NOT_CACHED = "The cache is not writable, so every process compiles them again."

Display = Callable[[str], None]
_displays: list[Display] = []


class Clock:
    """Wall time during which at least one thread was between `start` and `stop`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._depth = 0
        self._done = 0.0
        self._began = 0.0

    @property
    def seconds(self) -> float:
        """Wall time so far, in seconds."""
        with self._lock:
            return self._done + (time.perf_counter() - self._began if self._depth else 0.0)

    def start(self) -> None:
        """Start the clock; calls may be nested and come from several threads."""
        with self._lock:
            if self._depth == 0:
                self._began = time.perf_counter()
            self._depth += 1

    def stop(self) -> None:
        """Stop the clock, at the last of nested calls."""
        with self._lock:
            self._depth -= 1
            if self._depth == 0:
                self._done += time.perf_counter() - self._began

    def __enter__(self) -> None:
        self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()


@contextmanager
def compiling_shown_by(display: Display) -> Iterator[None]:
    """Pass the progress of compilation to a function instead of the terminal."""
    _displays.append(display)
    try:
        yield
    finally:
        _displays.remove(display)


class CompileNotice:
    """Log record of the first compilations, and progress on the terminal."""

    def __init__(self, clock: Clock) -> None:
        self.silent = True
        self._clock = clock
        self.functions = 0
        self._depth = 0
        self._line = _Line(self._state)

    def started(self, cached: bool) -> None:
        """Record the start of a compilation; compilations may be nested."""
        self._depth += 1
        if self.silent and self._clock.seconds > _WORTH_A_MESSAGE:
            self.silent = False
            log_warning(_LOG, _COMPILING, _CACHED if cached else _NOT_CACHED)
            self._line.wait()
        if not self.silent:
            self._line.start()

    def ended(self) -> None:
        """Record the end of a compilation."""
        self.functions += 1
        self._depth -= 1
        if self._depth == 0:
            self._line.stop()

    def _state(self) -> str:
        return f"compiling, {self.functions} functions in {self._clock.seconds:.0f} s"


class _Line:
    """Progress line, updated by a thread every two seconds."""

    def __init__(self, state: Callable[[], str]) -> None:
        self._state = state
        self._over: threading.Event | None = None
        self._thread: threading.Thread | None = None
        self._next = 0.0

    def wait(self) -> None:
        """Suppress updates for the next two seconds."""
        self._next = time.monotonic() + _PAUSE

    def start(self) -> None:
        """Start the thread, unless it is running or there is no display."""
        display = None if self._thread is not None else _display()
        if display is not None:
            self._over = threading.Event()
            self._thread = threading.Thread(target=self._write, args=(display, self._over), daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Stop the thread and clear the line."""
        if self._thread is not None and self._over is not None:
            self._over.set()
            self._thread.join()
            self._thread = None

    def _write(self, display: Display, over: threading.Event) -> None:
        written = False
        while not over.wait(max(0.0, self._next - time.monotonic())):
            display(self._state())
            written = True
            self.wait()
        if written:
            display("")


def _display() -> Display | None:
    """Return the innermost display, or the terminal if it shows log records, or None."""
    if _displays:
        return _displays[-1]
    stream: Any = sys.stderr
    # A replaced stream belongs to a program with another display, a notebook or a test.
    replaced = stream is not sys.__stderr__
    if stream is None or replaced or not Quiet(stream).isatty() or not _reaches(stream):
        return None
    return _OnTerminal(Quiet(stream))


def _reaches(stream: TextIO) -> bool:
    """Return True if warnings of the logger "structinv" are written to this stream."""
    if _LOG.disabled or not _LOG.isEnabledFor(logging.WARNING):
        return False
    if not _LOG.hasHandlers():
        return logging.lastResort is not None
    return any(_writes_to(handler, stream) for handler in _handlers(_LOG))


def _handlers(logger: logging.Logger) -> Iterator[logging.Handler]:
    """Yield the handlers of a logger and of its ancestors."""
    current: logging.Logger | None = logger
    while current is not None:
        yield from current.handlers
        current = current.parent if current.propagate else None


def _writes_to(handler: Any, stream: TextIO) -> bool:
    return handler.level <= logging.WARNING and getattr(handler, "stream", None) is stream


class _OnTerminal:
    """Display on the last line of a terminal."""

    def __init__(self, stream: Quiet) -> None:
        self._stream = stream

    def __call__(self, text: str) -> None:
        # Return to the start of the line and erase it.
        self._stream.write(f"\r\x1b[K{text and 'structinv: ' + text}")
        self._stream.flush()
