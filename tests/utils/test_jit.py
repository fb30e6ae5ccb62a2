"""Compiled functions: kept where that can be; compiling is neither silent nor counted as training."""

import errno
import logging
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import numba
import numpy as np
import pytest
from numba.core import caching, event

import structinv
from structinv.oracles import InvarianceOracle
from structinv.oracles.base import Support
from structinv.utils import jit
from structinv.utils.jit import Stopwatch, njit

PACKAGE = Path(structinv.__file__).parent

FIT = """
import numpy as np, structinv
from structinv.utils import jit
jit._WORTH_A_MESSAGE = 0.0
from structinv.oracles import Box
X, y = np.array([[2.0, 2.0, 2.0], [-2.0, -2.0, -2.0]] * 5), np.array([0, 1] * 5)
model = structinv.InvariantLinearSVC(Box(0.1), solver="frank_wolfe", random_state=0).fit(X, y)
solution = model.solution_
print(structinv.__file__, model.score(X, y), solution.seconds, solution.compile_seconds, sep="|")
"""


@pytest.fixture
def silent(monkeypatch):
    """A compiler that has said nothing yet and keeps what it can."""
    compiler = jit._Compiler()
    # The one of the process listens on.
    monkeypatch.setattr(jit._COMPILER, "announced", True)
    monkeypatch.setattr(jit, "_COMPILER", compiler)
    with event.install_listener("numba:compile", compiler):
        yield compiler


def new_function(module="structinv.anywhere", nested=False):
    """A function that is not compiled yet, and what it calls."""

    @numba.njit
    def inner(x):
        return x + 1.0

    def outer(x):
        return inner(x) * 2.0

    def plain(x):
        return x * 2.0

    function = outer if nested else plain
    function.__module__ = module
    return numba.njit(function)


def test_it_imports_and_fits_where_nothing_can_be_written(tmp_path):
    shutil.copytree(PACKAGE, tmp_path / "structinv", ignore=shutil.ignore_patterns("__pycache__"))
    for folder, _, _ in list(os.walk(tmp_path / "structinv")):
        # Not even root makes a folder where there is a file.
        Path(folder, "__pycache__").touch()
    nowhere = {"HOME": os.devnull, "XDG_CACHE_HOME": f"{os.devnull}/cache", "LOCALAPPDATA": os.devnull}
    environment = {**os.environ, **nowhere, "PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
    environment.pop("NUMBA_CACHE_DIR", None)
    environment["NUMBA_OPT"] = "0"  # less to compile
    done = subprocess.run(
        [sys.executable, "-c", FIT], env=environment, cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    path, score, seconds, compiling = done.stdout.strip().split("|")
    assert Path(path).parent.parent == tmp_path
    assert float(score) == 1.0
    # Everything had to be compiled, and none of it is booked as training.
    assert 0.0 < float(seconds) < float(compiling)
    assert done.stderr.count("NUMBA_CACHE_DIR") == 1
    assert done.stderr.count("compiling functions") == 1


@pytest.mark.slow
def test_a_folder_for_compiled_functions_is_used_where_it_is_named(tmp_path):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), "PYTHONPATH": str(PACKAGE.parent)}
    runs = [
        subprocess.run([sys.executable, "-c", FIT], env=environment, capture_output=True, text=True)
        for _ in range(2)
    ]
    assert [run.returncode for run in runs] == [0, 0]
    assert any(tmp_path.rglob("*.nbi"))
    assert "structinv warm" in runs[0].stderr
    # What is loaded is not compiled.
    assert runs[1].stderr == ""
    assert float(runs[1].stdout.split("|")[-1]) == 0.0


def test_a_missing_cache_is_warned_of_once(monkeypatch, silent, caplog):
    monkeypatch.setattr(caching.CacheImpl, "_locator_classes", [])
    # Numba has this setting since version 0.62.
    monkeypatch.setattr(numba.config, "CACHE_LOCATOR_CLASSES", "", raising=False)
    functions = [njit(cache=True, nogil=True)(lambda x: x + 1) for _ in range(3)]
    assert [function(1) for function in functions] == [2, 2, 2]
    (record,) = caplog.records
    assert record.name == "structinv"
    assert record.levelno == logging.WARNING
    assert "NUMBA_CACHE_DIR" in record.getMessage()


SOURCE = "from structinv.utils.jit import njit\n\n@njit(cache=True)\ndef grown(x):\n    return x + 1\n"


def defined(folder):
    """Return a new function that is cached in a folder."""
    source, names = folder / "grown.py", {"__name__": "grown"}
    if not source.exists():
        source.write_text(SOURCE)
    exec(compile(SOURCE, str(source), "exec"), names)
    return names["grown"]


