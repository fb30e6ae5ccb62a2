"""Kernels of normal distributions around rows: overlaps in closed form."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..regions.inner_products import Stack, pair_products
from ..utils.jit import njit
from .directed_rows import MOST_IN_SINGLE, DirectedKernel, DirectedRows
from .kernel_utils import DOUBLE, precision

# Column of the logarithm of the kernel of a row with itself.
OWN = 3
# Distance from 0, in length scales, from which rounding of rows to float32 changes the kernel more than
# rounding of its values.
FAR = 16.0


class NormalOverlapKernel(DirectedKernel):
    r"""Kernel of the overlap of normal distributions around both rows.

    With covariances L and L' and :math:`C = w + L + L'` it is

    .. math:: |C|^{-1/2} e^{-r\, D' C^{-1} D} f_x f_z

    with a factor f for each row. A subclass computes the distributions and defines w, r and the
    logarithm of an upper bound of the values.
    """

    definite = True

    @abstractmethod
    def _constants(self) -> tuple[float, float, float]:
        """Return ``(w, r, logarithm of the largest value)``."""

    @abstractmethod
    def _advice(self) -> str:
        """Return what to do if the kernel of a row with itself overflows or underflows."""

    def diagonal(self, X):
        """Compute ``k(x, x)`` for every row in closed form.

        Parameters
        ----------
        X : ndarray of shape (n_samples, n_features)
            Input.

        Returns
        -------
        ndarray of shape (n_samples,)
            The values ``k(x_i, x_i)``.
        """
        self._check(X, X)
        X = X.astype(precision(X), copy=False)
        if not len(X):
            return np.zeros(0, dtype=X.dtype)
        return np.exp(self._directed(X).numbers[:, OWN]).astype(X.dtype)

    def _checked(self, rows: DirectedRows, dtype: np.dtype) -> DirectedRows:
        own = super()._checked(rows, dtype).numbers[:, OWN]
        least, most = np.log(np.finfo(dtype).tiny), np.log(np.finfo(dtype).max)
        outside = (own < least) | (own > most)
        if np.any(outside):
            raise ValueError(
                f"K(x, x) = exp({own[outside][0]:.4g}) in {rows.stack.vectors.shape[2]} features is "
                f"outside the range of {dtype}: {self._advice()}"
            )
        return rows

    def _sharpness(self, left: DirectedRows, right: DirectedRows) -> float:
        width, rate, _ = self._constants()
        return rate / (width + float(np.min(left.numbers[:, 0]) + np.min(right.numbers[:, 0])))

    def _fill(self, left: DirectedRows, right: DirectedRows, out: np.ndarray) -> None:
        products = pair_products(left.stack, right.stack)
        d = left.stack.vectors.shape[2]
        numbers = left.numbers, right.numbers
        _overlaps(products, left.stack.grams, right.stack.grams, *numbers, d, *self._constants(), out)


def normal_distributions(
    centers: np.ndarray,
    axes: np.ndarray,
    squares: np.ndarray,
    numbers: Sequence[np.ndarray],
    width: float = 0.0,
) -> DirectedRows:
    """Return normal distributions with covariances ``v 1 + sum_k b_k b_k'``.

    Shapes: `centers` (n, d), `axes` (n, r, d), `squares` (n, r), `numbers` (n,).
    """
    least = width + 2.0 * float(np.min(numbers[0]))
    if float(np.max(squares, initial=0.0)) > MOST_IN_SINGLE * least:
        centers = centers.astype(DOUBLE, copy=False)
    return DirectedRows(Stack.of(centers, axes), np.column_stack(numbers))


def in_units(X: np.ndarray, sigma: float) -> np.ndarray:
    """Return ``X / sigma`` in the precision of X; infinite if it overflows.

    The precision is float64 for rows so far from 0 that float32 would round off their differences.
    """
    with np.errstate(over="ignore"):
        units = X / np.float64(sigma)
        far = float(np.max(np.abs(units), initial=0.0)) > FAR
        return units if far and np.all(np.isfinite(units.astype(X.dtype))) else units.astype(X.dtype)


@njit(cache=True, nogil=True)
def _overlaps(
    products: Any,
    own_left: Any,
    own_right: Any,
    left: Any,
    right: Any,
    d: int,
    width: float,
    rate: float,
    most: float,
    out: Any,
) -> None:
    r, s = own_left.shape[1] - 1, own_right.shape[1] - 1
    cross, factor = np.empty((r, s)), np.empty((s, s))
    inverse, along, across = np.empty(r), np.empty(r), np.empty(s)
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            v = width + left[i, 0] + right[j, 0]
            square = max(own_left[i, 0, 0] + own_right[j, 0, 0] - 2.0 * products[i, 0, j, 0], 0.0)
            for a in range(r):
                inverse[a] = 1.0 / (v + own_left[i, a + 1, a + 1])
                along[a] = own_left[i, a + 1, 0] - products[i, a + 1, j, 0]
                for b in range(s):
                    cross[a, b] = products[i, a + 1, j, b + 1]
            for b in range(s):
                across[b] = products[i, 0, j, b + 1] - own_right[j, b + 1, 0]
            rest, grown = _rest(square, v, inverse, along, across, cross, own_right[j], factor)
            level = d * (left[i, 1] + right[j, 1] - 0.5 * np.log(v)) + left[i, 2] + right[j, 2]
            out[i, j] = np.exp(min(level - 0.5 * grown - rate * rest / v, most))


@njit(cache=True, nogil=True)
def _rest(
    square: float,
    v: float,
    inverse: Any,
    left_products: Any,
    right_products: Any,
    cross: Any,
    right_gram: Any,
    factor: Any,
) -> Any:
    """Return ``v D' C^-1 D`` and ``log |C / v|`` after elimination of the left axes."""
    r, s = cross.shape
    log_volume, volume, quadratic = 0.0, 1.0, square
    for a in range(r):
        volume *= 1.0 / (v * inverse[a])
        quadratic -= left_products[a] * left_products[a] * inverse[a]
        if volume > 1e100:
            log_volume, volume = log_volume + np.log(volume), 1.0
    for b in range(s):
        part = right_products[b]
        for a in range(r):
            part -= cross[a, b] * left_products[a] * inverse[a]
        for c in range(b + 1):
            entry = v + right_gram[b + 1, b + 1] if c == b else 0.0
            for a in range(r):
                entry -= cross[a, b] * cross[a, c] * inverse[a]
            for k in range(c):
                entry -= factor[b, k] * factor[c, k]
            if c < b:
                factor[b, c] = entry * factor[c, c]
                part -= factor[b, c] * right_products[c]
            else:
                # The matrix is at least v, so only rounding makes a pivot smaller.
                entry = max(entry, v)
                factor[b, b] = 1.0 / np.sqrt(entry)
                volume *= entry / v
        right_products[b] = part * factor[b, b]
        quadratic -= right_products[b] * right_products[b]
        if volume > 1e100:
            log_volume, volume = log_volume + np.log(volume), 1.0
    return max(quadratic, 0.0), log_volume + np.log(volume)
