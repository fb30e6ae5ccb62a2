"""The command line: files of rows become folders of rows."""

import gzip
import json
import lzma
import os
import signal
import subprocess
import sys
import threading
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from rich.console import Console
from sklearn.datasets import dump_svmlight_file
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer

from structinv.cli import messages
from structinv.datasets import in_blocks, load_jsonlines, load_svmlight, make_mail_like
from structinv.datasets.in_blocks import svmlight_blocks, text_blocks
from structinv.datasets.opening import _KEPT, opened_once
from structinv.rows import RowFolder

from .platforms import posix_only
from .test_cli import fail, run, succeed, write_mails

ROOT = Path(__file__).resolve().parents[1]
COMPRESSED = {"": bytes, ".gz": gzip.compress, ".xz": lzma.compress}


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """So that a few lines make several blocks."""
    monkeypatch.setattr(in_blocks, "BLOCK_SIZE", 500)


@pytest.fixture(scope="module")
def mail():
    X, y = make_mail_like(80, 100, random_state=0)
    X = X.toarray()
    # The usual words, so that the last column is in use.
    usual = np.sort(np.argsort(-X.sum(axis=0), kind="stable")[:40])
    return sp.csr_matrix(X[:, usual]), np.where(y == "spam", 1.0, -1.0)


def svmlight(mail, zero_based=False):
    stream = BytesIO()
    dump_svmlight_file(*mail, stream, zero_based=zero_based)
    return stream.getvalue()


def rows_of(path):
    folder = RowFolder(path)
    return folder.block(0, folder.shape[0]), folder.labels


def same(X, Z):
    return X.shape == Z.shape and (X != Z).nnz == 0


def left(folder):
    return sorted(path.name for path in folder.iterdir())


