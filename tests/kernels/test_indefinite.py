"""Indefinite kernels: warnings, and the correction of their spectrum."""

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
from structinv.kernels import Gaussian, OrbitMean, SetKernel, indefinite, psd_corrected
from structinv.oracles import Flip, Segment

from ..covering import slow_unless
from .cases import CLASSES, NEW, POINTS, WIDE


@pytest.mark.parametrize("kind", ["callable", "table"])
def test_asymmetric_kernels_raise_a_warning(kind):
    X, y = np.random.default_rng(0).standard_normal((20, 3)), np.arange(20) % 2

    def skew(A, B):
        return A @ B.T + B[:, 0]

    model = InvariantSVC(kernel=skew if kind == "callable" else "precomputed")
    with pytest.warns(IndefiniteKernelWarning, match="is not symmetric: .* for the same rows"):
        model.fit(X if kind == "callable" else skew(X, X), y)


MENDING = ("clip", "flip", "square")


def test_a_fit_warns_of_the_smallest_eigenvalue():
    model = InvariantSVC(kernel=WIDE)
    least = np.linalg.eigvalsh(WIDE(POINTS))[0]
    assert least < -0.05
    with pytest.warns(IndefiniteKernelWarning, match=rf"SetKernel is not .* from {least:.3g} to"):
        model.fit(POINTS, CLASSES)
    assert model.min_eigenvalue_ == pytest.approx(least, abs=1e-9)


@pytest.mark.parametrize("spectrum", MENDING)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_corrected_kernels_are_positive_semi_definite_everywhere(spectrum, dtype):
    kernel = psd_corrected(WIDE, POINTS.astype(dtype), spectrum)
    assert kernel.definite
    points = np.vstack([POINTS, NEW]).astype(dtype)
    table = kernel(points)
    values = np.linalg.eigvalsh(table.astype(np.float64))
    assert values[0] > -(1e-10 if dtype == np.float64 else 1e-4) * values[-1]
    # On the training rows: the eigenvalues changed, the eigenvectors kept.
    old, vectors = np.linalg.eigh(WIDE(POINTS))
    new = {"clip": np.maximum(old, 0.0), "flip": np.abs(old), "square": old**2}[spectrum]
    expected = vectors * new @ vectors.T
    np.testing.assert_allclose(
        kernel(POINTS.astype(dtype)), expected, atol=1e-9 if dtype == np.float64 else 1e-3
    )
    # For new rows: the formula, term by term.
    kept = old > 1e-12 if spectrum == "clip" else np.abs(old) > 1e-12
    middle = (vectors[:, kept] * (new / np.where(kept, old, 1.0) ** 2)[kept]) @ vectors[:, kept].T
    right = WIDE(NEW, POINTS) @ middle @ WIDE(POINTS, POINTS[:5])
    atol = 1e-8 if dtype == np.float64 else 1e-2
    np.testing.assert_allclose(kernel(NEW.astype(dtype), POINTS[:5].astype(dtype)), right, atol=atol)
    np.testing.assert_allclose(kernel.diagonal(points), np.diagonal(table), atol=atol)


@pytest.mark.parametrize("spectrum", MENDING)
def test_corrected_kernels_keep_their_rows_if_the_given_array_changes(spectrum):
    points = POINTS.copy()
    kernel = psd_corrected(WIDE, points, spectrum)
    expected = psd_corrected(WIDE, POINTS, spectrum)(NEW)
    points[:] = 0.0
    np.testing.assert_array_equal(kernel(NEW), expected)


MACHINES = [
    InvariantSVC(random_state=0),
    InvariantSVC(Flip(shape=(1, 2)), random_state=0),
    RepresenterClassifier(random_state=0),
    VirtualSVC(random_state=0),
]


@pytest.mark.parametrize(
    ("machine", "spectrum"),
    slow_unless(
        lambda machine, spectrum: MACHINES.index(machine) % 3 == list(MENDING).index(spectrum),
        [(machine, spectrum) for machine in MACHINES for spectrum in MENDING],
    ),
    ids=lambda each: each if isinstance(each, str) else type(each).__name__ + str(each.oracle or ""),
)
def test_estimators_correct_with_their_training_rows(machine, spectrum):
    model = clone(machine).set_params(kernel=clone(WIDE).set_params(spectrum=spectrum))
    with warnings.catch_warnings():
        warnings.simplefilter("error", IndefiniteKernelWarning)
        model.fit(POINTS, CLASSES)
    assert model.min_eigenvalue_ == pytest.approx(np.linalg.eigvalsh(WIDE(POINTS))[0], abs=1e-9)
    given = clone(machine).set_params(kernel=psd_corrected(WIDE, POINTS, spectrum)).fit(POINTS, CLASSES)
    np.testing.assert_allclose(model.decision_function(NEW), given.decision_function(NEW), atol=1e-9)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(NEW), model.predict(NEW))
    # Another kernel is another fit: nothing is left of the former.
    assert model.set_params(kernel="rbf").fit(POINTS, CLASSES).min_eigenvalue_ is None


def test_spectrum_requires_training_rows_outside_an_estimator():
    kernel = clone(WIDE).set_params(spectrum="clip")
    with pytest.raises(
        ValueError, match=r"use structinv.kernels.psd_corrected\(kernel, X_train, 'clip'\)"
    ):
        kernel(POINTS)
    # Within sums, multiples and means, too.
    whole = 2.0 * kernel + Gaussian()
    model = InvariantSVC(kernel=whole).fit(POINTS, CLASSES)
    expected = 2.0 * psd_corrected(WIDE, POINTS, "clip")(NEW, POINTS) + Gaussian()(NEW, POINTS)
    np.testing.assert_allclose(model.kernel_(NEW, POINTS), expected, atol=1e-10)
    mean = OrbitMean(Flip(shape=(1, 2)), kernel)
    assert InvariantSVC(kernel=mean).fit(POINTS, CLASSES).score(POINTS, CLASSES) > 0.5


