"""Detection rates at false-positive rates: numbers, and what is printed of them."""

import json
from itertools import combinations

import numpy as np
import pytest
from typer.testing import CliRunner

import structinv
from structinv import InvariantLinearSVC, InvariantTextClassifier
from structinv.cli import app
from structinv.inspection.detection import (
    RATES,
    detection_under_all_kinds,
    other_kinds,
    positive_label,
    threshold_at,
)
from structinv.oracles import Box, FAdd, FDrop, FEdit, FScale, Identity, TokenEdits
from structinv.report.content import without_equal_columns

from ..other_models.cases import edited
from .cases import WORDS, texts


def model_of_texts(**parameters):
    """A model whose scores are equal for texts with equal words only."""
    model = InvariantTextClassifier("drop", 1, C=0.1, random_state=0, **parameters).fit(*texts(seed=1))
    noise = np.random.default_rng(2).standard_normal(model.coef_.shape)
    model.coef_ = model.coef_ + 0.3 * noise
    return model


def rates_of(model, X, y, oracle=None):
    oracle = oracle or model.oracle
    return detection_under_all_kinds(
        lambda each: model.certify(X, y, oracle=each),
        oracle,
        model.certify(X, y, oracle=oracle),
        np.asarray(y),
        model.classes_,
        X,
    )


@pytest.mark.parametrize("max_fpr", [0.0, 0.1, 0.25, 0.3, 0.99])
def test_a_threshold_never_exceeds_its_rate_also_with_equal_scores(max_fpr):
    rng = np.random.default_rng(0)
    for scores in (rng.standard_normal(40), rng.integers(0, 4, 40) / 4, np.zeros(40)):
        threshold = threshold_at(scores, max_fpr)
        assert np.mean(scores > threshold) <= max_fpr
        smaller = scores[scores < threshold]
        if len(smaller):
            assert np.mean(scores > smaller.max()) > max_fpr


def test_a_rate_that_is_a_fraction_of_the_scores_is_reached():
    # The product of a rate such as 0.29 with 100 is a little less than 29.
    for n in range(1, 101):
        found = [threshold_at(np.arange(n), k / n) for k in range(n)]
        assert found == [n - 1 - k for k in range(n)]


@pytest.mark.parametrize("only_for", [None, "spam", "ham"])
def test_rates_are_those_of_all_edited_texts(only_for):
    X, y = texts()
    model = model_of_texts(only_for=only_for)
    found = rates_of(model, X, y)
    label = only_for or "spam"
    sign = 1.0 if label == "spam" else -1.0
    assert (found.label, found.n_positives, found.n_negatives) == (label, 40, 40)
    scores = sign * model.decision_function(X)
    vocabulary = [*sum(WORDS.values(), []), "unknown"]

    def least(text, edit):
        every = [" ".join(tokens) for tokens in edited(text.split(), edit, 1, vocabulary)]
        return sign * model.decision_function(every)

    own = np.flatnonzero(y == label)
    for name, edit in {
        "up to 1 deleted": "drop",
        "up to 1 inserted": "add",
        "up to 1 replaced": "replace",
    }.items():
        worst = np.array([least(X[k], edit).min() for k in own])
        for place, limit in enumerate(RATES):
            threshold = 0.0 if limit is None else np.sort(scores[y != label])[::-1][int(40 * limit)]
            # Scores that are equal to the threshold are not above it.
            assert found.clean[place] == np.mean(scores[own] > threshold + 1e-9)
            assert found.attacked[name][place] == np.mean(worst > threshold + 1e-9)
            assert found.certified[name][place] == found.attacked[name][place]
            assert found.false_positives[place] == np.mean(scores[y != label] > threshold + 1e-9)
    assert found.clean[2] < 1


def test_rates_below_one_sample_are_not_measurable():
    found = rates_of(model_of_texts(), *texts())
    rows = found.table().rows
    assert [row[1] for row in rows[:4]] == ["of predict", "for 0.1 %", "for 1 %", "for 5 %"]
    assert [row[2] for row in rows[1:3]] == ["not measurable"] * 2
    assert rows[3][2] == "5.0 %"
    first, last = found.notes("text", "texts")
    assert "Detection rates of spam, the second class, in 40 texts." in first
    assert "among the 40 other texts of these data, without perturbations." in first
    assert last.startswith("0.1 % and 1 % false positives cannot be measured with 40 other texts")
    assert last.endswith(": 0.1 % requires at least 1000.")


