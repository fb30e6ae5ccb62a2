"""Set kernels, indefinite kernels and spectrum correction."""

import pickle
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.svm import SVC

from structinv import (
    IndefiniteKernelWarning,
    InvariantSVC,
    InvariantSVR,
    OrbitRidge,
    RepresenterClassifier,
    UninformativeFitWarning,
    VirtualSVC,
)
from structinv.embeddings import OrbitNystroem
from structinv.kernels import (
    CallableKernel,
    Gaussian,
    Laplacian,
    Linear,
    Matern,
    OrbitMean,
    SetKernel,
    indefinite,
    psd_corrected,
)
from structinv.metrics import set_distance, tangent_distance
from structinv.oracles import Flip, Identity, Segment

rng = np.random.default_rng(0)
X = rng.standard_normal((40, 2))
y = (np.abs(X[:, 0]) > np.abs(X[:, 1])).astype(int)
NEW = rng.standard_normal((25, 2))
WIDE = SetKernel(Segment(0.1, 10.0), Gaussian(0.5))
MENDING = ("clip", "flip", "square")


@pytest.mark.parametrize("sides", ["two", "mean", "tangent"])
@pytest.mark.parametrize("inner", [Gaussian(0.7), Matern(1.5, 2.5), 2.0 * Gaussian() * Gaussian(3.0)])
def test_set_kernel_is_a_function_of_the_set_distance(sides, inner):
    kernel = SetKernel(Segment(0.5, 2.0), inner, sides)
    if sides == "tangent":
        distances = tangent_distance(kernel.oracle, NEW, X)
    else:
        distances = set_distance(kernel.oracle, NEW, X, sides)
    # The same function of the distances of points on a line.
    line = inner.matrix(distances.reshape(-1, 1), np.zeros((1, 1)))
    np.testing.assert_allclose(kernel(NEW, X).reshape(-1, 1), line, atol=1e-12)
    np.testing.assert_allclose(kernel.diagonal(X), np.diagonal(kernel(X)), atol=1e-12)
    assert kernel(X.astype(np.float32)).dtype == np.float32


def test_set_kernel_without_perturbations_is_the_kernel():
    np.testing.assert_allclose(SetKernel(Identity(), Gaussian())(NEW, X), Gaussian()(NEW, X), atol=1e-12)


@pytest.mark.parametrize(
    ("change", "kind", "message"),
    [
        ({"sides": "one"}, ValueError, "not symmetric"),
        ({"sides": "twice"}, ValueError, "sides must be one of"),
        ({"kernel": Linear()}, ValueError, "function of distances alone"),
        ({"kernel": Gaussian() + Linear()}, ValueError, "function of distances alone"),
        ({"kernel": "rbf"}, TypeError, "write structinv.kernels.Gaussian"),
        ({"kernel": Gaussian(0.0)}, ValueError, "sigma"),
        ({"oracle": Segment}, TypeError, "oracle must be an InvarianceOracle"),
        ({"oracle": Gaussian(), "kernel": Identity()}, TypeError, "the oracle comes first"),
        ({"spectrum": "clipped"}, ValueError, "did you mean 'clip'|spectrum must be one of"),
    ],
)
def test_parameters_are_refused_by_name(change, kind, message):
    kernel = clone(WIDE).set_params(**change)
    before = set(vars(InvariantSVC(kernel=kernel)))
    model = InvariantSVC(kernel=kernel)
    for ask in (lambda: kernel(X), lambda: model.fit(X, y)):
        with pytest.raises(kind, match=message):
            ask()
    assert set(vars(model)) == before


def test_a_fit_warns_of_the_smallest_eigenvalue():
    model = InvariantSVC(kernel=WIDE)
    least = np.linalg.eigvalsh(WIDE(X))[0]
    assert least < -0.05
    with pytest.warns(IndefiniteKernelWarning, match=rf"SetKernel is not .* from {least:.3g} to"):
        model.fit(X, y)
    assert model.min_eigenvalue_ == pytest.approx(least, abs=1e-9)


