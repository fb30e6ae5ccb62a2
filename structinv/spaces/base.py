"""Where the function lives: inner products, and how inputs become normals of planes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from types import FunctionType
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from ..compiled import njit
from ..matrices import Matrix, Rows, in_threads
from ..structures.rivals import Rivals

if TYPE_CHECKING:
    from ..oracles.base import BoundOracle

# Whatever a space makes of points: rows of a matrix, or a class of its own that can be indexed.
Normals: TypeAlias = Any
# An array, or anything with copy, +=, -= and multiplication by numbers.
Element: TypeAlias = Any


@dataclass(frozen=True)
class Furthest:
    """What labels win against the true ones at the worst members of S(x), and how bad it can be.

    Parameters
    ----------
    gains : (n, n_labels) array
        What the label's function has more than the true one's there, times the factor G; 0 for the true
        label.
    costs : (n, n_labels) array
        Cost of the label, times the grade of the member.
    upper : (n, n_labels) array
        Bound on the largest gain plus cost.
    members : (n, n_labels) array of int, optional
        Which member that is, where S(x) is a list or has a cover.
    moved : Moved, optional
        Members off the cover that are worse.
    points : array or CSR matrix, optional
        The members that reach the gains of the only rival, where there is one a row.
    """

    gains: np.ndarray
    costs: np.ndarray
    upper: np.ndarray
    members: np.ndarray | None = None
    moved: Moved | None = None
    points: Any = None

    def take(self, rows: np.ndarray) -> Furthest:
        """Of some of the rows."""
        members = None if self.members is None else self.members[rows]
        moved = None if self.moved is None else self.moved[rows]
        points = None if self.points is None else self.points[rows]
        return Furthest(self.gains[rows], self.costs[rows], self.upper[rows], members, moved, points)


@dataclass(frozen=True)
class Moved:
    """Members of S(x) off its cover: a point a row, and the label that it was moved for, or -2.

    Parameters
    ----------
    points : (n, d) array
    labels : (n,) array of int
    """

    points: np.ndarray
    labels: np.ndarray

    def __getitem__(self, rows: np.ndarray) -> Moved:
        return Moved(self.points[rows], self.labels[rows])


@dataclass(frozen=True)
class Reached:
    """The worst member of each row for one label: the point, and what the label wins and costs there.

    Parameters
    ----------
    points : array, CSR matrix, or keys of points
        In the form that `Space.normals` takes.
    gains, costs : (n,) arrays
    """

    points: Any
    gains: np.ndarray
    costs: np.ndarray


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
    n_extra : int
        Number of parameters that no input multiplies.
    capabilities : frozenset of str
        "linear in x": functions are weights of features and a constant; "kernel members": functions are
        expansions over atoms of a store.
    """

    n_features: int
    n_outputs: int
    n_extra: int = 0
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
        """Of how many rows of a bound oracle `furthest` holds the members at a time.

        All, by default. Solvers may look at the clock between two portions.
        """
        return max(1, bound.X.shape[0])

    @abstractmethod
    def furthest(
        self, f: Element, bound: BoundOracle, rows: Rows, rivals: Rivals, points: bool = True
    ) -> Furthest:
        """Ask where in S(x) each label wins most against the true one.

        Parameters
        ----------
        f : element
        bound : BoundOracle
        rows : slice or (n,) array of int
            The rows asked about.
        rivals : Rivals
            Of these rows.
        points : bool, default=True
            Whether `reach` is asked next; cheaper answers may do if not.
        """

    def member_values(self, f: Element, bound: BoundOracle, rows: Rows) -> np.ndarray | None:
        """What the functions are at all members of S(x), (n, s, n_outputs).

        None, the default, where S(x) is no list. `reach` takes numbers of members from `Furthest`.

        Parameters
        ----------
        f : element
        bound : BoundOracle
        rows : slice or (n,) array of int
            The rows asked about.
        """
        return None

    def largest_leads(
        self, f: Element, bound: BoundOracle, codes: np.ndarray, cost: np.ndarray
    ) -> np.ndarray | None:
        """Losses of all rows, (n,), of labels with a function each, where cheaper than `furthest`.

        Parameters
        ----------
        f : element
        bound : BoundOracle
        codes : (n,) array of int
            True labels.
        cost : (n_outputs, n_outputs) array
            Cost of each label (column) where another is true (row).
        """
        return None

    @abstractmethod
    def reach(
        self,
        f: Element,
        bound: BoundOracle,
        rows: Rows,
        rivals: Rivals,
        found: Furthest,
        labels: np.ndarray,
    ) -> Reached:
        """The worst members for one label of each row, after `furthest`.

        Parameters
        ----------
        f, bound, rows, rivals
            As `furthest` was asked with.
        found : Furthest
            What it answered.
        labels : (n,) array of int
            Where that is the true one, the point is any.
        """

    @abstractmethod
    def normals(
        self,
        points: Matrix,
        coefficients: np.ndarray,
        groups: np.ndarray | None = None,
        extra: Matrix | None = None,
    ) -> Normals:
        """Normals ``sum_r sum_k coefficients[r, k] e_k (x) points[r]``, summed over rows of a group.

        Parameters
        ----------
        points : (n, n_features) array or CSR matrix
            Or whatever else the space's own `Furthest` gives as points.
        coefficients : (n, n_outputs) array
        groups : (g + 1,) array of int, optional
            Group j owns the rows ``groups[j]`` to ``groups[j + 1] - 1``; by default each row is
            one.
        extra : (g, n_extra) array or CSR matrix, optional
        """

    @abstractmethod
    def owns(self, normals: Normals) -> bool:
        """Whether these can be normals of this space."""

    def related(self, f: Element) -> bool:
        """Whether an element of another space has the form of one of this, over points of its own."""
        return False

    def extra(self, f: Element) -> np.ndarray:
        """The parameters that no input multiplies, (n_extra,)."""
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


