"""The largest gains against a sort."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from structinv.oracles.words.kernels import LISTED, best_gains, largest, ordered


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


@settings(max_examples=100)
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
    kept, best = np.empty(length), np.empty(LISTED)
    total, cut = best_gains(gain, 1, length, k, guess, kept, best)
    np.testing.assert_allclose(total, by_sort(numbers, k), rtol=1e-14)
    check_cut(numbers, k, cut)
    apart = np.repeat(gain, 3)
    for other in (0.0, cut, 0.999 * cut, 3.0 * cut):
        assert best_gains(apart, 3, length, k, other, kept, best)[0] == total
    size = ordered(gain, length, k)
    assert size == min(k, np.count_nonzero(numbers > 0))
    np.testing.assert_array_equal(gain[:size], np.sort(numbers)[::-1][:size])


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
