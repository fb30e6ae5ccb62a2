"""InvariantLinearSVC against scikit-learn and formulas, its ends, and callbacks of scikit-learn."""

import re

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.metrics import accuracy_score
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC

from structinv import (
    InvariantLinearSVC,
    InvariantSVC,
    RepresenterClassifier,
    RepresenterRegressor,
    TextEditsWarning,
)
from structinv.functionals import Gradient
from structinv.oracles import Box, FDrop, FScale, Shifts
from structinv.solvers import FrankWolfe, Pegasos, Solution, Status

from .cases import PREDICTORS, texts

try:
    from sklearn.callback import ProgressBar, ScoringMonitor
except ImportError:
    ProgressBar = ScoringMonitor = None
with_callbacks = pytest.mark.skipif(ProgressBar is None, reason="scikit-learn before 1.9")


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


@pytest.mark.parametrize("oracle", [None, FScale(2)], ids=str)
def test_the_seed_decides_every_bit(oracle):
    X, y = mails()
    X = sp.csr_matrix(X)

    def coef(seed):
        model = InvariantLinearSVC(
            oracle, C=0.1, solver="frank_wolfe", fit_intercept=False, tol=1e-5, random_state=seed
        )
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


def problem(n_classes=2):
    rng = np.random.default_rng(1)
    y = np.arange(60) % n_classes
    X = rng.normal(size=(60, 4))
    X[np.arange(60), y] += 1.5
    return X, y


ESTIMATORS = {
    "linear": InvariantLinearSVC(Box(0.1), solver="frank_wolfe", random_state=0),
    "kernel": InvariantSVC(Shifts(1), random_state=0),
    "kernel, flat": InvariantSVC(invariances=[Gradient()], random_state=0),
    "representer": RepresenterClassifier(invariances=[Gradient()], random_state=0),
    "representer, oracle": RepresenterClassifier(loss="hinge", oracle=Shifts(1), random_state=0),
    "regressor": RepresenterRegressor(invariances=[Gradient()], random_state=0),
}


def scores_of(log, name):
    """The scores of the iterations, in order, and that of the whole fit."""
    rows = [row for row in log.data if row["task_name"] == "iteration"]
    (whole,) = (row for row in log.data if row["task_name"] == "fit")
    return [row[name] for row in sorted(rows, key=lambda row: row["task_id"])], whole[name]


def test_certificates_of_rows_of_length_1_warn_of_edits():
    mail, labels = texts()
    model = make_pipeline(TfidfVectorizer(), InvariantLinearSVC(FDrop(1), C=10.0, random_state=0))
    rows = model.fit(mail, labels)[0].transform(mail)
    with pytest.warns(TextEditsWarning, match="all rows have Euclidean length 1"):
        assert 0.5 < model[-1].certify(rows, labels).accuracy <= 1.0


@with_callbacks
@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_every_iteration_is_scored(name, n_classes):
    X, y = problem(n_classes)
    plain = clone(ESTIMATORS[name]).fit(X, y)
    scoring = "r2" if name == "regressor" else "accuracy"
    monitor = ScoringMonitor(scoring=scoring)
    model = clone(ESTIMATORS[name]).set_callbacks(monitor).fit(X, y)
    scores, last = scores_of(monitor.get_logs(), scoring)
    assert len(scores) == model.n_iter_
    assert last == model.score(X, y) == plain.score(X, y)
    # Looking on changes nothing.
    assert np.array_equal(model.predict(X), plain.predict(X))
    assert model.solution_.primal == plain.solution_.primal


@with_callbacks
def test_scores_are_weighted_as_the_fit_is():
    X, y = problem()
    weights = np.where(np.arange(60) < 30, 1.0, 3.0)
    monitor = ScoringMonitor(scoring="accuracy")
    model = clone(ESTIMATORS["linear"]).set_callbacks(monitor).fit(X, y, sample_weight=weights)
    _, last = scores_of(monitor.get_logs(), "accuracy")
    assert last == pytest.approx(accuracy_score(y, model.predict(X), sample_weight=weights))


@with_callbacks
@pytest.mark.filterwarnings("error")
def test_rows_are_scored_with_their_names():
    X, y = problem()
    frame = pd.DataFrame(X, columns=list("abcd"))
    monitor = ScoringMonitor(scoring="accuracy")
    clone(ESTIMATORS["linear"]).set_callbacks(monitor).fit(frame, y)
    assert len(monitor.get_logs().data) > 1


@with_callbacks
def test_rows_without_a_label_are_not_scored():
    X, y = problem()
    known = np.where(np.arange(60) < 10, y, -1)
    monitor = ScoringMonitor(scoring="accuracy")
    model = clone(ESTIMATORS["representer"]).set_callbacks(monitor).fit(X, known)
    _, last = scores_of(monitor.get_logs(), "accuracy")
    assert last == model.score(X[:10], y[:10])