def test_a_folder_that_numba_is_told_of_holds_compiled_functions(tmp_path, monkeypatch, silent, caplog):
    named, source = tmp_path / "named", tmp_path / "source"
    source.mkdir()
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(named))
    assert defined(source)(1) == 2
    assert any(named.rglob("*.nbi"))
    assert [path.name for path in source.iterdir()] == ["grown.py"]
    # What is loaded is not compiled.
    watch, again = Stopwatch(), defined(source)
    assert again(1) == 2
    assert sum(again.stats.cache_hits.values()) == 1
    assert watch.compile_seconds == 0.0
    assert caplog.records == []
    assert jit.cache_is_written()


def full(*arguments):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("broken", ["empty index", "cut index", "other index", "empty data", "cut data"])
def test_a_broken_file_of_the_cache_is_as_an_absent_one(tmp_path, monkeypatch, silent, caplog, broken):
    monkeypatch.setattr(numba.config, "CACHE_DIR", "")
    assert defined(tmp_path)(1) == 2
    (path,) = tmp_path.rglob("*.nbi" if "index" in broken else "*.nbc")
    content = path.read_bytes()
    path.write_bytes(
        {"e": b"", "c": content[: len(content) // 2], "o": b"no pickle" + content}[broken[0]]
    )
    assert defined(tmp_path)(1) == 2
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert f"cache of compiled functions in {path.parent} cannot be used (" in record.getMessage()
    # The next process finds an intact cache.
    monkeypatch.setattr(jit, "_COMPILER", jit._Compiler())
    caplog.clear()
    again = defined(tmp_path)
    assert again(1) == 2
    assert (sum(again.stats.cache_hits.values()), caplog.records) == (1, [])
    assert jit.cache_is_written()


@pytest.mark.parametrize("place", ["_open_for_write", "_save_index", "_save_data", "_load_index"])
def test_a_full_disk_is_as_no_cache(tmp_path, monkeypatch, silent, caplog, place):
    monkeypatch.setattr(numba.config, "CACHE_DIR", "")
    monkeypatch.setattr(caching.IndexDataCacheFile, place, full)
    function = defined(tmp_path)
    assert (function(1), function(1.0), function(1j)) == (2, 2.0, 1 + 1j)
    (record,) = caplog.records
    assert (
        f"in {tmp_path / '__pycache__'} cannot be used (OSError: [Errno 28] No space"
        in record.getMessage()
    )
    assert not jit.cache_is_written()


@pytest.mark.parametrize("edited", [False, True])
def test_functions_of_a_changed_file_are_not_cached(tmp_path, monkeypatch, edited):
    monkeypatch.setattr(numba.config, "CACHE_DIR", "")
    source, folder = tmp_path / "grown.py", tmp_path / "__pycache__"
    grown = defined(tmp_path)
    if edited:
        source.write_text(SOURCE.replace("x + 1", "x + 20"))
    assert grown(1) == 2
    assert any(folder.rglob("*.nbi")) is not edited


CALLED = "from structinv.utils.jit import njit\n\n@njit(cache=True)\ndef called(x):\n    return x + {}\n"
CALLER = """
import sys
from called import called
from structinv.utils.jit import njit

@njit(cache=True)
def caller(x):
    return called(x)

print(caller(1), sum(caller.stats.cache_hits.values()))
"""


def test_a_change_of_a_called_function_is_noticed(tmp_path):
    (tmp_path / "caller.py").write_text(CALLER)
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE.parent), "NUMBA_CACHE_DIR": ""}
    found = []
    for added in (1, 1, 2):
        (tmp_path / "called.py").write_text(CALLED.format(added))
        done = subprocess.run(
            [sys.executable, "caller.py"], env=environment, cwd=tmp_path, capture_output=True, text=True
        )
        found.append(done.stdout.split())
    assert found == [["2", "0"], ["2", "1"], ["3", "0"]]


def test_a_function_waits_for_another_process_that_compiles(tmp_path, monkeypatch):
    fcntl = pytest.importorskip("fcntl")
    monkeypatch.setattr(numba.config, "CACHE_DIR", "")
    assert defined(tmp_path)(1) == 2
    done, elsewhere = tmp_path / "__pycache__", tmp_path / "elsewhere"
    done.rename(elsewhere)
    grown, found = defined(tmp_path), []
    thread = threading.Thread(target=lambda: found.append(grown(1)))
    with open(tmp_path / "grown.py", "rb") as source:
        fcntl.flock(source, fcntl.LOCK_EX)
        thread.start()
        thread.join(0.3)
        assert found == []
        # The other process writes its result.
        shutil.copytree(elsewhere, done, dirs_exist_ok=True)
    thread.join()
    assert found == [2]
    assert sum(grown.stats.cache_hits.values()) == 1


