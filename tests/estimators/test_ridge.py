"""OrbitRidge against refits, scikit-learn's KernelRidge and Gaussian processes, and its own promises."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import LinAlgWarning
from sklearn.base import clone
from sklearn.kernel_ridge import KernelRidge

from structinv import OrbitRidge
from structinv.estimators import ridge
from structinv.estimators.ridge import ridge_path
from structinv.kernels import Gaussian

ROUTES = {"factors": (1e-3, 0.1, 2.0), "eigenvectors": (1e-3, 1e-2, 0.05, 0.1, 0.5, 1.0, 2.0)}


def numbers(n=18, d=3, n_targets=None, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    shape = (n,) if n_targets is None else (n, n_targets)
    return X, np.sin(X[:, :1] + rng.standard_normal(shape[1:])).reshape(shape) + 2.0


def refitted(model, X, y, weights=None):
    """The prediction for each row by the model, at its alpha, fitted without it."""
    found = np.empty(np.shape(y))
    for row in range(len(X)):
        rest = np.delete(np.arange(len(X)), row)
        own = None if weights is None else weights[rest]
        single = clone(model).set_params(alphas=model.alpha_).fit(X[rest], y[rest], own)
        found[row] = single.predict(X[[row]])[0]
    return found


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("route", ROUTES)
def test_leaving_one_out_is_fitting_again(route, intercept, weighted):
    n_targets = None if intercept == weighted else 2
    X, y = numbers(12, n_targets=n_targets)
    weights = np.linspace(0.2, 3.0, len(X)) if weighted else None
    model = OrbitRidge(Gaussian(1.5), alphas=ROUTES[route], fit_intercept=intercept)
    model.fit(X, y, weights)
    again = refitted(model, X, y, weights)
    np.testing.assert_allclose(model.leave_one_out_predictions_, again, atol=1e-9)
    errors = np.average((y - again) ** 2, axis=0, weights=weights)
    best = int(np.argmax(model.scores_))
    np.testing.assert_allclose(model.leave_one_out_errors_[best], errors)
    assert model.best_score_ == pytest.approx(-np.mean(errors))
    assert model.alpha_ == ROUTES[route][best]


@pytest.mark.parametrize("kernel", ["rbf", "poly", "linear", "laplacian", "precomputed"])
def test_without_an_intercept_it_is_kernel_ridge(kernel):
    X, y = numbers(n_targets=2)
    new = np.random.default_rng(1).standard_normal((5, 3))
    if kernel == "precomputed":
        X, new = X @ X.T, new @ X.T
    weights = np.linspace(0.5, 2.0, len(X))
    options = {"kernel": kernel, "gamma": 0.3, "coef0": 0.7, "degree": 2}
    theirs = KernelRidge(alpha=0.3, **options).fit(X, y, weights)
    model = OrbitRidge(alphas=0.3, fit_intercept=False, **options).fit(X, y, weights)
    np.testing.assert_allclose(model.dual_coef_, theirs.dual_coef_)
    np.testing.assert_allclose(model.predict(new), theirs.predict(new))


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 2**16),
    n=st.integers(2, 12),
    exponents=st.lists(st.floats(-3, 3), min_size=1, max_size=8),
    intercept=st.booleans(),
)
def test_both_routes_and_the_definition_agree(seed, n, exponents, intercept):
    rng = np.random.default_rng(seed)
    alphas = 10.0 ** np.array(exponents)
    root = rng.standard_normal((n, 3))
    gram, targets = root @ root.T, rng.standard_normal((n, 2))
    weights = rng.uniform(0.1, 3.0, n)
    coefficients, intercepts, _ = ridge_path(gram.copy(), targets, weights, alphas, intercept)
    for number, alpha in enumerate(alphas):
        bordered = np.zeros((n + 1, n + 1))
        bordered[:n, :n] = gram + np.diag(alpha / weights)
        if intercept:
            bordered[:n, n] = bordered[n, :n] = 1.0
        else:
            bordered[n, n] = 1.0
        solved = np.linalg.solve(bordered, np.vstack([targets, np.zeros(2)]))
        size = np.max(np.abs(solved))
        np.testing.assert_allclose(coefficients[number], solved[:n], atol=1e-8 * size)
        np.testing.assert_allclose(intercepts[number], solved[n], atol=1e-8 * size)


def test_scoring_says_what_the_best_alpha_is_best_at():
    X, y = numbers(seed=3)
    alphas = np.logspace(-4, 1, 6)
    model = OrbitRidge(Gaussian(), alphas=alphas, scoring="neg_mean_absolute_error").fit(X, y)
    for alpha, score in zip(alphas, model.scores_, strict=True):
        single = OrbitRidge(Gaussian(), alphas=alpha).fit(X, y)
        assert score == pytest.approx(-np.mean(np.abs(y - single.leave_one_out_predictions_)))
    assert model.alpha_ == alphas[np.argmax(model.scores_)]
    largest = OrbitRidge(
        Gaussian(), alphas=alphas, scoring=lambda model, X, y: -np.max(np.abs(y - model.predict(X)))
    ).fit(X, y)
    residuals = np.abs(y - largest.leave_one_out_predictions_)
    assert largest.best_score_ == pytest.approx(-np.max(residuals))


def test_rows_without_weight_are_not_there():
    X, y = numbers()
    weights = np.where(np.arange(len(X)) % 3, 1.5, 0.0)
    model = OrbitRidge().fit(X, y, weights)
    used = weights > 0
    fewer = OrbitRidge().fit(X[used], y[used], weights[used])
    np.testing.assert_allclose(model.predict(X), fewer.predict(X))
    np.testing.assert_allclose(model.leave_one_out_errors_, fewer.leave_one_out_errors_)
    assert not np.any(model.dual_coef_[~used])
    np.testing.assert_allclose(model.leave_one_out_predictions_[~used], model.predict(X[~used]))
    gram = Gaussian().matrix(X, X)
    table = OrbitRidge("precomputed").fit(gram, y, weights)
    np.testing.assert_allclose(table.predict(gram), OrbitRidge(Gaussian()).fit(X, y, weights).predict(X))


def test_tables_of_float32_are_enough_for_their_digits():
    X, y = numbers(n=100)
    exact = OrbitRidge(Gaussian(2.0), alphas=1e-2).fit(X, y)
    single = OrbitRidge(Gaussian(2.0), alphas=1e-2).fit(X.astype(np.float32), y)
    assert single.predict(X.astype(np.float32)).dtype == np.float32
    np.testing.assert_allclose(
        single.leave_one_out_predictions_, exact.leave_one_out_predictions_, atol=1e-3
    )
    # Rounding leaves eigenvalues below 0; with so small an alpha they decide.
    with pytest.warns(LinAlgWarning, match="alphas should be larger than rounding errors"):
        OrbitRidge(Gaussian(20.0), alphas=1e-9).fit(X.astype(np.float32), y)


def test_indefinite_kernels_are_errors_of_kernel_ridge():
    X, y = numbers()
    distances = np.sqrt(np.maximum(2.0 - 2.0 * Gaussian().matrix(X, X), 0.0))
    for alphas in (*ROUTES.values(), 100.0):
        with pytest.raises(ValueError, match="kernel must be positive semi-definite.* eigenvalues"):
            OrbitRidge("precomputed", alphas=alphas).fit(distances, y)
    skew = Gaussian().matrix(X, X)
    skew[0, 1] += 0.1
    with pytest.raises(ValueError, match="kernel must be symmetric"):
        OrbitRidge("precomputed").fit(skew, y)
    with pytest.raises(ValueError, match="X must be square"):
        OrbitRidge("precomputed").fit(X, y)


@pytest.mark.parametrize(
    ("parameters", "error", "message"),
    [
        ({"alphas": ()}, ValueError, "alphas must contain numbers above 0"),
        ({"alphas": (1.0, 0.0)}, ValueError, "alphas must contain numbers above 0"),
        ({"alphas": "auto"}, TypeError, "alphas must be a number or a sequence"),
        ({"alphas": True}, TypeError, "alphas must be a number or a sequence"),
        ({"scoring": "best"}, ValueError, "best"),
    ],
)
def test_parameters_out_of_range_are_refused_and_leave_nothing(parameters, error, message):
    X, y = numbers()
    model = OrbitRidge(**parameters)
    with pytest.raises(error, match=message):
        model.fit(X, y)
    assert not [name for name in vars(model) if name.endswith("_")]


def test_data_that_cannot_be_used_are_refused(monkeypatch):
    X, y = numbers()
    with pytest.raises(ValueError, match="sample_weight must be above 0 for at least two samples"):
        OrbitRidge().fit(X, y, np.eye(len(X))[0])
    with pytest.raises(ValueError, match="Negative values in data passed to `sample_weight`"):
        OrbitRidge().fit(X, y, -np.ones(len(X)))
    fitted = OrbitRidge().fit(X, y)
    before = fitted.predict(X)
    monkeypatch.setattr(ridge, "eigh", None)
    monkeypatch.setattr("structinv.utils.resources.free_memory", lambda: 100.0)
    with pytest.raises(MemoryError, match="ridge regression with 18 samples .*: use fewer samples"):
        fitted.fit(X, y)
    np.testing.assert_array_equal(fitted.predict(X), before)


@pytest.mark.parametrize("scores", [[np.nan, 0.5], [0.5, np.nan]])
def test_nan_scores_raise(scores):
    X, y = numbers()
    model = OrbitRidge(alphas=(0.1, 1.0), scoring=lambda model, X, y: left.pop(0))
    left = list(scores)
    with pytest.raises(ValueError, match=r"scoring must return one number per alpha, got .*nan"):
        model.fit(X, y)
    assert not hasattr(model, "alpha_")


def test_a_table_that_a_kernel_keeps_is_left_alone():
    X = np.random.default_rng(0).standard_normal((12, 3))
    table = Gaussian().matrix(X, X)
    table.flags.writeable = False

    class Keeping(Gaussian):
        def matrix(self, X, Y, norms=None):
            return table

    weights = np.linspace(0.5, 2.0, 12)
    kept, own = (OrbitRidge(kernel).fit(X, X[:, 0], weights) for kernel in (Keeping(), Gaussian()))
    np.testing.assert_array_equal(kept.dual_coef_, own.dual_coef_)
