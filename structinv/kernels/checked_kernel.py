"""Values of kernels, and what third-party classes declare about them, validated."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..utils import plugins

if TYPE_CHECKING:
    from .base import Kernel
    from .values import Norms

# Linear maps of both inputs that keep the values of a kernel, `Kernel.symmetry`: few, then more.
NOTHING = "nothing"
PERMUTATIONS = "permutations"
ISOMETRIES = "isometries"
SYMMETRIES = (NOTHING, PERMUTATIONS, ISOMETRIES)
# Declarations that are true or false.
_FLAGS = ("definite", "thread_safe", "uses_distances", "uses_products", "adds_features")


def kernel_matrix(
    kernel: Kernel, X: np.ndarray, Y: np.ndarray, norms: Norms | None = None
) -> np.ndarray:
    """``kernel.matrix(X, Y, norms)``, which must be finite.

    Parameters
    ----------
    kernel : Kernel
    X : (n, d) array
    Y : (m, d) array
    norms : Norms, optional
        `half_norms` of the rows, where they are known.

    Raises
    ------
    TypeError, ValueError
        If a value is not finite, or a third-party kernel returns no array of shape (n, m).
    """
    found = kernel.matrix(X, Y, norms)
    return _finite(kernel, "matrix", found, (len(X), len(Y)))


def kernel_table(kernel: Kernel, X: np.ndarray, Y: np.ndarray, norms: Norms) -> np.ndarray:
    """`kernel_matrix` that may overflow, for callers that check what they make of it."""
    found = kernel.matrix(X, Y, norms)
    if plugins.is_third_party(kernel):
        return plugins.table(plugins.method(kernel, "matrix"), "values", found, (len(X), len(Y)))
    return found


def kernel_diagonal(kernel: Kernel, X: np.ndarray) -> np.ndarray:
    """``kernel.diagonal(X)``, which must be finite and at least 0.

    Parameters
    ----------
    kernel : Kernel
    X : (n, d) array

    Raises
    ------
    TypeError, ValueError
        If a value is not finite, or below 0 by more than rounding, or a third-party kernel returns no
        array of shape (n,).
    """
    found = _finite(kernel, "diagonal", kernel.diagonal(X), (len(X),))
    if np.min(found, initial=0.0) < -1e-4 * np.max(found, initial=0.0):
        source = plugins.method(kernel, "diagonal")
        raise ValueError(f"{source} must return values of at least 0, got {found.min():g}")
    return np.maximum(found, 0.0)


def _finite(kernel: Kernel, name: str, found: Any, shape: tuple[int, ...]) -> np.ndarray:
    if not plugins.is_third_party(kernel) and plugins.all_finite(found):
        return found
    return plugins.numbers(plugins.method(kernel, name), "values", found, shape)


def check_declarations(kernel: Kernel, n_features: int | None = None) -> None:
    """Raise TypeError or ValueError if a third-party kernel declares something of the wrong kind.

    Parameters
    ----------
    kernel : Kernel
    n_features : int, optional
        Number of features for which `Kernel.lipschitz` is asked.

    Examples
    --------
    >>> from structinv.kernels import Gaussian
    >>> check_declarations(Gaussian())
    """
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