class TestSVMlight:
    @pytest.mark.parametrize("ending", COMPRESSED)
    @pytest.mark.parametrize("dtype", ["float32", "float64"])
    def test_rows_and_labels(self, tmp_path, mail, ending, dtype):
        path = tmp_path / f"train.svm{ending}"
        path.write_bytes(COMPRESSED[ending](svmlight(mail)))
        printed = succeed("convert", path, tmp_path / "rows", "--dtype", dtype)
        X, y = rows_of(tmp_path / "rows")
        assert X.dtype == dtype
        assert same(X, mail[0].astype(dtype))
        assert y.tolist() == mail[1].tolist()
        size = sum(each.stat().st_size for each in (tmp_path / "rows").glob("*.npy"))
        counts = f"80 rows, 40 features, {mail[0].nnz} entries, {size} bytes"
        assert printed == f"{counts}: written to {tmp_path / 'rows'}\n"
        assert left(tmp_path) == ["rows", path.name]

    @pytest.mark.parametrize("compressed", [bytes, gzip.compress, lzma.compress])
    def test_standard_input(self, tmp_path, mail, compressed):
        succeed("convert", "-", tmp_path / "rows", input=compressed(svmlight(mail)))
        assert same(rows_of(tmp_path / "rows")[0], mail[0])
        assert RowFolder(tmp_path / "rows").notes["source"] == "standard input"

    @posix_only
    def test_a_pipe_longer_than_the_buffer_is_read(self, tmp_path, monkeypatch):
        monkeypatch.setattr(in_blocks, "BLOCK_SIZE", 1 << 20)
        content = b"".join(b"1 %d:%d\n" % (1 + k % 9, k) for k in range(1, 300_000))
        assert len(content) > 2 * _KEPT
        os.mkfifo(tmp_path / "pipe")
        writer = threading.Thread(target=(tmp_path / "pipe").write_bytes, args=(content,))
        writer.start()
        succeed("convert", tmp_path / "pipe", tmp_path / "rows")
        writer.join()
        X, _ = rows_of(tmp_path / "rows")
        assert X.shape == (299_999, 9)
        assert X.data.tolist() == list(range(1, 300_000))

    @pytest.mark.parametrize("place", [0, 3])
    def test_the_number_0_may_come_late(self, tmp_path, mail, place):
        lines = svmlight(mail).splitlines(keepends=True)
        lines[place] = b"1 0:7 2:1\n"
        (tmp_path / "train.svm").write_bytes(b"".join(lines))
        succeed("convert", tmp_path / "train.svm", tmp_path / "rows")
        X, y = rows_of(tmp_path / "rows")
        expected, labels = load_svmlight(tmp_path / "train.svm")
        assert expected.shape == (80, 41)
        assert same(X, expected)
        assert y.tolist() == labels.tolist()
        assert RowFolder(tmp_path / "rows").notes["first_feature"] == 0

    @pytest.mark.parametrize(("option", "n_features"), [("--zero-based", 41), ("--one-based", 40)])
    def test_the_first_feature_number_can_be_passed(self, tmp_path, mail, option, n_features):
        (tmp_path / "train.svm").write_bytes(svmlight(mail))
        succeed("convert", tmp_path / "train.svm", tmp_path / "rows", option)
        X, _ = rows_of(tmp_path / "rows")
        assert same(X[:, n_features - 40 :], mail[0])
        assert X.shape[1] == n_features

    def test_the_number_of_features_can_be_passed(self, tmp_path, mail):
        (tmp_path / "train.svm").write_bytes(svmlight(mail))
        succeed("convert", tmp_path / "train.svm", tmp_path / "rows", "--n-features", 50)
        assert RowFolder(tmp_path / "rows").shape == (80, 50)
        message = fail("convert", tmp_path / "train.svm", tmp_path / "less", "--n-features", 30)
        number = 1 + next(k for k, row in enumerate(mail[0]) if row.indices.max(initial=0) >= 30)
        assert f"train.svm, line {number} has feature 3" in message
        assert "features must be between 1 and 30 for --n-features 30" in message
        assert left(tmp_path) == ["rows", "train.svm"]

    def test_errors_count_as_the_file_does(self, tmp_path):
        lines = ["# a comment", "", *["1 0:1 2:1"] * 99, "-1 1:2 5:1e300"]
        (tmp_path / "train.svm").write_text("\n".join(lines))
        arguments = ("convert", tmp_path / "train.svm", tmp_path / "rows")
        message = fail(*arguments, "--n-features", 5)
        assert "line 102 has feature 5; features must be between 0 and 4 for --n-features 5" in message
        message = fail(*arguments, "--dtype", "float32")
        assert "line 102 has the value 1e+300 for feature 5; values must be finite in float32" in message
        message = fail(
            "convert", "-", *arguments[2:], "--n-features", 5, input="\n".join(lines).encode()
        )
        assert "standard input, row 99 has feature 5" in message
        assert left(tmp_path) == ["train.svm"]

    def test_rows_without_a_feature(self, tmp_path):
        (tmp_path / "train.svm").write_text("1\n-1\n")
        message = fail("convert", tmp_path / "train.svm", tmp_path / "rows")
        assert "train.svm contains only labels: at least one row must have a feature" in message

    def test_most_rows_have_no_entries(self, tmp_path):
        for kept, said in ((1, True), (2, False)):
            (tmp_path / "train.svm").write_text("1 1:2\n" * kept + "-1\n-1 1:0\n")
            done = run("convert", tmp_path / "train.svm", tmp_path / f"rows{kept}")
            assert ("warning: 2 of 3 rows have no entries\n" in done.stderr) == said

    @pytest.mark.parametrize("line", [2, 40, 81])
    @pytest.mark.parametrize(
        "content", [b"1 3:x\n", b"1 5:1 2:1\n", b"1 3:nan\n", b"one 3:1\n", b"1 3\n"]
    )
    def test_errors_name_file_and_line(self, tmp_path, mail, line, content):
        lines = [b"# words\n", *svmlight(mail).splitlines(keepends=True)]
        lines[line - 1] = content
        (tmp_path / "train.svm").write_bytes(b"".join(lines))
        message = fail("convert", tmp_path / "train.svm", tmp_path / "rows")
        assert f"train.svm, line {line}: must be 'label index:value ...'" in message
        assert left(tmp_path) == ["train.svm"]

    def test_the_number_0_is_an_error_where_numbers_start_at_1(self, tmp_path):
        (tmp_path / "train.svm").write_bytes(b"1 1:1\n1 0:1\n")
        message = fail("convert", tmp_path / "train.svm", tmp_path / "rows", "--one-based")
        assert "train.svm, line 2: " in message

    @pytest.mark.parametrize("ending", [".gz", ".xz"])
    def test_a_compressed_file_that_is_cut_short(self, tmp_path, mail, ending):
        rng = np.random.default_rng(0)
        X = sp.csr_matrix(rng.random((2000, 20)))
        content = COMPRESSED[ending](svmlight((X, np.ones(2000))))
        (tmp_path / "train.svm").write_bytes(content[:-100])
        assert "train.svm is truncated" in fail("convert", tmp_path / "train.svm", tmp_path / "rows")
        assert left(tmp_path) == ["train.svm"]

    def test_values_must_fit_into_the_type(self, tmp_path):
        (tmp_path / "train.svm").write_bytes(b"1 1:1\n1 1:1e300\n")
        message = fail("convert", tmp_path / "train.svm", tmp_path / "rows", "--dtype", "float32")
        assert (
            "train.svm, line 2 has the value 1e+300 for feature 1; values must be finite in float32"
            in message
        )

    @pytest.mark.parametrize("content", [b"", b"# nothing\n\n"])
    def test_files_without_rows(self, tmp_path, content):
        (tmp_path / "train.svm").write_bytes(content)
        message = fail("convert", tmp_path / "train.svm", tmp_path / "rows")
        assert "train.svm is empty" in message or "train.svm contains no rows" in message


