"""`check_loss`: the requirements of a loss, tested at many points."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from structinv.losses import ScalarLoss
from structinv.utils.exceptions import CheckError
from structinv.utils.plugins import clone_and_pickle

# Relative tolerance for rounding errors and for iterative methods of losses.
_TOLERANCE = 1e-8
# Step of numerical derivatives, and their relative tolerance.
_STEP, _NUMERICAL = 1e-5, 1e-4
_STEPS = (1e-2, 0.7, 1e2)
# Distance beyond the domain of the conjugate.
_BEYOND = 1e-3


def check_loss(
    loss: ScalarLoss, *, largest: float = 20.0, n_points: int = 201, random_state: int | None = 0
) -> None:
    """Raise CheckError with a method and a point that violate a requirement of `ScalarLoss`."""
    rng = np.random.default_rng(random_state)
    u = np.sort(np.r_[-largest, 0.0, largest, rng.uniform(-largest, largest, n_points - 2)])
    trial = _Trial(loss, u, rng)
    for check in _CHECKS:
        check(trial)


@dataclass
class _Trial:
    """A loss with points, and its values and slopes there."""

    loss: ScalarLoss
    u: np.ndarray
    rng: np.random.Generator

    def __post_init__(self) -> None:
        self.values = self.numbers("value", self.loss.value(self.u.copy()))
        self.slopes = self.numbers("derivative", self.loss.derivative(self.u.copy()))

    def fail(self, method: str, message: str) -> None:
        """Raise CheckError with the name of the method."""
        raise CheckError(f"{type(self.loss).__name__}.{method}: {message}")

    def numbers(self, method: str, values: np.ndarray) -> np.ndarray:
        """Return finite values with the shape of the points."""
        if not isinstance(values, np.ndarray) or values.shape != self.u.shape:
            self.fail(method, f"must return an array of shape {self.u.shape}, got {values!r}")
        if not np.all(np.isfinite(values)):
            self.fail(method, f"must be finite at {self.u[~np.isfinite(values)][0]:g}")
        return values

    def require(self, holds: np.ndarray, at: np.ndarray, method: str, message: str) -> None:
        """Raise CheckError with the first point at which `holds` is False."""
        bad = np.flatnonzero(~np.broadcast_to(holds, at.shape))
        if len(bad):
            self.fail(method, f"{message} (at {at.ravel()[bad[0]]:.6g})")

    def lowest(self, slopes: np.ndarray, at: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Return the smallest excess of the loss over the lines through (at, values)."""
        lines = values[:, None] + slopes[:, None] * (self.u - at[:, None])
        scale = 1.0 + np.abs(lines) + np.abs(slopes * at)[:, None] + np.abs(values)[:, None]
        return np.min((self.values - lines) / scale, axis=1)


def _check_values(trial: _Trial) -> None:
    loss, u = trial.loss, trial.u
    if not np.isfinite(loss.lower_bound):
        trial.fail("lower_bound", f"must be a finite number, got {loss.lower_bound!r}")
    trial.require(trial.values >= loss.lower_bound, u, "value", "must be at least lower_bound")
    other = trial.rng.permutation(len(u))
    between = loss.value(0.5 * (u + u[other]))
    mean = 0.5 * (trial.values + trial.values[other])
    convex = between <= mean + _TOLERANCE * (1.0 + np.abs(mean))
    trial.require(convex, 0.5 * (u + u[other]), "value", "must be convex")


def _check_slopes(trial: _Trial) -> None:
    below = trial.lowest(trial.slopes, trial.u, trial.values) >= -_TOLERANCE
    message = "must be a subgradient: the line through the value exceeds the loss"
    trial.require(below, trial.u, "derivative", message)


def _check_conjugate(trial: _Trial) -> None:
    p, equal = trial.slopes, trial.slopes * trial.u - trial.values
    conjugate = trial.loss.conjugate(p.copy())
    error = np.abs(conjugate - equal)
    scale = 1.0 + np.abs(p * trial.u) + np.abs(trial.values)
    message = "must be p u - r(u) if p is the derivative at u"
    trial.require(error <= _TOLERANCE * scale, p, "conjugate", message)
    low, high = (float(end) for end in trial.loss.domain())
    trial.require((low <= p) & (p <= high), p, "domain", "must contain all slopes")
    beyond = np.array([end for end in (low - _BEYOND, high + _BEYOND) if np.isfinite(end)])
    outside = np.isposinf(trial.loss.conjugate(beyond))
    trial.require(outside, beyond, "conjugate", "must be infinite outside the domain")


