"""No figure of seconds contains the compilation of functions."""

from types import SimpleNamespace

import numba
import numpy as np
import pytest
from numba.core import caching, event

import structinv
from structinv.oracles import InvarianceOracle
from structinv.oracles.base import Support
from structinv.utils import clock as clocks
from structinv.utils import jit
from structinv.utils.jit import Stopwatch, njit

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
    monkeypatch.setattr(clocks, "time", clock)
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


@pytest.fixture
def new(tmp_path, monkeypatch):
    """A maker of functions that are read from the same file, and cached."""
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "cache"))
    path = tmp_path / "functions.py"
    text = "from structinv.utils.jit import njit\n@njit(cache=True)\ndef grown(x):\n    return x + 1\n"
    path.write_text(text)

    def read():
        names = {"__name__": "functions"}
        exec(compile(text, str(path), "exec"), names)
        return names["grown"]

    return read


def test_seconds_contain_no_declaring_loading_and_compiling(clock, new):
    watch = Stopwatch()
    assert new()(1) == 2
    # Looked up in the cache without success, and compiled.
    assert clock.now == 111.0
    assert new()(1) == 2
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
