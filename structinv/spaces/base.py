"""Where the function lives: inner products, and how inputs become normals of planes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from types import FunctionType
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from ..oracles.listing import listed
from ..structures.competitors import Competitors
from ..utils.matrices import Matrix, Rows

if TYPE_CHECKING:
    from ..oracles.base import BoundOracle
    from ..oracles.query import Violations

# Numbers about rows and labels that are in memory at once.
NUMBERS_AT_ONCE = 4_000_000

# Whatever a space makes of points: rows of a matrix, or a class of its own that can be indexed.
Normals: TypeAlias = Any
# An array, or anything with copy, +=, -= and multiplication by numbers.
Element: TypeAlias = Any


class Space(ABC):
    """A Hilbert space of functions f(x, k); solvers use only these operations.

    Elements are arrays, or anything that can be copied, added to (``+=``, ``-=``) and multiplied by
    numbers. Normals of planes are whatever `normals` of the space returns; solvers join them with
    `stack`, pick rows of them with brackets and hand them back.

    Attributes
    ----------
    n_features : int
        Length of an input.
    n_outputs : int
        Number of functions f(., k).
    n_pairwise : int
        Number of parameters that no input multiplies.
    capabilities : frozenset of str
        "linear in x": functions are weights of features and a constant; "kernel members": functions are
        expansions over atoms of a store.
    """

    n_features: int
    n_outputs: int
    n_pairwise: int = 0
    # A class that defines any method anew has none of its parent's, unless it says so: its functions may
    # be others.
    capabilities: frozenset[str] = frozenset()
    # Parameters that the norm does not see, for each output: the dual has an equation for each.
    n_free: int = 0
    # Of how many blocks solvers keep the inner products of all planes together, and how many planes of
    # a block before they average the lightest.
    blocks_in_a_set: int = 128
    planes_of_a_block: int = 10

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        kinds = (FunctionType, property, classmethod, staticmethod)
        own = {name for name, value in vars(cls).items() if isinstance(value, kinds)}
        if "capabilities" not in vars(cls) and own - {"__init__"}:
            cls.capabilities = frozenset()

    def rows_at_once(self, bound: BoundOracle) -> int:
        """Of how many rows of a bound oracle `worst` holds the members at a time.

        All, by default. Solvers may look at the clock between two portions.
        """
        return max(1, bound.X.shape[0])

    def certified_at_once(self, bound: BoundOracle, n_labels: int) -> int:
        """For how many rows of a bound oracle `worst` is asked together with the rounding."""
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
        """By how much each label exceeds the true one at the worst changes of some rows.

        Parameters
        ----------
        f : element
            It must not change before `Violations.points` is asked.
        bound : BoundOracle
        rows : slice or (n,) array of int
            The rows asked about.
        competitors : Competitors
            Of these rows.
        points : bool, default=True
            Whether `Violations.points` is asked next. Cheaper answers may do if not.
        rounding : bool, default=False
            Whether `Violations.rounding` is wanted.
        """

    @abstractmethod
    def values(self, f: Element, X: Matrix) -> np.ndarray:
        """The functions at points, (n, n_outputs).

        Parameters
        ----------
        f : element
        X : (n, n_features) array or CSR matrix
        """

    def member_values(self, f: Element, bound: BoundOracle, rows: Rows) -> np.ndarray | None:
        """The functions at all members of S(x), (n, s, n_outputs).

        None, the default, where S(x) is no list.

        Parameters
        ----------
        f : element
        bound : BoundOracle
        rows : slice or (n,) array of int
            The rows asked about.
        """
        return None

    def members(self, bound: BoundOracle, rows: Rows, index: np.ndarray) -> Any:
        """Members of a list by their numbers, in the form that `normals` takes."""
        return listed(bound).points(rows, index)

    def points(self, found: Any) -> Matrix:
        """The points, (n, n_features), that `WorstPoints.points` of this space stands for."""
        return found

    @abstractmethod
    def normals(
        self,
        points: Matrix,
        coefficients: np.ndarray,
        groups: np.ndarray | None = None,
        pairwise: Matrix | None = None,
    ) -> Normals:
        """Normals ``sum_r sum_k coefficients[r, k] e_k (x) points[r]``, summed over rows of a group.

        Parameters
        ----------
        points : (n, n_features) array or CSR matrix
            Or the form in which `worst` of the space gives points.
        coefficients : (n, n_outputs) array
        groups : (g + 1,) array of int, optional
            Group j owns the rows ``groups[j]`` to ``groups[j + 1] - 1``; by default each row is
            one.
        pairwise : (g, n_pairwise) array or CSR matrix, optional
        """

    @abstractmethod
    def owns(self, normals: Normals) -> bool:
        """Whether these can be normals of this space."""

    def related(self, f: Element) -> bool:
        """Whether an element of another space has the form of one of this, over points of its own."""
        return False

    def pairwise(self, f: Element) -> np.ndarray:
        """The parameters that no input multiplies, (n_pairwise,)."""
        return np.zeros(0)

    @abstractmethod
    def zeros(self) -> Element:
        """The zero element."""

    @abstractmethod
    def dot(self, f: Element, g: Element) -> float:
        """Inner product of two elements."""

    @abstractmethod
    def scores(self, f: Element, normals: Normals) -> np.ndarray:
        """Inner product of `f` with each normal, (m,)."""

    @abstractmethod
    def combine(self, normals: Normals, coefficients: np.ndarray) -> Element:
        """The element ``sum_j coefficients_j normal_j``."""

    @abstractmethod
    def mix(self, normals: Normals, coefficients: np.ndarray) -> Normals:
        """``sum_j coefficients_j normal_j`` as one normal, in the form that `normals` has."""

    @abstractmethod
    def gram(self, left: Normals, right: Normals) -> np.ndarray:
        """Inner products of two sets of normals, (m, k)."""

    @abstractmethod
    def stack(self, parts: Sequence[Normals]) -> Normals:
        """Normals of all parts, one below the other."""

    def fresh(self, f: Element) -> Element:
        """The same element with nothing cached, for a certificate."""
        return f

    @abstractmethod
    def element(self, f: Element) -> Normals:
        """The element `f` as a normal, (1, D)."""

    def times(self, normals: Normals, factors: np.ndarray) -> Normals:
        """Each normal times a factor of its own."""
        parts = [
            self.element(self.combine(normals[[row]], factors[[row]])) for row in range(len(factors))
        ]
        return self.stack(parts)

    def apart(self, normals: Normals) -> tuple[Normals, np.ndarray] | None:
        """Normals of a single output as those of points, ``+-z``, and factors of at least 0.

        What `times` made of them, and `normals`; None where the two cannot be told apart, as by default.
        Of a factor 0 the point is any.
        """
        return None