def _check_prox(trial: _Trial) -> None:
    for step in _STEPS:
        point = trial.numbers("prox", trial.loss.prox(trial.u.copy(), step))
        slope, value = (trial.u - point) / step, trial.loss.value(point)
        # Rounding of the point counts 1 / step times in the slope.
        allowed = _TOLERANCE * max(1.0, 1.0 / step)
        message = f"with step {step:g} must return a point t with the slope (u - t) / step"
        below = trial.lowest(slope, point, value) >= -allowed
        trial.require(below, trial.u, "prox", message)
        # At a kink, the slopes lie between those of `derivative`.
        slope = np.clip(slope, *trial.loss.domain())
        error = np.abs(trial.loss.conjugate(slope) - (slope * point - value))
        scale = 1.0 + np.abs(slope * point) + np.abs(value)
        message = f"must be p t - r(t) if t is a proximal step of {step:g} and p its slope"
        trial.require(error <= allowed * scale, slope, "conjugate", message)


def _check_conjugate_prox(trial: _Trial) -> None:
    low, high = trial.loss.domain()
    for step in _STEPS:
        given = trial.u.copy()
        slope = trial.numbers("conjugate_prox", trial.loss.conjugate_prox(given, step))
        wanted = np.clip(trial.u - step * trial.loss.prox(trial.u / step, 1.0 / step), low, high)
        same = np.abs(slope - wanted) <= _TOLERANCE * (1.0 + step) * (1.0 + np.abs(trial.u))
        message = f"with step {step:g} must be p - step * prox(p / step, 1 / step)"
        trial.require(same, trial.u, "conjugate_prox", message)


def _check_curvature(trial: _Trial) -> None:
    if not trial.loss.smooth:
        return
    curvature = trial.numbers("curvature", trial.loss.curvature(trial.u.copy()))
    before, after = (trial.loss.derivative(trial.u + side * _STEP) for side in (-1.0, 1.0))
    sides = np.stack([trial.slopes - before, after - trial.slopes]) / _STEP
    allowed = _NUMERICAL * (1.0 + np.abs(curvature))
    inside = (curvature >= sides.min(axis=0) - allowed) & (curvature <= sides.max(axis=0) + allowed)
    trial.require(inside, trial.u, "curvature", "must be the derivative of `derivative`")


def _check_pieces(trial: _Trial) -> None:
    pieces = trial.loss.pieces()
    if pieces is None:
        return
    breaks = pieces.breaks[np.isfinite(pieces.breaks)]
    apart = np.all(np.abs(trial.u[:, None] - breaks) > _STEP, axis=1)
    error = np.abs(pieces.derivative(trial.u[:, None])[:, 0] - trial.slopes)
    same = (error <= _TOLERANCE * (1.0 + np.abs(trial.slopes))) | ~apart
    trial.require(same, trial.u, "pieces", "must have the values of `derivative`")


def _check_elementwise(trial: _Trial) -> None:
    loss = trial.loss
    methods = {
        "value": loss.value,
        "derivative": loss.derivative,
        "conjugate": loss.conjugate,
        "prox": lambda u: loss.prox(u, 0.5),
    }
    for name, method in methods.items():
        given = trial.u.copy()
        many = method(given)
        if not np.array_equal(given, trial.u):
            trial.fail(name, "must not modify its argument")
        single = np.array([method(np.array(u)) for u in trial.u])
        same = np.isclose(many, single, rtol=1e-12, atol=0.0)
        trial.require(same, trial.u, name, "must act on each element separately")


def _check_copies(trial: _Trial) -> None:
    for copy in clone_and_pickle(trial.loss, repr(trial.loss)):
        if not np.array_equal(copy.value(trial.u), trial.values):
            trial.fail("value", "must be the same for a clone and a pickle")


_CHECKS = (
    _check_values,
    _check_slopes,
    _check_conjugate,
    _check_prox,
    _check_conjugate_prox,
    _check_curvature,
    _check_pieces,
    _check_elementwise,
    _check_copies,
)
