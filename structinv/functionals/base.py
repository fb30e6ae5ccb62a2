"""Base class of functionals: bounded linear maps from a function to numbers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator

from ..kernels import Kernel
from ..oracles.columns import with_numbers
from ..utils import plugins
from ..utils.matrices import refuse_masked
from ..utils.parameters import columns_of, in_order
from .parts import Part, Values
from .representers import Representers


class Functional(BaseEstimator, ABC):
    """A family of bounded linear functionals ``L_j``, before it is bound to rows.

    A subclass implements one method, `parts`: the L_j as finite sums of values and derivatives at
    points. Representers, inner products with other families, and products with Gram matrices are
    computed from these parts.

    See Also
    --------
    structinv.estimators.RepresenterClassifier : Classifier with penalties of functionals.

    Examples
    --------
    The increase of f from each row to a point one step ahead, as a custom family:

    >>> import numpy as np
    >>> from structinv.functionals import Functional, Values
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
        """Raise ValueError or TypeError if a parameter is invalid for these rows.

        Parameters
        ----------
        X : ndarray of shape (n_samples, n_features)
            Rows of the family.
        """

    @abstractmethod
    def parts(self, X: np.ndarray, kernel: Kernel) -> Sequence[Part]:
        """Return parts of equal size; functional j is the sum of the j-th entries.

        Parameters
        ----------
        X : ndarray of shape (n_samples, n_features)
            Rows of the family. Parts with values at the rows should use this array as their points, so
            that families share computations.
        kernel : Kernel
            Kernel of the space of f; few families depend on it.

        Returns
        -------
        sequence of Part
            At least one part.

        Raises
        ------
        ValueError
            If the family cannot be computed for this kernel or these rows.
        """

    def bind(self, X: np.ndarray) -> BoundFunctional:
        """Bind the family to rows, and check its parameters.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows of the family, finite.

        Returns
        -------
        BoundFunctional
            The family at these rows.

        Raises
        ------
        ValueError, TypeError
            If a parameter is out of range, or does not fit the rows.
        """
        columns = columns_of(X)
        family, X = with_numbers(self, columns), _finite_rows(X)
        family.validate(X)
        return BoundFunctional(family, X, columns)


class BoundFunctional:
    """A family of functionals at given rows.

    Shapes: `X` (n, d).
    """

    def __init__(self, functional: Functional, X: np.ndarray, columns: list[Any] | None = None) -> None:
        self.functional = functional
        self.X = X
        self.columns = columns

    def __repr__(self) -> str:
        return f"{self.functional!r}.bind(<{len(self.X)} rows>)"

    def parts(self, kernel: Kernel) -> list[Part]:
        """Return the validated parts of the family in a kernel's space."""
        return checked_parts(self.functional, self.X, kernel)

    def gram(self, kernel: Kernel, other: BoundFunctional | None = None) -> np.ndarray:
        """Compute inner products ``<z_i, z_j>`` with another family.

        By default they are those of the family with itself.

        Returns shape (size, size of the other).
        """
        pair, own, others = self._pair(kernel, other)
        return pair.gram(own, others)

    def product(
        self, kernel: Kernel, coefficients: np.ndarray, other: BoundFunctional | None = None
    ) -> np.ndarray:
        """Compute ``gram(kernel, other) @ coefficients`` without forming the matrix.

        Shapes: `coefficients` (size of the other,); returns (size,).
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
        """Return representers of both families, and the numbers of the functionals of each."""
        bound = [self] if other is None else [self, other]
        if other is not None:
            check_same_columns("other", other, self.columns)
        pair = Representers(kernel, [each.parts(kernel) for each in bound])
        first, last = (np.arange(rows.start, rows.stop) for rows in (pair.slices[0], pair.slices[-1]))
        return pair, first, last

    def representers(self, kernel: Kernel, points: np.ndarray) -> np.ndarray:
        """Compute representers ``z_j(x) = L_j k(., x)`` at points, (n_points, size)."""
        points = in_order("points", points, known=self.columns, kind="column of the rows of the family")
        pair = Representers(kernel, [[Values(_finite_rows(points))], self.parts(kernel)])
        values, own = (np.arange(rows.start, rows.stop) for rows in pair.slices)
        return pair.gram(values, own)


def _finite_rows(X: np.ndarray) -> np.ndarray:
    refuse_masked("X", X)
    X = np.asarray(X)
    if X.ndim != 2:
        raise ValueError(f"X must have shape (n_samples, n_features), got {X.shape}")
    X = X if X.dtype.kind == "f" else X.astype(np.float64)
    if not np.all(np.isfinite(X)):
        raise ValueError("X must be finite, got NaN or infinity")
    return X


def check_same_columns(name: str, bound: BoundFunctional, columns: Sequence[Any] | None) -> None:
    """Raise ValueError if a family is bound to rows with other columns."""
    known = None if columns is None else list(columns)
    if None not in (known, bound.columns) and bound.columns != known:
        raise ValueError(
            f"{name} must be bound to rows with the columns {known} in this order, got {bound.columns}: "
            "bind it again, to X[columns]"
        )


def checked_parts(functional: Functional, X: np.ndarray, kernel: Kernel) -> list[Part]:
    """Return validated parts; for errors see `BoundFunctional.parts`."""
    source = plugins.method(functional, "parts")
    returned: Any = functional.parts(X, kernel)
    parts = list(returned) if np.iterable(returned) else []
    if not parts or not all(isinstance(part, Part) for part in parts):
        raise ValueError(f"{source} must return a list of at least one Part, got {returned!r}")
    parts = [part.checked(source, X.shape[1]) for part in parts]
    sizes = sorted({part.size for part in parts})
    if len(sizes) > 1:
        raise ValueError(f"{source} must return parts of one size, got sizes {sizes}")
    return parts


def differences(pairs: np.ndarray, weights: np.ndarray, n_rows: int) -> sp.csr_matrix:
    """Return the matrix of weighted differences for pairs of rows, (m, n_rows)."""
    m = len(pairs)
    rows = np.repeat(np.arange(m), 2)
    signed = np.column_stack([weights, -weights]).ravel()
    return sp.csr_matrix((signed, (rows, pairs.ravel())), shape=(m, n_rows))
