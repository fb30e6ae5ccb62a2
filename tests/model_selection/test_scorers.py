"""Scores of certificates, of detection rates, and of rows of which some have no label."""

import pickle

import numpy as np
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.exceptions import NotFittedError, UndefinedMetricWarning
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, f1_score, get_scorer
from sklearn.model_selection import (
    FixedThresholdClassifier,
    GridSearchCV,
    KFold,
    StratifiedKFold,
    cross_val_score,
)
from sklearn.naive_bayes import MultinomialNB

from structinv import (
    InvariantTextClassifier,
    LapSVC,
    RepresenterClassifier,
    certify,
)
from structinv.datasets import make_mail_like
from structinv.inspection import security_curve
from structinv.model_selection import (
    certified_accuracy_scorer,
    detection_scorer,
    labeled_scorer,
)
from structinv.oracles import FDrop, Identity, TokenEdits

from .cases import linear, mails


def half_labeled(n=40, seed=0):
    rng = np.random.default_rng(seed)
    codes = np.arange(n) % 2
    X = rng.standard_normal((n, 2)) + 3.0 * codes[:, None]
    return X, np.where(np.arange(n) % 4 < 2, codes, -1), codes


LABELS = {
    "numbers": lambda y: y,
    "strings": lambda y: np.array([{0: "a", 1: "b", -1: -1}[k] for k in y], dtype=object),
    "list": lambda y: [{0: "a", 1: "b", -1: -1}[k] for k in y.tolist()],
}


class TestLabels:
    @pytest.mark.parametrize("name", LABELS)
    def test_a_search_counts_no_row_without_label_as_wrong(self, name):
        X, codes, _ = half_labeled()
        y = LABELS[name](codes)
        model = LapSVC(n_neighbors=3, random_state=0)
        grid = {"nu": [0.0, 1.0]}
        left_out = GridSearchCV(model, grid, cv=KFold(4), scoring=labeled_scorer(), error_score="raise")
        assert left_out.fit(X, y).best_score_ > 0.9
        if name == "numbers":
            # What a search does by itself.
            plain = GridSearchCV(model, grid, cv=KFold(4), error_score="raise").fit(X, y)
            assert plain.best_score_ < 0.6

    @pytest.mark.parametrize("scoring", ["accuracy", "balanced_accuracy", "neg_log_loss"])
    def test_scores_are_those_of_the_labeled_rows(self, scoring):
        X, codes, _ = half_labeled()
        model = RepresenterClassifier(gamma=1.0, random_state=0).fit(X, codes)
        labeled = codes != -1
        expected = cross_val_score(model, X[labeled], codes[labeled], scoring=scoring, cv=2)
        assert np.all(np.isfinite(expected))
        scorer = pickle.loads(pickle.dumps(labeled_scorer(scoring)))
        own = scorer(model, X, codes)
        assert own == labeled_scorer(scoring)(model, X[labeled], codes[labeled])

    def test_other_scorers_and_marks(self):
        X, codes, _ = half_labeled()
        model = RepresenterClassifier(gamma=1.0, random_state=0).fit(X, codes)

        def f1(estimator, X, y):
            return f1_score(y, estimator.predict(X))

        labeled = codes != -1
        expected = f1_score(codes[labeled], model.predict(X[labeled]))
        assert labeled_scorer(f1)(model, X, codes) == expected
        marked = np.where(labeled, codes, 99)
        assert labeled_scorer(f1, unlabeled=99)(model, X, marked) == expected
        # A class of its own is no mark.
        signs = np.where(codes == 1, 1, -1)
        model.fit(X, signs)
        assert labeled_scorer()(model, X, signs) == accuracy_score(signs, model.predict(X))
        # One fold may show one class beside the mark.
        few = np.r_[np.flatnonzero(codes == 0)[:3], np.flatnonzero(codes == -1)[:3]]
        model.fit(X, codes)
        own = labeled_scorer()(model, X[few], codes[few])
        assert own == accuracy_score(codes[few[:3]], model.predict(X[few[:3]]))

    def test_what_is_wrong_is_named(self):
        X, codes, _ = half_labeled()
        model = RepresenterClassifier(gamma=1.0, random_state=0)
        with pytest.raises(NotFittedError):
            labeled_scorer()(model, X, codes)
        with pytest.raises(ValueError, match="y must contain at least one label"):
            labeled_scorer()(model.fit(X, codes), X, np.full(40, -1))
        with pytest.raises(ValueError, match="magic"):
            labeled_scorer("magic")


def test_each_model_against_its_own_changes():
    X, y = mails()
    model = linear(FDrop(2), C=0.1).fit(X, y)
    own = model.certify(X, y).accuracy
    assert certified_accuracy_scorer()(model, X, y) == own
    assert pickle.loads(pickle.dumps(certified_accuracy_scorer(FDrop(2))))(model, X, y) == own
    with pytest.raises(TypeError, match="oracle must be an InvarianceOracle"):
        certified_accuracy_scorer("fdrop")


