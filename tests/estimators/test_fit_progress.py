"""Progress of fits: what callbacks hear, scores of iterations, printed lines, early ends."""

import re

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import accuracy_score

from structinv import InvariantLinearSVC, InvariantSVC, RepresenterClassifier, RepresenterRegressor
from structinv.functionals import Gradient
from structinv.oracles import Box, FDrop, FScale, Shifts
from structinv.solvers import Status

from .cases import PREDICTORS, mails

try:
    from sklearn.callback import ProgressBar, ScoringMonitor
except ImportError:
    ProgressBar = ScoringMonitor = None
with_callbacks = pytest.mark.skipif(ProgressBar is None, reason="scikit-learn before 1.9")


def problem(n_classes=2):
    rng = np.random.default_rng(1)
    y = np.arange(40) % n_classes
    X = rng.normal(size=(40, 4))
    X[np.arange(40), y] += 1.5
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


@with_callbacks
@pytest.mark.parametrize(
    ("name", "n_classes"), [*((name, 2) for name in ESTIMATORS), ("linear", 3), ("kernel", 3)]
)
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
    weights = np.where(np.arange(40) < 20, 1.0, 3.0)
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
    known = np.where(np.arange(40) < 10, y, -1)
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
