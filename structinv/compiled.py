"""Compiled functions: kept on disk where that can be, and the seconds that compiling takes."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any

import numba
from numba.core import event

_LOG = logging.getLogger("structinv")
# So much has been compiled before it is worth a word, in seconds.
_WORTH_A_WORD = 0.5
_NOT_KEPT = (
    "structinv: compiled functions cannot be kept, as no folder for them can be written: every "
    "process compiles them anew. Set NUMBA_CACHE_DIR to a folder that can be written."
)
_COMPILING = (
    "structinv: compiling functions that are used for the first time, which takes seconds and does "
    "not count as training; %s"
)
_KEPT = "they are kept for later processes"


class _Compiler(event.Listener):
    """Seconds that this process has spent compiling, whoever asked and in whichever thread.

    Functions are compiled one at a time, under Numba's lock, but one inside the other: only the
    outermost counts. What is loaded from disk is not compiled, and not heard of.
    """

    def __init__(self) -> None:
        self.kept = True
        self.silent = True
        self._depth = 0
        self._done = 0.0
        self._began: float | None = None

    @property
    def seconds(self) -> float:
        began = self._began
        return self._done + (0.0 if began is None else time.perf_counter() - began)

    def on_start(self, event: Any) -> None:
        """Start the clock, and say so once where our own functions have taken a while."""
        if self._depth == 0:
            self._began = time.perf_counter()
        self._depth += 1
        ours = str(event.data["dispatcher"].py_func.__module__).startswith(f"{__package__}.")
        if ours and self.silent and self.seconds > _WORTH_A_WORD:
            self.silent = False
            _LOG.warning(_COMPILING, _KEPT if self.kept else "they cannot be kept for later processes")

    def on_end(self, event: Any) -> None:
        """Stop the clock."""
        self._depth -= 1
        if self._depth == 0 and self._began is not None:
            self._done += time.perf_counter() - self._began
            self._began = None

    def not_kept(self) -> None:
        """Say once that nothing can be kept."""
        if self.kept:
            self.kept = False
            _LOG.warning(_NOT_KEPT)


_COMPILER = _Compiler()
event.register("numba:compile", _COMPILER)


def njit(*, cache: bool, **options: Any) -> Callable[[Callable], Any]:
    """Numba's `njit`; where no folder can be written for `cache`, the function is compiled anew.

    Numba itself raises when a function is declared whose code it could keep nowhere, so that a package
    in a folder that cannot be written could not even be imported by a user without a home. Here one
    line of the logger "structinv" says so instead, once for each process.

    Parameters
    ----------
    cache : bool
        Whether to keep what is compiled, where that is possible.
    **options
        Others of `numba.njit`.

    Returns
    -------
    callable
        A decorator.

    Examples
    --------
    >>> @njit(cache=False, nogil=True)
    ... def double(x):
    ...     return 2 * x
    >>> double(4)
    8
    """

    def compiled(function: Callable) -> Any:
        try:
            return numba.njit(cache=cache, **options)(function)
        except RuntimeError as error:
            # Declaring compiles nothing: the folder is all that can be wrong.
            if not cache or "cannot cache function" not in str(error):
                raise
        _COMPILER.not_kept()
        return numba.njit(cache=False, **options)(function)

    return compiled


class Stopwatch:
    """Seconds since it was made, those apart in which functions were compiled.

    Examples
    --------
    >>> watch = Stopwatch()
    >>> watch.compile_seconds
    0.0
    >>> 0.0 < watch.seconds < 60.0
    True
    """

    def __init__(self) -> None:
        self._compiled = _COMPILER.seconds
        self._started = time.perf_counter()

    @property
    def seconds(self) -> float:
        """Wall time without compiling."""
        return time.perf_counter() - self._started - self.compile_seconds

    @property
    def compile_seconds(self) -> float:
        """Wall time in which some thread of this process was compiling."""
        return _COMPILER.seconds - self._compiled
