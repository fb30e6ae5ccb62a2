"""The command line: folders of rows, which are read in blocks."""

import json
import re

import numpy as np
import pytest
from sklearn.datasets import dump_svmlight_file

from structinv import InvariantLinearSVC
from structinv.cli import training
from structinv.cli.folder_rows import ResizedRows
from structinv.cli.model_file import load_model
from structinv.datasets import make_mail_like
from structinv.estimators.row_sources import block_sizes
from structinv.rows import RowFolder, RowWriter
from structinv.rows.matrix_rows import MatrixRows
from structinv.terms.blockwise_term import BlockSizes

from .test_cli import fail, run, succeed, write_mails

DROP = ("--oracle", "fdrop", "--max-changes", 2, "--C", 0.1)
SMALL = 2000


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """Some ten blocks, and none that holds half of the rows."""
    monkeypatch.setattr(BlockSizes, "values", SMALL)
    monkeypatch.setattr(block_sizes, "__defaults__", (BlockSizes(values=SMALL),))
    old = RowFolder.blocks

    def blocks(self, cuts):
        n_rows = sum(cut.stop - cut.start for cut in cuts)
        assert self.shape[0] < 100 or n_rows <= self.shape[0] / 2
        return old(self, cuts)

    monkeypatch.setattr(RowFolder, "blocks", blocks)


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
    X, _ = make_mail_like(50, 100, random_state=2)
    with RowWriter(folder / "unlabeled") as rows:
        rows.append(X)
    return folder


def test_a_model_of_a_folder_is_that_of_the_estimator(folder, tmp_path):
    succeed("fit", folder / "train", *DROP, "-o", tmp_path / "m")
    saved, rows = load_model(tmp_path / "m"), RowFolder(folder / "train")
    model = InvariantLinearSVC(saved.classifier.oracle, C=0.1, random_state=0).fit(rows, rows.labels)
    np.testing.assert_allclose(saved.classifier.coef_, model.coef_, rtol=0, atol=1e-12)
    assert saved.training["rows"] == 300
    assert saved.training["relative_gap"] <= 1e-3


def test_a_limit_of_memory_reaches_the_estimator(folder, tmp_path):
    succeed("fit", folder / "train", *DROP, "--memory-limit", "1GB", "-o", tmp_path / "m")
    assert load_model(tmp_path / "m").classifier.memory_limit == "1GB"
    line = fail("fit", folder / "train", *DROP, "--memory-limit", 1000, "-o", tmp_path / "n")
    assert "memory_limit=1000 must be at least" in line


@pytest.mark.slow
def test_the_weight_of_losses_is_chosen_on_the_same_folds(monkeypatch, folder, tmp_path):
    # Large weights take a thousand passes over small blocks.
    monkeypatch.setattr(training, "POWERS", (1e-4, 1e-3, 1e-2))
    found = [
        succeed("fit", folder / name, *DROP, "--C", "auto", "-o", tmp_path / name).splitlines()
        for name in ("train", "train.svm")
    ]
    for lines in found:
        assert lines[0].strip() == "Mean accuracy on 5 held-out folds, with standard error"
        assert any(line.startswith("C = ") for line in lines)
    of_folder, of_file = (np.array([_numbers(line) for line in lines if "%" in line]) for lines in found)
    assert len(of_folder) == 3
    np.testing.assert_array_equal(of_folder[:, 0], of_file[:, 0])
    # Fits stop at a gap of 1e-3, and may differ in a row of 300.
    np.testing.assert_allclose(of_folder[:, 1::2], of_file[:, 1::2], rtol=0, atol=0.41)


def _numbers(line):
    """The numbers in a line of a table."""
    return [float(number) for number in re.findall(r"\d+(?:\.\d+)?", line)]


@pytest.mark.parametrize("model", ["train.model", "train.svm.model"])
def test_answers_about_a_folder_are_those_about_the_file(folder, model):
    for more in ((), ("--scores", "--certify"), ("--threshold", 0.3)):
        lines = succeed("predict", folder / model, folder / "test", *more)
        assert lines == succeed("predict", folder / model, folder / "test.svm", *more)
        assert len(lines.splitlines()) == 300
    for command in (("evaluate",), ("explain", "--row", 17)):
        name, *more = command
        told = succeed(name, folder / model, folder / "test", *more)
        assert told == succeed(name, folder / model, folder / "test.svm", *more)


def test_predictions_are_written_to_a_file(folder, tmp_path):
    result = run("predict", folder / "train.model", folder / "test", "-o", tmp_path / "labels")
    assert "300 labels written to" in result.stderr
    printed = succeed("predict", folder / "train.model", folder / "test")
    assert (tmp_path / "labels").read_text() == printed


