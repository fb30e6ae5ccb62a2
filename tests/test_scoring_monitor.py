"""scikit-learn's callbacks that score what has been learned so far, at every iteration."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.metrics import accuracy_score

from structinv import InvariantLinearSVC, InvariantSVC, RepresenterClassifier, RepresenterRegressor
from structinv.functionals import Gradient
from structinv.oracles import Box, Shifts

try:
    from sklearn.callback import ScoringMonitor
except ImportError:
    pytest.skip("scikit-learn before 1.9", allow_module_level=True)


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


def test_scores_are_weighted_as_the_fit_is():
    X, y = problem()
    weights = np.where(np.arange(60) < 30, 1.0, 3.0)
    monitor = ScoringMonitor(scoring="accuracy")
    model = clone(ESTIMATORS["linear"]).set_callbacks(monitor).fit(X, y, sample_weight=weights)
    _, last = scores_of(monitor.get_logs(), "accuracy")
    assert last == pytest.approx(accuracy_score(y, model.predict(X), sample_weight=weights))


@pytest.mark.filterwarnings("error")
def test_rows_are_scored_with_their_names():
    X, y = problem()
    frame = pd.DataFrame(X, columns=list("abcd"))
    monitor = ScoringMonitor(scoring="accuracy")
    clone(ESTIMATORS["linear"]).set_callbacks(monitor).fit(frame, y)
    assert len(monitor.get_logs().data) > 1


def test_rows_without_a_label_are_not_scored():
    X, y = problem()
    known = np.where(np.arange(60) < 10, y, -1)
    monitor = ScoringMonitor(scoring="accuracy")
    model = clone(ESTIMATORS["representer"]).set_callbacks(monitor).fit(X, known)
    _, last = scores_of(monitor.get_logs(), "accuracy")
    assert last == model.score(X[:10], y[:10])
