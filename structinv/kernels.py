"""Positive definite kernels of dense inputs, as blocks of Gram matrices."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from numbers import Integral, Real
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp
from numba import njit
from sklearn.base import BaseEstimator, clone

from .matrices import Matrix, in_threads

# Values worked on at once: two tiles of float64 stay in a core's cache.
TILE = 2**15
# Rows of Y that the Laplacian kernel turns into columns at a time.
COLUMNS = 64
# Below this share of |x|^2 + |y|^2 a squared distance is computed again, without cancellation.
CLOSE = 0.01


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


class Linear(Kernel):
    """``k(x, y) = <x, y>``.

    Examples
    --------
    >>> import numpy as np
    >>> Linear().matrix(np.array([[1.0, 2.0]]), np.array([[3.0, 4.0], [0.0, 1.0]]))
    array([[11.,  2.]])
    """

    def matrix(self, X, Y, norms=None):
        """See `Kernel.matrix`."""
        X, Y = _same_precision(X, Y)
        return X @ Y.T

    def diagonal(self, X):
        """See `Kernel.diagonal`."""
        return squared_norms(X).astype(precision(X), copy=False)

    @property
    def lipschitz(self) -> float:
        """1: phi is the identity."""
        return 1.0


class Polynomial(Kernel):
    """``k(x, y) = (gamma <x, y> + coef0)^degree``.

    Parameters
    ----------
    degree : int, default=3
        At least 1.
    coef0 : float, default=1.0
        At least 0, as the kernel need not be positive definite otherwise.
    gamma : float, default=1.0
        Above 0.

    Examples
    --------
    >>> import numpy as np
    >>> Polynomial(degree=2).matrix(np.array([[1.0, 2.0]]), np.array([[3.0, 4.0], [0.0, 1.0]]))
    array([[144.,   9.]])
    """

    def __init__(self, degree: int = 3, coef0: float = 1.0, gamma: float = 1.0) -> None:
        self.degree = degree
        self.coef0 = coef0
        self.gamma = gamma

    def validate(self, n_features: int | None = None) -> None:
        """See `Kernel.validate`."""
        if not isinstance(self.degree, Integral) or isinstance(self.degree, bool):
            raise TypeError(f"degree must be an integer of at least 1, got {self.degree!r}")
        if self.degree < 1:
            raise ValueError(f"degree must be an integer of at least 1, got {self.degree!r}")
        _check_real("coef0", self.coef0, strict=False)
        _check_real("gamma", self.gamma)

    def matrix(self, X, Y, norms=None):
        """See `Kernel.matrix`."""
        X, Y = _same_precision(X, Y)
        products = X @ Y.T
        gamma, coef0 = products.dtype.type(self.gamma), products.dtype.type(self.coef0)
        return _in_tiles(products, lambda tile, rows: _power(tile, gamma, coef0, self.degree))

    def diagonal(self, X):
        """See `Kernel.diagonal`."""
        powers = (self.gamma * squared_norms(X) + self.coef0) ** self.degree
        return powers.astype(precision(X), copy=False)

    @property
    def lipschitz(self) -> float:
        """Infinity but for degree 1."""
        return float(np.sqrt(self.gamma)) if self.degree == 1 else np.inf


class _Stationary(Kernel):
    """A kernel of ``x - y`` alone, with ``k(x, x) = 1``."""

    def diagonal(self, X):
        """See `Kernel.diagonal`."""
        return np.ones(X.shape[0], dtype=precision(X))


class Gaussian(_Stationary):
    """``k(x, y) = exp(-|x - y|^2 / (2 sigma^2))``; scikit-learn's gamma is ``1 / (2 sigma^2)``.

    Squared distances come from inner products, in the precision of the inputs, and are clipped at
    0. Rounding moves k, and ``k(x, x)`` too, by a few ``eps |x| |y| / sigma^2``: for inputs of norm
    10 by at most some 1e-4 in float32 and 2e-13 in float64 at sigma 1, and by 4e-6 in float32 at
    sigma 5.

    Parameters
    ----------
    sigma : float, default=1.0
        Width, in the unit of the inputs; above 0.

    Examples
    --------
    >>> import numpy as np
    >>> Gaussian(sigma=2.0).matrix(np.zeros((1, 2)), np.array([[0.0, 0.0], [0.0, 2.0]])).round(4)
    array([[1.    , 0.6065]])
    """

    def __init__(self, sigma: float = 1.0) -> None:
        self.sigma = sigma

    def validate(self, n_features: int | None = None) -> None:
        """See `Kernel.validate`."""
        _check_real("sigma", self.sigma)

    def matrix(self, X, Y, norms=None):
        """See `Kernel.matrix`."""
        X, Y = _same_precision(X, Y)
        x, y = norms or (half_norms(X), half_norms(Y))
        factor = X.dtype.type(1.0 / float(self.sigma) ** 2)

        def transform(tile, rows):
            _negative_distances(tile, x[rows], y, factor)
            np.exp(tile, out=tile)

        return _in_tiles(X @ Y.T, transform)

    @property
    def lipschitz(self) -> float:
        """1 / sigma."""
        return 1.0 / self.sigma


class Laplacian(_Stationary):
    """``k(x, y) = exp(-gamma |x - y|_1)``.

    Parameters
    ----------
    gamma : float, default=1.0
        Above 0.

    Examples
    --------
    >>> import numpy as np
    >>> Laplacian(0.5).matrix(np.zeros((1, 2)), np.array([[1.0, 0.0], [1.0, -1.0]])).round(4)
    array([[0.6065, 0.3679]])
    """

    def __init__(self, gamma: float = 1.0) -> None:
        self.gamma = gamma

    def validate(self, n_features: int | None = None) -> None:
        """See `Kernel.validate`."""
        _check_real("gamma", self.gamma)

    def matrix(self, X, Y, norms=None):
        """See `Kernel.matrix`."""
        X, Y = _same_precision(X, Y)
        gamma = X.dtype.type(self.gamma)

        def transform(tile, rows):
            _absolute_distances(X[rows], Y, tile, gamma)
            np.exp(tile, out=tile)

        values = np.empty((X.shape[0], Y.shape[0]), dtype=X.dtype)
        return _in_tiles(values, transform, cost=X.shape[1], least_rows=256)


class Matern(_Stationary):
    """Matern's family: functions of the distance r, the smoother the larger `nu`.

    With ``a = sqrt(2 nu) r / length_scale`` the kernel is ``exp(-a)``, ``(1 + a) exp(-a)``,
    ``(1 + a + a^2 / 3) exp(-a)`` for nu = 1/2, 3/2, 5/2, and a Gaussian of width `length_scale` for
    nu = infinity (Rasmussen and Williams 2006, section 4.2.1).

    Parameters
    ----------
    length_scale : float, default=1.0
        In the unit of the inputs; above 0.
    nu : {0.5, 1.5, 2.5, inf}, default=1.5

    Examples
    --------
    >>> import numpy as np
    >>> Matern(nu=1.5).matrix(np.zeros((1, 2)), np.array([[0.0, 0.0], [0.0, 1.0]])).round(4)
    array([[1.    , 0.4834]])
    """

    def __init__(self, length_scale: float = 1.0, nu: float = 1.5) -> None:
        self.length_scale = length_scale
        self.nu = nu

    def validate(self, n_features: int | None = None) -> None:
        """See `Kernel.validate`."""
        _check_real("length_scale", self.length_scale)
        if self.nu not in (0.5, 1.5, 2.5, np.inf):
            raise ValueError(f"nu must be 0.5, 1.5, 2.5 or inf, got {self.nu!r}")

    def matrix(self, X, Y, norms=None):
        """See `Kernel.matrix`."""
        if self.nu == np.inf:
            return Gaussian(self.length_scale).matrix(X, Y, norms)
        X, Y = _same_precision(X, Y)
        x, y = norms or (half_norms(X), half_norms(Y))
        factor = X.dtype.type(4.0 * self.nu / float(self.length_scale) ** 2)

        def transform(tile, rows):
            _negative_distances(tile, x[rows], y, factor)
            if self.nu == 0.5:
                # Alone it is not smooth at 0: the root of a rounding error would be a large one.
                _correct_close(tile, X[rows], Y, x[rows], y, factor)
            a = np.sqrt(np.negative(tile, out=tile), out=tile)
            decay = np.exp(-a)
            if self.nu == 0.5:
                a[:] = decay
            else:
                a *= decay if self.nu == 1.5 else decay * (1.0 + a / 3.0)
                a += decay

        return _in_tiles(X @ Y.T, transform)

    @property
    def lipschitz(self) -> float:
        """``sqrt(-k''(0))``, which is ``sqrt(nu / (nu - 1)) / length_scale`` above nu = 1.

        By Bochner's theorem k is a mean of cosines, so ``2 - 2 k(r) <= -k''(0) r^2``.
        """
        if self.nu == np.inf:
            return 1.0 / self.length_scale
        return float(np.sqrt(self.nu / (self.nu - 1.0))) / self.length_scale if self.nu > 1 else np.inf


class CallableKernel(Kernel):
    """A kernel that a function of yours computes; whether it is positive definite is not checked.

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

    def __init__(self, function: Callable[[np.ndarray, np.ndarray], Any]) -> None:
        self.function = function

    def validate(self, n_features: int | None = None) -> None:
        """See `Kernel.validate`."""
        if not callable(self.function):
            raise TypeError(f"function must be callable as function(X, Y), got {self.function!r}")

    def matrix(self, X, Y, norms=None):
        """See `Kernel.matrix`; ValueError where the function's answer is none."""
        X, Y = _same_precision(X, Y)
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
        """See `Kernel.diagonal`."""
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

    Examples
    --------
    >>> import numpy as np
    >>> table = PrecomputedKernel(np.array([[2.0, 1.0], [1.0, 3.0]]))
    >>> table.matrix(np.array([[1.0]]), np.array([[0.0], [1.0]]))
    array([[1., 3.]])
    """

    def __init__(self, gram: np.ndarray) -> None:
        self.gram = gram

    def validate(self, n_features: int | None = None) -> None:
        """See `Kernel.validate`."""
        if np.ndim(self.gram) != 2:
            raise ValueError(f"gram must have two dimensions, got shape {np.shape(self.gram)}")

    def matrix(self, X, Y, norms=None):
        """See `Kernel.matrix`; in the precision of `gram`."""
        return self.gram[np.ix_(_row_numbers(X), _row_numbers(Y))]

    def diagonal(self, X):
        """See `Kernel.diagonal`."""
        rows = _row_numbers(X)
        return self.gram[rows, rows]


def as_kernel(kernel: Any, *, gamma: Any, degree: int, coef0: float, X: Matrix) -> Kernel:
    """The kernel that scikit-learn's spelling names, its parameters checked.

    Parameters
    ----------
    kernel : {"rbf", "poly", "linear", "laplacian", "precomputed"}, Kernel or callable
        A `Kernel` is cloned and has parameters of its own; a callable becomes a `CallableKernel`.
        "precomputed" is the table `X` itself, by row numbers (`PrecomputedKernel`).
    gamma : {"scale", "auto"} or float
        For "rbf", "poly" and "laplacian": `resolve_gamma`.
    degree, coef0 : int, float
        For "poly".
    X : (n, d) array or CSR matrix
        The training rows.

    Returns
    -------
    Kernel

    Raises
    ------
    ValueError, TypeError
        Naming the argument, for unknown names and parameters out of range.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[0.0, 4.0], [2.0, 2.0]])
    >>> as_kernel("rbf", gamma="scale", degree=3, coef0=0.0, X=X)
    Gaussian(sigma=1.4142135623730951)
    """
    found = _find_kernel(kernel, gamma, degree, coef0, X)
    found.validate(X.shape[1])
    return found


def _find_kernel(kernel: Any, gamma: Any, degree: int, coef0: float, X: Matrix) -> Kernel:
    if isinstance(kernel, Kernel):
        return clone(kernel)
    if isinstance(kernel, str):
        if kernel == "rbf":
            return Gaussian(sigma=float(np.sqrt(0.5 / resolve_gamma(gamma, X))))
        if kernel == "poly":
            return Polynomial(degree, coef0, resolve_gamma(gamma, X))
        if kernel == "laplacian":
            return Laplacian(resolve_gamma(gamma, X))
        if kernel == "linear":
            return Linear()
        if kernel == "precomputed":
            return PrecomputedKernel(X)
    elif callable(kernel):
        return CallableKernel(kernel)
    raise ValueError(
        "kernel must be one of ['laplacian', 'linear', 'poly', 'precomputed', 'rbf'], a Kernel or "
        f"a callable, got {kernel!r}"
    )


def resolve_gamma(gamma: Any, X: Matrix) -> float:
    """The number that scikit-learn's `gamma` stands for on the training rows.

    "scale" is ``1 / (d var)`` with var the variance of all entries of `X`, or 1 if that is 0;
    "auto" is ``1 / d``; a number above 0 is itself.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[0.0, 4.0], [2.0, 2.0]])
    >>> resolve_gamma("scale", X), resolve_gamma("auto", X), resolve_gamma(3, X)
    (0.25, 0.5, 3.0)
    """
    if isinstance(gamma, str) and gamma == "scale":
        if sp.issparse(X):
            variance = float(X.multiply(X).mean() - X.mean() ** 2)
        else:
            variance = float(np.var(X, dtype=np.float64))
        return 1.0 / (X.shape[1] * variance) if variance != 0 else 1.0
    if isinstance(gamma, str) and gamma == "auto":
        return 1.0 / X.shape[1]
    if isinstance(gamma, str) or not _is_real(gamma) or not 0 < gamma < np.inf:
        raise ValueError(f"gamma must be 'scale', 'auto' or a number above 0, got {gamma!r}")
    return float(gamma)


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


def _same_precision(X: np.ndarray, Y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Both arrays in their common precision, uncopied if they are."""
    dtype = precision(X, Y)
    return X.astype(dtype, copy=False), Y.astype(dtype, copy=False)


