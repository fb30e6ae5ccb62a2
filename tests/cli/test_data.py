"""The command line: formats of DATA, folders of rows, and messages that name a file and a line."""

import gzip
import io
import json
import lzma
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import dump_svmlight_file, load_svmlight_file

import structinv
from structinv import InvariantLinearSVC
from structinv.cli import data
from structinv.cli.data import Format, read, with_features, with_tokens
from structinv.datasets import make_mail_like
from structinv.rows import RowFolder, RowWriter

from ..blocks import use_small_blocks
from ..commands import fail, run, succeed
from ..hostile import EVIL, is_visible

ROWS = "1 1:2 3:1.5\n-1 2:4 # a comment, with words\n# only a comment\n\n1\n"


def written(folder, content, name="data"):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def samples(folder, content, name="data", **given):
    return read(
        written(folder, content, name),
        **{"format": None, "label_key": "label", "first_feature": 1, **given},
    )


@pytest.mark.parametrize(
    ("ending", "compress"), [("", bytes), (".gz", gzip.compress), (".xz", lzma.compress)]
)
def test_files_are_decompressed_by_the_ending_of_their_name(tmp_path, ending, compress):
    found = samples(tmp_path, compress(ROWS.encode()), f"rows.svm{ending}")
    assert (found.kind, found.X.shape, found.y.tolist()) == ("rows", (3, 3), [1.0, -1.0, 1.0])
    assert found.notes == {"first_feature": 1}
    if ending:
        path = written(tmp_path, compress(ROWS.encode() * 99)[:-20], f"cut{ending}")
        with pytest.raises(ValueError, match="is damaged or truncated"):
            read(path, None, "label", 1)


@pytest.mark.parametrize(
    ("content", "name", "kind"),
    [
        ("1 # spam, first\n-1 2:1\n", "data", "rows"),
        ("+1.5e-3 2:1 # a, b\n", "data", "rows"),
        ("# rows, many\n1 2:1\n", "data", "rows"),
        ("1 qid:3 2:1\n", "data", "rows"),
        ('\ufeff{"text": "a"}\n', "data", "texts"),
        ("label,text\nx,a\n", "data", "texts"),
        ("a;b\n1;2\n", "data", "rows"),
        ("a\tb\n1\t2\n", "data", "rows"),
        ('ham\tGo until 10, "now\nspam\tfree\n', "data", "texts"),
        ("text\nfree, now\n", "data", "texts"),
        ("He PRP O\n\n", "data.conll", "sentences"),
        ("He PRP O\n\n", "data.IOB2", "sentences"),
    ],
)
def test_kinds(tmp_path, content, name, kind):
    assert samples(tmp_path, content, name).kind == kind


def test_the_format_can_be_passed(tmp_path):
    assert samples(tmp_path, "1 1:1\n", format=Format.CONLL).kind == "sentences"
    with pytest.raises(ValueError, match="has JSON lines, not sentences in columns"):
        samples(tmp_path, '{"text": "free money"}\n', format=Format.CONLL)


def test_standard_input(tmp_path):
    lines = '{"text": "red sun", "label": "x"}\n{"text": "blue sea", "label": "y"}\n'
    succeed("fit", "-", "--max-changes", 0, "-o", tmp_path / "m", input=lines)
    assert succeed("predict", tmp_path / "m", "-", input=lines) == "x\ny\n"


