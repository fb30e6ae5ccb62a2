"""Passing the shape of images to image oracles without shape."""

from __future__ import annotations

from typing import Any, TypeVar

from sklearn.base import BaseEstimator, clone

from .images.image_base import ImageOracle
from .images.image_borders import image_oracles
from .images.image_maps import ImageShape

Part = TypeVar("Part", bound=BaseEstimator)


def with_shape(part: Part, shape: ImageShape | tuple[int, ...]) -> Part:
    """Set the shape of all image oracles that have none."""
    if not _shapeless(part):
        return part
    part = clone(part)
    for oracle in _shapeless(part):
        oracle.shape = shape
    return part


def _shapeless(part: Any) -> list[ImageOracle]:
    """Return all image oracles without shape."""
    return [each for each in image_oracles(part) if each.shape is None]
