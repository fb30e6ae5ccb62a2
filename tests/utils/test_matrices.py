"""Rows of matrices, dense or CSR, against NumPy, and threads that work on them."""

import threading
import time
import tracemalloc
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from structinv.utils import matrices, resources
from structinv.utils.matrices import (
    TIES,
    best_first,
    contiguous_read_only,
    first_best,
    independent,
    indices_increase,
    interleave,
    products,
    row_max,
    short_indices,
    take,
)
from structinv.utils.resources import allowed_threads

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


def test_one_blas_thread_does_not_limit_other_threads(many_cpus):
    with matrices.one_blas_thread():
        assert allowed_threads() == 8


def threads_at_work(n_callers, expected):
    """How many threads work at the same time for several callers of `in_threads`."""
    condition, now, most = threading.Condition(), [0], [0]
    started = threading.Barrier(n_callers)

    def work(part):
        with condition:
            now[0] += 1
            most[0] = max(most[0], now[0])
            condition.notify_all()
            # Until as many as are expected have been seen at once.
            condition.wait_for(lambda: most[0] >= expected, timeout=5)
        with condition:
            now[0] -= 1

    def call():
        started.wait()
        matrices.in_threads(work, 100, 10**9)

    callers = [threading.Thread(target=call) for _ in range(n_callers)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    return most[0]


def test_callers_share_the_threads(many_cpus, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "4")
    # Limits of OpenMP hold in the thread in which they were set.
    monkeypatch.setattr(resources, "controller", lambda: SimpleNamespace(lib_controllers=[]))
    assert threads_at_work(1, 4) == 4
    # Who comes too late works in the thread that it has.
    assert 4 <= threads_at_work(3, 4) <= 4 + 2
    assert matrices._threads_taken == 0


def test_threads_are_given_back_after_an_error(many_cpus):
    def fail(part):
        raise KeyError("nothing")

    with pytest.raises(KeyError):
        matrices.in_threads(fail, 100, 10**9)
    assert matrices._threads_taken == 0


def test_portions_after_an_error_are_skipped(monkeypatch):
    monkeypatch.setattr(matrices, "allowed_threads", lambda: 2)
    begun = []

    def work(rows):
        begun.append(rows)
        if len(begun) == 1:
            raise KeyboardInterrupt
        time.sleep(0.01)

    with pytest.raises(KeyboardInterrupt):
        matrices.in_threads(work, 10_000, 10**9, most=1)
    assert len(begun) < 5000
    assert matrices._threads_taken == 0
    seen = np.zeros(1000, dtype=int)

    def count(rows):
        assert rows.stop - rows.start <= 7
        seen[rows] += 1

    matrices.in_threads(count, len(seen), 10**9, most=7)
    assert np.all(seen == 1)
    # In one thread, too.
    matrices.in_threads(count, len(seen), 0, most=7)
    assert np.all(seen == 2)


def test_equal_means_values_that_differ_by_rounding_errors():
    values = 1 + np.array([[0.0, TIES / 2, 2 * TIES]])
    assert first_best(values).tolist() == [2]
    assert first_best(values[:, :2]).tolist() == [0]
    assert best_first(values[0]).tolist() == [2, 0, 1]
    assert first_best(np.array([[-np.inf, 1.0], [-np.inf, -np.inf], [np.nan, 1.0]])).tolist() == [
        1,
        0,
        0,
    ]
    assert best_first(np.zeros(0)).tolist() == []


@pytest.mark.parametrize("width", [1, 2, 16, 17])
def test_the_largest_value_of_a_row_includes_nan_and_infinity(width):
    values = np.random.default_rng(0).standard_normal((9, width))
    values[3, 0], values[5, -1], values[6] = np.nan, np.inf, -np.inf
    np.testing.assert_array_equal(row_max(values), np.max(values, axis=1))


@pytest.mark.parametrize(
    ("indices", "starts", "increase"),
    [
        ([0, 2, 1, 3], [0, 2, 4], True),
        ([1, 0, 0, 3], [0, 1, 1, 2, 2, 4, 4], True),
        ([0, 2, 2, 3], [0, 1, 4], False),
        ([0, 3, 2, 3], [0, 4], False),
        ([], [0, 0, 0], True),
        ([5], [0, 1], True),
    ],
)
def test_indices_increase_in_rows_as_scipy_finds(indices, starts, increase):
    X = sp.csr_matrix((np.ones(len(indices)), indices, starts), shape=(len(starts) - 1, 6))
    assert indices_increase(X) == X.has_canonical_format == increase


@pytest.mark.parametrize(
    "rows_of",
    [lambda X: X, lambda X: X[:], lambda X: X.reshape(len(X), -1), lambda X: X[1:].T],
    ids=["itself", "view", "images as rows", "transposed"],
)
def test_rows_of_a_model_do_not_change_with_the_array_of_the_caller(rows_of):
    X = np.arange(24.0).reshape(4, 3, 2)
    rows = independent(rows_of(X), X)
    before = rows.copy()
    X[:] = -1.0
    np.testing.assert_array_equal(rows, before)


def test_sparse_rows_of_a_model_do_not_change_with_the_matrix_of_the_caller():
    X = sp.random_array((5, 4), density=0.5, format="csr", random_state=np.random.default_rng(0))
    for rows in (X, X[:], sp.csr_array((X.data, X.indices.copy(), X.indptr.copy()), X.shape)):
        found = independent(rows, X)
        before, values = found.toarray(), X.data.copy()
        X.data[:] = -1.0
        np.testing.assert_array_equal(found.toarray(), before)
        X.data[:] = values
