"""Base class of function spaces: inner products and normals of planes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from types import FunctionType
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import scipy.sparse as sp

from ..oracles.listed_changes import listed
from ..structures.competitors import Competitors
from ..utils.matrices import Matrix, Rows
from ..utils.row_arrays import Arrays

if TYPE_CHECKING:
    from ..oracles.base import BoundOracle
    from ..oracles.query import Violations

# Number of values per row and label that are in memory at once.
NUMBERS_AT_ONCE = 4_000_000

# Normals of a space: rows of a matrix, or a custom class that supports indexing.
Normals: TypeAlias = Any
# An array, or an object with copy, +=, -= and multiplication by numbers.
Element: TypeAlias = Any


class Space(ABC):
    """Hilbert space of functions f(x, k), with the operations of solvers.

    Elements are arrays, or objects that support ``copy``, ``+=``, ``-=`` and multiplication by numbers.
    Normals of planes are the return values of `normals`. Solvers concatenate them with `stack`, select
    some of them by indexing, and pass them to the other methods.
    """

    n_features: int
    n_outputs: int
    n_pairwise: int = 0
    # A subclass that overrides any method must declare its capabilities again.
    capabilities: frozenset[str] = frozenset()
    # Number of unpenalized parameters per output; each adds an equation to the dual.
    n_free: int = 0
    # Number of blocks whose planes share a stored Gram matrix. If a block has more planes than the
    # second number, solvers average those with the smallest dual variables.
    blocks_in_a_set: int = 128
    planes_of_a_block: int = 10

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        kinds = (FunctionType, property, classmethod, staticmethod)
        overridden = {name for name, value in vars(cls).items() if isinstance(value, kinds)}
        if "capabilities" not in vars(cls) and overridden - {"__init__"}:
            cls.capabilities = frozenset()

    def rows_at_once(self, bound: BoundOracle) -> int:
        """Return the number of rows that one call of `worst` should have.

        `worst` stores all perturbed samples of these rows. Solvers may check the time limit between two
        calls. The default is all rows.

        Parameters
        ----------
        bound : BoundOracle
            Oracle with the samples.

        Returns
        -------
        int
            Number of rows.
        """
        return max(1, bound.X.shape[0])

    def certified_at_once(self, bound: BoundOracle, n_labels: int) -> int:
        """Return the number of rows per call of `worst` with ``rounding=True``.

        Parameters
        ----------
        bound : BoundOracle
            Oracle with the samples.
        n_labels : int
            Number of labels.

        Returns
        -------
        int
            Number of rows.
        """
        return max(1, NUMBERS_AT_ONCE // n_labels)

    @abstractmethod
    def worst(
        self,
        f: Element,
        bound: BoundOracle,
        rows: Rows,
        competitors: Competitors,
        points: bool = True,
        rounding: bool = False,
    ) -> Violations:
        """Return the worst-case score gain of each label over the true label.

        Parameters
        ----------
        f : element
            Function. It must not change before `Violations.points` is called.
        bound : BoundOracle
            Oracle with the samples.
        rows : slice or ndarray of int of shape (n,)
            Rows of the samples.
        competitors : Competitors
            True labels and costs of these rows.
        points : bool, default=True
            If False, `Violations.points` is not called, and a faster method may be used.
        rounding : bool, default=False
            If True, `Violations.rounding` is computed.

        Returns
        -------
        Violations
            Score gains, costs and upper bounds.
        """

    @abstractmethod
    def values(self, f: Element, X: Matrix) -> np.ndarray:
        """Return the values of the functions at points.

        Parameters
        ----------
        f : element
            Function.
        X : ndarray or CSR matrix of shape (n, n_features)
            Points.

        Returns
        -------
        ndarray of shape (n, n_outputs)
            Values.
        """

    def of_rows(self, rows: Rows) -> Space:
        """Return the space for some of the rows, if it has constants for each row.

        Parameters
        ----------
        rows : ndarray of int, or slice
            Indices of the rows.

        Returns
        -------
        Space
            The space.
        """
        return self

    def member_values(self, f: Element, bound: BoundOracle, rows: Rows) -> np.ndarray | None:
        """Return the values of the functions at all elements of S(x).

        Parameters
        ----------
        f : element
            Function.
        bound : BoundOracle
            Oracle with the samples.
        rows : slice or ndarray of int of shape (n,)
            Rows of the samples.

        Returns
        -------
        ndarray of shape (n, n_variants, n_outputs) or None
            Values; None, the default, if S(x) is not a list.
        """
        return None

    def members(self, bound: BoundOracle, rows: Rows, index: np.ndarray) -> Any:
        """Return listed elements of S(x) in the form that `normals` accepts.

        Parameters
        ----------
        bound : BoundOracle
            Oracle with the samples.
        rows : slice or ndarray of int of shape (n,)
            Rows of the samples.
        index : ndarray of int of shape (n,)
            Variant of each row.

        Returns
        -------
        object
            Points, in the form of this space.
        """
        return listed(bound).points(rows, index)

    def points(self, found: Any) -> Matrix:
        """Convert `WorstPoints.points` of this space to coordinates.

        Parameters
        ----------
        found : object
            Points in the form of this space.

        Returns
        -------
        ndarray or CSR matrix of shape (n, n_features)
            Coordinates.
        """
        return found

    @abstractmethod
    def normals(
        self,
        points: Matrix,
        coefficients: np.ndarray,
        groups: np.ndarray | None = None,
        pairwise: Matrix | None = None,
    ) -> Normals:
        """Return one normal per group: the sum of points times coefficients.

        The output k of a normal is ``sum_r coefficients[r, k] points[r]`` over the rows r of the group.

        Parameters
        ----------
        points : ndarray or CSR matrix of shape (n, n_features)
            Points, as coordinates or in the form of `WorstPoints.points`.
        coefficients : ndarray of shape (n, n_outputs)
            Coefficients of each point.
        groups : ndarray of int of shape (g + 1,), optional
            Group j has the rows ``groups[j]`` to ``groups[j + 1] - 1``. By default each row is a group.
        pairwise : ndarray or CSR matrix of shape (g, n_pairwise), optional
            Pairwise part of each normal; by default zero.

        Returns
        -------
        object
            Normals, in the form of this space.
        """

    def accepts(self, f: Any) -> bool:
        """Return True if an element of any space can become an element of this space.

        Parameters
        ----------
        f : object
            Element of this or another space.

        Returns
        -------
        bool
            True for an element of the same kind, with as many features and functions.
        """
        return isinstance(f, np.ndarray) and f.shape == np.shape(self.zeros())

    def adopted(self, f: Any, bounds: Sequence[BoundOracle]) -> Element:
        """Return an accepted element of another space as an element of this space.

        Parameters
        ----------
        f : element
            Element with the same coefficients.
        bounds : sequence of BoundOracle
            Oracles of the objective, whose members become points of the element.

        Returns
        -------
        element
            Element of this space.
        """
        return f

    def arrays_of(self, f: Element) -> Arrays:
        """Return an element as arrays, for files.

        Parameters
        ----------
        f : element
            Element of this space.

        Returns
        -------
        dict of str to ndarray
            Arrays by name.
        """
        return {"f": f}

    def from_arrays(self, arrays: Arrays) -> Any:
        """Return the element of `arrays_of`, in a separate space of the same kind.

        Parameters
        ----------
        arrays : dict of str to ndarray
            Arrays by name.

        Returns
        -------
        element
            Element for `adopted`.
        """
        return arrays["f"]

    def pairwise(self, f: Element) -> np.ndarray:
        """Return the pairwise weights.

        Parameters
        ----------
        f : element
            Function.

        Returns
        -------
        ndarray of shape (n_pairwise,)
            Pairwise weights.
        """
        return np.zeros(0)

    @abstractmethod
    def zeros(self) -> Element:
        """Return the zero element.

        Returns
        -------
        element
            Zero.
        """

    @abstractmethod
    def dot(self, f: Element, g: Element) -> float:
        """Return the inner product of two elements.

        Parameters
        ----------
        f, g : element
            Functions.

        Returns
        -------
        float
            Inner product.
        """

    @abstractmethod
    def scores(self, f: Element, normals: Normals) -> np.ndarray:
        """Return the inner product of an element with each normal.

        Parameters
        ----------
        f : element
            Function.
        normals : object
            Normals.

        Returns
        -------
        ndarray of shape (m,)
            Inner products.
        """

    @abstractmethod
    def combine(self, normals: Normals, coefficients: np.ndarray) -> Element:
        """Return the element ``sum_j coefficients_j normal_j``.

        Parameters
        ----------
        normals : object
            Normals.
        coefficients : ndarray of shape (m,)
            Coefficients.

        Returns
        -------
        element
            Linear combination.
        """

    @abstractmethod
    def mix(self, normals: Normals, coefficients: np.ndarray) -> Normals:
        """Return ``sum_j coefficients_j normal_j`` as one normal.

        Parameters
        ----------
        normals : object
            Normals.
        coefficients : ndarray of shape (m,)
            Coefficients.

        Returns
        -------
        object
            One normal, in the form of this space.
        """

    def mixtures(self, normals: Normals, shares: sp.csr_matrix) -> Normals:
        """Return one normal for each row of coefficients.

        Parameters
        ----------
        normals : object
            Normals.
        shares : CSR matrix of shape (n, m)
            Coefficients of the m normals.

        Returns
        -------
        object
            The n normals, in the form of this space.
        """
        ends = zip(shares.indptr[:-1], shares.indptr[1:], strict=True)
        parts = [(shares.indices[a:b], shares.data[a:b]) for a, b in ends]
        return self.stack([self.mix(normals[some], share) for some, share in parts])

    @abstractmethod
    def gram(self, left: Normals, right: Normals) -> np.ndarray:
        """Return the inner products of two sets of normals.

        Parameters
        ----------
        left, right : object
            Normals.

        Returns
        -------
        ndarray of shape (m, k)
            Gram matrix.
        """

    @abstractmethod
    def stack(self, parts: Sequence[Normals]) -> Normals:
        """Concatenate normals.

        Parameters
        ----------
        parts : sequence of normals
            Parts.

        Returns
        -------
        object
            Normals of all parts, in order.
        """

    def uncached(self, f: Element) -> Element:
        """Return the same element without cached values, for a certificate.

        Parameters
        ----------
        f : element
            Function.

        Returns
        -------
        element
            Function without a cache.
        """
        return f

    @abstractmethod
    def element(self, f: Element) -> Normals:
        """Convert an element to the form of a normal.

        Parameters
        ----------
        f : element
            Function.

        Returns
        -------
        object
            One normal.
        """

    @abstractmethod
    def scaled(self, normals: Normals, factors: np.ndarray) -> Normals:
        """Multiply each normal by a factor.

        Parameters
        ----------
        normals : object
            Normals.
        factors : ndarray of shape (m,)
            Factors.

        Returns
        -------
        object
            Scaled normals.
        """