class TestTexts:
    def test_json_lines(self, tmp_path):
        found = samples(
            tmp_path, '{"text": "a", "y": 1}\n\n{"text": "b\\u2028c", "y": 2}', label_key="y"
        )
        assert (found.X, found.labels.tolist()) == (["a", "b\u2028c"], [1, 2])

    def test_tables(self, tmp_path):
        found = samples(tmp_path, 'n,text,label\n1,"a, ""b""\nc",x\n2,d,y\n')
        assert (found.X, found.labels.tolist()) == (['a, "b"\nc', "d"], ["x", "y"])

    @pytest.mark.parametrize("content", ["text\nhello, free\n", '"text"\n"hello, free"\n'])
    def test_tables_with_one_column(self, tmp_path, content):
        assert samples(tmp_path, content).X == ["hello, free"]

    def test_quoted_names_of_columns(self, tmp_path):
        found = samples(tmp_path, '"label"\t"text"\n"x"\t"a"\n')
        assert (found.X, found.labels.tolist()) == (["a"], ["x"])

    def test_lines_of_a_label_a_tab_and_a_text(self, tmp_path):
        found = samples(tmp_path, 'ham\tOk "lar\nspam\tFree, now\n')
        assert (found.X, found.labels.tolist()) == (['Ok "lar', "Free, now"], ["ham", "spam"])

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            ('{"text": "a"}\n{"text"\n', "line 2 is not JSON"),
            ('{"text": "a"}\n{"body": "a"}\n', r'line 2 must be one JSON object, such as \{"text'),
            ('{"text": null}\n', "line 1 must have a string in the key 'text', got null"),
            ('[{"text": "a"}]\n', "line 1 must be one JSON object, such as"),
            ('[\n{"text": "a"}\n]\n', r"line 1 is not JSON: .*\. Each line must be one JSON object"),
            ("text,label\n", "has a header, but no rows"),
            ("text\tlabel\n", "has a header, but no rows"),
            ("a,label\n", "has a header, but no rows"),
            ("text,label\na\n", "line 2 must have 2 cells, got 1"),
            (b'{"text": "\xe4"}', "must be text in UTF-8"),
            ("free money for you\n", "must have JSON lines, SVMlight rows, or a table"),
            ("", "is empty"),
        ],
    )
    def test_errors(self, tmp_path, content, message):
        with pytest.raises(ValueError, match=f"data.*{message}"):
            samples(tmp_path, content)

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            ('{"text": "a", "label": 1}\n{"text": "b"}\n', "the key 'label' of line 2 must contain"),
            (
                '{"text": "a", "label": 1}\n{"text": "b", "label": "x"}\n',
                "one type, but line 2 has str, and",
            ),
            ("text,kind\na,b\n", "it has no column 'label', only text, kind. Pass --label-key"),
        ],
    )
    def test_labels_that_are_missing(self, tmp_path, content, message):
        found = samples(tmp_path, content)
        assert found.kind == "texts"
        with pytest.raises(ValueError, match=f"data has no usable labels: .*{message}"):
            _ = found.labels


class TestRows:
    def test_tables_of_numbers(self, tmp_path):
        found = samples(tmp_path, "b,kind,a\n1,x,2\n3,y,4\n", label_key="kind")
        np.testing.assert_array_equal(found.X, [[1, 2], [3, 4]])
        assert (found.y.tolist(), found.notes) == (["x", "y"], {"columns": ["b", "a"]})

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            ("a,b\n1,x\n", "line 2 must have a finite number in column 'b', got 'x'"),
            ("a,b\n1,nan\n", "line 2 must have a finite number"),
            ("a,label\nhello,x\n", "has no column 'text'.* got 'hello'$"),
            ("1 1:1\n1 2:nan\n", "data, line 2: values must be finite"),
            ("a,a\n1,2\n", "a header with a different name for each column"),
            ("1,2\n3,4\n", "a header with a different name for each column"),
            ("1 1:1\n\n# 1 1:x\n1 1:x\n1 1:y\n", "data, line 4: .*b'x'"),
            ("1 1:1\n1 2:1 1:1", "data, line 2: "),
            ("1 0:1\n", "data, line 1: .*pass --zero-based"),
        ],
    )
    def test_errors(self, tmp_path, content, message):
        with pytest.raises(ValueError, match=message):
            samples(tmp_path, content)

    @pytest.mark.parametrize("content", ['{"text": "a"}\n', "text,label\na,b\n"])
    def test_other_formats_are_not_svmlight_rows(self, tmp_path, content):
        with pytest.raises(
            ValueError, match="data, line 1: must be an SVMlight row, such as .*, got '.*text"
        ):
            samples(tmp_path, content, format=Format.SVMLIGHT)

    def test_columns_are_found_by_name(self, tmp_path):
        found = samples(tmp_path, "b,a,c\n1,2,3\n")
        np.testing.assert_array_equal(
            with_features(found, {"columns": ["a", "b", "c"]}, 3, False).X, [[2, 1, 3]]
        )
        with pytest.raises(ValueError, match="has columns that MODEL lacks: c"):
            with_features(found, {"columns": ["a", "b"]}, 2, False)
        np.testing.assert_array_equal(with_features(found, {"columns": ["a"]}, 1, True).X, [[2]])
        with pytest.raises(ValueError, match="lacks columns of MODEL: d"):
            with_features(found, {"columns": ["a", "d"]}, 2, True)

    def test_folders(self, tmp_path):
        with RowWriter(tmp_path / "rows", notes={"first_feature": 0}) as writer:
            writer.append(np.eye(3))
        found = read(tmp_path / "rows", None, "label", 1)
        assert (found.kind, found.notes) == ("rows", {"first_feature": 0})
        with pytest.raises(ValueError, match="has no usable labels"):
            _ = found.labels
        with pytest.raises(ValueError, match="pass --n-features 4 to convert"):
            with_features(found, {}, 4, True)
        with pytest.raises(ValueError, match="has features from 0, but MODEL has features from 1"):
            with_features(found, {"first_feature": 1}, 3, True)


