"""Scalar losses against their definitions, for every registered loss and combinations."""

import pickle

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar
from sklearn.base import clone

from structinv.losses import Absolute, EpsilonInsensitive, Hinge, Huber, Logistic
from structinv.losses.base import MoreauEnvelope
from structinv.losses.combined import Affine, ConcatenatedLoss

from .cases import LOSSES, every_kinked_loss, every_loss, numbers, steps


def minimum(function, around):
    """Return the minimum of a convex function, by search."""
    bounds = (around - 100.0, around + 100.0)
    found = minimize_scalar(function, bounds=bounds, method="bounded", options={"xatol": 1e-10})
    return found.fun


@given(loss=st.sampled_from(LOSSES), u=numbers, v=numbers, share=st.floats(0, 1))
@settings(max_examples=400)
def test_loss_is_convex_and_above_its_lower_bound(loss, u, v, share):
    between = loss.value(np.array(share * u + (1 - share) * v))
    assert between <= share * loss.value(u) + (1 - share) * loss.value(v) + 1e-9
    assert loss.value(u) >= loss.lower_bound
    assert np.isfinite(loss.lower_bound)


@given(loss=st.sampled_from(LOSSES), u=numbers, v=numbers)
@settings(max_examples=400)
def test_the_derivative_touches_from_below(loss, u, v):
    slope = loss.derivative(np.array(u))
    assert loss.value(v) >= loss.value(u) + slope * (v - u) - 1e-9


@given(loss=st.sampled_from(LOSSES), u=numbers)
@settings(max_examples=400)
def test_the_derivative_is_that_of_the_value(loss, u):
    step = 1e-6
    below, above = loss.derivative(np.array([u - step, u + step]))
    assume(abs(above - below) < 1e-3)
    numeric = (loss.value(u + step) - loss.value(u - step)) / (2 * step)
    assert loss.derivative(np.array(u)) == pytest.approx(numeric, abs=1e-5)


@given(loss=st.sampled_from(LOSSES), u=numbers)
@settings(max_examples=400)
def test_the_conjugate_meets_the_value_at_the_derivative(loss, u):
    slope = loss.derivative(np.array(u))
    # Equal here; at any other point the conjugate is at least as high (Fenchel and Young).
    assert loss.conjugate(slope) == pytest.approx(slope * u - loss.value(u), abs=1e-9)


@given(loss=st.sampled_from(LOSSES), p=st.floats(-10, 10), u=numbers)
@settings(max_examples=200)
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
        assert further > near


@given(loss=st.sampled_from(LOSSES), u=numbers, step=steps)
@settings(max_examples=200)
def test_the_proximal_step_is_a_minimizer(loss, u, step):
    def target(t):
        return step * loss.value(np.array(t)) + 0.5 * (t - u) ** 2

    point = float(loss.prox(np.array(u), step))
    lowest = minimum(target, u if abs(point - u) > 100 else point)
    assert target(point) <= lowest + 1e-9 * (1 + abs(lowest))


@given(loss=st.sampled_from(LOSSES), p=st.floats(-5, 5), step=steps)
@settings(max_examples=400)
def test_the_proximal_step_of_the_conjugate(loss, p, step):
    point = loss.conjugate_prox(np.array(p), step)
    value = step * loss.conjugate(point) + 0.5 * (point - p) ** 2
    assert np.isfinite(value)
    others = np.r_[point + np.linspace(-1, 1, 21), loss.derivative(np.linspace(-9, 9, 21))]
    competitors = step * loss.conjugate(others) + 0.5 * (others - p) ** 2
    assert np.all(value <= competitors + 1e-7 * (1 + abs(value)))


@every_loss
def test_proximal_steps_of_the_conjugate_from_far_slopes_stay_in_the_domain(loss):
    low, high = loss.domain()
    for step in (0.3, 7.0):
        points = loss.conjugate_prox(np.array([-1e9, 1e9]), step)
        assert np.all((low <= points) & (points <= high))


@every_loss
def test_acts_elementwise_and_clones(loss):
    u = np.linspace(-3, 3, 7)
    for method in (loss.value, loss.derivative, loss.conjugate, lambda t: loss.prox(t, 0.5)):
        many = method(u)
        assert many.shape == u.shape
        np.testing.assert_array_equal(u, np.linspace(-3, 3, 7))
        np.testing.assert_array_equal(many, [method(np.array(one)) for one in u])
    for copy in (clone(loss), pickle.loads(pickle.dumps(loss))):
        assert repr(copy) == repr(loss)
        np.testing.assert_array_equal(copy.value(u), loss.value(u))


