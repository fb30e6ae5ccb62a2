"""Compiled functions: kept on disk where that can be, and the seconds that compiling takes."""

from __future__ import annotations

import functools
import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numba
from numba.core import event
from numba.core.compiler_lock import global_compiler_lock

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
    """Numba's `njit`, which Ctrl-C cannot break; without a folder for `cache` it compiles anew.

    Numba itself raises when a function is declared whose code it could keep nowhere, so that a package
    in a folder that cannot be written could not even be imported by a user without a home. Here one
    line of the logger "structinv" says so instead, once for each process.

    Numba cut short while it compiles, or loads what was compiled, may fail in every call that follows,
    of any function. So Ctrl-C waits meanwhile, and is raised when that is done: some seconds at most.
    Calls of what is there already take no notice.

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
        return _Deferred(function, cache, options)

    return compiled


class _Deferred:
    """A function that Numba compiles on first use.

    Declaring hundreds of functions takes seconds, so that importing declares none. Compiled functions
    call it as any other function.

    Calls from Python and calls from compiled functions have a dispatcher each. The second has no
    wrapper for Python and no cache of its own: the cache of the caller contains it.

    Parameters
    ----------
    function : callable
    keep : bool
        Whether machine code is cached on disk; see `njit`.
    options : dict
        Further options of `numba.njit`.
    """

    def __init__(self, function: Callable, keep: bool, options: dict[str, Any]) -> None:
        functools.update_wrapper(self, function)
        self._keep = keep
        self._options = options
        self._version = _first_version(function.__code__.co_filename)
        self._found: Any = None
        self._inner: Any = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return (self._found or self._declared())(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        # Copies and pickles ask for names of this kind before there is anything.
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._declared(), name)

    @property
    def _numba_type_(self) -> Any:
        """The type that Numba reads where compiled functions refer to an object."""
        with _interrupts_wait(), global_compiler_lock:
            if self._inner is None:
                self._inner = _declare_inner(self.__wrapped__, self._options)
            return numba.typeof(self._inner)

    def _declared(self) -> Any:
        # One for all threads; the lock is Numba's own, so that no two wait for each other.
        with _interrupts_wait(), global_compiler_lock:
            if self._found is None:
                function: Any = self.__wrapped__
                # What was read before its file changed must not be kept as what stands there now.
                same = _version(function.__code__.co_filename) == self._version
                self._found = _declare(function, self._keep and same, self._options)
            return self._found


def _version(path: str) -> tuple[int, int] | None:
    """Time and size of a file of functions."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size


# As the file was when the first of its functions was read.
_first_version = functools.cache(_version)


def _declare(function: Callable, keep: bool, options: dict[str, Any]) -> Any:
    """Declare a function to Numba, cached on disk where a folder can be written."""
    # Nobody takes the address of these functions as C code.
    options = {"no_cfunc_wrapper": True, **options}
    try:
        return _uncut(numba.njit(cache=keep, **options)(function))
    except RuntimeError as error:
        # Declaring compiles nothing: the folder is all that can be wrong.
        if not keep or "cannot cache function" not in str(error):
            raise
    _COMPILER.not_kept()
    return _uncut(numba.njit(cache=False, **options)(function))


def _declare_inner(function: Callable, options: dict[str, Any]) -> Any:
    """Declare a function that only compiled functions call, one version for integers of all widths.

    Numba would compile it anew for a literal, for an index of 32 bits and for one of 64 bits.
    """
    bare: dict[str, Any] = {"no_cfunc_wrapper": True, "no_cpython_wrapper": True, **options}
    dispatcher: Any = numba.njit(cache=False, **bare)(function)
    find = dispatcher.get_call_template

    def widened(args: Any, kwargs: Any) -> Any:
        widest = {name: _widest(kind) for name, kind in kwargs.items()}
        return find(tuple(map(_widest, args)), widest)

    dispatcher.get_call_template = widened
    return dispatcher


def _widest(kind: Any) -> Any:
    """The type of an argument, int64 for signed integers and literals."""
    types: Any = numba.types
    kind = types.unliteral(kind)
    return types.int64 if isinstance(kind, types.Integer) and kind.signed else kind


def _uncut(dispatcher: Any) -> Any:
    """The same, with Ctrl-C held back while Numba looks for machine code that it does not have yet."""
    # Numba's own loop asks this method for types of arguments that it sees for the first time.
    name = "_compile_for_args"
    find = getattr(dispatcher, name, None)
    # With NUMBA_DISABLE_JIT it is the plain function.
    if find is None:
        return dispatcher

    def whole(*args: Any, **kwargs: Any) -> Any:
        with _interrupts_wait():
            return find(*args, **kwargs)

    setattr(dispatcher, name, whole)
    return dispatcher


@contextmanager
def _interrupts_wait() -> Iterator[None]:
    """Hold Ctrl-C back for the time of a `with` statement, and hand it to who handles it after that."""
    # The main thread alone gets signals. What is no function of Python's cannot cut anything short.
    main = threading.current_thread() is threading.main_thread()
    handler = signal.getsignal(signal.SIGINT) if main else None
    if not callable(handler):
        yield
        return
    pressed: list[int] = []
    signal.signal(signal.SIGINT, lambda number, frame: pressed.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if pressed:
            signal.raise_signal(signal.SIGINT)


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