def _row_numbers(X: np.ndarray) -> np.ndarray:
    return X[:, 0].astype(np.intp)


def _is_real(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _check_real(name: str, value: Any, *, strict: bool = True) -> None:
    """Raise TypeError or ValueError unless `value` is finite and above 0, or 0 if not `strict`."""
    allowed = "a number above 0" if strict else "a number of at least 0"
    if not _is_real(value):
        raise TypeError(f"{name} must be {allowed}, got {value!r}")
    if not (0 < value < np.inf or (value == 0 and not strict)):
        raise ValueError(f"{name} must be {allowed}, got {value!r}")


def _in_tiles(
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


# Constants that meet arrays below have the arrays' type: a plain 0 or 2 would make float32 float64.
@njit(cache=True, nogil=True)
def _negative_distances(products, x, y, factor):
    """``-factor |x_i - y_j|^2 / 2``, at most 0, in place of products; x, y are half squared norms."""
    zero = products.dtype.type(0)
    for i in range(products.shape[0]):
        for j in range(products.shape[1]):
            # The norms first: so it is symmetric in x and y to the last bit.
            value = factor * (products[i, j] - (x[i] + y[j]))
            products[i, j] = zero if value > zero else value


@njit(cache=True, nogil=True)
def _correct_close(negative, X, Y, x, y, factor):
    """Compute distances again from the differences where the products have cancelled."""
    threshold = negative.dtype.type(-CLOSE) * factor
    for i in range(negative.shape[0]):
        for j in range(negative.shape[1]):
            if negative[i, j] > threshold * (x[i] + y[j]):
                total = 0.0
                for k in range(X.shape[1]):
                    total += (X[i, k] - Y[j, k]) ** 2
                negative[i, j] = -0.5 * factor * total


@njit(cache=True, nogil=True)
def _power(products, gamma, coef0, degree):
    """``(gamma p + coef0)^degree`` in place, by squaring; whole runs at a time, for the vector unit."""
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


@njit(cache=True, nogil=True)
def _absolute_distances(X, Y, out, factor):
    """``-factor |x_i - y_j|_1`` into `out`; columns of Y side by side, for the vector unit."""
    n_features = X.shape[1]
    turned = np.empty((n_features, COLUMNS), dtype=X.dtype)
    sums = np.empty(COLUMNS, dtype=X.dtype)
    for first in range(0, Y.shape[0], COLUMNS):
        n = min(COLUMNS, Y.shape[0] - first)
        for j in range(n):
            for k in range(n_features):
                turned[k, j] = Y[first + j, k]
        for i in range(X.shape[0]):
            sums[:] = 0
            for k in range(n_features):
                x = X[i, k]
                for j in range(COLUMNS):
                    sums[j] += abs(x - turned[k, j])
            for j in range(n):
                out[i, first + j] = -factor * sums[j]


REGISTRY: dict[str, type[Kernel]] = {
    "gaussian": Gaussian,
    "polynomial": Polynomial,
    "linear": Linear,
    "laplacian": Laplacian,
    "matern": Matern,
}
