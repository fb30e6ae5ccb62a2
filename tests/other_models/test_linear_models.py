"""Which models are linear: weights are compared with scores and labels of the model."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import BaggingClassifier
from sklearn.linear_model import (
    LogisticRegression,
    LogisticRegressionCV,
    Perceptron,
    Ridge,
    RidgeClassifier,
    RidgeClassifierCV,
    SGDClassifier,
)
from sklearn.model_selection import GridSearchCV
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier, OutputCodeClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC, NuSVC

from structinv import InvariantLinearSVR, RepresenterClassifier, VirtualSVC, certify
from structinv.oracles import Box, FDrop

from ..margins import dropped
from .cases import check_by_force, corners, rows

CLASSIFIERS = [
    LinearSVC(),
    LinearSVC(fit_intercept=False),
    LogisticRegression(),
    LogisticRegressionCV(cv=3),
    RidgeClassifier(),
    RidgeClassifierCV(),
    SGDClassifier(random_state=0),
    SGDClassifier(loss="log_loss", average=True, random_state=0),
    Perceptron(random_state=0),
    LinearDiscriminantAnalysis(),
    OneVsRestClassifier(LogisticRegression()),
    GridSearchCV(LinearSVC(), {"C": [0.1, 1.0]}, cv=2),
]


@pytest.mark.filterwarnings("ignore::FutureWarning:sklearn")
@pytest.mark.parametrize("classifier", CLASSIFIERS, ids=lambda model: str(model)[:40])
def test_margins_are_those_of_the_worst_corner(classifier):
    for n_classes in (2, 3):
        X, y = rows(n_classes)
        model = classifier.fit(X, y)
        check_by_force(model, certify(model, Box(0.4), X, y), corners(X, 0.4), y)
        check_by_force(model, certify(model, FDrop(2), X, y), dropped(X, 2), y)


class Shifted(LogisticRegression):
    """Its scores are not those of its weights."""

    def decision_function(self, X):
        return np.tanh(super().decision_function(X))


class Threshold(LogisticRegression):
    """It does not predict by the sign of its scores."""

    def predict(self, X):
        return self.classes_[(self.decision_function(X) > 4.0).astype(int)]


class Recording(LogisticRegression):
    """It stores the inputs of its scores."""

    def decision_function(self, X):
        vars(self).setdefault("seen", []).append(X)
        return super().decision_function(X)


def test_scores_of_the_rows_are_computed_once_unless_predict_is_overridden():
    X, y = rows(3)
    model = Recording().fit(X, y)
    for n_calls in (1, 2):
        model.seen = []
        margins = certify(model, FDrop(2), X, y).margins
        assert sum(each is X for each in model.seen) == n_calls
        assert np.array_equal(margins, certify(LogisticRegression().fit(X, y), FDrop(2), X, y).margins)
        model.predict = lambda given: LogisticRegression.predict(model, given)


REFUSED = {
    "regressor": (
        make_pipeline(StandardScaler(), Ridge()),
        TypeError,
        "must be a classifier, got the regressor Ridge: use InvariantLinearSVR for bounds of pred",
    ),
    "regressor of ours": (
        InvariantLinearSVR(Box(0.1)),
        TypeError,
        r"got the regressor InvariantLinearSVR: call its method certify\(X, oracle=...\)",
    ),
    "neighbors": (KNeighborsClassifier(), TypeError, "KNeighborsClassifier has no coef_"),
    "kernel": (SVC(), TypeError, "SVC has no coef_"),
    "virtual samples": (
        VirtualSVC(),
        TypeError,
        "VirtualSVC has no coef_.*train InvariantSVC with the same",
    ),
    "kernel of ours": (RepresenterClassifier(), TypeError, "RepresenterClassifier has no coef_"),
    "pairs": (OneVsOneClassifier(LinearSVC()), TypeError, "OneVsOneClassifier has no coef_: its scores"),
    "codes": (OutputCodeClassifier(LinearSVC()), TypeError, "has no coef_: its scores are made of"),
    "rest": (
        OneVsRestClassifier(KNeighborsClassifier()),
        TypeError,
        "linear classifiers with one label per row, got KNeigh",
    ),
    "bag": (BaggingClassifier(LinearSVC()), TypeError, "BaggingClassifier has no coef_"),
    "calibrated": (CalibratedClassifierCV(LinearSVC(), cv=2), TypeError, "linear classifier inside"),
    "scores": (Shifted(), ValueError, "Shifted is not a linear classifier: its decision_function"),
    "threshold": (Threshold(), ValueError, "Threshold does not predict the class with the highest"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_models_that_are_not_linear_are_errors(name):
    model, error, message = REFUSED[name]
    X, y = rows()
    codes = (y == "b").astype(int)
    with pytest.raises(error, match=message):
        certify(model.fit(X, codes), Box(0.1), X, codes)


class Votes(ClassifierMixin, BaseEstimator):
    """Three functions of pairs of three classes, and a vote of them."""

    classes_ = np.arange(3)

    def __init__(self, coef, intercept):
        self.coef, self.intercept = self.coef_, self.intercept_ = coef, intercept

    def fit(self, X, y):
        return self

    def decision_function(self, X):
        return X @ self.coef_.T + self.intercept_

    def predict(self, X):
        wins = self.decision_function(X) > 0
        votes = np.stack([wins[:, 0] + 0 + wins[:, 1], 1 + wins[:, 2] - wins[:, 0]], axis=1)
        return np.argmax(np.column_stack([votes, 3 - votes.sum(axis=1)]), axis=1)


class TestVotes:
    # Of three classes there are as many pairs as classes.
    @pytest.mark.parametrize(
        ("kind", "shape", "n_classes"), [(SVC, "ovo", 3), (SVC, "ovr", 4), (NuSVC, "ovr", 3)]
    )
    def test_pairs_of_support_vector_machines_are_errors(self, kind, shape, n_classes):
        X, y = rows(n_classes)
        model = kind(kernel="linear", decision_function_shape=shape).fit(X, y)
        with pytest.raises(TypeError, match=f"predicts one of {n_classes} classes by votes of pairs"):
            certify(model, Box(0.1), X[:1])
        for around in (model, make_pipeline(StandardScaler(), model), GridSearchCV(model, {}, cv=2)):
            with pytest.raises(TypeError, match="by votes of pairs"):
                certify(around.fit(X, y), Box(0.1), X[:1])

    @pytest.mark.parametrize("sparse", [False, True])
    def test_votes_are_found_where_they_agree_on_the_given_rows(self, sparse):
        agreed = 0
        for seed in range(200):
            rng = np.random.default_rng(seed)
            model = Votes(rng.standard_normal((3, 4)), rng.standard_normal(3))
            X = rng.standard_normal((1, 4))
            if model.predict(X) != np.argmax(model.decision_function(X), axis=1):
                continue
            agreed += 1
            with pytest.raises(ValueError, match="Votes does not predict the class with the highest"):
                certify(model, FDrop(1), sp.csr_matrix(X) if sparse else X)
        assert agreed > 20

    def test_one_against_the_rest_and_two_classes_are_linear(self):
        for n_classes, machine in (
            (3, OneVsRestClassifier(SVC(kernel="linear"))),
            (2, NuSVC(kernel="linear")),
        ):
            X, y = rows(n_classes)
            model = machine.fit(X, y)
            check_by_force(model, certify(model, Box(0.4), X, y), corners(X, 0.4), y)


def test_the_rounding_of_support_vectors_that_cancel_is_taken_off():
    """Terms of 1e6 leave scores of about 1."""
    X, y = rows(2)
    X = np.hstack([X, 1e4 + X[:, :2]])
    model = SVC(kernel="linear", C=1e3).fit(X, y)
    certificate = certify(model, Box(1e-3), X, y)
    rounding = certificate.attacked - certificate.margins
    terms = np.abs(model.dual_coef_) @ np.abs(model.support_vectors_) @ np.abs(X.T)
    assert np.all(rounding >= 2**-52 * terms[0])
    assert certificate.exact.all()


def test_several_labels_per_row_are_errors():
    X, _ = rows()
    Y = (X[:, :3] > 0).astype(int)
    with pytest.raises(TypeError, match="linear classifiers with one label per row, got several labels"):
        certify(OneVsRestClassifier(LogisticRegression()).fit(X, Y), Box(0.1), X)
    with pytest.raises(ValueError, match="RidgeClassifier is not a linear classifier"):
        certify(RidgeClassifier().fit(X, Y), Box(0.1), X)