@pytest.mark.parametrize("spectrum", MENDING)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_corrected_kernels_are_positive_semi_definite_everywhere(spectrum, dtype):
    kernel = psd_corrected(WIDE, X.astype(dtype), spectrum)
    assert kernel.definite
    points = np.vstack([X, NEW]).astype(dtype)
    table = kernel(points)
    values = np.linalg.eigvalsh(table.astype(np.float64))
    assert values[0] > -(1e-10 if dtype == np.float64 else 1e-4) * values[-1]
    # On the training rows: the eigenvalues changed, the eigenvectors kept.
    old, vectors = np.linalg.eigh(WIDE(X))
    new = {"clip": np.maximum(old, 0.0), "flip": np.abs(old), "square": old**2}[spectrum]
    expected = vectors * new @ vectors.T
    np.testing.assert_allclose(
        kernel(X.astype(dtype)), expected, atol=1e-9 if dtype == np.float64 else 1e-3
    )
    # For new rows: the formula, term by term.
    kept = old > 1e-12 if spectrum == "clip" else np.abs(old) > 1e-12
    middle = (vectors[:, kept] * (new / np.where(kept, old, 1.0) ** 2)[kept]) @ vectors[:, kept].T
    right = WIDE(NEW, X) @ middle @ WIDE(X, X[:5])
    atol = 1e-8 if dtype == np.float64 else 1e-2
    np.testing.assert_allclose(kernel(NEW.astype(dtype), X[:5].astype(dtype)), right, atol=atol)
    np.testing.assert_allclose(kernel.diagonal(points), np.diagonal(table), atol=atol)


MACHINES = [
    InvariantSVC(random_state=0),
    InvariantSVC(Flip(shape=(1, 2)), random_state=0),
    RepresenterClassifier(random_state=0),
    VirtualSVC(random_state=0),
]


@pytest.mark.parametrize("spectrum", MENDING)
@pytest.mark.parametrize("machine", MACHINES, ids=lambda m: type(m).__name__ + str(m.oracle or ""))
def test_estimators_correct_with_their_training_rows(machine, spectrum):
    model = clone(machine).set_params(kernel=clone(WIDE).set_params(spectrum=spectrum))
    with warnings.catch_warnings():
        warnings.simplefilter("error", IndefiniteKernelWarning)
        model.fit(X, y)
    assert model.min_eigenvalue_ == pytest.approx(np.linalg.eigvalsh(WIDE(X))[0], abs=1e-9)
    given = clone(machine).set_params(kernel=psd_corrected(WIDE, X, spectrum)).fit(X, y)
    np.testing.assert_allclose(model.decision_function(NEW), given.decision_function(NEW), atol=1e-9)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(NEW), model.predict(NEW))
    # Another kernel is another fit: nothing is left of the former.
    assert model.set_params(kernel="rbf").fit(X, y).min_eigenvalue_ is None


def test_spectrum_requires_training_rows_outside_an_estimator():
    kernel = clone(WIDE).set_params(spectrum="clip")
    with pytest.raises(
        ValueError, match=r"use structinv.kernels.psd_corrected\(kernel, X_train, 'clip'\)"
    ):
        kernel(X)
    # Within sums, multiples and means, too.
    whole = 2.0 * kernel + Gaussian()
    model = InvariantSVC(kernel=whole).fit(X, y)
    expected = 2.0 * psd_corrected(WIDE, X, "clip")(NEW, X) + Gaussian()(NEW, X)
    np.testing.assert_allclose(model.kernel_(NEW, X), expected, atol=1e-10)
    mean = OrbitMean(Flip(shape=(1, 2)), kernel)
    assert InvariantSVC(kernel=mean).fit(X, y).score(X, y) > 0.5


def test_combined_kernels_are_definite_if_all_parts_are():
    assert (Gaussian() * Linear() + 2.0 * Laplacian()).definite
    assert not (Gaussian() + WIDE).definite
    assert not (3.0 * WIDE).definite
    assert not (OrbitMean(Flip(shape=(1, 2)), WIDE)).definite
    assert not (CallableKernel(lambda a, b: a @ b.T)).definite


def test_precomputed_and_callable_kernels_are_checked():
    table = WIDE(X)
    with pytest.warns(IndefiniteKernelWarning, match="PrecomputedKernel is not positive"):
        InvariantSVC(kernel="precomputed").fit(table, y)
    with pytest.warns(IndefiniteKernelWarning, match="CallableKernel is not positive"):
        InvariantSVR(kernel=lambda a, b: WIDE.matrix(a, b)).fit(X, X[:, 0])
    with warnings.catch_warnings():
        warnings.simplefilter("error", IndefiniteKernelWarning)
        good = InvariantSVC(kernel="precomputed").fit(Gaussian()(X), y)
        InvariantSVC(kernel=lambda a, b: a @ b.T).fit(X.astype(np.float32), y)
    assert good.min_eigenvalue_ > -1e-9


