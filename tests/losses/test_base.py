"""Scalar losses against their definitions, for every registered loss and combinations."""

import pickle

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar
from sklearn.base import clone

from structinv.losses import (
    REGISTRY,
    Absolute,
    CvxpyLoss,
    EpsilonInsensitive,
    Hinge,
    Huber,
    Logistic,
    Pieces,
    ScalarLoss,
    Squared,
    SquaredHinge,
)
from structinv.losses.base import MoreauEnvelope
from structinv.losses.combined import Affine, ConcatenatedLoss


class Pinball(ScalarLoss):
    """Loss of a quantile."""

    lower_bound = 0.0

    def __init__(self, quantile=0.5):
        self.quantile = quantile

    def value(self, u):
        return np.maximum(-self.quantile * u, (1 - self.quantile) * u)

    def derivative(self, u):
        return np.where(u < 0, -self.quantile, 1 - self.quantile)

    def conjugate(self, p):
        low, high = self.domain()
        return np.where((p >= low - 1e-12) & (p <= high + 1e-12), 0.0, np.inf)

    def prox(self, u, step):
        return u - np.clip(u, -step * self.quantile, step * (1 - self.quantile))

    def pieces(self):
        return Pieces.row([0.0], [-self.quantile, 1 - self.quantile], [0.0, 0.0])


LOSSES = [
    *(loss() for loss in REGISTRY.values()),
    EpsilonInsensitive(0.0),
    EpsilonInsensitive(1.5),
    Huber(0.3),
    Affine(Hinge(), -1.0, 0.3),
    Affine(SquaredHinge(), -1),
    Affine(EpsilonInsensitive(0.5), 1.0, -0.7),
    Affine(Logistic(), -1.0, 0.4),
    ConcatenatedLoss([Huber(0.7)], [1]),
    ConcatenatedLoss([Affine(Absolute(), -1.0, 2.0)], [1]),
    MoreauEnvelope(Hinge(), 0.4),
    MoreauEnvelope(EpsilonInsensitive(0.5), 1e-3),
    MoreauEnvelope(Affine(Hinge(), -1.0, 0.5), 2.0),
    MoreauEnvelope(Huber(0.5), 0.7),
    MoreauEnvelope(Logistic(), 0.7),
    Affine(Absolute(), -1.0, 2.0).smoothed(0.3),
    Pinball(0.9),
]
every_loss = pytest.mark.parametrize("loss", LOSSES, ids=repr)
every_loss_with_pieces = pytest.mark.parametrize(
    "loss", [loss for loss in LOSSES if loss.pieces() is not None], ids=repr
)
every_smooth_loss = pytest.mark.parametrize("loss", [x for x in LOSSES if x.smooth], ids=repr)
every_kinked_loss = pytest.mark.parametrize("loss", [x for x in LOSSES if not x.smooth], ids=repr)
numbers = st.floats(-20, 20, allow_nan=False)
steps = st.floats(1e-2, 1e2)


def minimum(function, around):
    """Return the minimum of a convex function, by search."""
    bounds = (around - 100.0, around + 100.0)
    found = minimize_scalar(function, bounds=bounds, method="bounded", options={"xatol": 1e-10})
    return found.fun


@every_loss
@given(u=numbers, v=numbers, share=st.floats(0, 1))
def test_loss_is_convex_and_above_its_lower_bound(loss, u, v, share):
    between = loss.value(np.array(share * u + (1 - share) * v))
    assert between <= share * loss.value(u) + (1 - share) * loss.value(v) + 1e-9
    assert loss.value(u) >= loss.lower_bound
    assert np.isfinite(loss.lower_bound)


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
        assert further > near


@every_loss
@given(u=numbers, step=steps)
def test_the_proximal_step_is_a_minimizer(loss, u, step):
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
        competitor = step * loss.conjugate(np.array(other)) + 0.5 * (other - p) ** 2
        assert value <= competitor + 1e-7 * (1 + abs(value))


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


def mixed():
    """Return one loss of every kind in a concatenation, and the separate losses."""
    rng = np.random.default_rng(5)
    signs, targets = rng.choice([-1.0, 1.0], 5), rng.normal(size=5)
    families = [
        Affine(Hinge(), signs),
        Affine(EpsilonInsensitive(0.3), signs, targets),
        Huber(0.6),
        Affine(SquaredHinge(), -1.0, targets),
    ]
    ones = [loss.take([i]) for loss in families for i in range(5)]
    return ConcatenatedLoss(families, [5, 5, 5, 5]), ones


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


@every_smooth_loss
@given(u=numbers)
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


@every_loss_with_pieces
def test_pieces_are_the_derivative(loss):
    pieces = loss.pieces()
    assert len(pieces.breaks) == 1
    assert pieces.slopes.shape == pieces.intercepts.shape == (1, pieces.breaks.shape[1] + 1)
    assert np.all(np.diff(pieces.breaks) >= 0)
    u = np.linspace(-5, 5, 2003)
    # The derivative at a jump is any of its subgradients.
    u = u[np.abs(u[:, None] - pieces.breaks[0]).min(axis=1, initial=1.0) > 1e-9]
    np.testing.assert_allclose(pieces.derivative(u), loss.derivative(u), atol=1e-12)
    if loss.smooth:
        np.testing.assert_allclose(pieces.curvature(u), loss.curvature(u), atol=1e-12)


