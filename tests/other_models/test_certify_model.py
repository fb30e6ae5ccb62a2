"""Certificates for models that somebody else trained."""

import itertools

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.decomposition import PCA, IncrementalPCA, TruncatedSVD
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import BaggingClassifier
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import CountVectorizer, TfidfTransformer, TfidfVectorizer
from sklearn.feature_selection import (
    RFE,
    SelectFromModel,
    SelectKBest,
    SequentialFeatureSelector,
    VarianceThreshold,
)
from sklearn.linear_model import (
    LogisticRegression,
    LogisticRegressionCV,
    Perceptron,
    Ridge,
    RidgeClassifier,
    RidgeClassifierCV,
    SGDClassifier,
)
from sklearn.model_selection import GridSearchCV
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier, OutputCodeClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    RobustScaler,
    StandardScaler,
)
from sklearn.random_projection import GaussianRandomProjection, SparseRandomProjection
from sklearn.svm import SVC, LinearSVC, NuSVC

from structinv import (
    InvariantLinearSVC,
    InvariantLinearSVR,
    InvariantSVC,
    RepresenterClassifier,
    VirtualSVC,
    certify,
)
from structinv.inspection import security_curve
from structinv.model_selection import select_changes
from structinv.oracles import Box, Ellipsoid, FDrop, Flip, FScale
from structinv.other_models.affine import Affine
from structinv.report import write
from structinv.spaces import ExplicitSpace
from structinv.spaces.explicit_space import OffsetSpace
from structinv.structures import Binary, Multiclass
from structinv.terms import WorstCase
from structinv.utils.matrices import ALL_ROWS

from ..margins import dropped, lowest_margins, margins

N, D = 30, 5


def rows(n_classes=2, seed=0, n=N):
    rng = np.random.default_rng(seed)
    codes = np.arange(n) % n_classes
    X = rng.standard_normal((n, D)) + 2.0 * rng.standard_normal((n_classes, D))[codes]
    return X, np.array(["a", "b", "c", "d"])[codes]


CLASSIFIERS = [
    LinearSVC(),
    LinearSVC(fit_intercept=False),
    LogisticRegression(),
    LogisticRegressionCV(cv=3),
    RidgeClassifier(),
    RidgeClassifierCV(),
    SGDClassifier(random_state=0),
    SGDClassifier(loss="log_loss", average=True, random_state=0),
    Perceptron(random_state=0),
    LinearDiscriminantAnalysis(),
    OneVsRestClassifier(LogisticRegression()),
    GridSearchCV(LinearSVC(), {"C": [0.1, 1.0]}, cv=2),
]


def corners(X, radius):
    """All corners of a box around each row."""
    signs = np.array(list(itertools.product([-1.0, 1.0], repeat=X.shape[1])))
    return X[:, None, :] + radius * signs


