"""The same seed, versions and number of threads give the same bytes, in new processes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from sklearn.datasets import dump_svmlight_file

import structinv
from structinv.datasets import make_mail_like
from structinv.oracles import FDrop

SCRIPT = Path(__file__).with_name("saved_fits.py")
MODELS = ("words", "planes", "images", "tags", "unfitted")


def in_new_process(*command, hash_seed):
    """Run Python with the variable that omits times, and another order of sets."""
    environment = {**os.environ, "SOURCE_DATE_EPOCH": "0", "PYTHONHASHSEED": str(hash_seed)}
    subprocess.run([sys.executable, *command], env=environment, check=True, capture_output=True)


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    made = [tmp_path_factory.mktemp(f"fits{number}") for number in range(2)]
    for number, folder in enumerate(made):
        in_new_process(SCRIPT, folder, hash_seed=number)
    return made


@pytest.mark.parametrize("name", MODELS)
def test_two_fits_give_equal_files(name, folders):
    first, second = (folder / name for folder in folders)
    assert first.read_bytes() == second.read_bytes()


def test_two_runs_of_the_command_line_give_equal_files(tmp_path):
    X, y = make_mail_like(100, 100, random_state=0)
    data = tmp_path / "mail.svm"
    dump_svmlight_file(X, y == "spam", str(data), zero_based=False)
    for number in range(2):
        output = str(tmp_path / str(number))
        fit = ("fit", str(data), "--oracle", "fdrop", "--max-changes", "2", "-o", output)
        in_new_process("-m", "structinv", *fit, hash_seed=number)
    assert (tmp_path / "0").read_bytes() == (tmp_path / "1").read_bytes()


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
