"""Hostile files: terminal escapes, hidden marks, long names, and declared sizes."""

import errno
import json
import os
import unicodedata
import zipfile
from io import BytesIO

import numpy as np
import pytest

import structinv
from structinv import InvariantLinearSVC, InvariantTextClassifier, report
from structinv.cli import predictions
from structinv.cli.data import read
from structinv.datasets import load_conll, write_conll
from structinv.inspection import explain_edit
from structinv.oracles import Box, FDrop, TokenEdits
from structinv.persistence import refusals
from structinv.rows import RowFolder, RowWriter
from structinv.utils import files
from structinv.utils.texts import visible

from ..cli.test_commands import fail, run, succeed

# Clears the screen, reverses the text, hides a blank, and is long.
EVIL = "a\x1b[2J\u202eb\u200bc" + "x" * 100_000
PLAIN = ("--oracle", "identity", "--C", "0.1", "--tol", "0.1")


def is_visible(text):
    return all(unicodedata.category(each) not in ("Cc", "Cf") for each in text if each not in "\n\t")


def check_message(text):
    assert is_visible(text)
    assert "\\x1b[2J" in text
    assert len(text) < 3000


@pytest.fixture
def written(tmp_path):
    """Files with such labels, columns and words."""
    rows = "".join(f"{k},{-k},{('ham', EVIL)[k % 2]}\n" for k in range(20))
    (tmp_path / "table.csv").write_text(f"second,{EVIL},label\n{rows}")
    mails = ({"text": f"{EVIL} word{k % 3} free", "label": ("ham", EVIL)[k % 2]} for k in range(20))
    (tmp_path / "mails.jsonl").write_text("".join(f"{json.dumps(mail)}\n" for mail in mails))
    tokens = "".join(f"{EVIL} {('O', f'B-{EVIL}')[k % 2]}\n\n" for k in range(20))
    (tmp_path / "tags.conll").write_text(tokens)
    return tmp_path


class TestCommandLine:
    @pytest.mark.parametrize("name", ["table.csv", "mails.jsonl"])
    def test_labels_columns_and_words_are_escaped_and_cut(self, written, name):
        kind = "fdrop" if name == "table.csv" else "drop"
        oracle = ("--oracle", kind, "--max-changes", 1, "--C", "1", "--tol", "0.1")
        data, model = written / name, written / "m"
        outputs = [run("fit", data, *oracle, "-o", model)]
        outputs += [run("predict", model, data, "--certify"), run("evaluate", model, data)]
        outputs += [run("explain", model, data, "--row", row) for row in (0, 1)]
        for result in outputs:
            assert result.exit_code == 0, result.output
            assert is_visible(result.output)
            assert max(map(len, result.output.splitlines())) < 3000
        assert outputs[1].stdout.count("\n") == 20
        assert "a\\x1b[2J\\u202eb\\u200bc" in outputs[2].stdout.replace("\n", "")

    def test_words_of_a_file_are_unchanged_in_a_file_and_visible_on_a_terminal(self, written):
        data, model = written / "tags.conll", written / "m"
        for result in (run("fit", data, *PLAIN, "-o", model), run("evaluate", model, data)):
            assert result.exit_code == 0, result.output
            assert is_visible(result.output)
        succeed("predict", model, data, "-o", written / "out")
        assert load_conll(written / "out")[0][0][0][0] == EVIL
        shown = predictions._for_terminal((written / "out").read_bytes()).decode()
        check_message(shown[:2500])

    def test_messages_are_escaped_and_cut(self, written):
        table, model = written / "table.csv", written / "m"
        succeed("fit", table, *PLAIN, "-o", model)
        (written / "other.csv").write_text("first,label\n1,x\n2,y\n")
        (written / "more.csv").write_text(table.read_text().replace("second", "third"))
        (written / "labels.csv").write_text(table.read_text().replace("ham", f"\x1b[2J{EVIL}"))
        for line in (
            fail("predict", model, written / "other.csv"),
            fail("evaluate", model, written / "labels.csv"),
            fail("fit", table, *PLAIN, "--only-for", "x", "-o", model),
            fail("fit", table, *PLAIN, "--label-key", "x", "-o", model),
            fail("convert", written / "tags.conll", written / "folder\x1b[2J"),
        ):
            assert is_visible(line)
            assert len(line) < 3000

    def test_a_label_with_a_line_end_is_one_line(self, tmp_path):
        mails = ({"text": f"word{k % 2} all", "label": ("a\tb\nc", "d")[k % 2]} for k in range(20))
        (tmp_path / "mails").write_text("".join(f"{json.dumps(mail)}\n" for mail in mails))
        succeed("fit", tmp_path / "mails", "--max-changes", 0, "-o", tmp_path / "m")
        out = succeed("predict", tmp_path / "m", tmp_path / "mails")
        assert out.splitlines()[:2] == ["a\\tb\\nc", "d"]