def test_a_function_does_not_wait_for_ever(tmp_path, monkeypatch):
    fcntl = pytest.importorskip("fcntl")
    monkeypatch.setattr(numba.config, "CACHE_DIR", "")
    monkeypatch.setattr(jit, "_LONGEST_WAIT", 0.1)
    with open(defined(tmp_path).py_func.__code__.co_filename, "rb") as source:
        fcntl.flock(source, fcntl.LOCK_EX)
        assert defined(tmp_path)(1) == 2


def test_functions_are_declared_on_first_use():
    inner = njit(cache=False)(lambda x: x + 1.0)
    outer = njit(cache=False)(lambda x: 2.0 * inner(x))

    def declared():
        return [vars(function)["_dispatcher"] is not None for function in (inner, outer)]

    assert declared() == [False, False]
    assert outer(x=1.0) == 4.0
    assert declared() == [True, True]
    assert inner.py_func(1.0) == 2.0


@njit(cache=False, nogil=True, fastmath=True)
def length(x, power):
    """Large enough that LLVM would not inline each of several calls by itself."""
    total, largest = 0.0, 0.0
    for i in range(len(x)):
        largest = max(largest, abs(x[i]))
    for i in range(len(x)):
        total += (abs(x[i]) / largest) ** power
    while total > 10.0:
        total = total**0.5 + largest
    return largest * total ** (1.0 / power)


@njit(cache=False, nogil=True)
def lengths(x):
    return length(x, 1.5) + length(x[1:], 2.5) + length(x[2:], 3.5)


def test_machine_code_contains_what_it_calls():
    # Of several copies of a function the linker takes the first, which is another one in a process
    # that compiles than in one that loads. Copies round differently.
    assert lengths(np.ones(5)) > 0
    [code] = lengths.inspect_llvm().values()
    defined = [line for line in code.splitlines() if line.startswith("define")]
    assert any("lengths" in line for line in defined)
    assert not [line for line in defined if re.search(r"6length(?!s)", line)]


