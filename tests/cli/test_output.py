"""The command line: where output goes, and what stays when it cannot be written."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import structinv
from structinv import InvariantLinearSVC
from structinv.cli import app, predictions
from structinv.datasets import load_conll

from ..commands import fail, run, succeed
from ..hostile import EVIL, check_message, is_visible
from ..platforms import posix_only

ROOT = Path(structinv.__file__).parents[1]


def test_output_is_checked_before_the_work(folder, tmp_path):
    assert "got the folder" in fail("fit", tmp_path / "nowhere", "-o", tmp_path)
    assert "existing folder" in fail("fit", tmp_path / "nowhere", "-o", tmp_path / "a" / "b")
    assert "must differ" in fail("fit", folder / "train.svm", "-o", folder / "train.svm")
    assert "nowhere: No such file" in fail("fit", tmp_path / "nowhere", "-o", tmp_path / "m")


def test_a_model_can_be_written_to_standard_output(folder, tmp_path):
    result = run("fit", folder / "train.svm", "--tol", 0.1, "-o", "-")
    (tmp_path / "m").write_bytes(result.stdout_bytes)
    assert "200 rows" in result.stderr
    assert isinstance(structinv.load(tmp_path / "m"), InvariantLinearSVC)


@posix_only
def test_a_reader_that_goes_away(folder, monkeypatch, capsys):
    read, write = os.pipe()
    os.close(read)
    with open(write, "w", encoding="utf-8") as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        with pytest.raises(SystemExit) as caught:
            app(["evaluate", str(folder / "rows.model"), str(folder / "test.svm")])
    assert caught.value.code == 141
    assert capsys.readouterr().err == ""


@posix_only
@pytest.mark.slow
def test_a_reader_of_a_process_that_goes_away(folder):
    command = [sys.executable, "-m", "structinv", "evaluate", folder / "rows.model", folder / "test.svm"]
    environment, pipe = {**os.environ, "PYTHONPATH": str(ROOT)}, subprocess.PIPE
    process = subprocess.Popen(command, stdout=pipe, stderr=pipe, env=environment)
    process.stdout.close()
    assert process.wait() == 141
    assert process.stderr.read() == b""
    process.stderr.close()


@pytest.mark.parametrize("in_process", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_other_encodings(tmp_path, in_process):
    records = [{"text": "red sun", "label": "\u00e4"}, {"text": "blue sea", "label": "\u00f6"}] * 4
    (tmp_path / "mails").write_text("\n".join(json.dumps(each) for each in records))
    succeed("fit", tmp_path / "mails", "--max-changes", 0, "-o", tmp_path / "m")
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "ascii"}

    def printed(name):
        command = [name, str(tmp_path / "m"), str(tmp_path / "mails")]
        if in_process:
            done = CliRunner(charset="ascii").invoke(app, command)
            assert done.exit_code == 0, done.output
            return done.stdout_bytes
        command = [sys.executable, "-m", "structinv", *command]
        return subprocess.run(command, capture_output=True, env=environment, check=True).stdout

    assert printed("predict").decode().split()[:2] == ["\u00e4", "\u00f6"]
    assert rb"\xe4" in printed("evaluate")


def test_a_write_that_fails_leaves_the_old_file(folder, tmp_path, monkeypatch):
    model = tmp_path / "good.model"
    model.write_bytes(b"good")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    result = run("fit", folder / "train.svm", "--tol", 0.1, "-o", model)
    assert result.exit_code == 2
    assert "No space left" in result.stderr
    assert model.read_bytes() == b"good"


PLAIN = ("--oracle", "identity", "--C", "0.1", "--tol", "0.1")


@pytest.fixture
def written(tmp_path):
    """Files with such labels, columns and words."""
    rows = "".join(f"{k},{-k},{('ham', EVIL)[k % 2]}\n" for k in range(20))
    (tmp_path / "table.csv").write_text(f"second,{EVIL},label\n{rows}")
    mails = ({"text": f"{EVIL} word{k % 3} free", "label": ("ham", EVIL)[k % 2]} for k in range(20))
    (tmp_path / "mails.jsonl").write_text("".join(f"{json.dumps(mail)}\n" for mail in mails))
    tokens = "".join(f"{EVIL} {('O', f'B-{EVIL}')[k % 2]}\n\n" for k in range(10))
    (tmp_path / "tags.conll").write_text(tokens)
    return tmp_path


class TestHostileFiles:
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
