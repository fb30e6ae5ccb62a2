"""Kernels whose values the user gives: by a function, or in a table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..utils import plugins
from .base import Kernel
from .values import precision, same_precision


class CallableKernel(Kernel):
    """A kernel that a function of yours computes.

    Whether it is positive semi-definite is not known: machines look at the eigenvalues of training rows.

    Parameters
    ----------
    function : callable
        ``function(X, Y)`` gives the (n, m) array of ``k(x_i, y_j)``. The diagonal is taken from
        small blocks of it.

    Examples
    --------
    >>> import numpy as np
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
        """See `Kernel.matrix`; ValueError where the function's answer is none."""
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
    """Kernel values read from a table: inputs are row numbers, as one float feature.

    Parameters
    ----------
    gram : (n_rows, n_columns) array
        ``k(x, y)`` of row number x on the left and of row number y on the right. Kept as it is.
    numbers : (n_rows,) array of int, optional
        The numbers that the rows and columns of `gram` have, ascending; by default from 0 on.

    Examples
    --------
    >>> import numpy as np
    >>> table = PrecomputedKernel(np.array([[2.0, 1.0], [1.0, 3.0]]))
    >>> table.matrix(np.array([[1.0]]), np.array([[0.0], [1.0]]))
    array([[1., 3.]])
    """

    definite = False

    def __init__(self, gram: np.ndarray, numbers: np.ndarray | None = None) -> None:
        self.gram = gram
        self.numbers = numbers

    def validate(self, n_features: int | None = None) -> None:
        if np.ndim(self.gram) != 2:
            raise ValueError(f"gram must have two dimensions, got shape {np.shape(self.gram)}")

    def matrix(self, X, Y, norms=None):
        """See `Kernel.matrix`; in the precision of `gram`."""
        values = self.gram[np.ix_(self._places(X), self._places(Y))]
        return plugins.table("PrecomputedKernel.matrix", "values", values, ("n", "m"))

    def diagonal(self, X):
        rows = self._places(X)
        return self.gram[rows, rows]

    def _places(self, X: np.ndarray) -> np.ndarray:
        """Where in the table the rows are that inputs name."""
        rows = X[:, 0].astype(np.intp)
        return rows if self.numbers is None else np.searchsorted(self.numbers, rows)
