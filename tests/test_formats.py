"""The estimator on rows in any format: the same model, and the caller's arrays as they were."""

from functools import cache

import numpy as np
import pytest
import scipy.sparse as sp

from structinv import InvariantLinearSVC
from structinv.oracles import Box, FDrop, FScale, Identity, Support

from .test_linear_svc import mails


class Witness(Identity):
    """Remembers the rows it was bound to."""

    def bind(self, X, y=None):
        self.seen_ = X
        return super().bind(X, y)


def counts(n_classes=2):
    """Whole numbers, with empty rows and columns of zeros."""
    X, y = mails(n=40, n_classes=n_classes)
    X[[3, 17]] = 0.0
    X[:, [0, 5, 11]] = 0.0
    return X, y


def with_indices(X, dtype):
    """The same matrix with index arrays of this type, which constructors would shrink."""
    X = X.copy()
    X.indices, X.indptr = X.indices.astype(dtype), X.indptr.astype(dtype)
    assert X.indices.dtype == dtype
    return X


def unsorted(X):
    """CSR rows with their words in reverse order."""
    X = sp.csr_matrix(X)
    order = np.concatenate([np.arange(b, a, -1) - 1 for a, b in zip(X.indptr, X.indptr[1:],
                                                                   strict=False)])  # fmt: skip
    rows = sp.csr_matrix((X.data[order], X.indices[order], X.indptr), shape=X.shape)
    assert not rows.has_sorted_indices
    return rows


def duplicated(X):
    """CSR rows in which each word comes as often as it is counted, in a mixed order."""
    X = sp.csr_matrix(X)
    times = X.data.astype(int)
    indices = np.repeat(X.indices, times)
    indptr = np.r_[0, np.cumsum(np.asarray(X.sum(axis=1)).ravel().astype(int))]
    rng = np.random.default_rng(0)
    for a, b in zip(indptr, indptr[1:], strict=False):
        indices[a:b] = rng.permutation(indices[a:b])
    rows = sp.csr_matrix((np.ones(len(indices)), indices, indptr), shape=X.shape)
    assert not rows.has_canonical_format
    return rows


def explicit_zeros(X):
    rows = sp.csr_matrix(X + 1.0)
    rows.data -= 1.0
    assert rows.nnz == X.size
    return rows


FORMATS = {
    "fortran": np.asfortranarray,
    "strided": lambda X: np.repeat(X, 2, axis=1)[:, ::2],
    "list": lambda X: X.tolist(),
    "integers": lambda X: X.astype(np.int64),
    "bytes": lambda X: X.astype(np.uint8),
    "csr": sp.csr_matrix,
    "csr_array": sp.csr_array,
    "csr-64": lambda X: with_indices(sp.csr_matrix(X), np.int64),
    "csr_array-64": lambda X: with_indices(sp.csr_array(X), np.int64),
    "csr-integers": lambda X: sp.csr_matrix(X.astype(np.int32)),
    "csc": sp.csc_matrix,
    "csc_array": sp.csc_array,
    "coo": sp.coo_matrix,
    "coo_array": sp.coo_array,
    "lil": sp.lil_matrix,
    "unsorted": unsorted,
    "duplicated": duplicated,
    "explicit-zeros": explicit_zeros,
}


def arrays_of(X):
    """The arrays behind a matrix, to see whether they change."""
    if not sp.issparse(X):
        return [np.array(X)]
    names = ("data", "indices", "indptr", "row", "col", "rows")
    return [np.array(getattr(X, name)) for name in names if hasattr(X, name)]


def fitted(oracle, X, y, tol=1e-5):
    model = InvariantLinearSVC(oracle, C=0.1, solver="frank_wolfe", tol=tol, random_state=0)
    return model.fit(X, y)


@cache
def of_counts(oracle, form):
    """The model of the rows in a form that others are compared with."""
    X, y = counts()
    return fitted(oracle, form(X), y)


def same_model(model, wanted, alike):
    """Equal up to rounding if both saw the same arrays, else as near as their gaps allow."""
    assert np.any(wanted.coef_ != 0)
    ours, theirs = (np.c_[m.coef_, m.intercept_] for m in (model, wanted))
    if alike:
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-12)
    # Strong convexity: 1/2 |w - w*|^2 is at most the gap at w.
    apart = sum(np.sqrt(2 * m.solution_.gap) for m in (model, wanted))
    assert np.linalg.norm(ours - theirs) <= apart < 0.1


