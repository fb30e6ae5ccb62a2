"""Classifiers and regressors that learn next to nothing say so, and no others do."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone

from structinv import (
    InvariantLinearSVC,
    InvariantLinearSVR,
    InvariantStructuredSVC,
    InvariantSVC,
    InvariantSVR,
    OrbitRidge,
    RepresenterClassifier,
    RepresenterRegressor,
    UninformativeFitWarning,
)
from structinv.functionals import Gradient
from structinv.oracles import Box, FDrop, FScale, Identity, Shifts
from structinv.structures import Sequence


def short_mails(n=80, d=20, n_classes=2, seed=0):
    """A few words a mail, each of which leans to a class."""
    rng = np.random.default_rng(seed)
    codes = np.arange(n) % n_classes
    own = (np.arange(d) % n_classes) == codes[:, None]
    return (rng.random((n, d)) < np.where(own, 0.3, 0.05)).astype(float), np.array(["a", "b", "c"])[
        codes
    ]


def strokes():
    """Images of one dot, left or right: a shift makes each of the other."""
    X = np.zeros((8, 16))
    X[np.arange(8), [0, 4, 8, 12, 2, 6, 10, 14]] = 1.0
    return X, np.repeat(["left", "right"], 4)


def warned(model, *data, **options):
    """The warnings of a fit that are looked at here."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(*data, **options)
    return [each for each in caught if issubclass(each.category, UninformativeFitWarning)]


SHIFTS = Shifts(2, shape=(4, 4), fill="wrap")
NOTHING_LEFT = {
    "words": (InvariantLinearSVC(FDrop(10), random_state=0), short_mails()),
    "three classes": (InvariantLinearSVC(FDrop(20), random_state=0), short_mails(n_classes=3)),
    "factors": (InvariantLinearSVC(FScale(20, 0.0, 9.0), random_state=0), short_mails()),
    "kernel": (InvariantSVC(SHIFTS, gamma=1.0, random_state=0), strokes()),
    "representers": (
        RepresenterClassifier(gamma=1.0, oracle=SHIFTS, loss="hinge", random_state=0),
        strokes(),
    ),
}


@pytest.mark.parametrize("name", NOTHING_LEFT)
def test_a_constant_classifier_says_so(name):
    model, (X, y) = NOTHING_LEFT[name]
    (found,) = warned(model, X, y)
    assert len(set(model.predict(X))) == 1
    message = str(found.message)
    assert message.startswith(f"{type(model).__name__}: the perturbations of ")
    assert f"all {len(X)} training rows are predicted {model.predict(X)[0]}" in message
    assert "select_changes" in message
    assert found.filename == __file__


def test_a_tagger_whose_tokens_may_lose_all_they_have_says_so():
    # Every labeling of one or two tokens is as frequent as any other.
    y = [[0], [1], [0, 0], [0, 1], [1, 0], [1, 1]] * 4
    X = [np.eye(2)[labels] for labels in y]
    model = InvariantStructuredSVC(Sequence(), oracle=FDrop(1), random_state=0)
    (found,) = warned(model, X, y)
    assert str(found.message).startswith(
        "InvariantStructuredSVC: the perturbations of FDrop(max_changes=1) "
    )
    assert found.filename == __file__
    assert not warned(model.set_params(oracle=None), X, y)
    assert not warned(model.set_params(oracle=Box(0.1)), X, y)
    assert model.score(X, y) == 1.0


def test_a_small_function_that_is_right_has_no_warning():
    X = np.array([[1.0], [-1.0]] * 5)
    y = np.array([1, 0] * 5)
    model = InvariantLinearSVC(Box(0.95), C=0.1, fit_intercept=False, tol=1e-6)
    # Its slope is a twentieth of that without perturbations.
    assert not warned(model, X, y)
    assert model.score(X, y) == 1.0


def rare(share):
    """A class so rare that a plain machine with little C predicts the other for all rows."""
    rng = np.random.default_rng(0)
    y = (np.arange(200) < 200 * share).astype(int)
    return 0.3 * rng.standard_normal((200, 3)) + 0.1 * y[:, None], y


QUIET = {
    "mild changes": (InvariantLinearSVC(FDrop(1)), short_mails()),
    "nothing may change": (InvariantLinearSVC(C=1e-9), short_mails()),
    "nothing may change, by name": (InvariantLinearSVC(Identity(), C=1e-9), short_mails()),
    "no oracle": (RepresenterClassifier(gamma=1.0, C=1e-9), strokes()),
}


@pytest.mark.parametrize("name", QUIET)
def test_no_false_alarms(name):
    model, (X, y) = QUIET[name]
    assert not warned(model.set_params(random_state=0), X, y)


