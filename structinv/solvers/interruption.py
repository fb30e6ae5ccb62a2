"""Ctrl-C during a run: raised, or recorded until the current work is finished."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_local = threading.local()


class Interrupts:
    """Handler of Ctrl-C during a run."""

    def __init__(self) -> None:
        self.interruptible = True
        self.pressed = False

    def caused_by(self, error: BaseException) -> bool:
        """Return whether Ctrl-C caused an error."""
        # Libraries may raise another error than KeyboardInterrupt.
        return self.pressed or isinstance(error, KeyboardInterrupt)

    def __call__(self, number: int, frame: Any) -> None:
        """Handle the signal."""
        self.pressed = True
        if self.interruptible:
            self.interruptible = False
            raise KeyboardInterrupt


@contextmanager
def interrupts() -> Iterator[Interrupts]:
    """Handle Ctrl-C during a `with` statement; nested statements share one handler.

    It has an effect only in the main thread, which receives signals, and only if Python's default
    handler is installed. Otherwise Ctrl-C is not recorded.
    """
    outer = getattr(_local, "interrupts", None)
    if outer is not None:
        yield outer
        return
    handler = Interrupts()
    main = threading.current_thread() is threading.main_thread()
    replaced = main and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    _local.interrupts = handler
    try:
        if replaced:
            signal.signal(signal.SIGINT, handler)
        yield handler
    finally:
        handler.interruptible = False
        _local.interrupts = None
        if replaced:
            signal.signal(signal.SIGINT, signal.default_int_handler)
