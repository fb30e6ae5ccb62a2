"""What is around a linear classifier and before it."""

import numpy as np
import pytest
from sklearn.base import BaseEstimator
from sklearn.linear_model import (
    LogisticRegression,
)
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import MaxAbsScaler, StandardScaler
from sklearn.svm import LinearSVC

from structinv import InvariantLinearSVC, certify
from structinv.inspection import security_curve
from structinv.model_selection import select_changes
from structinv.oracles import Box, FDrop
from structinv.report import write

from .cases import check_by_force, corners, rows


def test_searches_around_and_inside():
    X, y = rows()
    pipeline = make_pipeline(StandardScaler(), LogisticRegression())
    around = GridSearchCV(pipeline, {"logisticregression__C": [0.1, 1.0]}, cv=2).fit(X, y)
    check_by_force(around, certify(around, Box(0.1), X, y, at="input"), corners(X, 0.1), y)
    inside = make_pipeline(StandardScaler(), GridSearchCV(LinearSVC(), {"C": [0.1, 1.0]}, cv=2))
    inside.fit(X, y)
    check_by_force(inside, certify(inside, Box(0.1), X, y, at="input"), corners(X, 0.1), y)


class Sampler(BaseEstimator):
    """A step of imbalanced-learn: it changes the training rows only, and has no transform."""

    def fit_resample(self, X, y):
        return X, y


class WithSamplers(Pipeline):
    """It skips samplers in prediction, as the Pipeline of imbalanced-learn does."""

    def _validate_steps(self):
        pass

    def _iter(self, with_final=True, filter_passthrough=True):
        for place, name, step in super()._iter(with_final, filter_passthrough):
            if not hasattr(step, "fit_resample"):
                yield place, name, step


@pytest.mark.parametrize("last", [LinearSVC(), InvariantLinearSVC(FDrop(1), random_state=0)], ids=str)
def test_steps_that_resample_the_training_rows_are_skipped(last, tmp_path):
    X, y = rows()
    X = np.abs(X)
    steps = [("scale", MaxAbsScaler()), ("sample", Sampler()), ("last", last)]
    model = WithSamplers(steps).fit(X, y)
    plain = make_pipeline(model[0], model[2])
    for at in ("features", "input"):
        found, expected = (certify(each, FDrop(1), X, y, at=at) for each in (model, plain))
        np.testing.assert_array_equal(found.margins, expected.margins)
    curve = security_curve({"": model}, X, y, oracle=FDrop(1), n_changes=[0, 1], label="b")
    assert np.all(np.diff(curve.detected[""]) <= 0)
    found, expected = (
        select_changes(each, X, y, {f"{name}__C": [0.1, 1.0]}, oracle=FDrop(1), cv=2)
        for each, name in ((model, "last"), (plain, type(last).__name__.lower()))
    )
    name = "mean_test_certified"
    np.testing.assert_array_equal(found.cv_results_[name], expected.cv_results_[name])
    if isinstance(last, InvariantLinearSVC):
        write(tmp_path / "report.html", model, X, y)