def test_a_rare_class_may_be_hidden():
    X, y = rare(0.1)
    X[y == 1] += 1.0
    assert not warned(InvariantLinearSVC(Box(0.1), random_state=0), X, y)
    (found,) = warned(InvariantLinearSVC(Box(1.0), random_state=0), X, y)
    assert "all 200 training rows are predicted 0 (90% correct)" in str(found.message)


def test_rows_count_by_their_weight():
    X, y = rare(0.1)
    X[y == 1] += 1.0
    model = InvariantLinearSVC(Box(1.0), class_weight="balanced", random_state=0)
    (found,) = warned(model, X, y)
    assert "(50% correct, by weight)" in str(found.message)


def test_a_warning_made_an_error_leaves_no_half_of_a_model():
    for model, data in [
        (InvariantLinearSVC(FDrop(10), random_state=0), short_mails()),
        *((clone(model), (X, 1e6 + SIGNAL)) for model in WITHOUT_CONSTANT.values()),
    ]:
        with warnings.catch_warnings():
            warnings.simplefilter("error", UninformativeFitWarning)
            with pytest.raises(UninformativeFitWarning):
                model.fit(*data)
        assert not [name for name in vars(model) if name.endswith("_")]


def test_epsilon_is_named_where_it_may_be_what_leaves_nothing():
    X, y = np.eye(16)[[2, 10]], np.array(["first", "last"])
    near = Shifts(1, shape=(1, 16), fill="wrap")
    (found,) = warned(InvariantSVC(near, gamma=1.0, plane_tol=1.5, random_state=0), X, y)
    assert "with this plane_tol, leave almost nothing" in str(found.message)
    assert "a smaller plane_tol" in str(found.message)
    assert not warned(InvariantSVC(near, gamma=1.0, random_state=0), X, y)


N, D = 60, 3
X = np.random.default_rng(0).standard_normal((N, D))
ROWS = X
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


@pytest.mark.parametrize("name", REGRESSORS)
def test_targets_far_from_zero(name):
    model = clone(REGRESSORS[name])
    assert not warned(model, X, SIGNAL)
    expected = model.predict(X)
    assert model.score(X, SIGNAL) > 0.6
    for offset in (-1e6, 1e9):
        assert not warned(model, X, offset + SIGNAL)
        assert model.score(X, offset + SIGNAL) > 0.6
        # What the solver leaves open, and what numbers of this size hold.
        np.testing.assert_allclose(model.predict(X) - offset, expected, atol=0.05 + 1e-7 * abs(offset))


@pytest.mark.parametrize("name", REGRESSORS)
def test_constant_targets(name):
    model = clone(REGRESSORS[name])
    tube = model.get_params().get("epsilon", 0.1)
    for value in (0.0, 7.0, -3e8):
        assert not warned(model, X, np.full(N, value))
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
    model, X, y = clone(REGRESSORS[name]), ROWS[:30], 1e9 * SIGNAL[:30]
    (found,) = warned(model, X, y)
    message = str(found.message)
    assert "explain less than 1% of the variance of the training targets" in message
    assert "a larger C" in message
    assert "targets in other units" in message
    assert not warned(model.set_params(C=1e10, max_seconds=5), X, y)


def test_a_tube_that_holds_all_targets():
    for model in (InvariantLinearSVR(random_state=0), RepresenterRegressor(loss="epsilon_insensitive")):
        (found,) = warned(model, X, 1e-3 * SIGNAL)
        assert "a smaller epsilon" in str(found.message)


def test_a_tube_hides_only_errors_of_its_own_size():
    model = InvariantLinearSVR(C=1e-6, epsilon=2.0, fit_intercept=False, random_state=0)
    (found,) = warned(model, X, 1e3 + SIGNAL)
    assert "the root mean square error of training targets is 1e+03" in str(found.message)


def test_changes_that_leave_nothing():
    model = InvariantLinearSVR(Box(10.0), random_state=0)
    (found,) = warned(model, X[:20], SIGNAL[:20])
    assert "Try fewer or smaller perturbations, a larger C" in str(found.message)


def test_a_ridge_of_several_targets_warns_once():
    Y = np.column_stack([SIGNAL, 1e3 + SIGNAL, 1e3 - SIGNAL])
    assert len(warned(OrbitRidge(fit_intercept=False, alphas=1.0), X, Y)) == 1
    assert len(warned(OrbitRidge(alphas=1e9), X, Y)) == 1
    assert not warned(OrbitRidge(), X, Y)


def test_solvers_without_a_constant_say_what_to_do():
    with pytest.raises(ValueError, match="does not support functions with an unpenalized"):
        RepresenterRegressor(solver="frank_wolfe").fit(X, SIGNAL)
    model = RepresenterRegressor(solver="frank_wolfe", bias=False, random_state=0).fit(X, SIGNAL)
    assert model.score(X, SIGNAL) > 0.6
