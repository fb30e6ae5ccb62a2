"""Stacks of images as rows: their shape is taken off, remembered, and told to oracles."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from ..oracles.shapes import Part, with_shape


def flat_rows(X: Any) -> Any:
    """A stack of images, (n, h, w) or (n, h, w, c), as one row each; anything else as it is."""
    if isinstance(X, np.ndarray) and X.ndim > 2:
        return X.reshape(len(X), int(np.prod(X.shape[1:])))
    return X


def row_shape(X: Any) -> tuple[int, ...]:
    """The shape of what one row of an array holds: (d,), or that of an image."""
    return np.shape(X)[1:] if isinstance(X, np.ndarray) else ()


def learn_shape(estimator: Any, X: Any) -> None:
    """Remember the shape of images as `shape_in_`; rows that are flat leave nothing behind."""
    vars(estimator).pop("shape_in_", None)
    if len(row_shape(X)) > 1:
        estimator.shape_in_ = row_shape(X)


def check_shape(estimator: Any, X: Any) -> None:
    """Raise ValueError if `X` is a stack of images of another shape than those of `fit`."""
    known, given = getattr(estimator, "shape_in_", None), row_shape(X)
    if known is not None and len(given) > 1 and given != known:
        raise ValueError(
            f"X must hold images of shape {known}, as in fit, or rows of {int(np.prod(known))} "
            f"features, got shape {np.shape(X)}"
        )


def shaped(part: Part, estimator: Any, X: Any) -> Part:
    """An oracle, or a family of functionals, whose image oracles have the shape of the images.

    That is the shape of the images in `X`, or of those in `fit`; oracles with a shape of their own keep
    it. `part` itself is left alone.
    """
    shape = row_shape(X) if len(row_shape(X)) > 1 else getattr(estimator, "shape_in_", None)
    if shape is None or not isinstance(part, BaseEstimator):
        return part
    return with_shape(part, shape)
