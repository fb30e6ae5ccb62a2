"""Messages about compiling: one log record per process, and a line on a terminal while it goes on."""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TextIO

_LOG = logging.getLogger("structinv")
# Compilations that take less in total need no message, in seconds.
_WORTH_A_MESSAGE = 0.5
# Seconds between two states of the line on the terminal.
_PAUSE = 2.0
_COMPILING = (
    "structinv: compiling functions that are used for the first time. This usually takes 3 to 30 "
    "seconds in total, which are not part of the training time. %s"
)
_CACHED = "Later processes load them from a cache on disk. `structinv warm` compiles them ahead."
_NOT_CACHED = "They cannot be cached, so every process compiles them again."

Display = Callable[[str], None]
_displays: list[Display] = []


class Clock:
    """Wall time in which at least one thread was between `start` and `stop`.

    Examples
    --------
    >>> clock = Clock()
    >>> with clock:
    ...     pass
    >>> 0.0 < clock.seconds < 60.0
    True
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._depth = 0
        self._done = 0.0
        self._began = 0.0

    @property
    def seconds(self) -> float:
        """Wall time so far."""
        with self._lock:
            return self._done + (time.perf_counter() - self._began if self._depth else 0.0)

    def start(self) -> None:
        """Enter; calls may be nested, and come from several threads."""
        with self._lock:
            if self._depth == 0:
                self._began = time.perf_counter()
            self._depth += 1

    def stop(self) -> None:
        """Leave."""
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
    """Pass the state of compiling to a function instead of the terminal, for programs with a display.

    Parameters
    ----------
    display : callable
        Called with a text while functions are compiled, and with an empty one afterward. The calls
        come from another thread, about every two seconds.
    """
    _displays.append(display)
    try:
        yield
    finally:
        _displays.remove(display)


class CompileNotice:
    """The log record of the first compilations, and the line on the terminal.

    Parameters
    ----------
    clock : Clock
        Runs while functions are compiled.

    Attributes
    ----------
    silent : bool
        Whether there has been no log record yet.
    functions : int
        Number of compilations so far.
    """

    def __init__(self, clock: Clock) -> None:
        self.silent = True
        self._clock = clock
        self.functions = 0
        self._depth = 0
        self._line = _Line(self._state)

    def started(self, cached: bool) -> None:
        """Note that a function of this package is about to be compiled, perhaps inside another."""
        self._depth += 1
        if self.silent and self._clock.seconds > _WORTH_A_MESSAGE:
            self.silent = False
            _LOG.warning(_COMPILING, _CACHED if cached else _NOT_CACHED)
            self._line.wait()
        if not self.silent:
            self._line.start()

    def ended(self) -> None:
        """Note that a function has been compiled."""
        self.functions += 1
        self._depth -= 1
        if self._depth == 0:
            self._line.stop()

    def _state(self) -> str:
        return f"compiling, {self.functions} functions in {self._clock.seconds:.0f} s"


class _Line:
    """A line that a thread writes again every two seconds while functions are compiled."""

    def __init__(self, state: Callable[[], str]) -> None:
        self._state = state
        self._over: threading.Event | None = None
        self._thread: threading.Thread | None = None
        self._next = 0.0

    def wait(self) -> None:
        """Show nothing for the next two seconds."""
        self._next = time.monotonic() + _PAUSE

    def start(self) -> None:
        """Begin, unless it has begun, or there is nothing to write to."""
        display = None if self._thread is not None else _display()
        if display is not None:
            self._over = threading.Event()
            self._thread = threading.Thread(target=self._write, args=(display, self._over), daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """End, with the line cleared."""
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
    """The innermost display that is set, or the terminal if log records appear there."""
    if _displays:
        return _displays[-1]
    stream: Any = sys.stderr
    # A replaced stream belongs to a program with a display of its own, a notebook or a test.
    replaced = stream is not sys.__stderr__
    if stream is None or replaced or not stream.isatty() or not _reaches(stream):
        return None
    return _OnTerminal(stream)


def _reaches(stream: TextIO) -> bool:
    """Whether warnings of the logger "structinv" are written to this stream."""
    if _LOG.disabled or not _LOG.isEnabledFor(logging.WARNING):
        return False
    if not _LOG.hasHandlers():
        return logging.lastResort is not None
    return any(_writes_to(handler, stream) for handler in _handlers(_LOG))


def _handlers(logger: logging.Logger) -> Iterator[logging.Handler]:
    """Handlers that records of a logger reach."""
    found: logging.Logger | None = logger
    while found is not None:
        yield from found.handlers
        found = found.parent if found.propagate else None


def _writes_to(handler: Any, stream: TextIO) -> bool:
    return handler.level <= logging.WARNING and getattr(handler, "stream", None) is stream


class _OnTerminal:
    """Writes over the last line of a terminal."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __call__(self, text: str) -> None:
        # Back to the start of the line, and erase what stands there.
        self._stream.write(f"\r\x1b[K{text and 'structinv: ' + text}")
        self._stream.flush()
