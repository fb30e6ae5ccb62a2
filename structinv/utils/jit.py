"""Compiled functions: cached on disk where possible, and timed apart from other work."""

from __future__ import annotations

import functools
import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numba
from numba.core import caching, event
from numba.core.compiler_lock import global_compiler_lock

from .compile_notice import Clock, CompileNotice

_LOG = logging.getLogger("structinv")
_NOT_KEPT = (
    "structinv: the cache of compiled functions has no writable folder, so every process compiles "
    "them again. Set NUMBA_CACHE_DIR to a writable folder."
)


class _Compiler(event.Listener):
    """Seconds that this process has spent on compiled functions before they could be called.

    Numba's events report the compilations. Declaring a function, and loading its machine code from the
    cache, send no event: `_Deferred` and `_uncut` time them.

    Attributes
    ----------
    compiling : Clock
        Compilations by Numba in any thread, of this package's functions or others.
    preparing : Clock
        The same, and declaring and loading functions.
    """

    def __init__(self) -> None:
        self.kept = True
        self.compiling = Clock()
        self.preparing = Clock()
        self.notice = CompileNotice(self.compiling)

    def on_start(self, event: Any) -> None:
        """Start the clocks, and show that one of this package's functions is compiled."""
        self.preparing.start()
        self.compiling.start()
        if _is_ours(event):
            self.notice.started(self.kept)

    def on_end(self, event: Any) -> None:
        """Stop the clocks."""
        if _is_ours(event):
            self.notice.ended()
        self.compiling.stop()
        self.preparing.stop()

    def not_kept(self) -> None:
        """Warn once that no folder of the cache is writable."""
        if self.kept:
            self.kept = False
            _LOG.warning(_NOT_KEPT)


def _is_ours(event: Any) -> bool:
    return str(event.data["dispatcher"].py_func.__module__).startswith("structinv.")


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


def cache_folder() -> Path | None:
    """Folder in which Numba caches the compiled functions of this package, or None if it cannot.

    With ``NUMBA_CACHE_DIR`` it is a folder inside that one. Numba silently takes another folder if it
    cannot write to that one, which counts as None.
    """
    stats = getattr(_probe, "stats", None)
    if stats is None or stats.cache_path is None:
        return None
    found, wanted = Path(stats.cache_path), getattr(numba.config, "CACHE_DIR", "")
    return found if not wanted or found.is_relative_to(Path(wanted).absolute()) else None


def compiled_functions() -> int:
    """Number of compilations of this package's functions by this process so far."""
    return _COMPILER.notice.functions


def save_one_at_a_time(lock: Any) -> None:
    """Let processes that share a lock write to the cache one after another.

    Numba reads, extends and replaces the index of a function's machine code. Entries get lost if two
    processes do so at once.

    Parameters
    ----------
    lock : multiprocessing.Lock
    """
    cache: Any = caching.FunctionCache
    save = cache.save_overload

    def saved(*args: Any) -> None:
        with lock:
            save(*args)

    cache.save_overload = saved


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
        with _interrupts_wait(), _COMPILER.preparing, global_compiler_lock:
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

    It is always inlined. Otherwise the linker takes one of the copies that several callers bring along,
    and a process that compiles takes another one than a process that loads. Copies that were optimized
    apart round differently.
    """
    bare: dict[str, Any] = {"no_cfunc_wrapper": True, "no_cpython_wrapper": True, "forceinline": True}
    bare.update(options)
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
        # It returns machine code, which Numba calls afterward.
        with _interrupts_wait(), _COMPILER.preparing:
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


@njit(cache=True)
def _probe(x):
    """Show by its cache where all functions are cached."""
    return x


class Stopwatch:
    """Wall time since it was made, without the time for preparing compiled functions.

    Preparing means compiling a function, declaring it, or loading its machine code from the cache.

    Examples
    --------
    >>> watch = Stopwatch()
    >>> watch.compile_seconds
    0.0
    >>> 0.0 < watch.seconds < 60.0
    True
    """

    def __init__(self) -> None:
        self._compiled = _COMPILER.compiling.seconds
        self._prepared = _COMPILER.preparing.seconds
        self._started = time.perf_counter()

    @property
    def seconds(self) -> float:
        """Wall time in which no thread of this process was preparing a compiled function."""
        prepared = _COMPILER.preparing.seconds - self._prepared
        return time.perf_counter() - self._started - prepared

    @property
    def compile_seconds(self) -> float:
        """Wall time in which some thread of this process was compiling."""
        return _COMPILER.compiling.seconds - self._compiled
