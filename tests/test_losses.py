"""Scalar losses against what defines them, for every loss of the registry."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar
from sklearn.base import clone

from structinv.losses import REGISTRY, EpsilonInsensitive, Huber

LOSSES = [*(loss() for loss in REGISTRY.values()), EpsilonInsensitive(1.5), Huber(0.3)]
every_loss = pytest.mark.parametrize("loss", LOSSES, ids=repr)
numbers = st.floats(-20, 20, allow_nan=False)
steps = st.floats(1e-2, 1e2)


def minimum(function, around):
    """A convex function's smallest value, found by search."""
    bounds = (around - 100.0, around + 100.0)
    found = minimize_scalar(function, bounds=bounds, method="bounded", options={"xatol": 1e-10})
    return found.fun


@every_loss
@given(u=numbers, v=numbers, share=st.floats(0, 1))
def test_is_convex_above_its_floor(loss, u, v, share):
    between = loss.value(np.array(share * u + (1 - share) * v))
    assert between <= share * loss.value(u) + (1 - share) * loss.value(v) + 1e-9
    assert loss.value(u) >= loss.floor
    assert np.isfinite(loss.floor)


@every_loss
@given(u=numbers, v=numbers)
def test_the_derivative_touches_from_below(loss, u, v):
    slope = loss.derivative(np.array(u))
    assert loss.value(v) >= loss.value(u) + slope * (v - u) - 1e-9


@every_loss
@given(u=numbers)
def test_the_derivative_is_that_of_the_value(loss, u):
    step = 1e-6
    below, above = loss.derivative(np.array([u - step, u + step]))
    assume(abs(above - below) < 1e-3)
    numeric = (loss.value(u + step) - loss.value(u - step)) / (2 * step)
    assert loss.derivative(np.array(u)) == pytest.approx(numeric, abs=1e-5)


@every_loss
@given(u=numbers)
def test_the_conjugate_meets_the_value_at_the_derivative(loss, u):
    slope = loss.derivative(np.array(u))
    # Equal here; at any other point the conjugate is at least as high (Fenchel and Young).
    assert loss.conjugate(slope) == pytest.approx(slope * u - loss.value(u), abs=1e-9)


@every_loss
@given(p=st.floats(-10, 10), u=numbers)
def test_the_conjugate_is_the_largest_difference(loss, p, u):
    conjugate = loss.conjugate(np.array(p))
    assert conjugate >= p * u - loss.value(u) - 1e-9
    if np.isfinite(conjugate):
        highest = -minimum(lambda t: loss.value(np.array(t)) - p * t, 0.0)
        assert conjugate == pytest.approx(highest, abs=1e-5)
    else:
        # Beyond the slopes of the loss the difference has no bound.
        far = np.sign(p) * np.array([1e6, 1e8])
        near, further = p * far - loss.value(far)
        assert further > near > 0


@every_loss
@given(u=numbers, step=steps)
def test_the_proximal_step_is_a_minimiser(loss, u, step):
    def target(t):
        return step * loss.value(np.array(t)) + 0.5 * (t - u) ** 2

    point = float(loss.prox(np.array(u), step))
    lowest = minimum(target, u if abs(point - u) > 100 else point)
    assert target(point) <= lowest + 1e-9 * (1 + abs(lowest))


@every_loss
@given(p=st.floats(-5, 5), step=steps)
def test_the_proximal_step_of_the_conjugate(loss, p, step):
    point = loss.conjugate_prox(np.array(p), step)
    value = step * loss.conjugate(point) + 0.5 * (point - p) ** 2
    assert np.isfinite(value)
    for other in np.r_[point + np.linspace(-1, 1, 21), loss.derivative(np.linspace(-9, 9, 21))]:
        rival = step * loss.conjugate(np.array(other)) + 0.5 * (other - p) ** 2
        assert value <= rival + 1e-7 * (1 + abs(value))


@every_loss
def test_acts_elementwise_and_clones(loss):
    u = np.linspace(-3, 3, 7)
    for method in (loss.value, loss.derivative, loss.conjugate, lambda t: loss.prox(t, 0.5)):
        many = method(u)
        assert many.shape == u.shape
        np.testing.assert_array_equal(many, [method(np.array(one)) for one in u])
    assert repr(clone(loss)) == repr(loss)
