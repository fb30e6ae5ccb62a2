"""Where the function lives: inner products, and how inputs become normals of planes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np

from ..compiled import njit
from ..matrices import Matrix, Rows, in_threads

# Whatever a space makes of points: rows of a matrix, or a class of its own that can be indexed.
Normals: TypeAlias = Any
# An array, or anything with copy, +=, -= and multiplication by numbers.
Element: TypeAlias = Any


class Answer(Protocol):
    """What an oracle answers; see `structinv.oracles.Support`."""

    @property
    def points(self) -> Matrix:
        """Members of S(x)."""

    @property
    def upper(self) -> np.ndarray | None:
        """Bounds, None if exact."""

    @property
    def rho(self) -> np.ndarray | None:
        """Grades, None if there are none."""


class Members(Protocol):
    """Members of each S(x) that stand for all of them; see `structinv.oracles.Cover`."""

    @property
    def points(self) -> np.ndarray:
        """The members, (n, s, d), the identity first."""

    @property
    def mesh(self) -> np.ndarray:
        """A bound on the distance of any other member to the nearest of them, (n,)."""


class Source(Protocol):
    """A bound oracle: what a space may ask of all rows together."""

    X: Matrix

    def cover(self, rows: Rows) -> Members:
        """Members of each S(x) that stand for all of them."""

    def members(self, rows: Rows, index: np.ndarray) -> Matrix:
        """Member number ``index[i]`` of each row."""


class Question(Protocol):
    """Some rows of a bound oracle, to which a space turns with functions of its own."""

    @property
    def source(self) -> Source:
        """The bound oracle."""

    @property
    def rows(self) -> Rows:
        """The rows asked about."""

    def only(self, chosen: np.ndarray) -> Question:
        """The same question about some of the rows, by their place among them."""

    def support(self, V: np.ndarray, assign: np.ndarray, reward: np.ndarray) -> Answer:
        """The member of each S(x) that is furthest along a direction."""

    def maximum(self, V: np.ndarray, assign: np.ndarray) -> np.ndarray | None:
        """The exact maxima, where they are cheaper than the members that reach them."""

    def member_scores(self, V: np.ndarray) -> np.ndarray | None:
        """``<v, z>`` for all members and directions, (n, s, p); None where S(x) is no list."""

    def members(self, index: np.ndarray) -> Matrix:
        """Member number ``index[i]`` of each row, (n, d)."""

    def grades(self) -> np.ndarray | None:
        """The grade of each member, (n, s); None if all are 1."""

    def cover(self) -> Members:
        """Members of each S(x) that stand for all of them."""

    def refine(self, index: np.ndarray, score: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        """Members near those named, with no smaller score, (n, d)."""


@dataclass(frozen=True)
class Furthest:
    """The worst members of S(x) that were found for each row and alternative, and how bad it can be.

    Parameters
    ----------
    gains : (n, a) array
        What the alternative's function reaches; 0 where an alternative does not compete.
    rewards : (n, a) array
        Worth of a change, times the grade of the point.
    upper : (n, a) array
        Bound on the largest gain plus reward.
    points : callable, optional
        From an alternative for each row (-1 for none) to the points that reach the gains, in the
        form that `Space.normals` takes; None if they were not asked for.
    """

    gains: np.ndarray
    rewards: np.ndarray
    upper: np.ndarray
    points: Callable[[np.ndarray], Any] | None


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
    """

    n_features: int
    n_outputs: int
    n_extra: int = 0
    # Parameters that the norm does not see, for each output: the dual has an equation for each.
    n_free: int = 0
    # Of how many blocks solvers keep the inner products of all planes together, and how many planes of
    # a block before they average the lightest.
    blocks_in_a_set: int = 128
    planes_of_a_block: int = 10

    def rows_at_once(self, source: Source) -> int:
        """Of how many rows of a bound oracle `furthest` holds the members at a time.

        All, by default. Solvers may look at the clock between two portions.
        """
        return max(1, source.X.shape[0])

    @abstractmethod
    def furthest(
        self,
        f: Element,
        question: Question,
        tables: np.ndarray,
        codes: np.ndarray,
        worth: np.ndarray,
        points: bool = True,
    ) -> Furthest:
        """Ask where in S(x) the functions ``sum_k tables[a, c, k] f(., k)`` are largest, c a row's code.

        Parameters
        ----------
        f : element
        question : Question
        tables : (n_alternatives, n_classes, n_outputs) array
        codes : (n,) array of int
        worth : (n_alternatives, n_classes) array
            Worth of an ungraded change.
        points : bool, default=True
            Whether the points are wanted, or only what is reached there.
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


def best_members(
    values: np.ndarray,
    tables: np.ndarray,
    codes: np.ndarray,
    worth: np.ndarray,
    grades: np.ndarray | None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The member of each row's list that is worst for it, for every alternative.

    Parameters
    ----------
    values : (n, s, n_outputs) array
        ``f(z, k)`` for every member z.
    tables, codes, worth
        See `Space.furthest`.
    grades : (n, s) array or None

    Returns
    -------
    gains, rewards : (n, n_alternatives) arrays
    members : (n, n_alternatives) array of int
        The first of equals.
    """
    n, s, _ = values.shape
    shape = (n, len(tables))
    gains, rewards = np.zeros(shape), np.zeros(shape)
    members = np.zeros(shape, dtype=np.int64)
    outputs, factors = terms_of(tables)
    # The innermost loops run over members; who makes the values lays them out like that.
    values = np.ascontiguousarray(values.swapaxes(1, 2))
    share = np.ones((1, s)) if grades is None else np.ascontiguousarray(grades)

    def work(part: slice) -> None:
        mine = share if grades is None else share[part]
        _best_members(
            values[part], outputs, factors, codes[part], worth, mine,
            gains[part], rewards[part], members[part],
        )  # fmt: skip

    # A value is little work for a thread.
    in_threads(work, n, values.size // 8)
    return gains, rewards, members


def competing(tables: np.ndarray, worth: np.ndarray) -> np.ndarray:
    """Whether an alternative can cost anything for a class, (n_alternatives, n_classes)."""
    return np.any(tables != 0, axis=2) | (worth > 0)


def terms_of(tables: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The outputs that each alternative's function is made of, and their factors, both (a, c, t).

    Most functions are differences of two outputs: a list of terms spares the zeros.
    """
    n_terms = max(int(np.count_nonzero(tables, axis=2).max(initial=0)), 1)
    outputs = np.ascontiguousarray(np.argsort(tables == 0, axis=2, kind="stable")[:, :, :n_terms])
    factors = np.ascontiguousarray(np.take_along_axis(tables, outputs, axis=2), dtype=np.float64)
    return outputs, factors


@njit(cache=True, nogil=True)
def _best_members(values, outputs, factors, codes, worth, grades, gains, rewards, members):
    n, _, s = values.shape
    n_alternatives, _, n_terms = factors.shape
    heights = np.empty(s)
    for i in range(n):
        if not np.isfinite(_total(values[i])):
            # So that the caller sees it: comparisons would pass it over.
            gains[i] = np.nan
            continue
        c, row = codes[i], min(i, grades.shape[0] - 1)
        for a in range(n_alternatives):
            for m in range(s):
                heights[m] = worth[a, c] * grades[row, m]
            for t in range(n_terms):
                factor, k = factors[a, c, t], outputs[a, c, t]
                for m in range(s):
                    heights[m] += factor * values[i, k, m]
            best, highest = 0, heights[0]
            for m in range(1, s):
                if heights[m] > highest:
                    best, highest = m, heights[m]
            reward = worth[a, c] * grades[row, best]
            gains[i, a], rewards[i, a], members[i, a] = highest - reward, reward, best


@njit(cache=True, nogil=True, fastmath={"reassoc"})
def _total(values):
    total = 0.0
    for k in range(values.shape[0]):
        for m in range(values.shape[1]):
            total += values[k, m]
    return total
