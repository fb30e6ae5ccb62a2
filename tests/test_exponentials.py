"""Exponentials in float32 against those in float64."""

import numpy as np
import pytest

from structinv.kernels.exponentials import exponentials

EPS = float(np.finfo(np.float32).eps)


@pytest.mark.parametrize("low", [-1e-6, -1.0, -20.0, -87.2])
def test_they_are_right_to_the_last_digit(low):
    x = np.linspace(low, 0.0, 200_001, dtype=np.float32)
    wanted = np.exp(x.astype(np.float64))
    found = exponentials(x.copy())
    assert found.dtype == np.float32
    assert np.abs(found / wanted - 1).max() < EPS
    # Each piece follows the one before: no step where the power of 2 changes.
    assert np.diff(found.astype(np.float64)).min() > -EPS


def test_the_ends():
    x = np.array([0.0, -0.0, -87.29, -87.31, -200.0, -1e30, -np.inf], dtype=np.float32)
    found = exponentials(x)
    assert found is x
    np.testing.assert_array_equal(found[:2], 1.0)
    assert found[2] == pytest.approx(np.exp(-87.29), rel=1e-5)
    np.testing.assert_array_equal(found[3:], 0.0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_tables_of_any_layout_are_changed_in_place(dtype):
    rng = np.random.default_rng(0)
    for x in (-rng.random((4, 5)), -rng.random((8, 10))[::2, ::2], -rng.random((5, 4)).T):
        values = x.astype(dtype, order="K")
        part = np.zeros((8, 10), dtype=dtype)[: x.shape[0], : x.shape[1]]
        part[:] = x
        np.testing.assert_allclose(exponentials(values), np.exp(x), rtol=3e-7)
        np.testing.assert_allclose(exponentials(part), np.exp(x), rtol=3e-7)
    assert exponentials(np.zeros((0, 3), dtype=dtype)).shape == (0, 3)
