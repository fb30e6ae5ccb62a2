"""Machines under means of kernels over changes: averaged kernels, worst cases, and both together."""

import cvxpy as cp
import numpy as np
import pytest
from sklearn.base import clone, is_classifier
from sklearn.svm import SVC

from structinv import (
    InvariantSVC,
    InvariantSVR,
    OrbitRidge,
    RepresenterClassifier,
    RepresenterRegressor,
    VirtualSVC,
)
from structinv.kernels import Gaussian, OrbitDistance, OrbitMean
from structinv.oracles import Flip, Rotations, Shifts

from ..estimators.cases import SHAPE
from ..estimators.cases import WRAPPED as SHIFTS
from ..estimators.cases import orbit_optimum as optimum
from ..kernel_problems import over_members
from ..margins import lowest_margins
from ..problems import strokes

MIRROR = OrbitMean(Flip(shape=SHAPE), Gaussian(1.5))


SPREADING = Rotations(interval=(-60, 60), shape=SHAPE, spread=15.0)


KERNELS = {
    "mirror": MIRROR,
    "drawn turns": OrbitMean(SPREADING, Gaussian(1.5), n_draws=4),
    "distances": OrbitDistance(Flip(shape=SHAPE), Gaussian(1.5), tau=0.5),
}


def targets(X):
    """A number that mirror images share."""
    return X[:, 0] + X[:, 2] + X[:, 4] ** 2


def mirrored(X):
    return X.reshape(-1, *SHAPE)[:, :, ::-1].reshape(len(X), -1)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_classifiers_agree_with_those_of_the_table(kernel, n_classes):
    X, y = strokes(n_classes, n=30)
    new = strokes(n_classes, n=12, seed=1)[0]
    kernel = KERNELS[kernel]
    gram, across = kernel.matrix(X, X), kernel.matrix(new, X)
    options = {"C": 2.0, "tol": 1e-7, "random_state": 0}
    model = InvariantSVC(kernel=kernel, **options).fit(X, y)
    table = InvariantSVC(kernel="precomputed", **options).fit(gram, y)
    assert model.solution_.relative_gap <= 1e-7
    assert model.solution_.primal == pytest.approx(table.solution_.primal, rel=1e-6)
    np.testing.assert_allclose(model.decision_function(new), table.decision_function(across), atol=2e-3)
    theirs = SVC(kernel="precomputed", C=2.0).fit(gram, y)
    np.testing.assert_array_equal(
        theirs.predict(across), SVC(kernel=kernel, C=2.0).fit(X, y).predict(new)
    )
    # Without changes of its own the machine of virtual samples is scikit-learn's.
    virtual = VirtualSVC(kernel=kernel, C=2.0).fit(X, y)
    np.testing.assert_array_equal(virtual.predict(new), theirs.predict(across))


@pytest.mark.parametrize("kernel", KERNELS)
def test_regressors_agree_with_those_of_the_table(kernel):
    X, _ = strokes(n=30)
    kernel, y = KERNELS[kernel], targets(X)
    gram = kernel.matrix(X, X)
    options = {"C": 5.0, "tol": 1e-7, "random_state": 0}
    model = InvariantSVR(kernel=kernel, **options).fit(X, y)
    table = InvariantSVR(kernel="precomputed", **options).fit(gram, y)
    assert model.solution_.primal == pytest.approx(table.solution_.primal, rel=1e-6)
    np.testing.assert_allclose(model.predict(X), table.predict(gram), atol=5e-3)
    # Squared losses have a closed form.
    for constant in (False, True):
        model = RepresenterRegressor(kernel, C=5.0, bias=constant, tol=1e-9).fit(X, y)
        ridge = OrbitRidge(kernel, alphas=0.1, fit_intercept=constant).fit(X, y)
        np.testing.assert_allclose(model.predict(X), ridge.predict(X), atol=1e-4)


