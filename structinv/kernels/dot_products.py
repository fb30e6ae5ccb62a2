"""Kernels of the inner product: linear and polynomial."""

from __future__ import annotations

from math import perm

import numpy as np

from ..utils.jit import njit
from ..utils.parameters import check_integer, check_number
from .base import Kernel
from .kernel_values import (
    ISOMETRIES,
    holds,
    in_double,
    in_tiles,
    precision,
    same_precision,
    squared_norms,
)


class Linear(Kernel):
    """Linear kernel ``k(x, y) = <x, y>``.

    See Also
    --------
    Polynomial : Powers of the inner product.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.kernels import Linear
    >>> Linear().matrix(np.array([[1.0, 2.0]]), np.array([[3.0, 4.0], [0.0, 1.0]]))
    array([[11.,  2.]])
    """

    smoothness = np.inf
    symmetry = ISOMETRIES
    thread_safe = True
    uses_products = True

    def matrix(self, X, Y, norms=None):
        X, Y = same_precision(X, Y)
        with np.errstate(over="ignore", invalid="ignore"):
            return X @ Y.T

    def diagonal(self, X):
        dtype = precision(X)
        with np.errstate(over="ignore"):
            return squared_norms(X).astype(dtype, copy=False)

    def lipschitz(self, n_features: int | None = None) -> float:
        return 1.0

    def partials(self, distances, products, order):
        partials = {(0, 0): products.copy()}
        if order >= 1:
            partials[0, 1] = np.ones_like(products)
        return partials

    def _blurred(self, variance, n_features):
        return self


class Polynomial(Kernel):
    """Polynomial kernel ``k(x, y) = (gamma <x, y> + coef0)^degree``.

    Parameters
    ----------
    degree : int, default=3
        Degree of the polynomial (>= 1).
    coef0 : float, default=1.0
        Constant term (>= 0). With a negative one the kernel may be indefinite.
    gamma : float, default=1.0
        Factor of the inner product (> 0).

    See Also
    --------
    Linear : The inner product itself.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.kernels import Polynomial
    >>> Polynomial(degree=2).matrix(np.array([[1.0, 2.0]]), np.array([[3.0, 4.0], [0.0, 1.0]]))
    array([[144.,   9.]])
    """

    smoothness = np.inf
    symmetry = ISOMETRIES
    thread_safe = True
    uses_products = True

    def __init__(self, degree: int = 3, coef0: float = 1.0, gamma: float = 1.0) -> None:
        self.degree = degree
        self.coef0 = coef0
        self.gamma = gamma

    def validate(self, n_features: int | None = None) -> None:
        check_integer("degree", self.degree)
        check_number("coef0", self.coef0)
        check_number("gamma", self.gamma, strict=True)

    def matrix(self, X, Y, norms=None):
        X, Y = same_precision(X, Y)
        if not holds(X.dtype, self.gamma, self.coef0):
            return in_double(self, X, Y)
        with np.errstate(over="ignore", invalid="ignore"):
            products = X @ Y.T
        gamma, coef0 = products.dtype.type(self.gamma), products.dtype.type(self.coef0)
        return in_tiles(products, lambda tile, rows: _power(tile, gamma, coef0, self.degree))

    def diagonal(self, X):
        dtype = precision(X)
        with np.errstate(over="ignore", invalid="ignore"):
            powers = (self.gamma * squared_norms(X) + self.coef0) ** self.degree
            return powers.astype(dtype, copy=False)

    def lipschitz(self, n_features: int | None = None) -> float:
        return float(np.sqrt(self.gamma)) if self.degree == 1 else np.inf

    def partials(self, distances, products, order):
        degree, gamma, one = int(self.degree), float(self.gamma), products.dtype.type(1)
        base = np.multiply(products, gamma, out=np.empty(products.shape, products.dtype))
        base += products.dtype.type(self.coef0)
        # All powers follow from the lowest one by multiplication.
        last = min(order, degree)
        power = base.copy()
        _power(power.reshape(1, -1), one, products.dtype.type(0), degree - last)
        partials = {}
        for j in range(last, -1, -1):
            partials[0, j] = power * (perm(degree, j) * gamma**j)
            if j > 0:
                power *= base
        return partials

    def _blurred(self, variance, n_features):
        return self if self.degree == 1 else None


@njit(cache=True, nogil=True)
def _power(products, gamma, coef0, degree):
    """Compute ``(gamma p + coef0)^degree`` in place, by squaring, in vectorized runs."""
    squares = np.empty(1024, dtype=products.dtype)
    one = products.dtype.type(1)
    for i in range(products.shape[0]):
        for first in range(0, products.shape[1], 1024):
            run = products[i, first : first + 1024]
            n = run.shape[0]
            for j in range(n):
                squares[j] = gamma * run[j] + coef0
                run[j] = squares[j] if degree % 2 else one
            left = degree // 2
            while left > 0:
                for j in range(n):
                    squares[j] *= squares[j]
                if left % 2:
                    for j in range(n):
                        run[j] *= squares[j]
                left //= 2
