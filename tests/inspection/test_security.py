"""Detection rates under attack, against attacks that are all tried."""

from functools import cache
from itertools import combinations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import FixedThresholdClassifier, GridSearchCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.naive_bayes import BernoulliNB, ComplementNB, GaussianNB, MultinomialNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler
from sklearn.svm import SVC, LinearSVC

from structinv import InvariantLinearSVC, InvariantTextClassifier, certify
from structinv.inspection import security_curve
from structinv.oracles import Box, FAdd, FDrop, Protected, TokenEdits

RNG = np.random.default_rng(0)
Y = np.repeat(["bad", "good"], 40)
OFTEN = (np.arange(6) < 3) == (Y[:, None] == "bad")
X = (RNG.random((80, 6)) < np.where(OFTEN, 0.6, 0.2)).astype(float)


CERTIFIED = [
    LinearSVC(C=0.1, random_state=0),
    SVC(kernel="linear"),
    OneVsRestClassifier(LogisticRegression()),
    make_pipeline(MaxAbsScaler(), LogisticRegression()),
    InvariantLinearSVC(FAdd(1), random_state=0),
    InvariantLinearSVC(FAdd(2).only_for("bad"), C=0.1, random_state=0),
    MultinomialNB(),
    ComplementNB(),
    BernoulliNB(),
    make_pipeline(MaxAbsScaler(), MultinomialNB()),
    GridSearchCV(MultinomialNB(), {"alpha": [0.1, 1.0]}, cv=2),
]


@cache
def models():
    plain = LinearSVC(C=0.1, random_state=0).fit(X[::2], Y[::2])
    robust = InvariantLinearSVC(FAdd(2).only_for("bad"), C=0.1, random_state=0).fit(X[::2], Y[::2])
    return {"plain": plain, "logistic": LogisticRegression().fit(X[::2], Y[::2]), "robust": robust}


def attacked(x, size):
    """All rows with up to so many absent words added."""
    places = [each for k in range(size + 1) for each in combinations(np.flatnonzero(x == 0), k)]
    return np.array([np.where(np.isin(np.arange(6), place), 1.0, x) for place in places])


@pytest.mark.parametrize(("label", "max_fpr"), [("bad", 0.1), ("good", 0.0)])
@pytest.mark.parametrize("model", CERTIFIED, ids=str)
def test_rates_are_those_of_all_attacks(model, label, max_fpr):
    rows, y, model = X[1::2], Y[1::2], model.fit(X[::2], Y[::2])

    def scores(Z):
        if hasattr(model, "decision_function"):
            found = model.decision_function(Z)
        else:
            found = np.diff(model.predict_log_proba(Z))[:, 0]
        return found if label == "good" else -found

    asked = {"n_changes": [0, 1, 3], "label": label, "max_fpr": max_fpr}
    curve = security_curve({"": model}, rows, y, oracle=FAdd(9), **asked)
    assert {name: getattr(curve, name) for name in asked} == asked
    others = np.sort(scores(rows[y != label]))[::-1]
    allowed = int(max_fpr * len(others))
    assert curve.false_positive_rates[""] <= max_fpr
    # The least threshold with so few others above it.
    threshold = others[allowed]
    assert curve.thresholds[""] == pytest.approx(threshold, abs=1e-9)
    assert np.sum(others > curve.thresholds[""]) <= allowed
    for size, rate in zip(asked["n_changes"], curve.detected[""], strict=True):
        least = np.array([scores(attacked(x, size)).min() for x in rows[y == label]])
        assert rate == np.mean(least > threshold + 1e-9)


@pytest.mark.parametrize(
    ("inner", "label", "threshold"),
    [
        pytest.param(LogisticRegression(), "bad", 0.2, marks=pytest.mark.slow),
        (LogisticRegression(), "good", 0.9),
        (MultinomialNB(), "bad", 0.9),
    ],
    ids=["logistic", "other label", "bayes"],
)
def test_moved_thresholds_do_not_change_the_rates(inner, label, threshold):
    inner = inner.fit(X[::2], Y[::2])
    calibrated = CalibratedClassifierCV(LinearSVC(random_state=0), ensemble=False)
    fitted = {
        "inner": inner,
        "moved": FixedThresholdClassifier(inner, threshold=threshold, pos_label=label),
        "other": FixedThresholdClassifier(inner, threshold=threshold, pos_label="good"),
        "svm": LinearSVC(random_state=0).fit(X[::2], Y[::2]),
        "calibrated": calibrated.fit(X[::2], Y[::2]),
    }
    curve = security_curve(
        fitted, X[1::2], Y[1::2], oracle=FAdd(1), n_changes=[0, 2], label=label, max_fpr=0.1
    )
    for name, same in (("moved", "inner"), ("other", "inner"), ("calibrated", "svm")):
        np.testing.assert_array_equal(curve.detected[name], curve.detected[same])
        assert curve.false_positive_rates[name] == curve.false_positive_rates[same]
        assert curve.thresholds[name] != pytest.approx(curve.thresholds[same], abs=1e-3)
    # A threshold is relative to that of the model: above it, rows are predicted to have the label.
    scores = -certify(fitted["moved"], FAdd(0), X, np.where(label == Y, Y[::-1], Y)).margins
    predicted = fitted["moved"].predict(X) == label
    np.testing.assert_array_equal(predicted, scores > 0)


