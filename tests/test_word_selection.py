"""The sum of the largest gains of a row, against a sort."""

import numpy as np
import pytest
import scipy.sparse as sp

from structinv.oracles import FDrop, FScale
from structinv.oracles.checked import bind
from structinv.oracles.word_selection import SHORTEST, largest_sum


def selected(gain, k, guess=0.0):
    listed, best = np.full(len(gain) + 1, 7.0), np.full(max(1, k), 7.0)
    return largest_sum(gain, len(gain), k, guess, listed, best)


def by_sort(gain, k):
    top = np.sort(np.maximum(gain, 0.0))[::-1][:k]
    return top.sum(), top[k - 1] if 0 < k <= len(top) else 0.0


@pytest.mark.parametrize("length", [0, 1, 3, 10, 60, 300])
@pytest.mark.parametrize("k", [0, 1, 3, 10, SHORTEST])
@pytest.mark.parametrize("ties", [False, True])
def test_sum_and_kth_are_those_of_a_sort(length, k, ties):
    rng = np.random.default_rng(length + 7 * k)
    gain = rng.integers(-3, 4, length).astype(float) if ties else rng.standard_normal(length)
    np.testing.assert_allclose(selected(gain, k), by_sort(gain, k), rtol=1e-14)


def test_sum_does_not_depend_on_the_guess():
    gain = np.random.default_rng(0).standard_normal(80)
    expected = selected(gain, 10)
    for guess in (0.01, 0.5, expected[1], 1.5, 1e9, np.inf):
        assert selected(gain, 10, guess) == expected


def test_length_keeps_what_lies_behind_out():
    gain, listed, best = np.array([1.0, 2.0, 9.0]), np.empty(4), np.empty(2)
    assert largest_sum(gain, 2, 2, 0.0, listed, best) == (3.0, 1.0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", [np.int32, np.int64])
@pytest.mark.parametrize("changes", [0, 1, 10, SHORTEST, SHORTEST + 1, 70, 400])
def test_maxima_without_points_are_those_of_a_sort(dtype, kind, changes):
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
        found, _ = bind(oracle, X).maximum(slice(None), V, assign)
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