class TestTexts:
    @pytest.mark.parametrize("ending", ["", ".xz"])
    def test_words_are_hashed(self, tmp_path, ending):
        path = write_mails(tmp_path / f"mails.jsonl{ending}", seed=0)
        succeed("convert", path, tmp_path / "rows", "--n-features", 64)
        texts, labels = load_jsonlines(path)
        X, y = rows_of(tmp_path / "rows")
        hashing = HashingVectorizer(n_features=64, alternate_sign=False, norm=None)
        assert same(X, hashing.transform(texts))
        assert y.tolist() == labels.tolist()
        assert RowFolder(tmp_path / "rows").notes["vectorizer"] == "hashing"

    def test_columns_by_default(self, tmp_path):
        path = write_mails(tmp_path / "mails.jsonl", seed=0)
        succeed("convert", path, tmp_path / "rows", "--dtype", "float32")
        assert RowFolder(tmp_path / "rows").shape == (60, 2**20)
        assert RowFolder(tmp_path / "rows").dtype == np.float32

    def test_words_of_a_file_are_counted(self, tmp_path):
        path = write_mails(tmp_path / "mails.jsonl", seed=0)
        (tmp_path / "words").write_text("cheap\nlunch\nthe\nabsent\n")
        succeed("convert", path, tmp_path / "rows", "--vocabulary", tmp_path / "words")
        counting = CountVectorizer(vocabulary=["cheap", "lunch", "the", "absent"])
        assert same(rows_of(tmp_path / "rows")[0], counting.transform(load_jsonlines(path)[0]))

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            (b"a\n\nb\n", "line 2 is empty: each line must contain one word"),
            (b"cheap\npills\ncheap\n", "line 3 repeats 'cheap' of line 1"),
            (b"", "line 1 is empty"),
            (b"\xff\n", "is not UTF-8"),
        ],
    )
    def test_broken_vocabularies(self, tmp_path, content, message):
        path = write_mails(tmp_path / "mails.jsonl", seed=0)
        (tmp_path / "words").write_bytes(content)
        arguments = ("convert", path, tmp_path / "rows", "--vocabulary", tmp_path / "words")
        assert message in fail(*arguments)
        assert "no effect with --vocabulary" in fail(*arguments, "--n-features", 4)

    def test_keys_and_texts_without_labels(self, tmp_path):
        lines = [json.dumps({"body": f"cheap pills {k}", "kind": k}) for k in range(50)]
        (tmp_path / "mails").write_text("\n".join(lines))
        keys = ("--text-key", "body", "--label-key", "kind")
        succeed("convert", tmp_path / "mails", tmp_path / "rows", *keys)
        assert RowFolder(tmp_path / "rows").labels.tolist() == list(range(50))
        succeed("convert", tmp_path / "mails", tmp_path / "bare", *keys[:2], "--unlabeled")
        assert RowFolder(tmp_path / "bare").labels is None

    def test_texts_of_letters(self, tmp_path):
        (tmp_path / "mails").write_text(json.dumps([{"text": "a b c", "label": True}] * 3))
        (tmp_path / "words").write_text("a\nb\n")
        done = run("convert", tmp_path / "mails", tmp_path / "rows")
        assert (
            "warning: 3 of 3 rows have no entries. Words are counted if they have at least two letters"
            in done.stderr
        )
        done = run("convert", tmp_path / "mails", tmp_path / "few", "--vocabulary", tmp_path / "words")
        assert f"letters or digits and are in {tmp_path / 'words'}. To count shorter" in done.stderr

    def test_an_array(self, tmp_path):
        (tmp_path / "mails").write_text(json.dumps([{"text": "cheap pills", "label": True}] * 3))
        succeed("convert", tmp_path / "mails", tmp_path / "rows")
        assert RowFolder(tmp_path / "rows").labels.tolist() == [True] * 3

    def test_errors_name_file_and_line(self, tmp_path):
        lines = [json.dumps({"text": "cheap pills", "label": "spam"})] * 40
        lines[30] = json.dumps({"text": "cheap pills", "label": 1})
        (tmp_path / "mails").write_text("\n".join(lines))
        message = fail("convert", tmp_path / "mails", tmp_path / "rows")
        assert "mails, line 31: labels must be of one kind: 1 is int" in message
        assert left(tmp_path) == ["mails"]


