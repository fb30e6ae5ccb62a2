"""Warnings for images whose border has another value than the fill of their transformations."""

import warnings
from ast import literal_eval
from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.svm import LinearSVC

from structinv import (
    InvariantLinearSVC,
    InvariantLinearSVR,
    InvariantStructuredSVC,
    InvariantSVC,
    OrbitRidge,
    RepresenterClassifier,
    VirtualSVC,
    certify,
)
from structinv.embeddings import OrbitFourier, OrbitNystroem, PatchOrbits
from structinv.functionals import Tangents
from structinv.kernels import Gaussian, OrbitMean
from structinv.oracles import Box, FDrop, Flip, Rotations, Scalings, Shears, Shifts
from structinv.oracles.images.image_borders import warn_of_fill
from structinv.rows import SlicedRows
from structinv.structures import Sequence

DIGITS, Y = (each[:40] for each in load_digits(n_class=2, return_X_y=True))
CENTERED = DIGITS / 8 - 1
SHIFTS, FITTING = Shifts(1), Shifts(1, fill=-1.0)
FILLING = [
    Shifts(1),
    Shifts(interval=(-1, 1)),
    Rotations(degrees=[-10, 10]),
    Rotations(interval=(-10, 10)),
    Scalings(0.8),
    Shears(0.2),
]


def found(call, *given):
    """Return the texts of all warnings of fills."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call(*given)
    return [str(each.message) for each in caught if "beyond the border" in str(each.message)]


@pytest.mark.parametrize("oracle", FILLING, ids=str)
def test_the_fill_that_fits_is_named(oracle):
    for dtype in (np.float32, np.float64):
        images = CENTERED.astype(dtype)
        (text,) = found(warn_of_fill, oracle, images)
        assert text.startswith(f"{type(oracle).__name__}: pixels beyond the border are filled with 0")
        assert "most border pixels of these images are -1" in text
        assert text.endswith("Choose fill=-1.0")
        assert not found(warn_of_fill, clone(oracle).set_params(fill=-1.0), images)


@pytest.mark.parametrize(
    ("images", "fill"),
    [
        (DIGITS, 16.0),
        (16 - DIGITS, "zero"),
        ((DIGITS - DIGITS.mean()) / DIGITS.std(), "zero"),
        (DIGITS - DIGITS.mean(axis=1, keepdims=True), "zero"),
        (sp.csr_matrix(DIGITS), 8.0),
        (CENTERED[:1], "zero"),
    ],
    ids=["numeric", "black on white", "standardized", "each image centered", "sparse", "single image"],
)
def test_the_named_fill_ends_the_warning(images, fill):
    (text,) = found(warn_of_fill, Rotations(10, fill=fill), images)
    named = literal_eval(text.split("Choose fill=")[1])
    assert not found(warn_of_fill, Rotations(10, fill=named), images)


def photographs():
    """Return smooth color images with varied borders, (30, 12, 12, 3)."""
    rng = np.random.default_rng(0)
    coarse = rng.random((30, 4, 4, 3))
    return np.repeat(np.repeat(coarse, 3, axis=1), 3, axis=2) + 0.01 * rng.random((30, 12, 12, 3))


@pytest.mark.parametrize(
    ("images", "shape"),
    [
        (DIGITS, None),
        (DIGITS / 16, None),
        (DIGITS - DIGITS.mean(axis=0), None),
        (np.random.default_rng(0).random((20, 64)), None),
        (photographs().reshape(30, -1), (12, 12, 3)),
        (np.rint(5 * photographs()).reshape(30, -1), (12, 12, 3)),
        (np.pad(photographs(), ((0, 0), (2, 2), (2, 2), (0, 0))).reshape(30, -1), (16, 16, 3)),
        (np.zeros((3, 64)), None),
    ],
    ids=["digits", "scaled", "centered pixels", "noise", "photos", "few colors", "framed", "black"],
)
def test_ordinary_images_have_no_warning(images, shape):
    for oracle in FILLING:
        assert not found(warn_of_fill, clone(oracle).set_params(shape=shape), images)


@pytest.mark.parametrize(
    "oracle",
    [
        *(Rotations(10, fill=fill) for fill in ("nearest", "reflect", "wrap", -1, -0.999)),
        Flip(),
        Rotations([90, 180]),
        Scalings(1.5),
        FITTING | Rotations(10, fill="nearest"),
        FDrop(1),
        Box(0.1),
    ],
    ids=str,
)
def test_transformations_with_a_fitting_fill_have_no_warning(oracle):
    assert not found(warn_of_fill, oracle, CENTERED)


def test_combinations_have_one_warning():
    (text,) = found(warn_of_fill, (SHIFTS | Rotations(10) | Flip()).only_for([0]), CENTERED)
    assert text.startswith("Shifts and Rotations: pixels")


ROTATED = OrbitMean(Rotations([10]), Gaussian(3.0))
FITS = {
    "linear": InvariantLinearSVC(SHIFTS, tol=0.5),
    "kernel": InvariantSVC(SHIFTS, kernel="linear", tol=0.5),
    "kernel of an oracle": InvariantSVC(FITTING, kernel=ROTATED, tol=0.5),
    "functional": RepresenterClassifier(invariances=[Tangents(Shifts(interval=(-1, 1)))], tol=0.5),
    "regressor": InvariantLinearSVR(SHIFTS, tol=0.5),
    "virtual": VirtualSVC(SHIFTS),
    "ridge": OrbitRidge(ROTATED),
    "Fourier": OrbitFourier(SHIFTS, n_components=10, random_state=0),
    "Nystroem": OrbitNystroem(SHIFTS, n_components=10, random_state=0),
    "patches": PatchOrbits(whole=SHIFTS, patch_size=3, n_components=4, pool=2, random_state=0),
}


@pytest.mark.parametrize("estimator", FITS.values(), ids=FITS)
def test_a_fit_warns_once(estimator):
    assert len(found(estimator.fit, CENTERED, Y)) == 1


def test_a_fit_on_stacks_of_images_warns_once():
    images = CENTERED.reshape(-1, 4, 16)
    assert len(found(InvariantLinearSVC(SHIFTS, tol=0.5).fit, images, Y)) == 1
    assert not found(InvariantLinearSVC(SHIFTS, tol=0.5).fit, images + 1, Y)


def test_a_fit_on_rows_in_blocks_warns_once():
    assert len(found(InvariantLinearSVC(SHIFTS, tol=0.5).fit, SlicedRows(CENTERED), Y)) == 1


def test_certificates_warn_once():
    linear = InvariantLinearSVC(FITTING, tol=0.5).fit(CENTERED, Y)
    regressor = InvariantLinearSVR(FITTING, tol=0.5).fit(CENTERED, Y)
    examples = CENTERED.reshape(10, 4, 64)
    labelings = InvariantStructuredSVC(Sequence(), oracle=FITTING, tol=0.5)
    labelings.fit(list(examples), Y.reshape(10, 4))
    for model, X in ((linear, CENTERED), (regressor, CENTERED), (labelings, list(examples))):
        assert not found(model.certify, X)
        assert len(found(partial(model.certify, X, oracle=SHIFTS))) == 1
    assert len(found(certify, LinearSVC().fit(CENTERED, Y), SHIFTS, CENTERED, Y)) == 1