def check_by_force(model, certificate, points, y):
    worst = lowest_margins(model, points, y)
    np.testing.assert_allclose(certificate.margins, worst, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(certificate.attacked, worst, rtol=1e-9, atol=1e-9)
    assert np.all(certificate.margins <= worst + 1e-13)
    assert certificate.exact.all()
    assert np.array_equal(certificate.correct, certificate.margins > 0)


@pytest.mark.filterwarnings("ignore::FutureWarning:sklearn")
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("classifier", CLASSIFIERS, ids=lambda model: str(model)[:40])
def test_margins_are_those_of_the_worst_corner(classifier, n_classes):
    X, y = rows(n_classes)
    model = classifier.fit(X, y)
    check_by_force(model, certify(model, Box(0.4), X, y), corners(X, 0.4), y)
    check_by_force(model, certify(model, FDrop(2), X, y), dropped(X, 2), y)


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


class TestPipelines:
    STEPS = [
        [StandardScaler()],
        [StandardScaler(with_mean=False)],
        [StandardScaler(with_std=False)],
        [RobustScaler()],
        [RobustScaler(with_centering=False, with_scaling=False)],
        [MaxAbsScaler()],
        [MinMaxScaler((-1, 3))],
        [PCA(3)],
        [PCA(3, whiten=True)],
        [IncrementalPCA(2)],
        [TruncatedSVD(3, random_state=0)],
        [GaussianRandomProjection(4, random_state=0)],
        [SparseRandomProjection(4, random_state=0, dense_output=True)],
        [SelectKBest(k=3)],
        [VarianceThreshold()],
        [SelectFromModel(LinearSVC())],
        [RFE(LinearSVC(), n_features_to_select=2)],
        [SequentialFeatureSelector(RidgeClassifier(), n_features_to_select=2, cv=2)],
        ["passthrough"],
        [FunctionTransformer(), StandardScaler(), FunctionTransformer(validate=True)],
        [StandardScaler(), SelectKBest(k=4), PCA(2), "passthrough", MinMaxScaler()],
        [make_pipeline(StandardScaler(), PCA(3))],
    ]

    @pytest.mark.parametrize("n_classes", [2, 3])
    @pytest.mark.parametrize("steps", STEPS, ids=lambda steps: str(steps)[:40])
    def test_affine_steps(self, steps, n_classes):
        X, y = rows(n_classes)
        model = make_pipeline(*steps, LogisticRegression()).fit(100.0 + X, y)
        certificate = certify(model, Box(0.4), 100.0 + X, y, at="input")
        check_by_force(model, certificate, corners(100.0 + X, 0.4), y)

    def test_the_rounding_of_steps_is_taken_off(self):
        X, y = rows()
        X = 1e7 + X
        model = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, y)
        certificate = certify(model, Box(0.0), X, y, at="input")
        worst = margins(model, X, y)
        assert np.all(certificate.margins < worst)
        # In float64 a sum of terms of size 1e7 is wrong by 1e-9 at least.
        assert np.all(worst - certificate.margins > 1e-9)
        assert np.all(worst - certificate.margins < 1e-5)
        single = X.astype(np.float32) - np.float32(1e7)
        model.fit(single, y)
        found = certify(model, Box(0.25), single, y, at="input")
        worst = lowest_margins(model, corners(single, 0.25).astype(np.float32), y)
        assert np.all(found.margins <= worst)
        np.testing.assert_allclose(found.margins, worst, atol=1e-3)

    def test_features_are_the_rows_of_the_last_step(self):
        X, y = rows(3)
        model = make_pipeline(StandardScaler(), PCA(3), LogisticRegression()).fit(X, y)
        scores = model[:-1].transform(X)
        check_by_force(model[-1], certify(model, Box(0.2), X, y), corners(scores, 0.2), y)

    def test_texts(self):
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

    @pytest.mark.parametrize("use_idf", [True, False])
    def test_weights_of_words(self, use_idf):
        X = np.random.default_rng(0).poisson(1.0, (30, D)).astype(float)
        y = X[:, 0] > X[:, 1]
        weights = TfidfTransformer(norm=None, use_idf=use_idf)
        model = make_pipeline(weights, MaxAbsScaler(), LogisticRegression()).fit(sp.csr_matrix(X), y)
        certificate = certify(model, FDrop(2), sp.csr_matrix(X), y, at="input")
        check_by_force(model, certificate, dropped(X, 2), y)

    def test_searches_around_and_inside(self):
        X, y = rows()
        pipeline = make_pipeline(StandardScaler(), LogisticRegression())
        around = GridSearchCV(pipeline, {"logisticregression__C": [0.1, 1.0]}, cv=2).fit(X, y)
        check_by_force(around, certify(around, Box(0.1), X, y, at="input"), corners(X, 0.1), y)
        inside = make_pipeline(StandardScaler(), GridSearchCV(LinearSVC(), {"C": [0.1, 1.0]}, cv=2))
        inside.fit(X, y)
        check_by_force(inside, certify(inside, Box(0.1), X, y, at="input"), corners(X, 0.1), y)

    def test_frames(self):
        X, y = rows()
        frame = pd.DataFrame(X, columns=list("abcde"))
        model = make_pipeline(StandardScaler(), LogisticRegression()).set_output(transform="pandas")
        model.fit(frame, y)
        for at in ("features", "input"):
            found = certify(model, Box(0.1), frame, y, at=at)
            expected = certify(make_pipeline(StandardScaler(), LogisticRegression()).fit(X, y),
                               Box(0.1), X, y, at=at)  # fmt: skip
            np.testing.assert_allclose(found.margins, expected.margins)

    @pytest.mark.parametrize(
        ("step", "message"),
        [
            (Normalizer(), "Normalizer is not known to be affine"),
            (FunctionTransformer(np.log1p), r"FunctionTransformer\(func=.*log1p"),
            (MinMaxScaler(clip=True), r"MinMaxScaler\(clip=True\) is not affine"),
            (TfidfTransformer(), r"TfidfTransformer\(norm='l2', sublinear_tf=False\) is not affine"),
            (TfidfTransformer(norm=None, sublinear_tf=True), "sublinear_tf=True"),
        ],
        ids=str,
    )
    def test_steps_that_are_not_affine(self, step, message):
        X, y = rows()
        X = np.abs(X)
        model = make_pipeline(StandardScaler(with_mean=False), step, LogisticRegression()).fit(X, y)
        with pytest.raises(ValueError, match=message):
            certify(model, Box(0.1), X, y, at="input")
        assert len(certify(model, FDrop(1), X, y).margins) == N

    def test_a_step_that_only_looks_affine(self):
        class Clipped(StandardScaler):
            def transform(self, X, copy=None):
                return np.clip(super().transform(X), -1, 1)

        X, y = rows()
        model = make_pipeline(Clipped(), LogisticRegression()).fit(X, y)
        with pytest.raises(ValueError, match="Clipped is not known to be affine"):
            certify(model, Box(0.1), X, y, at="input")
        scaler = StandardScaler().fit(X)
        scaler.transform = lambda X: np.tanh(X)
        model = Pipeline([("scale", scaler), ("last", LogisticRegression().fit(X, y))])
        with pytest.raises(ValueError, match="not a linear classifier: its decision_function differs"):
            certify(model, Box(0.1), X, y, at="input")


