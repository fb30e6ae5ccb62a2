import json
import lzma
import pickle
import re
import subprocess
import sys
import zipfile
from io import BytesIO

import numpy as np
import pytest
import skops.io
from matplotlib.image import imread
from sklearn.datasets import dump_svmlight_file
from sklearn.svm import LinearSVC
from typer.testing import CliRunner

import structinv
from structinv import InvariantLinearSVC, InvariantTextClassifier
from structinv.cli import app
from structinv.cli.model_file import load_model
from structinv.datasets import load_jsonlines, make_mail_like
from structinv.oracles import FAdd, FDrop, FEdit, FScale

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
    lines = []
    for k in range(n_mails):
        label = ("ham", "spam")[k % 2]
        words = [*rng.choice(WORDS[label], 4), *rng.choice(["the", "and", "for"], 3)]
        lines.append(json.dumps({"text": " ".join(words), "label": label}))
    content = "\n".join(lines)
    if path.suffix == ".xz":
        path.write_bytes(lzma.compress(content.encode()))
    else:
        path.write_text(content)
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Data and models that tests read and never change."""
    folder = tmp_path_factory.mktemp("cli")
    write_mails(folder / "train.jsonl", seed=0)
    write_mails(folder / "test.jsonl.xz", seed=1)
    for name, seed in (("train", 0), ("test", 1)):
        X, y = make_mail_like(200, 100, random_state=seed)
        dump_svmlight_file(X, np.where(y == "spam", 1, -1), str(folder / f"{name}.svm"))
    options = ("--oracle", "fdrop", "--max-changes", 2, "--C", 0.1, "--tol", 0.01)
    succeed("fit", folder / "train.jsonl", *options, "-o", folder / "text.model")
    succeed("fit", folder / "train.svm", *options, "-o", folder / "rows.model")
    return folder


def table_rows(text):
    """The cells of the lines of a table, split at blanks."""
    bar = "\N{BOX DRAWINGS LIGHT VERTICAL}"
    return [line.replace(bar, " ").split() for line in text.splitlines() if line[:1] == bar]


def numbers_after(text, word):
    """The percentages in the first line of a table that begins with a word."""
    line = next(line for line in text.splitlines() if word in line.split()[1:2])
    return [float(number) for number in re.findall(r"([\d.]+) %", line)]


class TestFit:
    def test_reports_how_training_ended(self, folder, tmp_path):
        out = succeed("fit", folder / "train.svm", "--oracle", "identity", "-o", tmp_path / "m")
        assert "200 rows, 100 features" in out
        assert "relative gap" in out
        assert (tmp_path / "m").is_file()

    def test_equals_the_estimator(self, folder, tmp_path):
        options = ("--oracle", "fscale", "--max-changes", 3, "--low", 0.5, "--high", 8)
        more = ("--C", 0.02, "--tol", 0.02, "--no-intercept", "--seed", 7, "--max-seconds", 600)
        succeed("fit", folder / "train.svm", *options, *more, "-o", tmp_path / "m")
        saved = load_model(tmp_path / "m")
        X, y = saved.features.read(folder / "train.svm")
        direct = InvariantLinearSVC(
            FScale(max_changes=3, low=0.5, high=8.0),
            C=0.02,
            tol=0.02,
            fit_intercept=False,
            random_state=7,
            max_seconds=600,
        ).fit(X, y)
        np.testing.assert_allclose(saved.classifier.coef_, direct.coef_, atol=1e-12)
        assert saved.classifier.oracle.get_params() == direct.oracle.get_params()
        assert saved.perturbations == "up to 3 features scaled by 0.5 to 8"

    @pytest.mark.parametrize(
        ("options", "oracle"),
        [
            (("fadd", "--max-changes", 3), FAdd(3)),
            (("fadd", "--max-changes", 3, "--value", 0.5, "--present"), FAdd(3, 0.5, present=True)),
            (("fedit", "--max-changes", 2, "--add", 2), FEdit(2, add=2.0)),
            (
                ("fedit", "--max-changes", 2, "--no-drop", "--scale", "0.5,2"),
                FEdit(2, drop=False, scale=(0.5, 2.0)),
            ),
        ],
    )
    def test_words_that_are_added(self, folder, tmp_path, options, oracle):
        more = ("--only-for", 1, "--C", 0.05, "--tol", 0.01)
        succeed("fit", folder / "train.svm", "--oracle", *options, *more, "-o", tmp_path / "m")
        saved = load_model(tmp_path / "m")
        assert repr(saved.classifier.oracle) == repr(oracle.only_for([1.0]))
        assert "certified" in succeed("evaluate", tmp_path / "m", folder / "test.svm")
        lines = succeed("predict", tmp_path / "m", folder / "test.svm", "--certify").splitlines()
        assert len(lines) == 200

    @pytest.mark.parametrize(("oracle", "edit"), [("fdrop", "drop"), ("fadd", "add")])
    def test_counted_texts_are_certified_by_their_tokens(self, folder, tmp_path, oracle, edit):
        options = ("--oracle", oracle, "--max-changes", 2, "--only-for", "spam", "--C", "auto")
        out = succeed("fit", folder / "train.jsonl", *options, "--tol", 0.01, "-o", tmp_path / "m")
        assert "60 texts" in out
        assert "Note" not in out
        model = structinv.load(tmp_path / "m")
        assert isinstance(model, InvariantTextClassifier)
        assert (model.edit, model.max_changes, model.only_for) == (edit, 2, ["spam"])
        result = run("predict", tmp_path / "m", folder / "test.jsonl.xz", "--certify")
        assert "read without labels, so all of it counts as perturbed" in result.stderr
        lines = result.stdout.splitlines()
        texts, y = load_jsonlines(folder / "test.jsonl.xz")
        sure = ["yes" if each else "no" for each in model.certify(texts).correct]
        assert lines == [f"{a}\t{b}" for a, b in zip(model.predict(texts), sure, strict=True)]
        worst = model.worst_case(texts, y)
        assert sum(model.predict(worst) == y) == sum(model.certify(texts, y).correct)

    @pytest.mark.parametrize(
        ("options", "said"),
        [
            (("--vectorizer", "log"), "feature values (log(1 + count)), not to tokens"),
            (("--unit-length",), "feature values (scaled to length 1), not to tokens"),
            (("--oracle", "fscale"), "feature values (counts), not to tokens"),
        ],
    )
    def test_certificates_of_other_vectorizers_are_for_values_of_words(
        self, folder, tmp_path, options, said
    ):
        more = ("--max-changes", 1, "--C", 0.1, "--tol", 0.1)
        more = more if "--oracle" in options else ("--oracle", "fdrop", *more)
        out = succeed("fit", folder / "train.jsonl", *options, *more, "-o", tmp_path / "m")
        assert said in " ".join(out.split())
        for command in (("evaluate",), ("explain", "--row", 0)):
            out = succeed(command[0], tmp_path / "m", folder / "test.jsonl.xz", *command[1:])
            assert said in " ".join(out.split())
        result = run("predict", tmp_path / "m", folder / "test.jsonl.xz", "--certify")
        assert said in " ".join(result.stderr.split())

    def test_options_for_values_of_rows_are_refused_for_tokens(self, folder, tmp_path):
        options = ("--oracle", "fadd", "--max-changes", 1, "--value", 2)
        line = fail("fit", folder / "train.jsonl", *options, "-o", tmp_path / "m")
        assert "--value is for feature values" in line

    @pytest.mark.parametrize("scaling", ["count", "log", "tfidf"])
    @pytest.mark.parametrize("unit_length", [False, True])
    def test_vectorizers(self, folder, tmp_path, scaling, unit_length):
        options = ("--vectorizer", scaling, *(["--unit-length"] if unit_length else []))
        options = (*options, "--max-changes", 1)
        succeed("fit", folder / "train.jsonl", *options, "--C", 0.1, "--tol", 0.1, "-o", tmp_path / "m")
        features = load_model(tmp_path / "m").features
        X, _ = features.read(folder / "test.jsonl.xz")
        assert np.allclose(X.multiply(X).sum(axis=1), 1.0) == unit_length
        if scaling == "count" and not unit_length:
            assert (X.data == np.round(X.data)).all()
        assert numbers_after(succeed("evaluate", tmp_path / "m", folder / "test.jsonl.xz"), "all")

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ("--oracle magic", "--oracle must be one of identity, .*, got 'magic'"),
            ("--oracle fdrop --max-changes 1 --low 0.5", "--low is not an option of --oracle fdrop"),
            ("--oracle ellipsoid", "--oracle ellipsoid requires factor"),
            ("--oracle box", "--oracle box requires --radius"),
            ("", "--oracle fscale, the default, requires --max-changes"),
            (
                "--oracle box --radius 1 --kernel rbf",
                "--oracle box does not support --kernel: omit --kernel",
            ),
            ("--oracle shifts", "--oracle shifts requires --pixels"),
            ("--oracle rotations", "--oracle rotations requires --degrees"),
            ("--oracle scalings", "--oracle scalings requires --factors"),
            ("--oracle shears", "--oracle shears requires --factors"),
            (
                "--oracle fadd --max-changes 1 --only-for eggs",
                "--only-for must list labels of DATA .*, got 'eggs'",
            ),
            ("--oracle fadd --max-changes 1 --value 0", "value"),
            ("--oracle fadd --max-changes 9999", "the number of features that may be added"),
            ("--oracle fedit --max-changes 1 --scale 2", "--scale must be two factors .* got '2'"),
            ("--gamma 1", "--gamma requires --kernel"),
            ("--kernel rbf --gamma x", "--gamma must be .* got 'x'"),
            ("--C much", "--C must be .* got 'much'"),
            (
                "--max-changes 1 --class-weight 1",
                "--class-weight must be balanced, or weights >= 0 such as",
            ),
            (
                "--max-changes 1 --class-weight 1=-2",
                "--class-weight must be balanced, or weights >= 0 such as",
            ),
            (
                "--max-changes 1 --class-weight 7=2",
                "--class-weight must list labels of DATA .*, got '7'",
            ),
            ("--oracle rotations --degrees a", "--degrees must be numbers"),
            ("--oracle shifts --shape 10", "--shape must be height x width"),
            ("--max-changes -1", "--max-changes must"),
            ("--max-changes 1 --low 2", "--low"),
            ("--max-changes 1 --C 0", "--C must"),
            ("--max-changes 1 --tol -1", "--tol must"),
            ("--max-changes 1 --solver magic", "--solver must be one of auto, bmrm, .* got 'magic'"),
        ],
    )
    def test_bad_options(self, folder, tmp_path, options, message):
        line = fail("fit", folder / "train.svm", *options.split(), "-o", tmp_path / "m")
        assert re.search(message, line)
        assert not (tmp_path / "m").exists()

    def test_output_is_checked_before_the_work(self, folder, tmp_path):
        assert "got the folder" in fail("fit", tmp_path / "nowhere", "-o", tmp_path)
        assert "existing folder" in fail("fit", tmp_path / "nowhere", "-o", tmp_path / "a" / "b")

    def test_broken_data(self, tmp_path):
        def message(name, content):
            (tmp_path / name).write_bytes(content)
            return fail("fit", tmp_path / name, "--oracle", "identity", "-o", tmp_path / "m")

        assert "rows.svm, line 2" in message("rows.svm", b"1 1:2\n0 x:1\n")
        assert "mails.jsonl, line 1" in message("mails.jsonl", b"{}\n")
        assert "contains no rows" in message("rows.svm", b"# nothing\n")
        assert "is truncated" in message("rows.svm.xz", lzma.compress(b"1 1:1\n" * 99)[:-20])
        assert "at least one row must have a feature" in message("rows.svm", b"1\n0\n")
        assert "empty vocabulary" in message("mails.jsonl", b'{"text": "!", "label": 1}')
        assert "class" in message("rows.svm", b"1 1:1\n1 1:2\n")
        line = fail("fit", tmp_path / "nowhere", "--oracle", "identity", "-o", tmp_path / "m")
        assert "nowhere: No such file" in line


class TestEvaluate:
    @pytest.mark.parametrize(("model", "data"), [("text", "test.jsonl.xz"), ("rows", "test.svm")])
    def test_agrees_with_the_estimator(self, folder, model, data):
        out = succeed("evaluate", folder / f"{model}.model", folder / data)
        saved = load_model(folder / f"{model}.model")
        X, y = saved.features.read(folder / data)
        clean, attacked, certified = numbers_after(out, "all")
        assert clean == pytest.approx(100 * saved.classifier.score(X, y), abs=0.05)
        assert certified == pytest.approx(100 * saved.classifier.certify(X, y).accuracy, abs=0.05)
        assert certified <= attacked <= clean
        edits = "2 removed features" if model == "rows" else "2 deleted words"
        assert f"Accuracy for up to {edits}\n" in out
        for name in saved.label_names(saved.classifier.classes_):
            assert len(numbers_after(out, name)) == 3

    def test_unknown_labels_are_refused(self, folder, tmp_path):
        (tmp_path / "rows.svm").write_text("1 1:1\n3 1:1\n")
        line = fail("evaluate", folder / "rows.model", tmp_path / "rows.svm")
        assert "must be among the model's classes, -1, 1" in line
        assert line.endswith("got 3")

    def test_labels_of_another_type_are_refused_with_the_type(self, tmp_path):
        lines = [f'{{"text": "{text}", "label": {label}}}\n' for text, label in (("yes", 1), ("no", 0))]
        (tmp_path / "train.jsonl").write_text("".join(lines * 3))
        (tmp_path / "test.jsonl").write_text('{"text": "yes", "label": "1"}\n')
        succeed("fit", tmp_path / "train.jsonl", "-o", tmp_path / "model", "--oracle", "identity")
        line = fail("evaluate", tmp_path / "model", tmp_path / "test.jsonl")
        assert "the model's classes, 0, 1 (integers); got 1 (strings)" in line


class TestPredict:
    def test_a_saved_model_predicts_the_same(self, folder, tmp_path):
        saved = load_model(folder / "rows.model")
        X, y = saved.features.read(folder / "train.svm")
        again = InvariantLinearSVC(FDrop(2), C=0.1, tol=0.01, random_state=0).fit(X, y)
        out = succeed("predict", folder / "rows.model", folder / "test.svm")
        X_test, _ = saved.features.read(folder / "test.svm")
        assert [float(line) for line in out.splitlines()] == again.predict(X_test).tolist()
        succeed("predict", folder / "rows.model", folder / "test.svm", "-o", tmp_path / "labels")
        assert (tmp_path / "labels").read_text() == out

    def test_text_needs_no_labels(self, folder, tmp_path):
        path = tmp_path / "new.jsonl"
        path.write_text('{"text": "cheap pills offer"}\n{"text": "lunch meeting unknownword"}\n')
        assert succeed("predict", folder / "text.model", path).split() == ["spam", "ham"]

    def test_certify_adds_a_column_of_certified_predictions(self, folder):
        out = succeed("predict", folder / "rows.model", folder / "test.svm", "--certify")
        saved = load_model(folder / "rows.model")
        X, _ = saved.features.read(folder / "test.svm")
        firm = [line.split("\t")[1] == "yes" for line in out.splitlines()]
        assert firm == saved.classifier.certify(X).correct.tolist()

    def test_missing_columns_are_zero_and_new_ones_refused(self, folder, tmp_path):
        few, many = tmp_path / "few.svm", tmp_path / "many.svm"
        few.write_text("1 3:1\n")
        many.write_text("1 3:1 500:9\n")
        expected = succeed("predict", folder / "rows.model", few)
        line = fail("predict", folder / "rows.model", many)
        assert "numbers up to 500" in line
        assert "--ignore-new-features" in line
        out = succeed("predict", folder / "rows.model", many, "--ignore-new-features")
        assert out == expected

    def test_numbering_is_that_of_the_training_file(self, folder, tmp_path):
        saved = load_model(folder / "rows.model")
        assert saved.features.zero_based
        (tmp_path / "rows.svm").write_text("1 3:1\n")
        X, _ = saved.features.read(tmp_path / "rows.svm")
        assert X.nonzero()[1].tolist() == [3]

        (tmp_path / "train.svm").write_text("1 1:1\n-1 2:1\n" * 5)
        succeed("fit", tmp_path / "train.svm", "--oracle", "identity", "-o", tmp_path / "m")
        (tmp_path / "rows.svm").write_text("1 1:1\n1 0:1\n")
        assert "line 2" in fail("predict", tmp_path / "m", tmp_path / "rows.svm")


class TestExplain:
    def test_words_and_scores_add_up(self, folder):
        out = succeed("explain", folder / "text.model", folder / "test.jsonl.xz", "--row", 1)
        assert "Row 1: label spam" in out
        saved = load_model(folder / "text.model")
        X, y = saved.features.read(folder / "test.jsonl.xz")
        rows = table_rows(out)
        edits = [cells for cells in rows if cells and cells[0] in WORDS["spam"]]
        start = next(float(cells[-1]) for cells in rows if cells[:2] == ["(no", "edit)"])
        assert start == pytest.approx(saved.classifier.decision_function(X[1:2])[0], abs=1e-4)
        assert 1 <= sum(float(cells[1]) - float(cells[2]) for cells in edits) <= 2
        assert all(float(cells[2]) < float(cells[1]) for cells in edits)
        moves = [float(cells[3]) for cells in edits]
        assert moves == sorted(moves)
        end = float(edits[-1][4])
        assert end == pytest.approx(start + sum(moves), abs=3e-4)
        assert end == pytest.approx(saved.classifier.certify(X, y).margins[1], abs=1e-3)
        assert ("Certified" in out.splitlines()[-1]) == (end > 0)

    def test_features_have_the_numbers_of_the_file(self, folder):
        out = succeed("explain", folder / "rows.model", folder / "test.svm", "--row", 0)
        number = table_rows(out)[-1][0]
        first_row = (folder / "test.svm").read_text().splitlines()
        first_row = next(line for line in first_row if not line.startswith("#"))
        assert f" {number}:" in first_row

    @pytest.mark.parametrize("row", [-1, 60])
    def test_row_out_of_range(self, folder, row):
        line = fail("explain", folder / "text.model", folder / "train.jsonl", "--row", row)
        assert "--row must be between 0 and 59" in line


class Planted:
    def __init__(self):
        self.anything = 1


def parts(source):
    with zipfile.ZipFile(source) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def parts_of(model):
    """What skops makes of a model."""
    return parts(BytesIO(skops.io.dumps(model)))


def write_parts(path, parts):
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, content)


class TestModelFiles:
    def refusal(self, path, folder):
        return fail("evaluate", path, folder / "test.svm")

    def test_unknown_types_are_refused_by_name(self, folder, tmp_path):
        planted = LinearSVC()
        planted.extra = Planted()
        write_parts(tmp_path / "m", parts(folder / "rows.model") | parts_of(planted))
        line = self.refusal(tmp_path / "m", folder)
        assert "is refused" in line
        assert f"{Planted.__module__}.Planted" in line

    def test_pickles_are_never_opened(self, folder, tmp_path):
        class Trap:
            def __reduce__(self):
                return (open, (str(tmp_path / "sprung"), "w"))

        (tmp_path / "m").write_bytes(pickle.dumps(Trap()))
        assert "not a model file" in self.refusal(tmp_path / "m", folder)
        assert not (tmp_path / "sprung").exists()

    @pytest.mark.parametrize("part", ["features", "training"])
    def test_model_files_with_missing_or_unknown_parts_are_refused(self, folder, tmp_path, part):
        before = parts(folder / "rows.model")
        page = json.loads(before["structinv.json"])
        notes = page["notes"]
        for broken in ({**notes, part: "strange"}, {k: v for k, v in notes.items() if k != part}):
            page["notes"] = broken
            write_parts(tmp_path / "m", before | {"structinv.json": json.dumps(page).encode()})
            line = self.refusal(tmp_path / "m", folder)
            assert "not a model file of the command line" in line or "saved by structinv.save" in line

    def test_a_model_saved_in_python_is_refused_with_advice(self, folder, tmp_path):
        structinv.save(structinv.load(folder / "rows.model"), tmp_path / "m")
        assert "structinv.load" in self.refusal(tmp_path / "m", folder)

    def test_weights_that_do_not_fit(self, folder, tmp_path):
        before = parts(folder / "rows.model")
        page = json.loads(before["structinv.json"])
        page["notes"]["features"] = {"kind": "table", "names": ["a"], "label_key": "label"}
        write_parts(tmp_path / "m", before | {"structinv.json": json.dumps(page).encode()})
        assert "weights for 1 features" in self.refusal(tmp_path / "m", folder)


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


def test_help_and_version():
    for command in ([], ["demo"], ["fit"], ["evaluate"], ["predict"], ["explain"], ["warm"]):
        assert "Usage" in succeed(*command, "--help")
    assert succeed("--version").startswith("structinv 0.")


def test_runs_as_a_module():
    command = [sys.executable, "-m", "structinv", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("structinv 0.")
