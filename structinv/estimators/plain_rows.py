"""Rows that need no conversion, told quickly: a prediction of one row is mostly the check of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from .. import answers


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
    learnt = vars(estimator)
    # Subclasses, as masked arrays and matrices, have their own ways.
    kinds = (np.ndarray, sp.csr_matrix, sp.csr_array) if sparse else (np.ndarray,)
    if type(X) not in kinds or "feature_names_in_" in learnt:
        return False
    if X.dtype != np.float64 and X.dtype != np.float32:
        return False
    if X.ndim != 2 or X.shape[0] == 0 or X.shape[1] != learnt.get("n_features_in_"):
        return False
    return not finite or answers.all_finite(X if type(X) is np.ndarray else X.data)
