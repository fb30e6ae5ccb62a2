"""Certificates of tables: columns with affine steps beside columns with other steps."""

import itertools

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import FixedThresholdClassifier
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    KBinsDiscretizer,
    MinMaxScaler,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    StandardScaler,
)
from sklearn.svm import LinearSVC

from structinv import InvariantLinearSVC, certify
from structinv.oracles import Box, Ellipsoid, FDrop, FScale, Protected

from ..margins import margins

N, RADIUS = 40, 0.3
NUMBERS, OTHERS = ["age", "height", "weight"], ["color", "code", "note"]


def table(seed=0, n=N):
    """People with three numbers, a color, an integer code and a note, and a label that uses all."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "age": rng.normal(4.0, 1.0, n),
            "color": rng.choice(["red", "green", "blue"], n),
            "height": rng.normal(0.0, 1.0, n),
            "code": rng.integers(1, 4, n),
            "weight": rng.exponential(1.0, n),
            "note": rng.choice(["good day", "bad day", "good night"], n),
        }
    )
    score = (
        frame.age - 4 + frame.height + (frame.color == "red") - (frame.code == 2) + rng.normal(size=n)
    )
    return frame, np.array(["no", "yes"])[(score > 0).astype(int)], np.digitize(score, [-1.0, 1.0])


# The default warns.
BINS = {"n_bins": 3, "quantile_method": "averaged_inverted_cdf"}
HOT = ("hot", OneHotEncoder(), ["color", "code"])
FROZEN = FrozenEstimator(MinMaxScaler().fit(table(1)[0][["weight"]]))
SCALED, PASSED = ("n", StandardScaler(), NUMBERS), ("n", "passthrough", NUMBERS)
IMPUTED = ("n", make_pipeline(SimpleImputer(), StandardScaler()), NUMBERS)
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


def moved(frame, columns, radius=RADIUS):
    """The table after each combination of shifts of columns, in order of the rows."""
    signs = np.array(list(itertools.product([-1.0, 1.0], repeat=len(columns))))
    copies = frame.loc[frame.index.repeat(len(signs))].reset_index(drop=True)
    for place, column in enumerate(columns):
        copies[column] = copies[column] + radius * np.tile(signs[:, place], len(frame))
    return copies, len(signs)


def worst_margins(model, frame, y, columns):
    copies, size = moved(frame, columns)
    return margins(model, copies, np.repeat(y, size)).reshape(-1, size).min(axis=1)


@pytest.mark.parametrize("several", [False, True], ids=["two classes", "three classes"])
@pytest.mark.parametrize("name", STEPS)
def test_margins_are_those_of_the_worst_corner(name, several):
    frame, two, three = table()
    y = three if several else two
    fixed = OTHERS + ALSO_FIXED.get(name, [])
    free = [each for each in NUMBERS if each not in fixed]
    for last in (LogisticRegression(), LinearSVC(C=0.1), InvariantLinearSVC(C=0.1, random_state=0)):
        model = make_pipeline(STEPS[name], last).fit(frame, y)
        certificate = certify(model, Protected(Box(RADIUS), fixed), frame, y, at="input")
        worst = worst_margins(model, frame, y, free)
        np.testing.assert_allclose(certificate.margins, worst, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(certificate.attacked, worst, rtol=1e-9, atol=1e-9)
        assert np.all(certificate.margins <= worst)
        assert certificate.exact.all()


def fitted(last=None, **options):
    frame, y, _ = table()
    return make_pipeline(STEPS["scaled"], last or LogisticRegression(**options)).fit(frame, y), frame, y


def test_arrays_and_lists_are_tables_with_numbers_as_names():
    frame, y, _ = table()
    X = frame[["age", "code", "height"]].to_numpy()
    scaler = StandardScaler(with_mean=False)
    steps = ColumnTransformer([("n", scaler, [0, 2]), ("h", OneHotEncoder(), [1])])
    model = make_pipeline(steps, LogisticRegression()).fit(X, y)
    certificate = certify(model, Protected(Box(RADIUS), [1]), X, y, at="input")
    for given in (X.tolist(), X.astype(object)):
        other = certify(model, Protected(Box(RADIUS), [1]), given, y, at="input")
        np.testing.assert_allclose(other.margins, certificate.margins, rtol=1e-12)
    with pytest.raises(ValueError, match=r"Box changes column 1: OneHotEncoder .* features \[1\]"):
        certify(model, Box(RADIUS), X, y, at="input")


def test_thresholds_around_tables():
    _, frame, y = fitted()
    inner = make_pipeline(STEPS["scaled"], LogisticRegression())
    model = FixedThresholdClassifier(inner, threshold=0.7, pos_label="yes").fit(frame, y)
    oracle = Protected(Box(RADIUS), OTHERS)
    certificate = certify(model, oracle, frame, y, at="input")
    copies, size = moved(frame, NUMBERS)
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
    same = model.predict(copies).reshape(N, -1) == model.predict(frame)[:, None]
    assert np.all(same[certificate.correct])
    assert 0.1 < certificate.correct.mean() < np.mean(same.all(axis=1)) + 1e-9


class TestColumnsThatMustStay:
    @pytest.mark.parametrize(
        ("oracle", "column"),
        [
            (Box(0.1), "color"),
            (FDrop(1), "color"),
            (FScale(1), "color"),
            (Protected(Box(0.1), ["color", "note"]), "code"),
            (Protected(FDrop(2), ["code", "note"]), "color"),
            (Box(0.1) | Protected(Box(0.1), OTHERS), "color"),
        ],
        ids=str,
    )
    def test_oracles_that_change_them_are_errors(self, oracle, column):
        model, frame, y = fitted()
        message = f"changes column '{column}': OneHotEncoder is not known to be affine. Pass Protected"
        with pytest.raises(ValueError, match=message):
            certify(model, oracle, frame, y, at="input")

    def test_a_set_that_leaves_them_unchanged_needs_no_protection(self):
        model, frame, y = fitted()
        radius = np.array([RADIUS, 0.0, RADIUS, 0.0, RADIUS, 0.0])
        expected = certify(model, Protected(Box(RADIUS), OTHERS), frame, y, at="input")
        for oracle in (Box(radius), Box(radius).only_for(["no", "yes"])):
            found = certify(model, oracle, frame, y, at="input")
            np.testing.assert_allclose(found.margins, expected.margins, rtol=1e-12)
        spam_only = certify(model, Box(RADIUS * (radius > 0)).only_for("no"), frame, y, at="input")
        clean = model.decision_function(frame) * np.where(y == "yes", 1.0, -1.0)
        np.testing.assert_allclose(spam_only.margins[y == "yes"], clean[y == "yes"], atol=1e-9)
        # Dropped columns have no influence.
        note = np.array([RADIUS, 0.0, RADIUS, 0.0, RADIUS, 9.0])
        assert certify(model, Box(note), frame, y, at="input").exact.all()

    def test_a_column_with_missing_values_is_one(self):
        frame, y, _ = table()
        model = make_pipeline(STEPS["imputed"], LogisticRegression()).fit(frame, y)
        frame.loc[3, "age"] = np.nan
        with pytest.raises(ValueError, match="column 'age': SimpleImputer fills missing values"):
            certify(model, Protected(Box(RADIUS), OTHERS), frame, y, at="input")
        found = certify(model, Protected(Box(RADIUS), [*OTHERS, "age"]), frame, y, at="input")
        worst = worst_margins(model, frame, y, ["height", "weight"])
        np.testing.assert_allclose(found.margins, worst, rtol=1e-9, atol=1e-9)

    @pytest.mark.parametrize(
        "step", [PolynomialFeatures(2), FunctionTransformer(np.exp), MinMaxScaler(clip=True)], ids=str
    )
    def test_steps_for_all_columns_that_are_not_affine_are_errors(self, step):
        frame, y, _ = table()
        model = make_pipeline(
            ColumnTransformer([("n", "passthrough", NUMBERS)]), step, LogisticRegression()
        )
        with pytest.raises(ValueError, match=f"{type(step).__name__}.* is not .*affine"):
            certify(model.fit(frame, y), Protected(Box(0.1), OTHERS), frame, y, at="input")

    def test_a_projection_of_them_and_others_is_not_affine_in_either(self):
        frame, y, _ = table()
        before = make_pipeline(StandardScaler(), PCA(2))
        steps = ColumnTransformer([("a", "passthrough", [0]), ("b", KBinsDiscretizer(**BINS), [1])])
        model = make_pipeline(before, steps, LogisticRegression()).fit(frame[NUMBERS], y)
        with pytest.raises(ValueError, match="changes column 'age': KBinsDiscretizer is not known"):
            certify(model, Protected(Box(0.1), ["weight"]), frame[NUMBERS], y, at="input")


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


def test_columns_in_another_order_are_errors():
    model, frame, y = fitted()
    for given in (frame[frame.columns[::-1]], frame.assign(more=1.0)):
        assert model.predict(given).tolist() == model.predict(frame).tolist()
        with pytest.raises(ValueError, match="X must have the columns of the training in the same"):
            certify(model, Protected(Box(0.1), OTHERS), given, y, at="input")


def test_single_precision_of_a_column_widens_the_rounding():
    frame, y, _ = table()
    model = make_pipeline(STEPS["scaled"], LogisticRegression()).fit(frame, y)
    single = frame.astype(dict.fromkeys(NUMBERS, np.float32))
    oracle = Protected(Box(RADIUS), OTHERS)
    double = certify(model, oracle, frame, y, at="input")
    found = certify(model, oracle, single, y, at="input")
    np.testing.assert_allclose(found.margins, double.margins, atol=1e-3)
    assert np.all(found.attacked - found.margins > 1e4 * (double.attacked - double.margins))


def test_features_of_a_table_have_names_after_set_output():
    frame, y, _ = table()
    model = make_pipeline(STEPS["frames"], LogisticRegression()).fit(frame, y)
    names = [name for name in model[0].get_feature_names_out() if name.startswith("hot")]
    certificate = certify(model, Protected(Box(0.2), names), frame, y)
    radii = dict(zip(NUMBERS, 0.2 * model[0].named_transformers_["n"].scale_, strict=True))
    radius = np.array([radii.get(name, 0.0) for name in frame])
    expected = certify(model, Box(radius), frame, y, at="input")
    np.testing.assert_allclose(certificate.margins, expected.margins, rtol=1e-9)
