"""Kernels made of kernels: sums, products, multiples."""

from __future__ import annotations

from abc import abstractmethod
from math import comb
from typing import Any, ClassVar

import numpy as np

from ..utils.parameters import check_number
from .base import Kernel, Partials
from .checked_kernel import SYMMETRIES, kernel_diagonal, kernel_matrix
from .kernel_names import check_kernel


class CompositeKernel(Kernel):
    """A kernel that is positive semi-definite if the kernels are of which it is made."""

    # The parameters that are kernels.
    _names: ClassVar[tuple[str, ...]] = ("kernel",)

    @property
    def _parts(self) -> list[Kernel]:
        return [getattr(self, name) for name in self._names]

    @property
    def definite(self) -> bool:
        """Whether all parts are."""
        return all(part.definite for part in self._parts)

    @property
    def min_eigenvalue(self) -> float | None:  # type: ignore[override]
        """That of the part that was mended, the least of several."""
        known = [part.min_eigenvalue for part in self._parts]
        return min((each for each in known if each is not None), default=None)

    def prepared(self, X: np.ndarray) -> Kernel:
        """See `Kernel.prepared`: all parts are."""
        made = [part.prepared(X) for part in self._parts]
        if all(new is part for new, part in zip(made, self._parts, strict=True)):
            return self
        parameters = self.get_params(deep=False) | dict(zip(self._names, made, strict=True))
        return type(self)(**parameters)


class _Pointwise(CompositeKernel):
    """A kernel whose value for a pair of inputs is made of the values of its parts for that pair."""

    def validate(self, n_features: int | None = None) -> None:
        for name in self._names:
            check_kernel(name, getattr(self, name), n_features)

    @property
    def smoothness(self) -> float:
        """The least of the parts."""
        return min(part.smoothness for part in self._parts)

    @property
    def symmetry(self) -> str:
        """What keeps the values of all parts."""
        return min((part.symmetry for part in self._parts), key=SYMMETRIES.index)

    @property
    def thread_safe(self) -> bool:
        """Whether all parts are."""
        return all(part.thread_safe for part in self._parts)

    @property
    def uses_distances(self) -> bool:
        """Whether a part does, if all are functions of distances or products."""
        return self._known and any(part.uses_distances for part in self._parts)

    @property
    def uses_products(self) -> bool:
        """Whether a part does, if all are functions of distances or products."""
        return self._known and any(part.uses_products for part in self._parts)

    @property
    def _known(self) -> bool:
        """Whether all parts are functions of distances or products."""
        return all(part.uses_distances or part.uses_products for part in self._parts)


class _Pair(_Pointwise):
    """A kernel made of two."""

    _names = ("left", "right")
    # Of values of both: a new array, as third-party kernels may keep what they return.
    _operation: ClassVar[np.ufunc]

    def __init__(self, left: Kernel, right: Kernel) -> None:
        self.left = left
        self.right = right

    def matrix(self, X, Y, norms=None):
        left = kernel_matrix(self.left, X, Y, norms)
        return self._operation(left, kernel_matrix(self.right, X, Y, norms))

    def diagonal(self, X):
        return self._operation(kernel_diagonal(self.left, X), kernel_diagonal(self.right, X))

    def partials(self, distances, products, order):
        """See `Kernel.partials`; errors name the one of both that has too few."""
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
        return float(np.hypot(self.left.lipschitz(n_features), self.right.lipschitz(n_features)))

    @property
    def _level(self):
        left, right = self.left._level, self.right._level
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
        left, right = self.left._level, self.right._level
        if left is None or right is None:
            return np.inf
        # A level of 0 is a kernel of 0, whatever the other's constant.
        left_share = np.sqrt(right) * self.left.lipschitz(n_features) if right > 0 else 0.0
        right_share = np.sqrt(left) * self.right.lipschitz(n_features) if left > 0 else 0.0
        return float(np.hypot(left_share, right_share))

    @property
    def _level(self):
        left, right = self.left._level, self.right._level
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


class Scaled(_Pointwise):
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
        check_number("factor", self.factor)
        super().validate(n_features)

    def matrix(self, X, Y, norms=None):
        return float(self.factor) * kernel_matrix(self.kernel, X, Y, norms)

    def diagonal(self, X):
        return float(self.factor) * kernel_diagonal(self.kernel, X)

    def lipschitz(self, n_features: int | None = None) -> float:
        """``sqrt(factor)`` times the kernel's."""
        return (
            float(np.sqrt(self.factor)) * self.kernel.lipschitz(n_features) if self.factor > 0 else 0.0
        )

    def partials(self, distances, products, order):
        """See `Kernel.partials`; errors name the kernel."""
        found = dict(self.kernel.partials(distances, products, order))
        factor = float(self.factor)
        # Taken out one by one, so that memory that nobody keeps is used again.
        return {which: factor * found.pop(which) for which in list(found)}

    def _blurred(self, variance, n_features):
        kernel = self.kernel.blurred(variance, n_features)
        return None if kernel is None else self.factor * kernel

    @property
    def _level(self):
        level = self.kernel._level
        return None if level is None else self.factor * level


def _changed(ufunc: np.ufunc, values: np.ndarray, other: Any) -> np.ndarray:
    """``ufunc(values, other)``, in place of `values` where their type holds it."""
    kept = isinstance(values, np.ndarray) and np.result_type(values, other) == values.dtype
    return ufunc(values, other, out=values if kept else None)
