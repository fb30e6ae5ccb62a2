"""Models in other processes: uncompiled, forked, in workers, several at once, with equal bytes."""

import json
import multiprocessing
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from joblib import Parallel, delayed, parallel_config
from sklearn.base import clone

import structinv
from structinv.datasets import make_mail_like
from structinv.oracles import FDrop

from ..estimators.cases import CASE
from .worked import NAMES, answers, worked

ROOT = Path(__file__).resolve().parents[2]
# A process that hangs is ended after so many seconds.
PATIENCE = 600.0


@cache
def expected(name):
    """The answers in this process, compiled."""
    return worked(name)


def assert_same(found, name):
    assert found == expected(name)


def started(*names, **variables):
    """A new process that fits models and prints their answers."""
    environment = {**os.environ, **variables}
    command = [sys.executable, "-m", "tests.paths.worked", *names]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, cwd=ROOT, env=environment, text=True, **pipes)


def finished(process):
    """What a process has printed."""
    try:
        out, error = process.communicate(timeout=PATIENCE)
    finally:
        process.kill()
    assert process.returncode == 0, error
    return json.loads(out)


@pytest.fixture(scope="module")
def interpreted():
    return finished(started(*NAMES, NUMBA_DISABLE_JIT="1"))


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_without_compiling(name, interpreted):
    # Sums are rounded in another order, which a fit may turn into all that its tolerance leaves open.
    found, wanted = interpreted[name], expected(name)
    assert found["predictions"] == wanted["predictions"]
    assert found["primal"] == pytest.approx(wanted["primal"], rel=CASE[name].estimator.tol)
    assert len(found["margins"]) == len(wanted["margins"])


def _in_a_child(connection, models):
    """The answers of fitted models, and of new fits."""
    connection.send(
        {name: [answers(model, CASE[name].X), worked(name)] for name, model in models.items()}
    )
    connection.close()


@pytest.fixture(scope="module")
def forked():
    if "fork" not in multiprocessing.get_all_start_methods():
        pytest.skip("no fork on this system")
    models = {name: clone(CASE[name].estimator).fit(CASE[name].X, CASE[name].y) for name in NAMES}
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe(duplex=False)
    child = context.Process(target=_in_a_child, args=(there, models))
    child.start()
    there.close()
    try:
        assert here.poll(PATIENCE), "the child hangs"
        found = here.recv()
        child.join(PATIENCE)
        assert child.exitcode == 0
    finally:
        child.kill()
    return found


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
@pytest.mark.parametrize("name", NAMES)
def test_forked_after_a_fit(name, forked):
    fitted_before, fitted_there = forked[name]
    assert_same(fitted_before, name)
    assert_same(fitted_there, name)


@pytest.fixture(
    scope="module",
    # New processes, and copies of this one, which have imported all.
    params=[pytest.param("loky", marks=pytest.mark.slow), "multiprocessing"],
)
def in_workers(request):
    cases = [CASE[name] for name in NAMES]
    with parallel_config(backend=request.param, n_jobs=2):
        fits = [delayed(clone(case.estimator).fit)(case.X, case.y) for case in cases]
        models = Parallel()(fits)
        guesses = [delayed(model.predict)(case.X) for model, case in zip(models, cases, strict=True)]
        predictions = Parallel()(guesses)
    return dict(zip(NAMES, zip(models, predictions, strict=True), strict=True))


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
@pytest.mark.parametrize("name", NAMES)
def test_in_two_workers(name, in_workers):
    model, predictions = in_workers[name]
    assert_same(answers(model, CASE[name].X), name)
    assert [np.asarray(each).tolist() for each in predictions] == expected(name)["predictions"]


@pytest.mark.slow
def test_two_processes_fill_one_cache(tmp_path):
    # The one that compiles least.
    name = "kernel"
    processes = [started(name, NUMBA_CACHE_DIR=str(tmp_path)) for _ in range(2)]
    try:
        for found in [finished(process) for process in processes]:
            assert_same(found[name], name)
    finally:
        for process in processes:
            process.kill()
    kept = [path for path in tmp_path.rglob("*") if path.suffix in (".nbi", ".nbc")]
    assert kept
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and path not in kept]
    # What they have left is whole.
    assert_same(finished(started(name, NUMBA_CACHE_DIR=str(tmp_path)))[name], name)


SCRIPT = ROOT / "tests" / "paths" / "saved_fits.py"
MODELS = ("words", "images", "tags", "unfitted", "command")


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    made = [tmp_path_factory.mktemp(f"fits{number}") for number in range(2)]
    for number, folder in enumerate(made):
        # Another seed of hashes gives another order of sets.
        environment = {**os.environ, "SOURCE_DATE_EPOCH": "0", "PYTHONHASHSEED": str(number)}
        subprocess.run([sys.executable, SCRIPT, folder], env=environment, check=True)
    return made


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_two_fits_give_equal_files(name, folders):
    first, second = (folder / name for folder in folders)
    assert first.read_bytes() == second.read_bytes()


@pytest.fixture
def model():
    X, y = make_mail_like(100, 100, random_state=0)
    return structinv.InvariantLinearSVC(FDrop(2), C=0.01, random_state=0).fit(X, y)


def test_small_differences_of_models_change_the_file(model, tmp_path, monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "0")
    structinv.save(model, tmp_path / "first")
    model.coef_ = model.coef_ * (1 + 1e-15)
    structinv.save(model, tmp_path / "second")
    assert (tmp_path / "first").read_bytes() != (tmp_path / "second").read_bytes()


def test_run_times_are_stored_by_default(model, tmp_path, monkeypatch):
    monkeypatch.delenv("SOURCE_DATE_EPOCH", raising=False)
    structinv.save(model, tmp_path / "timed")
    loaded = structinv.load(tmp_path / "timed").solution_
    assert loaded.seconds == model.solution_.seconds > 0
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "0")
    structinv.save(model, tmp_path / "untimed")
    loaded = structinv.load(tmp_path / "untimed").solution_
    assert loaded.seconds == loaded.compile_seconds == 0
    assert [record.seconds for record in loaded.history] == [0.0] * len(model.solution_.history)
    assert [record.dual for record in loaded.history] == [each.dual for each in model.solution_.history]
