"""Ctrl-C: raised where work can be cut short, remembered where it must be finished."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_here = threading.local()


class Interrupts:
    """What became of Ctrl-C since the work began.

    Attributes
    ----------
    interruptible : bool
        Whether the next Ctrl-C is raised. One that is raised makes those after it wait, so that what
        cleans up is never cut short itself.
    pressed : bool
        Whether there was one.
    """

    def __init__(self) -> None:
        self.interruptible = True
        self.pressed = False

    def caused_by(self, error: BaseException) -> bool:
        """Whether Ctrl-C is what an error is about: libraries may answer it with one of their own."""
        return self.pressed or isinstance(error, KeyboardInterrupt)

    def __call__(self, number: int, frame: Any) -> None:
        """Handle the signal."""
        self.pressed = True
        if self.interruptible:
            self.interruptible = False
            raise KeyboardInterrupt


@contextmanager
def interrupts() -> Iterator[Interrupts]:
    """Watch over Ctrl-C for the time of a `with` statement; inner ones share the outermost's.

    Only where Python's own handler is in place, and in the main thread, which alone gets signals.
    Elsewhere interruptions come as they come, and nothing is remembered.

    Examples
    --------
    >>> import signal
    >>> before = signal.signal(signal.SIGINT, signal.default_int_handler)
    >>> with interrupts() as ctrl_c:
    ...     ctrl_c.interruptible = False
    ...     signal.raise_signal(signal.SIGINT)
    ...     done = True
    >>> done, ctrl_c.pressed
    (True, True)
    >>> restored = signal.signal(signal.SIGINT, before)
    """
    outer = getattr(_here, "interrupts", None)
    if outer is not None:
        yield outer
        return
    mine = Interrupts()
    main = threading.current_thread() is threading.main_thread()
    replaced = main and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    _here.interrupts = mine
    try:
        if replaced:
            signal.signal(signal.SIGINT, mine)
        yield mine
    finally:
        mine.interruptible = False
        _here.interrupts = None
        if replaced:
            signal.signal(signal.SIGINT, signal.default_int_handler)
