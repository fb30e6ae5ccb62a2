"""Kernels made of kernels: sums, products, multiples."""

from __future__ import annotations

from abc import abstractmethod
from math import comb
from typing import Any, ClassVar

import numpy as np

from .base import Kernel, Partials
from .names import check_kernel
from .questions import (
    SYMMETRIES,
    kernel_arguments,
    kernel_definite,
    kernel_diagonal,
    kernel_lipschitz,
    kernel_matrix,
    kernel_smoothness,
    kernel_symmetry,
    kernel_thread_safe,
    refuse_inherited_partials,
    says,
)
from .values import check_real


class _Pair(Kernel):
    """A kernel made of two."""

    # Of values of both: a new array, as kernels of others may keep what they return.
    _operation: ClassVar[np.ufunc]

    def __init__(self, left: Kernel, right: Kernel) -> None:
        self.left = left
        self.right = right

    def validate(self, n_features: int | None = None) -> None:
        _check_kernel("left", self.left, n_features)
        _check_kernel("right", self.right, n_features)

    def matrix(self, X, Y, norms=None):
        left = kernel_matrix(self.left, X, Y, norms)
        return self._operation(left, kernel_matrix(self.right, X, Y, norms))

    def diagonal(self, X):
        return self._operation(kernel_diagonal(self.left, X), kernel_diagonal(self.right, X))

    @property
    def smoothness(self) -> float:
        """The less of both."""
        return min(kernel_smoothness(self.left), kernel_smoothness(self.right))

    @property
    def symmetry(self) -> str:
        """What keeps the values of both."""
        both = kernel_symmetry(self.left), kernel_symmetry(self.right)
        return min(both, key=SYMMETRIES.index)

    @property
    def definite(self) -> bool:
        """Whether both are."""
        return kernel_definite(self.left) and kernel_definite(self.right)

    @property
    def least_eigenvalue(self) -> float | None:  # type: ignore[override]
        """That of the part that was mended, the less of both."""
        known = [each.least_eigenvalue for each in (self.left, self.right)]
        return min((each for each in known if each is not None), default=None)

    def prepared(self, X: np.ndarray) -> Kernel:
        """See `Kernel.prepared`: both are."""
        left, right = self.left.prepared(X), self.right.prepared(X)
        unchanged = left is self.left and right is self.right
        return self if unchanged else type(self)(left, right)

    @property
    def thread_safe(self) -> bool:
        """Whether both are."""
        return kernel_thread_safe(self.left) and kernel_thread_safe(self.right)

    @property
    def uses_distances(self) -> bool:
        """Whether one of both does, if both are functions of distances or products at all."""
        return self._arguments()[0]

    @property
    def uses_products(self) -> bool:
        """Whether one of both does, if both are functions of distances or products at all."""
        return self._arguments()[1]

    def _arguments(self) -> tuple[bool, bool]:
        left, right = kernel_arguments(self.left), kernel_arguments(self.right)
        # Nobody knows what a kernel that reads neither is a function of.
        known = any(left) and any(right)
        return known and (left[0] or right[0]), known and (left[1] or right[1])

    def partials(self, distances, products, order):
        """See `Kernel.partials`; errors name the one of both that has too few."""
        refuse_inherited_partials(self, "partials")
        return self._join(
            self.left.partials(distances, products, order),
            self.right.partials(distances, products, order),
            order,
        )

    @abstractmethod
    def _join(self, left: Partials, right: Partials, order: int) -> Partials:
        """The pair's partials from those of both, which it leaves as they are."""


class Sum(_Pair):
    """``k(x, y) = left(x, y) + right(x, y)``, as ``left + right`` makes it.

    Parameters
    ----------
    left, right : Kernel

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.kernels import Gaussian, Linear
    >>> kernel = Gaussian(2.0) + Linear()
    >>> kernel.matrix(np.array([[0.0, 1.0]]), np.array([[0.0, 1.0], [0.0, 3.0]])).round(4)
    array([[2.    , 3.6065]])
    >>> kernel.set_params(left__sigma=1.0)
    Sum(left=Gaussian(), right=Linear())
    """

    _operation = np.add

    def lipschitz(self, n_features: int | None = None) -> float:
        """The root of the sum of both squares."""
        return float(
            np.hypot(kernel_lipschitz(self.left, n_features), kernel_lipschitz(self.right, n_features))
        )

    @property
    def _level(self):
        left, right = _level_of(self.left), _level_of(self.right)
        return None if left is None or right is None else left + right

    def _join(self, left, right, order):
        left = dict(left)
        for which, values in right.items():
            left[which] = left[which] + values if which in left else values
        return left

    def _blurred(self, variance, n_features):
        left = self.left.blurred(variance, n_features)
        right = self.right.blurred(variance, n_features)
        return None if left is None or right is None else left + right


