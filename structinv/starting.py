"""Ctrl-C while the command line is still being loaded ends it quietly, as it does afterwards."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import PurePath
from typing import Any


def _is_command() -> bool:
    """Whether this process is `structinv` or `python -m structinv`, and not one that imports us."""
    name = sys.argv[0] if sys.argv else ""
    if name == "-m":
        # Python's word for a module that it is still looking for; whose, stands behind the option.
        options = list(sys.orig_argv)
        return options[options.index("-m") + 1 :][:1] == [__package__] if "-m" in options else False
    return PurePath(name).stem == __package__


def _leave(*_: Any) -> None:
    # Nothing is open yet that would have to be closed.
    os._exit(130)


def ready() -> None:
    """Let Ctrl-C be raised again."""
    if signal.getsignal(signal.SIGINT) is _leave:
        signal.signal(signal.SIGINT, signal.default_int_handler)


# When this file is imported, first of all; programs that only import us are left alone.
if _is_command() and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, _leave)