def test_precomputed_and_callable_kernels_are_checked():
    table = WIDE(POINTS)
    with pytest.warns(IndefiniteKernelWarning, match="PrecomputedKernel is not positive"):
        InvariantSVC(kernel="precomputed").fit(table, CLASSES)
    with pytest.warns(IndefiniteKernelWarning, match="CallableKernel is not positive"):
        InvariantSVR(kernel=lambda a, b: WIDE.matrix(a, b)).fit(POINTS, POINTS[:, 0])
    with warnings.catch_warnings():
        warnings.simplefilter("error", IndefiniteKernelWarning)
        good = InvariantSVC(kernel="precomputed").fit(Gaussian()(POINTS), CLASSES)
        InvariantSVC(kernel=lambda a, b: a @ b.T).fit(POINTS.astype(np.float32), CLASSES)
    assert good.min_eigenvalue_ > -1e-9


def test_eigenvalues_are_those_of_a_subset_of_many_rows(monkeypatch):
    monkeypatch.setattr(indefinite, "MOST_ROWS", 20)
    with pytest.warns(IndefiniteKernelWarning, match="on 20 of the training rows"):
        InvariantSVC(kernel=WIDE).fit(POINTS, CLASSES)


def test_landmark_features_warn_of_and_correct_indefinite_kernels():
    with pytest.warns(IndefiniteKernelWarning, match="OrbitNystroem: kernel SetKernel"):
        plain = OrbitNystroem(kernel=WIDE, n_components=20).fit(POINTS)
    assert plain.min_eigenvalue_ < -0.05
    corrected = clone(WIDE).set_params(spectrum="clip")
    with warnings.catch_warnings():
        warnings.simplefilter("error", IndefiniteKernelWarning)
        features = OrbitNystroem(kernel=corrected, n_components=40).fit(POINTS)
    F = features.transform(NEW)
    np.testing.assert_allclose(F @ F.T, psd_corrected(WIDE, POINTS, "clip")(NEW), atol=1e-6)
    assert OrbitNystroem(n_components=20).fit(POINTS).min_eigenvalue_ is None


def test_kernel_ridge_requires_a_corrected_kernel():
    values = POINTS[:, 0] * POINTS[:, 1]
    assert (
        OrbitRidge(clone(WIDE).set_params(spectrum="clip")).fit(POINTS, values).best_score_ is not None
    )
    with pytest.raises(ValueError, match=r"psd_corrected\(kernel, X\)"):
        OrbitRidge(WIDE, alphas=(1e-6, 1e-3)).fit(POINTS, values)


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        (("rbf", POINTS), TypeError, "kernel must be a Kernel"),
        ((WIDE, POINTS, "clippy"), ValueError, "spectrum must be one of"),
        ((WIDE, np.full((2, 2), np.nan)), ValueError, "finite"),
        ((WIDE, POINTS[0]), ValueError, "shape"),
        (
            (clone(WIDE).set_params(spectrum="clip"), POINTS),
            ValueError,
            "spectrum='clip' requires training",
        ),
    ],
)
def test_spectrum_correction_validates_its_arguments(arguments, kind, message):
    with pytest.raises(kind, match=message):
        psd_corrected(*arguments)


@pytest.mark.parametrize("spectrum", MENDING)
def test_min_eigenvalue_is_that_before_the_correction(spectrum):
    kernel, least = clone(WIDE).set_params(spectrum=spectrum), np.linalg.eigvalsh(WIDE(POINTS))[0]
    values = POINTS[:, 0]
    models = [
        OrbitNystroem(kernel=kernel, n_components=20).fit(POINTS),
        InvariantSVC(kernel=2.0 * kernel).fit(POINTS, CLASSES),
        InvariantSVC(kernel=Gaussian() + kernel).fit(POINTS, CLASSES),
        OrbitRidge(kernel, alphas=1.0).fit(POINTS, values),
    ]
    for model in models:
        assert model.min_eigenvalue_ == pytest.approx(least, abs=1e-9)
    assert OrbitRidge().fit(POINTS, values).min_eigenvalue_ is None


@pytest.mark.parametrize("spectrum", [None, "clip"])
def test_constant_kernels_raise_a_warning(spectrum):
    # All lines go through 0, so that all tangent lines are at distance 0.
    same = SetKernel(Segment(0.5, 2.0), Gaussian(), "tangent", spectrum)
    with pytest.warns(UninformativeFitWarning, match="SetKernel has the same value, 1, for all"):
        InvariantSVC(kernel=same).fit(POINTS, CLASSES)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UninformativeFitWarning)
        InvariantSVC(kernel=WIDE).fit(POINTS, CLASSES)


@pytest.mark.parametrize("spectrum", ["clip", "flip"])
def test_corrected_kernels_have_no_parameters_to_set(spectrum):
    kernel = psd_corrected(WIDE, POINTS, spectrum)
    with pytest.raises(ValueError, match="after a spectrum correction has no parameters to set"):
        kernel.set_params(kernel__kernel__sigma=3.0)
    with pytest.raises(ValueError, match="after a spectrum correction has no parameters to set"):
        SVC(kernel=kernel).set_params(kernel__kernel__kernel__sigma=3.0)
    np.testing.assert_array_equal(clone(kernel)(NEW), kernel(NEW))
