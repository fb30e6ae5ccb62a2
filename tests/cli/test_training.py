"""`fit --max-fpr`: a threshold from held-out samples, in the model file."""

import json

import numpy as np
import pytest
from sklearn.datasets import dump_svmlight_file

import structinv
from structinv.cli.models import load_model
from structinv.datasets import make_mail_like

from ..inspection.test_detection import texts
from .test_commands import fail, run, succeed, table_rows, texts_of

FAST = ("--C", 0.1, "--tol", 0.01)
DROP = ("--oracle", "drop", "--max-changes", 1)
ROWS = ("--oracle", "fdrop", "--max-changes", 1)


def write_texts(path, n, seed):
    lines = [json.dumps({"text": a, "label": b}) for a, b in zip(*texts(n, seed), strict=True)]
    path.write_text("\n".join(lines))
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("thresholds")
    write_texts(folder / "train.jsonl", 400, seed=0)
    write_texts(folder / "test.jsonl", 200, seed=1)
    X, y = make_mail_like(600, 100, random_state=0)
    dump_svmlight_file(X, np.where(y == "spam", 1, -1), str(folder / "train.svm"), zero_based=False)
    succeed("convert", folder / "train.svm", folder / "rows")
    return folder


@pytest.mark.parametrize("data", ["train.jsonl", "train.svm", "rows"])
@pytest.mark.parametrize("more", [(), ("--only-for", "ham")])
def test_at_most_the_rate_of_held_out_samples_is_above_the_threshold(folder, tmp_path, data, more):
    oracle, n = (DROP, 400) if data == "train.jsonl" else (ROWS, 600)
    if n == 600:
        more = tuple("-1" if each == "ham" else each for each in more)
    out = succeed("fit", folder / data, *oracle, *FAST, *more, "--max-fpr", 0.05, "-o", tmp_path / "m")
    notes = load_model(tmp_path / "m").notes["training"]
    assert (notes["max_fpr"], notes["held_out"]) == (0.05, n / 5)
    assert notes["held_out_false_positives"] <= 0.05
    assert notes["detected_label"] == (more[1] if more else "spam" if n == 400 else "1")
    assert f"{4 * n // 5} {'texts' if n == 400 else 'rows'}" in out
    said = "The threshold is set for at most 5 % false positives. On "
    assert said + f"{n // 5} held-out samples, which training did not use, there are " in out


def test_all_commands_use_the_threshold_of_an_unused_fifth(folder, tmp_path):
    succeed("fit", folder / "train.jsonl", *DROP, *FAST, "--max-fpr", 0.1, "-o", tmp_path / "m")
    model, saved = structinv.load(tmp_path / "m"), load_model(tmp_path / "m").notes["training"]
    X, y = texts_of(folder / "train.jsonl")
    found = model.predict(X) == "spam"
    # The model is that of a plain fit on the other rows, but for the intercept.
    scores = model.decision_function(X) - model.intercept_[0]
    values = np.sort(scores[y == "ham"])
    assert np.isclose(values, -model.intercept_[0], atol=1e-6).any()
    assert saved["held_out_detected"] <= 1
    assert 0 < found[y == "ham"].mean() < 0.3
    test = folder / "test.jsonl"
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
    folder, tmp_path, monkeypatch, data, options, message
):
    (folder / "tags.conll").write_text("He PRP O\nran VBD B\n\n" * 20)
    (folder / "three").write_text("1 1:1\n2 2:1\n3 1:1\n" * 40)
    monkeypatch.setattr("structinv.cli.commands.train", None)
    options = options.split()
    line = fail("fit", folder / data, *ROWS, *options, "-o", tmp_path / "m")
    assert message in line
