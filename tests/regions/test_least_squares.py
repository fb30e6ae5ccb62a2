"""Bounded least squares."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from structinv.regions.least_squares import bounded_minimum

from .cases import bounded


@given(st.integers(0, 10**6), st.integers(1, 6), st.integers(1, 6), st.booleans())
def test_bounded_minimum_against_other_solvers(seed, size, rank, cut):
    rng = np.random.default_rng(seed)
    matrix = rng.standard_normal((7, rank)) @ rng.standard_normal((rank, size))
    target = 3.0 * rng.standard_normal(7)
    low, high = -rng.random(size), rng.random(size)
    if cut:
        low[rng.random(size) < 0.4] = 0.0
        high[rng.random(size) < 0.2] = 0.0
    z, gradient = np.zeros(size), np.zeros(size)
    gram, linear = matrix.T @ matrix, -matrix.T @ target
    room = np.zeros(size), np.zeros((size + 1, size)), np.zeros(size, dtype=np.intp)
    excess = bounded_minimum(gram, linear, low, high, 1e-13 * target @ target, z, gradient, *room)
    square = np.sum((target - matrix @ z) ** 2)
    expected = bounded(matrix, target, low, high)
    assert np.all((z >= low) & (z <= high))
    assert excess <= 1e-9 * (target @ target)
    # The other solvers stop a little earlier.
    assert square <= expected * (1 + 1e-9) + 1e-10
    assert square >= expected - 1e-4 * (target @ target)
    np.testing.assert_allclose(gradient, gram @ z + linear, atol=1e-9)


def test_no_coordinate_of_a_bounded_minimum_leads_down_on_either_side():
    # Few problems have steps on one side only after the first sweeps.
    for seed in range(600):
        rng = np.random.default_rng(seed)
        size, rank = rng.integers(1, 7, 2)
        matrix = rng.standard_normal((7, rank)) @ rng.standard_normal((rank, size))
        target = 3.0 * rng.standard_normal(7)
        low, high = -rng.random(size), rng.random(size)
        z, gradient = np.zeros(size), np.zeros(size)
        gram, linear = matrix.T @ matrix, -matrix.T @ target
        room = np.zeros(size), np.zeros((size + 1, size)), np.zeros(size, dtype=np.intp)
        excess = bounded_minimum(gram, linear, low, high, 1e-13 * target @ target, z, gradient, *room)
        slopes = gram @ z + linear
        left = np.sum(np.where(slopes > 0, slopes * (z - low), slopes * (z - high)))
        assert left <= 1e-9 * target @ target
        assert excess == pytest.approx(left, abs=1e-10)
