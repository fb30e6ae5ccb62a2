"""Regression with functionals against cvxpy and scikit-learn."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.kernel_ridge import KernelRidge
from sklearn.svm import SVR

from structinv import RepresenterRegressor
from structinv.functionals import Gradient, SecondDerivative
from structinv.kernels import Polynomial
from structinv.losses import EpsilonInsensitive
from structinv.model_selection import labeled_scorer

from .cases import converged, gram, targets
from .cases import representer_optimum as optimum

GAMMA = 0.4


@pytest.mark.parametrize(
    ("loss", "bias"), [("squared", True), ("epsilon_insensitive", True), ("huber", False)]
)
def test_the_value_of_regression_is_cvxpys(loss, bias):
    X, y = targets()
    everything = np.arange(len(X))
    G, sizes = gram(Polynomial(3, 1.0, 0.5), X, everything, [SecondDerivative(0, 1)])
    value, f = optimum(G, sizes, y, loss, ["absolute"], 2.0, [0.2], bias)
    model = RepresenterRegressor(
        Polynomial(3, 1.0, 0.5), invariances=[SecondDerivative(0, 1)], loss=loss,
        invariance_loss="absolute", C=2.0, nu=0.2, bias=bias, tol=1e-9,
    )  # fmt: skip
    converged(model.fit(X, y))
    assert model.solution_.primal == pytest.approx(value, rel=1e-6)
    np.testing.assert_allclose(model.predict(X), f, atol=1e-3)


def test_without_families_it_is_kernel_ridge_or_svr():
    X, y = targets(40)
    Z, _ = targets(20, seed=5)
    ridge = KernelRidge(kernel="rbf", gamma=GAMMA, alpha=1 / (2 * 3.0)).fit(X, y)
    model = converged(RepresenterRegressor(gamma=GAMMA, C=3.0, bias=False, tol=1e-13).fit(X, y))
    np.testing.assert_allclose(model.predict(Z), ridge.predict(Z), atol=1e-6)
    tube = SVR(gamma=GAMMA, C=3.0, epsilon=0.15, tol=1e-10).fit(X, y)
    model = RepresenterRegressor(
        gamma=GAMMA, C=3.0, loss=EpsilonInsensitive(0.15), tol=1e-10,
    )  # fmt: skip
    np.testing.assert_allclose(converged(model.fit(X, y)).predict(Z), tube.predict(Z), atol=1e-4)


X = np.linspace(0.0, 3.0, 24)[:, None]
Y = np.sin(2 * X[:, 0])
MISSING = np.arange(24) % 3 == 0
MODEL = RepresenterRegressor(gamma=2.0, invariances=[Gradient()], nu=0.1, unlabeled=np.nan, tol=1e-9)


@pytest.mark.parametrize("form", ["array", "list", "None", "float32"])
def test_nan_stands_for_no_target(form):
    known = clone(MODEL).set_params(unlabeled=-99.0).fit(X, np.where(MISSING, -99.0, Y))
    marked = np.where(MISSING, np.nan, Y)
    given = {
        "array": marked,
        "list": marked.tolist(),
        "None": np.where(MISSING, None, Y),
        "float32": marked.astype(np.float32),
    }[form]
    before = np.array(given, dtype=np.float64)
    model = clone(MODEL).fit(X, given)
    tolerance = 1e-4 if form == "float32" else 1e-6
    np.testing.assert_allclose(model.predict(X), known.predict(X), atol=tolerance)
    np.testing.assert_array_equal(np.array(given, dtype=np.float64), before)


def test_a_score_leaves_missing_targets_out():
    marked = np.where(MISSING, np.nan, Y)
    model = clone(MODEL).fit(X, marked)
    found = labeled_scorer("r2", unlabeled=np.nan)(model, X, marked)
    assert found == model.score(X[~MISSING], Y[~MISSING])


def test_a_second_fit_goes_on_only_where_the_same_targets_are_missing():
    marked = np.where(MISSING, np.nan, Y)
    model = clone(MODEL).set_params(warm_start=True, random_state=0).fit(X, marked)
    first = model.n_iter_
    assert model.fit(X, marked).n_iter_ < first
    zeros = np.where(MISSING, 0.0, Y)
    fresh = clone(model).fit(X, zeros)
    np.testing.assert_array_equal(model.fit(X, zeros).predict(X), fresh.predict(X))