class Product(_Pair):
    """``k(x, y) = left(x, y) right(x, y)``, as ``left * right`` makes it.

    Parameters
    ----------
    left, right : Kernel

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.kernels import Gaussian, Linear
    >>> kernel = Gaussian(2.0) * Linear()
    >>> kernel.matrix(np.array([[0.0, 1.0]]), np.array([[0.0, 1.0], [0.0, 3.0]])).round(4)
    array([[1.    , 1.8196]])
    """

    _operation = np.multiply

    def lipschitz(self, n_features: int | None = None) -> float:
        """Finite where both are and ``k(x, x)`` is the same for all x in both, as it is for Gaussians.

        With ``d = |phi(x) - phi(y)|^2 / 2`` a kernel is ``k(x, x) - d``, so that half the squared
        distance in the product's space is at most ``left(x, x) d_right + right(x, x) d_left``.
        """
        left, right = _level_of(self.left), _level_of(self.right)
        if left is None or right is None:
            return np.inf
        # A level of 0 is a kernel of 0, whatever the other's constant.
        left_share = np.sqrt(right) * kernel_lipschitz(self.left, n_features) if right > 0 else 0.0
        right_share = np.sqrt(left) * kernel_lipschitz(self.right, n_features) if left > 0 else 0.0
        return float(np.hypot(left_share, right_share))

    @property
    def _level(self):
        left, right = _level_of(self.left), _level_of(self.right)
        return None if left is None or right is None else left * right

    def _join(self, left, right, order):
        found: Partials = {}
        for (i, j), ours in left.items():
            for (p, q), theirs in right.items():
                if i + j + p + q > order:
                    continue
                which, times = (i + p, j + q), comb(i + p, i) * comb(j + q, j)
                term = ours * theirs
                if times > 1:
                    term = _changed(np.multiply, term, times)
                found[which] = _changed(np.add, found[which], term) if which in found else term
        return found


class Scaled(Kernel):
    """``factor`` times a kernel, as ``factor * kernel`` makes it.

    Parameters
    ----------
    kernel : Kernel
    factor : float, default=1.0
        At least 0.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.kernels import Linear
    >>> (3.0 * Linear()).matrix(np.array([[1.0, 2.0]]), np.array([[0.0, 1.0]]))
    array([[6.]])
    """

    def __init__(self, kernel: Kernel, factor: float = 1.0) -> None:
        self.kernel = kernel
        self.factor = factor

    def validate(self, n_features: int | None = None) -> None:
        check_real("factor", self.factor, strict=False)
        _check_kernel("kernel", self.kernel, n_features)

    def matrix(self, X, Y, norms=None):
        return float(self.factor) * kernel_matrix(self.kernel, X, Y, norms)

    def diagonal(self, X):
        return float(self.factor) * kernel_diagonal(self.kernel, X)

    def lipschitz(self, n_features: int | None = None) -> float:
        """``sqrt(factor)`` times the kernel's."""
        return (
            float(np.sqrt(self.factor)) * kernel_lipschitz(self.kernel, n_features)
            if self.factor > 0
            else 0.0
        )

    @property
    def symmetry(self) -> str:
        """The kernel's."""
        return kernel_symmetry(self.kernel)

    @property
    def definite(self) -> bool:
        """The kernel's."""
        return kernel_definite(self.kernel)

    @property
    def least_eigenvalue(self) -> float | None:  # type: ignore[override]
        """The kernel's, before it was multiplied."""
        return self.kernel.least_eigenvalue

    def prepared(self, X: np.ndarray) -> Kernel:
        kernel = self.kernel.prepared(X)
        return self if kernel is self.kernel else Scaled(kernel, self.factor)

    @property
    def thread_safe(self) -> bool:
        """The kernel's."""
        return kernel_thread_safe(self.kernel)

    @property
    def smoothness(self) -> float:
        """The kernel's."""
        return kernel_smoothness(self.kernel)

    @property
    def uses_distances(self) -> bool:
        """The kernel's."""
        return kernel_arguments(self.kernel)[0]

    @property
    def uses_products(self) -> bool:
        """The kernel's."""
        return kernel_arguments(self.kernel)[1]

    def partials(self, distances, products, order):
        """See `Kernel.partials`; errors name the kernel."""
        refuse_inherited_partials(self, "partials")
        found = dict(self.kernel.partials(distances, products, order))
        factor = float(self.factor)
        # Taken out one by one, so that memory that nobody keeps is used again.
        return {which: factor * found.pop(which) for which in list(found)}

    def _blurred(self, variance, n_features):
        kernel = self.kernel.blurred(variance, n_features)
        return None if kernel is None else self.factor * kernel

    @property
    def _level(self):
        level = _level_of(self.kernel)
        return None if level is None else self.factor * level


def _level_of(kernel: Kernel) -> float | None:
    return kernel._level if says(kernel, "_level", of="diagonal") else None


def _check_kernel(name: str, kernel: Any, n_features: int | None) -> None:
    check_kernel(name, kernel)
    kernel.validate(n_features)


def _changed(ufunc: np.ufunc, values: np.ndarray, other: Any) -> np.ndarray:
    """``ufunc(values, other)``, in place of `values` where their type holds it."""
    kept = isinstance(values, np.ndarray) and np.result_type(values, other) == values.dtype
    return ufunc(values, other, out=values if kept else None)
