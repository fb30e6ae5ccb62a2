"""Regressors that predict no better than a constant warn, and have a constant by default."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone

from structinv import (
    InvariantLinearSVR,
    InvariantSVR,
    OrbitRidge,
    RepresenterRegressor,
    UninformativeFitWarning,
)
from structinv.functionals import Gradient
from structinv.oracles import Box, Shifts

N, D = 60, 3
X = np.random.default_rng(0).standard_normal((N, D))
SIGNAL = np.sin(X[:, 0]) + X[:, 1]

REGRESSORS = {
    "linear": InvariantLinearSVR(random_state=0),
    "linear, changes": InvariantLinearSVR(Box(0.01), random_state=0),
    "kernel": InvariantSVR(random_state=0),
    "kernel, changes": InvariantSVR(Shifts(1, shape=(1, D), fill="nearest"), C=10.0, random_state=0),
    "ridge": OrbitRidge(),
    "representers": RepresenterRegressor(),
    "representers, flat": RepresenterRegressor(invariances=[Gradient()], nu=0.01),
    "representers, tube": RepresenterRegressor(loss="epsilon_insensitive"),
    "representers, absolute": RepresenterRegressor(loss="absolute"),
    "representers, huber": RepresenterRegressor(loss="huber"),
}


def warned(model, *data, **options):
    """The warnings of a fit that are looked at here."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(*data, **options)
    return [each for each in caught if issubclass(each.category, UninformativeFitWarning)]


@pytest.mark.parametrize("offset", [0.0, -1e6, 1e9])
@pytest.mark.parametrize("name", REGRESSORS)
def test_targets_far_from_zero(name, offset):
    model = clone(REGRESSORS[name])
    assert not warned(model, X, offset + SIGNAL)
    expected = clone(model).fit(X, SIGNAL).predict(X)
    assert model.score(X, offset + SIGNAL) > 0.6
    # What the solver leaves open, and what numbers of this size hold.
    np.testing.assert_allclose(model.predict(X) - offset, expected, atol=0.05 + 1e-7 * abs(offset))


@pytest.mark.parametrize("value", [0.0, 7.0, -3e8])
@pytest.mark.parametrize("name", REGRESSORS)
def test_constant_targets(name, value):
    model = clone(REGRESSORS[name])
    assert not warned(model, X, np.full(N, value))
    tube = model.get_params().get("epsilon", 0.1)
    np.testing.assert_allclose(model.predict(X), value, rtol=1e-6, atol=tube)


def test_a_constant_with_weights_and_missing_targets():
    y = np.where(np.arange(N) % 3 == 0, np.nan, 1e9 + SIGNAL)
    weights = np.linspace(0.0, 2.0, N)
    model = RepresenterRegressor(unlabeled=np.nan)
    assert not warned(model, X, y, sample_weight=weights)
    known = np.flatnonzero(~np.isnan(y))
    assert model.score(X[known], y[known]) > 0.6


WITHOUT_CONSTANT = {
    "linear": InvariantLinearSVR(fit_intercept=False, random_state=0),
    "kernel": InvariantSVR(fit_intercept=False, random_state=0),
    "ridge": OrbitRidge(fit_intercept=False, alphas=1.0),
    "representers": RepresenterRegressor(bias=False),
}


@pytest.mark.parametrize("name", WITHOUT_CONSTANT)
def test_without_a_constant_it_is_told_what_is_missing(name):
    model = clone(WITHOUT_CONSTANT[name])
    (found,) = warned(model, X, 1e6 + SIGNAL)
    message = str(found.message)
    assert message.startswith(
        f"{type(model).__name__} has learned almost nothing: the root mean square error "
    )
    assert "for their mean 1e+06" in message
    assert ("bias=True" if name == "representers" else "fit_intercept=True") in message
    assert found.filename == __file__
    assert warned(model, X, np.full(N, 1e6))


@pytest.mark.parametrize("name", ["linear", "kernel", "representers, tube", "representers, absolute"])
def test_targets_too_large_for_the_weight_of_the_losses(name):
    model = clone(REGRESSORS[name])
    (found,) = warned(model, X, 1e9 * SIGNAL)
    message = str(found.message)
    assert "explain less than 1% of the variance of the training targets" in message
    assert "a larger C" in message
    assert "targets in other units" in message
    assert not warned(model.set_params(C=1e10, max_seconds=5), X, 1e9 * SIGNAL)


def test_a_tube_that_holds_all_targets():
    for model in (InvariantLinearSVR(random_state=0), RepresenterRegressor(loss="epsilon_insensitive")):
        (found,) = warned(model, X, 1e-3 * SIGNAL)
        assert "a smaller epsilon" in str(found.message)


def test_changes_that_leave_nothing():
    model = InvariantLinearSVR(Box(10.0), random_state=0)
    (found,) = warned(model, X, SIGNAL)
    assert "Try fewer or smaller perturbations, a larger C" in str(found.message)


def test_a_ridge_of_several_targets_warns_once():
    Y = np.column_stack([SIGNAL, 1e3 + SIGNAL, 1e3 - SIGNAL])
    assert len(warned(OrbitRidge(fit_intercept=False, alphas=1.0), X, Y)) == 1
    assert len(warned(OrbitRidge(alphas=1e9), X, Y)) == 1
    assert not warned(OrbitRidge(), X, Y)


def test_a_warning_made_an_error_leaves_no_half_of_a_model():
    for model in WITHOUT_CONSTANT.values():
        model = clone(model)
        with warnings.catch_warnings():
            warnings.simplefilter("error", UninformativeFitWarning)
            with pytest.raises(UninformativeFitWarning):
                model.fit(X, 1e6 + SIGNAL)
        assert not [name for name in vars(model) if name.endswith("_")]


def test_solvers_without_a_constant_say_what_to_do():
    with pytest.raises(ValueError, match="does not support functions with an unpenalized"):
        RepresenterRegressor(solver="frank_wolfe").fit(X, SIGNAL)
    model = RepresenterRegressor(solver="frank_wolfe", bias=False, random_state=0).fit(X, SIGNAL)
    assert model.score(X, SIGNAL) > 0.6
