"""Progress of passes over rows in blocks: finished fraction and remaining time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

# Function of the finished fraction of the rows and the estimated remaining seconds.
Display = Callable[[float, float], None]

_clock: ContextVar[PassClock | None] = ContextVar("passes", default=None)


class PassClock:
    """Progress of passes, passed to a display at intervals."""

    def __init__(self, display: Display, pause: float) -> None:
        self.display = display
        self.pause = pause
        self._began = self._last_call = time.perf_counter()

    def __call__(self, done: int, total: int) -> None:
        """Record the number of finished rows; 0 starts a pass."""
        now = time.perf_counter()
        if done == 0:
            self._began = self._last_call = now
        elif done < total and now - self._last_call >= self.pause:
            self._last_call = now
            self.display(done / total, (now - self._began) * (total - done) / done)


@contextmanager
def passes_shown_by(display: Display, pause: float) -> Iterator[None]:
    """Pass the progress of this thread's passes to a function, as in `PassClock`."""
    before = _clock.set(PassClock(display, pause))
    try:
        yield
    finally:
        _clock.reset(before)


def report_pass(done: int, total: int) -> None:
    """Pass the number of finished rows to the display, if any; 0 starts a pass."""
    clock = _clock.get()
    if clock is not None:
        clock(done, total)
