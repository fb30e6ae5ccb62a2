"""Progress of passes over rows in blocks: finished fraction and remaining time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

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
