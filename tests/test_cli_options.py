"""The command line: kinds of files, pipes, and what its options say."""

import gzip
import json
import lzma
import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import dump_svmlight_file, load_digits, load_wine
from sklearn.metrics import balanced_accuracy_score
from sklearn.model_selection import cross_val_score

import structinv
from structinv import InvariantLinearSVC, InvariantSVC
from structinv.cli.model_file import load_model
from structinv.cli.options import OracleName
from structinv.cli.training import _usable
from structinv.datasets import make_mail_like
from structinv.model_selection import certified_accuracy_scorer
from structinv.oracles import Box, FDrop, Identity, ImageShape, Rotations, Shifts

from .covering import pairs
from .platforms import posix_only
from .test_cli import fail, run, succeed, table_rows, write_mails

ROOT = Path(__file__).resolve().parents[1]
ASCII = {"PYTHONIOENCODING": "ascii"}
EASY = ("--tol", 0.05, "--C", 0.1)
PLAIN = ("--oracle", "identity", *EASY)


def command(*arguments, env=None):
    """A process of its own, for what a runner inside this one cannot show."""
    parts = [sys.executable, "-m", "structinv", *map(str, arguments)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **(env or {})}
    pipe = subprocess.PIPE
    return subprocess.Popen(parts, stdin=pipe, stdout=pipe, stderr=pipe, env=environment)


