"""Compilation with Numba: lazy, cached on disk, and timed separately."""

from __future__ import annotations

import functools
import hashlib
import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import numba
from numba.core import caching, event
from numba.core.compiler_lock import global_compiler_lock

from .printing import log_warning

try:
    import fcntl
except ImportError:
    # Windows has no such locks.
    fcntl = None  # type: ignore[assignment]

_LOG = logging.getLogger("structinv")
# Options of compiled functions. With the second, the compiler may reorder sums, but must respect
# infinities.
PLAIN: dict[str, Any] = {"cache": True, "nogil": True, "error_model": "numpy"}
FAST: dict[str, Any] = {**PLAIN, "fastmath": {"reassoc", "contract", "nsz", "arcp", "nnan"}}
# The same for functions that create no arrays. Numba then counts no references, which takes a fifth of
# the time of functions that take arrays from tuples for each row.
LEAN: dict[str, Any] = {**PLAIN, "_nrt": False}
LEAN_FAST: dict[str, Any] = {**FAST, "_nrt": False}
# Longest time in seconds to wait for another process that compiles.
_LONGEST_WAIT = 60.0
# Total compile time in seconds above which a message is logged.
_WORTH_A_MESSAGE = 0.5
_COMPILING = (
    "structinv: compiling functions on first use. This usually takes 3 to 30 seconds in total, which "
    "are not part of the training time. %s"
)
_LATER = (
    "Later processes load them from a cache on disk. Run `structinv warm` to compile them in advance."
)
_NEVER = "The cache is not writable, so every process compiles them again."
_NOT_CACHED = (
    "structinv: no folder is writable for the cache of compiled functions, so every process compiles "
    "them again. Set NUMBA_CACHE_DIR to a writable folder."
)
_UNUSABLE = (
    "structinv: the cache of compiled functions in %s cannot be used (%s), so functions are compiled "
    "again. If this repeats, free space on the disk, delete the folder, or set NUMBA_CACHE_DIR to "
    "another folder."
)


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


class _Compiler(event.Listener):
    """Clocks of the time that this process spends on compilation.

    Numba's events report compilations. They do not report the declaration of a function or the loading
    of its machine code: `_Deferred` and `_without_interrupts` time these.
    """

    def __init__(self) -> None:
        self.caches = True
        self._cache_failed = False
        self.compiling = Clock()
        self.preparing = Clock()
        self.functions = 0
        self.announced = False

    def on_start(self, event: Any) -> None:
        """Start the clocks; log one message if functions of this package take long."""
        self.preparing.start()
        self.compiling.start()
        if _is_ours(event):
            self.functions += 1
            if not self.announced and self.compiling.seconds > _WORTH_A_MESSAGE:
                self.announced = True
                log_warning(_LOG, _COMPILING, _LATER if self.caches else _NEVER)

    def on_end(self, event: Any) -> None:
        """Stop the clocks."""
        self.compiling.stop()
        self.preparing.stop()

    def not_cached(self) -> None:
        """Warn once that no folder of the cache is writable."""
        if self.caches:
            self.caches = False
            log_warning(_LOG, _NOT_CACHED)

    def cache_failed(self, folder: str, error: Exception) -> None:
        """Warn once that the cache in a folder is broken, or on a full disk."""
        if not self._cache_failed:
            self._cache_failed = True
            log_warning(_LOG, _UNUSABLE, folder, f"{type(error).__name__}: {error}")


def _is_ours(event: Any) -> bool:
    return str(event.data["dispatcher"].py_func.__module__).startswith("structinv.")


_COMPILER = _Compiler()
event.register("numba:compile", _COMPILER)


def njit(*, cache: bool, **options: Any) -> Callable[[Callable], Any]:
    """Compile a function like `numba.njit`, on first use and safe against Ctrl-C.

    Numba raises an error if no folder is writable for the cache, if its disk is full, or if one of its
    files is broken. This decorator logs one warning per process instead, and compiles without a cache.

    An interrupted compilation can make all later calls of compiled functions fail. Ctrl-C therefore
    takes effect after the compilation or loading, which takes a few seconds. It takes effect at once
    for functions that are already compiled.
    """

    def compiled(function: Callable) -> Any:
        return _Deferred(function, cache, options)

    return compiled


def cache_folder() -> Path | None:
    """Return the folder of Numba's cache for this package, or None without a cache.

    The folder is inside ``NUMBA_CACHE_DIR`` if that variable is set. Numba silently uses another folder
    if that one is not writable; the function then returns None.
    """
    stats = getattr(_probe, "stats", None)
    if stats is None or stats.cache_path is None:
        return None
    folder, wanted = Path(stats.cache_path), getattr(numba.config, "CACHE_DIR", "")
    return folder if not wanted or folder.is_relative_to(Path(wanted).absolute()) else None


