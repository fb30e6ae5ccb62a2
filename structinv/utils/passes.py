"""What is told of a pass over rows that are read in blocks: how much is done, and the time left."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

# Told the share of the rows that is done, and about how many seconds the rest takes.
Display = Callable[[float, float], None]

_clock: ContextVar[PassClock | None] = ContextVar("passes", default=None)


class PassClock:
    """Tells of a pass now and then.

    Parameters
    ----------
    display : callable
        Of the share that is done, and of the seconds left.
    pause : float
        At least so many seconds lie between two calls, and between the start and the first.

    Examples
    --------
    >>> clock = PassClock(lambda share, seconds: print(share, seconds < 1), pause=0.0)
    >>> for done in (0, 1, 2):
    ...     clock(done, 4)
    0.25 True
    0.5 True
    """

    def __init__(self, display: Display, pause: float) -> None:
        self.display = display
        self.pause = pause
        self._began = self._told = time.perf_counter()

    def __call__(self, done: int, total: int) -> None:
        """So many of the rows are done; 0 begins a pass."""
        now = time.perf_counter()
        if done == 0:
            self._began = self._told = now
        elif done < total and now - self._told >= self.pause:
            self._told = now
            self.display(done / total, (now - self._began) * (total - done) / done)


@contextmanager
def passes_shown_by(display: Display, pause: float) -> Iterator[None]:
    """Tell a function of the passes that this thread makes over rows in blocks; see `PassClock`."""
    before = _clock.set(PassClock(display, pause))
    try:
        yield
    finally:
        _clock.reset(before)


def tell_of_pass(done: int, total: int) -> None:
    """Say how many of the rows of a pass are done, if anybody listens; 0 begins a pass."""
    clock = _clock.get()
    if clock is not None:
        clock(done, total)
