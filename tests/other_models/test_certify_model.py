"""Certificates for models that somebody else trained."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.linear_model import (
    LogisticRegression,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    MaxAbsScaler,
    StandardScaler,
)
from sklearn.svm import LinearSVC

from structinv import (
    InvariantLinearSVC,
    InvariantSVC,
    certify,
)
from structinv.oracles import Box, Ellipsoid, FDrop, Flip, FScale
from structinv.spaces import ExplicitSpace
from structinv.spaces.explicit_space import OffsetSpace
from structinv.structures import Binary, Multiclass
from structinv.terms import WorstCase
from structinv.utils.matrices import ALL_ROWS

from ..margins import dropped, lowest_margins
from .cases import D, N, check_by_force, corners, rows


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("oracle", [Box(0.3), FScale(2), Flip(shape=(1, D))], ids=str)
def test_margins_equal_those_of_invariant_linear_svc(n_classes, oracle):
    X, y = rows(n_classes)
    own = InvariantLinearSVC(random_state=0).fit(X, y)
    other = LogisticRegression().fit(X, y)
    other.coef_, other.intercept_ = own.coef_, own.intercept_
    expected, found = own.certify(X, y, oracle=oracle), certify(other, oracle, X, y)
    for name in ("margins", "attacked", "exact", "correct"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
    unlabeled = certify(other, oracle, X)
    np.testing.assert_array_equal(unlabeled.margins, own.certify(X, oracle=oracle).margins)


def test_estimators_of_structinv_use_their_certify():
    X, y = rows()
    for own in (InvariantLinearSVC(Box(0.2), random_state=0), InvariantSVC(Flip(shape=(1, D)))):
        own.fit(X, y)
        certificate = certify(own, None, X, y)
        np.testing.assert_array_equal(certificate.margins, own.certify(X, y).margins)
        certificate = certify(make_pipeline(MaxAbsScaler().fit(X), own), Flip(shape=(1, D)), X, y)
        scaled = MaxAbsScaler().fit_transform(X)
        expected = own.certify(scaled, y, oracle=Flip(shape=(1, D)))
        np.testing.assert_array_equal(certificate.margins, expected.margins)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
def test_certificates_of_sparse_rows_and_other_dtypes(dtype):
    rng = np.random.default_rng(1)
    X = rng.poisson(1.0, (40, D)).astype(dtype)
    y = np.where(X[:, 0] > X[:, 1], "a", "b")
    model = LinearSVC().fit(sp.csr_matrix(X), y)
    dense = certify(model, FDrop(1), X, y)
    # What single precision rounds is subtracted, more where more features are summed.
    near = 1e-4 if dtype is np.float32 else 1e-5
    for form in (sp.csr_matrix, sp.csc_matrix, sp.coo_array):
        np.testing.assert_allclose(
            certify(model, FDrop(1), form(X), y).margins, dense.margins, atol=near
        )
    check = lowest_margins(model, dropped(X.astype(float), 1), y)
    np.testing.assert_allclose(dense.margins, check, atol=near)
    assert np.all(dense.margins <= check)


def test_kernel_models_are_errors_at_the_input():
    X, y = rows()
    own = InvariantSVC(Flip(shape=(1, D))).fit(X, y)
    assert certify(own, None, X, y, at="input").margins.shape == (N,)
    with pytest.raises(TypeError, match="linear classifier, .* with at='features' .* InvariantSVC"):
        certify(make_pipeline(StandardScaler().fit(X), own), None, X, y, at="input")


LOGISTIC, ROWS = LogisticRegression(), rows()
WRONG = [
    ({"at": "pixels"}, ValueError, "at must be one of"),
    ({"oracle": None}, TypeError, "got None: LogisticRegression has no parameter oracle"),
    ({"oracle": Box}, TypeError, "oracle must be an InvarianceOracle"),
    ({"oracle": Box(-1.0)}, ValueError, "radius must be at least 0"),
    ({"y": np.where(ROWS[1] == "a", "z", ROWS[1])}, ValueError, r"not among the classes: \['z'\]"),
    ({"y": np.arange(N)}, ValueError, "not among the classes"),
    ({"y": ROWS[1][:4]}, ValueError, r"y must have shape \(30,\)"),
    ({"X": ROWS[0][:, :3]}, ValueError, "5 features"),
    ({"X": np.full((N, D), np.nan)}, ValueError, "NaN"),
    ({"X": sp.csr_matrix(ROWS[0]), "oracle": Ellipsoid(np.eye(D))}, TypeError, "sparse rows"),
    ({"estimator": LogisticRegression()}, NotFittedError, ""),
    ({"estimator": make_pipeline(StandardScaler(), LogisticRegression())}, NotFittedError, ""),
    # The oracle comes before the rows.
    ({"oracle": ROWS[0], "X": ROWS[1], "y": None}, TypeError, r"rows of shape \(30, 5\): pass the or"),
]


@pytest.mark.parametrize(("change", "error", "message"), WRONG, ids=range(len(WRONG)))
def test_what_is_wrong_is_named(change, error, message):
    X, y = ROWS
    given = {"estimator": LOGISTIC.fit(X, y), "oracle": Box(0.1), "X": X, "y": y} | change
    with pytest.raises(error, match=message):
        certify(**given)


def test_many_rows_are_certified_in_blocks(monkeypatch):
    X, y = rows(3)
    model = LogisticRegression().fit(X, y)
    oracle = FDrop(1).only_for("a") | Box(0.1).only_for("b")
    whole = certify(model, oracle, X, y)
    monkeypatch.setattr("structinv.other_models.certify_model.ROWS_AT_ONCE", 7)
    parts = certify(model, oracle, X, y)
    np.testing.assert_array_equal(whole.margins, parts.margins)


def test_features_are_the_rows_of_the_last_step():
    X, y = rows(3)
    model = make_pipeline(StandardScaler(), PCA(3), LogisticRegression()).fit(X, y)
    scores = model[:-1].transform(X)
    check_by_force(model[-1], certify(model, Box(0.2), X, y), corners(scores, 0.2), y)


def test_counts_of_texts_are_features():
    mails = ["win cash now", "cash offer", "meeting at noon", "noon report at work"] * 3
    y = ["spam", "spam", "ham", "ham"] * 3
    for vectorizer in (CountVectorizer(), TfidfVectorizer()):
        model = make_pipeline(vectorizer, LogisticRegression(C=10.0)).fit(mails, y)
        counts = vectorizer.transform(mails).toarray()
        words = [mask for K in (0, 1) for mask in itertools.combinations(range(counts.shape[1]), K)]
        points = np.stack([np.where(np.isin(np.arange(counts.shape[1]), mask), 0.0, counts)
                           for mask in words], axis=1)  # fmt: skip
        check_by_force(model[-1], certify(model, FDrop(1), mails, y), points, np.array(y))
    with pytest.raises(ValueError, match="TfidfVectorizer is not known to be affine"):
        certify(model, FDrop(1), mails, y, at="input")


@pytest.mark.parametrize("y", [np.arange(12) % 2, np.arange(12) % 3], ids=["binary", "multiclass"])
def test_constants_of_rows_move_scores_and_bounds(y):
    rng = np.random.default_rng(0)
    rows, n_outputs = rng.standard_normal((12, 4)), 1 if y.max() == 1 else 3
    structure = Binary() if n_outputs == 1 else Multiclass()
    term = WorstCase(rows, y, Box(0.3), structure)
    offsets, f = 3.0 * rng.standard_normal((12, n_outputs)), rng.standard_normal(4 * n_outputs)
    space, competitors = ExplicitSpace(4, n_outputs), term.bound_structure.competitors()
    found = OffsetSpace(space, offsets).worst(f, term.bound, ALL_ROWS, competitors)
    functions = competitors.functions
    weights = functions.signs[:, None] * space.weights(f)[functions.outputs]
    constants = functions.signs * offsets[:, functions.outputs]
    for i, code in enumerate(y):
        for label in set(range(y.max() + 1)) - {code}:
            v = weights[label] - weights[code]
            best = v @ rows[i] + 0.3 * np.abs(v).sum() + constants[i, label] - constants[i, code]
            assert found.gains[i, label] == pytest.approx(best)
            assert found.upper[i, label] == pytest.approx(best + found.costs[i, label])