def test_rates_that_are_bounds_are_printed_as_bounds():
    model = LinearSVC(random_state=0).fit(X[::2], Y[::2])
    asked = {"n_changes": [0, 2], "label": "bad", "max_fpr": 0.2}
    tight = security_curve({"plain": model}, X[1::2], Y[1::2], oracle=FAdd(1), **asked)
    assert tight.bounded == ()
    assert "lower bounds" not in str(tight).lower()
    pairs = make_pipeline(CountVectorizer(ngram_range=(1, 2)), LinearSVC(random_state=0))
    texts = [" ".join(np.array(list("abcdef"))[x > 0]) + " ii jj" for x in X]
    pairs = pairs.set_params(countvectorizer__token_pattern=r"\S+").fit(texts, Y)
    loose = security_curve({"pairs": pairs}, texts, Y, oracle=TokenEdits("edit", 2), **asked)
    exact = certify(pairs, TokenEdits("edit", 2), texts, Y).exact
    assert not np.all(exact)
    assert loose.bounded == ("pairs",)
    assert "Lower bounds, since not all margins are tight: pairs." in str(loose)


def test_texts_of_a_filter_with_a_moved_threshold():
    words = np.array(["free", "win", "cash", "hello", "lunch", "report"])
    texts = [" ".join(words[x > 0]) or "none" for x in X]
    own = InvariantTextClassifier("drop", 1, random_state=0).fit(texts, Y)
    scores = own.decision_function(texts)
    moved = FixedThresholdClassifier(
        own, threshold=float(np.median(scores)), pos_label="good", response_method="decision_function"
    )
    bayes = make_pipeline(CountVectorizer(), MultinomialNB()).fit(texts, Y)
    asked = {"n_changes": [0, 2], "label": "bad", "max_fpr": 0.2}
    curve = security_curve({"own": own, "moved": moved}, texts, Y, oracle=TokenEdits("drop", 1), **asked)
    np.testing.assert_array_equal(curve.detected["own"], curve.detected["moved"])
    curve = security_curve({"bayes": bayes}, texts, Y, oracle=FDrop(1), **asked)
    assert curve.detected["bayes"][0] > curve.detected["bayes"][1]


def test_models_without_certificates_are_named_before_any_attack(monkeypatch):
    def counted(model, oracle, *rows):
        asked.append(oracle.max_changes)
        return certify(model, oracle, *rows)

    asked = []
    monkeypatch.setattr("structinv.inspection.security.certify", counted)
    fitted = {**models(), "forest": RandomForestClassifier(5, random_state=0).fit(X, Y)}
    with pytest.raises(TypeError, match=r"no certificate for models\['forest'\].*attack them instead"):
        security_curve(fitted, X, Y, oracle=FAdd(1), n_changes=[1], label="bad")
    assert asked == [0] * 4


def test_sparse_rows_and_protected_features():
    oracle = Protected(FAdd(1), [3, 4, 5])
    one, other = (
        security_curve(models(), rows, Y, oracle=oracle, n_changes=[0, 2], label="bad")
        for rows in (X, sp.csr_matrix(X))
    )
    for name in one.detected:
        np.testing.assert_array_equal(one.detected[name], other.detected[name])


def test_print_and_plot_have_the_same_words():
    curve = security_curve(models(), X, Y, oracle=FDrop(1), n_changes=[0, 1], label="bad")
    axes = curve.plot().ax_
    assert [line.get_label() for line in axes.lines] == ["plain", "logistic", "robust"]
    title, head, *_ = str(curve).splitlines()
    assert head.split() == ["edits", "0", "1"]
    assert "number of edits" in axes.get_xlabel()
    for word in ("detection rate", "false-positive rate"):
        assert word in title.lower()
        assert word in axes.get_ylabel()


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"models": []}, TypeError, "models must be a mapping"),
        ({"models": {}}, ValueError, "models must contain at least one classifier"),
        ({"oracle": Box(1.0)}, ValueError, "edits that can be counted"),
        ({"oracle": FAdd(1).discounted(0.5)}, ValueError, "edits that can be counted"),
        ({"oracle": Protected(FAdd(1).discounted(0.5), [5])}, ValueError, "edits that can be counted"),
        ({"oracle": FAdd}, TypeError, "oracle must be an InvarianceOracle"),
        ({"n_changes": []}, ValueError, "n_changes must contain"),
        ({"n_changes": 5}, TypeError, "n_changes must be a list of integers, got 5: pass [5]"),
        ({"n_changes": "5"}, TypeError, "n_changes must be a list of integers, got '5'"),
        ({"n_changes": [-1]}, ValueError, "n_changes must be an integer of at least 0, got -1"),
        ({"n_changes": [1.5]}, TypeError, "n_changes must be an integer"),
        ({"n_changes": [7]}, ValueError, "max_changes must be at least 0 and at most 6"),
        ({"label": "worse"}, ValueError, "one of them label='worse'"),
        ({"max_fpr": 1.0}, ValueError, "max_fpr must be in"),
        ({"max_fpr": "1%"}, TypeError, "max_fpr must be a number"),
        ({"y": np.repeat("bad", 80)}, ValueError, "y must contain label='bad' and another"),
        ({"y": Y[:75]}, ValueError, "inconsistent numbers of samples"),
        ({"models": {"new": LinearSVC()}}, ValueError, "fitted to two classes"),
        ({"models": {"bayes": GaussianNB().fit(X, Y)}}, TypeError, "models['bayes']: estimator must be"),
        (
            {"models": {"a": FixedThresholdClassifier(MultinomialNB().fit(X, Y), threshold=2.0)}},
            ValueError,
            "models['a'] always predicts",
        ),
    ],
)
def test_what_is_wrong_is_named(changes, error, words):
    asked = {"models": models(), "X": X, "y": Y, "oracle": FAdd(1), "n_changes": [1], "label": "bad"}
    with pytest.raises(error) as caught:
        security_curve(**{**asked, **changes})
    assert words in str(caught.value)
