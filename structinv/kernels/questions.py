"""What kernels are asked by who builds on them: looked at, and only what is about their own values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .. import answers
from .spectral import Spectrum

if TYPE_CHECKING:
    from .base import Kernel
    from .values import Norms

# Under which maps T of both inputs a kernel keeps its values, `Kernel.symmetry`: few, then more.
NOTHING = "nothing"
PERMUTATIONS = "permutations"
ISOMETRIES = "isometries"
SYMMETRIES = (NOTHING, PERMUTATIONS, ISOMETRIES)


def kernel_matrix(
    kernel: Kernel, X: np.ndarray, Y: np.ndarray, norms: Norms | None = None
) -> np.ndarray:
    """``kernel.matrix(X, Y, norms)``, looked at: who builds on a kernel's values asks here.

    Parameters
    ----------
    kernel : Kernel
    X : (n, d) array
    Y : (m, d) array
    norms : Norms, optional
        Squared norms of the rows, where they are known.

    Raises
    ------
    TypeError, ValueError
        If it is no finite array of shape (n, m).
    """
    source = answers.method(kernel, "matrix")
    found = answers.ask(kernel, source, kernel.matrix, X, Y, norms)
    return answers.numbers(source, "values", found, (len(X), len(Y)))


def kernel_diagonal(kernel: Kernel, X: np.ndarray) -> np.ndarray:
    """``kernel.diagonal(X)``, looked at.

    Parameters
    ----------
    kernel : Kernel
    X : (n, d) array

    Raises
    ------
    TypeError, ValueError
        If it is no finite array of shape (n,), or a value is below 0 by more than rounding.
    """
    source = answers.method(kernel, "diagonal")
    found = answers.ask(kernel, source, kernel.diagonal, X)
    found = answers.numbers(source, "values", found, (len(X),))
    if np.min(found, initial=0.0) < -1e-4 * np.max(found, initial=0.0):
        raise ValueError(f"{source} must return values of at least 0, got {found.min():g}")
    return np.maximum(found, 0.0)


def kernel_lipschitz(kernel: Kernel, n_features: int | None = None) -> float:
    """``kernel.lipschitz(n_features)``, looked at; infinity where `matrix` is of another class.

    Parameters
    ----------
    kernel : Kernel
    n_features : int, optional

    Raises
    ------
    TypeError, ValueError
        If it is no number of at least 0; infinity is one.
    """
    if not says(kernel, "lipschitz"):
        return np.inf
    source = answers.method(kernel, "lipschitz")
    asked: Any = kernel.lipschitz
    if not callable(asked):
        raise TypeError(f"{source} must be a method, told n_features, got {asked!r}")
    found = asked(n_features)
    return answers.number(source, "a constant", found, least=0.0, finite=False)


def kernel_symmetry(kernel: Kernel) -> str:
    """``kernel.symmetry``, looked at; "nothing" where `matrix` is of another class.

    Parameters
    ----------
    kernel : Kernel

    Raises
    ------
    ValueError
        If it is none of the known words.

    Examples
    --------
    >>> from structinv.kernels import Gaussian
    >>> class Stretched(Gaussian):
    ...     def matrix(self, X, Y, norms=None):
    ...         return super().matrix(X * [1.0, 3.0], Y * [1.0, 3.0])
    >>> kernel_symmetry(Gaussian()), kernel_symmetry(Stretched())
    ('isometries', 'nothing')
    """
    if not says(kernel, "symmetry"):
        return NOTHING
    found = kernel.symmetry
    if not isinstance(found, str) or found not in SYMMETRIES:
        source = answers.method(kernel, "symmetry")
        raise ValueError(f"{source} must be one of {list(SYMMETRIES)}, got {found!r}")
    return found


def kernel_smoothness(kernel: Kernel) -> float:
    """``kernel.smoothness``, looked at; 0 where `matrix` is of another class.

    Parameters
    ----------
    kernel : Kernel

    Raises
    ------
    TypeError, ValueError
        If it is no number of at least 0; infinity is one.
    """
    if not says(kernel, "smoothness"):
        return 0.0
    source = answers.method(kernel, "smoothness")
    return answers.number(source, "a number", kernel.smoothness, least=0.0, finite=False)


def kernel_arguments(kernel: Kernel) -> tuple[bool, bool]:
    """``kernel.uses_distances`` and ``kernel.uses_products``; False where `matrix` is of another class.

    Only where they are true is the kernel known to be a function of distances, and of products.

    Parameters
    ----------
    kernel : Kernel
    """
    names = ("uses_distances", "uses_products")
    distances, products = (says(kernel, name) and bool(getattr(kernel, name)) for name in names)
    return distances, products


def kernel_definite(kernel: Kernel) -> bool:
    """``kernel.definite``, looked at: whether it is positive semi-definite by construction.

    That is what whoever derives from `Kernel` promises, so that a class which defines `matrix` anew need
    not say it again.

    Parameters
    ----------
    kernel : Kernel

    Examples
    --------
    >>> from structinv.kernels import CallableKernel, Gaussian
    >>> own = CallableKernel(lambda X, Y: X @ Y.T)
    >>> kernel_definite(2.0 * Gaussian()), kernel_definite(Gaussian() + own)
    (True, False)
    """
    return kernel.definite is True


def kernel_thread_safe(kernel: Kernel) -> bool:
    """``kernel.thread_safe``, looked at; False where `matrix` is of another class.

    Parameters
    ----------
    kernel : Kernel

    Examples
    --------
    >>> from structinv.kernels import CallableKernel, Gaussian
    >>> own = CallableKernel(lambda X, Y: X @ Y.T)
    >>> kernel_thread_safe(2.0 * Gaussian()), kernel_thread_safe(Gaussian() + own)
    (True, False)
    """
    return says(kernel, "thread_safe") and kernel.thread_safe is True


def kernel_spectral_law(kernel: Kernel) -> Spectrum | None:
    """``kernel.spectral_law()``, looked at; None where `matrix` is of another class.

    Parameters
    ----------
    kernel : Kernel

    Raises
    ------
    TypeError
        If it is neither a Spectrum nor None.
    """
    if not says(kernel, "spectral_law"):
        return None
    found = kernel.spectral_law()
    if found is not None and not isinstance(found, Spectrum):
        source = answers.method(kernel, "spectral_law")
        raise TypeError(f"{source} must return a Spectrum or None, got {found!r}")
    return found


def says(kernel: Kernel, name: str, of: str = "matrix") -> bool:
    """Whether what has this name is about the values of `kernel`, or what else it is `of`.

    It is if the class that defines it also defines `matrix`, or inherits it: a class that overrides
    `matrix` alone has other values than its parent spoke of.
    """
    for kind in type(kernel).__mro__:
        if name in vars(kind):
            return True
        if of in vars(kind):
            break
    return False


def refuse_inherited_partials(kernel: Kernel, name: str) -> None:
    """Raise NotImplementedError if derivatives, by the method of this name, are of another `matrix`."""
    if not says(kernel, name):
        raise NotImplementedError(
            f"{describe(kernel)} has no derivatives: it defines matrix, and no partials of its own"
        )


def describe(kernel: Kernel) -> str:
    """The kernel with all its parameters; its repr leaves out defaults."""
    parameters = kernel.get_params(deep=False).items()
    return f"{type(kernel).__name__}({', '.join(f'{name}={value!r}' for name, value in parameters)})"
