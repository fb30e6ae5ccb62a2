"""Rows as estimators take them: stacks of images, names of columns, and the form that oracles ask."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator
from sklearn.utils.validation import _get_feature_names

from ..oracles import InvarianceOracle
from ..oracles.columns import with_numbers
from ..oracles.shapes import Part, with_shape
from ..utils import plugins
from ..utils.matrices import Matrix, with_data


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


def for_oracle(X: Matrix, oracle: InvarianceOracle, whole: str = "X as a dense array") -> Matrix:
    """Checked rows in the form that an oracle takes; see `check_suits`."""
    X = canonical(X)
    check_suits(oracle, sp.issparse(X), X.shape[1], whole)
    return X


def check_suits(oracle: InvarianceOracle, sparse: bool, n_features: int, whole: str) -> None:
    """Check that an oracle takes rows of a kind; `whole` says what to pass instead of sparse rows.

    Raises
    ------
    TypeError
        For sparse rows that the oracle does not take.
    ValueError
        For an oracle of rows with other features.
    """
    if sparse and not oracle.supports_sparse:
        raise TypeError(f"{type(oracle).__name__} does not take sparse rows; pass {whole}")
    oracle.validate(n_features)


def canonical(X: Matrix) -> Matrix:
    """CSR with sorted indices and no duplicates; a copy if it is not so, as `X` is the user's."""
    if not sp.issparse(X):
        return X
    probe = with_data(X, X.data)
    if probe.has_canonical_format:
        return probe
    probe = probe.copy()
    probe.sum_duplicates()
    return probe


def are_plain(estimator: Any, X: Any, sparse: bool, finite: bool) -> bool:
    """Whether scikit-learn's `validate_data` would give `X` back as it is, without a word.

    Says so only of float arrays, or CSR matrices, of at least one row with as many features as in a fit
    on rows without names. Whatever else there is goes the long way, where errors have their words.

    Parameters
    ----------
    estimator : object
    X : object
        What a user gave for rows.
    sparse : bool
        Whether CSR rows are taken.
    finite : bool
        Whether all numbers must be finite.
    """
    learned = vars(estimator)
    # Subclasses, as masked arrays and matrices, have their own ways.
    kinds = (np.ndarray, sp.csr_matrix, sp.csr_array) if sparse else (np.ndarray,)
    if type(X) not in kinds or "feature_names_in_" in learned:
        return False
    if X.dtype != np.float64 and X.dtype != np.float32:
        return False
    if X.ndim != 2 or X.shape[0] == 0 or X.shape[1] != learned.get("n_features_in_"):
        return False
    return not finite or plugins.all_finite(X if type(X) is np.ndarray else X.data)