def test_rows_without_labels(folder, tmp_path):
    model = folder / "train.model"
    assert len(succeed("predict", model, folder / "unlabeled").splitlines()) == 50
    result = run("explain", model, folder / "unlabeled", "--row", 3)
    assert "Row 3: no label" in result.stdout
    for command in (("evaluate", model, folder / "unlabeled"), ("fit", folder / "unlabeled", *DROP)):
        more = () if command[0] == "evaluate" else ("-o", tmp_path / "m")
        assert "unlabeled has no labels" in fail(*command, *more)


class TestErrorsOnTheWay:
    @pytest.fixture
    def third_block(self, monkeypatch):
        """Something happens when the third block is predicted."""

        def set_up(error):
            count, old = [0], InvariantLinearSVC.predict

            def predict(self, X):
                count[0] += 1
                if count[0] == 3:
                    raise error
                return old(self, X)

            monkeypatch.setattr(InvariantLinearSVC, "predict", predict)

        return set_up

    @pytest.mark.parametrize(
        ("error", "code", "said"),
        [
            (KeyboardInterrupt(), 130, "interrupted: nothing was written"),
            (OSError("the disk is gone"), 2, "error: the disk is gone"),
        ],
    )
    def test_an_existing_file_stays_unchanged(self, folder, tmp_path, third_block, error, code, said):
        (tmp_path / "labels").write_text("old")
        third_block(error)
        result = run("predict", folder / "train.model", folder / "test", "-o", tmp_path / "labels")
        assert result.exit_code == code
        assert said in result.stderr
        assert (tmp_path / "labels").read_text() == "old"
        assert [path.name for path in tmp_path.iterdir()] == ["labels"]

    def test_labels_printed_before_ctrl_c_are_counted(self, folder, third_block):
        whole = succeed("predict", folder / "train.model", folder / "test")
        third_block(KeyboardInterrupt())
        result = run("predict", folder / "train.model", folder / "test")
        assert result.exit_code == 130
        n_lines = len(result.stdout.splitlines())
        assert 0 < n_lines < 300
        assert whole.startswith(result.stdout)
        assert f"interrupted after {n_lines} labels" in result.stderr

    def test_damage_is_named_by_its_rows(self, folder, tmp_path):
        succeed("convert", folder / "test.svm", tmp_path / "rows", "--n-features", 100)
        with (tmp_path / "rows" / "data.npy").open("r+b") as stream:
            stream.truncate(5000)
        line = fail("predict", folder / "train.model", tmp_path / "rows")
        assert "data.npy" in line


class TestRefusals:
    @pytest.mark.parametrize(
        ("options", "said"),
        [
            (("--kernel", "rbf"), "--kernel rbf requires dense rows, but the folder"),
            (("--oracle", "box", "--radius", 1), "--oracle box requires dense rows, but the folder"),
            ((*DROP, "--solver", "pegasos"), "these rows are read in blocks"),
            ((*DROP, "--format", "svmlight"), "--format svmlight is for files, but"),
            ((*DROP, "--zero-based"), "has no effect on a folder of rows (train)"),
            ((*DROP, "--vectorizer", "log"), "--vectorizer has no effect on a folder of rows (train)"),
            ((*DROP, "--memory-limit", "4 XB"), "--memory-limit must be a size such as 4GB"),
            ((*DROP, "--memory-limit", "-1GB"), "--memory-limit must be a size such as 4GB"),
        ],
    )
    def test_of_fit(self, folder, tmp_path, options, said):
        assert said in fail("fit", folder / "train", *options, "-o", tmp_path / "m")
        assert not any(tmp_path.iterdir())

    def test_a_memory_limit_is_for_linear_models_of_rows(self, folder, tmp_path):
        limit = ("--memory-limit", "1GB", "-o", tmp_path / "m")
        line = fail("fit", folder / "train.svm", "--kernel", "rbf", *limit)
        assert "--memory-limit is for linear models only: remove it, or remove --kernel" in line
        (tmp_path / "s.conll").write_text("He PRP O\nran VBD O\n\nBonn NNP B-LOC\n")
        mails = write_mails(tmp_path / "train.jsonl", seed=0)
        for path, more in ((tmp_path / "s.conll", ()), (mails, DROP)):
            line = fail("fit", path, *more, *limit)
            assert f"({path.name})" in line
            assert "--memory-limit has no effect on" in line
        for path, more in ((folder / "train.svm", ()), (mails, ("--vectorizer", "log"))):
            succeed("fit", path, *DROP, *more, *limit)
            assert load_model(tmp_path / "m").classifier.memory_limit == "1GB"

    def test_folders_that_hold_no_rows(self, folder, tmp_path):
        line = fail("fit", tmp_path, *DROP, "-o", tmp_path / "m")
        assert f"{tmp_path} must be a folder of rows, but has no manifest.json" in line
        (tmp_path / "manifest.json").write_text(json.dumps({"name": "an app"}))
        assert 'must have "format": "structinv rows"' in fail(
            "evaluate", folder / "train.model", tmp_path
        )
        assert "SOURCE must be a file" in fail("convert", folder / "train", tmp_path / "again")

    def test_other_places(self, folder, tmp_path):
        for name in ("manifest.json", "data.npy"):
            line = fail("predict", folder / "train.model", folder / "test" / name)
            assert f"belongs to a folder of rows: pass the folder, {folder / 'test'}" in line
        line = fail("predict", folder / "test", folder / "train.model")
        assert f"MODEL must be a file written by fit, got the folder {folder / 'test'}" in line

    def test_models_of_other_kinds(self, folder, tmp_path):
        mails = write_mails(tmp_path / "train.jsonl", seed=0)
        succeed("fit", mails, *DROP, "-o", tmp_path / "texts")
        (tmp_path / "rows.csv").write_text("a,b,label\n1,2,x\n2,1,y\n")
        table = ("--oracle", "identity", "-o", tmp_path / "table")
        succeed("fit", tmp_path / "rows.csv", *table)
        (tmp_path / "s.conll").write_text("He PRP O\nran VBD O\n\nBonn NNP B-LOC\n")
        succeed("fit", tmp_path / "s.conll", "-o", tmp_path / "sentences")
        kinds = {"texts": "JSON of texts", "table": "a table with a header"}
        for name, said in (kinds | {"sentences": "sentences in columns"}).items():
            for command in ("predict", "evaluate"):
                line = fail(command, tmp_path / name, folder / "test")
                assert f"trained on {said}, but {folder / 'test'} is a folder of rows" in line
        line = fail("predict", folder / "train.model", mails)
        assert "trained on a folder of rows, but" in line
        assert "contains JSON of texts: convert it with structinv convert" in line

    def test_a_model_of_dense_rows(self, folder, tmp_path):
        succeed("fit", folder / "train.svm", "--kernel", "rbf", "--C", 1, "-o", tmp_path / "m")
        line = fail("predict", tmp_path / "m", folder / "test")
        assert "MODEL requires dense rows, but the folder" in line

    @pytest.mark.parametrize("model", ["train.model", "train.svm.model"])
    def test_features_that_start_at_another_number(self, folder, tmp_path, model):
        succeed("convert", folder / "test.svm", tmp_path / "rows", "--zero-based")
        line = fail("predict", folder / model, tmp_path / "rows")
        assert "the first feature number 0, but MODEL was trained with 1: convert both" in line