def test_a_class_that_a_fold_lacks_is_never_certified():
    X, y = mails()
    y[-6:] = "junk"
    scorer = certified_accuracy_scorer(FDrop(1))
    for model in (linear(FDrop(1), C=0.1), LogisticRegression()):
        # The second fold of training lacks a class, and the first fold of tests lacks it, too.
        folds = [(np.arange(20, 60), np.arange(20)), (np.arange(40), np.arange(40, 60))]
        settings = {"cv": folds, "error_score": "raise"}
        first, second = cross_val_score(model, X, y, scoring=scorer, **settings)
        fitted = clone(model).fit(X[:40], y[:40])
        known = certify(fitted, FDrop(1), X[40:54], y[40:54]).correct
        assert second == pytest.approx(known.sum() / 20)
        assert 0 < first <= 1
        search = GridSearchCV(model, {"C": [model.C]}, scoring=scorer, **settings).fit(X, y)
        assert search.best_score_ == pytest.approx((first + second) / 2)
        assert scorer(fitted, X[54:], y[54:]) == 0.0


def test_the_scorer_takes_routed_weights():
    X, y = mails()
    weights = np.arange(60.0)
    model = linear(FDrop(1), C=0.1)
    with config_context(enable_metadata_routing=True):
        model.set_fit_request(sample_weight=True)
        own = certified_accuracy_scorer(FDrop(1)).set_score_request(sample_weight=True)
        settings = {"cv": 2, "error_score": "raise", "params": {"sample_weight": weights}}
        scores = cross_val_score(model, X, y, scoring=own, **settings)
        other = pickle.loads(pickle.dumps(own)).set_score_request(sample_weight=False)
        plain = cross_val_score(model, X, y, scoring=other, **settings)
        accuracy = get_scorer("accuracy").set_score_request(sample_weight=True)
        several = {"certified": own, "accuracy": accuracy}
        labeled = labeled_scorer().set_score_request(sample_weight=True)
        assert len(cross_val_score(model, X, y, scoring=labeled, **settings)) == 2
        search = GridSearchCV(model, {"C": [0.1]}, scoring=own, cv=2, error_score="raise")
        assert search.fit(X, y, sample_weight=weights).best_score_ == pytest.approx(scores.mean())
        search.set_params(scoring=several, refit="certified").fit(X, y, sample_weight=weights)
        assert search.best_score_ == pytest.approx(scores.mean())
    train, test = next(StratifiedKFold(2).split(X, y))
    fitted = clone(model).fit(X[train], y[train], weights[train])
    correct = fitted.certify(X[test], y[test]).correct
    assert scores[0] == pytest.approx(np.average(correct, weights=weights[test]))
    assert plain[0] == pytest.approx(correct.mean())


def mail_like(n=200, seed=0):
    return make_mail_like(n, 100, random_state=seed)


@pytest.mark.parametrize("max_fpr", [0.0, 0.05, 0.3])
def test_scores_are_those_of_the_security_curve(max_fpr):
    X, y = mail_like()
    X_new, y_new = mail_like(seed=1)
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
    X, y = mail_like()
    model = linear(FDrop(1).only_for("ham"), C=0.05).fit(X, y)
    by_rule, named = detection_scorer(0.1), detection_scorer(0.1, label="ham")
    assert by_rule(model, X, y) == named(model, X, y)
    assert detection_scorer(0.1, FDrop(1))(model, X, y) == detection_scorer(0.1, FDrop(1), label="spam")(
        model, X, y
    )
    with pytest.raises(ValueError, match="label must be one of the classes.*'ham', 'spam'.*got 'eggs'"):
        detection_scorer(0.1, label="eggs")(model, X, y)


def test_a_fold_without_one_of_the_labels_has_no_rate():
    X, y = mail_like()
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
    X, y = mail_like()
    three = linear(C=0.1).fit(X, np.arange(len(y)) % 3)
    with pytest.raises(ValueError, match="two classes for detection rates, got 3"):
        detection_scorer(0.1, Identity())(three, X, np.arange(len(y)) % 3)


def test_a_scorer_of_detection_can_be_pickled():
    X, y = (
        ["win cash now", "cheap cash", "lunch at noon", "see you at lunch"] * 4,
        ["spam", "spam", "ham", "ham"] * 4,
    )
    model = InvariantTextClassifier("drop", 1, C=0.1, random_state=0).fit(X, y)
    scorer = detection_scorer(0.1, TokenEdits("add", 1))
    assert pickle.loads(pickle.dumps(scorer))(model, X, y) == scorer(model, X, y)
