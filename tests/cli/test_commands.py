"""The command line: evaluation, explanations, and what all commands have."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.main import get_command

import structinv
from structinv.cli import app

from ..commands import fail, rows_of, run, succeed, table_rows, texts_of

ROOT = Path(structinv.__file__).parents[1]


class TestEvaluate:
    @pytest.mark.parametrize("name", ["text", "rows"])
    def test_prints_the_tables_of_the_report(self, folder, name):
        data = folder / ("test.jsonl" if name == "text" else "test.svm")
        out = succeed("evaluate", folder / f"{name}.model", data)
        model = structinv.load(folder / f"{name}.model")
        X, y = texts_of(data) if name == "text" else rows_of(data)
        certificate = model.certify(X, y)
        rows = [
            row for row in table_rows(out) if "of" in row and row[0] != "up" and "predict" not in row
        ]
        assert rows[0][1] == f"{100 * model.score(X, y):.1f}%"
        assert rows[1][-4] == f"{100 * certificate.accuracy:.1f}%"
        assert "attacked" not in " ".join(map(" ".join, table_rows(out)))
        assert "The attacked accuracies equal the certified ones." in out
        n_features = model.coef_.shape[1]
        assert f" of {n_features} features have an effect of at least 1 % of the largest one." in out
        assert "Detection rates of" in out
        for label in np.unique(y).tolist():
            assert any(row[0] == f"{label:g}" if name == "rows" else label for row in table_rows(out))

    def test_unknown_labels_are_refused(self, folder, tmp_path):
        (tmp_path / "rows.svm").write_text("1 1:1\n3 1:1\n")
        line = fail("evaluate", folder / "rows.model", tmp_path / "rows.svm")
        assert "must be among the classes of MODEL, -1, 1; got 3" in line

    def test_a_model_without_perturbations_is_named(self, folder, tmp_path):
        succeed("fit", folder / "train.svm", "--tol", 0.1, "-o", tmp_path / "m")
        result = run("evaluate", tmp_path / "m", folder / "test.svm")
        assert "MODEL has no perturbations" in result.stderr


class TestExplain:
    def test_the_table_is_that_of_the_explanation(self, folder):
        out = succeed("explain", folder / "text.model", folder / "test.jsonl", "--row", 1)
        X, y = texts_of(folder / "test.jsonl")
        model = structinv.load(folder / "text.model")
        found = structinv.inspection.explain_edit(model, X[1:2], y[1:2])
        first, rest = out.split("\n", 1)
        oracle = "TokenEdits(edit='drop', max_changes=2)"
        assert first.startswith(f"Row 1: label spam, predicted spam; {oracle}")
        assert rest.rstrip() == str(found)

    def test_features_have_the_numbers_of_the_file(self, folder):
        out = succeed("explain", folder / "rows.model", folder / "test.svm", "--row", 0)
        first_row = (folder / "test.svm").read_text().splitlines()
        first_row = next(line for line in first_row if not line.startswith("#"))
        assert f" {table_rows(out)[-1][0]}:" in first_row

    def test_without_labels(self, folder, tmp_path):
        (tmp_path / "new").write_text('{"text": "cheap pills offer"}\n')
        out = succeed("explain", folder / "text.model", tmp_path / "new", "--row", 0)
        assert "Row 0: no label, predicted spam" in out

    @pytest.mark.parametrize("row", [-1, 60])
    def test_row_out_of_range(self, folder, row):
        line = fail("explain", folder / "text.model", folder / "train.jsonl", "--row", row)
        assert "--row must be between 0 and 59" in line


def test_help_and_version():
    for command in ([], *([name] for name in get_command(app).commands)):
        assert "Usage" in succeed(*command, "--help")
    assert succeed("--version").startswith("structinv 0.")


@pytest.mark.slow
def test_the_module_is_the_command_line():
    command = [sys.executable, "-m", "structinv", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("structinv 0.")