def test_eigenvalues_are_those_of_a_subset_of_many_rows(monkeypatch):
    monkeypatch.setattr(indefinite, "MOST_ROWS", 20)
    with pytest.warns(IndefiniteKernelWarning, match="on 20 of the training rows"):
        InvariantSVC(kernel=WIDE).fit(X, y)


def test_landmark_features_warn_of_and_correct_indefinite_kernels():
    with pytest.warns(IndefiniteKernelWarning, match="OrbitNystroem: kernel SetKernel"):
        plain = OrbitNystroem(kernel=WIDE, n_components=20).fit(X)
    assert plain.min_eigenvalue_ < -0.05
    corrected = clone(WIDE).set_params(spectrum="clip")
    with warnings.catch_warnings():
        warnings.simplefilter("error", IndefiniteKernelWarning)
        features = OrbitNystroem(kernel=corrected, n_components=40).fit(X)
    F = features.transform(NEW)
    np.testing.assert_allclose(F @ F.T, psd_corrected(WIDE, X, "clip")(NEW), atol=1e-6)
    assert OrbitNystroem(n_components=20).fit(X).min_eigenvalue_ is None


def test_kernel_ridge_requires_a_corrected_kernel():
    values = X[:, 0] * X[:, 1]
    assert OrbitRidge(clone(WIDE).set_params(spectrum="clip")).fit(X, values).best_score_ is not None
    with pytest.raises(ValueError, match=r"psd_corrected\(kernel, X\)"):
        OrbitRidge(WIDE, alphas=(1e-6, 1e-3)).fit(X, values)


def test_set_kernels_follow_changes_of_parameters_and_rows_in_place():
    kernel, rows = clone(WIDE), X.copy()
    first = kernel(rows, rows[:3])
    kernel.oracle.high = 1.0
    np.testing.assert_allclose(kernel(rows, rows[:3]), clone(kernel)(rows, rows[:3]))
    kernel.oracle.high = 10.0
    rows[:3] += 1.0
    assert not np.allclose(kernel(rows, rows[:3]), first)


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        (("rbf", X), TypeError, "kernel must be a Kernel"),
        ((WIDE, X, "clippy"), ValueError, "spectrum must be one of"),
        ((WIDE, np.full((2, 2), np.nan)), ValueError, "finite"),
        ((WIDE, X[0]), ValueError, "shape"),
        ((clone(WIDE).set_params(spectrum="clip"), X), ValueError, "spectrum='clip' requires training"),
    ],
)
def test_spectrum_correction_validates_its_arguments(arguments, kind, message):
    with pytest.raises(kind, match=message):
        psd_corrected(*arguments)


@pytest.mark.parametrize("spectrum", MENDING)
def test_min_eigenvalue_is_that_before_the_correction(spectrum):
    kernel, least = clone(WIDE).set_params(spectrum=spectrum), np.linalg.eigvalsh(WIDE(X))[0]
    values = X[:, 0]
    models = [
        OrbitNystroem(kernel=kernel, n_components=20).fit(X),
        InvariantSVC(kernel=2.0 * kernel).fit(X, y),
        InvariantSVC(kernel=Gaussian() + kernel).fit(X, y),
        OrbitRidge(kernel, alphas=1.0).fit(X, values),
    ]
    for model in models:
        assert model.min_eigenvalue_ == pytest.approx(least, abs=1e-9)
    assert OrbitRidge().fit(X, values).min_eigenvalue_ is None


@pytest.mark.parametrize("spectrum", [None, "clip"])
def test_constant_kernels_raise_a_warning(spectrum):
    # All lines go through 0, so that all tangent lines are at distance 0.
    same = SetKernel(Segment(0.5, 2.0), Gaussian(), "tangent", spectrum)
    with pytest.warns(UninformativeFitWarning, match="SetKernel has the same value, 1, for all"):
        InvariantSVC(kernel=same).fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UninformativeFitWarning)
        InvariantSVC(kernel=WIDE).fit(X, y)


@pytest.mark.parametrize("spectrum", ["clip", "flip"])
def test_corrected_kernels_have_no_parameters_to_set(spectrum):
    kernel = psd_corrected(WIDE, X, spectrum)
    with pytest.raises(ValueError, match="after a spectrum correction has no parameters to set"):
        kernel.set_params(kernel__kernel__sigma=3.0)
    with pytest.raises(ValueError, match="after a spectrum correction has no parameters to set"):
        SVC(kernel=kernel).set_params(kernel__kernel__kernel__sigma=3.0)
    np.testing.assert_array_equal(clone(kernel)(NEW), kernel(NEW))
