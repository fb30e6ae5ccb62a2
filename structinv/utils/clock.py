"""Clock of work that several threads do."""

from __future__ import annotations

import threading
import time


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
