"""Validation of kernel values and of the declarations of third-party kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..utils import plugins
from .kernel_utils import floats

if TYPE_CHECKING:
    from .base import Kernel, Partials
    from .kernel_utils import Norms

# Values of `Kernel.symmetry`, from the smallest to the largest set of linear maps.
NOTHING = "nothing"
PERMUTATIONS = "permutations"
ISOMETRIES = "isometries"
SYMMETRIES = (NOTHING, PERMUTATIONS, ISOMETRIES)
# Boolean attributes that a kernel declares.
_FLAGS = ("definite", "thread_safe", "uses_distances", "uses_products", "adds_features")


def kernel_matrix(
    kernel: Kernel, X: np.ndarray, Y: np.ndarray, norms: Norms | None = None
) -> np.ndarray:
    """Return ``kernel.matrix(X, Y, norms)`` and check that it is finite.

    Shapes: `X` (n, d), `Y` (m, d).
    """
    values = kernel.matrix(X, Y, norms)
    return _finite(kernel, "matrix", values, (len(X), len(Y)))


def kernel_table(kernel: Kernel, X: np.ndarray, Y: np.ndarray, norms: Norms) -> np.ndarray:
    """Return the values of `kernel_matrix` without a check for overflow.

    The caller checks the results that it computes from the values.
    """
    values = kernel.matrix(X, Y, norms)
    if plugins.is_third_party(kernel):
        return plugins.table(plugins.method(kernel, "matrix"), "values", values, (len(X), len(Y)))
    return values


def kernel_diagonal(kernel: Kernel, X: np.ndarray) -> np.ndarray:
    """Return ``kernel.diagonal(X)`` and check that it is finite and at least 0.

    Shapes: `X` (n, d).
    """
    values = _finite(kernel, "diagonal", kernel.diagonal(X), (len(X),))
    if np.min(values, initial=0.0) < -1e-4 * np.max(values, initial=0.0):
        source = plugins.method(kernel, "diagonal")
        raise ValueError(f"{source} must return values of at least 0, got {values.min():g}")
    return np.maximum(values, 0.0)


def kernel_partials(
    kernel: Kernel, distances: np.ndarray | None, products: np.ndarray | None, order: int
) -> Partials:
    """Return validated results of `Kernel.partials` for validated arguments."""
    kernel._check_arguments(distances, products, order)
    distances, products = floats(distances), floats(products)
    entries: Any = kernel.partials(distances, products, order)
    source = plugins.method(kernel, "partials")
    if not isinstance(entries, dict):
        raise TypeError(f"{source} must return a dict of arrays, got {type(entries).__name__}")
    used: Any = distances if kernel.uses_distances else products
    return {
        key: plugins.numbers(source, f"entry {key}", values, used.shape)
        for key, values in entries.items()
    }


def _finite(kernel: Kernel, name: str, values: Any, shape: tuple[int, ...]) -> np.ndarray:
    if not plugins.is_third_party(kernel) and plugins.all_finite(values):
        return values
    return plugins.numbers(plugins.method(kernel, name), "values", values, shape)


def check_declarations(kernel: Kernel, n_features: int | None = None) -> None:
    """Raise TypeError or ValueError for invalid declarations of a third-party kernel."""
    if not plugins.is_third_party(kernel):
        return
    declared: Any = kernel
    for name in _FLAGS:
        if not isinstance(getattr(declared, name), (bool, np.bool_)):
            source = plugins.method(kernel, name)
            raise TypeError(f"{source} must be True or False, got {getattr(declared, name)!r}")
    symmetry, source = declared.symmetry, plugins.method(kernel, "symmetry")
    if not isinstance(symmetry, str) or symmetry not in SYMMETRIES:
        raise ValueError(f"{source} must be one of {list(SYMMETRIES)}, got {symmetry!r}")
    source = plugins.method(kernel, "smoothness")
    plugins.number(source, "a number", declared.smoothness, least=0.0, finite=False)
    source = plugins.method(kernel, "lipschitz")
    if not callable(declared.lipschitz):
        raise TypeError(
            f"{source} must be a method with the argument n_features, got {declared.lipschitz!r}"
        )
    plugins.number(source, "a constant", declared.lipschitz(n_features), least=0.0, finite=False)
