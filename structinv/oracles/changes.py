"""Lists of changes: members of S(x) by number, with points, scores, names and probabilities."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from hashlib import blake2b
from typing import Any, Self

import numpy as np
import scipy.sparse as sp

from ..utils.matrices import ALL_ROWS, Matrix, Rows, count, dense_rows, floating, take
from .arguments import profile_of_list

# Rows of the unit matrix that are moved at once.
_AT_ONCE = 64
_EPS = float(np.finfo(np.float64).eps)
# By how much the entries of T'T may miss those of the unit matrix.
_ISOMETRY = 1e-9
# Changes that can be drawn: those of a row are in memory at once.
MOST_CHANGES = 2**20
# Beyond so many pairs of changes their differences are not looked for.
MOST_PAIRS = 250_000


class Changes(ABC):
    """A list of changes of some rows: the same changes, in the same order, for every row.

    `InvarianceOracle.changes` lists the members of S(x), the row itself first, and
    `InvarianceOracle.draws` draws some. A subclass gives `size` and `members`. A list that only stands
    for an infinite set gives its `mesh`, too, and may `refine`.

    Parameters
    ----------
    X : (n, d) array or CSR matrix
        The rows that change.
    y : (n,) array, optional
        Their labels.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.oracles import Flip
    >>> changes = Flip(shape=(1, 3)).changes(np.array([[1.0, 2.0, 3.0]]))
    >>> changes.names
    ['identity', 'flip left-right']
    >>> changes.members()
    array([[[1., 2., 3.],
            [3., 2., 1.]]])
    """

    # Whose list it is, for messages.
    source = ""
    # Whether the best member may be found by scores. If not, the oracle is asked for it.
    scored = True

    def __init__(self, X: Matrix, y: np.ndarray | None = None) -> None:
        self.X = X
        self.y = y
        self._weights: np.ndarray | None = None
        self._rho: float | Sequence[float] | None = None
        # The last directions that were moved, and their images; the last scores.
        self._moved: tuple[np.ndarray, np.ndarray | None] | None = None
        self._scores: tuple[Rows, np.ndarray, np.ndarray | None] | None = None

    @property
    @abstractmethod
    def size(self) -> int:
        """How many changes there are."""

    @abstractmethod
    def members(self, rows: Rows = ALL_ROWS, numbers: np.ndarray | None = None) -> np.ndarray:
        """Members of the rows named, (n, s, d), dense: all of them, or those with these numbers."""

    def points(self, rows: Rows, index: np.ndarray) -> Any:
        """Member number ``index[i]`` of each row named, (n, d); sparse where the list keeps it so."""
        members = self.members(rows)
        if np.max(index, initial=0) >= members.shape[1]:
            raise ValueError(
                f"index must hold numbers of members, 0 to {members.shape[1] - 1}, got {index}"
            )
        return members[np.arange(len(members)), index]

    @property
    def names(self) -> list[str]:
        """A short name of each change."""
        return ["identity", *(f"change {number}" for number in range(1, self.size))]

    @property
    def weights(self) -> np.ndarray:
        """The probability of each change, (s,): all alike by default."""
        if self._weights is None:
            self._weights = normalized(self._own_weights())
        return self._weights

    def _own_weights(self) -> np.ndarray:
        """The probabilities, up to a factor."""
        return np.ones(self.size)

    def on(self, X: Matrix, y: np.ndarray | None = None) -> Self:
        """The same changes of other rows."""
        other = copy.copy(self)
        other.X, other.y = X, y
        other._moved = other._scores = None
        other._moved_to(X, y)
        return other

    def _moved_to(self, X: Matrix, y: np.ndarray | None) -> None:  # noqa: B027
        """Move the lists that this one is made of, too."""

    def scores(self, rows: Rows, V: np.ndarray) -> np.ndarray | None:
        """``<v, z>`` for all members z of the rows named and all directions v, (n, s, p).

        One product where changes are fixed linear maps; directions are then moved only once. None
        where the best member is to be asked of the oracle.
        """
        if not self.scored:
            return None
        flat = None if sp.issparse(self.X) else self._flat(V)
        if flat is None:
            return self._member_scores(rows, V)
        part = floating(take(self.X, rows))
        return (part @ flat).reshape(part.shape[0], flat.shape[1] // len(V), len(V))

    def _flat(self, V: np.ndarray) -> np.ndarray | None:
        """The moved directions as the matrix (d, s * p) that rows are multiplied with."""
        # Threads may ask about different directions.
        moved = self._moved
        if moved is None or not np.array_equal(moved[0], V):
            # What comes back may be a view of what was asked.
            asked = V.copy()
            maps, flat = self.adjoint(asked), None
            if maps is not None:
                dtype = floating(self.X[:0]).dtype
                flat = maps.reshape(-1, maps.shape[2]).astype(dtype, copy=False).T
            moved = self._moved = asked, flat
        return moved[1]

    def _member_scores(self, rows: Rows, V: np.ndarray) -> np.ndarray | None:
        """`scores` where changes are no fixed linear maps."""
        return None

    def _last_scores(self, rows: Rows, V: np.ndarray) -> np.ndarray | None:
        """`scores`, kept until others are asked for: each member is asked about in turn."""
        last = self._scores
        if last is None or not _same_rows(last[0], rows) or not np.array_equal(last[1], V):
            last = self._scores = rows, V.copy(), self.scores(rows, V)
        return last[2]

    def grades(self, rows: Rows = ALL_ROWS) -> np.ndarray | None:
        """The grade rho of each member of the rows named, (n, s); None if all are 1."""
        if self._rho is None:
            return None
        if np.any(self.mesh(slice(0, 1)) > 0):
            raise NotImplementedError(
                f"{self.source} has no grades between listed members, so it cannot be discounted"
            )
        return np.tile(self._profile(self._rho), (self.count(rows), 1))

    def _profile(self, rho: float | Sequence[float]) -> np.ndarray:
        """The grade of each change, (s,): a number is that of all but the identity."""
        return profile_of_list(rho, self.size)

    def graded(self, rho: float | Sequence[float]) -> Self:
        """The same list with grades; see `InvarianceOracle.discounted`."""
        other = copy.copy(self)
        other._rho = rho
        return other

    def mesh(self, rows: Rows = ALL_ROWS) -> np.ndarray:
        """How far another member of S(x) may be from the nearest of the list, (n,).

        0, the default, where the members are all there are; infinity where nothing is known.
        """
        return np.zeros(self.count(rows))

    def refine(
        self, rows: Rows, index: np.ndarray, score: Callable[[np.ndarray], np.ndarray]
    ) -> np.ndarray:
        """Members of S(x) near those of these numbers, with no smaller `score`, (n, d).

        Parameters
        ----------
        rows : slice or (n,) array of int
        index : (n,) array of int
        score : callable
            From points (n, d), one for each row, to numbers (n,).
        """
        return self.points(rows, index)

    def adjoint(self, V: np.ndarray) -> np.ndarray | None:
        """``T'v`` for all changes and directions v (p, d), (s, p, d), if all are fixed linear maps T.

        None, the default, where they are not.
        """
        return None

    def linear(self) -> LinearChanges | None:
        """The same changes by their matrices; None, the default, where they have none."""
        return None

    def take(self, numbers: Sequence[int] | np.ndarray, weights: np.ndarray | None = None) -> Changes:
        """The changes with these numbers, in this order, some perhaps several times.

        Their probabilities are the weights given or else their own, up to a factor.
        """
        chosen = np.asarray(numbers, dtype=np.intp)
        return SelectedChanges(self, chosen, self.weights[chosen] if weights is None else weights)

    def weighted(self, weights: np.ndarray) -> Self:
        """The same list with other probabilities, given up to a factor."""
        other = copy.copy(self)
        other._weights = normalized(weights)
        return other

    def drawn(self, n_draws: int, random_state: int) -> Changes:
        """`n_draws` changes drawn by their probabilities, with replacement; all count alike."""
        numbers = np.random.default_rng(random_state).choice(self.size, n_draws, p=self.weights)
        return self.take(numbers, np.ones(n_draws))

    def likely(self) -> Changes:
        """The changes whose probability is not 0."""
        return self if np.all(self.weights) else self.take(np.flatnonzero(self.weights))

    def listed_in(self) -> tuple[Changes, np.ndarray | None]:
        """The list that these changes are taken from, and their numbers there; None for all."""
        return self, None

    def norm_bound(self, n_features: int) -> float:
        """A bound on ``E |T|`` for fixed linear maps: means move no more than so many times as far.

        The norm of a map is at most the geometric mean of its largest absolute sums of a row and of a
        column (Horn and Johnson 2013, example 5.6.P21). Infinity where changes are no fixed linear maps.
        """
        columns, rows = np.zeros((self.size, n_features)), np.zeros(self.size)
        for first in range(0, n_features, _AT_ONCE):
            unit = np.eye(min(_AT_ONCE, n_features - first), n_features, first)
            moved = self.adjoint(unit)
            if moved is None:
                return np.inf
            sizes = np.abs(moved)
            columns += sizes.sum(axis=1)
            rows = np.maximum(rows, sizes.sum(axis=2).max(axis=1))
        # Sums of so many terms round by so much.
        return float(self.weights @ np.sqrt(rows * columns.max(axis=1))) * (1.0 + n_features * _EPS)

    def differences(self, most: int | None = None) -> LinearChanges | None:
        """The changes ``g^-1 g'`` for independent g and g', where all keep inner products.

        Whether they do is measured on their matrices. None where they do not, or have no matrices, or
        where there are more than `most` different ones.
        """
        linear = self.linear()
        return None if linear is None else linear.differences(most)

    def sides(self, *, reordering: bool = False) -> tuple[Changes | None, Changes]:
        """Changes a and b with ``E k(a x, b y) = E k(g x, g' y)``, and as few pairs as are known.

        Parameters
        ----------
        reordering : bool, default=False
            Whether k keeps its values under reorderings of features only, not under all maps of both
            inputs that keep inner products.

        Returns
        -------
        left : Changes or None
            None for no change.
        right : Changes
        """
        found = usable_differences(self, reordering)
        return (self, self) if found is None else (None, found)

    def count(self, rows: Rows) -> int:
        """How many rows a selection names."""
        return count(rows, self.X.shape[0])

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.size} changes)"


class SelectedChanges(Changes):
    """Some of the changes of a list, in any order: see `Changes.take`.

    Parameters
    ----------
    whole : Changes
    numbers : (s,) array of int
    weights : (s,) array
    """

    def __init__(self, whole: Changes, numbers: np.ndarray, weights: np.ndarray) -> None:
        super().__init__(whole.X, whole.y)
        self.whole = whole
        self.numbers = numbers
        self._weights = normalized(weights)
        self.scored = whole.scored

    @property
    def size(self) -> int:
        return len(self.numbers)

    @property
    def names(self) -> list[str]:
        names = self.whole.names
        return [names[number] for number in self.numbers]

    def _moved_to(self, X: Matrix, y: np.ndarray | None) -> None:
        self.whole = self.whole.on(X, y)

    def members(self, rows: Rows = ALL_ROWS, numbers: np.ndarray | None = None) -> np.ndarray:
        return self.whole.members(rows, self.numbers if numbers is None else self.numbers[numbers])

    def points(self, rows: Rows, index: np.ndarray) -> Any:
        return self.whole.points(rows, self.numbers[index])

    def scores(self, rows: Rows, V: np.ndarray) -> np.ndarray | None:
        if not self.scored:
            return None
        scores = self.whole._last_scores(rows, V) if self.size == 1 else self.whole.scores(rows, V)
        return None if scores is None else scores[:, self.numbers]

    def grades(self, rows: Rows = ALL_ROWS) -> np.ndarray | None:
        grades = self.whole.grades(rows)
        return None if grades is None else grades[:, self.numbers]

    def graded(self, rho: float | Sequence[float]) -> SelectedChanges:
        return SelectedChanges(self.whole.graded(rho), self.numbers, self.weights)

    def mesh(self, rows: Rows = ALL_ROWS) -> np.ndarray:
        return self.whole.mesh(rows)

    def refine(
        self, rows: Rows, index: np.ndarray, score: Callable[[np.ndarray], np.ndarray]
    ) -> np.ndarray:
        return self.whole.refine(rows, self.numbers[index], score)

    def adjoint(self, V: np.ndarray) -> np.ndarray | None:
        moved = self.whole.adjoint(V)
        return None if moved is None else moved[self.numbers]

    def linear(self) -> LinearChanges | None:
        linear = self.whole.linear()
        if linear is None:
            return None
        maps = [linear.maps[number] for number in self.numbers]
        return LinearChanges(self.X, maps, weights=self.weights)

    def take(self, numbers: Sequence[int] | np.ndarray, weights: np.ndarray | None = None) -> Changes:
        chosen = np.asarray(numbers, dtype=np.intp)
        weights = self.weights[chosen] if weights is None else weights
        return self.whole.take(self.numbers[chosen], weights)

    def listed_in(self) -> tuple[Changes, np.ndarray | None]:
        return self.whole, self.numbers


class LinearChanges(Changes):
    """Fixed linear maps, given by their matrices.

    Parameters
    ----------
    X : (n, d) array or CSR matrix
        The rows that change.
    maps : sequence of (d, d) CSR matrices
        Member k of a row x is ``maps[k] @ x``.
    names : sequence of str, optional
    weights : (s,) array, optional
        Probabilities, up to a factor.

    Attributes
    ----------
    permutes : bool
        Whether every map only reorders features.

    Examples
    --------
    An oracle of fixed linear maps:

    >>> import numpy as np
    >>> import scipy.sparse as sp
    >>> from structinv.oracles import FiniteOracle, LinearChanges
    >>> class Reversal(FiniteOracle):
    ...     "A signal read backward keeps its label."
    ...     def orbit(self, X):
    ...         return np.stack([X, X[:, ::-1]], axis=1)
    ...     def changes(self, X, y=None):
    ...         keep = sp.identity(X.shape[1], format="csr")
    ...         return LinearChanges(X, [keep, keep[::-1]])
    >>> Reversal().changes(np.zeros((1, 3))).linear().isometric
    True
    """

    def __init__(
        self,
        X: Matrix,
        maps: Sequence[sp.csr_matrix],
        names: Sequence[str] | None = None,
        weights: np.ndarray | None = None,
    ) -> None:
        super().__init__(X)
        self.maps = list(maps)
        self._names = names
        self._weights = None if weights is None else normalized(weights)
        self.permutes = all(map(_reorders, self.maps))

    @property
    def size(self) -> int:
        return len(self.maps)

    @property
    def names(self) -> list[str]:
        return super().names if self._names is None else list(self._names)

    def members(self, rows: Rows = ALL_ROWS, numbers: np.ndarray | None = None) -> np.ndarray:
        part = dense_rows(floating(take(self.X, rows)))
        chosen = range(self.size) if numbers is None else numbers
        found = np.empty((len(part), len(chosen), part.shape[1]), dtype=part.dtype)
        for place, number in enumerate(chosen):
            each = self.maps[number]
            found[:, place] = part[:, each.indices] if self.permutes else (each @ part.T).T
        return found

    def adjoint(self, V: np.ndarray) -> np.ndarray:
        return np.stack([V @ each for each in self.maps])

    def linear(self) -> LinearChanges:
        return self

    @cached_property
    def isometric(self) -> bool:
        """Whether every map keeps inner products, measured on its matrix."""
        return all(map(_keeps_products, self.maps))

    def differences(self, most: int | None = None) -> LinearChanges | None:
        if self.size**2 > MOST_PAIRS or not self.isometric:
            return None
        # The first pair that has each difference, by a digest: there may be as many as pairs.
        first: dict[bytes, tuple[int, int]] = {}
        shares: dict[bytes, float] = {}
        for left in range(self.size):
            for right, key in enumerate(self._keys(left)):
                first.setdefault(key, (left, right))
                shares[key] = shares.get(key, 0.0) + self.weights[left] * self.weights[right]
            if most is not None and len(first) > most:
                return None
        maps = [_rounded(self.maps[left].T @ self.maps[right], 14) for left, right in first.values()]
        return LinearChanges(self.X, maps, weights=np.array(list(shares.values())))

    def _keys(self, left: int) -> Iterator[bytes]:
        """Digests of the differences of one map and all others."""
        if self.permutes:
            order = np.argsort(self.maps[left].indices)
            return (_digest(right.indices[order]) for right in self.maps)
        back = self.maps[left].T.tocsr()
        return (_key(_rounded(back @ right, 14)) for right in self.maps)


def draw_names(size: int) -> list[str]:
    """Names of `size` drawn changes, none of which is the identity."""
    return [f"draw {number}" for number in range(1, size + 1)]


def normalized(weights: np.ndarray) -> np.ndarray:
    """Weights with sum 1."""
    weights = np.asarray(weights, dtype=np.float64)
    return weights / np.sum(weights)


def usable_differences(changes: Changes, reordering: bool) -> LinearChanges | None:
    """The differences of changes, where they move one side and are worth it."""
    # Those of drawn changes hardly meet: as many as pairs, which would have to be kept.
    found = changes.differences(max(2, changes.size**2) // 2)
    return None if found is None or (reordering and not found.permutes) else found


def _same_rows(left: Rows, right: Rows) -> bool:
    if isinstance(left, slice) or isinstance(right, slice):
        return left is right or (type(left) is type(right) and left == right)
    return np.array_equal(left, right)


def _reorders(each: sp.csr_matrix) -> bool:
    ones = len(each.data) == each.shape[0] and np.all(each.data == 1.0)
    return bool(ones and np.all(np.diff(each.indptr) == 1) and len(set(each.indices)) == each.shape[0])


def _keeps_products(each: sp.csr_matrix) -> bool:
    if _reorders(each):
        return True
    off = each.T @ each - sp.identity(each.shape[0], format="csr")
    return bool(np.max(np.abs(off.data), initial=0.0) <= _ISOMETRY)


def _rounded(each: sp.csr_matrix, digits: int) -> sp.csr_matrix:
    """Without rounding errors, as far as digits tell."""
    each = sp.csr_matrix(each, copy=True)
    each.data = np.round(each.data, digits) + 0.0
    each.eliminate_zeros()
    each.sort_indices()
    return each


def _key(each: sp.csr_matrix) -> bytes:
    """The same for maps that are equal up to rounding errors."""
    coarse = _rounded(each, 9)
    return _digest(coarse.indptr, coarse.indices, coarse.data)


def _digest(*arrays: np.ndarray) -> bytes:
    found = blake2b(digest_size=16)
    for each in arrays:
        found.update(each.tobytes())
    return found.digest()
