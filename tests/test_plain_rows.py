"""Rows that are told quickly to need no conversion: scikit-learn gives them back as they are."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.utils.validation import validate_data

from structinv import InvariantLinearSVC, InvariantSVC
from structinv.estimators.row_shapes import are_plain

RNG = np.random.default_rng(0)
X = RNG.normal(size=(20, 3))
y = np.where(X[:, 0] > 0, "a", "b")
NAN, INFINITE = X.copy(), X.copy()
NAN[0, 1], INFINITE[0, 1] = np.nan, np.inf
LARGE = np.full((2, 3), 1e308)
# What a user may give, and whether it is plain.
DENSE = [
    (X, True),
    (X[:1], True),
    (np.asfortranarray(X), True),
    (X[::-2], True),
    (X.astype(np.float32), True),
    (LARGE, True),
    (X[:0], False),
    (X[:, :2], False),
    (X[0], False),
    (X[:, None], False),
    (NAN, False),
    (INFINITE, False),
    (X.tolist(), False),
    (X.astype(int), False),
    (X.astype(">f8"), False),
    (X.astype(object), False),
    (X.astype(complex), False),
    (X.astype(np.float16), False),
    (X.astype(np.longdouble), False),
    (np.ma.masked_array(X, X > 0), False),
]
SPARSE = [
    (sp.csr_matrix(X), True),
    (sp.csr_array(X), True),
    (sp.csc_matrix(X), False),
    (sp.csr_matrix(NAN), False),
    (sp.csr_matrix(X[:, :2]), False),
    (sp.csr_matrix(X.astype(int)), False),
]


def long_way(model, rows):
    """The rows as scikit-learn has them, or None where it has a word to say of them."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            return validate_data(model, rows, reset=False, **model._rows)
    except (TypeError, ValueError, UserWarning):
        return None


@pytest.fixture(scope="module", params=[InvariantLinearSVC, InvariantSVC])
def model(request):
    return request.param(random_state=0).fit(X, y)


@pytest.mark.parametrize(("rows", "plain"), DENSE + SPARSE)
def test_plain_rows_are_given_back_by_scikit_learn(model, rows, plain):
    taken = "accept_sparse" in model._rows
    expected = plain and (taken or isinstance(rows, np.ndarray))
    assert are_plain(model, rows, taken, True) == expected
    if expected:
        assert long_way(model, rows) is rows


def test_names_go_the_long_way(model):
    pd = pytest.importorskip("pandas")
    named = clone(model).fit(pd.DataFrame(X, columns=list("abc")), y)
    assert not are_plain(named, X, False, True)
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        named.predict(X)


def test_what_is_refused_is_refused_with_scikit_learns_words(model):
    for rows, words in ((NAN, "Input X contains NaN"), (X[:, :2], "features, but"), (X[:0], "0 sample")):
        with pytest.raises(ValueError, match=words):
            model.predict(rows)


def test_an_estimator_that_is_not_fitted_has_no_plain_rows(model):
    assert not are_plain(clone(model), X, False, True)
