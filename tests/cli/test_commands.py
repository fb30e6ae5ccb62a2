"""The command line: training, evaluation, predictions, explanations, and models of Python."""

import json
import os
import pickle
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from matplotlib.image import imread
from sklearn.datasets import dump_svmlight_file, load_svmlight_file
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler
from sklearn.svm import LinearSVC
from typer.main import get_command
from typer.testing import CliRunner

import structinv
from structinv import InvariantLinearSVC, InvariantSVC, InvariantTextClassifier, certify
from structinv.cli import app
from structinv.cli.output import check_folder
from structinv.datasets import make_mail_like
from structinv.oracles import FDrop, Shifts

from ..platforms import posix_only

ROOT = Path(structinv.__file__).parents[1]
WORDS = {"spam": ["cheap", "pills", "winner", "money", "offer"], "ham": ["meeting", "notes", "lunch"]}


def run(*arguments, input=None):
    return CliRunner().invoke(app, [str(a) for a in arguments], input, env={"COLUMNS": "200"})


def succeed(*arguments, input=None):
    result = run(*arguments, input=input)
    assert result.exit_code == 0, result.output
    return result.stdout


def fail(*arguments, input=None):
    """The one line of an error."""
    result = run(*arguments, input=input)
    assert result.exit_code == 2, result.output
    (line,) = [line for line in result.stderr.splitlines() if "error: " in line]
    assert line.startswith("structinv: error: ")
    assert "Traceback" not in result.output
    return line


def write_mails(path, seed, n_mails=60):
    rng = np.random.default_rng(seed)
    with open(path, "w") as stream:
        for k in range(n_mails):
            label = ("ham", "spam")[k % 2]
            words = [*rng.choice(WORDS[label], 4), *rng.choice(["the", "and", "for"], 3)]
            stream.write(json.dumps({"text": " ".join(words), "label": label}) + "\n")
    return path


def texts_of(path):
    """Texts and labels of JSON lines."""
    records = [json.loads(line) for line in path.read_text().splitlines()]
    return [record["text"] for record in records], np.array([record["label"] for record in records])