def cache_is_written() -> bool:
    """Return False if a compiled function could not be written to the cache."""
    return _COMPILER.caches


def compiled_functions() -> int:
    """Return the number of compilations of this package's functions in this process."""
    return _COMPILER.functions


class _Deferred:
    """Function that Numba declares and compiles on first use.

    The declaration of hundreds of functions takes seconds, so an import declares none. Compiled
    functions call it like any other function.

    Calls from Python and calls from compiled functions have separate dispatchers. The second has no
    Python wrapper and no cache, because the cache of the caller contains it.
    """

    def __init__(self, function: Callable, cache: bool, options: dict[str, Any]) -> None:
        functools.update_wrapper(self, function)
        self._cache = cache
        self._options = options
        self._version = _first_version(function.__code__.co_filename)
        self._dispatcher: Any = None
        self._inner: Any = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return (self._dispatcher or self._declared())(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        # `copy` and `pickle` look up special names before the attributes exist.
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._declared(), name)

    @property
    def _numba_type_(self) -> Any:
        """Numba type of the function, for calls from compiled functions."""
        with _interrupts_wait(), global_compiler_lock:
            if self._inner is None:
                self._inner = _declare_inner(self.__wrapped__, self._options)
            return numba.typeof(self._inner)

    def _declared(self) -> Any:
        # All threads share one dispatcher. Numba's own lock avoids deadlocks with its compilations.
        with _interrupts_wait(), _COMPILER.preparing, global_compiler_lock:
            if self._dispatcher is None:
                # If a file has changed since the definition, the cache of the new file must not
                # contain this function.
                files = _files_of(self)
                same = all(_version(path) == version for path, version in files.items())
                dispatcher = _declare(self.__wrapped__, self._cache and same, self._options)
                _add_stamp(dispatcher, files)
                self._dispatcher = dispatcher
            return self._dispatcher


