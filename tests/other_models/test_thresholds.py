"""Certificates of moved thresholds and calibrated classifiers, against the labels of all edited rows."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import expit
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.feature_extraction.text import CountVectorizer, TfidfTransformer
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.model_selection import FixedThresholdClassifier, GridSearchCV, TunedThresholdClassifierCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.naive_bayes import BernoulliNB, CategoricalNB, ComplementNB, GaussianNB, MultinomialNB
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, MaxAbsScaler
from sklearn.svm import LinearSVC

from structinv import InvariantLinearSVC, InvariantSVC, InvariantTextClassifier, certify
from structinv.inspection import explain_edit
from structinv.oracles import Box, FDrop, Flip, Identity, TokenEdits

from ..covering import slow_unless
from ..margins import dropped
from .cases import D, calibrated, check_labels, counts, edited, moved, texts_and_labels


class Own(LogisticRegression):
    """Its probabilities might be any."""


SCORES = {"response_method": "decision_function"}
X, Y = counts(seed=3)
FITTED = FrozenEstimator(LogisticRegression().fit(X, Y))
TURNED = FrozenEstimator(LogisticRegression().fit(X, np.where(Y == "ham", "spam", "ham")))
MOVED = {
    "fitted": moved(FITTED, 0.7),
    "fitted, isotonic": CalibratedClassifierCV(FITTED, method="isotonic"),
    "falling sigmoid": CalibratedClassifierCV(TURNED, method="sigmoid"),
    "falling sigmoid, moved": moved(CalibratedClassifierCV(TURNED, method="sigmoid"), 0.7),
    "default": moved(LogisticRegression(), "auto"),
    "probability": moved(LogisticRegression(), 0.7),
    "the other class": moved(LogisticRegression(), 0.7, pos_label="ham"),
    "score": moved(LogisticRegression(), 0.4, **SCORES),
    "score of the other class": moved(LinearSVC(), 0.2, pos_label="ham"),
    "score of a class that is not known": moved(Own(), 0.4, **SCORES),
    "svc": moved(LinearSVC(), "auto"),
    "log loss": moved(SGDClassifier(loss="log_loss", random_state=0), 0.8),
    "modified huber": moved(SGDClassifier(loss="modified_huber", alpha=0.1, random_state=0), 0.8),
    "modified huber, certain": moved(SGDClassifier(loss="modified_huber", random_state=0), 1.0),
    "discriminants": moved(LinearDiscriminantAnalysis(), 0.6),
    "rest": moved(OneVsRestClassifier(LogisticRegression()), 0.6),
    "naive bayes": moved(MultinomialNB(), 0.8),
    "naive bayes, the other class": moved(ComplementNB(), 0.35, pos_label="ham"),
    "bernoulli": moved(BernoulliNB(), 0.6),
    "ours": moved(InvariantLinearSVC(random_state=0), 0.1),
    "tuned": TunedThresholdClassifierCV(LogisticRegression(), cv=3, thresholds=20),
    "twice": moved(moved(LogisticRegression(), 0.9), 0.65),
    "pipeline": moved(make_pipeline(MaxAbsScaler(), LogisticRegression(C=10.0)), 0.6),
    "search": moved(GridSearchCV(LogisticRegression(), {"C": [1.0]}, cv=2), 0.6),
    "sigmoid": calibrated(LinearSVC(), "sigmoid"),
    "isotonic": calibrated(LinearSVC(), "isotonic"),
    "sigmoid, naive bayes": calibrated(MultinomialNB(), "sigmoid"),
    "isotonic, naive bayes": calibrated(MultinomialNB(), "isotonic"),
    "isotonic, bernoulli": calibrated(BernoulliNB(), "isotonic"),
    "moved sigmoid": moved(calibrated(LinearSVC(), "sigmoid"), 0.7),
    "moved isotonic": moved(calibrated(LogisticRegression(), "isotonic"), 0.7),
    "moved isotonic, the other class": moved(calibrated(LinearSVC(), "isotonic"), 0.6, pos_label="ham"),
    "calibrated after moved": calibrated(moved(LogisticRegression(), 0.9), "sigmoid"),
}


# Other cases have the same functions of the scores, and the same scores.
ALIKE = ("isotonic, bernoulli", "sigmoid, naive bayes", "moved isotonic, the other class")


@pytest.mark.parametrize("name", slow_unless(lambda name: name not in ALIKE, [(n,) for n in MOVED]))
def test_moved_thresholds(name):
    X, y = counts(seed=3)
    at = "input" if name in ("pipeline", "search") else "features"
    single = name in ("probability", "naive bayes")
    for dtype in [np.float64, np.float32][: 1 + single]:
        rows, only_given = X.astype(dtype), dtype is np.float32 or not single
        model = MOVED[name].fit(rows, y)
        check_labels(model, FDrop(2), rows, y, dropped(rows, 2), only_given, at=at)


def doubled(proba):
    """Probabilities of twice the log odds."""

    def twice(X):
        squares = proba(X) ** 2
        return squares / squares.sum(axis=1, keepdims=True)

    return twice


WITH_LINKS = [
    "probability", "log loss", "modified huber", "discriminants", "rest", "naive bayes", "bernoulli",
    "pipeline", "search", "twice", "sigmoid", "isotonic", "moved sigmoid", "moved isotonic",
    "sigmoid, naive bayes", "calibrated after moved",
]  # fmt: skip


@pytest.mark.parametrize("name", WITH_LINKS)
def test_links_are_compared_with_the_probabilities_of_the_model(name):
    X, y = counts(seed=3)
    model = clone(MOVED[name]).fit(X, y)
    has_link = model
    inside = {
        FixedThresholdClassifier: lambda model: model.estimator_,
        Pipeline: lambda model: model[-1],
        GridSearchCV: lambda model: model.best_estimator_,
    }
    while type(has_link) in inside:
        has_link = inside[type(has_link)](has_link)
    has_link.predict_proba = doubled(has_link.predict_proba)
    message = f"predict_proba of {type(has_link).__name__} is not the known function of its score"
    for some in (X, X[:1], sp.csr_matrix(X[:3])):
        with pytest.raises(ValueError, match=message):
            certify(model, FDrop(1), some)


@pytest.mark.parametrize(
    ("model", "missing", "has"),
    [
        (LinearSVC(), "predict_proba", "decision_function"),
        (MultinomialNB(), "decision_function", "predict_"),
    ],
    ids=str,
)
def test_methods_that_the_model_lacks_are_named(model, missing, has):
    X, y = counts()
    around = moved(model, 0.3, response_method=missing).fit(X, y)
    message = f"{type(model).__name__} has no method {missing}, .*: fit that with response_method='{has}"
    with pytest.raises(ValueError, match=message):
        certify(around, FDrop(1), X, y)


def test_certificates_of_sparse_rows_and_texts():
    X, y = counts()
    for name in ("isotonic", "bernoulli"):
        model = MOVED[name].fit(X, y)
        dense, sparse = certify(model, FDrop(2), X, y), certify(model, FDrop(2), sp.csr_matrix(X), y)
        np.testing.assert_allclose(dense.margins, sparse.margins, atol=1e-9)
    mails = ["win cash now", "cash offer", "meeting at noon", "noon report at work", "win work"] * 3
    labels = ["spam", "spam", "ham", "ham", "ham"] * 3
    weights = TfidfTransformer(norm=None)
    model = make_pipeline(CountVectorizer(), moved(make_pipeline(weights, MultinomialNB()), 0.6))
    certificate = certify(model.fit(mails, labels), FDrop(1), mails, labels)
    rows = model[:-1].transform(mails)
    # Rows of the innermost step, which the weights have scaled.
    inner = model[-1].estimator_
    alone = moved(FrozenEstimator(inner[-1]), 0.6).fit(rows, labels)
    expected = certify(alone, FDrop(1), inner[:-1].transform(rows), labels)
    np.testing.assert_array_equal(certificate.margins, expected.margins)


def test_a_threshold_around_a_fitted_classifier_needs_no_fit():
    check_labels(moved(FITTED.estimator, 0.7), FDrop(2), X, Y, dropped(X, 2))


@pytest.mark.parametrize(("threshold", "label"), [(0.0, "spam"), (1.5, "ham"), (-7.0, "spam")])
def test_unreachable_thresholds_give_infinite_margins(threshold, label):
    X, y = counts()
    model = moved(LogisticRegression(), threshold).fit(X, y)
    certificate = certify(model, FDrop(5), X, y)
    np.testing.assert_array_equal(certificate.correct, y == label)
    np.testing.assert_array_equal(certificate.margins, np.where(y == label, np.inf, -np.inf))
    assert certificate.exact.all()
    assert certificate.accuracy == model.score(X, y) == certificate.attacked_accuracy


class TestPlateaus:
    """Isotonic calibration is flat between its steps."""

    def fitted(self, scores, labels):
        """A model whose score is the only feature, and its calibration."""
        inner = LogisticRegression(C=100.0).fit([[-1.0], [1.0]], ["ham", "spam"])
        inner.coef_, inner.intercept_ = np.array([[1.0]]), np.array([0.0])
        model = CalibratedClassifierCV(FrozenEstimator(inner), method="isotonic")
        return model.set_params(cv=2).fit(np.array(scores)[:, None], labels)

    def test_a_plateau_at_one_half_is_of_the_first_class(self):
        scores = [-3.0, -2.0, -1.0, 1.0, 2.0, 3.0]
        model = self.fitted(scores, ["ham", "ham", "spam", "ham", "spam", "spam"])
        calibrator = model.calibrated_classifiers_[0].calibrators[0]
        assert calibrator.predict([0.0])[0] == 0.5
        grid = np.linspace(-4.0, 4.0, 161)[:, None]
        labels = model.predict(grid)
        assert np.all(labels[np.abs(grid[:, 0]) <= 1.0] == "ham")
        for t in (0.25, 0.9):
            moves = np.concatenate([grid, grid - t, grid + t], axis=1)
            stays = np.all(model.predict(moves.reshape(-1, 1)).reshape(-1, 3) == labels[:, None], axis=1)
            found = certify(model, Box(t), grid, at="features")
            off = np.abs(np.abs(grid[:, 0] - 1.0) - t) > 1e-9
            np.testing.assert_array_equal(found.correct[off], stays[off])
        # The threshold of the first class is the end of the plateau, a moved one its beginning.
        for each, label in ((model, "ham"), (moved(model, 0.5), "spam")):
            assert each.predict([[0.0]]) == [label]
            np.testing.assert_allclose(certify(each, Box(0.0), [[0.0]], [label]).margins, 1.0)

    def test_one_plateau_over_all_scores(self):
        model = self.fitted([-1.0, 0.0, 1.0, 2.0], ["spam", "spam", "ham", "ham"])
        found = certify(model, Box(9.0), [[0.0]], ["ham"])
        assert found.correct.tolist() == [True]
        assert model.predict([[-9.0], [9.0]]).tolist() == ["ham", "ham"]


GRID = np.column_stack([np.zeros(25), np.linspace(0.0, 12.0, 25)])
SIDES = np.where(GRID[:, 1] < 6.0, "ham", "spam")
# Distances from a threshold, from far to near.
AROUND = np.outer([-1.0, 1.0], 0.5 ** np.arange(2, 50)).ravel()


def logistic():
    """Logistic regression with the score ``x - 6`` in the second column."""
    model = LogisticRegression().fit(GRID, SIDES)
    model.coef_[:], model.intercept_[:] = [0.0, 1.0], -6.0
    return FrozenEstimator(model)


def bayes():
    """Naive Bayes whose classes have equal weights in the first column, and the score ``x / 2 - 3``."""
    model = MultinomialNB().fit(GRID, SIDES)
    model.feature_log_prob_ = np.array([[-1.0, -1.0], [-1.0, -0.5]])
    model.class_log_prior_ = np.array([-1.0, -4.0])
    return FrozenEstimator(model)


def flattened(inner, slope):
    model = calibrated(inner, "sigmoid").fit(GRID, SIDES)
    (calibrator,) = model.calibrated_classifiers_[0].calibrators
    calibrator.a_, calibrator.b_ = -slope, 0.0
    return FrozenEstimator(model)


def gentle():
    """An isotonic function with a single piece, from scores of -1e5 to 1e5."""
    ends = np.tile([[0.0, 6.0 - 1e5], [0.0, 6.0 + 1e5]], (6, 1))
    return FrozenEstimator(calibrated(logistic(), "isotonic").fit(ends, ["ham", "spam"] * 6))


STEEP = {
    "nearly certain": moved(logistic(), 1.0 - 1e-6),
    "nearly certain, the other class": moved(logistic(), 1.0 - 1e-6, pos_label="ham"),
    "flat sigmoid": moved(flattened(logistic(), 1e-4), 0.5001),
    "gentle isotonic": moved(gentle(), 0.5),
    "sigmoid of nearly certain": moved(flattened(bayes(), 1e-3), expit(1e-3 * (1.0 - 1e-7))),
}


@pytest.mark.parametrize("name", STEEP)
def test_probabilities_within_rounding_of_the_threshold_are_not_certified(name):
    model = STEEP[name].fit(GRID, SIDES)
    low, high = 0.0, 100.0
    if name.endswith("the other class"):
        low = -100.0
    while low < (middle := 0.5 * (low + high)) < high:
        is_above = model.predict([[0.0, middle]])[0] == "spam"
        low, high = (low, middle) if is_above else (middle, high)
    X = np.column_stack([np.zeros(len(AROUND)), high + AROUND])
    value = model.estimator_.predict_proba(X)[:, 0 if model.pos_label == "ham" else 1]
    is_near = np.abs(value - model.threshold) <= np.finfo(float).eps
    certificate = certify(model, Identity(), X)
    assert np.sum(is_near) > 10
    assert np.any(certificate.correct)
    assert not np.any(certificate.correct & is_near)


@pytest.mark.parametrize("at", ["features", "input"])
def test_errors_of_large_log_probabilities_at_a_threshold_are_subtracted(at):
    threshold = 2.0 * (np.log(999.0) + 3.0)
    X = np.column_stack([np.full(len(AROUND), 1e9), threshold + AROUND])
    truth, last = np.where(AROUND > 0, "spam", "ham"), bayes()
    if at == "input":
        squares = ("first", FunctionTransformer(np.square), [0])
        steps = ColumnTransformer([squares, ("second", "passthrough", [1])])
        X[:, 0] = np.sqrt(1e9)
        last = make_pipeline(steps.fit(X), last)
    model = moved(last, 0.999).fit(X, truth)
    certificate, is_wrong = certify(model, Identity(), X, truth, at=at), model.predict(X) != truth
    assert np.any(is_wrong & (certificate.attacked > 0))
    assert np.any(certificate.correct)
    assert not np.any(certificate.correct & is_wrong)


class Halved(MultinomialNB):
    def predict(self, X):
        return super().predict(X / 2)


class Odd(FixedThresholdClassifier):
    pass


AVERAGED = CalibratedClassifierCV(LinearSVC(), cv=3)
DIVIDED = "3 classes divides one probability per class by their sum"
REFUSED = [
    (AVERAGED, 2, TypeError, "averages 3 calibrated classifiers.*ensemble=False"),
    (moved(AVERAGED, 0.4), 2, TypeError, "averages 3 calibrated classifiers"),
    (calibrated(LinearSVC(), "sigmoid"), 3, ValueError, DIVIDED),
    (calibrated(LinearSVC(), "isotonic"), 3, ValueError, DIVIDED),
    (moved(Own(), 0.4), 2, TypeError, "predict_proba of Own is not known .*decision_function"),
    (moved(MultinomialNB(), 1.0), 2, ValueError, "FixedThresholdClassifier .* after rounding"),
    (moved(MultinomialNB(), 1e-16), 2, ValueError, "different scores have equal probabilities"),
    (moved(MultinomialNB(), 1.0 - 1e-15), 2, ValueError, "different scores have equal probabilities"),
    (GaussianNB(), 2, TypeError, "GaussianNB has no coef_: its scores are made of squares"),
    (CategoricalNB(), 2, TypeError, "CategoricalNB has no coef_: .* a table of weights for each"),
    (Halved(), 2, TypeError, "Halved has no coef_"),
    (Odd(LogisticRegression()), 2, TypeError, "Odd has no coef_"),
    (moved(InvariantSVC(Flip(shape=(1, D))), 0.1), 2, TypeError, "InvariantSVC has no coef_"),
]


@pytest.mark.parametrize(("model", "n_classes", "error", "message"), REFUSED, ids=range(len(REFUSED)))
def test_unsupported_models_are_errors(model, n_classes, error, message):
    X, y = counts(n_classes)
    with pytest.raises(error, match=message):
        certify(model.fit(X, y), FDrop(1), X, y)


HEADS = {
    "fixed": lambda model: moved(model, 0.3, pos_label="ham", response_method="decision_function"),
    "frozen": lambda model: moved(FrozenEstimator(model), -0.2, response_method="decision_function"),
    "tuned": lambda model: TunedThresholdClassifierCV(model, response_method="decision_function", cv=3),
    "calibrated": lambda model: calibrated(model, "sigmoid"),
    "calibrated, moved": lambda model: moved(calibrated(model, "sigmoid"), 0.7),
}


@pytest.mark.parametrize("head", HEADS)
def test_texts_are_certified_from_the_threshold(head):
    texts, y = texts_and_labels(24)
    inner = InvariantTextClassifier("drop", max_changes=1, C=0.1, random_state=0).fit(texts, y)
    model = HEADS[head](inner).fit(texts, y)
    oracle = TokenEdits("drop", 2)
    reached = [
        model.predict(list({" ".join(tokens) for tokens in edited(text.split(), "drop", 2, ())}))
        for text in texts
    ]
    correct = np.array([np.all(each == label) for each, label in zip(reached, y, strict=True)])
    stays = np.array(
        [np.all(each == now) for each, now in zip(reached, model.predict(texts), strict=True)]
    )
    certificate = certify(model, oracle, texts, y)
    assert certificate.exact.all()
    assert certificate.correct.tolist() == correct.tolist()
    if head in ("fixed", "calibrated"):
        assert certify(model, oracle, texts).correct.tolist() == stays.tolist()
    assert 0 < correct.mean() < 1


def test_margins_of_texts_are_distances_from_the_threshold():
    texts, y = texts_and_labels()
    inner = InvariantTextClassifier("drop", max_changes=2, only_for="spam", C=0.1, random_state=0)
    inner.fit(texts, y)
    model = moved(FrozenEstimator(inner), 0.25, response_method="decision_function").fit(texts, y)
    shift = np.where(y == "spam", -0.25, 0.25)
    for oracle in (None, TokenEdits("add", 3), TokenEdits("drop", 1).only_for(["ham"])):
        expected = inner.certify(texts, y, oracle=oracle).margins + shift
        assert np.allclose(certify(model, oracle, texts, y).margins, expected, rtol=0, atol=1e-12)


def test_explanations_and_certificates_leave_models_with_a_threshold_unchanged():
    inner = InvariantLinearSVC(random_state=0).fit(X, Y)
    model = moved(FrozenEstimator(inner), 0.25, **SCORES).fit(X, Y)
    scores, labels = inner.decision_function(X), model.predict(X)
    for _ in range(2):
        margin = explain_edit(model, X[:1], ["spam"], oracle=FDrop(2)).margin
        assert margin == pytest.approx(scores[0] - 0.25)
        certify(model, FDrop(2), X, Y)
        np.testing.assert_array_equal(inner.decision_function(X), scores)
        np.testing.assert_array_equal(model.predict(X), labels)


def test_texts_with_a_threshold_are_certified_in_blocks(monkeypatch):
    texts, y = texts_and_labels(8)
    inner = InvariantTextClassifier("drop", max_changes=1, C=0.1, random_state=0).fit(texts, y)
    model = moved(inner, 0.1, response_method="decision_function").fit(texts, y)
    oracle = TokenEdits("drop", 2)
    alone = [certify(model, oracle, [text], [label]) for text, label in zip(texts, y, strict=True)]
    monkeypatch.setattr("structinv.other_models.certify_model.ROWS_AT_ONCE", 3)
    margins = certify(model, oracle, texts, y).margins
    np.testing.assert_allclose(margins, [each.margins[0] for each in alone], rtol=0, atol=1e-12)


def test_texts_with_a_threshold_have_the_errors_of_texts():
    texts, y = texts_and_labels()
    model = moved(InvariantTextClassifier(random_state=0), 0.1).fit(texts, y)
    with pytest.raises(TypeError, match="oracle must be TokenEdits"):
        certify(model, FDrop(1), texts, y)
    with pytest.raises(ValueError, match="X must be a list of texts"):
        certify(model, None, np.eye(3), y[:3])