@every_loss_with_pieces
def test_pieces_have_left_derivatives_at_breaks(loss):
    pieces = loss.pieces()
    for end in pieces.breaks[0]:
        left = end - 1e-9 * (1.0 + abs(end))
        assert pieces.derivative(np.array(end)) == pytest.approx(
            loss.derivative(np.array(left)), abs=1e-5
        )
        assert pieces.curvature(np.array(end)) == pieces.curvature(np.array(left))


@pytest.mark.parametrize("change", [lambda r: r, lambda r: r.smoothed(0.2)], ids=["plain", "smoothed"])
def test_joined_pieces_are_the_derivative(change):
    loss = change(mixed()[0])
    for part in (loss, Affine(loss, -1.0, 0.3), Affine(loss, np.tile([1, -1], 10), np.arange(20.0))):
        pieces = part.pieces()
        assert len(pieces.breaks) == 20
        assert np.all(pieces.breaks[:, :-1] <= pieces.breaks[:, 1:])
        u = np.random.default_rng(0).uniform(-20, 20, (400, 20))
        np.testing.assert_allclose(pieces.derivative(u), part.derivative(u), atol=1e-12)
        some = [7, 0, 19]
        np.testing.assert_array_equal(
            pieces.take(some).derivative(u[:, some]), pieces.derivative(u)[:, some]
        )


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


@every_kinked_loss
@pytest.mark.parametrize("width", [1e-9, 1e-2, 3.0])
def test_the_envelope_is_below_by_no_more_than_its_bound(loss, width):
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


@pytest.mark.parametrize("change", [lambda r: r, lambda r: r.smoothed(0.2)], ids=["plain", "smoothed"])
def test_concatenated_losses_use_their_own_elements(change):
    loss, ones = change(mixed()[0]), [change(one) for one in mixed()[1]]
    loss.validate()
    u = np.random.default_rng(1).normal(scale=3, size=(3, 20))
    step = np.linspace(0.1, 2.0, 20)
    methods = ["value", "derivative", "conjugate", *(["curvature"] if loss.smooth else [])]
    for name in methods:
        wanted = np.hstack([getattr(one, name)(u[:, [i]]) for i, one in enumerate(ones)])
        np.testing.assert_allclose(getattr(loss, name)(u), wanted, atol=1e-14)
        assert getattr(loss, name)(0.5).shape == (20,)
    for name in ("prox", "conjugate_prox"):
        wanted = np.hstack([getattr(one, name)(u[:, [i]], step[i]) for i, one in enumerate(ones)])
        np.testing.assert_allclose(getattr(loss, name)(u, step), wanted, atol=1e-14)
        np.testing.assert_allclose(getattr(loss, name)(u, 0.3), getattr(loss, name)(u, np.full(20, 0.3)))
    for ends in zip(loss.domain(), zip(*(one.domain() for one in ones), strict=True), strict=True):
        np.testing.assert_array_equal(ends[0], np.hstack(ends[1]))
    with pytest.raises(ValueError, match="19"):
        loss.value(np.zeros(19))


@pytest.mark.parametrize(
    "indices", [[3, 1, 12, 11, 4], np.arange(20) % 3 == 0, slice(4, 17), slice(0), [-1]]
)
@pytest.mark.parametrize(
    "change", [lambda r: r, lambda r: MoreauEnvelope(r, 0.2)], ids=["plain", "smoothed"]
)
def test_taking_elements(change, indices):
    loss = change(mixed()[0])
    part = loss.take(indices)
    chosen = np.arange(20)[indices]
    u = np.random.default_rng(1).normal(scale=3, size=20)
    np.testing.assert_array_equal(part.value(u[chosen]), loss.value(u)[chosen])
    np.testing.assert_array_equal(part.derivative(u[chosen]), loss.derivative(u)[chosen])
    assert Hinge().take(chosen).value(0.0) == 1.0


def test_joined_is_smooth_and_bounded_as_its_losses():
    class Raised(Squared):
        lower_bound = -3.0

    assert ConcatenatedLoss([Squared(), Raised()], [1, 1]).lower_bound == -3.0
    assert ConcatenatedLoss([Squared(), Logistic()], [1, 1]).smooth
    assert not ConcatenatedLoss([Squared(), Hinge()], [1, 1]).smooth


def test_joined_has_slopes_only_if_all_its_losses_have():
    without = CvxpyLoss(abs)
    assert not Affine(without, -1.0).has_slopes
    assert not ConcatenatedLoss([Squared(), without], [1, 1]).has_slopes
    assert ConcatenatedLoss([Squared(), Hinge()], [1, 1]).has_slopes


def test_expressions_have_the_conjugates_and_steps_of_their_formula():
    quantile = 0.9
    loss = CvxpyLoss(lambda u: cp.maximum(-quantile * u, (1 - quantile) * u))
    known = Pinball(quantile)
    u, step = np.array([[-2.0, 0.02, 3.0], [0.4, -0.3, 1.0]]), np.array([0.1, 0.5, 20.0])
    np.testing.assert_allclose(loss.value(u), known.value(u), atol=1e-12)
    np.testing.assert_allclose(loss.prox(u, step), known.prox(u, step), atol=1e-4)
    np.testing.assert_allclose(loss.prox(u, 0.5), known.prox(u, 0.5), atol=1e-4)
    p = np.array([-0.8, -0.3, 0.05])
    np.testing.assert_allclose(loss.conjugate(p), known.conjugate(p), atol=1e-6)


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