@pytest.mark.parametrize("oracle", [None, FScale(2), FDrop(1).only_for("spam")], ids=str)
@pytest.mark.parametrize("name", FORMATS)
def test_every_format_gives_the_same_model(name, oracle):
    X, y = counts()
    given = FORMATS[name](X)
    before = arrays_of(given)
    model = fitted(oracle, given, y)
    assert model.coef_.dtype == np.float64
    dense, sparse = (of_counts(oracle, form) for form in (np.asarray, sp.csr_matrix))
    same_model(model, dense, alike=not sp.issparse(given))
    same_model(model, sparse, alike=sp.issparse(given) and name != "explicit-zeros")

    np.testing.assert_allclose(model.decision_function(given), model.decision_function(X))
    certificate, other = model.certify(given, y), model.certify(X, y)
    np.testing.assert_allclose(certificate.margins, other.margins, rtol=1e-9, atol=1e-12)
    assert np.all(certificate.exact)
    worst = model.worst_case(given, y)
    assert sp.issparse(worst) == sp.issparse(given)
    assert not sp.issparse(worst) or worst.format == "csr"
    worst = worst.toarray() if sp.issparse(worst) else worst
    np.testing.assert_allclose(worst, model.worst_case(X, y), rtol=1e-9)

    after = arrays_of(given)
    assert all(a.dtype == b.dtype and np.array_equal(a, b) for a, b in zip(before, after, strict=True))


@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix], ids=["dense", "csr"])
@pytest.mark.parametrize("n_classes", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_single_precision_stays(form, n_classes):
    X, y = counts(n_classes)
    single = form(X.astype(np.float32))
    model = fitted(FScale(1), single, y, tol=1e-4)
    assert model.coef_.dtype == model.intercept_.dtype == np.float32
    assert model.decision_function(single).dtype == np.float32
    assert model.worst_case(single, y).dtype == np.float32
    # Counts are exact in both, so that only the gaps stand between the two.
    same_model(model, fitted(FScale(1), form(X), y, tol=1e-4), alike=False)


def test_rows_in_order_are_not_copied():
    X, y = counts()
    given = sp.csr_matrix(X)
    oracle = Witness()
    InvariantLinearSVC(oracle).fit(given, y)
    assert np.shares_memory(oracle.seen_.data, given.data)
    assert np.shares_memory(oracle.seen_.indices, given.indices)


@pytest.mark.parametrize("form", [np.array, sp.csr_matrix], ids=["dense", "csr"])
@pytest.mark.parametrize("oracle", [None, FDrop(1), Box(0.5)], ids=str)
def test_the_worst_case_is_a_copy(oracle, form):
    X, y = counts()
    given = form(X)
    if sp.issparse(given) and isinstance(oracle, Box):
        pytest.skip("a box is dense")
    model = InvariantLinearSVC(oracle, random_state=0).fit(given, y)
    before = arrays_of(given)
    worst = model.worst_case(given, y)
    if sp.issparse(worst):
        worst.data[:] = 0.0
        worst.eliminate_zeros()  # moves indices in place
    else:
        worst[:] = -1.0
    assert all(np.array_equal(a, b) for a, b in zip(before, arrays_of(given), strict=True))


def test_a_fit_does_not_write_to_frozen_rows():
    X, y = counts()
    for given in (X, sp.csr_matrix(X)):
        for array in [given] if given is X else [given.data, given.indices, given.indptr]:
            array.flags.writeable = False
        model = InvariantLinearSVC(FScale(2), C=0.1, random_state=0).fit(given, y)
        model.worst_case(given, y)
        model.certify(given)


def test_empty_rows_get_the_intercept():
    X, y = counts()
    model = InvariantLinearSVC(FDrop(2), C=0.1, random_state=0).fit(sp.csr_matrix(X), y)
    nothing = sp.csr_matrix((2, X.shape[1]))
    assert model.decision_function(nothing).tolist() == [model.intercept_[0]] * 2
    certificate = model.certify(nothing, ["spam", "ham"])
    np.testing.assert_allclose(
        certificate.margins, [model.intercept_[0], -model.intercept_[0]], atol=1e-12
    )


def test_an_oracle_of_single_rows_sees_what_was_given():
    X, y = counts()

    class Dense(Identity):
        supports_sparse = False

        def support(self, X, V, assign, cost=None):
            assert isinstance(X, np.ndarray)
            return Support(X)

    InvariantLinearSVC(Dense()).fit(X, y)
    with pytest.raises(TypeError, match="Dense does not support sparse rows.*dense array"):
        InvariantLinearSVC(Dense()).fit(sp.csr_matrix(X), y)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("weights", [0.0, 1.0])
def test_numbers_that_are_none_are_found_in_sparse_rows_to_predict(bad, weights):
    X, y = counts()
    model = InvariantLinearSVC(random_state=0).fit(sp.csr_matrix(X), y)
    model.coef_ *= weights
    rows = sp.csr_matrix(X, dtype=float)
    rows.data[5] = bad
    for ask in (model.predict, model.decision_function, model.certify):
        with pytest.raises(ValueError, match="X contains"):
            ask(rows)
