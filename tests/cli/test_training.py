"""The command line: training, its thresholds, and its end by Ctrl-C, time limits and errors."""

import json
import os
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import dump_svmlight_file

import structinv
from structinv import InvariantLinearSVC, InvariantTextClassifier
from structinv.cli.models import load_model
from structinv.datasets import make_mail_like
from structinv.solvers import Pegasos, Status

from ..commands import fail, rows_of, run, succeed, table_rows, texts_of
from ..inspection.cases import texts
from ..platforms import posix_only


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

    @pytest.mark.parametrize(
        "oracle",
        [
            "identity",
            "fdrop",
            "fadd",
            *(pytest.param(name, marks=pytest.mark.slow) for name in ("fscale", "fedit")),
        ],
    )
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


FAST = ("--C", 0.1, "--tol", 0.01)


DROP = ("--oracle", "drop", "--max-changes", 1)


ROWS = ("--oracle", "fdrop", "--max-changes", 1)


def write_texts(path, n, seed):
    lines = [json.dumps({"text": a, "label": b}) for a, b in zip(*texts(n, seed), strict=True)]
    path.write_text("\n".join(lines))
    return path


@pytest.fixture(scope="module")
def thresholds(tmp_path_factory):
    thresholds = tmp_path_factory.mktemp("thresholds")
    write_texts(thresholds / "train.jsonl", 400, seed=0)
    write_texts(thresholds / "test.jsonl", 200, seed=1)
    X, y = make_mail_like(600, 100, random_state=0)
    dump_svmlight_file(X, np.where(y == "spam", 1, -1), str(thresholds / "train.svm"), zero_based=False)
    succeed("convert", thresholds / "train.svm", thresholds / "rows")
    return thresholds


@pytest.mark.parametrize(
    ("data", "more"),
    [
        ("train.jsonl", ("--only-for", "ham")),
        ("train.svm", ()),
        ("rows", ("--only-for", "ham")),
        pytest.param("train.jsonl", (), marks=pytest.mark.slow),
        pytest.param("train.svm", ("--only-for", "ham"), marks=pytest.mark.slow),
        pytest.param("rows", (), marks=pytest.mark.slow),
    ],
)
def test_at_most_the_rate_of_held_out_samples_is_above_the_threshold(thresholds, tmp_path, data, more):
    oracle, n = (DROP, 400) if data == "train.jsonl" else (ROWS, 600)
    if n == 600:
        more = tuple("-1" if each == "ham" else each for each in more)
    out = succeed(
        "fit", thresholds / data, *oracle, *FAST, *more, "--max-fpr", 0.05, "-o", tmp_path / "m"
    )
    notes = load_model(tmp_path / "m").notes["training"]
    assert (notes["max_fpr"], notes["held_out"]) == (0.05, n / 5)
    assert notes["held_out_false_positives"] <= 0.05
    assert notes["detected_label"] == (more[1] if more else "spam" if n == 400 else "1")
    assert f"{4 * n // 5} {'texts' if n == 400 else 'rows'}" in out
    said = "The threshold is set for at most 5 % false positives. On "
    assert said + f"{n // 5} held-out samples, which training did not use, there are " in out


def test_samples_of_equal_scores_never_exceed_the_rate_together(tmp_path):
    # Half of all samples have the score 0, which has no rounding error.
    (tmp_path / "data").write_text("1 1:1\n-1 1:-1\n1 2:0\n-1 2:0\n" * 20)
    succeed("fit", tmp_path / "data", "--max-fpr", 0.25, "-o", tmp_path / "m")
    notes = load_model(tmp_path / "m").notes["training"]
    assert notes["held_out_false_positives"] <= 0.25
    X = np.array([[0.0, 0.0], [-1.0, 0.0], [1.0, 0.0]])
    assert structinv.load(tmp_path / "m").predict(X).tolist() == [-1, -1, 1]


