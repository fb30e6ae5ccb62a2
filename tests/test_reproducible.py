"""The same seed, versions and number of threads give the same bytes, in new processes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import structinv
from structinv.datasets import make_mail_like
from structinv.oracles import FDrop

SCRIPT = Path(__file__).with_name("saved_fits.py")
MODELS = ("words", "images", "tags", "unfitted", "command")


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    made = [tmp_path_factory.mktemp(f"fits{number}") for number in range(2)]
    for number, folder in enumerate(made):
        # Another seed of hashes gives another order of sets.
        environment = {**os.environ, "SOURCE_DATE_EPOCH": "0", "PYTHONHASHSEED": str(number)}
        subprocess.run([sys.executable, SCRIPT, folder], env=environment, check=True)
    return made


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
