"""Combinations of kernels: sums, products and multiples."""

from __future__ import annotations

from abc import abstractmethod
from math import comb
from typing import ClassVar

import numpy as np

from ..utils.parameters import check_number
from .base import Kernel, Partials
from .kernel_names import validate_kernel
from .kernel_values import SYMMETRIES, kernel_diagonal, kernel_matrix, kernel_partials


class CompositeKernel(Kernel):
    """A kernel that is positive semi-definite if all its parts are."""

    # Names of the parameters that are kernels.
    _names: ClassVar[tuple[str, ...]] = ("kernel",)

    @property
    def _parts(self) -> list[Kernel]:
        return [getattr(self, name) for name in self._names]

    @property
    def definite(self) -> bool:
        return all(part.definite for part in self._parts)

    @property
    def min_eigenvalue(self) -> float | None:  # type: ignore[override]
        """The smallest eigenvalue that a part had before its spectrum correction."""
        known = [part.min_eigenvalue for part in self._parts]
        return min((value for value in known if value is not None), default=None)

    def prepared(self, X: np.ndarray) -> Kernel:
        prepared = [part.prepared(X) for part in self._parts]
        if all(new is part for new, part in zip(prepared, self._parts, strict=True)):
            return self
        parameters = self.get_params(deep=False) | dict(zip(self._names, prepared, strict=True))
        return type(self)(**parameters)


class _Pointwise(CompositeKernel):
    """A kernel whose value at (x, y) depends only on the values of its parts at (x, y)."""

    def validate(self, n_features: int | None = None) -> None:
        for name in self._names:
            validate_kernel(name, getattr(self, name), n_features)

    @property
    def smoothness(self) -> float:
        return min(part.smoothness for part in self._parts)

    @property
    def symmetry(self) -> str:
        return min((part.symmetry for part in self._parts), key=SYMMETRIES.index)

    @property
    def thread_safe(self) -> bool:
        return all(part.thread_safe for part in self._parts)

    @property
    def uses_distances(self) -> bool:
        return self._known and any(part.uses_distances for part in self._parts)

    @property
    def uses_products(self) -> bool:
        return self._known and any(part.uses_products for part in self._parts)

    @property
    def _known(self) -> bool:
        """True if all parts are functions of distances or products."""
        return all(part.uses_distances or part.uses_products for part in self._parts)

    def _check_arguments(self, distances, products, order):
        # Errors name the part with too few derivatives.
        for part in self._parts:
            part._check_arguments(distances, products, order)


class _Pair(_Pointwise):
    """A kernel of two parts."""

    _names = ("left", "right")
    # Operation of both values. Its result is a new array, because third-party kernels may store theirs.
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
        left = kernel_partials(self.left, distances, products, order)
        return self._join(left, kernel_partials(self.right, distances, products, order), order)

    @abstractmethod
    def _join(self, left: Partials, right: Partials, order: int) -> Partials:
        """Compute the partials of the pair from those of both parts, without modifying these."""


class Sum(_Pair):
    """The kernel ``left(x, y) + right(x, y)``, written ``left + right``."""

    _operation = np.add

    def lipschitz(self, n_features: int | None = None) -> float:
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
        left = self.left.noise_averaged(variance, n_features)
        right = self.right.noise_averaged(variance, n_features)
        return None if left is None or right is None else left + right


class Product(_Pair):
    """The kernel ``left(x, y) right(x, y)``, written ``left * right``."""

    _operation = np.multiply

    def lipschitz(self, n_features: int | None = None) -> float:
        """Return a Lipschitz constant; infinity if ``k(x, x)`` of a part depends on x.

        With ``d = |phi(x) - phi(y)|^2 / 2``, a kernel with the same ``k(x, x)`` for all x is
        ``k(x, y) = k(x, x) - d``. So half the squared distance in the product's space is at most
        ``left(x, x) d_right + right(x, x) d_left``.
        """
        left, right = self.left._level, self.right._level
        if left is None or right is None:
            return np.inf
        # A kernel with k(x, x) = 0 is 0 everywhere, even if the other constant is infinite.
        left_part = np.sqrt(right) * self.left.lipschitz(n_features) if right > 0 else 0.0
        right_part = np.sqrt(left) * self.right.lipschitz(n_features) if left > 0 else 0.0
        return float(np.hypot(left_part, right_part))

    @property
    def _level(self):
        left, right = self.left._level, self.right._level
        return None if left is None or right is None else left * right

    def _join(self, left, right, order):
        product: Partials = {}
        for (i, j), left_values in left.items():
            for (p, q), right_values in right.items():
                if i + j + p + q > order:
                    continue
                which, factor = (i + p, j + q), comb(i + p, i) * comb(j + q, j)
                term = left_values * right_values
                if factor > 1:
                    term *= factor
                # Not in place: kernels of other classes may return entries of several precisions.
                product[which] = product[which] + term if which in product else term
        return product


class Scaled(_Pointwise):
    """The kernel ``factor * k(x, y)``, written ``factor * kernel``."""

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
        return (
            float(np.sqrt(self.factor)) * self.kernel.lipschitz(n_features) if self.factor > 0 else 0.0
        )

    def partials(self, distances, products, order):
        values = kernel_partials(self.kernel, distances, products, order)
        factor = float(self.factor)
        # Entries are removed one by one, so that their memory is free for the next product.
        return {which: factor * values.pop(which) for which in list(values)}

    def _blurred(self, variance, n_features):
        kernel = self.kernel.noise_averaged(variance, n_features)
        return None if kernel is None else self.factor * kernel

    @property
    def _level(self):
        level = self.kernel._level
        return None if level is None else self.factor * level