class TestWidths:
    @pytest.fixture
    def wide(self, tmp_path):
        path = tmp_path / "wide"
        path.write_text("1 1:1 2:1 120:3\n-1 3:1 4:1\n-1 5:1\n")
        succeed("convert", path, tmp_path / "rows", "--one-based")
        return path

    def test_features_that_the_model_does_not_know(self, folder, tmp_path, wide):
        line = fail("predict", folder / "train.model", tmp_path / "rows")
        assert "has 120 features, but MODEL has 100: pass --ignore-new-features" in line
        lines = succeed("predict", folder / "train.model", tmp_path / "rows", "--ignore-new-features")
        assert lines == succeed("predict", folder / "train.model", wide, "--ignore-new-features")

    def test_features_that_are_missing(self, folder, tmp_path):
        (tmp_path / "narrow").write_text("1 1:1 2:1\n-1 3:1 4:1\n-1 5:1\n")
        succeed("convert", tmp_path / "narrow", tmp_path / "rows", "--one-based")
        lines = succeed("predict", folder / "train.model", tmp_path / "rows", "--scores")
        assert lines == succeed("predict", folder / "train.model", tmp_path / "narrow", "--scores")

    def test_columns_that_have_no_number(self, folder, tmp_path):
        with RowWriter(tmp_path / "rows") as rows:
            rows.append(np.eye(4))
        for more in ((), ("--ignore-new-features",)):
            line = fail("predict", folder / "train.model", tmp_path / "rows", *more)
            assert "both folders must have the same columns" in line

    def test_words_are_not_other_words(self, tmp_path):
        mails = write_mails(tmp_path / "train.jsonl", seed=0)
        words = tmp_path / "words"
        words.write_text("cheap\npills\nmeeting\nnotes\n")
        succeed("convert", mails, tmp_path / "counted", "--vocabulary", words)
        succeed("convert", mails, tmp_path / "hashed", "--n-features", 4)
        succeed("fit", tmp_path / "counted", *DROP, "-o", tmp_path / "m")
        line = fail("predict", tmp_path / "m", tmp_path / "hashed")
        assert "has the vectorizer hashing, but MODEL was trained with counts" in line

    def test_resized_rows_are_left_as_they_are(self):
        rows = MatrixRows(make_mail_like(20, 100, random_state=0)[0])
        before = rows.X.copy()
        for width in (50, 100, 140):
            block = ResizedRows(rows, width).block(3, 9)
            assert block.shape == (6, width)
            least = min(width, 100)
            np.testing.assert_array_equal(block.toarray()[:, :least], before[3:9, :least].toarray())
        assert (before != rows.X).nnz == 0
        assert rows.X.shape == before.shape
