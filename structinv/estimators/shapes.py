"""What oracles take from the rows of an estimator: the shape of images, and the names of columns."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import _get_feature_names

from ..oracles.columns import with_numbers
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
    """Remember the shape of images as `shape_in_`, and forget the columns of an earlier fit."""
    for name in ("shape_in_", "feature_names_in_"):
        vars(estimator).pop(name, None)
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
    """An oracle, or a family of functionals, for the rows of an estimator.

    Image oracles have the shape of the images in `X`, or of those in `fit`; oracles with a shape of
    their own keep it. Names of columns become numbers of features if `X` is a data frame, or was one in
    `fit`. `part` itself is left alone.
    """
    if not isinstance(part, BaseEstimator):
        return part
    columns = _get_feature_names(X)
    part = with_numbers(
        part, getattr(estimator, "feature_names_in_", None) if columns is None else columns
    )
    shape = row_shape(X) if len(row_shape(X)) > 1 else getattr(estimator, "shape_in_", None)
    return part if shape is None else with_shape(part, shape)
