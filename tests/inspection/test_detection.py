"""Detection rates at false-positive rates: numbers, reports, scorers and stored thresholds."""

import pickle
from itertools import combinations

import numpy as np
import pytest
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import FixedThresholdClassifier
from sklearn.naive_bayes import MultinomialNB

import structinv
from structinv import InvariantLinearSVC, InvariantTextClassifier
from structinv.datasets import make_mail_like
from structinv.inspection import security_curve
from structinv.inspection.detection import (
    RATES,
    detection_under_all_kinds,
    other_kinds,
    positive_label,
    threshold_at,
)
from structinv.model_selection import detection_scorer
from structinv.oracles import Box, FAdd, FDrop, FEdit, FScale, Identity, TokenEdits

from ..cli.test_commands import succeed, texts_of, write_mails
from ..other_models.test_certify_texts import edited

WORDS = {"spam": ["cheap", "pills", "money"], "ham": ["meeting", "notes", "lunch"]}


def texts(n=80, seed=0):
    """Short texts with words of both classes, of which some are equal."""
    rng = np.random.default_rng(seed)
    y = np.array(["ham", "spam"])[np.arange(n) % 2]
    every = [[*rng.choice(WORDS[label], 3), *rng.choice(sum(WORDS.values(), []), 2)] for label in y]
    return [" ".join(words) for words in every], y


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


def test_evaluate_prints_the_rates_for_all_kinds_of_edits(tmp_path):
    train, test = write_mails(tmp_path / "train", seed=0), write_mails(tmp_path / "test", seed=1)
    options = ("--oracle", "drop", "--max-changes", 2, "--only-for", "spam", "--C", 0.1)
    succeed("fit", train, *options, "-o", tmp_path / "m")
    out = succeed("evaluate", tmp_path / "m", test)
    model = structinv.load(tmp_path / "m")
    X, y = texts_of(test)
    found = rates_of(model, X, y)
    for line in found.notes("text", "texts"):
        assert line in out
    assert found.table().text() in f"\n{out}"


def test_evaluate_has_no_rates_without_two_classes(tmp_path):
    (tmp_path / "train").write_text("a 1:1\n".replace("a", "1") + "2 2:1\n3 3:1\n" * 3)
    succeed("fit", tmp_path / "train", "--oracle", "fdrop", "--max-changes", 1, "-o", tmp_path / "m")
    assert "Detection" not in succeed("evaluate", tmp_path / "m", tmp_path / "train")


def mails(n=200, seed=0):
    return make_mail_like(n, 100, random_state=seed)


def linear(oracle=None, **parameters):
    return InvariantLinearSVC(oracle or FDrop(0), random_state=0, **parameters)


@pytest.mark.parametrize("max_fpr", [0.0, 0.05, 0.3])
def test_scores_are_those_of_the_security_curve(max_fpr):
    X, y = mails()
    X_new, y_new = mails(seed=1)
    models = {
        "robust": linear(FDrop(2), C=0.05).fit(X, y),
        "plain": LogisticRegression().fit(X, y),
        "bayes": MultinomialNB().fit(X, y),
        "moved": FixedThresholdClassifier(
            linear(FDrop(2), C=0.05), threshold=0.7, response_method="decision_function"
        ).fit(X, y),
    }
    for name, model in models.items():
        own = {
            measure: detection_scorer(max_fpr, FDrop(3), measure=measure)(model, X_new, y_new)
            for measure in ("clean", "attacked", "certified")
        }
        assert own["certified"] <= own["attacked"] <= own["clean"]
        if name in ("robust", "plain"):
            curve = security_curve(
                {"": model}, X_new, y_new,
                oracle=FDrop(1), n_changes=[0, 3], label="spam", max_fpr=max_fpr,
            )  # fmt: skip
            assert own["clean"] == pytest.approx(curve.detected[""][0], abs=0.011)
            assert own["certified"] == pytest.approx(curve.detected[""][1], abs=0.011)
        if name == "moved":
            # Another threshold of predict does not change the rates.
            same = detection_scorer(max_fpr, FDrop(3))(models["robust"], X_new, y_new)
            assert own["certified"] == pytest.approx(same, abs=0.011)


def test_the_label_may_be_named():
    X, y = mails()
    model = linear(FDrop(1).only_for("ham"), C=0.05).fit(X, y)
    by_rule, named = detection_scorer(0.1), detection_scorer(0.1, label="ham")
    assert by_rule(model, X, y) == named(model, X, y)
    assert detection_scorer(0.1, FDrop(1))(model, X, y) == detection_scorer(0.1, FDrop(1), label="spam")(
        model, X, y
    )
    with pytest.raises(ValueError, match="label must be one of the classes.*'ham', 'spam'.*got 'eggs'"):
        detection_scorer(0.1, label="eggs")(model, X, y)


def test_a_scorer_can_be_pickled():
    X, y = texts()
    model, scorer = model_of_texts(), detection_scorer(0.1, TokenEdits("add", 1))
    assert pickle.loads(pickle.dumps(scorer))(model, X, y) == scorer(model, X, y)


def test_a_fold_without_one_of_the_labels_has_no_rate():
    X, y = mails()
    model = linear(FDrop(1), C=0.05).fit(X, y)
    for label in ("ham", "spam"):
        rows = np.flatnonzero(y == label)
        with pytest.warns(UndefinedMetricWarning, match="y must contain both labels"):
            assert np.isnan(detection_scorer()(model, X[rows], y[rows]))


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"max_fpr": 1.0}, ValueError, r"max_fpr must be in \[0, 1\), got 1.0"),
        ({"max_fpr": "1%"}, TypeError, "max_fpr must be a number"),
        ({"measure": "robust"}, ValueError, "measure must be one of"),
        ({"oracle": "fdrop"}, TypeError, "oracle must be an InvarianceOracle"),
    ],
)
def test_wrong_arguments_are_named(change, error, message):
    with pytest.raises(error, match=message):
        detection_scorer(**change)


def test_only_models_of_two_classes_have_rates():
    X, y = mails()
    three = linear(C=0.1).fit(X, np.arange(len(y)) % 3)
    with pytest.raises(ValueError, match="two classes for detection rates, got 3"):
        detection_scorer(0.1, Identity())(three, X, np.arange(len(y)) % 3)