def test_losses_of_labels_take_it_too():
    X, y = strokes(n=30)
    model = RepresenterClassifier(MIRROR, loss="hinge", C=2.0, tol=1e-6).fit(X, y)
    plain = InvariantSVC(kernel=MIRROR, C=2.0, tol=1e-6).fit(X, y)
    assert model.solution_.primal == pytest.approx(plain.solution_.primal, rel=1e-5)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_averaged_kernel_and_worst_case_meet_the_optimum_by_cvxpy(n_classes):
    X, y = strokes(n_classes)
    orbit = SHIFTS.orbit(X)
    value, _ = optimum(MIRROR.matrix, y, orbit, 0.5)
    model = InvariantSVC(SHIFTS, kernel=MIRROR, C=0.5, tol=1e-6, random_state=0).fit(X, y)
    assert model.solution_.relative_gap <= 1e-6
    assert model.solution_.dual - 1e-7 <= value <= model.solution_.primal + 1e-7
    certificate = model.certify(X, y)
    assert np.all(certificate.exact)
    np.testing.assert_allclose(certificate.margins, lowest_margins(model, orbit, y), atol=1e-6)
    np.testing.assert_allclose(model.decision_function(X), model.decision_function(mirrored(X)))


def test_regression_meets_the_optimum_by_cvxpy():
    X, _ = strokes(n=10)
    y = targets(X)
    orbit = SHIFTS.orbit(X)
    model = InvariantSVR(
        SHIFTS, kernel=MIRROR, C=0.5, epsilon=0.2, tol=1e-6, fit_intercept=False, random_state=0
    ).fit(X, y)
    value, _ = over_members(
        MIRROR, orbit, 1, lambda i, f: 0.5 * cp.pos(cp.max(cp.abs(f[:, 0] - y[i])) - 0.2)
    )
    assert model.solution_.dual - 1e-6 <= value <= model.solution_.primal + 1e-6
    assert model.solution_.relative_gap <= 1e-6
    bounds = model.certify(X)
    found = np.array([model.predict(members) for members in orbit])
    np.testing.assert_allclose(bounds.lowest, found.min(axis=1), atol=1e-6)
    np.testing.assert_allclose(bounds.highest, found.max(axis=1), atol=1e-6)


MACHINES = {
    "InvariantSVC": InvariantSVC(kernel=KERNELS["drawn turns"], random_state=0),
    "worst case": InvariantSVC(Shifts(1, shape=SHAPE), kernel=MIRROR, random_state=0),
    "InvariantSVR": InvariantSVR(kernel=KERNELS["distances"], random_state=0),
    "RepresenterClassifier": RepresenterClassifier(KERNELS["drawn turns"]),
    "RepresenterRegressor": RepresenterRegressor(MIRROR),
    "VirtualSVC": VirtualSVC(Shifts(1, shape=SHAPE), kernel=MIRROR),
    "OrbitRidge": OrbitRidge(KERNELS["drawn turns"]),
}


@pytest.mark.parametrize("name", MACHINES)
def test_stacks_of_images_tell_their_shape_to_the_kernel(name):
    X, y = strokes(n=24)
    # Not square, so that rows alone do not tell the shape.
    X = np.hstack([X, np.roll(X, 1, axis=1)])[:, :12]
    images = X.reshape(-1, 3, 4)
    y = y if is_classifier(MACHINES[name]) else X[:, 0] ** 2
    shapeless = OrbitMean(Flip(), Gaussian(1.5))
    model = clone(MACHINES[name]).set_params(kernel=shapeless)
    shaped = clone(MACHINES[name]).set_params(kernel=OrbitMean(Flip(shape=(3, 4)), Gaussian(1.5)))
    for each in (model, shaped):
        if each.get_params().get("oracle") is not None:
            each.set_params(oracle=Shifts(1, shape=(3, 4)))
    np.testing.assert_array_equal(model.fit(images, y).predict(images), shaped.fit(X, y).predict(X))
    assert shapeless.oracle.shape is None
    assert model.estimate_memory(images, y) == shaped.estimate_memory(X, y) > 0


def test_turns_between_angles_are_certified_through_an_average():
    X, y = strokes(n=40)
    Z, labels = strokes(n=60, seed=1)
    turns = Rotations(interval=(-8, 8), shape=SHAPE)
    for average in (SPREADING, Flip(shape=SHAPE)):
        kernel = OrbitMean(average, Gaussian(3.0), None if average is not SPREADING else 4)
        model = InvariantSVC(turns, kernel=kernel, C=1.0, random_state=0).fit(X, y)
        certificate = model.certify(Z, labels)
        assert 0.2 < certificate.accuracy <= np.mean(model.predict(Z) == labels)
        for angle in np.linspace(-8, 8, 33):
            moved = Rotations((angle,), shape=SHAPE).orbit(Z)[:, -1]
            assert np.all((model.predict(moved) == labels)[certificate.correct])