def test_all_commands_use_the_threshold_of_an_unused_fifth(thresholds, tmp_path):
    succeed("fit", thresholds / "train.jsonl", *DROP, *FAST, "--max-fpr", 0.1, "-o", tmp_path / "m")
    model, saved = structinv.load(tmp_path / "m"), load_model(tmp_path / "m").notes["training"]
    X, y = texts_of(thresholds / "train.jsonl")
    found = model.predict(X) == "spam"
    # The model is that of a plain fit on the other rows, but for the intercept.
    scores = model.decision_function(X) - model.intercept_[0]
    values = np.sort(scores[y == "ham"])
    assert np.isclose(values, -model.intercept_[0], atol=1e-6).any()
    assert saved["held_out_detected"] <= 1
    assert 0 < found[y == "ham"].mean() < 0.3
    test = thresholds / "test.jsonl"
    X, y = texts_of(test)
    assert succeed("predict", tmp_path / "m", test).split() == model.predict(X).tolist()
    lines = [line.split() for line in succeed("predict", tmp_path / "m", test, "--certify").splitlines()]
    assert [line[1] == "yes" for line in lines] == model.certify(X).correct.tolist()
    out = succeed("evaluate", tmp_path / "m", test)
    assert "The threshold is set for at most 10 % false positives." in out
    ham = [cells for cells in table_rows(out) if cells[0] == "ham"][-1]
    assert ham[2] == f"{100 * np.mean(model.predict(X)[y == 'ham'] == 'ham'):.1f}%"
    out = succeed("explain", tmp_path / "m", test, "--row", 1)
    assert f"margin {abs(model.decision_function(X[1:2])[0]):.4g} to" in out
    succeed("report", tmp_path / "m", test, "-o", tmp_path / "report")
    content = (tmp_path / "report").read_text()
    assert "max fpr" in content
    assert "held out false positives" in content


def test_a_threshold_that_makes_texts_without_known_words_positive_is_named(tmp_path):
    # All ham has a word of ham, so the threshold is below the intercept.
    texts = ["lunch notes", "lunch meeting", "cheap pills", "cheap money"] * 30
    lines = [
        json.dumps({"text": text, "label": ["ham", "spam"][k % 4 > 1]}) for k, text in enumerate(texts)
    ]
    (tmp_path / "train").write_text("\n".join(lines))
    options = (*DROP, *FAST, "--max-fpr", 0.1, "-o", tmp_path / "m")
    result = run("fit", tmp_path / "train", *options)
    assert result.exit_code == 0, result.output
    assert "warning: at this threshold, texts without any known word are predicted spam" in result.stderr
    assert structinv.load(tmp_path / "m").predict([""]) == ["spam"]


@pytest.mark.parametrize(
    ("data", "options", "message"),
    [
        ("train.svm", "--max-fpr 0", "--max-fpr must be above 0 and below 1, such as 0.01, got 0.0"),
        ("train.svm", "--max-fpr 0.01", "requires at least 500 samples without the label 1"),
        ("tags.conll", "--max-fpr 0.1", "tags.conll has sentences"),
        ("three", "--max-fpr 0.05", "--max-fpr requires two classes, but DATA has 3"),
    ],
)
def test_a_rate_that_cannot_be_set_is_refused_before_training(
    thresholds, tmp_path, monkeypatch, data, options, message
):
    (thresholds / "tags.conll").write_text("He PRP O\nran VBD B\n\n" * 20)
    (thresholds / "three").write_text("1 1:1\n2 2:1\n3 1:1\n" * 40)
    monkeypatch.setattr("structinv.cli.commands.train", None)
    options = options.split()
    line = fail("fit", thresholds / data, *ROWS, *options, "-o", tmp_path / "m")
    assert message in line


ROOT = Path(structinv.__file__).parents[1]
WORDS = ("--oracle", "fscale", "--max-changes", 10)


# A command whose training says when it is on its way.
LOUD = """
from structinv import InvariantLinearSVC
from structinv.cli import app
fit = InvariantLinearSVC.fit
InvariantLinearSVC.fit = lambda self, X, y: fit(self.set_params(verbose=1), X, y)
app()
"""


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    path = tmp_path_factory.mktemp("rows") / "rows.svm"
    X, y = make_mail_like(300, 200, random_state=0)
    dump_svmlight_file(X, np.where(y == "spam", 1, -1), str(path), zero_based=False)
    return path


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "good.model"
    path.write_bytes(b"good")
    return path


