"""Losses as parameters of estimators: instances are what names are."""

import numpy as np
import pytest

from structinv import RepresenterClassifier, RepresenterRegressor
from structinv.functionals import Gradient
from structinv.losses import Absolute, Hinge, Huber, Logistic, Squared, SquaredHinge

from ..losses.cases import Pinball

RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(24, 5))
TARGETS = np.sin(ROWS[:, 0]) + 0.1 * RNG.normal(size=24)
LABELS = np.where(ROWS[:, 0] > 0, "b", "a")


@pytest.mark.parametrize(
    ("name", "loss"),
    [("logistic", Logistic()), ("squared_hinge", SquaredHinge()), ("squared", Squared())],
)
def test_a_classifier_with_an_instance_is_that_with_the_name(name, loss):
    first, second = (
        RepresenterClassifier(loss=each, tol=1e-8).fit(ROWS, LABELS).alpha_ for each in (name, loss)
    )
    np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize(("name", "loss"), [("absolute", Absolute()), ("huber", Huber())])
def test_a_regressor_with_instances_is_that_with_the_names(name, loss):
    settings = {"invariances": [Gradient()], "nu": 0.1, "tol": 1e-8, "random_state": 0}
    first, second = (
        RepresenterRegressor(loss=each, invariance_loss=each, **settings).fit(ROWS, TARGETS).alpha_
        for each in (name, loss)
    )
    np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("quantile", [0.25, 0.75])
def test_the_pinball_loss_has_its_quantile_of_targets_below_the_prediction(quantile):
    """At the optimum with a free constant: at most the quantile below, and at most the rest above."""
    model = RepresenterRegressor(loss=Pinball(quantile), tol=1e-8).fit(ROWS, TARGETS)
    errors = TARGETS - model.predict(ROWS)
    assert np.mean(errors < -1e-3) <= quantile
    assert np.mean(errors > 1e-3) <= 1 - quantile


def test_losses_that_do_not_fit_are_refused():
    cases = [
        (RepresenterRegressor(loss=Hinge()), "loss must be a loss of errors, got Hinge"),
        (RepresenterRegressor(loss=Huber(-1.0)), "width must be a number above 0"),
        (RepresenterRegressor(loss="hinge"), "loss must be one of .* or a ScalarLoss, got 'hinge'"),
    ]
    for model, message in cases:
        with pytest.raises(ValueError, match=message):
            model.fit(ROWS, TARGETS)
