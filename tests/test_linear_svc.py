import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC

from structinv import InvariantLinearSVC
from structinv.oracles import Box, FDrop, FScale
from structinv.solvers import FrankWolfe, Pegasos, Solution, Status


def mails(n=60, d=12, n_classes=2, seed=0):
    """Counts of words, some of which lean to a class, and labels as strings."""
    rng = np.random.default_rng(seed)
    codes = np.arange(n) % n_classes
    rates = rng.gamma(1.0, 1.0, (n_classes, d))
    X = rng.poisson(0.8 * rates[codes]).astype(float)
    return X, np.array(["ham", "spam", "news", "work"])[codes]


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


def test_solver_instances_are_parameters_and_stay_untouched():
    X, y = mails()
    model = InvariantLinearSVC(solver=Pegasos(), tol=0.5, C=0.02)
    model.set_params(solver__average=True)
    before = model.solver.get_params()
    model.fit(X, y)
    assert model.solver.get_params() == before
    assert vars(model.solver) == before
    wide = np.hstack([X, X])
    for rows, name, same in (
        (X, "bmrm", "auto"),
        (wide, "frank_wolfe", "auto"),
        (X, "frank_wolfe", FrankWolfe()),
    ):
        expected = InvariantLinearSVC(solver=name, random_state=0).fit(rows, y)
        found = InvariantLinearSVC(solver=same, random_state=0).fit(rows, y)
        assert np.array_equal(found.coef_, expected.coef_)


@pytest.mark.parametrize("oracle", [None, FScale(2), FScale(1) | FDrop(2)], ids=str)
def test_the_seed_decides_every_bit(oracle):
    X, y = mails()
    X = sp.csr_matrix(X)

    def coef(seed):
        model = InvariantLinearSVC(oracle, C=0.1, solver="frank_wolfe", tol=1e-5, random_state=seed)
        return model.fit(X, y).coef_

    assert coef(3).tobytes() == coef(3).tobytes()
    assert coef(np.random.RandomState(3)).tobytes() == coef(3).tobytes()
    assert coef(4).tobytes() != coef(3).tobytes()


def test_oracles_do_not_see_the_intercept():
    # No feature can be relied on, so that all that is left to learn is which class is larger.
    X, y = mails()
    mostly_ham = np.where(np.arange(len(y)) % 4 == 1, "spam", "ham")
    model = InvariantLinearSVC(Box(100.0), tol=1e-6, random_state=0).fit(X, mostly_ham)
    np.testing.assert_allclose(model.coef_, 0.0, atol=1e-3)
    assert model.intercept_[0] == pytest.approx(-1.0, abs=1e-3)
    assert model.certify(X, mostly_ham).accuracy == 0.75


def texts():
    spam = ["cheap pills now", "win cash now now", "cheap cash offer", "pills offer win"]
    ham = ["meeting at noon", "see the report", "the meeting report is late", "lunch at noon"]
    return (spam + ham) * 4, (["spam"] * 4 + ["ham"] * 4) * 4


@pytest.mark.parametrize("vectorizer", [CountVectorizer(), TfidfVectorizer()], ids=str)
def test_works_after_a_vectorizer(vectorizer):
    mail, labels = texts()
    model = make_pipeline(vectorizer, InvariantLinearSVC(FDrop(1), C=10.0, random_state=0))
    model.fit(mail, labels)
    assert model.score(mail, labels) == 1.0
    assert model.predict(["cheap cash now", "the noon meeting"]).tolist() == ["spam", "ham"]
    rows = model[0].transform(mail)
    certificate = model[-1].certify(rows, labels)
    assert 0.5 < certificate.accuracy <= 1.0


def test_a_changed_oracle_certifies_the_same_model():
    X, y = mails()
    model = InvariantLinearSVC(FDrop(0), random_state=0).fit(X, y)
    shares = [model.set_params(oracle__max_changes=K).certify(X, y).accuracy for K in range(5)]
    assert shares[0] == model.score(X, y)
    assert shares == sorted(shares, reverse=True)
    assert shares[-1] < shares[0]
