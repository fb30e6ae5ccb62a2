"""`structinv warm`: later processes compile nothing, and what it does where it cannot work."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

import structinv
from structinv.cli import app
from structinv.cli.warm_jobs import JOBS
from structinv.cli.warming import Family

ROOT = Path(structinv.__file__).parents[1]

# Counts compilations of the package's functions in a new process.
COUNTING = """
import warnings
from numba.core import event
warnings.simplefilter("ignore")

class Counting(event.Listener):
    found = []
    def on_start(self, event):
        function = event.data["dispatcher"].py_func
        if function.__module__.startswith("structinv."):
            self.found.append(function.__qualname__)
    def on_end(self, event):
        pass

event.register("numba:compile", Counting())
{}
print("compiled:", *Counting.found)
"""
WORDS = """
from structinv import InvariantLinearSVC
from structinv.datasets import make_mail_like
from structinv.oracles import FDrop
X, y = make_mail_like(500, 800, random_state=3)
X = X.astype("float64")
assert X.format == "csr"
model = InvariantLinearSVC(FDrop(max_changes=4), C=0.02).fit(X, y)
model.certify(X, y), model.predict(X)
"""
IMAGES = """
from sklearn.datasets import load_digits
from structinv import InvariantSVC
from structinv.oracles import Rotations, Shifts
X, y = load_digits(return_X_y=True)
model = InvariantSVC(Shifts(1) | Rotations(degrees=(-10, 10)), C=10, tol=1e-2).fit(X[:150] / 16, y[:150])
model.certify(X[150:250] / 16, y[150:250]), model.predict(X[150:] / 16)
"""
SEQUENCES = """
from structinv import InvariantStructuredSVC
from structinv.datasets import conll_features, make_tagged_text
from structinv.oracles import Budget, FDrop
from structinv.structures import Sequence
sentences, labels = make_tagged_text(40, random_state=1)
X = conll_features(sentences)
model = InvariantStructuredSVC(Sequence("iob2"), oracle=FDrop(1), C=0.1).fit(X, labels)
model.certify(X, labels, oracle=Budget(FDrop(3))), model.predict(X)
"""
TEXTS = """
from structinv import InvariantTextClassifier
texts = ["free money for you", "money now, free money", "see you at lunch", "lunch at one"] * 5
labels = ["spam", "spam", "ham", "ham"] * 5
model = InvariantTextClassifier("drop", max_changes=1, C=10.0).fit(texts, labels)
model.certify(texts, labels), model.predict(texts)
"""


def in_new_process(*arguments, folder):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(folder), "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, *arguments], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("family", "use"),
    [
        pytest.param("words", WORDS, marks=pytest.mark.slow),
        pytest.param("images", IMAGES, marks=pytest.mark.slow),
        pytest.param("sequences", SEQUENCES, marks=pytest.mark.slow),
        ("texts", TEXTS),
    ],
)
def test_a_later_process_compiles_nothing(family, use, tmp_path):
    said = in_new_process("-m", "structinv", "warm", family, folder=tmp_path)
    assert " 0 functions" not in said
    assert str(tmp_path) in said
    assert in_new_process("-c", COUNTING.format(use), folder=tmp_path).split() == ["compiled:"]


def test_every_family_has_jobs():
    assert {job.family for job in JOBS} == {family.value for family in Family} - {"all"}


def test_it_refuses_where_nothing_can_be_cached(monkeypatch):
    monkeypatch.setattr("structinv.cli.warming.cache_folder", lambda: None)
    result = CliRunner().invoke(app, ["warm", "words"])
    assert result.exit_code == 2
    assert "NUMBA_CACHE_DIR" in result.stderr


def test_a_folder_that_was_named_and_is_not_used_counts_as_none(tmp_path):
    file = tmp_path / "file"
    file.touch()
    code = "from structinv.utils.jit import cache_folder; print(cache_folder())"
    assert in_new_process("-c", code, folder=file / "cache").strip() == "None"
    assert in_new_process("-c", code, folder=tmp_path).strip().startswith(str(tmp_path))


def test_names_of_families_are_checked():
    result = CliRunner().invoke(app, ["warm", "mails"])
    assert result.exit_code == 2
    assert "sequences" in result.stderr


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_ctrl_c_ends_all_processes(tmp_path):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "structinv", "warm", "words"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    process = subprocess.Popen(command, env=environment, start_new_session=True, **pipes)
    # Something is compiled by then.
    while not any(tmp_path.rglob("*.nbi")):
        assert process.poll() is None
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "interrupted" in said
    assert "Traceback" not in said
    for _ in range(200):
        try:
            os.killpg(process.pid, 0)
        except ProcessLookupError:
            return
        time.sleep(0.05)
    pytest.fail("a process of the group is left")
