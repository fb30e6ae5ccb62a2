"""Columns that must stay, and tables of other columns than those of the training."""

import numpy as np
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    KBinsDiscretizer,
    MinMaxScaler,
    OneHotEncoder,
    PolynomialFeatures,
    StandardScaler,
)

from structinv import certify
from structinv.oracles import Box, FDrop, FScale, Protected

from .cases import (
    BINS,
    HOT,
    IMPUTED,
    NUMBERS,
    OTHERS,
    RADIUS,
    fitted,
    table,
    worst_margins,
)


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
        model = make_pipeline(ColumnTransformer([IMPUTED, HOT]), LogisticRegression()).fit(frame, y)
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


def test_columns_in_another_order_are_errors():
    model, frame, y = fitted()
    for given in (frame[frame.columns[::-1]], frame.assign(more=1.0)):
        assert model.predict(given).tolist() == model.predict(frame).tolist()
        with pytest.raises(ValueError, match="X must have the columns of the training in the same"):
            certify(model, Protected(Box(0.1), OTHERS), given, y, at="input")
