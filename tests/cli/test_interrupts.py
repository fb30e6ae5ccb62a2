"""The command line: Ctrl-C, gaps that are too wide, and files that must not be lost."""

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import dump_svmlight_file

import structinv
from structinv import InvariantLinearSVC
from structinv.datasets import make_mail_like
from structinv.solvers import Status

from ..platforms import posix_only
from .test_commands import run

pytestmark = posix_only

ROOT = Path(__file__).resolve().parents[2]
WORDS = ("--oracle", "fscale", "--max-changes", 10)

# A command whose training says when it is on its way.
LOUD = """
from structinv import InvariantLinearSVC
from structinv.cli import app
fit = InvariantLinearSVC.fit
InvariantLinearSVC.fit = lambda self, X, y: fit(self.set_params(verbose=1), X, y)
app()
"""


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    path = tmp_path_factory.mktemp("rows") / "rows.svm"
    X, y = make_mail_like(300, 200, random_state=0)
    dump_svmlight_file(X, np.where(y == "spam", 1, -1), str(path), zero_based=False)
    return path


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "good.model"
    path.write_bytes(b"good")
    return path


def interrupted(*arguments):
    """Start a training that would not end, press Ctrl-C in it, and give the code and what was said."""
    command = [sys.executable, "-c", LOUD, "fit", *map(str, [*WORDS, *arguments])]
    endless = ["--solver", "pegasos", "--C", "100", "--tol", "1e-9", "--max-seconds", "600"]
    process = subprocess.Popen(
        [*command, *endless],
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    for line in process.stderr:
        if "] iteration " in line:
            break
    process.send_signal(signal.SIGINT)
    _, messages = process.communicate()
    assert "Traceback" not in messages
    return process.returncode, messages


class TestControlC:
    def test_a_good_model_is_not_replaced_by_half_of_one(self, rows, model):
        code, messages = interrupted(rows, "-o", model)
        assert code == 130
        assert "not saved: training was interrupted at the relative gap" in messages
        assert "Pass --max-seconds to save the model after this time." in messages
        assert model.read_bytes() == b"good"
        assert [path.name for path in model.parent.iterdir()] == [model.name]

    def test_fits_that_raise_after_they_have_a_model(self, rows, model, monkeypatch):
        fit = InvariantLinearSVC.fit

        def raising(self, X, y):
            fit(self, X, y)
            raise KeyboardInterrupt

        monkeypatch.setattr(InvariantLinearSVC, "fit", raising)
        result = run("fit", rows, *WORDS, "--tol", 0.05, "--C", 0.01, "-o", model)
        assert result.exit_code == 130
        assert isinstance(structinv.load(model), InvariantLinearSVC)

    def test_before_there_is_a_model(self, rows, model, monkeypatch):
        def raising(*_, **__):
            raise KeyboardInterrupt

        monkeypatch.setattr(InvariantLinearSVC, "fit", raising)
        result = run("fit", rows, *WORDS, "-o", model)
        assert result.exit_code == 130
        assert "interrupted: no file was written" in result.stderr
        assert model.read_bytes() == b"good"


class TestGaps:
    hasty = ("--solver", "bmrm", "--C", 1000, "--max-seconds", 0.001, "--tol", 1e-9)

    def test_a_fit_at_its_time_limit_saves_the_model_with_a_warning_and_the_gap(self, rows, model):
        result = run("fit", rows, *WORDS, *self.hasty, "-o", model)
        assert result.exit_code == 0
        solution = structinv.load(model).solution_
        assert solution.status is Status.TIME_LIMIT
        assert "warning: InvariantLinearSVC ended with status 'time limit' after" in result.stderr
        assert f"at a relative gap of {solution.relative_gap:.2g} (tol=1e-09)" in result.stderr
        assert f"relative gap {solution.relative_gap:.1e}: time limit" in result.stdout

    def test_crossed_bounds_are_an_error(self, rows, model, monkeypatch):
        fit = InvariantLinearSVC.fit

        def crossed(self, X, y):
            fit(self, X, y)
            self.solution_ = replace(self.solution_, status=Status.INCONSISTENT)
            return self

        monkeypatch.setattr(InvariantLinearSVC, "fit", crossed)
        result = run("fit", rows, *WORDS, "--tol", 0.05, "--C", 0.01, "-o", model)
        assert result.exit_code == 1
        assert "the lower bound of the objective exceeds its value" in result.stderr
        assert model.read_bytes() == b"good"

    def test_a_write_that_fails_leaves_the_old_file(self, rows, model, monkeypatch):
        def full(*_):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr("os.fsync", full)
        result = run("fit", rows, *WORDS, "--tol", 0.05, "--C", 0.01, "-o", model)
        assert result.exit_code == 2
        assert "No space left" in result.stderr
        assert model.read_bytes() == b"good"
