"""The logistic loss where exponentials overflow."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from structinv.losses import Logistic

from .cases import numbers


@given(u=numbers, step=st.floats(1e-6, 1e6))
def test_the_logistic_step_is_exact(u, step):
    t = Logistic().prox(np.array(u), step)
    with np.errstate(over="ignore"):
        residual = t - u - step / (1 + np.exp(t))
    slope = 1 + step * Logistic().curvature(t)
    assert abs(residual / slope) <= 1e-14 * (1 + abs(t) + abs(u) + step / slope)


def test_the_logistic_loss_at_extremes():
    loss = Logistic()
    np.testing.assert_array_equal(loss.value(np.array([-1e3, 1e3])), [1e3, 0.0])
    np.testing.assert_array_equal(loss.derivative(np.array([-1e3, 1e3])), [-1.0, 0.0])
    np.testing.assert_array_equal(loss.curvature(np.array([-1e3, 1e3])), 0.0)
    p = np.array([-1 - 1e-9, -1 - 1e-13, -1.0, -0.5, 0.0, 1e-13, 1e-9])
    wanted = [np.inf, 0, 0, -np.log(2), 0, 0, np.inf]
    np.testing.assert_allclose(loss.conjugate(p), wanted, atol=1e-15)
    np.testing.assert_allclose(loss.prox(np.array([-1e3, 1e3]), 1.0), [-999.0, 1e3], rtol=1e-15)
    assert loss.prox(0.0, 0.0) == 0.0
    assert loss.prox(-3.0, 6.0) == pytest.approx(0.0, abs=1e-15)