class TestSentences:
    TEXT = "He PRP O\nran VBD B\n\nNo DT O\n\n"

    @pytest.mark.parametrize(
        ("n_columns", "classes", "labeled"),
        [
            (None, None, True),
            (None, ["O", "B"], True),
            (None, ["O", "X"], False),
            (2, [], True),
            (3, [], False),
        ],
    )
    def test_the_last_column_may_be_the_label(self, tmp_path, n_columns, classes, labeled):
        found = with_tokens(samples(tmp_path, self.TEXT, "data.conll"), n_columns, classes)
        assert found.y == ([["O", "B"], ["O"]] if labeled else None)
        assert [len(tokens) for tokens in found.X] == [2, 1]
        assert "w[0]=He" in found.X[0][0]

    def test_other_numbers_of_columns_are_an_error(self, tmp_path):
        with pytest.raises(ValueError, match="must have 1 columns, or 2 with labels, got 3"):
            with_tokens(samples(tmp_path, self.TEXT, "data.conll"), 1, [])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("1 1:2 3000000000:1\n", "data, line 1: numbers of features must be at most 2147483646"),
        ("a,b,label\n1,2,x\n2,3,\n", "the label of sample 1, counted from 0, is empty"),
        ("a,b,label\n1,2,x\n2,3,x\n", "one class: 'x'"),
    ],
)
def test_numbers_and_labels_that_no_model_can_take_are_named(tmp_path, content, message):
    assert message in fail("fit", written(tmp_path, content), "-o", tmp_path / "m")


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """Some ten blocks of a fit, and several of a conversion."""
    use_small_blocks(monkeypatch)
    monkeypatch.setattr(data, "BLOCK_SIZE", 5000)


