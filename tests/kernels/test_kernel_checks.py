"""`check_kernel` names the defect of a kernel, and losses are parameters of estimators."""

import numpy as np
import pytest

from structinv import CheckError, RepresenterClassifier, RepresenterRegressor
from structinv.functionals import Gradient
from structinv.kernels import Gaussian, Laplacian, Linear, Matern, OrbitMean, SetKernel, check_kernel
from structinv.losses import Absolute, Hinge, Huber, Logistic, Squared, SquaredHinge
from structinv.oracles import Box, Flip

from ..contracts.test_kernels import EVERY_CASE, NAMES
from ..losses.test_base import Pinball

RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(24, 5))


def changed(base, **methods):
    """Make a subclass with some methods or attributes replaced."""
    return type("Wrong", (base,), {"__module__": __name__, **methods})()


def test_classes_that_cannot_be_pickled_are_refused():
    with pytest.raises(CheckError, match="clone and pickle must work"):
        check_kernel(changed(Linear), ROWS)


KERNELS = [
    *(kernel for kernel, _ in EVERY_CASE),
    Gaussian() + Linear(),
    Gaussian() * Linear(),
    3.0 * Matern(2.0, nu=1.5),
    OrbitMean(Flip(shape=(1, 5)), Gaussian()),
    SetKernel(Box(0.1), Gaussian()),
]


@pytest.mark.parametrize("scale", [0.01, 1.0, 100.0])
@pytest.mark.parametrize("kernel", KERNELS, ids=[*NAMES, "sum", "product", "scaled", "orbit", "set"])
def test_correct_kernels_pass(kernel, scale):
    check_kernel(kernel, scale * ROWS)


def of_gaussian(function):
    """Make the method `matrix` of a function of the Gaussian kernel matrix."""

    def matrix(self, X, Y, norms=None):
        return function(Gaussian().matrix(X, Y), X, Y)

    return matrix


WRONG_KERNELS = {
    r"matrix\(X, X\) must be symmetric": changed(
        Gaussian, matrix=of_gaussian(lambda K, X, Y: K * (1 + X[:, :1] ** 2))
    ),
    "diagonal": changed(Gaussian, diagonal=lambda self, X: np.full(len(X), 2.0)),
    "definite must be False": changed(
        Gaussian, matrix=lambda self, X, Y, norms=None: np.cos(np.linalg.norm(X[:, None] - Y, axis=2))
    ),
    "values must not depend on the other rows": changed(
        Gaussian,
        matrix=of_gaussian(lambda K, X, Y: K * (1 + 1e-3 * len(X) * len(Y)) / (1 + 24**2 * 1e-3)),
    ),
    "the Lipschitz constant": changed(Gaussian, lipschitz=lambda self, n_features=None: 0.5),
    "the symmetry 'isometries' does not hold": changed(
        Laplacian, matrix=Laplacian.matrix, symmetry="isometries"
    ),
    "adds_features must be False": changed(Gaussian, adds_features=True),
    r"entry \(0, 0\) of partials": changed(
        Gaussian, partials=lambda self, s, t, order: Gaussian(2.0).partials(s, t, order)
    ),
    r"entry \(1, 0\) of partials": changed(
        Gaussian,
        partials=lambda self, s, t, order: {
            key: values * (1 + 0.1 * key[0]) for key, values in Gaussian().partials(s, t, order).items()
        },
    ),
    "smoothness must be 0": changed(Linear, uses_products=False, smoothness=2.0),
}


@pytest.mark.parametrize("message", WRONG_KERNELS)
def test_the_defect_of_a_kernel_is_named(message):
    with pytest.raises(CheckError, match=f"Wrong: .*{message}"):
        check_kernel(WRONG_KERNELS[message], ROWS)


def test_rows_and_kernels_of_a_wrong_type_are_refused():
    with pytest.raises(TypeError, match="kernel must be a Kernel"):
        check_kernel("rbf", ROWS)
    for rows in (ROWS[0], ROWS[:1], np.full((3, 2), np.nan)):
        with pytest.raises(ValueError, match="X must have at least two finite rows"):
            check_kernel(Gaussian(), rows)


# -- losses as parameters of estimators ------------------------------------------------------------

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
