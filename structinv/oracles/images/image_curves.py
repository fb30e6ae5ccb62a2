"""Approximation of image transformations by polynomials of their parameter."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from ...utils.parameters import check_integer
from .image_base import ImageOracle
from .image_maps import image_shape, sources_of
from .image_parameters import interval
from .image_tangents import smoothed

METHODS = ("fit", "taylor")
# Step of the differences for Taylor coefficients, as the movement of the fastest pixel in pixels.
_PIXELS = 1.0


class ImageCurve(BaseEstimator):
    r"""Polynomial approximation of transformed images, for `Trajectory`.

    The image at the value ``neutral + t`` is approximated by :math:`x + \sum_k t^k x_k`.
    """

    def __init__(
        self, oracle: ImageOracle, degree: int, ends: tuple[float, float], method: str = "fit"
    ) -> None:
        self.oracle = oracle
        self.degree = degree
        self.ends = ends
        self.method = method

    def validate(self) -> None:
        """Raise TypeError or ValueError if a parameter is invalid."""
        check_one_family(self.oracle)
        check_integer("degree", self.degree)
        interval("ends", self.ends)
        if self.method not in METHODS:
            raise ValueError(f"method must be one of {METHODS}, got {self.method!r}")

    def __call__(self, X: np.ndarray) -> np.ndarray:
        """Return the coefficients x_k of each image, (n_samples, degree, n_features)."""
        self.validate()
        X = np.asarray(X)
        shape = image_shape(self.oracle.shape, X.shape[1])
        assert shape is not None
        if self.method == "fit":
            t, images = self._nodes(), X.astype(np.float64)
        else:
            t = self._near(shape)
            images = smoothed(X, shape, self.oracle.smoothing, self.oracle.fill)
        moved = self.oracle.members_at(images, self.oracle.neutral + t) - images[:, None, :]
        # Values are rescaled to [-1, 1], so that powers have similar sizes.
        reach = max(float(np.max(np.abs(t))), np.finfo(np.float64).tiny)
        orders = np.arange(1, self.degree + 1)
        table = np.linalg.pinv((t / reach)[:, None] ** orders) / reach ** orders[:, None]
        return table @ moved

    def _nodes(self) -> np.ndarray:
        low, high = self.ends
        size = max(16, 4 * self.degree)
        nodes = np.cos(np.pi * (np.arange(size) + 0.5) / size)
        return (low + high) / 2 + (high - low) / 2 * nodes

    def _near(self, shape: Any) -> np.ndarray:
        """Return the fewest values, on both sides of 0, that determine the polynomial."""
        step = 1e-3
        values = self.oracle.neutral + step * np.array([-0.5, 0.5])
        ends = sources_of(shape, self.oracle._warps(np.zeros(2, dtype=int), values))
        speed = float(np.max(np.linalg.norm(ends[0] - ends[1], axis=-1))) / step
        sides = np.arange(1, (self.degree + 1) // 2 + 1)
        steps = _PIXELS / max(speed, 1e-12) * sides
        return np.r_[-steps, steps]


def check_one_family(oracle: Any) -> None:
    """Raise unless `oracle` has an interval and a single axis or direction."""
    if not isinstance(oracle, ImageOracle):
        raise TypeError(f"oracle must be an image oracle such as Rotations, got {oracle!r}")
    oracle.validate()
    if oracle.interval is None:
        raise ValueError(f"oracle must have an interval, got {oracle!r}")
    if len(oracle.families()) != 1:
        raise ValueError(
            f"oracle must have a single axis or direction, got {len(oracle.families())} in {oracle!r}"
        )
