"""Conversion of given samples: stacks of images, column names and sparse formats."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator

from ..oracles import InvarianceOracle
from ..oracles.columns import check_strings, with_numbers
from ..oracles.image_shapes import Part, with_shape
from ..oracles.images.image_borders import warn_of_fill
from ..utils import plugins
from ..utils.labels import columns_of
from ..utils.matrices import Matrix, check_indices, refuse_masked, with_data


def flat_rows(X: Any) -> Any:
    """Return images (n, h, w) or (n, h, w, c) as one row each, others unchanged."""
    refuse_masked("X", X)
    check_indices("X", X)
    listed = isinstance(X, (list, tuple)) or getattr(X, "ndim", 0) == 1
    if listed and isinstance(next(iter(X), None), str):
        raise ValueError(
            f"X must contain numbers, got {len(X)} texts: pass them to InvariantTextClassifier, or "
            "convert them with a vectorizer such as scikit-learn's CountVectorizer"
        )
    if isinstance(X, np.ndarray) and X.ndim > 2:
        return X.reshape(len(X), int(np.prod(X.shape[1:])))
    return X


def row_shape(X: Any) -> tuple[int, ...]:
    """Return the shape of one item of an array: (n_features,), or that of an image."""
    return np.shape(X)[1:] if isinstance(X, np.ndarray) else ()


def learn_shape(estimator: Any, X: Any) -> None:
    """Store the shape of images as `shape_in_`, and remove earlier column names."""
    columns = columns_of(X)
    if columns is not None:
        for part in (estimator, *getattr(estimator, "invariances", ())):
            if isinstance(part, BaseEstimator):
                check_strings(part, columns)
    for name in ("shape_in_", "feature_names_in_"):
        vars(estimator).pop(name, None)
    if len(row_shape(X)) > 1:
        estimator.shape_in_ = row_shape(X)


def check_shape(estimator: Any, X: Any) -> None:
    """Raise ValueError if the shape of images differs from that in `fit`."""
    known, given = getattr(estimator, "shape_in_", None), row_shape(X)
    if known is not None and len(given) > 1 and given != known:
        raise ValueError(
            f"X must contain images of shape {known}, as in fit, or rows of {int(np.prod(known))} "
            f"features, got shape {np.shape(X)}"
        )


def shaped(part: Part, estimator: Any, X: Any) -> Part:
    """Return an oracle or a family of functionals for the rows of an estimator.

    Image oracles without a shape get that of the images in `X` or in `fit`. Column names become feature
    numbers if `X` is a data frame, or was one in `fit`. `part` remains unchanged.
    """
    if not isinstance(part, BaseEstimator):
        return part
    columns = columns_of(X)
    part = with_numbers(
        part, getattr(estimator, "feature_names_in_", None) if columns is None else columns
    )
    shape = row_shape(X) if len(row_shape(X)) > 1 else getattr(estimator, "shape_in_", None)
    return part if shape is None else with_shape(part, shape)


def for_oracle(X: Matrix, oracle: InvarianceOracle, whole: str = "X as a dense array") -> Matrix:
    """Return checked rows in a form that an oracle supports, see `check_suits`."""
    X = canonical(X)
    check_suits(oracle, sp.issparse(X), X.shape[1], whole)
    warn_of_fill(oracle, X)
    return X


def check_suits(oracle: InvarianceOracle, sparse: bool, n_features: int, whole: str) -> None:
    """Check that an oracle supports rows of this kind.

    `whole` describes the alternative to sparse rows, for the message.
    """
    if sparse and not oracle.supports_sparse:
        name = name_of_part(oracle, lambda part: not part.supports_sparse)
        raise TypeError(f"{name} does not support sparse rows: pass {whole}")
    oracle.validate(n_features)


def name_of_part(oracle: InvarianceOracle, fails: Callable[[InvarianceOracle], bool]) -> str:
    """Return the name of the innermost part of an oracle that fails a test."""
    inner = oracle
    while (failed := next(filter(fails, inner._parts().values()), None)) is not None:
        inner = failed
    name, whole = type(inner).__name__, type(oracle).__name__
    return name if inner is oracle else f"{name}, a part of {whole},"


def canonical(X: Matrix) -> Matrix:
    """Return CSR with sorted indices and no duplicates, as a copy if necessary."""
    if not sp.issparse(X):
        return X
    probe = with_data(X, X.data)
    if probe.has_canonical_format:
        return probe
    probe = probe.copy()
    probe.sum_duplicates()
    return probe


def are_plain(estimator: Any, X: Any, sparse: bool, finite: bool) -> bool:
    """Return True if scikit-learn's `validate_data` would return `X` unchanged.

    This is a fast test for float arrays and CSR matrices with the number of features in `fit`, without
    names. scikit-learn validates all other input.
    """
    learned = vars(estimator)
    # Subclasses, such as masked arrays, need the checks of scikit-learn.
    kinds = (np.ndarray, sp.csr_matrix, sp.csr_array) if sparse else (np.ndarray,)
    if type(X) not in kinds or "feature_names_in_" in learned:
        return False
    if X.dtype != np.float64 and X.dtype != np.float32:
        return False
    if X.ndim != 2 or X.shape[0] == 0 or X.shape[1] != learned.get("n_features_in_"):
        return False
    check_indices("X", X)
    return not finite or plugins.all_finite(X if type(X) is np.ndarray else X.data)
