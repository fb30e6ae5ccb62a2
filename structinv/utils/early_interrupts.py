"""Ctrl-C: the installed handler, and early interrupts of the command line."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

# This module is imported first.
_BEGAN = time.monotonic()


def seconds_since_start() -> float:
    """Return the time since the start of the command line; 0 in other programs."""
    return time.monotonic() - _BEGAN if _is_command_line() else 0.0


def default_handler_runs() -> bool:
    """Return True in the main thread, with Python's default handler of Ctrl-C."""
    main = threading.current_thread() is threading.main_thread()
    return main and signal.getsignal(signal.SIGINT) is signal.default_int_handler


@contextmanager
def command_line_imports() -> Iterator[None]:
    """Exit the command line with code 130 after Ctrl-C, without a traceback.

    In all other programs, Ctrl-C raises KeyboardInterrupt as usual.
    """
    if not (default_handler_runs() and _is_command_line()):
        yield
        return
    signal.signal(signal.SIGINT, _exit)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _is_command_line() -> bool:
    """Return True for the script structinv and for python -m structinv."""
    return Path(sys.argv[0]).stem == "structinv" or sys.orig_argv[1:3] == ["-m", "structinv"]


def _exit(*_: Any) -> None:
    # Imported modules may catch KeyboardInterrupt. They cannot catch this.
    with suppress(OSError):
        os.write(2, b"structinv: interrupted: nothing was written\n")
    os._exit(130)
