"""Fitted models of every kind, and what stays the same in a file."""

import inspect
import warnings

import numpy as np
import scipy.sparse as sp
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    KBinsDiscretizer,
    MaxAbsScaler,
    OneHotEncoder,
    StandardScaler,
)

import structinv
from structinv import (
    InvariantLinearSVC,
    InvariantLinearSVR,
    InvariantStructuredSVC,
    InvariantSVC,
    InvariantTextClassifier,
    OrbitRidge,
    RepresenterClassifier,
    RepresenterRegressor,
    VirtualSVC,
)
from structinv.datasets import conll_features, make_tagged_text
from structinv.estimators.tokens import TokenVectorizer
from structinv.functionals import Folded, Gradient, LocalAverage, SecondDerivative, Tangents
from structinv.kernels import Gaussian, Linear, Matern, OrbitDistance, OrbitMean
from structinv.oracles import Box, FDrop, FScale, Identity, InvarianceOracle, Rotations, Shifts
from structinv.solvers import BMRM, Status
from structinv.structures import Multilabel, Sequence

from ..estimators.cases import CASE


def signals(n=24, d=6, n_classes=2, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % n_classes
    X = rng.standard_normal((n, d)) + 2.0 * (np.arange(d) % n_classes == y[:, None])
    return X, np.array(["left", "right", "up"])[y]


def pictures(n=16):
    X, y = load_digits(n_class=2, return_X_y=True)
    return X[:n] / 16.0, y[:n]


def counts(n=40, d=12, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 2
    X = rng.poisson(0.4 + 1.5 * (np.arange(d) % 2 == y[:, None]))
    return sp.csr_matrix(X, dtype=float), np.array(["ham", "spam"])[y]


def texts():
    words = np.array(["free", "money", "now", "see", "lunch", "at"])
    X, y = counts(40, len(words))
    return [" ".join(np.repeat(words, row.astype(int))) for row in X.toarray()], y


def sentences():
    tagged, y = make_tagged_text(12, random_state=0)
    return conll_features(tagged), y


def label_sets():
    X, _ = signals()
    return X, (X[:, :3] > 0).astype(int)


def overlap(X, Y):
    return np.minimum(X[:, None], Y[None]).sum(axis=2)


class Own(InvarianceOracle):
    """A third-party oracle, at the top of a module."""

    def __init__(self, inner=None, size=1.0):
        self.inner = inner
        self.size = size

    def support(self, X, V, assign, cost=None):
        return Identity().support(X, V, assign, cost)


def fitted(model, data):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(*data)


def through_file(model, tmp_path, trusted=()):
    with warnings.catch_warnings():
        if not trusted:
            warnings.simplefilter("error")
        structinv.save(model, tmp_path / "model")
    return structinv.load(tmp_path / "model", trusted=trusted)


def assert_same(one, other):
    """The same values all the way down, to the bit."""
    assert type(one) is type(other)
    if isinstance(one, np.ndarray):
        assert one.dtype == other.dtype
        if one.dtype == object:
            assert_same(one.tolist(), other.tolist())
        else:
            np.testing.assert_array_equal(one, other)
    elif sp.issparse(one):
        assert_same(one.toarray(), other.toarray())
    elif isinstance(one, (list, tuple)):
        assert len(one) == len(other)
        for a, b in zip(one, other, strict=True):
            assert_same(a, b)
    elif isinstance(one, dict):
        # True == 1, so that equal keys may have other types.
        assert_same(list(one), list(other))
        for key in one:
            assert_same(one[key], other[key])
    elif isinstance(one, type):
        assert one is other
    elif hasattr(one, "__dict__") and not inspect.isroutine(one) and not isinstance(one, Status):
        # Without what is kept, and can be made again.
        assert_same(one.__getstate__(), other.__getstate__())
    elif not inspect.isroutine(one):
        assert one == other or (one != one and other != other)


def assert_answers_are_the_same(model, again, X):
    for method in ("predict", "decision_function", "predict_proba", "transform"):
        if hasattr(model, method):
            assert_same(getattr(model, method)(X), getattr(again, method)(X))
    if hasattr(model, "certify"):
        assert_same(vars(model.certify(X)), vars(again.certify(X)))
        assert_same(model.worst_case(X), again.worst_case(X))


known = pictures()[1].copy()
known[4:] = -1


def short_sequences():
    X, y = signals(n_classes=3)
    cut = range(0, len(X), 4)
    return [X[i : i + 4] for i in cut], [y[i : i + 4] for i in cut]


WORDS = InvariantLinearSVC(FDrop(1), C=0.1, tol=0.1)


MODELS = {
    **{case.name: (case.estimator, (case.X, case.y)) for case in CASE.values()},
    "sequences": (
        InvariantStructuredSVC(Sequence(), oracle=Box(0.1), C=0.1, tol=0.1, max_seconds=30.0),
        short_sequences(),
    ),
    "linear, float32, three classes": (
        InvariantLinearSVC(Box(0.1), tol=1e-2, cost=1.0 - np.eye(3)),
        (signals(n_classes=3)[0].astype(np.float32), signals(n_classes=3)[1]),
    ),
    "linear, sparse": (InvariantLinearSVC(FDrop(2) | FScale(1), C=0.1, tol=0.1), counts()),
    "linear, weights and solver": (
        InvariantLinearSVC(FDrop(1), solver=BMRM(), class_weight={"ham": 1.0, "spam": 2.0}, tol=1e-2),
        counts(),
    ),
    "texts": (InvariantTextClassifier("drop", 1, TfidfVectorizer(ngram_range=(1, 2)), C=0.1), texts()),
    "texts, inserted tokens": (
        InvariantTextClassifier("add", 2, allowed=["lunch", "see"], only_for="spam"),
        texts(),
    ),
    "kernel, cover": (
        InvariantSVC(Rotations(interval=(-10, 10), resolution=3), kernel=Matern(2.0), tol=0.1),
        pictures(),
    ),
    "kernel, three classes": (InvariantSVC(Shifts(1, shape=(1, 6)), tol=0.1), signals(n_classes=3)),
    "kernel, precomputed": (
        InvariantSVC(kernel="precomputed"),
        (signals()[0] @ signals()[0].T, signals()[1]),
    ),
    "kernel, functionals": (
        InvariantSVC(Shifts(1), invariances=[Tangents(Rotations([-10, 10]))], tol=0.1),
        pictures(),
    ),
    "kernel, folded": (
        InvariantSVC(kernel=Folded(Gaussian(), [Gradient().bind(signals()[0][:4])])),
        signals(),
    ),
    "representers": (
        RepresenterClassifier(
            2.0 * Gaussian(2.0) + Linear(),
            invariances=[Gradient(), LocalAverage(0.3)],
            nu=[0.1, 0.2],
            bias=True,
        ),
        (pictures()[0][:, 20:26], known),
    ),
    "representers, worst case": (
        RepresenterClassifier(invariances=[Gradient()], loss="hinge", oracle=Shifts(1), tol=0.1),
        pictures(),
    ),
    "representers, second derivatives": (
        RepresenterClassifier(Gaussian(2.0), invariances=[SecondDerivative(0, 1)]),
        (signals(d=3)),
    ),
    "regression": (
        RepresenterRegressor(invariances=[Gradient()], loss="huber", tol=1e-2),
        (signals()[0], signals()[0][:, 0] ** 2),
    ),
    "regression, linear": (
        InvariantLinearSVR(Box(0.1), tol=1e-2),
        (signals()[0].astype(np.float32), signals()[0][:, 0] + 3.0),
    ),
    "regression, linear, sparse": (InvariantLinearSVR(FDrop(1), tol=0.1), (counts()[0], np.arange(40))),
    "ridge, means over changes": (
        OrbitRidge(OrbitMean(Rotations(interval=(-20, 20)), Gaussian(3.0), n_draws=4), alphas=0.1),
        (pictures()[0], pictures()[0][:, 0]),
    ),
    "ridge, distances of means": (
        OrbitRidge(OrbitDistance(Shifts(1, shape=(1, 6)), Gaussian(3.0), tau=0.5)),
        (signals()[0], signals()[0][:, 0]),
    ),
    "virtual, sparse": (VirtualSVC(kernel="linear"), counts()),
    "virtual, kernel of ours": (VirtualSVC(Shifts(1), kernel="laplacian"), pictures()),
    "sets of labels": (InvariantStructuredSVC(Multilabel("tree"), tol=0.1), label_sets()),
    "tuples as labels": (
        InvariantStructuredSVC(Sequence(), tol=0.1),
        (short_sequences()[0], [[(label, 1) for label in labels] for labels in short_sequences()[1]]),
    ),
    "words of tokens": (TokenVectorizer(), sentences()),
    "hashed words of tokens": (TokenVectorizer(32), sentences()),
    "pipeline, sparse": (make_pipeline(MaxAbsScaler(), WORDS), counts()),
    "pipeline, kernel": (make_pipeline(StandardScaler(), InvariantSVC(tol=0.1)), signals()),
    "pipeline, counted words": (make_pipeline(CountVectorizer(dtype=float), WORDS), texts()),
    "pipeline, weighted words": (make_pipeline(TfidfVectorizer(max_features=6), WORDS), texts()),
    "pipeline, columns": (
        make_pipeline(
            make_column_transformer(
                (StandardScaler(), [0, 1]),
                (KBinsDiscretizer(3, quantile_method="averaged_inverted_cdf"), [2]),
                (OneHotEncoder(handle_unknown="ignore"), [3]),
                remainder=MaxAbsScaler(),
            ),
            OneVsRestClassifier(InvariantLinearSVC(tol=1e-2)),
        ),
        signals(n_classes=3),
    ),
    **{
        f"calibrated, {method}, {ensemble}": (
            CalibratedClassifierCV(
                InvariantSVC(Shifts(1, shape=(1, 6)), tol=0.1), method=method, ensemble=ensemble, cv=3
            ),
            signals(),
        )
        for method, ensemble in (("sigmoid", True), ("isotonic", False))
    },
}