@pytest.mark.parametrize(
    ("oracle", "label", "reason"),
    [
        (FDrop(1), "spam", "the second class"),
        (FDrop(1).only_for("ham"), "ham", "the only perturbed label"),
        (FDrop(1).only_for(["ham", "eggs"]), "ham", "the only perturbed label"),
        (FDrop(1).only_for(["ham", "spam"]), "spam", "the second class"),
        (FDrop(1).only_for("ham") | FDrop(2).only_for("spam"), "spam", "the second class"),
    ],
)
def test_the_label_to_detect_is_the_one_that_attackers_edit(oracle, label, reason):
    assert positive_label(oracle, np.array(["ham", "spam"])) == (label, reason)


@pytest.mark.parametrize(
    ("oracle", "kinds"),
    [
        (FDrop(2), [FAdd(2), FEdit(2, add=1.0)]),
        (FAdd(2).only_for("ham"), [FDrop(2), FEdit(2, add=1.0)]),
        (FScale(9), [FDrop(3), FAdd(3), FEdit(3, add=1.0)]),
        (
            TokenEdits("add", 2, ["a"]),
            [TokenEdits("drop", 2), TokenEdits("replace", 2, ["a"]), TokenEdits("edit", 2, ["a"])],
        ),
        (Box(1.0), []),
        (Identity(), []),
    ],
)
def test_word_edits_are_judged_under_the_other_kinds(oracle, kinds):
    rows = np.array([[0.0, 2.0, 1.0]])
    expected = [repr(each.only_for(["spam"])) for each in kinds]
    assert [repr(each) for each in other_kinds(oracle, "spam", rows)] == expected
    if not isinstance(oracle, TokenEdits):
        assert other_kinds(oracle, "spam", rows + 0.5) == []
        assert other_kinds(oracle, "spam", rows - 1) == []


def test_edits_of_counts_are_those_of_all_edited_rows():
    rng = np.random.default_rng(0)
    y = np.arange(40) % 2
    X = rng.poisson(np.where((np.arange(6) % 2 == 0) == y[:, None], 0.4, 1.5)).astype(float)
    model = InvariantLinearSVC(FDrop(2), C=10.0, random_state=0).fit(X, y)
    model.coef_ = model.coef_ + 0.3 * rng.standard_normal(model.coef_.shape)
    found = rates_of(model, X, y)
    for name, values in {"added": [1.0], "removed": [0.0], "edited": [0.0, 1.0]}.items():
        worst = []
        for row in X[y == 1]:
            reached = [row]
            for places in combinations(range(6), 2):
                for first in [row[places[0]], *values]:
                    for second in [row[places[1]], *values]:
                        changed = row.copy()
                        changed[list(places)] = first, second
                        allowed = (changed <= row) | (row == 0)
                        reached += [changed] if allowed.all() else []
            worst.append(model.decision_function(np.array(reached)).min())
        expected = np.mean(np.array(worst) > found.thresholds[-1] + 1e-9)
        assert found.certified[f"up to 2 {name}"][-1] == expected


def test_there_are_no_rates_for_three_classes_or_for_data_of_one():
    X, y = texts()
    model = model_of_texts()
    assert rates_of(model, X[1::2], y[1::2]) is None
    three = InvariantTextClassifier(C=0.1, random_state=0).fit(X, np.arange(80) % 3)
    assert rates_of(three, X, np.arange(80) % 3) is None


def succeed(*arguments):
    result = CliRunner().invoke(app, list(map(str, arguments)), env={"COLUMNS": "200"})
    assert result.exit_code == 0, result.output
    return result.stdout


def test_evaluate_prints_the_rates_for_all_kinds_of_edits(tmp_path):
    train, test = tmp_path / "train", tmp_path / "test"
    for path, (X, y) in ((train, texts()), (test, texts(seed=1))):
        records = [json.dumps({"text": text, "label": label}) for text, label in zip(X, y, strict=True)]
        path.write_text("\n".join(records))
    options = ("--oracle", "drop", "--max-changes", 2, "--only-for", "spam", "--C", 0.1, "--tol", 0.01)
    succeed("fit", train, *options, "-o", tmp_path / "m")
    out = succeed("evaluate", tmp_path / "m", test)
    model = structinv.load(tmp_path / "m")
    found = rates_of(model, X, y)
    for line in found.notes("text", "texts"):
        assert line in out
    # The certificates of edits of words are tight, so the attacked rates have no column.
    table, note = without_equal_columns(found.table(), "rates")
    assert table.text() in f"\n{out}"
    assert "attacked" not in table.columns
    assert note in out


def test_evaluate_has_no_rates_without_two_classes(tmp_path):
    (tmp_path / "train").write_text("a 1:1\n".replace("a", "1") + "2 2:1\n3 3:1\n" * 3)
    succeed("fit", tmp_path / "train", "--oracle", "fdrop", "--max-changes", 1, "-o", tmp_path / "m")
    assert "Detection" not in succeed("evaluate", tmp_path / "m", tmp_path / "train")