ENDLESS = ("--solver", "pegasos", "--C", "100", "--tol", "1e-9", "--max-seconds", "600")


def interrupted(*arguments):
    """Start a training that would not end, press Ctrl-C in it, and give the code and what was said."""
    command = [sys.executable, "-c", LOUD, "fit", *map(str, [*WORDS, *arguments])]
    process = subprocess.Popen(
        [*command, *ENDLESS],
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    for line in process.stderr:
        if "] iteration " in line:
            break
    process.send_signal(signal.SIGINT)
    _, messages = process.communicate()
    assert "Traceback" not in messages
    return process.returncode, messages


@posix_only
class TestControlC:
    @pytest.mark.parametrize("in_process", [True, pytest.param(False, marks=pytest.mark.slow)])
    def test_a_good_model_is_not_replaced_by_half_of_one(self, rows, model, monkeypatch, in_process):
        if in_process:
            begun, step = threading.Event(), Pegasos.step

            def noted(self, objective, state):
                step(self, objective, state)
                begun.set()

            def press():
                if begun.wait(60):
                    os.kill(os.getpid(), signal.SIGINT)

            monkeypatch.setattr(Pegasos, "step", noted)
            presser = threading.Thread(target=press)
            presser.start()
            result = run("fit", *WORDS, rows, "-o", model, *ENDLESS)
            presser.join()
            code, messages = result.exit_code, result.stderr
            assert "Traceback" not in messages
        else:
            code, messages = interrupted(rows, "-o", model)
        assert code == 130
        assert "not saved: training was interrupted at the relative gap" in messages
        assert "Pass --max-seconds to save the model after this time." in messages
        assert model.read_bytes() == b"good"
        assert [path.name for path in model.parent.iterdir()] == [model.name]

    def test_fits_that_raise_after_they_have_a_model(self, rows, model, monkeypatch):
        fit = InvariantLinearSVC.fit

        def raising(self, X, y):
            fit(self, X, y)
            raise KeyboardInterrupt

        monkeypatch.setattr(InvariantLinearSVC, "fit", raising)
        result = run("fit", rows, *WORDS, "--tol", 0.05, "--C", 0.01, "-o", model)
        assert result.exit_code == 130
        assert isinstance(structinv.load(model), InvariantLinearSVC)

    def test_before_there_is_a_model(self, rows, model, monkeypatch):
        def raising(*_, **__):
            raise KeyboardInterrupt

        monkeypatch.setattr(InvariantLinearSVC, "fit", raising)
        result = run("fit", rows, *WORDS, "-o", model)
        assert result.exit_code == 130
        assert "interrupted: no file was written" in result.stderr
        assert model.read_bytes() == b"good"


class TestGaps:
    hasty = ("--solver", "bmrm", "--C", 1000, "--max-seconds", 0.001, "--tol", 1e-9)

    def test_a_fit_at_its_time_limit_saves_the_model_with_a_warning_and_the_gap(self, rows, model):
        result = run("fit", rows, *WORDS, *self.hasty, "-o", model)
        assert result.exit_code == 0
        solution = structinv.load(model).solution_
        assert solution.status is Status.TIME_LIMIT
        assert "warning: InvariantLinearSVC ended with status 'time limit' after" in result.stderr
        assert f"at a relative gap of {solution.relative_gap:.2g} (tol=1e-09)" in result.stderr
        assert f"relative gap {solution.relative_gap:.1e}: time limit" in result.stdout

    def test_crossed_bounds_are_an_error(self, rows, model, monkeypatch):
        fit = InvariantLinearSVC.fit

        def crossed(self, X, y):
            fit(self, X, y)
            self.solution_ = replace(self.solution_, status=Status.INCONSISTENT)
            return self

        monkeypatch.setattr(InvariantLinearSVC, "fit", crossed)
        result = run("fit", rows, *WORDS, "--tol", 0.05, "--C", 0.01, "-o", model)
        assert result.exit_code == 1
        assert "the lower bound of the objective exceeds its value" in result.stderr
        assert model.read_bytes() == b"good"
