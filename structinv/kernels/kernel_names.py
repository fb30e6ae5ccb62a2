"""Kernels for scikit-learn's names and parameters; validation of kernels."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone

from ..oracles.arguments import closest_of, hint_of
from ..oracles.images.image_borders import warn_of_fill
from ..utils.matrices import Matrix
from ..utils.parameters import brief
from .base import Kernel
from .checked_kernel import check_declarations
from .custom_kernels import CallableKernel, PrecomputedKernel
from .dot_products import Linear, Polynomial
from .kernel_utils import is_real
from .radial import Gaussian, Laplacian

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
