"""What cannot be used is refused by name wherever means over changes are asked, before any work."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from structinv import OrbitRidge
from structinv.embeddings import GroupCDF, OrbitFourier, OrbitNystroem, PatchOrbits
from structinv.kernels import Gaussian, Laplacian, Linear, OrbitDistance, OrbitMean, Polynomial
from structinv.kernels.combinations import Sum
from structinv.model_selection import select_widths
from structinv.oracles import Flip, Permutations, Rotations, Weighted

X = np.random.default_rng(0).standard_normal((20, 16))
Y = X[:, 0] * X[:, 1]
LABELS = (X[:, 0] > 0).astype(int)
TURNS = Rotations(interval=(-20, 20), spread=10.0)

TRANSFORMERS = [
    OrbitFourier(Flip(), n_components=4),
    OrbitNystroem(Flip(), n_components=4),
    GroupCDF(Flip(), n_components=4),
    PatchOrbits(Flip(), patch_size=2, n_components=3, n_patches=100),
]


@pytest.fixture(autouse=True)
def warnings_are_errors():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def learned(X=X, y=LABELS, **changes):
    given = {"oracle": TURNS, "grid": {"spread": [5, 20]}, "n_draws": 2} | changes
    return select_widths(X=X, y=y, **given)


# Half precision.
KERNELS = [OrbitMean(Flip(), Gaussian()), OrbitDistance(Flip(), Gaussian())]
ALL_KERNELS = [*KERNELS, Gaussian(), Laplacian(), Linear(), Polynomial(), Gaussian() + Linear()]
HALF = X.astype(np.float16)
HALVES = [HALF, pd.DataFrame(X).astype({3: np.float16}), list(HALF)]


def test_half_precision_is_refused_by_name():
    asked = [(ask, [HALF]) for k in ALL_KERNELS for ask in (lambda X, k=k: k.matrix(X, X), k.diagonal)]
    asked += [(kernel, HALVES) for kernel in ALL_KERNELS]
    for each in TRANSFORMERS:
        fitted = clone(each).fit(X)
        asked += [
            (ask, HALVES) for ask in (clone(each).fit, clone(each).fit_transform, fitted.transform)
        ]
    ridge = OrbitRidge(KERNELS[0])
    asked += [
        (clone(TRANSFORMERS[0]).fit(X).kernel_error, HALVES),
        (lambda X: clone(ridge).fit(X, Y), HALVES),
        (clone(ridge).fit(X, Y).predict, HALVES),
        (lambda half: clone(ridge).fit(X, Y).score(half, Y), HALVES),
        (learned, HALVES),
    ]
    for ask, halves in asked:
        for rows in halves:
            with pytest.raises(TypeError, match=r"X must have dtype float32 or float64, got float16: p"):
                ask(rows)


# What else the parts of a mean must be.

IMAGES = X.reshape(20, 4, 4)


@pytest.mark.parametrize(
    ("oracle", "size", "rows", "message"),
    [
        (TURNS, None, X, "n_draws must be an integer, because Rotations has no finite list"),
        (Flip().only_for([1]), 2, X, "oracle must not depend on labels"),
        (Weighted(Flip(), [1.0]), None, X, "weights must have 2 entries"),
        (Weighted(TURNS, [1.0, 1.0]), None, X, "oracle must be finite"),
        (Permutations((8, 2), axes="both"), 2, X, r"shape must be square for axes='both', got \(8, 2\)"),
        (Permutations((3, 5)), 2, X, r"shape must match the 16 features, got \(3, 5\)"),
        (TURNS, 0, X, "n_draws must be at least 1 and at most .*, got 0"),
        (Flip(), None, np.full_like(X, np.nan), "NaN"),
        (Flip(), None, X[:, :15], "shape must be .height, width.*15 features"),
        (Flip(), None, IMAGES, r"X must have shape \(.*\).*, got \(20, 4, 4\): pass"),
        (Flip(), None, list(IMAGES), "X must|dim 3"),
    ],
)
def test_oracles_without_an_average_are_errors(oracle, size, rows, message):
    kernel = OrbitMean(oracle, Gaussian(), size)
    asked = [
        lambda: kernel(rows),
        lambda: OrbitDistance(oracle, Gaussian(), 1.0, size)(rows),
        lambda: OrbitFourier(oracle, n_components=4, n_draws=size).fit(rows),
        lambda: OrbitNystroem(oracle, n_components=4, n_draws=size).fit(rows),
        lambda: GroupCDF(oracle, n_components=4, n_draws=size).fit(rows),
    ]
    for ask in asked:
        with pytest.raises((ValueError, TypeError), match=message):
            ask()
    if np.ndim(rows) == 2:
        with pytest.raises((ValueError, TypeError), match=message):
            OrbitRidge(kernel).fit(rows, Y)
    if isinstance(rows, np.ndarray):
        with pytest.raises((ValueError, TypeError), match=message.replace("NaN", "X must be finite")):
            kernel.matrix(rows, rows)
        with pytest.raises((ValueError, TypeError), match=message.replace("NaN", "X must be finite")):
            kernel.diagonal(rows)


def test_parameters_are_checked_by_every_method():
    for kernel, message in (
        (OrbitMean(Flip, Gaussian()), r"oracle must be .*; pass an instance: Flip\(\)"),
        (OrbitMean(Flip(), Gaussian), r"kernel must be a Kernel, .*; pass an instance: Gaussian\(\)"),
        (OrbitMean(Flip(), Gaussian(-1.0)), "sigma must be a number above 0"),
        (OrbitDistance(Flip(), Gaussian(), tau=-1.0), "tau must be a number above 0, got -1.0"),
    ):
        for ask in (lambda k: k.matrix(X, X), lambda k: k.diagonal(X), lambda k: k(X)):
            with pytest.raises((TypeError, ValueError), match=message):
                ask(kernel)
    with pytest.raises(TypeError, match="Y must be an array, got NoneType"):
        OrbitMean(Flip(), Gaussian()).matrix(X, None)
    with pytest.raises(TypeError, match="X must (hold|contain) real numbers, got dtype complex128"):
        OrbitMean(Flip(), Gaussian()).diagonal(1j * X)


INSTANCE = r"must .*; pass an instance: {}\(".format
CLASSES = [
    (lambda: OrbitNystroem(kernel="rbf").fit(X), r"write structinv.kernels.Gaussian\(...\)"),
    (lambda: PatchOrbits(whole=Flip).fit(X), "whole " + INSTANCE("Flip")),
    (lambda: PatchOrbits(below=PatchOrbits).fit(X), "below " + INSTANCE("PatchOrbits")),
    (lambda: PatchOrbits(kernel=Gaussian).fit(X), "kernel " + INSTANCE("Gaussian")),
    (lambda: Sum(Gaussian, Linear()).validate(), "left " + INSTANCE("Gaussian")),
    (lambda: OrbitRidge("RBF").fit(X, Y), "kernel must be one of .*: did you mean 'rbf'?"),
    (lambda: OrbitRidge("matern").fit(X, Y), r"kernel must be .*structinv.kernels.Matern\(...\)"),
    (lambda: learned(kernel=Gaussian), r"got the class Gaussian; pass an instance: Gaussian\(...\)"),
]


@pytest.mark.parametrize(("make", "message"), CLASSES)
def test_classes_and_names_instead_of_instances_are_errors(make, message):
    with pytest.raises((TypeError, ValueError), match=message):
        make()


@pytest.mark.parametrize("estimator", TRANSFORMERS, ids=lambda each: type(each).__name__)
def test_transformers_recommend_reshaping_stacks_of_images(estimator):
    for shape in [(4, 4), (2, 8), (2, 4, 2)]:
        images, fitted = X.reshape(20, *shape), clone(estimator).fit(X)
        said = r"X must have .*pass np.reshape\(X, \(len\(X\), -1\)\), and shape=\({}\)"
        for ask in (clone(estimator).fit, clone(estimator).fit_transform, fitted.transform):
            for given in (images, list(images)):
                with pytest.raises(ValueError, match=said.format(", ".join(map(str, shape)))):
                    ask(given)


@pytest.mark.parametrize("estimator", TRANSFORMERS, ids=lambda each: type(each).__name__)
def test_negative_random_states_are_errors(estimator):
    with pytest.raises(ValueError, match="random_state must be an integer"):
        clone(estimator).set_params(random_state=-1).fit(X)


# Ridge.


@pytest.mark.parametrize(
    ("y", "error", "message"),
    [
        (["1.5"] * 20, ValueError, "y must contain numbers, got"),
        (np.full(20, "2020-01-01", dtype="datetime64[D]"), ValueError, "y must contain numbers, got"),
        (None, ValueError, "requires y to be passed"),
        ([None] * 20, ValueError, "y must contain finite numbers"),
        (Y.reshape(20, 1, 1), ValueError, "dim 3"),
    ],
)
def test_invalid_targets_are_errors(monkeypatch, y, error, message):
    monkeypatch.setattr("structinv.estimators.ridge.kernel_matrix", None)
    model = OrbitRidge(Gaussian())
    with pytest.raises(error, match=message):
        model.fit(X, y)
    assert not [name for name in vars(model) if name.endswith("_")]


@pytest.mark.parametrize(
    ("scoring", "error", "message"),
    [
        ("marginal_likelyhood", ValueError, "marginal_likelyhood"),
        (["r2"], ValueError, "scoring"),
        (lambda model, X, y: None, ValueError, "scoring must return one number"),
    ],
)
def test_invalid_scorers_are_errors(scoring, error, message):
    model = OrbitRidge(Gaussian(), scoring=scoring)
    with pytest.raises(error, match=message):
        model.fit(X, Y)
    assert not [name for name in vars(model) if name.endswith("_")]