def write_table(path, X, y, names=None):
    names = names or [f"x{k}" for k in range(X.shape[1])]
    lines = [",".join([*names, "label"])]
    lines += [",".join([*map(repr, map(float, row)), str(label)]) for row, label in zip(X, y)]  # noqa: B905
    path.write_text("\n".join(lines))
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Files of every kind, and a model for each."""
    folder = tmp_path_factory.mktemp("kinds")
    write_mails(folder / "mails.jsonl", seed=0)
    X, y = make_mail_like(120, 100, random_state=0)
    dump_svmlight_file(X, np.where(y == "spam", 1, -1), str(folder / "rows.svm"))
    X, y = load_wine(return_X_y=True)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    write_table(folder / "wine.csv", X, np.array(["one", "two", "three"])[y])
    for name, data in (("text", "mails.jsonl"), ("rows", "rows.svm"), ("table", "wine.csv")):
        oracle = ("--oracle", "fdrop", "--max-changes", 1)
        succeed("fit", folder / data, *oracle, *EASY, "-o", folder / f"{name}.model")
    return folder


class TestFiles:
    @pytest.mark.parametrize(
        ("model", "name", "compress"),
        pairs(
            ["text", "rows"],
            ["data", "data.json", "data.txt", "data.csv", "data.gz", "data.xz"],
            [bytes, gzip.compress, lzma.compress],
        ),
    )
    def test_go_by_content_not_by_name(self, folder, tmp_path, model, name, compress):
        data = {"text": "mails.jsonl", "rows": "rows.svm"}[model]
        (tmp_path / name).write_bytes(compress((folder / data).read_bytes()))
        expected = succeed("predict", folder / f"{model}.model", folder / data)
        assert succeed("predict", folder / f"{model}.model", tmp_path / name) == expected

    def test_a_json_array(self, folder, tmp_path):
        records = [json.loads(line) for line in (folder / "mails.jsonl").read_text().splitlines()]
        (tmp_path / "mails.json").write_text(json.dumps(records, indent=1))
        succeed("fit", tmp_path / "mails.json", *PLAIN, "-o", tmp_path / "m")
        expected = succeed("predict", tmp_path / "m", folder / "mails.jsonl")
        assert succeed("predict", tmp_path / "m", tmp_path / "mails.json") == expected

    def test_kinds_are_named_where_they_differ(self, folder):
        line = fail("predict", folder / "text.model", folder / "wine.csv")
        assert "MODEL requires texts, but" in line
        assert "wine.csv is a table without a column 'text'" in line

    @pytest.mark.parametrize("data", ["mails.jsonl", "rows.svm", "wine.csv"])
    def test_standard_input_and_output(self, folder, tmp_path, data):
        content = (folder / data).read_bytes()
        result = run("fit", "-", *PLAIN, "-o", "-", input=content)
        assert result.exit_code == 0, result.output
        assert "relative gap" in result.stderr
        assert "written to standard output" in result.stderr
        (tmp_path / "m").write_bytes(result.stdout_bytes)
        expected = succeed("predict", tmp_path / "m", folder / data)
        result = run("predict", tmp_path / "m", "-", "-o", "-", input=gzip.compress(content))
        assert (result.stdout, result.stderr) == (expected, "")

    def test_broken_input_names_standard_input(self, folder):
        result = run("predict", folder / "rows.model", "-", input=b"1 1:1\n1 x\n")
        assert result.exit_code == 2
        assert "standard input, line 2" in result.stderr
        result = run("predict", "-", folder / "rows.svm", input=b"1 1:1\n")
        assert "error: standard input is not a model file" in result.stderr

    @pytest.mark.parametrize("what", [("predict",), ("evaluate",), ("explain", "--row", 0)])
    def test_a_model_from_standard_input(self, folder, what):
        name, *options = what
        rows, model = folder / "rows.svm", folder / "rows.model"
        result = run(name, "-", rows, *options, input=model.read_bytes())
        assert (result.exit_code, result.stderr) == (0, "")
        assert result.stdout == succeed(name, model, rows, *options)

    @pytest.mark.parametrize("pair", [("-", "-"), ("-", "/dev/stdin"), ("/dev/stdin", "-")])
    @pytest.mark.parametrize("what", [("predict",), ("evaluate",), ("explain", "--row", 0)])
    @posix_only
    def test_one_input_cannot_be_model_and_rows(self, pair, what):
        name, *options = what
        line = fail(name, *pair, *options)
        assert f"MODEL {pair[0]} and DATA {pair[1]} are both standard input" in line

    @posix_only
    def test_a_pipe_is_read_once(self, folder, tmp_path):
        os.mkfifo(tmp_path / "pipe")
        content = (folder / "rows.svm").read_bytes()
        writer = threading.Thread(target=(tmp_path / "pipe").write_bytes, args=(content,))
        writer.start()
        assert "Row 0" in succeed("explain", folder / "rows.model", tmp_path / "pipe", "--row", 0)
        writer.join()


class TestTables:
    def test_equal_the_estimator(self, folder):
        saved = load_model(folder / "table.model")
        X, y = saved.features.read(folder / "wine.csv")
        again = InvariantLinearSVC(FDrop(1), C=0.1, tol=0.05, random_state=0).fit(X, y)
        np.testing.assert_array_equal(saved.classifier.coef_, again.coef_)
        assert set(succeed("predict", folder / "table.model", folder / "wine.csv").split()) == {
            "one",
            "two",
            "three",
        }

    def test_columns_go_by_name(self, folder, tmp_path):
        lines = [line.split(",") for line in (folder / "wine.csv").read_text().splitlines()]
        turned = "\n".join(",".join([*cells[::-1]]) for cells in lines)
        (tmp_path / "turned").write_text(turned)
        unlabeled = "\n".join(",".join(cells[:-1]) for cells in lines)
        (tmp_path / "unlabeled").write_text(unlabeled)
        expected = succeed("predict", folder / "table.model", folder / "wine.csv")
        assert succeed("predict", folder / "table.model", tmp_path / "turned") == expected
        assert succeed("predict", folder / "table.model", tmp_path / "unlabeled") == expected

    def test_columns_that_are_missing_or_new(self, folder, tmp_path):
        X, y = np.eye(3), ["one", "two", "three"]
        line = fail("evaluate", folder / "table.model", write_table(tmp_path / "few", X, y))
        assert "must have all columns of MODEL, but these are missing: x3, x4" in line
        many = write_table(tmp_path / "many", np.eye(3, 14), y)
        assert "x13. Pass --ignore-new" in fail("evaluate", folder / "table.model", many)
        succeed("evaluate", folder / "table.model", many, "--ignore-new-features")

    def test_the_label_has_its_key(self, folder, tmp_path):
        text = (folder / "wine.csv").read_text().replace("label", "kind", 1)
        (tmp_path / "t").write_text(text)
        assert "no label column 'label'" in fail("fit", tmp_path / "t", *PLAIN, "-o", tmp_path / "m")
        options = ("--label-key", "kind", "--oracle", "fdrop", "--max-changes", 1, *EASY)
        succeed("fit", tmp_path / "t", *options, "-o", tmp_path / "m")
        out = succeed("explain", tmp_path / "m", tmp_path / "t", "--row", 3)
        (edited,) = [cells[0] for cells in table_rows(out) if cells and cells[0].startswith("x")]
        assert edited in load_model(tmp_path / "m").features.names


class TestDenseRows:
    def test_box_on_sparse_files(self, folder, tmp_path):
        options = ("--oracle", "box", "--radius", 0.05, *EASY)
        succeed("fit", folder / "rows.svm", *options, "-o", tmp_path / "m")
        saved = load_model(tmp_path / "m")
        X, y = saved.features.read(folder / "rows.svm")
        assert isinstance(X, np.ndarray)
        again = InvariantLinearSVC(Box(0.05), C=0.1, tol=0.05, random_state=0).fit(X, y)
        np.testing.assert_array_equal(saved.classifier.coef_, again.coef_)
        assert "changes of each value by up to 0.05" in succeed(
            "evaluate", tmp_path / "m", folder / "rows.svm"
        )

    @pytest.mark.parametrize("options", [("--oracle", "box", "--radius", 1), ("--kernel", "rbf")])
    def test_texts_are_refused_by_name(self, folder, tmp_path, options):
        line = fail("fit", folder / "mails.jsonl", *options, "-o", tmp_path / "m")
        assert " ".join(map(str, options[:2])) in line
        assert "fscale, fdrop or fadd" in line

    def test_memory_is_checked_before_it_is_taken(self, tmp_path):
        (tmp_path / "wide").write_text("1 1:1\n-1 2000000000:1\n")
        line = fail("fit", tmp_path / "wide", "--oracle", "box", "--radius", 1, "-o", tmp_path / "m")
        assert "2 rows of 2000000000 features" in line
        assert "32.0 GB" in line

    def test_kernel_svms_are_trained_and_saved(self, folder, tmp_path):
        options = ("--kernel", "rbf", "--gamma", 0.05, "--C", 10, "--tol", 0.01)
        succeed("fit", folder / "wine.csv", *options, "-o", tmp_path / "m")
        saved = load_model(tmp_path / "m")
        X, y = saved.features.read(folder / "wine.csv")
        again = InvariantSVC(Identity(), gamma=0.05, C=10.0, tol=0.01, random_state=0).fit(X, y)
        np.testing.assert_array_equal(saved.classifier.decision_function(X), again.decision_function(X))
        assert isinstance(structinv.load(tmp_path / "m"), InvariantSVC)
        line = fail("explain", tmp_path / "m", folder / "wine.csv", "--row", 0)
        assert "explain requires a linear model, but MODEL has a kernel" in line

    def test_images(self, tmp_path):
        X, y = load_digits(n_class=2, return_X_y=True)
        dump_svmlight_file(X[:20] / 16, y[:20], str(tmp_path / "digits"))
        for options, oracle in (
            (("--oracle", "shifts", "--pixels", 1), Shifts([1.0], shape=ImageShape(8, 8))),
            (
                ("--oracle", "rotations", "--degrees=-10,10"),
                Rotations([-10.0, 10.0], shape=ImageShape(8, 8)),
            ),
        ):
            kernel = ("--kernel", "poly", "--degree", 2, "--tol", 0.1, "--shape", "8x8", "--zero-based")
            succeed("fit", tmp_path / "digits", *options, *kernel, "-o", tmp_path / "m")
            assert repr(load_model(tmp_path / "m").classifier.oracle) == repr(oracle)

    def test_images_with_shifted_feature_numbers(self, tmp_path):
        """The first pixel is 0 in all images, so the file has no feature number 0."""
        X, y = load_digits(n_class=2, return_X_y=True)
        dump_svmlight_file(X[:20] / 16, y[:20], str(tmp_path / "digits"))
        options = ("--oracle", "shifts", "--pixels", 1, "--kernel", "rbf", "--tol", 0.1)
        line = fail("fit", tmp_path / "digits", *options, "-o", tmp_path / "m")
        assert "--shape must be height x width" in line
        assert "pass --zero-based if the first pixel has number 0" in line
        result = run("fit", tmp_path / "digits", *options, "--shape", "8x8", "-o", tmp_path / "m")
        assert "has no feature number 0, so numbers start at 1" in result.stderr
        for given in ("--zero-based", "--one-based"):
            result = run(
                "fit", tmp_path / "digits", *options, "--shape", "8x8", given, "-o", tmp_path / "m"
            )
            assert "no feature number 0" not in result.stderr


class TestWeights:
    def test_class_weight(self, folder, tmp_path):
        def accuracy(*options):
            base = ("--oracle", "identity", "--C", 0.001, "--tol", 1e-4)
            succeed("fit", tmp_path / "rows", *base, *options, "-o", tmp_path / "m")
            saved = load_model(tmp_path / "m")
            X, y = saved.features.read(tmp_path / "rows")
            return saved.classifier, balanced_accuracy_score(y, saved.classifier.predict(X))

        X, y = make_mail_like(300, 100, spam_share=0.1, random_state=0)
        dump_svmlight_file(X, np.where(y == "spam", 1, -1), str(tmp_path / "rows"))
        plain = accuracy()[1]
        balanced, better = accuracy("--class-weight", "balanced")
        assert better > plain
        counts = np.array([np.sum(y == "ham"), np.sum(y == "spam")])
        ham, spam = len(y) / (2 * counts)
        same, _ = accuracy("--class-weight", f"1={spam},-1={ham}")
        np.testing.assert_allclose(same.coef_, balanced.coef_, atol=1e-10)
        assert accuracy("--class-weight", "1=3")[0].class_weight == {-1.0: 1.0, 1.0: 3.0}

    def test_weights_by_folds(self, folder, tmp_path):
        options = ("--oracle", "fdrop", "--max-changes", 1, "--tol", 0.05)
        out = succeed("fit", folder / "rows.svm", *options, "--C", "auto", "-o", tmp_path / "m")
        saved = load_model(tmp_path / "m")
        X, y = saved.features.read(folder / "rows.svm")
        table = [cells for cells in table_rows(out) if cells[0][0].isdigit()]
        assert [float(cells[0]) for cells in table] == [10.0**k for k in range(-4, 3)]
        scores = []
        for cells in table:
            machine = InvariantLinearSVC(FDrop(1), C=float(cells[0]), tol=0.05, random_state=0)
            both = [
                cross_val_score(machine, X, y, cv=5, scoring=s)
                for s in (None, certified_accuracy_scorer())
            ]
            scores.append([(np.mean(each), np.std(each, ddof=1) / np.sqrt(5)) for each in both])
            shown = [float(cell) for cell in cells[1:9:2]]
            assert shown == pytest.approx(100 * np.ravel(scores[-1]), abs=0.06)
        (chosen,) = [k for k, cells in enumerate(table) if "chosen" in cells]
        assert pytest.approx(float(table[chosen][0])) == saved.classifier.C
        assert f"C = {table[chosen][0]} has the highest certified accuracy for up to 1 removed" in out
        best, error = max(clean for clean, _ in scores)
        good = [k for k, (clean, _) in enumerate(scores) if clean[0] >= best - error - 1e-9]
        assert scores[chosen][1][0] == max(scores[k][1][0] for k in good)

    def test_folds_need_rows_of_every_class(self, tmp_path):
        (tmp_path / "rows").write_text("1 1:1\n1 1:2\n-1 2:1\n")
        line = fail("fit", tmp_path / "rows", *PLAIN, "--C", "auto", "-o", tmp_path / "m")
        assert "at least two rows of every class" in line


class TestScores:
    def test_decision_values(self, folder):
        for name, data in (("rows", "rows.svm"), ("table", "wine.csv")):
            out = succeed("predict", folder / f"{name}.model", folder / data, "--scores", "--certify")
            saved = load_model(folder / f"{name}.model")
            X, _ = saved.features.read(folder / data)
            cells = [line.split("\t") for line in out.splitlines()]
            scores = np.array([row[1:-1] for row in cells], dtype=float)
            expected = saved.classifier.decision_function(X)
            np.testing.assert_array_equal(scores, expected.reshape(len(expected), -1))
            assert [row[0] for row in cells] == saved.label_names(saved.classifier.predict(X))
            assert {row[-1] for row in cells} <= {"yes", "no"}

    def test_threshold(self, folder):
        saved = load_model(folder / "rows.model")
        X, _ = saved.features.read(folder / "rows.svm")
        scores = saved.classifier.decision_function(X)
        threshold = float(np.median(scores))
        out = succeed("predict", folder / "rows.model", folder / "rows.svm", "--threshold", threshold)
        assert [float(line) for line in out.split()] == np.where(scores > threshold, 1, -1).tolist()
        plain = succeed("predict", folder / "rows.model", folder / "rows.svm")
        zero = succeed("predict", folder / "rows.model", folder / "rows.svm", "--threshold", 0)
        assert zero == plain

    @pytest.mark.parametrize(("threshold", "label"), [("inf", "-1"), ("-inf", "1")])
    def test_an_infinite_threshold_gives_one_answer(self, folder, threshold, label):
        out = succeed("predict", folder / "rows.model", folder / "rows.svm", "--threshold", threshold)
        assert set(out.split()) == {label}

    def test_threshold_where_it_means_nothing(self, folder):
        three = ("predict", folder / "table.model", folder / "wine.csv", "--threshold", 0)
        assert "--threshold requires two classes" in fail(*three)
        assert "--threshold" in fail(*three[:3], "--threshold", "nan")
        both = ("predict", folder / "rows.model", folder / "rows.svm", "--threshold", 1, "--certify")
        assert "--certify uses the threshold 0: remove --threshold" in fail(*both)


class TestReports:
    def test_evaluate_prints_the_accuracy_of_the_largest_class(self, folder):
        out = succeed("evaluate", folder / "rows.model", folder / "rows.svm")
        _, y = load_model(folder / "rows.model").features.read(folder / "rows.svm")
        share = 100 * max(np.mean(y == label) for label in (-1, 1))
        assert f"Always predicting -1, the largest class, has {share:.1f} % accuracy." in out

    def test_explain_without_labels(self, folder, tmp_path):
        (tmp_path / "new").write_text('{"text": "cheap pills offer"}\n')
        result = run("explain", folder / "text.model", tmp_path / "new", "--row", 0)
        assert result.exit_code == 0, result.output
        assert "Row 0: no label, predicted spam" in result.stdout
        assert "DATA has no valid labels" in result.stderr
        assert "most damaging perturbation for up to 1 deleted word\n" in result.stdout

    def test_explain_with_an_unknown_label(self, folder, tmp_path):
        first = (folder / "rows.svm").read_text().splitlines()[0]
        (tmp_path / "new").write_text("7" + first[first.index(" ") :])
        result = run("explain", folder / "rows.model", tmp_path / "new", "--row", 0)
        assert "Row 0: label 7 (not a class of the model), predicted" in result.stdout
        assert "because 7 is not a class of the model" in result.stderr

    def test_a_warning_writes_labels_as_predict_does(self, tmp_path):
        rng = np.random.default_rng(0)
        y = np.where(np.arange(200) < 20, 1, -1)
        X = 0.3 * rng.standard_normal((200, 3)) + (y == 1)[:, None]
        dump_svmlight_file(X, y, str(tmp_path / "rows"))
        result = run("fit", tmp_path / "rows", "--oracle", "box", "--radius", 1, "-o", tmp_path / "m")
        (label,) = set(succeed("predict", tmp_path / "m", tmp_path / "rows").split())
        assert f"all 200 training rows are predicted {label} (90% correct" in result.stderr

    def test_labels_are_shown_as_they_are(self, tmp_path):
        (tmp_path / "mails").write_text('{"text": "red sun", "label": "x"}\n' * 2)
        assert "one class: 'x'" in fail("fit", tmp_path / "mails", *PLAIN, "-o", tmp_path / "m")
        line = fail("fit", tmp_path / "mails", *PLAIN, "--class-weight", "y=1", "-o", tmp_path / "m")
        assert line.endswith("must list labels of DATA (x), got 'y'")


class TestPipes:
    @pytest.mark.parametrize("what", ["predict", "evaluate"])
    def test_a_reader_that_goes_away(self, folder, what):
        process = command(what, folder / "rows.model", folder / "rows.svm")
        process.stdin.close()
        process.stdout.close()
        assert process.wait() == 141
        # A slow process has a line on what runs.
        lines = process.stderr.read().decode().splitlines()
        begun = ("structinv: predict", "structinv: evaluat", "structinv: reading")
        assert all(line.startswith(begun) for line in lines)
        process.stderr.close()

    def test_other_encodings(self, tmp_path):
        records = [{"text": "red sun", "label": "\u00e4"}, {"text": "blue sea", "label": "\u00f6"}] * 4
        (tmp_path / "mails").write_text("\n".join(json.dumps(each) for each in records))
        succeed("fit", tmp_path / "mails", *PLAIN, "-o", tmp_path / "m")
        out = run("predict", tmp_path / "m", tmp_path / "mails").stdout_bytes
        assert out.startswith("\u00e4\n\u00f6\n".encode())
        process = command("evaluate", tmp_path / "m", tmp_path / "mails", env=ASCII)
        out, messages = process.communicate()
        assert process.returncode == 0, messages
        assert rb"\xe4" in out


def test_the_help_names_all_oracles():
    """The list is written out in the help, and the message for another name has it from the code."""
    said = " ".join(OracleName.__metadata__[0].help.split())
    names = [name.split(" ")[0] for name in said.partition(": ")[2].partition(". ")[0].split(", ")]
    last = said.partition(" or ")[2].partition(".")[0]
    assert [*names[:-1], names[-1], last] == _usable()


def test_plain_text_is_refused_with_an_example(tmp_path):
    write_mails(tmp_path / "train.jsonl", 40)
    succeed("fit", tmp_path / "train.jsonl", *PLAIN, "-o", tmp_path / "model")
    (tmp_path / "new").write_text("free money for you\n")
    message = fail("predict", tmp_path / "model", tmp_path / "new")
    assert 'is not JSON: each text must be a line such as {"text": "..."}' in " ".join(message.split())
