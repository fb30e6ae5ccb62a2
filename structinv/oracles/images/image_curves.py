"""Polynomials of the parameter in the place of a family of image changes."""

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
# Taylor coefficients are differences of members that are so many pixels apart, at the furthest pixel.
_PIXELS = 1.0


class ImageCurve(BaseEstimator):
    r"""Polynomials in the value of an image change, as `Trajectory` takes them.

    The image at the value ``neutral + t`` is about :math:`x + \sum_k t^k x_k`.

    Parameters
    ----------
    oracle : ImageOracle
        With `interval`, and one axis or direction: `Rotations`, `Scalings`, ``Shears(axes=0)``.
    degree : int
        How many x_k there are, at least 1.
    ends : pair of float
        The lowest and the highest t.
    method : {"fit", "taylor"}
        "fit" are the least squares of members at Chebyshev nodes of the interval, through x at t = 0;
        "taylor" the differences of members near t = 0, of images that are smoothed by the `smoothing` of
        the oracle first, like its `tangents`. Interpolated images have kinks at no change, so that these
        members lie one pixel apart, not closer.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.oracles import Rotations
    >>> curve = ImageCurve(Rotations(interval=(-20, 20)), 2, (-20.0, 20.0), "fit")
    >>> curve(np.eye(9)[:3]).shape
    (3, 2, 9)
    """

    def __init__(
        self, oracle: ImageOracle, degree: int, ends: tuple[float, float], method: str = "fit"
    ) -> None:
        self.oracle = oracle
        self.degree = degree
        self.ends = ends
        self.method = method

    def validate(self) -> None:
        """Raise TypeError or ValueError if a parameter is out of its range."""
        check_one_family(self.oracle)
        check_integer("degree", self.degree)
        interval("ends", self.ends)
        if self.method not in METHODS:
            raise ValueError(f"method must be one of {METHODS}, got {self.method!r}")

    def __call__(self, X: np.ndarray) -> np.ndarray:
        """The x_k of each row, (n, degree, d)."""
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
        # In shares of the furthest value, so that powers are of one size; with no interval all is zero.
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
        """Values around 0 on both sides, as many as a polynomial of the degree needs at least."""
        apart = 1e-3
        values = self.oracle.neutral + apart * np.array([-0.5, 0.5])
        ends = sources_of(shape, self.oracle._warps(np.zeros(2, dtype=int), values))
        speed = float(np.max(np.linalg.norm(ends[0] - ends[1], axis=-1))) / apart
        sides = np.arange(1, (self.degree + 1) // 2 + 1)
        steps = _PIXELS / max(speed, 1e-12) * sides
        return np.r_[-steps, steps]


def check_one_family(oracle: Any) -> None:
    """Raise unless it is an image oracle with `interval` and one axis or direction."""
    if not isinstance(oracle, ImageOracle):
        raise TypeError(f"oracle must be an image oracle such as Rotations, got {oracle!r}")
    oracle.validate()
    if oracle.interval is None:
        raise ValueError(f"oracle must have an interval, got {oracle!r}")
    if len(oracle.families()) != 1:
        raise ValueError(
            f"oracle must change images along one axis or direction, got {len(oracle.families())} in "
            f"{oracle!r}"
        )
