"""Families of bounded linear functionals in a kernel's space, and how they are bound to rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator

from ..kernels import Kernel
from ..utils import plugins
from ..utils.parameters import check_number
from .parts import Part, Values
from .representers import Representers


class Functional(BaseEstimator, ABC):
    """A family of bounded linear functionals ``L_j``, parameters only; `bind` gives it rows.

    An author writes one method, `parts`: how the L_j act, as finite sums of values and derivatives at
    points. What L_j does to the kernel, inner products with every other family, and products with
    them follow. Families can be added and multiplied by numbers: ``2.0 * Gradient() - other``.

    Examples
    --------
    The rise of f from each row to a point one step ahead, as a family of one's own:

    >>> import numpy as np
    >>> from structinv.functionals import Functional
    >>> from structinv.functionals.parts import Values
    >>> from structinv.kernels import Linear
    >>> class Rise(Functional):
    ...     def __init__(self, step=1.0):
    ...         self.step = step
    ...     def parts(self, X, kernel):
    ...         return [Values(X + self.step), Values(X).scaled(-1.0)]
    >>> Rise(0.5).bind(np.array([[1.0], [4.0]])).gram(Linear())
    array([[0.25, 0.25],
           [0.25, 0.25]])
    """

    def validate(self, X: np.ndarray) -> None:
        """Raise ValueError or TypeError if a parameter is out of range, or does not fit the rows."""

    @abstractmethod
    def parts(self, X: np.ndarray, kernel: Kernel) -> Sequence[Part]:
        """How the functionals act: parts of the same size, which are added up.

        Parameters
        ----------
        X : (n, d) array
            The rows that the family is bound to. Parts that take values there should have this very
            array as their points, so that families share what they compute.
        kernel : Kernel
            Whose space f lives in; few families look at it.
        """

    def bind(self, X: np.ndarray) -> BoundFunctional:
        """The family for these rows, its parameters checked.

        Parameters
        ----------
        X : (n, d) array

        Raises
        ------
        ValueError, TypeError
            For parameters out of range, or that do not fit the rows.
        """
        X = _finite_rows(X)
        self.validate(X)
        return BoundFunctional(self, X)

    def __add__(self, other: Functional) -> WeightedSum:
        return WeightedSum(self, other) if isinstance(other, Functional) else NotImplemented

    def __sub__(self, other: Functional) -> WeightedSum:
        known = isinstance(other, Functional)
        return WeightedSum(self, other, right_weight=-1.0) if known else NotImplemented

    def __mul__(self, factor: float) -> Scaled:
        return Scaled(self, factor) if isinstance(factor, Real) else NotImplemented

    __rmul__ = __mul__

    def __truediv__(self, factor: float) -> Scaled:
        return Scaled(self, 1.0 / factor) if isinstance(factor, Real) else NotImplemented

    def __neg__(self) -> Scaled:
        return Scaled(self, -1.0)


class BoundFunctional:
    """A family of functionals at given rows.

    Parameters
    ----------
    functional : Functional
    X : (n, d) array
    """

    def __init__(self, functional: Functional, X: np.ndarray) -> None:
        self.functional = functional
        self.X = X

    def __repr__(self) -> str:
        return f"{self.functional!r}.bind(<{len(self.X)} rows>)"

    def parts(self, kernel: Kernel) -> list[Part]:
        """The family's parts in a kernel's space, checked.

        Raises
        ------
        ValueError, TypeError
            If the parts are not of one size, have not the rows' features, or hold arrays that do not
            fit each other.
        """
        return checked_parts(self.functional, self.X, kernel)

    def gram(self, kernel: Kernel, other: BoundFunctional | None = None) -> np.ndarray:
        """Inner products ``<z_i, z_j>`` of the representers with those of another family, or its own.

        Returns
        -------
        (size, size of the other) array
        """
        pair, own, others = self._pair(kernel, other)
        return pair.gram(own, others)

    def product(
        self, kernel: Kernel, coefficients: np.ndarray, other: BoundFunctional | None = None
    ) -> np.ndarray:
        """``gram(kernel, other) @ coefficients`` without forming the matrix.

        Parameters
        ----------
        kernel : Kernel
        coefficients : (size of the other,) array
        other : BoundFunctional, optional
            This family by default.

        Returns
        -------
        (size,) array
        """
        pair, own, others = self._pair(kernel, other)
        coefficients = np.asarray(coefficients, dtype=np.float64)
        if coefficients.shape != (len(others),):
            raise ValueError(f"coefficients must have shape ({len(others)},), got {coefficients.shape}")
        padded = np.zeros(pair.size)
        padded[others] = coefficients
        return pair.apply(padded)[own]

    def _pair(
        self, kernel: Kernel, other: BoundFunctional | None
    ) -> tuple[Representers, np.ndarray, np.ndarray]:
        """Both families together, and the numbers of the functionals of each."""
        bound = [self] if other is None else [self, other]
        pair = Representers(kernel, [each.parts(kernel) for each in bound])
        first, last = (np.arange(rows.start, rows.stop) for rows in (pair.slices[0], pair.slices[-1]))
        return pair, first, last

    def representers(self, kernel: Kernel, points: np.ndarray) -> np.ndarray:
        """``z_j(x) = L_j k(., x)`` of every functional at given points, (n_points, size)."""
        pair = Representers(kernel, [[Values(_finite_rows(points))], self.parts(kernel)])
        values, own = (np.arange(rows.start, rows.stop) for rows in pair.slices)
        return pair.gram(values, own)


def _finite_rows(X: np.ndarray) -> np.ndarray:
    X = np.asarray(X)
    if X.ndim != 2:
        raise ValueError(f"X must have shape (n_samples, n_features), got {X.shape}")
    X = X if X.dtype.kind == "f" else X.astype(np.float64)
    if not np.all(np.isfinite(X)):
        raise ValueError("X must be finite, got NaN or infinity")
    return X


class Scaled(Functional):
    """A family times a number.

    Parameters
    ----------
    functional : Functional
    factor : float

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.functionals import Evaluation
    >>> from structinv.kernels import Linear
    >>> (3.0 * Evaluation()).bind(np.array([[2.0]])).gram(Linear())
    array([[36.]])
    """

    def __init__(self, functional: Functional, factor: float) -> None:
        self.functional = functional
        self.factor = factor

    def validate(self, X: np.ndarray) -> None:
        check_family("functional", self.functional)
        check_number("factor", self.factor, minimum=-np.inf)
        self.functional.validate(X)

    def parts(self, X: np.ndarray, kernel: Kernel) -> list[Part]:
        return [part.scaled(float(self.factor)) for part in checked_parts(self.functional, X, kernel)]


class WeightedSum(Functional):
    """``left_weight * left + right_weight * right``, functional by functional.

    Parameters
    ----------
    left, right : Functional
        Of the same size on the same rows.
    left_weight, right_weight : float, default=1.0

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.functionals import Evaluation, PartialDerivative
    >>> from structinv.kernels import Linear
    >>> (Evaluation() - PartialDerivative([0])).bind(np.array([[3.0]])).gram(Linear())
    array([[4.]])
    """

    def __init__(
        self,
        left: Functional,
        right: Functional,
        left_weight: float = 1.0,
        right_weight: float = 1.0,
    ) -> None:
        self.left = left
        self.right = right
        self.left_weight = left_weight
        self.right_weight = right_weight

    def validate(self, X: np.ndarray) -> None:
        for name in ("left", "right"):
            check_family(name, getattr(self, name))
            check_number(f"{name}_weight", getattr(self, f"{name}_weight"), minimum=-np.inf)
            getattr(self, name).validate(X)

    def parts(self, X: np.ndarray, kernel: Kernel) -> list[Part]:
        """See `Functional.parts`; ValueError if both have not the same size."""
        left, right = (checked_parts(side, X, kernel) for side in (self.left, self.right))
        if left[0].size != right[0].size:
            raise ValueError(
                f"left and right must have the same number of functionals, got {left[0].size} of "
                f"{type(self.left).__name__} and {right[0].size} of {type(self.right).__name__}"
            )
        weights = [self.left_weight] * len(left) + [self.right_weight] * len(right)
        return [part.scaled(float(w)) for part, w in zip([*left, *right], weights, strict=True)]


def checked_parts(functional: Functional, X: np.ndarray, kernel: Kernel) -> list[Part]:
    """``functional.parts(X, kernel)``, validated; for errors see `BoundFunctional.parts`."""
    source = plugins.method(functional, "parts")
    found: Any = functional.parts(X, kernel)
    parts = list(found) if np.iterable(found) else []
    if not parts or not all(isinstance(part, Part) for part in parts):
        raise ValueError(f"{source} must return a list of at least one Part, got {found!r}")
    parts = [part.checked(source, X.shape[1]) for part in parts]
    sizes = sorted({part.size for part in parts})
    if len(sizes) > 1:
        raise ValueError(f"{source} must return parts of one size, got sizes {sizes}")
    return parts


def check_family(name: str, value: object) -> None:
    """Raise TypeError unless `value` is a `Functional`."""
    if not isinstance(value, Functional):
        raise TypeError(f"{name} must be a Functional, got {value!r}")


def differences(pairs: np.ndarray, weights: np.ndarray, n_rows: int) -> sp.csr_matrix:
    """The matrix of ``weights_j (f(x_a) - f(x_b))`` for pairs (a, b) of rows, (m, n_rows)."""
    m = len(pairs)
    rows = np.repeat(np.arange(m), 2)
    signed = np.column_stack([weights, -weights]).ravel()
    return sp.csr_matrix((signed, (rows, pairs.ravel())), shape=(m, n_rows))
