"""Targets that are missing: NaN marks them, where the estimator is told so."""

import numpy as np
import pytest
from sklearn.base import clone

from structinv import RepresenterRegressor
from structinv.functionals import Gradient
from structinv.model_selection import labeled_scorer

X = np.linspace(0.0, 3.0, 24)[:, None]
Y = np.sin(2 * X[:, 0])
MISSING = np.arange(24) % 3 == 0
MODEL = RepresenterRegressor(gamma=2.0, invariances=[Gradient()], nu=0.1, unlabeled=np.nan, tol=1e-9)


@pytest.mark.parametrize("form", ["array", "list", "None", "float32"])
def test_nan_stands_for_no_target(form):
    known = clone(MODEL).set_params(unlabeled=-99.0).fit(X, np.where(MISSING, -99.0, Y))
    marked = np.where(MISSING, np.nan, Y)
    given = {
        "array": marked,
        "list": marked.tolist(),
        "None": np.where(MISSING, None, Y),
        "float32": marked.astype(np.float32),
    }[form]
    before = np.array(given, dtype=np.float64)
    model = clone(MODEL).fit(X, given)
    tolerance = 1e-4 if form == "float32" else 1e-6
    np.testing.assert_allclose(model.predict(X), known.predict(X), atol=tolerance)
    np.testing.assert_array_equal(np.array(given, dtype=np.float64), before)


def test_a_score_leaves_missing_targets_out():
    marked = np.where(MISSING, np.nan, Y)
    model = clone(MODEL).fit(X, marked)
    found = labeled_scorer("r2", unlabeled=np.nan)(model, X, marked)
    assert found == model.score(X[~MISSING], Y[~MISSING])


def test_a_second_fit_goes_on_only_where_the_same_targets_are_missing():
    marked = np.where(MISSING, np.nan, Y)
    model = clone(MODEL).set_params(warm_start=True, random_state=0).fit(X, marked)
    first = model.n_iter_
    assert model.fit(X, marked).n_iter_ < first
    zeros = np.where(MISSING, 0.0, Y)
    fresh = clone(model).fit(X, zeros)
    np.testing.assert_array_equal(model.fit(X, zeros).predict(X), fresh.predict(X))
