"""Kernels given by a function or by a precomputed kernel matrix."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..utils import plugins
from .base import Kernel
from .kernel_utils import precision, same_precision


class CallableKernel(Kernel):
    """Kernel given by a function that computes kernel matrices.

    It may be indefinite, so estimators compute the eigenvalues of the kernel matrix of training rows.

    Parameters
    ----------
    function : callable
        Function ``function(X, Y)`` that returns the (n, m) array of ``k(x_i, y_j)``. The method
        `diagonal` calls the function with small blocks of rows.

    See Also
    --------
    Kernel : Base class of kernels with derivatives.
    psd_corrected : Spectrum correction of an indefinite kernel.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.kernels import CallableKernel
    >>> overlap = CallableKernel(lambda X, Y: np.minimum(X[:, None], Y[None]).sum(axis=2))
    >>> overlap.matrix(np.array([[1.0, 2.0]]), np.array([[3.0, 1.0]]))
    array([[2.]])
    """

    _BLOCK = 32
    definite = False

    def __init__(self, function: Callable[[np.ndarray, np.ndarray], Any]) -> None:
        self.function = function

    def validate(self, n_features: int | None = None) -> None:
        if not callable(self.function):
            raise TypeError(f"function must be callable as function(X, Y), got {self.function!r}")

    def matrix(self, X, Y, norms=None):
        X, Y = same_precision(X, Y)
        values = np.array(self.function(X, Y), dtype=X.dtype)
        expected = (X.shape[0], Y.shape[0])
        if values.shape != expected:
            raise ValueError(
                f"kernel {self.function!r} must return an array of shape {expected}, got {values.shape}"
            )
        if not np.all(np.isfinite(values)):
            raise ValueError(f"kernel {self.function!r} must return finite numbers, got NaN or infinity")
        return values

    def diagonal(self, X):
        values = np.empty(X.shape[0], dtype=precision(X))
        for first in range(0, X.shape[0], self._BLOCK):
            part = X[first : first + self._BLOCK]
            values[first : first + self._BLOCK] = np.diagonal(self.matrix(part, part))
        return values


class PrecomputedKernel(Kernel):
    """Kernel values from a precomputed matrix; inputs are row numbers in one column.

    Shapes: `gram` (n_rows, n_columns), `numbers` (n_rows,).
    """

    definite = False

    def __init__(self, gram: np.ndarray, numbers: np.ndarray | None = None) -> None:
        self.gram = gram
        self.numbers = numbers

    def validate(self, n_features: int | None = None) -> None:
        if np.ndim(self.gram) != 2:
            raise ValueError(f"gram must have two dimensions, got shape {np.shape(self.gram)}")

    def matrix(self, X, Y, norms=None):
        values = self.gram[np.ix_(self._positions(X), self._positions(Y))]
        return plugins.table("PrecomputedKernel.matrix", "values", values, ("n", "m"))

    def diagonal(self, X):
        rows = self._positions(X)
        return self.gram[rows, rows]

    def _positions(self, X: np.ndarray) -> np.ndarray:
        """Return the positions in `gram` of the row numbers in X."""
        rows = X[:, 0].astype(np.intp)
        return rows if self.numbers is None else np.searchsorted(self.numbers, rows)
