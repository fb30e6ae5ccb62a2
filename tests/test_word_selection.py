"""The sum of the largest gains of a row, against a sort."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from structinv.oracles import FDrop, FEdit, FScale
from structinv.oracles.checked_oracle import bind
from structinv.oracles.words.word_selection import largest, ordered


def by_sort(gain, k):
    return np.sort(np.maximum(gain, 0.0))[::-1][:k].sum()


def check_cut(gain, k, cut):
    """At most k numbers are above the cut, and as many as are missing equal it."""
    above, level = np.count_nonzero(gain > cut), np.count_nonzero(gain == cut)
    assert above <= k
    if k > 0:
        assert above + level >= k if np.count_nonzero(gain > 0) >= k else cut == 0.0


KINDS = {
    "normal": lambda rng, size: rng.standard_normal(size),
    "ties": lambda rng, size: rng.integers(-9, 10, size) / 7,
    # Many orders of magnitude: no guess from a mean comes near.
    "powers": lambda rng, size: 10.0 ** rng.uniform(-200, 100, size),
    "equal": lambda rng, size: np.full(size, 0.3),
}


@settings(max_examples=200)
@given(
    st.sampled_from([0, 1, 3]) | st.integers(0, 300),
    st.sampled_from([0, 1, 16]) | st.integers(0, 70),
    st.sampled_from(sorted(KINDS)),
    st.integers(0, 10_000),
    st.sampled_from([0.0, 1e9, np.inf]) | st.floats(0, 20),
)
def test_sum_cut_and_order_equal_those_of_a_sort(length, k, kind, seed, guess):
    numbers = KINDS[kind](np.random.default_rng(seed), length)
    gain = numbers.copy()
    total, cut = largest(gain, length, k, guess)
    np.testing.assert_allclose(total, by_sort(numbers, k), rtol=1e-14)
    check_cut(numbers, k, cut)
    for other in (0.0, cut, 0.999 * cut):
        assert largest(gain, length, k, other)[0] == total
    size = ordered(gain, length, k)
    assert size == min(k, np.count_nonzero(numbers > 0))
    np.testing.assert_array_equal(gain[:size], np.sort(numbers)[::-1][:size])


def test_the_maximum_of_a_row_does_not_depend_on_other_rows():
    rng = np.random.default_rng(0)
    X, V = sp.random(100, 60, 0.5, format="csr", random_state=0), rng.standard_normal((1, 60))
    bound, facing = FDrop(5).bind(X), np.zeros(100, dtype=int)
    together, _ = bound.support(slice(None), V, facing).maxima()
    alone = [bound.support([i], V, facing[:1]).maxima()[0][0] for i in range(100)]
    np.testing.assert_array_equal(together, alone)


def test_infinite_numbers_end_the_search():
    gain = np.array([np.inf, 1.0, 2.0, np.inf, -np.inf, 0.5])
    assert largest(gain, 6, 1, 0.0)[0] == np.inf
    total, cut = largest(gain, 6, 3, 0.7)
    assert total == np.inf
    check_cut(gain, 3, cut)


@pytest.mark.parametrize("others", [[], [1.0], [1.0, 3.0, -2.0, 3.0]])
@pytest.mark.parametrize("guess", [0.0, 2.0, np.inf])
def test_at_most_k_infinite_numbers_are_selected(others, guess):
    gain = np.array([np.inf, -np.inf, *others, np.inf, np.inf])
    assert largest(gain, len(gain), 2, guess) == (np.inf, np.inf)
    assert ordered(gain, len(gain), 2) == 2
    np.testing.assert_array_equal(gain[:2], np.inf)


def test_elements_beyond_count_are_ignored():
    assert largest(np.array([1.0, 2.0, 9.0]), 2, 2, 0.0) == (3.0, 0.0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", [np.int32, np.int64])
@pytest.mark.parametrize("changes", [0, 1, 10, 16, 17, 70, 400])
def test_maxima_without_points_equal_those_of_a_sort(dtype, kind, changes):
    rng = np.random.default_rng(changes)
    X = sp.random(40, 200, density=0.4, format="csr", random_state=1, data_rvs=rng.standard_normal)
    X = sp.csr_matrix(X.multiply((np.arange(40) % 5 != 0)[:, None])).astype(dtype)
    X.eliminate_zeros()
    X.sort_indices()
    X.indices, X.indptr = X.indices.astype(kind), X.indptr.astype(kind)
    V, assign = rng.standard_normal((2, 200)), rng.integers(0, 2, 40)
    for oracle in (FScale(changes, 0.5, 3.0), FDrop(changes)):
        low, high = oracle.factors
        terms = V[assign] * X.toarray().astype(np.float64)
        gains = np.maximum(0.0, np.maximum((low - 1) * terms, (high - 1) * terms))
        expected = terms.sum(axis=1) + np.sort(gains, axis=1)[:, ::-1][:, :changes].sum(axis=1)
        found, _ = bind(oracle, X).support(slice(None), V, assign).maxima()
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("oracle", [FDrop(2), FScale(2), FEdit(2)], ids=lambda each: type(each).__name__)
def test_gains_that_overflow_are_graded_by_the_number_of_edits(oracle):
    X, V = np.full((1, 6), 1e200), np.full((1, 6), -1e200)
    found = oracle.graded_support(X, V, np.array([0]), np.ones(1), [1.0, 0.5, 0.25])
    assert found.rho[0] in (1.0, 0.5, 0.25)
    assert np.count_nonzero(found.points != X) <= 2
