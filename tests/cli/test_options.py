"""The command line: options that are invalid, or for other data."""

import re

import pytest
from typer.main import get_command

from structinv.cli import app

from ..commands import fail


class TestFit:
    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ("--oracle magic", "--oracle must be one of identity, fdrop, .* for rows, got 'magic'"),
            ("--oracle fdrop", "--oracle fdrop requires --max-changes"),
            ("--max-changes 1", "--oracle identity has no --max-changes"),
            ("--oracle fadd --max-changes 1 --only-for eggs", "--only-for must list labels of DATA"),
            ("--oracle fadd --max-changes 9999", "the number of features that may be added"),
            ("--oracle fdrop --max-changes -1", "--max-changes must"),
            ("--C 0", "--C must"),
            ("--tol -1", "--tol must"),
            ("--solver magic", "--solver must be one of auto, bmrm, .* got 'magic'"),
            ("--memory-limit much", "--memory-limit must be a size such as 4GB"),
        ],
    )
    def test_bad_options(self, folder, tmp_path, options, message):
        line = fail("fit", folder / "train.svm", *options.split(), "-o", tmp_path / "m")
        assert re.search(message, line)
        assert not (tmp_path / "m").exists()

    @pytest.mark.parametrize(
        ("data", "options", "message"),
        [
            (
                "train.jsonl",
                "--zero-based",
                "one-based is for SVMlight rows, but .* has texts",
            ),
            ("train.jsonl", "--memory-limit 1GB", "--memory-limit is for rows, but .* has texts"),
            (
                "train.svm",
                "--label-key y",
                "for texts and tables, but .* has SVMlight rows",
            ),
            ("table.csv", "--one-based", "for SVMlight rows, but .* has tables"),
        ],
    )
    def test_options_for_other_data(self, folder, tmp_path, data, options, message):
        for name in ("train.jsonl", "train.svm"):
            (tmp_path / name).write_bytes((folder / name).read_bytes())
        (tmp_path / "table.csv").write_text("a,label\n1,x\n2,y\n")
        assert re.search(message, fail("fit", tmp_path / data, *options.split(), "-o", tmp_path / "m"))


class TestPredict:
    @pytest.mark.parametrize("option", ["--label-key=y", "--zero-based", "--ignore-new-features"])
    def test_options_for_other_data(self, folder, option):
        name, data = ("rows", "test.svm") if "label" in option else ("text", "test.jsonl")
        assert " is for " in fail("predict", folder / f"{name}.model", folder / data, option)


def test_at_most_38_options():
    commands = get_command(app).commands.values()
    options = {each.name for command in commands for each in command.params if each.opts[0][0] == "-"}
    assert len(options) <= 38, sorted(options)