def best_members(
    values: np.ndarray, rivals: Rivals, grades: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The member of each row's list at which each label wins most.

    Parameters
    ----------
    values : (n, s, n_outputs) array
        ``f(z, k)`` for every member z.
    rivals : Rivals
    grades : (n, s) array or None

    Returns
    -------
    gains, costs : (n, n_labels) arrays
        See `Furthest`.
    members : (n, n_labels) array of int
        The first of equals.
    """
    n, s, _ = values.shape
    shape = (n, rivals.n_labels)
    gains, costs = np.zeros(shape), np.zeros(shape)
    members = np.zeros(shape, dtype=np.int64)
    # The innermost loops run over members; who makes the values lays them out like that.
    values = np.ascontiguousarray(values.swapaxes(1, 2))
    share = np.ones((1, s)) if grades is None else np.ascontiguousarray(grades)
    functions = rivals.functions.outputs, rivals.functions.signs

    def work(part: slice) -> None:
        mine = share if grades is None else share[part]
        _best_members(
            values[part], *functions, rivals.codes[part], rivals.costs[part], rivals.slack, mine,
            gains[part], costs[part], members[part],
        )  # fmt: skip
        # So that the caller sees it: comparisons pass over what is no number.
        with np.errstate(over="ignore", invalid="ignore"):
            gains[part][~np.isfinite(values[part].sum(axis=(1, 2), dtype=np.float64))] = np.nan

    # A value is little work for a thread.
    in_threads(work, n, values.size // 8)
    return gains, costs, members


@njit(cache=True, nogil=True)
def _best_members(values, outputs, signs, codes, worth, slack, grades, gains, costs, members):
    n, _, s = values.shape
    for i in range(n):
        c, row = codes[i], i if grades.shape[0] > 1 else 0
        truth = values[i, outputs[c]]
        for k in range(len(outputs)):
            if k == c:
                continue
            theirs, cost = values[i, outputs[k]], worth[i, k]
            factor = cost if slack else 1.0
            best, highest = 0, -np.inf
            for m in range(s):
                height = factor * (signs[k] * theirs[m] - signs[c] * truth[m]) + cost * grades[row, m]
                if height > highest:
                    best, highest = m, height
            costs[i, k] = cost * grades[row, best]
            gains[i, k], members[i, k] = highest - costs[i, k], best
