"""What every kernel is, and what kernels share: precision, norms, tiles, checks of parameters."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from numbers import Real
from typing import Any, TypeAlias

import numpy as np
from numba import njit
from sklearn.base import BaseEstimator

from ..matrices import in_threads

# Values worked on at once: two tiles of float64 stay in a core's cache.
TILE = 2**15

Norms: TypeAlias = tuple[np.ndarray, np.ndarray]


class Kernel(BaseEstimator, ABC):
    """A positive semi-definite function ``k(x, y) = <phi(x), phi(y)>``, parameters only.

    Constructors store their parameters, so that kernels clone, pickle and can be searched over;
    `validate` checks them. Inputs are dense. Answers have the common precision of both inputs:
    float32 if both are, else float64.
    """

    def validate(self, n_features: int | None = None) -> None:
        """Raise ValueError or TypeError if a parameter is out of its range."""

    @abstractmethod
    def matrix(self, X: np.ndarray, Y: np.ndarray, norms: Norms | None = None) -> np.ndarray:
        """The kernel of every row of `X` and every row of `Y`.

        Parameters
        ----------
        X : (n, d) array
        Y : (m, d) array
        norms : pair of arrays, optional
            `half_norms` of both, from a caller that asks about the same rows again and again.

        Returns
        -------
        (n, m) array
            ``k(x_i, y_j)``, an array of the caller's own.
        """

    @abstractmethod
    def diagonal(self, X: np.ndarray) -> np.ndarray:
        """``k(x_i, x_i)`` for every row of `X`, (n,)."""

    @property
    def lipschitz(self) -> float:
        """The least known L with ``|phi(x) - phi(y)| <= L |x - y|``; infinity where there is none."""
        return np.inf


def precision(*arrays: np.ndarray) -> np.dtype:
    """float32 if all arrays are, else float64."""
    single = all(array.dtype == np.float32 for array in arrays)
    return np.dtype(np.float32 if single else np.float64)


def squared_norms(X: np.ndarray) -> np.ndarray:
    """``|x_i|^2`` of every row, summed in float64."""
    return _squared_norms(np.ascontiguousarray(X))


def half_norms(X: np.ndarray) -> np.ndarray:
    """Half the squared norm of every row, in the precision of `X`: what distances need."""
    return (0.5 * squared_norms(X)).astype(precision(X), copy=False)


def same_precision(X: np.ndarray, Y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Both arrays in their common precision, uncopied if they are."""
    dtype = precision(X, Y)
    return X.astype(dtype, copy=False), Y.astype(dtype, copy=False)


def is_real(value: Any) -> bool:
    """Whether it is a real number, and no bool."""
    return isinstance(value, Real) and not isinstance(value, bool)


def check_real(name: str, value: Any, *, strict: bool = True) -> None:
    """Raise TypeError or ValueError unless `value` is finite and above 0, or 0 if not `strict`."""
    allowed = "a number above 0" if strict else "a number of at least 0"
    if not is_real(value):
        raise TypeError(f"{name} must be {allowed}, got {value!r}")
    if not (0 < value < np.inf or (value == 0 and not strict)):
        raise ValueError(f"{name} must be {allowed}, got {value!r}")


def in_tiles(
    values: np.ndarray,
    transform: Callable[[np.ndarray, slice], Any],
    *,
    cost: int = 1,
    least_rows: int = 1,
) -> np.ndarray:
    """`values` with every tile of rows changed in place while the cache holds it.

    ``transform(tile, rows)`` is told which rows the tile has; `cost` is its work on a value,
    relative to an exponential. It may ask for more rows than the cache holds.
    """
    n_rows, n_columns = values.shape
    step = max(least_rows, TILE // max(1, n_columns))

    def work(part: slice) -> None:
        for first in range(part.start, part.stop, step):
            rows = slice(first, min(first + step, part.stop))
            transform(values[rows], rows)

    # A thread costs as much as some hundred thousand exponentials.
    in_threads(work, n_rows, values.size * cost // 4)
    return values


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def _squared_norms(X):
    norms = np.zeros(X.shape[0])
    for i in range(X.shape[0]):
        total = 0.0
        for j in range(X.shape[1]):
            total += np.float64(X[i, j]) * X[i, j]
        norms[i] = total
    return norms