class Recorder:
    """A callback that writes down what it hears and may act on the n-th iteration."""

    def __init__(self, act_on=None, act=None):
        self.act_on, self.act = act_on, act
        self.heard = []

    def setup(self, estimator, context):
        self.heard.append("setup")

    def on_fit_task_begin(self, estimator, context):
        self.heard.append(f"begin {context.task_name}")

    def on_fit_task_end(self, estimator, context, *, fitted_estimator=None):
        self.heard.append(f"end {context.task_name}")
        if context.task_name == "iteration":
            self.gap = fitted_estimator.solution_.relative_gap
            if self.heard.count("end iteration") == self.act_on:
                return self.act()
        return False

    def teardown(self, estimator, context):
        self.heard.append("teardown")


def press_ctrl_c():
    raise KeyboardInterrupt


def check_usable(model, X, y):
    assert model.predict(X).shape == y.shape
    assert np.all(np.isfinite(model.coef_))
    assert model.certify(X, y).accuracy <= model.score(X, y)
    assert model.n_iter_ == model.solution_.iterations


def test_verbose_prints_to_standard_error(capsys):
    X, y = mails()
    InvariantLinearSVC(FScale(1), random_state=0, verbose=1).fit(X, y)
    told = capsys.readouterr()
    assert told.out == ""
    line = r"\[InvariantLinearSVC\] iteration +\d+ .* primal \S+  dual \S+  relative gap \S+"
    assert re.fullmatch(line, told.err.splitlines()[0])
    InvariantLinearSVC(FScale(1), random_state=0).fit(X, y)
    assert capsys.readouterr() == ("", "")


def test_out_of_time_warns_with_advice():
    X, y = mails()
    model = InvariantLinearSVC(FScale(1), C=100.0, tol=0.0, max_seconds=1e-9, random_state=0)
    advice = r"'time limit' after 1 iterations at a relative gap of \S+ \(tol=0\): allow more sec"
    with pytest.warns(ConvergenceWarning, match=advice) as told:
        model.fit(X, y)
    assert len(told) == 1
    if ProgressBar is not None:
        assert told[0].filename == __file__
    assert model.solution_.status is Status.TIME_LIMIT
    assert model.n_iter_ == 1
    check_usable(model, X, y)


def test_a_stalled_fit_warns():
    X, y = mails()
    model = InvariantLinearSVC(Box(0.1), solver="frank_wolfe", tol=0.0, C=10.0, random_state=0)
    with pytest.warns(ConvergenceWarning, match="'stalled'.*raise tol"):
        model.fit(X, y)
    assert model.solution_.relative_gap < 1e-6


@with_callbacks
@pytest.mark.parametrize("case", PREDICTORS, ids=lambda case: case.name)
def test_callbacks_hear_every_iteration(case):
    if not hasattr(case.estimator, "set_callbacks"):
        pytest.skip("not iterative")
    recorder = Recorder()
    model = clone(case.estimator).set_params(random_state=0)
    plain = model.fit(case.X, case.y).predict(case.X)
    model.set_callbacks(recorder).fit(case.X, case.y)
    np.testing.assert_equal(model.predict(case.X), plain)
    assert recorder.heard[:2] == ["setup", "begin fit"]
    assert recorder.heard[-2:] == ["end fit", "teardown"]
    middle = recorder.heard[2:-2]
    assert middle == ["begin iteration", "end iteration"] * model.n_iter_
    assert recorder.gap <= model.tol


@with_callbacks
def test_a_callback_ends_a_fit():
    X, y = mails()
    model = InvariantLinearSVC(Box(0.1), tol=1e-9, C=10.0, random_state=0)
    model.set_callbacks(Recorder(2, lambda: True))
    with pytest.warns(ConvergenceWarning, match="'interrupted' after 2 iterations"):
        model.fit(X, y)
    assert model.solution_.status is Status.INTERRUPTED
    check_usable(model, X, y)


@with_callbacks
def test_ctrl_c_in_a_callback_leaves_a_model():
    X, y = mails()
    recorder = Recorder(3, press_ctrl_c)
    model = InvariantLinearSVC(Box(0.1), tol=1e-9, C=10.0, random_state=0, on_interrupt="return")
    model.set_callbacks(recorder)
    with pytest.warns(ConvergenceWarning, match="'interrupted' after 3 iterations"):
        model.fit(X, y)
    assert model.solution_.status is Status.INTERRUPTED
    assert recorder.heard[-2:] == ["end fit", "teardown"]
    check_usable(model, X, y)


@with_callbacks
def test_a_progress_bar_shows(capsys):
    pytest.importorskip("rich")
    X, y = mails()
    InvariantLinearSVC(FDrop(1), random_state=0).set_callbacks(ProgressBar()).fit(X, y)
    assert "InvariantLinearSVC" in capsys.readouterr().out
