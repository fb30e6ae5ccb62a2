"""Validation of rows and random states of transformers, before any work."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import validate_data

from ..utils.matrices import Matrix, check_indices, refuse_half_or_masked


def checked_rows(transformer: BaseEstimator, X: Any, *, reset: bool, **rules: Any) -> Matrix:
    """Return `X` validated by scikit-learn's `validate_data`, with its `rules`."""
    refuse_half_or_masked("X", X)
    check_indices("X", X)
    shape = getattr(X, "shape", ())
    if isinstance(X, (list, tuple)) and X and getattr(X[0], "ndim", 0) > 1:
        shape = (len(X), *X[0].shape)
    if len(shape) > 2:
        raise ValueError(
            f"X must have shape (n_samples, n_features), got {tuple(shape)}: pass "
            "np.reshape(X, (len(X), -1)), and "
            f"shape={tuple(shape[1:])} for images that are not square"
        )
    return validate_data(transformer, X, reset=reset, **rules)


def checked_random(random_state: Any) -> np.random.RandomState:
    """Return a RandomState."""
    allowed = "random_state must be an integer from 0 to 2**32 - 1, a numpy.random.RandomState or None"
    whole = isinstance(random_state, Integral) and not isinstance(random_state, bool)
    if whole and not 0 <= int(random_state) < 2**32:
        raise ValueError(f"{allowed}, got {random_state!r}")
    known = random_state is None or random_state is np.random
    if not (whole or known or isinstance(random_state, np.random.RandomState)):
        raise TypeError(f"{allowed}, got {random_state!r}")
    return check_random_state(random_state)