DROP = ("--oracle", "fdrop", "--max-changes", 2, "--C", 0.1, "--tol", 0.01)


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Files, folders of the same rows, and models of both; tests never change them."""
    folders = tmp_path_factory.mktemp("folders")
    for name, seed in (("train", 0), ("test", 1)):
        X, y = make_mail_like(200, 100, random_state=seed)
        path = folders / f"{name}.svm"
        dump_svmlight_file(X, np.where(y == "spam", 1, -1), str(path), zero_based=False)
        succeed("convert", path, folders / name, "--n-features", 100)
    for name in ("train", "train.svm"):
        succeed("fit", folders / name, *DROP, "-o", folders / f"{name}.model")
    return folders


def test_a_model_of_a_folder_is_that_of_the_estimator(folders, tmp_path):
    succeed("fit", folders / "train", *DROP, "--memory-limit", "1GB", "-o", tmp_path / "m")
    saved, rows = structinv.load(tmp_path / "m"), RowFolder(folders / "train")
    model = InvariantLinearSVC(saved.oracle, C=0.1, tol=0.01, random_state=0, memory_limit="1GB")
    np.testing.assert_allclose(saved.coef_, model.fit(rows, rows.labels).coef_, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    "model", ["train.model", pytest.param("train.svm.model", marks=pytest.mark.slow)]
)
def test_answers_about_a_folder_are_those_about_the_file(folders, model, tmp_path):
    lines = succeed("predict", folders / model, folders / "test", "--scores", "--certify")
    assert lines == succeed("predict", folders / model, folders / "test.svm", "--scores", "--certify")
    assert len(lines.splitlines()) == 200
    for name, *more in (("evaluate",), ("explain", "--row", 17)):
        told = succeed(name, folders / model, folders / "test", *more)
        assert told == succeed(name, folders / model, folders / "test.svm", *more)
    succeed("report", folders / model, folders / "test", "-o", tmp_path / "report")
    assert "of the output of sha256sum" in (tmp_path / "report").read_text()


def test_rows_without_labels(folders, tmp_path):
    with RowWriter(tmp_path / "unlabeled") as rows:
        rows.append(make_mail_like(50, 100, random_state=2)[0])
    model = folders / "train.model"
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
def test_an_existing_file_stays_unchanged(folders, tmp_path, monkeypatch, error, code, said):
    count, old = [0], InvariantLinearSVC.predict

    def predict(self, X):
        count[0] += 1
        if count[0] == 3:
            raise error
        return old(self, X)

    (tmp_path / "labels").write_text("old")
    monkeypatch.setattr(InvariantLinearSVC, "predict", predict)
    result = run("predict", folders / "train.model", folders / "test", "-o", tmp_path / "labels")
    assert result.exit_code == code
    assert said in result.stderr
    assert (tmp_path / "labels").read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["labels"]


def test_folders_that_hold_no_rows(folders, tmp_path):
    line = fail("fit", tmp_path, *DROP, "-o", tmp_path / "m")
    assert f"{tmp_path} must be a folder of rows, but has no manifest.json" in line


class TestConvert:
    @pytest.mark.parametrize(("zero_based", "dtype"), [(False, "float64"), (True, "float32")])
    def test_rows_and_labels(self, folders, tmp_path, zero_based, dtype):
        X, y = load_svmlight_file(str(folders / "train.svm"), n_features=100)
        path = tmp_path / "rows.svm"
        dump_svmlight_file(X, y, str(path), zero_based=zero_based)
        path = tmp_path / "rows.svm.gz"
        path.write_bytes(gzip.compress((tmp_path / "rows.svm").read_bytes()))
        option = "--zero-based" if zero_based else "--one-based"
        out = succeed("convert", path, tmp_path / "rows", "--dtype", dtype, option, "--n-features", 100)
        assert f"200 rows, 100 features, {X.nnz} entries" in out
        rows = RowFolder(tmp_path / "rows")
        assert rows.dtype == dtype
        assert rows.notes["first_feature"] == int(not zero_based)
        np.testing.assert_array_equal(rows.labels, y)
        np.testing.assert_array_equal(rows.block(0, 200).toarray(), X.toarray())

    def test_standard_input(self, folders, tmp_path, monkeypatch):
        stream = io.TextIOWrapper(io.BytesIO((folders / "train.svm").read_bytes()))
        monkeypatch.setattr(sys, "stdin", stream)
        rows = data.convert_file(Path("-"), tmp_path / "rows", "float64", None, 1)
        assert rows.shape[0] == 200

    def test_errors_name_file_and_lines(self, folders, tmp_path):
        path = tmp_path / "rows.svm"
        path.write_text((folders / "train.svm").read_text() + "1 x:1\n")
        line = fail("convert", path, tmp_path / "rows")
        last = len(path.read_text().splitlines())
        assert f"{path}, line {last}: " in line
        assert not (tmp_path / "rows").exists()
        path.write_text("1 0:1\n")
        assert "pass --zero-based" in fail("convert", path, tmp_path / "rows")
        path.write_text("1 101:1\n")
        assert "line 1: " in fail("convert", path, tmp_path / "rows", "--n-features", 100)

    def test_places(self, folders, tmp_path):
        assert "SOURCE must be a file" in fail("convert", folders / "train", tmp_path / "again")
        assert "FOLDER must be a new folder" in fail("convert", folders / "train.svm", tmp_path)
        assert "FOLDER must be a new folder" in fail("convert", folders / "train.svm", "-")
        assert "No such file" in fail("convert", tmp_path / "nothing", tmp_path / "rows")


@pytest.mark.parametrize(
    "content",
    [
        f"{EVIL},b\n1,x\n",
        f"{EVIL},{EVIL},label\n1,2,3\n",
        f"a,label\n{EVIL},x\n",
        f"{EVIL}\n",
        json.dumps({EVIL: "x"}),
        '{"text": "a"}\n{' + EVIL,
        f"1 {EVIL}:1\n",
    ],
)
def test_messages_are_escaped_and_cut(tmp_path, content):
    (tmp_path / "data").write_text(content)
    with pytest.raises(ValueError, match="data") as caught:
        read(tmp_path / "data", None, "label", 1)
    assert is_visible(str(caught.value))
    assert len(str(caught.value)) < 1000