class TestReaders:
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
    def test_messages_are_escaped_and_cut(self, tmp_path, content):
        (tmp_path / "data").write_text(content)
        with pytest.raises(ValueError, match="data") as caught:
            read(tmp_path / "data", None, "label", 1)
        assert is_visible(str(caught.value))
        assert len(str(caught.value)) < 1000

    def test_printed_results_are_escaped_and_cut(self):
        X, y = np.array([[2.0, 1.0], [0.0, 1.0]]), np.array([EVIL, "b"])
        pandas = pytest.importorskip("pandas")
        frame = pandas.DataFrame(X, columns=[EVIL, "second"])
        model = InvariantLinearSVC(Box(0.1), random_state=0).fit(frame, y)
        text = repr(explain_edit(model, frame[:1]))
        assert is_visible(text)
        assert "a\\x1b[2J" in text
        assert len(text) < 1000


def members(path):
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


class TestDeclaredSizes:
    @pytest.fixture
    def path(self, tmp_path):
        structinv.save(InvariantLinearSVC(FDrop(1)), tmp_path / "m")
        return tmp_path / "m"

    def rewrite(self, path, compression=zipfile.ZIP_DEFLATED, **parts):
        parts = members(path) | {name.replace("_", "."): content for name, content in parts.items()}
        with zipfile.ZipFile(path, "w", compression) as archive:
            for name, content in parts.items():
                archive.writestr(name, content)

    @pytest.mark.parametrize("name", ["structinv_json", "schema_json"])
    def test_large_json_is_refused_by_its_ratio(self, path, name, monkeypatch):
        self.rewrite(path, **{name: b"[" + b"[]," * 3_000_000 + b"[]]"})
        monkeypatch.setattr(json, "loads", None)
        with pytest.raises(
            ValueError, match=r"m is refused, because .*json takes 9.0 MB, compressed to 0"
        ):
            structinv.load(path)
        assert ".json takes 9.0 MB" in fail("predict", path, path)

    @pytest.mark.parametrize("inside", [False, True])
    def test_large_arrays_are_refused_by_their_total_also_inside_archives(
        self, path, monkeypatch, inside
    ):
        monkeypatch.setattr(refusals, "BYTES", 1e6)
        monkeypatch.setattr(refusals, "RATIO", 10.0)
        stream = BytesIO()
        with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("data.npy", bytes(10_000_000))
        parts = {"1_npz": stream.getvalue()} if inside else {"1_npy": bytes(10_000_000)}
        self.rewrite(path, **parts)
        message = r"m is refused, because its parts take 10.\d MB, compressed to"
        with pytest.raises(ValueError, match=message):
            structinv.load(path)

    @pytest.mark.parametrize("compression", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
    def test_other_compressions_are_refused(self, path, compression):
        self.rewrite(path, compression)
        with pytest.raises(ValueError, match="has a compression other than that of structinv.save"):
            structinv.load(path)

    def test_weights_of_zero_are_loaded(self, tmp_path):
        model = InvariantLinearSVC(random_state=0)
        model.fit(np.eye(2), [0, 1])
        model.coef_ = np.zeros((1, 2_000_000))
        structinv.save(model, tmp_path / "wide")
        assert (tmp_path / "wide").stat().st_size < 50_000
        assert structinv.load(tmp_path / "wide").coef_.shape == (1, 2_000_000)

    def test_names_of_types_are_escaped_and_cut(self, path):
        schema = json.loads(members(path)["schema.json"])
        schema |= {"__class__": EVIL, "__module__": "a"}
        self.rewrite(path, schema_json=json.dumps(schema))
        with pytest.raises(ValueError, match="m ") as caught:
            structinv.load(path)
        assert is_visible(str(caught.value))
        assert len(str(caught.value)) < 3000

    def test_versions_are_escaped_and_cut(self, path):
        page = json.loads(members(path)["structinv.json"])
        page["libraries"] |= {"structinv": "99.0", "numpy": EVIL}
        self.rewrite(path, structinv_json=json.dumps(page))
        with pytest.raises(ValueError, match="the same minor version only") as caught:
            structinv.load(path)
        check_message(str(caught.value))


def test_a_manifest_of_brackets_is_damaged(tmp_path):
    with RowWriter(tmp_path / "rows") as writer:
        writer.append(np.eye(3))
    (tmp_path / "rows" / "manifest.json").write_text("[" * 200_000)
    with pytest.raises(ValueError, match=r"manifest.json is not JSON"):
        RowFolder(tmp_path / "rows")


class TestErrorsNameThePath:
    def full(self, *_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def test_on_a_full_disk(self, tmp_path, monkeypatch):
        X, y = np.eye(4), np.arange(4) % 2
        model = InvariantLinearSVC(random_state=0).fit(X, y)
        monkeypatch.setattr(files.os, "fsync", self.full)

        def rows(path):
            with RowWriter(path) as writer:
                writer.append(X)

        for name, write in {
            "model": lambda path: structinv.save(model, path),
            "page": lambda path: report.write(path, model, X, y),
            "tags": lambda path: write_conll(path, [["a"]]),
            "rows": rows,
        }.items():
            with pytest.raises(OSError, match=f"No space left on device: .*/{name}'$"):
                write(tmp_path / name)
        assert list(tmp_path.iterdir()) == []

    def test_where_a_temporary_file_cannot_be_made(self, tmp_path, monkeypatch):
        def refused(*_, dir, prefix):
            raise PermissionError(errno.EACCES, "Permission denied", f"{dir}/{prefix}x1y2")

        monkeypatch.setattr(files.tempfile, "mkstemp", refused)
        with pytest.raises(PermissionError, match="Permission denied: .*/model'$"):
            files.write_atomically(tmp_path / "model", b"")

    def test_errors_about_other_files_are_unchanged(self, tmp_path):
        with (
            pytest.raises(FileNotFoundError, match="elsewhere"),
            files.written_atomically(tmp_path / "model"),
        ):
            (tmp_path / "elsewhere").read_bytes()

    @pytest.mark.parametrize("name", ["indptr.npy", "indices.npy", "data.npy"])
    def test_a_folder_in_the_place_of_a_file(self, tmp_path, name):
        with RowWriter(tmp_path / "rows") as writer:
            writer.append(np.eye(3))
        (tmp_path / "rows" / name).unlink()
        (tmp_path / "rows" / name).mkdir()
        with pytest.raises(OSError, match=name):
            RowFolder(tmp_path / "rows").block(0, 3)


@pytest.mark.parametrize("edit", ["drop", "add", "replace"])
def test_the_kind_of_edit_is_always_printed(edit):
    assert repr(TokenEdits(edit, 5)) == f"TokenEdits(edit='{edit}', max_changes=5)"
    assert f"edit='{edit}'" in repr(TokenEdits(edit, 1).only_for("spam"))
    model = InvariantTextClassifier(edit, 5, C=1.0).fit(["free money", "see you"], ["spam", "ham"])
    assert f"TokenEdits(edit='{edit}', max_changes=5)" in repr(model.certify(["free"]))


def test_visible_text_keeps_letters_of_all_scripts():
    for text in ("\u05e9\u05dc\u05d5\u05dd", "na\u00efve", "\U0001f468\u200d\U0001f469", "a\tb\nc"):
        assert visible(text) == text
    assert visible("a\u202eb\x07") == "a\\u202eb\\x07"
