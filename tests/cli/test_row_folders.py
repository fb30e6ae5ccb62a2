"""The command line: folders of rows, which are read in blocks, and their conversion from SVMlight."""

import gzip
import io
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import dump_svmlight_file, load_svmlight_file

import structinv
from structinv import InvariantLinearSVC
from structinv.cli import data
from structinv.datasets import make_mail_like
from structinv.estimators.inputs import block_sizes
from structinv.rows import RowFolder, RowWriter
from structinv.terms.blockwise_term import BlockSizes

from .test_commands import fail, run, succeed

DROP = ("--oracle", "fdrop", "--max-changes", 2, "--C", 0.1)
SMALL = 2000


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """Some ten blocks of a fit, and several of a conversion."""
    monkeypatch.setattr(BlockSizes, "values", SMALL)
    monkeypatch.setattr(block_sizes, "__defaults__", (BlockSizes(values=SMALL),))
    monkeypatch.setattr(data, "BLOCK_SIZE", 5000)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Files, folders of the same rows, and models of both; tests never change them."""
    folder = tmp_path_factory.mktemp("folders")
    for name, seed in (("train", 0), ("test", 1)):
        X, y = make_mail_like(300, 100, random_state=seed)
        path = folder / f"{name}.svm"
        dump_svmlight_file(X, np.where(y == "spam", 1, -1), str(path), zero_based=False)
        succeed("convert", path, folder / name, "--n-features", 100)
    for name in ("train", "train.svm"):
        succeed("fit", folder / name, *DROP, "-o", folder / f"{name}.model")
    return folder


def test_a_model_of_a_folder_is_that_of_the_estimator(folder, tmp_path):
    succeed("fit", folder / "train", *DROP, "--memory-limit", "1GB", "-o", tmp_path / "m")
    saved, rows = structinv.load(tmp_path / "m"), RowFolder(folder / "train")
    model = InvariantLinearSVC(saved.oracle, C=0.1, random_state=0, memory_limit="1GB")
    np.testing.assert_allclose(saved.coef_, model.fit(rows, rows.labels).coef_, rtol=0, atol=1e-12)


@pytest.mark.parametrize("model", ["train.model", "train.svm.model"])
def test_answers_about_a_folder_are_those_about_the_file(folder, model, tmp_path):
    lines = succeed("predict", folder / model, folder / "test", "--scores", "--certify")
    assert lines == succeed("predict", folder / model, folder / "test.svm", "--scores", "--certify")
    assert len(lines.splitlines()) == 300
    for name, *more in (("evaluate",), ("explain", "--row", 17)):
        told = succeed(name, folder / model, folder / "test", *more)
        assert told == succeed(name, folder / model, folder / "test.svm", *more)
    succeed("report", folder / model, folder / "test", "-o", tmp_path / "report")
    assert "of the output of sha256sum" in (tmp_path / "report").read_text()


def test_rows_without_labels(folder, tmp_path):
    with RowWriter(tmp_path / "unlabeled") as rows:
        rows.append(make_mail_like(50, 100, random_state=2)[0])
    model = folder / "train.model"
    assert len(succeed("predict", model, tmp_path / "unlabeled").splitlines()) == 50
    assert "Row 3: no label" in succeed("explain", model, tmp_path / "unlabeled", "--row", 3)
    assert "has no usable labels" in fail("evaluate", model, tmp_path / "unlabeled")
    assert "has no usable labels" in fail("fit", tmp_path / "unlabeled", *DROP, "-o", tmp_path / "m")


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (KeyboardInterrupt(), 130, "interrupted: no file was written"),
        (OSError("the disk is gone"), 2, "error: the disk is gone"),
    ],
)
def test_an_existing_file_stays_unchanged(folder, tmp_path, monkeypatch, error, code, said):
    count, old = [0], InvariantLinearSVC.predict

    def predict(self, X):
        count[0] += 1
        if count[0] == 3:
            raise error
        return old(self, X)

    (tmp_path / "labels").write_text("old")
    monkeypatch.setattr(InvariantLinearSVC, "predict", predict)
    result = run("predict", folder / "train.model", folder / "test", "-o", tmp_path / "labels")
    assert result.exit_code == code
    assert said in result.stderr
    assert (tmp_path / "labels").read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["labels"]


def test_folders_that_hold_no_rows(folder, tmp_path):
    line = fail("fit", tmp_path, *DROP, "-o", tmp_path / "m")
    assert f"{tmp_path} must be a folder of rows, but has no manifest.json" in line


class TestConvert:
    @pytest.mark.parametrize("zero_based", [False, True])
    @pytest.mark.parametrize("dtype", ["float32", "float64"])
    def test_rows_and_labels(self, folder, tmp_path, zero_based, dtype):
        X, y = load_svmlight_file(str(folder / "train.svm"), n_features=100)
        path = tmp_path / "rows.svm"
        dump_svmlight_file(X, y, str(path), zero_based=zero_based)
        path = tmp_path / "rows.svm.gz"
        path.write_bytes(gzip.compress((tmp_path / "rows.svm").read_bytes()))
        option = "--zero-based" if zero_based else "--one-based"
        out = succeed("convert", path, tmp_path / "rows", "--dtype", dtype, option, "--n-features", 100)
        assert f"300 rows, 100 features, {X.nnz} entries" in out
        rows = RowFolder(tmp_path / "rows")
        assert rows.dtype == dtype
        assert rows.notes["first_feature"] == int(not zero_based)
        np.testing.assert_array_equal(rows.labels, y)
        np.testing.assert_array_equal(rows.block(0, 300).toarray(), X.toarray())

    def test_standard_input(self, folder, tmp_path, monkeypatch):
        stream = io.TextIOWrapper(io.BytesIO((folder / "train.svm").read_bytes()))
        monkeypatch.setattr(sys, "stdin", stream)
        rows = data.convert_file(Path("-"), tmp_path / "rows", "float64", None, 1)
        assert rows.shape[0] == 300

    def test_errors_name_file_and_lines(self, folder, tmp_path):
        path = tmp_path / "rows.svm"
        path.write_text((folder / "train.svm").read_text() + "1 x:1\n")
        line = fail("convert", path, tmp_path / "rows")
        last = len(path.read_text().splitlines())
        assert f"{path}, line {last}: " in line
        assert not (tmp_path / "rows").exists()
        path.write_text("1 0:1\n")
        assert "pass --zero-based" in fail("convert", path, tmp_path / "rows")
        path.write_text("1 101:1\n")
        assert "line 1: " in fail("convert", path, tmp_path / "rows", "--n-features", 100)

    def test_places(self, folder, tmp_path):
        assert "SOURCE must be a file" in fail("convert", folder / "train", tmp_path / "again")
        assert "FOLDER must be a new folder" in fail("convert", folder / "train.svm", tmp_path)
        assert "FOLDER must be a new folder" in fail("convert", folder / "train.svm", "-")
        assert "No such file" in fail("convert", tmp_path / "nothing", tmp_path / "rows")