def rows_of(path):
    return load_svmlight_file(str(path), n_features=100, zero_based=False)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Data and models that tests read and never change."""
    folder = tmp_path_factory.mktemp("cli")
    for name, seed in (("train", 0), ("test", 1)):
        write_mails(folder / f"{name}.jsonl", seed)
        X, y = make_mail_like(200, 100, random_state=seed)
        path = str(folder / f"{name}.svm")
        dump_svmlight_file(X, np.where(y == "spam", 1, -1), path, zero_based=False)
    options = ("--max-changes", 2, "--C", 0.1, "--tol", 0.01)
    succeed("fit", folder / "train.jsonl", "--oracle", "drop", *options, "-o", folder / "text.model")
    succeed("fit", folder / "train.svm", "--oracle", "fdrop", *options, "-o", folder / "rows.model")
    return folder


def table_rows(text):
    """The cells of indented lines, split at blanks."""
    return [line.replace(" %", "%").split() for line in text.splitlines() if line[:2] == "  "]


class TestFit:
    def test_texts_give_the_text_classifier(self, folder, tmp_path):
        more = ("--only-for", "spam", "--tol", 0.01)
        out = succeed("fit", folder / "train.jsonl", "--max-changes", 1, *more, "-o", tmp_path / "m")
        assert "60 texts" in out
        model = structinv.load(tmp_path / "m")
        X, y = texts_of(folder / "train.jsonl")
        direct = InvariantTextClassifier("edit", 1, only_for=["spam"], tol=0.01, random_state=0).fit(
            X, y
        )
        assert repr(model) == repr(direct)
        np.testing.assert_array_equal(model.coef_, direct.coef_)

    @pytest.mark.parametrize("oracle", ["identity", "fdrop", "fscale", "fadd", "fedit"])
    def test_rows_give_the_linear_classifier(self, folder, tmp_path, oracle):
        changes = () if oracle == "identity" else ("--max-changes", 3)
        more = ("--C", 0.02, "--tol", 0.02, "--seed", 7, "--max-seconds", 600, "--memory-limit", "1GB")
        out = succeed(
            "fit", folder / "train.svm", "--oracle", oracle, *changes, *more, "-o", tmp_path / "m"
        )
        assert "200 rows" in out
        assert "relative gap" in out
        model = structinv.load(tmp_path / "m")
        kind = structinv.oracles.REGISTRY[oracle]
        direct = InvariantLinearSVC(
            kind(3) if changes else kind(),
            C=0.02,
            tol=0.02,
            random_state=7,
            max_seconds=600.0,
            memory_limit="1GB",
        )
        assert repr(model) == repr(direct)
        np.testing.assert_array_equal(model.coef_, direct.fit(*rows_of(folder / "train.svm")).coef_)

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
        (folder / "table.csv").write_text("a,label\n1,x\n2,y\n")
        assert re.search(message, fail("fit", folder / data, *options.split(), "-o", tmp_path / "m"))

    def test_output_is_checked_before_the_work(self, folder, tmp_path):
        assert "got the folder" in fail("fit", tmp_path / "nowhere", "-o", tmp_path)
        assert "existing folder" in fail("fit", tmp_path / "nowhere", "-o", tmp_path / "a" / "b")
        assert "must differ" in fail("fit", folder / "train.svm", "-o", folder / "train.svm")
        assert "nowhere: No such file" in fail("fit", tmp_path / "nowhere", "-o", tmp_path / "m")

    def test_a_model_can_be_written_to_standard_output(self, folder, tmp_path):
        result = run("fit", folder / "train.svm", "--tol", 0.1, "-o", "-")
        (tmp_path / "m").write_bytes(result.stdout_bytes)
        assert "200 rows" in result.stderr
        assert isinstance(structinv.load(tmp_path / "m"), InvariantLinearSVC)


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
        shares = certificate.attacked_accuracy, certificate.accuracy
        assert rows[0][1] == f"{100 * model.score(X, y):.1f}%"
        assert rows[1][-5:-3] == [f"{100 * share:.1f}%" for share in shares]
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


class TestPredict:
    def test_labels_scores_and_certificates(self, folder, tmp_path):
        model, (X, _) = structinv.load(folder / "rows.model"), rows_of(folder / "test.svm")
        options = ("--scores", "--certify", "-o", tmp_path / "labels")
        result = run("predict", folder / "rows.model", folder / "test.svm", *options)
        assert "certified for FDrop(max_changes=2)" in result.stderr
        lines = [line.split("\t") for line in (tmp_path / "labels").read_text().splitlines()]
        labels, scores, words = zip(*lines, strict=True)
        assert [float(label) for label in labels] == model.predict(X).tolist()
        assert [float(score) for score in scores] == model.decision_function(X).tolist()
        assert [word == "yes" for word in words] == model.certify(X).correct.tolist()

    def test_text_needs_no_labels(self, folder, tmp_path):
        path = tmp_path / "new.jsonl"
        path.write_text('{"text": "cheap pills offer"}\n{"text": "lunch meeting unknownword"}\n')
        assert succeed("predict", folder / "text.model", path).split() == ["spam", "ham"]
        assert succeed("predict", folder / "text.model", "-", input=path.read_text()) == "spam\nham\n"

    @pytest.mark.parametrize("option", ["--label-key=y", "--zero-based", "--ignore-new-features"])
    def test_options_for_other_data(self, folder, option):
        name, data = ("rows", "test.svm") if "label" in option else ("text", "test.jsonl")
        assert " is for " in fail("predict", folder / f"{name}.model", folder / data, option)

    def test_a_certificate_without_labels_perturbs_all_samples(self, folder, tmp_path):
        options = ("--oracle", "fdrop", "--max-changes", 1, "--only-for", 1, "--tol", 0.1)
        succeed("fit", folder / "train.svm", *options, "-o", tmp_path / "m")
        result = run("predict", tmp_path / "m", folder / "test.svm", "--certify")
        assert "read without labels, so all of it counts as perturbed" in result.stderr

    def test_missing_features_are_zero_and_new_ones_refused(self, folder, tmp_path):
        few, many = tmp_path / "few.svm", tmp_path / "many.svm"
        few.write_text("1 3:1\n")
        many.write_text("1 3:1 500:9\n")
        expected = succeed("predict", folder / "rows.model", few)
        line = fail("predict", folder / "rows.model", many)
        assert "has 500 features, but MODEL has 100: pass --ignore-new-features" in line
        out = succeed("predict", folder / "rows.model", many, "--ignore-new-features")
        assert out == expected

    def test_numbering_is_that_of_the_training_file(self, tmp_path):
        (tmp_path / "train.svm").write_text("1 0:1\n-1 1:1\n" * 5)
        line = fail("fit", tmp_path / "train.svm", "-o", tmp_path / "m")
        assert "Invalid index 0" in line
        assert "pass --zero-based" in line
        succeed("fit", tmp_path / "train.svm", "--zero-based", "-o", tmp_path / "m")
        (tmp_path / "rows.svm").write_text("1 1:1\n")
        assert succeed("predict", tmp_path / "m", tmp_path / "rows.svm") == "-1\n"
        line = fail("predict", tmp_path / "m", tmp_path / "rows.svm", "--one-based")
        assert "has features from 1, but MODEL has features from 0" in line


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


class TestModelsOfPython:
    """Files of `structinv.save` have no notes on reading."""

    def saved(self, folder, model, data="train.jsonl"):
        X, y = texts_of(folder / data) if data.endswith("jsonl") else rows_of(folder / data)
        structinv.save(model.fit(X, y), folder / "python.model")
        return folder / "python.model", model

    def test_all_commands_take_a_pipeline_of_texts(self, folder, tmp_path):
        pipeline = make_pipeline(CountVectorizer(), InvariantLinearSVC(FDrop(1), tol=0.1))
        path, model = self.saved(folder, pipeline)
        X, _ = texts_of(folder / "test.jsonl")
        lines = succeed("predict", path, folder / "test.jsonl", "--certify").splitlines()
        assert [line.split("\t")[0] for line in lines] == model.predict(X).tolist()
        expected = certify(model, None, X).correct.tolist()
        assert [line.endswith("yes") for line in lines] == expected
        assert "input of the last step" in succeed("evaluate", path, folder / "test.jsonl")
        assert "Worst edit" in succeed("explain", path, folder / "test.jsonl", "--row", 0)
        succeed("report", path, folder / "test.jsonl", "-o", tmp_path / "report.html")
        line = fail("predict", path, folder / "test.svm")
        assert "MODEL takes texts, but" in line

    def test_estimators_of_scikit_learn_predict(self, folder):
        search = GridSearchCV(make_pipeline(TfidfVectorizer(), LinearSVC()), {"linearsvc__C": [1.0]})
        path, model = self.saved(folder, search)
        out = succeed("predict", path, folder / "test.jsonl")
        assert out.split() == model.predict(texts_of(folder / "test.jsonl")[0]).tolist()
        for name, *more in (("predict", "--certify"), ("evaluate",), ("explain", "--row", 0)):
            result = run(name, path, folder / "test.jsonl", *more)
            assert result.output.startswith("structinv: error: MODEL declares no perturbations")
            assert 'structinv.certify(model, TokenEdits("edit", 5), texts, y)' in result.output
        path, model = self.saved(folder, Ridge(), "train.svm")
        out = succeed("predict", path, folder / "test.svm")
        result = run("predict", path, folder / "test.svm", "--certify")
        assert result.output.startswith("structinv: error: estimator must be a classifier")
        expected = model.predict(rows_of(folder / "test.svm")[0])
        np.testing.assert_array_equal([float(line) for line in out.split()], expected)

    @pytest.mark.parametrize(
        "model",
        [
            InvariantSVC(Shifts(1, shape=(10, 10)), C=0.1, tol=0.1, max_seconds=1.0),
            make_pipeline(MaxAbsScaler(), InvariantSVC(C=0.1, tol=0.1)),
            InvariantLinearSVC(Shifts(1, shape=(10, 10)), C=0.1, tol=0.1),
            make_pipeline(MaxAbsScaler(), InvariantLinearSVC(FDrop(1), tol=0.1)),
        ],
        ids=["kernel", "kernel in a pipeline", "dense oracle", "linear in a pipeline"],
    )
    def test_rows_are_dense_where_the_model_needs_it(self, folder, tmp_path, monkeypatch, model):
        X, y = rows_of(folder / "train.svm")
        structinv.save(model.fit(X.toarray()[:40], y[:40]), tmp_path / "m")
        assert "ACCURACY" in succeed("evaluate", tmp_path / "m", folder / "test.svm")
        found = succeed("predict", tmp_path / "m", folder / "test.svm", "--certify").split()[::2]
        test, _ = rows_of(folder / "test.svm")
        assert [float(label) for label in found] == model.predict(test.toarray()).tolist()
        if isinstance(model, InvariantSVC):
            monkeypatch.setattr("structinv.utils.resources.free_memory", lambda: 1e4)
            line = fail("predict", tmp_path / "m", folder / "test.svm")
            assert "the dense rows of this MODEL would take 0.16 MB, and 0.01 MB are free" in line

    def test_columns_have_the_names_of_the_data_frame(self, folder, tmp_path):
        pandas = pytest.importorskip("pandas")
        frame = pandas.DataFrame({"a": [0.0, 1.0] * 5, "b": [1.0, 0.0] * 5})
        model = InvariantLinearSVC(tol=0.1).fit(frame, [0, 1] * 5)
        structinv.save(model, tmp_path / "m")
        (tmp_path / "t.csv").write_text("b,a,kind\n1,0,0\n0,1,1\n")
        assert succeed("predict", tmp_path / "m", tmp_path / "t.csv", "--label-key", "kind") == "0\n1\n"
        assert "ACCURACY" in succeed(
            "evaluate", tmp_path / "m", tmp_path / "t.csv", "--label-key", "kind"
        )

    def test_pickles_are_never_opened(self, folder, tmp_path):
        class Trap:
            def __reduce__(self):
                return (open, (str(tmp_path / "sprung"), "w"))

        (tmp_path / "m").write_bytes(pickle.dumps(Trap()))
        assert "not a model file" in fail("predict", tmp_path / "m", folder / "test.svm")
        assert not (tmp_path / "sprung").exists()


class TestDemo:
    def test_prints_a_table_and_draws_a_picture(self, tmp_path):
        out = succeed("demo", "--out", tmp_path / "plots")
        for name in ("LinearSVC", "InvariantLinearSVC", "SVC", "InvariantSVC", "97.5%", "75.9%"):
            assert name in out
        (path,) = (tmp_path / "plots").iterdir()
        assert f"Open {path}" in out
        assert imread(path).std() > 0.05

    def test_demo_without_matplotlib_prints_a_note(self, tmp_path, monkeypatch):
        monkeypatch.setattr("structinv.cli.demo.find_spec", lambda name: None)
        result = run("demo", "--out", tmp_path / "plots")
        assert result.exit_code == 0
        assert "structinv[plot]" in result.stderr
        assert "InvariantSVC" in result.stdout
        assert not (tmp_path / "plots").exists()

    def test_a_file_in_its_place(self, tmp_path, monkeypatch):
        monkeypatch.setattr("structinv.cli.demo._mail_models", None)
        (tmp_path / "file").touch()
        line = fail("demo", "--out", tmp_path / "file" / "more" / "plots")
        assert f"--out must be a new or existing folder, but {tmp_path / 'file'} is a file" in line

    @pytest.mark.skipif(
        not Path("/proc/self").exists(), reason="needs a folder that nobody can write to"
    )
    def test_a_folder_that_cannot_be_written(self, tmp_path):
        line = fail("demo", "--out", "/proc/plots")
        assert "--out must be a writable folder, but /proc is not writable" in line
        check_folder(tmp_path / "a" / "b")
        assert not any(tmp_path.iterdir())


@posix_only
def test_a_reader_that_goes_away(folder):
    command = [sys.executable, "-m", "structinv", "evaluate", folder / "rows.model", folder / "test.svm"]
    environment, pipe = {**os.environ, "PYTHONPATH": str(ROOT)}, subprocess.PIPE
    process = subprocess.Popen(command, stdout=pipe, stderr=pipe, env=environment)
    process.stdout.close()
    assert process.wait() == 141
    assert process.stderr.read() == b""
    process.stderr.close()


def test_other_encodings(tmp_path):
    records = [{"text": "red sun", "label": "\u00e4"}, {"text": "blue sea", "label": "\u00f6"}] * 4
    (tmp_path / "mails").write_text("\n".join(json.dumps(each) for each in records))
    succeed("fit", tmp_path / "mails", "--max-changes", 0, "-o", tmp_path / "m")
    command = [sys.executable, "-m", "structinv", "predict", tmp_path / "m", tmp_path / "mails"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(command, capture_output=True, env=environment, check=True)
    assert done.stdout.decode().split()[:2] == ["\u00e4", "\u00f6"]
    command[3] = "evaluate"
    done = subprocess.run(command, capture_output=True, env=environment, check=True)
    assert rb"\xe4" in done.stdout


def test_at_most_38_options():
    commands = get_command(app).commands.values()
    options = {each.name for command in commands for each in command.params if each.opts[0][0] == "-"}
    assert len(options) <= 38, sorted(options)


def test_help_and_version():
    for command in ([], *([name] for name in get_command(app).commands)):
        assert "Usage" in succeed(*command, "--help")
    assert succeed("--version").startswith("structinv 0.")
    command = [sys.executable, "-m", "structinv", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("structinv 0.")