def _version(path: str) -> tuple[int, int] | None:
    """Return the modification time and the size of a file."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size


# The version of a file when its first function was defined.
_first_version = functools.cache(_version)


def _files_of(function: _Deferred) -> dict[str, tuple[int, int] | None]:
    """Return the files of a function and of all that it calls, with their versions at definition."""
    files, found = {}, [function]
    for each in found:
        code, names = each.__wrapped__.__code__, each.__wrapped__.__globals__
        files[code.co_filename] = each._version
        called = [names[name] for name in code.co_names if isinstance(names.get(name), _Deferred)]
        found += [other for other in called if other not in found]
    return files


def _add_stamp(dispatcher: Any, files: Iterable[str]) -> None:
    """Let a cached function depend on several files.

    Its machine code contains that of the functions it calls, but Numba compares only its own file.
    """
    cached = getattr(getattr(dispatcher, "_cache", None), "_cache_file", None)
    if cached is not None:
        contents = hashlib.sha256(b"".join(map(_content_hash, sorted(files))))
        cached._source_stamp = cached._source_stamp, contents.hexdigest()


@functools.cache
def _content_hash(path: str) -> bytes:
    # A path in a zip file cannot be read.
    with suppress(OSError):
        return hashlib.sha256(Path(path).read_bytes()).digest()
    return b""


def _declare(function: Callable, cache: bool, options: dict[str, Any]) -> Any:
    """Return a dispatcher, cached on disk if a folder is writable."""
    # These functions are not called from C code.
    options = {"no_cfunc_wrapper": True, **options}
    try:
        return _without_interrupts(_without_cache_errors(numba.njit(cache=cache, **options)(function)))
    except RuntimeError as error:
        # A declaration compiles nothing, so only the folder of the cache can fail.
        if not cache or "cannot cache function" not in str(error):
            raise
    _COMPILER.not_cached()
    return _without_interrupts(numba.njit(cache=False, **options)(function))


def _declare_inner(function: Callable, options: dict[str, Any]) -> Any:
    """Return a dispatcher for calls from compiled functions, with one version for all integers.

    Numba would otherwise compile separate versions for literals, 32-bit and 64-bit indices.

    The function is always inlined. Otherwise the linker selects one of the copies of several callers,
    and the selection differs between processes that compile and processes that load. Separately
    optimized copies round differently.
    """
    bare: dict[str, Any] = {"no_cfunc_wrapper": True, "no_cpython_wrapper": True, "forceinline": True}
    bare.update(**options)
    dispatcher: Any = numba.njit(cache=False, **bare)(function)
    get_template = dispatcher.get_call_template

    def widened(args: Any, kwargs: Any) -> Any:
        widest = {name: _widest(kind) for name, kind in kwargs.items()}
        return get_template(tuple(map(_widest, args)), widest)

    dispatcher.get_call_template = widened
    return dispatcher


def _widest(kind: Any) -> Any:
    """Return the type of an argument: int64 for signed integers and literals."""
    types: Any = numba.types
    kind = types.unliteral(kind)
    return types.int64 if isinstance(kind, types.Integer) and kind.signed else kind


def _without_cache_errors(dispatcher: Any) -> Any:
    """Replace errors of a dispatcher's cache by a warning; return the dispatcher.

    A file that cannot be read is as an absent file: the next save replaces it. Only one process at a
    time compiles functions of a source file.
    """
    cache = getattr(dispatcher, "_cache", None)
    if not isinstance(cache, caching.FunctionCache):
        return dispatcher
    kind: Any = type(cache)

    def load(*args: Any) -> Any:
        found = read(*args)
        waited = found is None and until_compiled.enter_context(_locked(dispatcher.py_func))
        return read(*args) if waited else found

    def read(*args: Any) -> Any:
        try:
            return kind.load_overload(cache, *args)
        except Exception as error:
            return _COMPILER.cache_failed(cache.cache_path, error)

    def save(*args: Any) -> None:
        try:
            try:
                kind.save_overload(cache, *args)
            except OSError:
                raise
            except Exception:
                # Numba cannot extend a broken index.
                cache.flush()
                kind.save_overload(cache, *args)
        except Exception as error:
            _COMPILER.caches = False
            _COMPILER.cache_failed(cache.cache_path, error)

    until_compiled, compile_one = ExitStack(), dispatcher.compile

    def compiled(types: Any) -> Any:
        with global_compiler_lock, until_compiled:
            return compile_one(types)

    dispatcher.compile = compiled
    vars(cache).update(load_overload=load, save_overload=save)
    return dispatcher


def _without_interrupts(dispatcher: Any) -> Any:
    """Delay Ctrl-C while a dispatcher compiles or loads machine code; return the dispatcher."""
    # Numba calls this method for argument types without machine code.
    name = "_compile_for_args"
    prepare = getattr(dispatcher, name, None)
    # With NUMBA_DISABLE_JIT the dispatcher is the plain function.
    if prepare is None:
        return dispatcher

    def uninterrupted(*args: Any, **kwargs: Any) -> Any:
        # The call of the returned machine code is not part of the delay.
        with _interrupts_wait(), _COMPILER.preparing:
            return prepare(*args, **kwargs)

    setattr(dispatcher, name, uninterrupted)
    return dispatcher


@contextmanager
def _locked(function: Callable) -> Iterator[bool]:
    """Lock the source file of a function for other processes; the value is whether one had the lock.

    The lock needs no additional file and no permission to write. It ends with the process. Without
    locks, or after the longest wait, two processes may compile the same function.
    """
    waited = False
    with ExitStack() as stack:
        # Some file systems have no locks.
        with suppress(OSError):
            file = stack.enter_context(open(function.__code__.co_filename, "rb"))
            waited = _wait_for(file)
            # Closing is not enough if a forked process has the file, too.
            stack.callback(_unlock, file)
        yield waited


def _wait_for(file: Any) -> bool:
    """Lock a file; return whether another process had it."""
    began = time.monotonic()
    latest = began
    while fcntl is not None and latest < began + _LONGEST_WAIT:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            time.sleep(0.02)
            latest = time.monotonic()
    return latest > began


def _unlock(file: Any) -> None:
    if fcntl is not None:
        fcntl.flock(file, fcntl.LOCK_UN)


@contextmanager
def _interrupts_wait() -> Iterator[None]:
    """Delay Ctrl-C until the end of a `with` statement."""
    # Only the main thread receives signals. Handlers outside Python do not raise exceptions.
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
    """Identity function; its cache shows the folder of all caches."""
    return x


class Stopwatch:
    """Wall time since construction, without the preparation of compiled functions.

    Preparation is compilation, declaration, or loading of machine code from the cache.
    """

    def __init__(self) -> None:
        self._compiled = _COMPILER.compiling.seconds
        self._prepared = _COMPILER.preparing.seconds
        self._started = time.perf_counter()

    @property
    def seconds(self) -> float:
        """Wall time during which no thread of this process prepared a compiled function."""
        prepared = _COMPILER.preparing.seconds - self._prepared
        return time.perf_counter() - self._started - prepared

    @property
    def compile_seconds(self) -> float:
        """Wall time during which a thread of this process compiled."""
        return _COMPILER.compiling.seconds - self._compiled