def test_threads_declare_a_function_once(monkeypatch):
    declared, start = [], threading.Barrier(4)
    declare = jit._declare

    def slowly(*args):
        declared.append(args)
        time.sleep(0.01)
        return declare(*args)

    monkeypatch.setattr(jit, "_declare", slowly)

    @njit(cache=False, nogil=True)
    def double(x):
        return 2 * x

    found = []

    def use():
        start.wait()
        found.append(double(2))

    threads = [threading.Thread(target=use) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [4] * 4
    assert len(declared) == 1


@pytest.mark.parametrize("nested", [False, True])
def test_compiling_is_counted_once_and_not_as_other_work(silent, nested):
    function = new_function(nested=nested)
    watch, before = Stopwatch(), time.perf_counter()
    function(1.0)
    whole = time.perf_counter() - before
    assert 0.0 < watch.compile_seconds <= whole
    assert watch.compile_seconds == silent.compiling.seconds
    done = watch.compile_seconds
    function(1.0)
    assert watch.compile_seconds == done


@pytest.mark.parametrize(("module", "said"), [("structinv.anywhere", 1), ("somebody.else", 0)])
def test_compilation_is_logged_once(silent, caplog, monkeypatch, module, said):
    monkeypatch.setattr(jit, "_WORTH_A_MESSAGE", 0.0)
    for _ in range(2):
        new_function(module)(1.0)
    messages = [record.getMessage() for record in caplog.records if record.name == "structinv"]
    assert len(messages) == said
    assert all("compiling" in message and "structinv warm" in message for message in messages)


class Pressing(event.Listener):
    """A user who presses Ctrl-C at some step of Numba's compiler."""

    def __init__(self, step):
        self.step = step
        self.seen = 0

    def on_start(self, event):
        self.seen += 1
        if self.seen == self.step:
            signal.raise_signal(signal.SIGINT)

    def on_end(self, event):
        pass


def with_inner():
    """A function of this package's kind that is not compiled yet, nor what it calls."""

    @njit(cache=False)
    def inner(x):
        return x + 1.0

    @njit(cache=False)
    def outer(x):
        return inner(x) * 2.0

    return outer


@pytest.mark.parametrize("step", [1, 5, 40])
def test_ctrl_c_waits_until_a_function_is_compiled(step):
    function, handler = with_inner(), signal.getsignal(signal.SIGINT)
    with (
        event.install_listener("numba:run_pass", Pressing(step)) as user,
        pytest.raises(KeyboardInterrupt),
    ):
        function(1.0)
    assert user.seen > step
    assert function.signatures
    assert signal.getsignal(signal.SIGINT) is handler
    assert function(1.0) == 4.0


def test_the_handler_of_ctrl_c_is_called_once():
    heard = []
    signal.signal(signal.SIGINT, lambda number, frame: heard.append(number))
    with event.install_listener("numba:run_pass", Pressing(5)):
        assert with_inner()(1.0) == 4.0
    assert heard == [signal.SIGINT]
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with event.install_listener("numba:run_pass", Pressing(5)):
        assert with_inner()(1.0) == 4.0
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


def test_other_threads_compile_and_touch_no_signal():
    found, handler = [], signal.getsignal(signal.SIGINT)
    thread = threading.Thread(target=lambda: found.append(with_inner()(1.0)))
    thread.start()
    thread.join()
    assert found == [4.0]
    assert signal.getsignal(signal.SIGINT) is handler


# Many steps of the compiler leave Numba in ruins for good, so that it takes a process of its own.
ANYWHERE = """
import signal, sys
import numpy as np
from structinv.kernels import Gaussian, Laplacian

def pressing(frame, what, argument):
    pressing.calls += what == "call"
    if pressing.calls == pressing.at:
        sys.setprofile(None)
        signal.raise_signal(signal.SIGINT)

signal.signal(signal.SIGINT, signal.default_int_handler)
tries = [(Laplacian(), float, 130_000), (Laplacian(), np.float32, 50_000), (Gaussian(), float, 20_000)]
for kernel, dtype, pressing.at in tries:
    rows, pressing.calls = np.ones((3, 2), dtype), 0
    try:
        sys.setprofile(pressing)
        kernel.matrix(rows, rows)
    except KeyboardInterrupt:
        print("pressed")
    sys.setprofile(None)
    assert np.all(kernel.matrix(rows, rows) == 1.0)
"""


@pytest.mark.slow
def test_ctrl_c_anywhere_in_the_compiler_breaks_nothing(tmp_path):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), "PYTHONPATH": str(PACKAGE.parent)}
    done = subprocess.run(
        [sys.executable, "-c", ANYWHERE], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["pressed"] * 3


X, Y = np.array([[2.0, 0.0], [-2.0, 1.0]] * 5), np.array([0, 1] * 5)


class Moving(event.Listener):
    """Moves a clock by so much at each step of Numba."""

    def __init__(self, clock, seconds):
        self.clock = clock
        self.seconds = seconds

    def on_start(self, event):
        self.clock.now += self.seconds

    def on_end(self, event):
        pass


@pytest.fixture
def clock(monkeypatch):
    """A clock that only preparing functions moves."""
    clock = SimpleNamespace(now=0.0)
    clock.perf_counter = clock.monotonic = lambda: clock.now
    monkeypatch.setattr(jit, "time", clock)
    declare, load = jit._declare, caching.FunctionCache.load_overload

    def slowly(move, work):
        def worked(*args):
            clock.now += move
            return work(*args)

        return worked

    monkeypatch.setattr(jit, "_declare", slowly(1.0, declare))
    monkeypatch.setattr(caching.FunctionCache, "load_overload", slowly(10.0, load))
    with event.install_listener("numba:compile", Moving(clock, 100.0)):
        yield clock


def test_seconds_contain_no_declaring_loading_and_compiling(clock, tmp_path, monkeypatch):
    monkeypatch.setattr(numba.config, "CACHE_DIR", "")
    watch = Stopwatch()
    assert defined(tmp_path)(1) == 2
    # Looked up in the cache without success, and compiled.
    assert clock.now == 111.0
    assert defined(tmp_path)(1) == 2
    assert clock.now == 122.0
    assert watch.seconds == 0.0
    assert watch.compile_seconds == 100.0
    clock.now += 3.0
    assert watch.seconds == 3.0


class Preparing(InvarianceOracle):
    """No changes; its first answer declares and compiles a function."""

    def support(self, X, V, assign, cost=None):
        if not hasattr(self, "times"):
            self.times = njit(cache=False)(lambda x: x + 1.0)(1.0)
        return Support(X)


FITS = {
    "fit": lambda model: model.fit(X, Y),
    "partial_fit": lambda model: model.set_params(solver="pegasos").partial_fit(X, Y),
}


@pytest.mark.parametrize("name", FITS)
def test_seconds_of_a_fit_contain_no_preparing(clock, name):
    solution = FITS[name](structinv.InvariantLinearSVC(Preparing(), random_state=0)).solution_
    assert clock.now > 100.0
    assert solution.seconds == pytest.approx(0.0, abs=1e-9)
    assert solution.compile_seconds >= 100.0
    assert all(abs(record.seconds) < 1e-9 for record in solution.history)