@every_loss
def test_domain_contains_all_derivatives(loss):
    low, high = loss.domain()
    slopes = loss.derivative(np.linspace(-50, 50, 1001))
    assert np.all((low <= slopes) & (slopes <= high))
    for end, outward in ((low, -1e-6), (high, 1e-6)):
        if np.isfinite(end):
            assert np.isfinite(loss.conjugate(end))
            # Slopes that exceed the end by rounding errors are in the domain.
            assert np.isfinite(loss.conjugate(end + 1e-7 * outward))
            assert loss.conjugate(end + outward) == np.inf


@given(loss=st.sampled_from([each for each in LOSSES if each.smooth]), u=numbers)
@settings(max_examples=300)
def test_the_curvature_is_that_of_the_derivative(loss, u):
    step = 1e-5
    ends = np.array([u - step, u + step])
    bent = loss.curvature(ends)
    assume(abs(bent[1] - bent[0]) < 1e-4)
    numeric = np.diff(loss.derivative(ends))[0] / (2 * step)
    assert loss.curvature(np.array(u)) == pytest.approx(numeric, rel=1e-4, abs=1e-5)


def test_loss_without_curvature_raises():
    with pytest.raises(NotImplementedError, match="Absolute has no curvature"):
        Affine(Absolute(), 1.0).curvature(np.zeros(2))
    without_pieces = ConcatenatedLoss([Hinge(), Logistic()], [1, 1])
    with pytest.raises(NotImplementedError, match="envelope of ConcatenatedLoss has no curvature"):
        MoreauEnvelope(without_pieces, 1.0).curvature(np.zeros(2))
    assert without_pieces.smoothed(1.0).curvature(np.zeros(2)).shape == (2,)


@every_kinked_loss
def test_the_envelope_is_below_by_no_more_than_its_bound(loss):
    for width in (1e-9, 1e-2, 3.0):
        check_envelope(loss, width)


def check_envelope(loss, width):
    smooth = loss.smoothed(width)
    assert smooth.smooth
    assert smooth.lower_bound == loss.lower_bound
    assert repr(smooth.smoothed(width)) == repr(smooth)
    u = np.random.default_rng(0).uniform(-5, 5, 500)
    below = loss.value(u) - smooth.value(u)
    steepest = np.max(np.abs(loss.domain()))
    assert np.all(below >= -1e-14)
    assert np.all(below <= 0.5 * width * steepest**2 + 1e-14)
    # However small the width, no slope is rounded out of the domain.
    assert np.isfinite(loss.conjugate(smooth.derivative(u))).all()


@pytest.mark.parametrize(
    ("loss", "error", "message"),
    [
        (EpsilonInsensitive(-0.1), ValueError, "epsilon must be a number of at least 0, got -0.1"),
        (Huber(0.0), ValueError, "width must be a number above 0, got 0.0"),
        (MoreauEnvelope(Hinge(), np.nan), ValueError, "width must be a number above 0, got nan"),
        (MoreauEnvelope("hinge", 1.0), TypeError, "loss must be a ScalarLoss, got 'hinge'"),
        (Affine(Hinge(), [1.0, 0.0]), ValueError, r"signs must be -1 or \+1, got \[1.0, 0.0\]"),
        (Affine(Hinge(), 1.0, np.nan), ValueError, "targets must be finite numbers, got nan"),
        (Affine(Hinge(), [[1]]), ValueError, "in one dimension"),
        (Affine(Hinge(), [1, -1], [1.0, 2.0, 3.0]), ValueError, r"targets must have the shape of signs"),
        (ConcatenatedLoss([], []), ValueError, "losses must have at least one loss"),
        (ConcatenatedLoss([Hinge(), 3], [1, 1]), TypeError, r"losses\[1\] must be a ScalarLoss, got 3"),
        (ConcatenatedLoss([Hinge()], [-1]), ValueError, "sizes must be integers of at least 0, got -1"),
        (ConcatenatedLoss([Hinge()], [1, 2]), ValueError, "sizes must have one number for each of 1"),
    ],
    ids=repr,
)
def test_invalid_parameters_raise(loss, error, message):
    with pytest.raises(error, match=message):
        loss.validate()
