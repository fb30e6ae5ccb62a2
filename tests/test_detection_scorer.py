"""A scorer of detection rates, in searches and in `select_changes`; constant predictions are marked."""

import pickle
import warnings

import numpy as np
import pytest
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score
from sklearn.model_selection import FixedThresholdClassifier, GridSearchCV, StratifiedKFold
from sklearn.naive_bayes import MultinomialNB
from sklearn.pipeline import make_pipeline

from structinv import InvariantLinearSVC, InvariantStructuredSVC, select_changes
from structinv.datasets import make_mail_like
from structinv.inspection import security_curve
from structinv.model_selection import detection_scorer
from structinv.oracles import Box, FDrop, Identity, TokenEdits
from structinv.structures import Sequence

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


@pytest.mark.parametrize("given", ["scorer", "call"])
def test_select_changes_takes_the_scorer(given):
    X, y = mails()
    grid = {"oracle__max_changes": [0, 3], "C": [0.05]}
    oracles = {"scorer": (FDrop(3), None), "call": (None, FDrop(3))}[given]
    scorer = detection_scorer(0.05, oracles[0])
    found = select_changes(linear(), X, y, grid, cv=3, oracle=oracles[1], scoring=scorer)
    assert repr(found.oracle_) == repr(FDrop(3))
    for number, most in enumerate((0, 3)):
        for fold, (train, test) in enumerate(StratifiedKFold(3).split(X, y)):
            model = linear(FDrop(most), C=0.05).fit(X[train], y[train])
            for measure in ("clean", "certified"):
                rate = detection_scorer(0.05, FDrop(3), measure=measure)(model, X[test], y[test])
                assert found.table_[f"{measure}_folds"][number, fold] == rate
    text = str(found)
    assert "detection rates at a false-positive rate of at most 5 %" in text
    assert "Detection rates are means over folds" in text


def test_select_changes_without_a_given_oracle_uses_that_of_the_grid():
    X, y = mails()
    grid = {"oracle__max_changes": [0, 1], "C": [0.05]}
    found = select_changes(linear(), X, y, grid, cv=2, scoring=detection_scorer(0.1))
    assert found.oracle_.max_changes == 1


def test_settings_with_a_constant_prediction_are_marked():
    X, y = mails()
    model = linear(FDrop(1), class_weight={"ham": 1.0, "spam": 1e-3})
    grid = {"C": [1e-6, 0.1], "class_weight": [{"ham": 1.0, "spam": 1e-3}, None]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = select_changes(model, X, y, {"C": [1e-6]} | grid, cv=2, oracle=FDrop(1))
    for number, params in enumerate(found.table_["params"]):
        fits = [
            linear(FDrop(1)).set_params(**params).fit(X[train], y[train]).predict(X[test])
            for train, test in StratifiedKFold(2).split(X, y)
        ]
        constant = sum(len(np.unique(each)) == 1 for each in fits)
        assert found.table_["constant"][number] == constant
    assert found.table_["constant"].max() == 2
    assert found.table_["constant"].min() == 0
    assert "=  predicts one label only in some folds" in str(found)
    marked = [line for line in str(found).splitlines() if "%" in line and "=" in line.split()[0]]
    assert len(marked) == np.count_nonzero(found.table_["constant"])


def test_sentences_with_one_label_for_all_tokens_are_constant():
    X = [np.eye(2)[[0, 1, 0]]] * 8
    y = [["a", "b", "a"]] * 8
    model = InvariantStructuredSVC(Sequence(), oracle=FDrop(1), random_state=0)
    found = select_changes(model, X, y, {"C": [1e-9, 10.0]}, cv=2)
    assert found.table_["constant"].tolist() == [2, 0]
    with pytest.raises(TypeError, match="scoring must be None for InvariantStructuredSVC"):
        select_changes(model, X, y, {"C": [1.0]}, cv=2, scoring=detection_scorer())


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


@pytest.mark.parametrize("scoring", ["balanced_accuracy", accuracy_score])
def test_a_selection_takes_no_other_scorers(scoring):
    X, y = make_mail_like(40, 100, random_state=0)
    with pytest.raises(TypeError, match="scoring must be None or a scorer from detection_scorer, got"):
        select_changes(InvariantLinearSVC(FDrop(1)), X, y, {"C": [1.0]}, scoring=scoring)


def test_only_models_of_two_classes_have_rates():
    X, y = mails()
    three = linear(C=0.1).fit(X, np.arange(len(y)) % 3)
    with pytest.raises(ValueError, match="two classes for detection rates, got 3"):
        detection_scorer(0.1, Identity())(three, X, np.arange(len(y)) % 3)
    folds = [(np.arange(100, 200), np.arange(100)), (np.arange(100), np.flatnonzero(y == "ham")[-20:])]
    with pytest.raises(ValueError, match="cv must return test folds with both labels.*got only 'ham'"):
        select_changes(linear(), X, y, {"C": [1.0]}, cv=folds, scoring=detection_scorer())
    with pytest.raises(ValueError, match="y must have two labels.*scoring"):
        select_changes(
            linear(), X, np.arange(len(y)) % 3, {"C": [1.0]}, oracle=Box(0.1), scoring=detection_scorer()
        )


def test_pipelines_of_texts_are_scored():
    X, y = texts()
    pipe = make_pipeline(CountVectorizer(), linear(FDrop(1))).fit(X, y)
    assert (
        0 <= detection_scorer(0.1)(pipe, X, y) <= detection_scorer(0.1, measure="clean")(pipe, X, y) <= 1
    )
    scorer = detection_scorer(0.1)
    search = GridSearchCV(pipe, {"invariantlinearsvc__C": [0.1]}, scoring=scorer, cv=2).fit(X, y)
    assert 0 < search.best_score_ <= 1
    assert scorer(search, X, y) == scorer(search.best_estimator_, X, y)