def composed(absolute):
    """Scores after one map of each kind; or the same of all absolute values, without cancellation."""
    rng = np.random.default_rng(0)

    def drawn(*shape):
        values = rng.standard_normal(shape)
        return abs(values) if absolute else values

    before_sign = -1.0 if absolute else 1.0
    last = Affine.of(drawn(3, 4), drawn(3)).mapped(drawn(4, 4), before_sign * drawn(4), drawn(4))
    scaled = last.scaled(drawn(4), before_sign * drawn(4), drawn(4))
    read = scaled.part([1, 3]).spread(np.array([2, 0]), 5)
    constant = scaled.part([0, 2]).at(drawn(6, 2), 5, "unknown")
    total = scaled.constants(5).plus(read).plus(constant)
    return total.combined(drawn(2, 3))


def test_sizes_are_sums_of_the_absolute_values_of_all_terms():
    scores, absolute = composed(False), composed(True)
    np.testing.assert_allclose(scores.coef_size, absolute.coef)
    np.testing.assert_allclose(scores.intercept_size, absolute.intercept)
    np.testing.assert_allclose(scores.offset_sizes, absolute.offsets)


class Shifted(LogisticRegression):
    """Its scores are not those of its weights."""

    def decision_function(self, X):
        return np.tanh(super().decision_function(X))


class Threshold(LogisticRegression):
    """It does not predict by the sign of its scores."""

    def predict(self, X):
        return self.classes_[(self.decision_function(X) > 4.0).astype(int)]


