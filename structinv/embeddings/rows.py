"""Rows as transformers take them: checked, before any work."""

from __future__ import annotations

from typing import Any

from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data

from ..matrices import Matrix, refuse_half


def checked_rows(transformer: BaseEstimator, X: Any, *, reset: bool, **rules: Any) -> Matrix:
    """`X` by scikit-learn's `validate_data`, with its `rules`.

    Raises
    ------
    TypeError
        For float16, and what else scikit-learn refuses.
    ValueError
        For stacks of images, with the rows that they should be, and what else scikit-learn refuses.
    """
    refuse_half("X", X)
    shape = getattr(X, "shape", ())
    if len(shape) > 2:
        raise ValueError(
            f"X must have shape (n, d), a row an input, got {tuple(shape)}: pass X.reshape(len(X), -1), "
            f"and shape={tuple(shape[1:])} for images that are not square"
        )
    return validate_data(transformer, X, reset=reset, **rules)
