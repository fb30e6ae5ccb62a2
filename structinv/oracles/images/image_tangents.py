"""Step size and smoothing for the tangents of image transformations."""

from __future__ import annotations

import numpy as np
from scipy import ndimage

from .image_maps import ImageShape, fill_code, sources_of

_SMOOTHING_MODES = {"zero": "constant", "nearest": "nearest", "reflect": "reflect", "wrap": "wrap"}


def step_of(shape: ImageShape, warps: np.ndarray, distance: float) -> float:
    """Return a difference of values that moves no pixel by more than 1e-6 pixels.

    Shapes: `warps` (2, 6).
    """
    ends = sources_of(shape, warps)
    speed = np.max(np.abs(ends[0] - ends[1])) / distance
    return 1e-6 / max(float(speed), 1e-2)


def smoothed(rows: np.ndarray, shape: ImageShape, deviation: float, fill: str | float) -> np.ndarray:
    """Apply a Gaussian filter with a standard deviation in pixels, in float64."""
    # Differences over a small step require the precision of float64.
    images = rows.astype(np.float64)
    if deviation == 0:
        return images
    images = images.reshape(len(rows), shape.height, shape.width, shape.channels)
    mode = _SMOOTHING_MODES[fill] if isinstance(fill, str) else "constant"
    _, background = fill_code(fill)
    images = ndimage.gaussian_filter(
        images, (0.0, deviation, deviation, 0.0), mode=mode, cval=background
    )
    return images.reshape(rows.shape)
