"""Image oracles in parameters: their shapes, and a warning about borders."""

from __future__ import annotations

import warnings
from typing import Any, TypeVar

import numpy as np
from sklearn.base import BaseEstimator, clone

from ...utils.matrices import Matrix, dense
from .image_base import ImageOracle
from .image_maps import ImageShape, fill_code, image_shape

# Number of images to check.
_IMAGES = 256
# A value is typical for a border if more pixels than this fraction have it.
_MOST = 0.5
# Values are equal if they differ by less than this fraction of the range of all values.
_EQUAL = 0.01
Part = TypeVar("Part", bound=BaseEstimator)


def warn_of_fill(part: Any, X: Matrix) -> None:
    """Warn if the fill of transformations differs from the border of images.

    Images with varied borders have no warning. The same holds for a fill with values of the image, and
    for transformations that never fill, such as flips.

    Shapes: `X` (n_samples, n_features).
    """
    names: dict[str, list[str]] = {}
    for oracle in image_oracles(part):
        advice = _advice(oracle, X) if X.shape[0] else ""
        if advice:
            names.setdefault(advice, []).append(type(oracle).__name__)
    for advice, classes in names.items():
        warnings.warn(f"{' and '.join(dict.fromkeys(classes))}: {advice}", UserWarning, stacklevel=2)


def image_oracles(part: Any) -> list[ImageOracle]:
    """Return all image oracles in an object made of oracles."""
    found = [part, *part.get_params(deep=True).values()] if isinstance(part, BaseEstimator) else []
    return [each for each in found if isinstance(each, ImageOracle)]


def _advice(oracle: ImageOracle, X: Matrix) -> str:
    """Return the end of the warning, or an empty string if the fill fits."""
    oracle.validate(X.shape[1])
    shape = image_shape(oracle.shape, X.shape[1])
    if isinstance(oracle.fill, str) and oracle.fill != "zero" or shape is None:
        return ""
    fill = fill_code(oracle.fill)[1]
    images = np.asarray(dense(X[:: -(-X.shape[0] // _IMAGES)]))
    border = images[:, _is_border(shape)]
    typical = np.median(border, axis=1, keepdims=True)
    if not border.size or np.mean(border == typical) <= _MOST:
        return ""
    near = _EQUAL * np.ptp(images)
    if np.mean(np.abs(typical - fill) > near) <= _MOST or not _fills(oracle, fill, X.shape[1]):
        return ""
    value = float(np.median(typical))
    if np.mean(np.abs(border - value) <= near) > _MOST:
        found, advice = f"most border pixels of these images are {value:.6g}", f"fill={value!r}"
    else:
        found, advice = "the border of each image has another value", "fill='nearest'"
    return (
        f"pixels beyond the border are filled with {fill:g}, but {found}. Transformed images then have "
        f"edges that the original images lack. Choose {advice}"
    )


def _is_border(shape: ImageShape) -> np.ndarray:
    """Return the mask of the features at the border, (n_features,)."""
    mask = np.zeros((shape.height, shape.width, shape.channels), dtype=bool)
    if shape.height > 1:
        mask[[0, -1]] = True
    if shape.width > 1:
        mask[:, [0, -1]] = True
    return mask.ravel()


def _fills(oracle: ImageOracle, fill: float, n_features: int) -> bool:
    """Return True if some transformation uses the fill: it changes a constant image."""
    image = np.full((1, n_features), fill + 1.0)
    return not np.allclose(oracle._changes(image, None).members(), image, rtol=0.0, atol=1e-6)


def with_shape(part: Part, shape: ImageShape | tuple[int, ...]) -> Part:
    """Set the shape of all image oracles that have none."""
    if all(oracle.shape is not None for oracle in image_oracles(part)):
        return part
    part = clone(part)
    for oracle in image_oracles(part):
        if oracle.shape is None:
            oracle.shape = shape
    return part
