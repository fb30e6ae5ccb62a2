"""Kernels by name, by function or by values, and their validation."""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone

from ..oracles.arguments import closest_of, hint_of
from ..oracles.images.image_borders import warn_of_fill
from ..utils import plugins
from ..utils.matrices import Matrix
from ..utils.parameters import brief
from .base import Kernel
from .dot_products import Linear, Polynomial
from .kernel_values import check_declarations, is_real, precision, same_precision
from .radial import Gaussian, Laplacian


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


NAMES = ("laplacian", "linear", "poly", "precomputed", "rbf")
# Class for each name: a hint in errors where a Kernel is required.
_WRITTEN = {"rbf": "Gaussian", "gaussian": "Gaussian", "poly": "Polynomial", "polynomial": "Polynomial"}
_WRITTEN |= {"laplacian": "Laplacian", "linear": "Linear", "matern": "Matern"}


def validate_kernel(
    name: str, kernel: Any, n_features: int | None = None, allowed: str = "a Kernel"
) -> None:
    """Raise TypeError or ValueError unless `kernel` is a valid Kernel."""
    if isinstance(kernel, Kernel):
        kernel.validate(n_features)
        check_declarations(kernel, n_features)
        return
    hint = hint_of(kernel) or _as_object(kernel)
    if callable(kernel) and not hint:
        hint = "; write structinv.kernels.CallableKernel(...) around a function"
    given = f"an array of shape {kernel.shape}" if isinstance(kernel, np.ndarray) else repr(kernel)
    raise TypeError(f"{name} must be {allowed}, got {given}{hint}")


def _as_object(name: Any) -> str:
    """Return a hint with the class that a kernel's name may stand for."""
    close = get_close_matches(name.lower(), _WRITTEN, 1) if isinstance(name, str) else []
    return "".join(f"; write structinv.kernels.{_WRITTEN[each]}(...)" for each in close)


def as_kernel(kernel: Any, *, gamma: Any, degree: int, coef0: float, X: Matrix) -> Kernel:
    """Return a validated kernel for scikit-learn's parameters of kernels.

    Shapes: `X` (n, d).
    """
    made = _find_kernel(kernel, gamma, degree, coef0, X)
    validate_kernel("kernel", made, X.shape[1])
    warn_of_fill(made, X)
    return made


def _find_kernel(kernel: Any, gamma: Any, degree: int, coef0: float, X: Matrix) -> Kernel:
    if isinstance(kernel, type) and issubclass(kernel, Kernel):
        raise TypeError(
            f"kernel must be a Kernel, got the class {kernel.__name__}; pass an instance: "
            f"{kernel.__name__}(...)"
        )
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
    written = kernel.lower() if isinstance(kernel, str) else kernel
    hint = closest_of(written, NAMES) or _as_object(kernel)
    raise ValueError(
        f"kernel must be one of {list(NAMES)}, a Kernel or a callable, got {brief(kernel)}{hint}"
    )


def resolve_gamma(gamma: Any, X: Matrix) -> float:
    """Return the number that scikit-learn's `gamma` means for the training rows.

    "scale" is ``1 / (d var)``, with var the variance of all entries of `X`; it is 1 if var is 0. "auto"
    is ``1 / d``. A number is returned unchanged.

    Shapes: `X` (n, d).
    """
    if isinstance(gamma, str) and gamma == "scale":
        with np.errstate(over="ignore", invalid="ignore"):
            if sp.issparse(X):
                variance = float(X.multiply(X).mean() - X.mean() ** 2)
            else:
                variance = float(np.var(X, dtype=np.float64))
        if not np.isfinite(X.shape[1] * variance) or 0 < variance < np.finfo(float).tiny:
            raise ValueError(
                f"gamma='scale' requires a variance of X that is finite and not tiny, got {variance:g}: "
                "rescale the features"
            )
        return 1.0 / (X.shape[1] * variance) if variance != 0 else 1.0
    if isinstance(gamma, str) and gamma == "auto":
        return 1.0 / X.shape[1]
    if isinstance(gamma, str) or not is_real(gamma) or not 0 < gamma < np.inf:
        raise ValueError(f"gamma must be 'scale', 'auto' or a number above 0, got {brief(gamma)}")
    return float(gamma)
