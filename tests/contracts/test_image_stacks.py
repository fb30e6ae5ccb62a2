"""Stacks of images in all estimators."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from structinv import (
    InvariantLinearSVC,
    InvariantSVC,
    LapSVC,
    RepresenterClassifier,
    RepresenterRegressor,
    VirtualSupportVectorSVC,
    VirtualSVC,
)
from structinv.functionals import Tangents
from structinv.oracles import Box, Flip, Shifts


def images(*shape, n=12):
    rng = np.random.default_rng(3)
    X = rng.uniform(size=(n, *shape))
    y = np.arange(n) % 2
    # Darker on the left, or on the right.
    X[y == 1, :, : shape[1] // 2] += 1.0
    return X, y


def makers(given):
    """Estimators with image oracles whose shape is given, or none."""
    shifts = Shifts(1, shape=given)
    return {
        "linear": InvariantLinearSVC(shifts | Box(0.01), random_state=0),
        "kernel": InvariantSVC(shifts | Flip(shape=given), random_state=0),
        "flat kernel": InvariantSVC(invariances=[Tangents(Shifts(1, shape=given))], random_state=0),
        "representer": RepresenterClassifier(
            loss="hinge", oracle=shifts, invariances=[Tangents(shifts)], random_state=0
        ),
        "regressor": RepresenterRegressor(invariances=[Tangents(shifts)], random_state=0),
        "laplacian": LapSVC(n_neighbors=2, random_state=0),
        "virtual": VirtualSVC(shifts),
        "virtual support": VirtualSupportVectorSVC(shifts),
    }


SHAPES = [(4, 4), (3, 5), (2, 3, 3)]


@pytest.mark.parametrize("name", makers(None))
def test_image_stacks_are_used_as_rows(name):
    for shape in SHAPES:
        X, y = images(*shape)
        rows = X.reshape(len(X), -1)
        model = makers(None)[name].fit(X, y)
        known = makers(shape)[name].fit(rows, y)
        assert model.n_features_in_ == rows.shape[1]
        assert model.shape_in_ == shape
        assert not hasattr(known, "shape_in_")
        method = "predict" if name == "regressor" else "decision_function"
        expected = getattr(known, method)(rows)
        for rows_or_images in (X, rows):
            assert_allclose(getattr(model, method)(rows_or_images), expected, rtol=1e-9)
        assert_allclose(getattr(known, method)(X), expected, rtol=1e-9)


@pytest.mark.parametrize("name", ["linear", "kernel"])
def test_worst_cases_of_images_are_images(name):
    for shape in SHAPES:
        X, y = images(*shape)
        rows = X.reshape(len(X), -1)
        model, known = makers(None)[name].fit(X, y), makers(shape)[name].fit(rows, y)
        expected = known.worst_case(rows, y)
        assert_array_equal(model.worst_case(X, y), expected.reshape(X.shape))
        assert_array_equal(model.worst_case(rows, y), expected)
        assert_array_equal(model.certify(X, y).margins, known.certify(rows, y).margins)
        assert_array_equal(
            model.certify(X, y, oracle=Flip()).margins,
            known.certify(rows, y, oracle=Flip(shape=shape)).margins,
        )


def test_images_of_another_shape_raise():
    X, y = images(4, 4)
    model = InvariantLinearSVC().fit(X, y)
    for method in (model.predict, model.certify, model.worst_case):
        with pytest.raises(ValueError, match=r"shape \(4, 4\), as in fit"):
            method(X.reshape(len(X), 2, 8))
    assert model.fit(X.reshape(len(X), -1), y).predict(X).shape == (len(X),)


def test_volumes_raise():
    X, y = images(4, 4, 5)
    with pytest.raises(ValueError, match="volumes are not supported"):
        InvariantLinearSVC(Shifts(1)).fit(X, y)
    assert InvariantLinearSVC().fit(X, y).n_features_in_ == 80