REFUSED = {
    "regressor": (
        make_pipeline(StandardScaler(), Ridge()),
        TypeError,
        "must be a classifier, got the regressor Ridge: use InvariantLinearSVR for bounds of pred",
    ),
    "regressor of ours": (
        InvariantLinearSVR(Box(0.1)),
        TypeError,
        r"got the regressor InvariantLinearSVR: call its method certify\(X, oracle=...\)",
    ),
    "neighbors": (KNeighborsClassifier(), TypeError, "KNeighborsClassifier has no coef_"),
    "kernel": (SVC(), TypeError, "SVC has no coef_"),
    "virtual samples": (
        VirtualSVC(),
        TypeError,
        "VirtualSVC has no coef_.*train InvariantSVC with the same",
    ),
    "kernel of ours": (RepresenterClassifier(), TypeError, "RepresenterClassifier has no coef_"),
    "pairs": (OneVsOneClassifier(LinearSVC()), TypeError, "OneVsOneClassifier has no coef_: its scores"),
    "codes": (OutputCodeClassifier(LinearSVC()), TypeError, "has no coef_: its scores are made of"),
    "rest": (
        OneVsRestClassifier(KNeighborsClassifier()),
        TypeError,
        "linear classifiers with one label per row, got KNeigh",
    ),
    "bag": (BaggingClassifier(LinearSVC()), TypeError, "BaggingClassifier has no coef_"),
    "calibrated": (CalibratedClassifierCV(LinearSVC(), cv=2), TypeError, "linear classifier inside"),
    "scores": (Shifted(), ValueError, "Shifted is not a linear classifier: its decision_function"),
    "threshold": (Threshold(), ValueError, "Threshold does not predict the class with the highest"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_models_that_are_not_linear_are_errors(name):
    model, error, message = REFUSED[name]
    X, y = rows()
    codes = (y == "b").astype(int)
    with pytest.raises(error, match=message):
        certify(model.fit(X, codes), Box(0.1), X, codes)


def test_kernel_models_are_errors_at_the_input():
    X, y = rows()
    own = InvariantSVC(Flip(shape=(1, D))).fit(X, y)
    assert certify(own, None, X, y, at="input").margins.shape == (N,)
    with pytest.raises(TypeError, match="linear classifier, .* with at='features' .* InvariantSVC"):
        certify(make_pipeline(StandardScaler().fit(X), own), None, X, y, at="input")


class Votes(ClassifierMixin, BaseEstimator):
    """Three functions of pairs of three classes, and a vote of them."""

    classes_ = np.arange(3)

    def __init__(self, coef, intercept):
        self.coef, self.intercept = self.coef_, self.intercept_ = coef, intercept

    def fit(self, X, y):
        return self

    def decision_function(self, X):
        return X @ self.coef_.T + self.intercept_

    def predict(self, X):
        wins = self.decision_function(X) > 0
        votes = np.stack([wins[:, 0] + 0 + wins[:, 1], 1 + wins[:, 2] - wins[:, 0]], axis=1)
        return np.argmax(np.column_stack([votes, 3 - votes.sum(axis=1)]), axis=1)


class TestVotes:
    @pytest.mark.parametrize("n_classes", [3, 4])
    @pytest.mark.parametrize("shape", ["ovo", "ovr"])
    @pytest.mark.parametrize("kind", [SVC, NuSVC])
    def test_pairs_of_support_vector_machines_are_errors(self, kind, shape, n_classes):
        X, y = rows(n_classes)
        model = kind(kernel="linear", decision_function_shape=shape).fit(X, y)
        with pytest.raises(TypeError, match=f"predicts one of {n_classes} classes by votes of pairs"):
            certify(model, Box(0.1), X[:1])
        for around in (model, make_pipeline(StandardScaler(), model), GridSearchCV(model, {}, cv=2)):
            with pytest.raises(TypeError, match="by votes of pairs"):
                certify(around.fit(X, y), Box(0.1), X[:1])

    @pytest.mark.parametrize("sparse", [False, True])
    def test_votes_are_found_where_they_agree_on_the_given_rows(self, sparse):
        agreed = 0
        for seed in range(200):
            rng = np.random.default_rng(seed)
            model = Votes(rng.standard_normal((3, 4)), rng.standard_normal(3))
            X = rng.standard_normal((1, 4))
            if model.predict(X) != np.argmax(model.decision_function(X), axis=1):
                continue
            agreed += 1
            with pytest.raises(ValueError, match="Votes does not predict the class with the highest"):
                certify(model, FDrop(1), sp.csr_matrix(X) if sparse else X)
        assert agreed > 20

    def test_one_against_the_rest_and_two_classes_are_linear(self):
        for n_classes, machine in (
            (3, OneVsRestClassifier(SVC(kernel="linear"))),
            (2, NuSVC(kernel="linear")),
        ):
            X, y = rows(n_classes)
            model = machine.fit(X, y)
            check_by_force(model, certify(model, Box(0.4), X, y), corners(X, 0.4), y)


def test_the_rounding_of_support_vectors_that_cancel_is_taken_off():
    """Terms of 1e6 leave scores of about 1."""
    X, y = rows(2)
    X = np.hstack([X, 1e4 + X[:, :2]])
    model = SVC(kernel="linear", C=1e3).fit(X, y)
    certificate = certify(model, Box(1e-3), X, y)
    rounding = certificate.attacked - certificate.margins
    terms = np.abs(model.dual_coef_) @ np.abs(model.support_vectors_) @ np.abs(X.T)
    assert np.all(rounding >= 2**-52 * terms[0])
    assert certificate.exact.all()


def test_several_labels_per_row_are_errors():
    X, _ = rows()
    Y = (X[:, :3] > 0).astype(int)
    with pytest.raises(TypeError, match="linear classifiers with one label per row, got several labels"):
        certify(OneVsRestClassifier(LogisticRegression()).fit(X, Y), Box(0.1), X)
    with pytest.raises(ValueError, match="RidgeClassifier is not a linear classifier"):
        certify(RidgeClassifier().fit(X, Y), Box(0.1), X)


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


class Sampler(BaseEstimator):
    """A step of imbalanced-learn: it changes the training rows only, and has no transform."""

    def fit_resample(self, X, y):
        return X, y


class WithSamplers(Pipeline):
    """It skips samplers in prediction, as the Pipeline of imbalanced-learn does."""

    def _validate_steps(self):
        pass

    def _iter(self, with_final=True, filter_passthrough=True):
        for place, name, step in super()._iter(with_final, filter_passthrough):
            if not hasattr(step, "fit_resample"):
                yield place, name, step


@pytest.mark.parametrize("last", [LinearSVC(), InvariantLinearSVC(FDrop(1), random_state=0)], ids=str)
def test_steps_that_resample_the_training_rows_are_skipped(last, tmp_path):
    X, y = rows()
    X = np.abs(X)
    steps = [("scale", MaxAbsScaler()), ("sample", Sampler()), ("last", last)]
    model = WithSamplers(steps).fit(X, y)
    plain = make_pipeline(model[0], model[2])
    for at in ("features", "input"):
        found, expected = (certify(each, FDrop(1), X, y, at=at) for each in (model, plain))
        np.testing.assert_array_equal(found.margins, expected.margins)
    curve = security_curve({"": model}, X, y, oracle=FDrop(1), n_changes=[0, 1], label="b")
    assert np.all(np.diff(curve.detected[""]) <= 0)
    found, expected = (
        select_changes(each, X, y, {f"{name}__C": [0.1, 1.0]}, oracle=FDrop(1), cv=2)
        for each, name in ((model, "last"), (plain, type(last).__name__.lower()))
    )
    name = "mean_test_certified"
    np.testing.assert_array_equal(found.cv_results_[name], expected.cv_results_[name])
    if isinstance(last, InvariantLinearSVC):
        write(tmp_path / "report.html", model, X, y)


def test_many_rows_are_certified_in_blocks(monkeypatch):
    X, y = rows(3)
    model = LogisticRegression().fit(X, y)
    oracle = FDrop(1).only_for("a") | Box(0.1).only_for("b")
    whole = certify(model, oracle, X, y)
    monkeypatch.setattr("structinv.other_models.certify_model.ROWS_AT_ONCE", 7)
    parts = certify(model, oracle, X, y)
    np.testing.assert_array_equal(whole.margins, parts.margins)


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
