"""Rows of matrices, dense or CSR, against NumPy, and rows that need no conversion."""

import tracemalloc
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.utils.validation import validate_data

from structinv import InvariantLinearSVC, InvariantSVC
from structinv.estimators.inputs import are_plain
from structinv.utils.matrices import contiguous_read_only, interleave, products, short_indices, take

MASKS = st.lists(st.booleans(), min_size=1, max_size=9).map(np.array)


def both(mask, seed=0):
    rng = np.random.default_rng(seed)
    dense = rng.integers(0, 3, (len(mask), 4)) * rng.random((len(mask), 4))
    return dense, dense[mask], dense[~mask]


@given(mask=MASKS, seed=st.integers(0, 99))
def test_sparse_rows_are_interleaved_as_dense_ones_are(mask, seed):
    whole, inside, outside = both(mask, seed)
    np.testing.assert_array_equal(interleave(mask, inside, outside), whole)
    joined = interleave(mask, sp.csr_matrix(inside), sp.csr_matrix(outside))
    joined.check_format(full_check=True)
    np.testing.assert_array_equal(joined.toarray(), whole)


def test_one_part_may_be_dense():
    mask = np.array([True, False, True])
    whole, inside, outside = both(mask)
    np.testing.assert_array_equal(interleave(mask, sp.csr_matrix(inside), outside).toarray(), whole)


@pytest.mark.parametrize("precision", [np.float32, np.float64])
@pytest.mark.parametrize("width", [np.int32, np.int64])
def test_interleave_returns_the_wider_dtype(precision, width):
    mask = np.array([True, False, True])
    _, inside, outside = both(mask)
    left, right = sp.csr_matrix(inside.astype(precision)), sp.csr_matrix(outside.astype(np.float32))
    left.indices, left.indptr = left.indices.astype(width), left.indptr.astype(width)
    joined = interleave(mask, left, right)
    assert joined.dtype == precision
    assert joined.indices.dtype == joined.indptr.dtype == width


@pytest.mark.parametrize(
    "rows", [slice(None), slice(2, 7), slice(0, 99), slice(5, 5), slice(-3, None), slice(8, 2, -2)]
)
def test_rows_in_a_row_are_a_view(rows):
    X = sp.random(10, 6, 0.4, format="csr", random_state=np.random.default_rng(0))
    found = take(X, rows)
    assert np.shares_memory(found.data, X.data) == (rows.step is None and found.nnz > 0)
    found.check_format(full_check=True)
    np.testing.assert_array_equal(found.toarray(), X.toarray()[rows])
    np.testing.assert_array_equal(take(X.toarray(), rows), X.toarray()[rows])


def test_long_indices_become_short_where_these_are_enough():
    X = sp.random(5, 7, 0.4, format="csr", random_state=0)
    longer = X.copy()
    longer.indices, longer.indptr = (each.astype(np.int64) for each in (X.indices, X.indptr))
    found = short_indices(longer)
    assert found.indices.dtype == found.indptr.dtype == np.int32
    assert found.data is longer.data
    np.testing.assert_array_equal(found.toarray(), X.toarray())
    assert longer.indices.dtype == np.int64
    assert short_indices(X) is X
    # One that has too many columns keeps what it has.
    wide = sp.csr_matrix((1, 2**32))
    assert short_indices(wide) is wide


@pytest.mark.parametrize("order", ["C", "F"])
def test_arrays_to_be_read_are_of_one_kind(order):
    X = np.asarray(np.arange(6.0).reshape(2, 3), order=order)
    found = contiguous_read_only(X)
    assert found.flags.c_contiguous
    assert not found.flags.writeable
    assert X.flags.writeable
    assert np.shares_memory(found, X) == (order == "C")
    np.testing.assert_array_equal(found, X)


def test_products_of_another_precision_copy_few_rows_at_a_time():
    X = np.random.default_rng(0).random((20_000, 50), dtype=np.float32)
    table = np.random.default_rng(1).random((50, 3))
    tracemalloc.start()
    found = products(X, table)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < X.nbytes
    np.testing.assert_allclose(found, X.astype(np.float64) @ table, rtol=1e-13)


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
