"""Printing never ends a fit: closed streams, broken pipes and lost terminals."""

import errno
import io
import logging
import os
import subprocess
import sys
import warnings
from contextlib import suppress
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from structinv import InvariantLinearSVC
from structinv.cli import output
from structinv.rows import SlicedRows
from structinv.utils import jit
from structinv.utils.printing import Quiet, print_line

from ..estimators.cases import PREDICTORS
from ..platforms import posix_only


class Lost:
    """A terminal that is gone: every use raises an error."""

    def __init__(self, error):
        self.error = error
        self.n_writes = 0

    def write(self, text):
        self.n_writes += 1
        raise self.error

    def flush(self):
        raise self.error

    def isatty(self):
        return True


def closed():
    stream = io.StringIO()
    stream.close()
    return stream


STREAMS = {
    "none": lambda: None,
    "closed": closed,
    "broken pipe": lambda: Lost(BrokenPipeError(errno.EPIPE, "Broken pipe")),
    "lost terminal": lambda: Lost(OSError(errno.EIO, "Input/output error")),
    "full disk": lambda: Lost(OSError(errno.ENOSPC, "No space left on device")),
}


of_each_stream = pytest.mark.parametrize("name", STREAMS)


def lose(monkeypatch, name):
    """Replace standard error; pytest would undo it at the start of a test."""
    stream = STREAMS[name]()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(sys, "__stderr__", stream)
    return stream


VERBOSE = [case for case in PREDICTORS if "verbose" in case.estimator.get_params(deep=False)]


@pytest.mark.parametrize(
    ("case", "name"),
    [(case, "lost terminal") for case in VERBOSE[1:]] + [(VERBOSE[0], name) for name in STREAMS],
    ids=lambda value: getattr(value, "name", value),
)
def test_no_fit_ends_by_a_lost_stderr(case, name, monkeypatch):
    before = clone(case.estimator).set_params(random_state=0).fit(case.X, case.y)
    lost = lose(monkeypatch, name)
    model = clone(case.estimator).set_params(verbose=1, random_state=0).fit(case.X, case.y)
    assert isinstance(lost, Lost) <= (getattr(lost, "n_writes", 1) > 0)
    assert model.n_iter_ == before.n_iter_


@of_each_stream
def test_passes_over_blocks_and_warnings_do_not_end_a_fit(name, monkeypatch):
    lose(monkeypatch, name)
    monkeypatch.setattr("structinv.estimators.fit_progress.SECONDS_BETWEEN_LINES", 0.0)
    X, y = np.random.default_rng(0).normal(size=(200, 5)), np.arange(200) % 2
    model = InvariantLinearSVC(max_seconds=0.01, tol=0.0, verbose=1, memory_limit="40MB")
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        # Warnings go to standard error, not to the recorder of pytest.
        warnings.showwarning = lambda message, *_: print(message, file=sys.stderr)
        model.fit(SlicedRows(X), y)
    assert model.solution_.status.value == "time limit"


def test_warnings_as_errors_still_end_a_fit():
    X, y = np.random.default_rng(0).normal(size=(200, 5)), np.arange(200) % 2
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        with pytest.raises(ConvergenceWarning):
            InvariantLinearSVC(max_seconds=1e-9).fit(X, y)


@of_each_stream
def test_the_notice_of_compilation_does_not_raise(name, monkeypatch):
    lost = lose(monkeypatch, name)
    logger = logging.getLogger("structinv")
    handler = logging.StreamHandler(lost)
    logger.addHandler(handler)
    try:
        monkeypatch.setattr(jit, "_WORTH_A_MESSAGE", -1.0)
        compiler = jit._Compiler()
        function = SimpleNamespace(py_func=SimpleNamespace(__module__="structinv.anywhere"))
        compiler.on_start(SimpleNamespace(data={"dispatcher": function}))
        compiler.on_end(None)
        jit._Compiler().not_cached()
        jit._Compiler().cache_failed("folder", OSError("full"))
    finally:
        logger.removeHandler(handler)
    assert compiler.announced


@of_each_stream
def test_progress_and_messages_of_the_command_line_do_not_raise(name, monkeypatch):
    lose(monkeypatch, name)
    output.say("warning: text")
    with output.training_shown():
        print_line("text")
    output.quiet_console().print("text")


def test_a_quiet_stream_passes_on_what_a_usable_one_has():
    stream = io.StringIO()
    print("text", file=Quiet(stream), flush=True)
    assert stream.getvalue() == "text\n"
    assert Quiet(sys.__stdout__).encoding == sys.__stdout__.encoding


FIT = """
import os, sys, numpy as np
from structinv import InvariantLinearSVC
X, y = np.random.default_rng(0).normal(size=(200, 5)), np.arange(200) % 2
model = InvariantLinearSVC(max_seconds=1e-6, tol=0.0, verbose=1).fit(X, y)
print(model.solution_.status.value)
"""


@posix_only
def test_a_broken_pipe_ends_no_fit(monkeypatch):
    read, write = os.pipe()
    os.close(read)
    stream = open(write, "w", buffering=1, encoding="utf-8")  # noqa: SIM115
    monkeypatch.setattr(sys, "stderr", stream)
    X, y = np.random.default_rng(0).normal(size=(200, 5)), np.arange(200) % 2
    model = InvariantLinearSVC(max_seconds=1e-6, tol=0.0, verbose=1)
    with pytest.warns(ConvergenceWarning):
        model.fit(X, y)
    assert model.solution_.status.value == "time limit"
    with suppress(BrokenPipeError):
        stream.close()


@posix_only
@pytest.mark.slow
@pytest.mark.parametrize("how", ["pipe", "closed"])
def test_a_process_without_stderr_ends_its_fit(how):
    read, write = os.pipe()
    os.close(read)
    code = FIT if how == "pipe" else "import sys; sys.stderr.close()\n" + FIT
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=write, text=True)
    os.close(write)
    assert done.stdout == "time limit\n"
