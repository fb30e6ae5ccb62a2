"""Certificates at the input of steps: Pipelines, and tables of columns with affine steps and others."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.decomposition import PCA, IncrementalPCA, TruncatedSVD
from sklearn.feature_extraction.text import CountVectorizer, TfidfTransformer
from sklearn.feature_selection import (
    RFE,
    SelectFromModel,
    SelectKBest,
    SequentialFeatureSelector,
    VarianceThreshold,
)
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.model_selection import FixedThresholdClassifier
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    KBinsDiscretizer,
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    RobustScaler,
    StandardScaler,
)
from sklearn.random_projection import GaussianRandomProjection, SparseRandomProjection
from sklearn.svm import LinearSVC

from structinv import InvariantLinearSVC, certify
from structinv.oracles import Box, Ellipsoid, FDrop, Protected

from ..margins import dropped, lowest_margins, margins
from .cases import (
    BINS,
    HOT,
    IMPUTED,
    NUMBERS,
    OTHERS,
    RADIUS,
    SCALED,
    D,
    check_by_force,
    corners,
    fitted,
    rows,
    shifted_copies,
    table,
    worst_margins,
)

PASSED = ("n", "passthrough", NUMBERS)
FROZEN = FrozenEstimator(MinMaxScaler().fit(table(1)[0][["weight"]]))
PROJECTED = ("n", make_pipeline(StandardScaler(), PCA(2)), NUMBERS)
DENSE = ColumnTransformer([SCALED, HOT], sparse_threshold=0.0)
INNER = ColumnTransformer([("n", StandardScaler(), [0, 2]), ("h", OneHotEncoder(), [1])])
FLOATS = make_column_selector(dtype_include=float)
MASK = [True, False, True, False, True, False]
STEPS = {
    "scaled": ColumnTransformer([SCALED, HOT]),
    "dense": DENSE,
    "sparse": ColumnTransformer([PASSED, HOT], sparse_threshold=1.0),
    "projected": ColumnTransformer([HOT, PROJECTED]),
    "imputed": ColumnTransformer([IMPUTED, HOT]),
    "passed": ColumnTransformer(
        [("hot", OneHotEncoder(), ["color"]), ("x", "drop", ["note"])], remainder="passthrough"
    ),
    "frozen": ColumnTransformer([HOT, ("a", "passthrough", ["age"]), ("f", FROZEN, ["weight"])]),
    "remainder": ColumnTransformer([HOT, ("t", CountVectorizer(), "note")], remainder=StandardScaler()),
    "weighted": ColumnTransformer([SCALED, HOT], transformer_weights={"n": 3.0, "hot": 0.5}),
    "twice": ColumnTransformer([SCALED, ("m", MinMaxScaler(), NUMBERS[::-1]), HOT]),
    "selected": ColumnTransformer([("n", StandardScaler(), FLOATS), ("o", OrdinalEncoder(), ["color"])]),
    "masks": ColumnTransformer([("n", StandardScaler(), MASK), ("c", "passthrough", slice(3, 4))]),
    "nested": ColumnTransformer(
        [("all", INNER, ["age", "color", "height"]), ("w", "passthrough", ["weight"])]
    ),
    "union": make_pipeline(
        DENSE, FeatureUnion([("all", "passthrough"), ("two", PCA(2))], transformer_weights={"two": 2.0})
    ),
    "scaled after": make_pipeline(DENSE, StandardScaler(), TruncatedSVD(5)),
    "frames": ColumnTransformer(
        [SCALED, ("hot", OneHotEncoder(sparse_output=False), ["color"])]
    ).set_output(transform="pandas"),
    "binned": ColumnTransformer(
        [("n", StandardScaler(), ["height", "weight"]), ("b", KBinsDiscretizer(**BINS), ["age"]), HOT]
    ),
}
# Numbers that a step other than an affine one reads.
ALSO_FIXED = {"binned": ["age"]}


@pytest.mark.parametrize("name", STEPS)
def test_margins_are_those_of_the_worst_corner(name):
    frame, two, three = table()
    fixed = OTHERS + ALSO_FIXED.get(name, [])
    free = [each for each in NUMBERS if each not in fixed]
    # Two and three classes in turns.
    last = (LogisticRegression(), two), (LinearSVC(C=0.1), three)
    models = [last[list(STEPS).index(name) % 2]]
    if name in ("dense", "sparse"):
        models += [(InvariantLinearSVC(C=0.1, random_state=0), y) for y in (two, three)]
    for last, y in models:
        model = make_pipeline(STEPS[name], last).fit(frame, y)
        certificate = certify(model, Protected(Box(RADIUS), fixed), frame, y, at="input")
        worst = worst_margins(model, frame, y, free)
        np.testing.assert_allclose(certificate.margins, worst, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(certificate.attacked, worst, rtol=1e-9, atol=1e-9)
        assert np.all(certificate.margins <= worst)
        assert certificate.exact.all()


def test_thresholds_around_tables():
    _, frame, y = fitted()
    inner = make_pipeline(STEPS["scaled"], LogisticRegression())
    model = FixedThresholdClassifier(inner, threshold=0.7, pos_label="yes").fit(frame, y)
    oracle = Protected(Box(RADIUS), OTHERS)
    certificate = certify(model, oracle, frame, y, at="input")
    copies, size = shifted_copies(frame, NUMBERS)
    right = np.all(model.predict(copies).reshape(-1, size) == y[:, None], axis=1)
    np.testing.assert_array_equal(certificate.correct, right)
    assert 0 < right.sum() < np.sum(model.predict(frame) == y)
    unlabeled = certify(model, oracle, frame, at="input")
    stays = np.all(model.predict(copies).reshape(-1, size) == model.predict(frame)[:, None], axis=1)
    np.testing.assert_array_equal(unlabeled.correct, stays)


@pytest.mark.parametrize("name", ["scaled", "imputed", "nested", "union", "frames"])
def test_no_random_member_of_a_certified_row_has_another_label(name):
    frame, _, y = table(2)
    model = make_pipeline(STEPS[name], LogisticRegression()).fit(frame, y)
    shape = np.diag([0.4, 0, 0.6, 0, 0.2, 0])
    certificate = certify(model, Ellipsoid(shape), frame, at="input")
    copies = frame.loc[frame.index.repeat(50)].reset_index(drop=True)
    directions = np.random.default_rng(0).standard_normal((len(copies), 6))
    steps = directions / np.linalg.norm(directions[:, [0, 2, 4]], axis=1, keepdims=True) @ shape
    for place, column in ((0, "age"), (2, "height"), (4, "weight")):
        copies[column] += steps[:, place]
    same = model.predict(copies).reshape(len(frame), -1) == model.predict(frame)[:, None]
    assert np.all(same[certificate.correct])
    assert 0.1 < certificate.correct.mean() < np.mean(same.all(axis=1)) + 1e-9


@pytest.mark.filterwarnings("ignore:.*without any observed values")
@pytest.mark.parametrize("kept", [False, True])
def test_columns_without_a_number_in_the_training_are_filled(kept):
    frame, y, _ = table()
    frame["weight"] = np.nan
    imputed = make_pipeline(SimpleImputer(keep_empty_features=kept), StandardScaler())
    steps = ColumnTransformer([("n", imputed, ["age", "weight", "height"]), HOT])
    model = make_pipeline(steps, LogisticRegression()).fit(frame, y)
    certificate = certify(model, Protected(Box(RADIUS), [*OTHERS, "weight"]), frame, y, at="input")
    worst = worst_margins(model, frame, y, ["age", "height"])
    np.testing.assert_allclose(certificate.margins, worst, rtol=1e-9, atol=1e-9)


def test_tables_are_certified_in_blocks_of_rows(monkeypatch):
    model, frame, y = fitted()
    monkeypatch.setattr("structinv.other_models.certify_model.ROWS_AT_ONCE", 7)
    certificate = certify(model, Protected(Box(RADIUS), OTHERS), frame, y, at="input")
    worst = worst_margins(model, frame, y, NUMBERS)
    np.testing.assert_allclose(certificate.margins, worst, rtol=1e-9, atol=1e-9)


def test_single_precision_of_a_column_widens_the_rounding():
    frame, y, _ = table()
    model = make_pipeline(STEPS["scaled"], LogisticRegression()).fit(frame, y)
    single = frame.astype(dict.fromkeys(NUMBERS, np.float32))
    oracle = Protected(Box(RADIUS), OTHERS)
    double = certify(model, oracle, frame, y, at="input")
    found = certify(model, oracle, single, y, at="input")
    np.testing.assert_allclose(found.margins, double.margins, atol=1e-3)
    assert np.all(found.attacked - found.margins > 1e4 * (double.attacked - double.margins))


def test_single_precision_in_the_middle_of_a_pipeline_widens_the_rounding():
    """The rows before it and the features after it are of double precision."""
    frame, y, _ = table()
    colors = sorted(set(frame["color"]))
    hot = OneHotEncoder(dtype=np.float32, sparse_output=False)
    first = ColumnTransformer([("hot", hot, ["color"]), ("n", "passthrough", NUMBERS)])
    first.set_output(transform="pandas")
    scaled = ("s", StandardScaler(), [f"hot__color_{color}" for color in colors])
    second = ColumnTransformer([scaled, ("n", "passthrough", [f"n__{name}" for name in NUMBERS])])
    model = make_pipeline(first, second, LogisticRegression(C=1e3)).fit(frame, y)
    assert model[:-1].transform(frame).dtype == np.float64
    found = certify(model, Protected(Box(0.0), OTHERS), frame, y, at="input")
    own = np.where(y == model.classes_[1], 1, -1) * model.decision_function(frame)
    assert np.all(found.margins <= own)
    np.testing.assert_allclose(found.margins, own, atol=1e-3)


def test_features_of_a_table_have_names_after_set_output():
    frame, y, _ = table()
    model = make_pipeline(STEPS["frames"], LogisticRegression()).fit(frame, y)
    names = [name for name in model[0].get_feature_names_out() if name.startswith("hot")]
    certificate = certify(model, Protected(Box(0.2), names), frame, y)
    radii = dict(zip(NUMBERS, 0.2 * model[0].named_transformers_["n"].scale_, strict=True))
    radius = np.array([radii.get(name, 0.0) for name in frame])
    expected = certify(model, Box(radius), frame, y, at="input")
    np.testing.assert_allclose(certificate.margins, expected.margins, rtol=1e-9)


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

    @pytest.mark.parametrize("steps", STEPS, ids=lambda steps: str(steps)[:40])
    def test_affine_steps(self, steps):
        X, y = rows(2 + self.STEPS.index(steps) % 2)
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

    @pytest.mark.parametrize("use_idf", [True, False])
    def test_weights_of_words(self, use_idf):
        X = np.random.default_rng(0).poisson(1.0, (30, D)).astype(float)
        y = X[:, 0] > X[:, 1]
        weights = TfidfTransformer(norm=None, use_idf=use_idf)
        model = make_pipeline(weights, MaxAbsScaler(), LogisticRegression()).fit(sp.csr_matrix(X), y)
        certificate = certify(model, FDrop(2), sp.csr_matrix(X), y, at="input")
        check_by_force(model, certificate, dropped(X, 2), y)

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
        assert len(certify(model, FDrop(1), X, y).margins) == len(X)

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
