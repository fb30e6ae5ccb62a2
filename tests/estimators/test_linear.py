"""InvariantLinearSVC against scikit-learn and formulas."""

import numpy as np
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC

from structinv import InvariantLinearSVC, TextEditsWarning
from structinv.oracles import Box, FDrop, FScale
from structinv.solvers import Solution, Status

from .cases import mails, texts


def value(model, X, y, weights=1.0, cost=None, slack=False):
    """The objective without any invariance, from the formula."""
    codes, n_classes = np.searchsorted(model.classes_, y), len(model.classes_)
    f = X @ model.coef_.T + model.intercept_
    f = np.hstack([-f / 2, f / 2]) if n_classes == 2 else f
    D = 1.0 - np.eye(n_classes) if cost is None else np.asarray(cost)
    beaten_by = f - f[np.arange(len(y)), codes][:, None]
    losses = np.max((D[codes] if slack else 1.0) * beaten_by + D[codes], axis=1)
    norm = np.sum(model.coef_**2) + np.sum(model.intercept_**2)
    return 0.5 * norm + model.C * np.sum(weights * losses)


@pytest.mark.parametrize("intercept", [False, True])
def test_without_an_oracle_it_is_linear_svc(intercept):
    X, y = mails()
    shared = {"C": 0.3, "fit_intercept": intercept, "random_state": 0}
    model = InvariantLinearSVC(tol=1e-7, **shared).fit(X, y)
    theirs = LinearSVC(loss="hinge", dual=True, tol=1e-10, max_iter=10**6, **shared).fit(X, y)
    assert model.solution_.primal == pytest.approx(value(model, X, y), rel=1e-10)
    assert model.solution_.primal == pytest.approx(value(theirs, X, y), rel=1e-6)
    np.testing.assert_allclose(model.coef_, theirs.coef_, atol=1e-2)


def test_many_classes_are_crammer_and_singers():
    X, y = mails(n_classes=4)
    shared = {"C": 0.2, "fit_intercept": False, "random_state": 0}
    model = InvariantLinearSVC(tol=1e-7, **shared).fit(X, y)
    theirs = LinearSVC(multi_class="crammer_singer", tol=1e-10, max_iter=10**6, **shared).fit(X, y)
    assert model.solution_.primal == pytest.approx(value(model, X, y), rel=1e-10)
    assert model.solution_.primal == pytest.approx(value(theirs, X, y), rel=1e-6)


@pytest.mark.parametrize("rescaling", ["margin", "slack"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_costs_and_rescaling_enter_the_objective(n_classes, rescaling):
    X, y = mails(n_classes=n_classes)
    cost = np.arange(n_classes**2).reshape(n_classes, n_classes) % 4 * (1.0 - np.eye(n_classes))
    shared = {"C": 0.2, "tol": 1e-6, "rescaling": rescaling, "random_state": 0}
    model = InvariantLinearSVC(cost=cost.tolist(), **shared).fit(X, y)
    own = value(model, X, y, cost=cost, slack=rescaling == "slack")
    assert model.solution_.primal == pytest.approx(own, rel=1e-9)
    plain = InvariantLinearSVC(**shared).fit(X, y)
    assert own < 0.99 * value(plain, X, y, cost=cost, slack=rescaling == "slack")


def test_binary_attributes_and_scores():
    X, y = mails()
    model = InvariantLinearSVC(FScale(2), random_state=0).fit(X, y)
    assert model.classes_.tolist() == ["ham", "spam"]
    assert model.coef_.shape == (1, X.shape[1])
    assert model.intercept_.shape == (1,)
    assert model.intercept_[0] != 0
    scores = model.decision_function(X)
    assert scores.shape == (len(X),)
    np.testing.assert_allclose(scores, X @ model.coef_[0] + model.intercept_[0])
    assert np.array_equal(model.predict(X), np.where(scores > 0, "spam", "ham"))
    assert model.score(X, y) == np.mean(model.predict(X) == y) > 0.8
    assert isinstance(model.solution_, Solution)
    assert model.solution_.status is Status.CONVERGED
    assert model.solution_.gap == model.solution_.primal - model.solution_.dual
    assert 0 <= model.solution_.relative_gap <= model.tol
    assert model.n_iter_ == model.solution_.iterations >= 1


def test_no_intercept_leaves_zero():
    X, y = mails()
    assert InvariantLinearSVC(fit_intercept=False).fit(X, y).intercept_.tolist() == [0.0]


def test_oracles_do_not_see_the_intercept():
    # No feature can be relied on, so that all that is left to learn is which class is larger.
    X, y = mails(n=24, d=4)
    mostly_ham = np.where(np.arange(len(y)) % 4 == 1, "spam", "ham")
    model = InvariantLinearSVC(Box(100.0), tol=1e-7, random_state=0).fit(X, mostly_ham)
    np.testing.assert_allclose(model.coef_, 0.0, atol=1e-3)
    assert model.intercept_[0] == pytest.approx(-1.0, abs=1e-3)
    assert model.certify(X, mostly_ham).accuracy == 0.75


def test_certificates_of_rows_of_length_1_warn_of_edits():
    mail, labels = texts()
    model = make_pipeline(TfidfVectorizer(), InvariantLinearSVC(FDrop(1), C=10.0, random_state=0))
    rows = model.fit(mail, labels)[0].transform(mail)
    with pytest.warns(TextEditsWarning, match="all rows have Euclidean length 1"):
        assert 0.5 < model[-1].certify(rows, labels).accuracy <= 1.0
