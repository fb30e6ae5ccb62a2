"""Parts of functionals: weighted sums of values and derivatives at points."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..utils import plugins


@dataclass(frozen=True)
class Atoms:
    """Values ``f(x)``, or derivatives ``D_u f(x)`` or ``D_u D_v f(x)``, at points.

    - `points` (m, d): one point per atom
    - `directions` (m, d): no array for values, one for first derivatives, two for second ones
    - `blur`: variance of Gaussian noise; f is averaged over it first. 0 means f itself
    """

    points: np.ndarray
    directions: tuple[np.ndarray, ...] = ()
    blur: float = 0.0

    def take(self, rows: slice) -> Atoms:
        """Return some of the atoms."""
        return Atoms(self.points[rows], tuple(each[rows] for each in self.directions), self.blur)


@dataclass(frozen=True)
class Part(ABC):
    """One kind of derivative at points, ``L_j f = sum_a mix[j, a] (D_a f)(x_a)``.

    A functional is the sum of a list of parts of the same size.

    - `points` (u, n_features): points of the values or derivatives
    - `mix` (size, n_atoms): weights of the entries in each functional; by default the identity
    - `blur`: variance of Gaussian noise; f is averaged over it first
    """

    points: np.ndarray
    mix: Any = None
    blur: float = 0.0

    # Number of derivatives of an atom.
    order = 0

    @property
    @abstractmethod
    def n_atoms(self) -> int:
        """The number of values or derivatives."""

    def checked(self, source: str, n_features: int) -> Part:
        """Return the part with plain arrays and a CSR mix, after validation.

        Parameters
        ----------
        source : str
            Class and method that returned the part, for messages.
        n_features : int
            Number of features that points must have.

        Returns
        -------
        Part
            The validated part.

        Raises
        ------
        TypeError, ValueError
            If an array is not an array, has another shape, or has invalid values.
        """
        points = plugins.numbers(source, "points", self.points, ("u", n_features))
        plugins.number(source, "a blur", self.blur, least=0.0)
        part = self if points is self.points else replace(self, points=points)
        return part._checked_own(source)._with_mix(source)

    def _checked_own(self, source: str) -> Part:
        """Validate the arrays of a subclass; the points are already validated."""
        return self

    def _with_mix(self, source: str) -> Part:
        """Validate the mix; all other arrays are already validated."""
        if self.mix is None:
            return self
        if not sp.issparse(self.mix):
            raise TypeError(
                f"{source} must return a sparse matrix as mix, got {type(self.mix).__name__}"
            )
        mix: Any = self.mix if self.mix.format == "csr" else self.mix.tocsr()
        if mix.shape[1] != self.n_atoms:
            raise ValueError(
                f"{source} must return mix of shape (size, {self.n_atoms}), with one column per atom, "
                f"got {mix.shape}"
            )
        plugins.places(source, "a mix", mix)
        plugins.numbers(source, "entries of a mix", mix.data, mix.indices.shape)
        return self if mix is self.mix else replace(self, mix=mix)

    @property
    def size(self) -> int:
        """The number of functionals."""
        return self.n_atoms if self.mix is None else self.mix.shape[0]

    @abstractmethod
    def listed(self, atoms: np.ndarray) -> Atoms:
        """Return the atoms with these numbers.

        Parameters
        ----------
        atoms : ndarray of int of shape (n_chosen,)
            Numbers of atoms.

        Returns
        -------
        Atoms
            The chosen atoms.
        """

    @abstractmethod
    def spread(self, coefficients: np.ndarray) -> np.ndarray:
        """Map coefficients of atoms to those of all values or derivatives.

        Parameters
        ----------
        coefficients : ndarray of shape (n_atoms,)
            One coefficient per atom.

        Returns
        -------
        ndarray of shape (u,) or (u, n_features)
            Coefficients of the values, or of the partial derivatives.
        """

    @abstractmethod
    def collect(self, jets: np.ndarray) -> np.ndarray:
        """Map all values or derivatives to atoms; transpose of `spread`.

        Parameters
        ----------
        jets : ndarray of shape (u,) or (u, n_features)
            Values, or partial derivatives.

        Returns
        -------
        ndarray of shape (n_atoms,)
            One number per atom.
        """

    def to_atoms(self, coefficients: np.ndarray) -> np.ndarray:
        """Map coefficients of functionals to those of atoms.

        Parameters
        ----------
        coefficients : ndarray of shape (size, ...)
            Coefficients of the functionals.

        Returns
        -------
        ndarray of shape (n_atoms, ...)
            Coefficients of the atoms.
        """
        return coefficients if self.mix is None else self._mix_transposed @ coefficients

    def from_atoms(self, values: np.ndarray) -> np.ndarray:
        """Map values of atoms to those of functionals.

        Parameters
        ----------
        values : ndarray of shape (n_atoms, ...)
            Values of the atoms.

        Returns
        -------
        ndarray of shape (size, ...)
            Values of the functionals.
        """
        return values if self.mix is None else self.mix @ values

    def chosen(self, functionals: np.ndarray | None) -> tuple[Atoms, Any]:
        """Return the atoms of some functionals, and the mix for them.

        Parameters
        ----------
        functionals : ndarray of int of shape (n_chosen,) or None
            Numbers of functionals; None for all.

        Returns
        -------
        atoms : Atoms
            The atoms in the functionals.
        mix : CSR matrix or None
            Weights of the atoms; None for the identity.
        """
        if functionals is None:
            return self.listed(np.arange(self.n_atoms)), self.mix
        if self.mix is None:
            return self.listed(functionals), None
        rows = self.mix[functionals]
        used = np.unique(rows.indices)
        return self.listed(used), rows[:, used]

    def scaled(self, factor: float) -> Part:
        """Return the part of the functionals times a number.

        Parameters
        ----------
        factor : float
            The number.

        Returns
        -------
        Part
            A part with a scaled mix.
        """
        mix = sp.identity(self.n_atoms, format="csr") if self.mix is None else self.mix
        return replace(self, mix=factor * mix)

    @abstractmethod
    def monomials(self, degree: int) -> np.ndarray:
        """Apply the functionals to 1, and for degree 1 also to each coordinate.

        Parameters
        ----------
        degree : {0, 1}
            Degree of the polynomials.

        Returns
        -------
        ndarray of shape (size, 1) or (size, 1 + n_features)
            Values of the functionals.
        """

    @cached_property
    def _mix_transposed(self) -> Any:
        return self.mix.T.tocsr()


@dataclass(frozen=True)
class Values(Part):
    """Values of f at points.

    Parameters
    ----------
    points : ndarray of shape (u, n_features)
        Points of the values or derivatives.
    mix : CSR matrix of shape (size, n_atoms), optional
        Weights of the entries in each functional; by default the identity.
    blur : float, default=0.0
        Variance of Gaussian noise; f is averaged over it first.

    See Also
    --------
    Functional : Base class whose method `parts` returns such parts.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.functionals import Values
    >>> Values(np.zeros((3, 2))).size
    3
    """

    @property
    def n_atoms(self) -> int:
        return len(self.points)

    def listed(self, atoms: np.ndarray) -> Atoms:
        return Atoms(self.points[atoms], (), self.blur)

    def spread(self, coefficients: np.ndarray) -> np.ndarray:
        return coefficients

    def collect(self, jets: np.ndarray) -> np.ndarray:
        return jets

    def monomials(self, degree: int) -> np.ndarray:
        # Noise with mean zero changes neither 1 nor the coordinates.
        ones = np.ones((len(self.points), 1))
        return self.from_atoms(np.hstack([ones, self.points]) if degree else ones)


@dataclass(frozen=True)
class Gradients(Part):
    """Partial derivatives of f at points, by all or some features.

    Atom ``i * n_chosen + p`` is the derivative at point i by the p-th chosen feature.

    The other parameters and attributes are those of :class:`structinv.functionals.Values`.

    Parameters
    ----------
    features : ndarray of int of shape (n_chosen,), optional
        Numbers of the chosen features; by default all.

    See Also
    --------
    Derivatives : Derivatives along directions.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.functionals import Gradients
    >>> Gradients(np.zeros((3, 2)), features=np.array([1])).size
    3
    """

    features: np.ndarray | None = None
    order = 1

    def _checked_own(self, source: str) -> Part:
        if self.features is not None:
            plugins.integers(source, "features", self.features, ("m",), self.points.shape[1])
        return self

    @property
    def n_chosen(self) -> int:
        """The number of chosen features."""
        return self.points.shape[1] if self.features is None else len(self.features)

    @property
    def n_atoms(self) -> int:
        return len(self.points) * self.n_chosen

    def listed(self, atoms: np.ndarray) -> Atoms:
        rows, columns = np.divmod(atoms, self.n_chosen)
        if self.features is not None:
            columns = self.features[columns]
        directions = np.zeros((len(atoms), self.points.shape[1]), dtype=self.points.dtype)
        directions[np.arange(len(atoms)), columns] = 1.0
        return Atoms(self.points[rows], (directions,), self.blur)

    def spread(self, coefficients: np.ndarray) -> np.ndarray:
        table = coefficients.reshape(len(self.points), self.n_chosen)
        if self.features is None:
            return table
        jets = np.zeros(self.points.shape, dtype=table.dtype)
        where: Any = slice(None), self.features
        np.add.at(jets, where, table)
        return jets

    def collect(self, jets: np.ndarray) -> np.ndarray:
        return (jets if self.features is None else jets[:, self.features]).ravel()

    def monomials(self, degree: int) -> np.ndarray:
        if degree == 0:
            return np.zeros((self.size, 1))
        units = np.eye(self.points.shape[1])
        units = units if self.features is None else units[self.features]
        slopes = np.tile(units, (len(self.points), 1))
        return self.from_atoms(np.column_stack([np.zeros(len(slopes)), slopes]))


@dataclass(frozen=True)
class Derivatives(Part):
    """First derivatives of f at points along directions.

    Atom ``i * t + k`` is the derivative at point i along the k-th of its t directions.

    The other parameters and attributes are those of :class:`structinv.functionals.Values`.

    Parameters
    ----------
    directions : ndarray of shape (u, t, n_features)
        Directions of each point.

    See Also
    --------
    Gradients : Derivatives with respect to features.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.functionals import Derivatives
    >>> Derivatives(np.zeros((3, 2)), directions=np.ones((3, 4, 2))).size
    12
    """

    directions: np.ndarray | None = None
    order = 1

    def _checked_own(self, source: str) -> Part:
        shape = (len(self.points), "t", self.points.shape[1])
        table = plugins.numbers(source, "directions", self.directions, shape)
        return self if table is self.directions else replace(self, directions=table)

    @property
    def _table(self) -> np.ndarray:
        assert self.directions is not None
        return self.directions

    @property
    def n_atoms(self) -> int:
        return self._table.shape[0] * self._table.shape[1]

    def listed(self, atoms: np.ndarray) -> Atoms:
        rows, numbers = np.divmod(atoms, self._table.shape[1])
        return Atoms(self.points[rows], (self._table[rows, numbers],), self.blur)

    def spread(self, coefficients: np.ndarray) -> np.ndarray:
        table = coefficients.reshape(self._table.shape[:2])
        return np.einsum("ut,utd->ud", table, self._table)

    def collect(self, jets: np.ndarray) -> np.ndarray:
        return np.einsum("ud,utd->ut", jets, self._table).ravel()

    def monomials(self, degree: int) -> np.ndarray:
        if degree == 0:
            return np.zeros((self.size, 1))
        slopes = self._table.reshape(self.n_atoms, -1)
        return self.from_atoms(np.column_stack([np.zeros(len(slopes)), slopes]))


@dataclass(frozen=True)
class SecondDerivatives(Part):
    """Second derivatives of f at points, along two directions per point.

    The other parameters and attributes are those of :class:`structinv.functionals.Values`.

    Parameters
    ----------
    left, right : ndarray of shape (u, n_features)
        First and second direction of each point.

    See Also
    --------
    Derivatives : First derivatives along directions.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.functionals import SecondDerivatives
    >>> first = np.array([[1.0, 0.0]])
    >>> SecondDerivatives(np.zeros((1, 2)), left=first, right=first).size
    1
    """

    left: np.ndarray | None = None
    right: np.ndarray | None = None
    order = 2

    def _checked_own(self, source: str) -> Part:
        left = plugins.numbers(source, "left directions", self.left, self.points.shape)
        right = plugins.numbers(source, "right directions", self.right, self.points.shape)
        return (
            self if left is self.left and right is self.right else replace(self, left=left, right=right)
        )

    @property
    def n_atoms(self) -> int:
        return len(self.points)

    def listed(self, atoms: np.ndarray) -> Atoms:
        assert self.left is not None
        assert self.right is not None
        return Atoms(self.points[atoms], (self.left[atoms], self.right[atoms]), self.blur)

    def spread(self, coefficients: np.ndarray) -> np.ndarray:
        # The Gram matrix is formed in blocks instead.
        raise NotImplementedError("SecondDerivatives does not support products without a Gram matrix")

    def collect(self, jets: np.ndarray) -> np.ndarray:
        raise NotImplementedError("SecondDerivatives does not support products without a Gram matrix")

    def monomials(self, degree: int) -> np.ndarray:
        return np.zeros((self.size, 1 + degree * self.points.shape[1]))
