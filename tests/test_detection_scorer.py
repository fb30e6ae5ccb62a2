"""A scorer of detection rates, in searches and in `select_changes`."""

import pickle

import numpy as np
import pytest
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import FixedThresholdClassifier, GridSearchCV, StratifiedKFold
from sklearn.naive_bayes import MultinomialNB

from structinv import InvariantLinearSVC, select_changes
from structinv.datasets import make_mail_like
from structinv.inspection import security_curve
from structinv.model_selection import detection_scorer
from structinv.oracles import FDrop, Identity, TokenEdits

from .test_detection import model_of_texts, texts


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


def test_a_search_selects_by_detection():
    X, y = mails()
    scoring = {
        "clean": detection_scorer(0.05, measure="clean"),
        "certified": detection_scorer(0.05, FDrop(3)),
    }
    search = GridSearchCV(
        linear(), {"oracle__max_changes": [0, 3]}, scoring=scoring, refit="certified", cv=3
    ).fit(X, y)
    for number, most in enumerate((0, 3)):
        for fold, (train, test) in enumerate(StratifiedKFold(3).split(X, y)):
            model = linear(FDrop(most)).fit(X[train], y[train])
            for name, scorer in scoring.items():
                found = search.cv_results_[f"split{fold}_test_{name}"][number]
                assert found == scorer(model, X[test], y[test])
    assert search.best_params_ == {"oracle__max_changes": 3}


def test_select_changes_takes_the_scorer():
    X, y = mails()
    grid = {"oracle__max_changes": [0, 3], "C": [0.05]}
    scoring = {
        measure: detection_scorer(0.05, FDrop(3), measure=measure) for measure in ("clean", "certified")
    }
    results = select_changes(linear(), X, y, grid, cv=3, scoring=scoring).cv_results_
    for number, most in enumerate((0, 3)):
        for fold, (train, test) in enumerate(StratifiedKFold(3).split(X, y)):
            model = linear(FDrop(most), C=0.05).fit(X[train], y[train])
            for measure, scorer in scoring.items():
                rate = scorer(model, X[test], y[test])
                assert results[f"split{fold}_test_{measure}"][number] == rate


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