class TestParquet:
    @pytest.fixture
    def arrow(self):
        return pytest.importorskip("pyarrow")

    @pytest.fixture
    def saved(self, arrow, tmp_path):
        """Write columns to a file with small groups of rows."""
        from pyarrow import parquet

        def save(columns, name="train.parquet"):
            parquet.write_table(arrow.table(columns), tmp_path / name, row_group_size=7)
            return tmp_path / name

        return save

    def test_numbers(self, saved, tmp_path):
        columns = {
            "a": np.arange(50, dtype=np.float32),
            "label": ["ham", "spam"] * 25,
            "b": np.arange(50) % 3,
            "c": np.arange(50) % 2 == 0,
        }
        succeed("convert", saved(columns), tmp_path / "rows")
        X, y = rows_of(tmp_path / "rows")
        expected = [columns[name].astype(float).tolist() for name in ("a", "b", "c")]
        assert X.toarray().T.tolist() == expected
        assert y.tolist() == columns["label"]
        assert RowFolder(tmp_path / "rows").notes["columns"] == ["a", "b", "c"]

    @pytest.mark.parametrize(
        "labels",
        [
            np.arange(20),
            np.arange(20) % 2 == 0,
            np.linspace(0, 1, 20),
        ],
        ids=["ints", "bools", "floats"],
    )
    def test_labels_of_any_kind(self, saved, tmp_path, labels):
        path = saved({"a": np.ones(20), "y": labels})
        succeed("convert", path, tmp_path / "rows", "--label-key", "y")
        found = RowFolder(tmp_path / "rows").labels
        assert found.tolist() == labels.tolist()
        assert found.dtype == labels.dtype

    def test_labels_that_are_coded(self, saved, arrow, tmp_path):
        labels = arrow.array(["ham", "spam", "ham"]).dictionary_encode()
        succeed("convert", saved({"a": [1.0, 2.0, 3.0], "label": labels}), tmp_path / "rows")
        assert RowFolder(tmp_path / "rows").labels.tolist() == ["ham", "spam", "ham"]

    def test_without_labels(self, saved, tmp_path):
        path = saved({"a": [1.0, 2.0], "b": [0, 1]})
        message = fail("convert", path, tmp_path / "rows")
        assert "no label column 'label', only a, b: pass --label-key" in message
        succeed("convert", path, tmp_path / "rows", "--unlabeled")
        assert rows_of(tmp_path / "rows")[0].toarray().tolist() == [[1, 0], [2, 1]]

    @pytest.mark.parametrize("large", [False, True])
    def test_texts(self, saved, arrow, tmp_path, large):
        texts, labels = load_jsonlines(write_mails(tmp_path / "mails.jsonl", seed=0))
        column = arrow.array(texts, arrow.large_string() if large else arrow.string())
        path = saved({"text": column, "label": labels.tolist(), "ignored": [None] * 60})
        succeed("convert", path, tmp_path / "rows", "--n-features", 64)
        X, y = rows_of(tmp_path / "rows")
        hashing = HashingVectorizer(n_features=64, alternate_sign=False, norm=None)
        assert same(X, hashing.transform(texts))
        assert y.tolist() == labels.tolist()

    @pytest.mark.parametrize(
        ("columns", "options", "message"),
        [
            ({"a": [1.0, None], "label": [1, 2]}, (), "row 1: the value of column 'a' is missing"),
            (
                {"a": [1.0, 2.0], "label": ["a", None]},
                (),
                "row 1: the value of column 'label' is missing",
            ),
            ({"a": [1.0, np.nan], "label": [1, 2]}, (), "row 1 must contain finite numbers"),
            (
                {"a": ["x", "y"], "label": [1, 2]},
                (),
                "columns without numbers: a. Pass --text-key for a column of texts",
            ),
            ({"label": [1, 2]}, (), "contains only labels: at least one column of features is required"),
            ({"a": [], "label": []}, (), "train.parquet has no rows"),
            (
                {"a": [1, 2], "label": [1, 2]},
                ("--text-key", "a"),
                "--text-key must be a column of texts",
            ),
            ({"a": [1, 2], "label": [1, 2]}, ("--n-features", 4), "--n-features has no effect"),
            (
                {"a": [1, 2], "label": [1, 2]},
                ("--zero-based",),
                "--zero-based/--one-based has no effect",
            ),
        ],
    )
    def test_refusals(self, saved, tmp_path, columns, options, message):
        path = saved(columns)
        found = fail("convert", path, tmp_path / "rows", *options)
        assert message in found
        assert str(path) in found
        assert left(tmp_path) == ["train.parquet"]

    def test_a_damaged_file(self, saved, tmp_path):
        path = saved({"a": np.random.default_rng(0).random(500), "label": np.arange(500)})
        content = path.read_bytes()
        path.write_bytes(content[: len(content) // 2])
        assert "is not an intact Parquet file" in fail("convert", path, tmp_path / "rows")

    def test_standard_input_is_refused(self, saved, tmp_path):
        content = saved({"a": [1.0], "label": [1]}).read_bytes()
        message = fail("convert", "-", tmp_path / "rows", input=content)
        assert "Parquet data must be in a file, but standard input can be read only once" in message

    @posix_only
    def test_a_pipe_is_refused(self, saved, tmp_path):
        content = saved({"a": [1.0], "label": [1]}).read_bytes()
        os.mkfifo(tmp_path / "pipe")
        writer = threading.Thread(target=(tmp_path / "pipe").write_bytes, args=(content,))
        writer.start()
        assert "pipe can be read only once" in fail("convert", tmp_path / "pipe", tmp_path / "rows")
        writer.join()

    def test_without_pyarrow(self, saved, tmp_path, monkeypatch):
        path = saved({"a": [1.0], "label": [1]})
        monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
        message = fail("convert", path, tmp_path / "rows")
        assert "which requires pyarrow: pip install 'structinv[parquet]'" in message


class TestRefusals:
    @pytest.mark.parametrize(
        ("content", "held"),
        [
            (b"a,b,label\n1,2,x\n", "a table with a header"),
            (b"He PRP O\nran VBD O\n\nYes UH O\n", "sentences in columns"),
        ],
    )
    def test_other_kinds_of_files(self, tmp_path, content, held):
        (tmp_path / "train").write_bytes(content)
        message = fail("convert", tmp_path / "train", tmp_path / "rows")
        assert "SOURCE must be SVMlight rows, JSON lines of texts or Parquet" in message
        assert f"train looks like {held}" in message

    @pytest.mark.parametrize(
        ("content", "options"),
        [
            (b"1 1:1\n", ("--vocabulary", "words")),
            (b"1 1:1\n", ("--text-key", "text")),
            (b"1 1:1\n", ("--label-key", "label")),
            (b"1 1:1\n", ("--unlabeled",)),
            (b'{"text": "a", "label": 1}\n', ("--one-based",)),
        ],
    )
    def test_options_without_a_say(self, tmp_path, content, options):
        (tmp_path / "train").write_bytes(content)
        message = fail("convert", tmp_path / "train", tmp_path / "rows", *options)
        assert f"{options[0]}" in message
        assert "has no effect on the format of" in message

    def test_an_existing_folder(self, tmp_path):
        (tmp_path / "train").write_bytes(b"1 1:1\n")
        succeed("convert", tmp_path / "train", tmp_path / "rows")
        message = fail("convert", tmp_path / "train", tmp_path / "rows")
        assert "rows exists: pass --overwrite to replace a folder of rows" in message
        (tmp_path / "train").write_bytes(b"1 1:1 2:1\n")
        succeed("convert", tmp_path / "train", tmp_path / "rows", "--overwrite")
        assert RowFolder(tmp_path / "rows").shape == (1, 2)

    def test_standard_output(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        Path("train").write_bytes(b"1 1:1\n")
        message = fail("convert", "train", "-")
        assert "FOLDER must be a folder, got - for standard output" in message
        assert left(tmp_path) == ["train"]

    def test_missing_files_and_folders(self, tmp_path):
        assert "nowhere" in fail("convert", tmp_path / "nowhere", tmp_path / "rows")
        (tmp_path / "train").write_bytes(b"1 1:1\n")
        assert "does not exist" in fail("convert", tmp_path / "train", tmp_path / "no" / "rows")

    def test_an_error_leaves_the_older_folder(self, tmp_path):
        (tmp_path / "train").write_bytes(b"1 1:1\n")
        succeed("convert", tmp_path / "train", tmp_path / "rows")
        (tmp_path / "train").write_bytes(b"1 1:1\n" * 100 + b"1 1:x\n")
        fail("convert", tmp_path / "train", tmp_path / "rows", "--overwrite")
        assert RowFolder(tmp_path / "rows").shape == (1, 1)
        assert left(tmp_path) == ["rows", "train"]


@posix_only
def test_ctrl_c(tmp_path):
    """In the middle of a stream that has no end."""
    command = [sys.executable, "-m", "structinv", "convert", "-", str(tmp_path / "rows")]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    pipes = {"stdin": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = subprocess.Popen(command, env=environment, **pipes)
    # More than a pipe and the first look take: it is in its loop.
    process.stdin.write(b"1 1:1 2:1\n" * 700_000)
    process.send_signal(signal.SIGINT)
    _, messages = process.communicate()
    assert process.returncode == 130
    assert messages.endswith(b"structinv: interrupted: nothing was written\n")
    assert left(tmp_path) == []


def test_progress_is_shown_on_a_terminal(monkeypatch):
    shown = []

    class Terminal(Console):
        def __init__(self, **settings):
            super().__init__(file=sys.stderr, force_terminal=True, width=100)
            shown.append(self)

    monkeypatch.setattr(messages, "Console", Terminal)
    for total in (100, None):
        with messages.progress_of("converting train.svm", total) as show:
            show(50)
    assert len(shown) == 2


def test_help_describes_the_default_of_the_first_feature():
    said = " ".join(
        run("convert", "--help").stdout.replace("\N{BOX DRAWINGS LIGHT VERTICAL}", " ").split()
    )
    assert "Default: --zero-based if a row has feature number 0" in said


class TestBlocks:
    def test_svmlight(self, mail):
        found = list(svmlight_blocks(BytesIO(svmlight(mail)), zero_based=False))
        assert len(found) > 5
        assert np.concatenate([y for _, y in found]).tolist() == mail[1].tolist()
        assert sum(X.nnz for X, _ in found) == mail[0].nnz

    def test_lines_that_are_longer_than_a_block(self):
        line = b"1 " + b" ".join(b"%d:1" % k for k in range(1, 1000)) + b"\n"
        ((X, y), *more) = svmlight_blocks(BytesIO(line + b"-1 3:1"), zero_based=False)
        assert X.nnz == 999
        assert [(other.nnz, labels.tolist()) for other, labels in more] == [(1, [-1.0])]

    def test_texts(self):
        lines = [json.dumps({"text": f"a {k}", "label": k}) for k in range(50)]
        found = list(text_blocks(BytesIO("\n".join(lines).encode())))
        assert len(found) > 5
        assert sum((texts for texts, _ in found), []) == [f"a {k}" for k in range(50)]
        assert np.concatenate([labels for _, labels in found]).tolist() == list(range(50))

    def test_a_stream_cannot_seek_back_beyond_the_buffer(self, tmp_path, monkeypatch):
        content = b"x" * (3 * _KEPT)

        class Standard:
            buffer = BytesIO(content)

        monkeypatch.setattr("sys.stdin", Standard)
        with opened_once("-") as stream:
            assert stream.read(100_000) == content[:100_000]
            stream.seek(0)
            assert stream.read() == content
            with pytest.raises(OSError, match="standard input can be read only once"):
                stream.seek(0)
