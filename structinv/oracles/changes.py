"""Numbered lists of perturbed samples: scores, names, grades, probabilities."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from functools import cached_property
from hashlib import blake2b
from typing import Any, Self

import numpy as np
import scipy.sparse as sp

from ..regions.curve_regions import Score
from ..utils.matrices import ALL_ROWS, Matrix, Rows, count, dense_rows, floating, take
from .arguments import profile_of_list

# Number of rows of the unit matrix that are transformed together.
_AT_ONCE = 64
_EPS = float(np.finfo(np.float64).eps)
# Tolerance of the entries of T'T - I.
_ISOMETRY = 1e-9
# Maximum number of draws: those of one row are in memory together.
MOST_CHANGES = 2**20
# Maximum number of pairs of perturbations for which `differences` are computed.
MOST_PAIRS = 250_000


class Changes(ABC):
    """A numbered list of perturbations, the same for every sample.

    `InvarianceOracle.changes` lists the members of S(x), with the unperturbed sample first. A subclass
    implements `size` and `members`. If the list is a cover of an infinite set, it also implements
    `mesh`, and optionally `refine`. Methods `scores`, `adjoint` and `linear` of classes from outside
    structinv are not used. Return `LinearChanges` if perturbations are linear maps.

    Parameters
    ----------
    X : array or CSR matrix of shape (n_samples, n_features)
        Samples.
    y : array of shape (n_samples,), optional
        True labels.

    See Also
    --------
    LinearChanges : List of fixed linear maps.
    InvarianceOracle.changes : Create the list of an oracle.

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

    # Name of the class or method that made the list, for messages.
    source = ""
    # True if the best member may be found by `scores`. If False, the oracle's `support` finds it.
    scored = True

    def __init__(self, X: Matrix, y: np.ndarray | None = None) -> None:
        self.X = X
        self.y = y
        self._weights: np.ndarray | None = None
        self._rho: float | Sequence[float] | None = None
        # Caches: the last directions v with T'v of all maps T, and the last scores.
        self._cached_images: tuple[np.ndarray, np.ndarray | None] | None = None
        self._scores: tuple[Rows, np.ndarray, np.ndarray | None] | None = None

    @property
    @abstractmethod
    def size(self) -> int:
        """Number of perturbations in the list."""

    @abstractmethod
    def members(self, rows: Rows = ALL_ROWS, numbers: np.ndarray | None = None) -> np.ndarray:
        """Compute members of S(x) as dense vectors.

        Parameters
        ----------
        rows : slice or array of int of shape (n_rows,), default=ALL_ROWS
            Rows of `X`.
        numbers : array of int of shape (n_numbers,), optional
            Numbers of the members; all members by default.

        Returns
        -------
        array of shape (n_rows, n_numbers, n_features)
            The members.
        """

    def points(self, rows: Rows, index: np.ndarray) -> Any:
        """Compute one member of S(x) for each row.

        Parameters
        ----------
        rows : slice or array of int of shape (n_rows,)
            Rows of `X`.
        index : array of int of shape (n_rows,)
            Number of the member for each row.

        Returns
        -------
        array or CSR matrix of shape (n_rows, n_features)
            The members, as a CSR matrix only if the list stores CSR matrices.
        """
        members = self.members(rows)
        if np.max(index, initial=0) >= members.shape[1]:
            raise ValueError(
                f"index must contain numbers of perturbed samples, from 0 to {members.shape[1] - 1}, "
                f"got {index}"
            )
        return members[np.arange(len(members)), index]

    @property
    def names(self) -> list[str]:
        """Short name of each perturbation."""
        return ["identity", *(f"change {number}" for number in range(1, self.size))]

    @property
    def weights(self) -> np.ndarray:
        """Probability of each perturbation, (size,); equal by default."""
        if self._weights is None:
            self._weights = normalized(self._own_weights())
        return self._weights

    def _own_weights(self) -> np.ndarray:
        """Return the default probabilities, up to a factor."""
        return np.ones(self.size)

    def on(self, X: Matrix, y: np.ndarray | None = None) -> Self:
        """Return the list of the same perturbations for other samples.

        Parameters
        ----------
        X : array or CSR matrix of shape (n_samples, n_features)
            Samples.
        y : array of shape (n_samples,), optional
            True labels.

        Returns
        -------
        Changes
            A copy of this list.
        """
        other = copy.copy(self)
        other.X, other.y = X, y
        other._cached_images = other._scores = None
        other._moved_to(X, y)
        return other

    def _moved_to(self, X: Matrix, y: np.ndarray | None) -> None:  # noqa: B027
        """Move the lists inside this one to other samples; called by `on`."""

    def scores(self, rows: Rows, V: np.ndarray) -> np.ndarray | None:
        """Compute the inner products of all members and directions.

        Fixed linear maps require one matrix product. The transformed directions are cached.

        Parameters
        ----------
        rows : slice or array of int of shape (n_rows,)
            Rows of `X`.
        V : array of shape (n_directions, n_features)
            Directions.

        Returns
        -------
        array of shape (n_rows, size, n_directions) or None
            ``<v, z>``; None if the oracle's `support` finds the best member instead.
        """
        if not self.scored:
            return None
        images = None if sp.issparse(self.X) else self._flat(V)
        if images is None:
            return self._member_scores(rows, V)
        part = floating(take(self.X, rows))
        return (part @ images).reshape(part.shape[0], images.shape[1] // len(V), len(V))

    def _flat(self, V: np.ndarray) -> np.ndarray | None:
        """Return T'v of all maps and directions, (d, s * p); rows times it are scores."""
        # Read once: other threads may replace the cache.
        cached = self._cached_images
        if cached is None or not np.array_equal(cached[0], V):
            # `adjoint` may return views of the directions.
            directions = V.copy()
            maps, matrix = self.adjoint(directions), None
            if maps is not None:
                dtype = floating(self.X[:0]).dtype
                matrix = maps.reshape(-1, maps.shape[2]).astype(dtype, copy=False).T
            cached = self._cached_images = directions, matrix
        return cached[1]

    def _member_scores(self, rows: Rows, V: np.ndarray) -> np.ndarray | None:
        """Compute `scores` if the perturbations are not fixed linear maps."""
        return None

    def _last_scores(self, rows: Rows, V: np.ndarray) -> np.ndarray | None:
        """Return cached `scores`, since callers need the scores of one member after another."""
        last = self._scores
        if last is None or not _same_rows(last[0], rows) or not np.array_equal(last[1], V):
            last = self._scores = rows, V.copy(), self.scores(rows, V)
        return last[2]

    def grades(self, rows: Rows = ALL_ROWS) -> np.ndarray | None:
        """Return the grades of the members.

        Parameters
        ----------
        rows : slice or array of int of shape (n_rows,), default=ALL_ROWS
            Rows of `X`.

        Returns
        -------
        array of shape (n_rows, size) or None
            Grades rho in [0, 1]; None if all are 1.

        Raises
        ------
        NotImplementedError
            If grades are set and the list is a cover.
        """
        if self._rho is None:
            return None
        if np.any(self.mesh(slice(0, 1)) > 0):
            raise NotImplementedError(
                f"{self.source} cannot be discounted, because its list is a cover of an infinite set"
            )
        return np.tile(self._profile(self._rho), (self.count(rows), 1))

    def _profile(self, rho: float | Sequence[float]) -> np.ndarray:
        """Return the grade of each perturbation, (s,); a number grades all except the identity."""
        return profile_of_list(rho, self.size)

    def graded(self, rho: float | Sequence[float]) -> Self:
        """Return the same list with grades.

        Parameters
        ----------
        rho : float or sequence of float
            Grade of all perturbations except the identity, or one grade per perturbation, the first
            being 1.

        Returns
        -------
        Changes
            A copy of this list.
        """
        other = copy.copy(self)
        other._rho = rho
        return other

    def mesh(self, rows: Rows = ALL_ROWS) -> np.ndarray:
        """Bound the distance from any member of S(x) to the nearest one of the list.

        Parameters
        ----------
        rows : slice or array of int of shape (n_rows,), default=ALL_ROWS
            Rows of `X`.

        Returns
        -------
        array of shape (n_rows,)
            0, the default, if the list is complete; infinity if no bound is known.
        """
        return np.zeros(self.count(rows))

    def refine(self, rows: Rows, index: np.ndarray, score: Score) -> np.ndarray:
        """Replace members of a cover by nearby members of S(x), with no smaller score.

        Parameters
        ----------
        rows : slice or array of int of shape (n_rows,)
            Rows of `X`.
        index : array of int of shape (n_rows,)
            Number of the listed member for each row.
        score : callable
            Function from points (n_rows, n_features), one per row, to scores (n_rows,).

        Returns
        -------
        array of shape (n_rows, n_features)
            Members of S(x); by default, the listed ones.
        """
        return self.points(rows, index)

    def adjoint(self, V: np.ndarray) -> np.ndarray | None:
        """Apply the transposed map of every perturbation to directions.

        Parameters
        ----------
        V : array of shape (n_directions, n_features)
            Directions.

        Returns
        -------
        array of shape (size, n_directions, n_features) or None
            ``T'v`` for every map T; None, the default, if perturbations are not fixed linear maps.
        """
        return None

    def linear(self) -> LinearChanges | None:
        """Return the same perturbations as matrices.

        Returns
        -------
        LinearChanges or None
            None, the default, if perturbations have no matrices.
        """
        return None

    def take(self, numbers: Sequence[int] | np.ndarray, weights: np.ndarray | None = None) -> Changes:
        """Select perturbations by number.

        Parameters
        ----------
        numbers : sequence of int
            Numbers of the perturbations, in the new order; repetitions are allowed.
        weights : array of shape (n_numbers,), optional
            Probabilities up to a factor; by default, those of this list.

        Returns
        -------
        Changes
            The selected perturbations. If they omit members of a cover, their mesh is infinite.
        """
        chosen = np.asarray(numbers, dtype=np.intp)
        weights = self.weights[chosen] if weights is None else weights
        return SelectedChanges(self, chosen, weights)

    def weighted(self, weights: np.ndarray) -> Self:
        """Return the same list with other probabilities.

        Parameters
        ----------
        weights : array of shape (size,)
            Probabilities, up to a factor.

        Returns
        -------
        Changes
            A copy of this list.
        """
        other = copy.copy(self)
        other._weights = normalized(weights)
        return other

    def listed_in(self) -> tuple[Changes, np.ndarray | None]:
        """Return the list from which this list was selected, and the selected numbers.

        Returns
        -------
        changes : Changes
            The complete list.
        numbers : array of int or None
            Numbers in that list; None for all.
        """
        return self, None

    def norm_bound(self, n_features: int) -> float:
        """Bound the mean operator norm E ‖T‖ of the perturbations.

        The norm of a map is at most the geometric mean of its largest absolute row and column sums
        (Horn and Johnson 2013, example 5.6.P21).

        Parameters
        ----------
        n_features : int
            Number of features of the samples.

        Returns
        -------
        float
            The bound; infinity if perturbations are not fixed linear maps.
        """
        columns, rows = np.zeros((self.size, n_features)), np.zeros(self.size)
        for first in range(0, n_features, _AT_ONCE):
            unit = np.eye(min(_AT_ONCE, n_features - first), n_features, first)
            images = self.adjoint(unit)
            if images is None:
                return np.inf
            sizes = np.abs(images)
            columns += sizes.sum(axis=1)
            rows = np.maximum(rows, sizes.sum(axis=2).max(axis=1))
        # The factor bounds the rounding error of the sums.
        return float(self.weights @ np.sqrt(rows * columns.max(axis=1))) * (1.0 + n_features * _EPS)

    def differences(self, most: int | None = None) -> LinearChanges | None:
        """Compute the maps ``g^-1 g'`` of an isometric list, for independent g and g'.

        The matrices of the maps are tested: a list is isometric if they preserve inner products.

        Parameters
        ----------
        most : int, optional
            Maximum number of different maps; unlimited by default.

        Returns
        -------
        LinearChanges or None
            The different maps with their probabilities. None if there are no matrices, if a map does not
            preserve inner products, or if there are more than `most` maps.
        """
        linear = self.linear()
        return None if linear is None else linear.differences(most)

    def sides(self, *, reordering: bool = False) -> tuple[Changes | None, Changes]:
        """Return two lists with fewer pairs and the same average of a kernel.

        ``E k(a x, b y) = E k(g x, g' y)`` for a and b of these lists, and independent g and g' of this
        list.

        Parameters
        ----------
        reordering : bool, default=False
            True if k is invariant only to the same reordering of features in both arguments, and not
            to all maps that preserve inner products.

        Returns
        -------
        left : Changes or None
            Perturbations of the first argument; None if it is not perturbed.
        right : Changes
            Perturbations of the second argument.
        """
        found = usable_differences(self, reordering)
        return (self, self) if found is None else (None, found)

    def count(self, rows: Rows) -> int:
        """Count the selected rows.

        Parameters
        ----------
        rows : slice or array of int of shape (n_rows,)
            Rows of `X`.

        Returns
        -------
        int
            Number of rows.
        """
        return count(rows, self.X.shape[0])

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.size} changes)"


class SelectedChanges(Changes):
    """A selection of perturbations from a list, as made by `Changes.take`.

    Shapes: `numbers` (size,), `weights` (size,).
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

    def graded(self, rho: float | Sequence[float]) -> Self:
        return type(self)(self.whole.graded(rho), self.numbers, self.weights)

    def mesh(self, rows: Rows = ALL_ROWS) -> np.ndarray:
        mesh = self.whole.mesh(rows)
        if len(np.unique(self.numbers)) < self.whole.size:
            # A cover that lacks some of its members has larger gaps.
            mesh = np.where(mesh > 0, np.inf, mesh)
        return mesh

    def refine(self, rows: Rows, index: np.ndarray, score: Score) -> np.ndarray:
        return self.whole.refine(rows, self.numbers[index], score)

    def adjoint(self, V: np.ndarray) -> np.ndarray | None:
        images = self.whole.adjoint(V)
        return None if images is None else images[self.numbers]

    def linear(self) -> LinearChanges | None:
        linear = self.whole.linear()
        if linear is None:
            return None
        maps = [linear.maps[number] for number in self.numbers]
        return LinearChanges(self.X, maps, weights=self.weights)

    def listed_in(self) -> tuple[Changes, np.ndarray | None]:
        return self.whole, self.numbers


class LinearChanges(Changes):
    """A list of fixed linear maps, given by their matrices.

    Parameters
    ----------
    X : array or CSR matrix of shape (n_samples, n_features)
        Samples.
    maps : sequence of CSR matrices of shape (n_features, n_features)
        One matrix per map: member k of a sample x is ``maps[k] @ x``.
    names : sequence of str, optional
        Short name of each map; by default "identity", "change 1" and so on.
    weights : array of shape (size,), optional
        Probabilities up to a factor; equal by default.

    Attributes
    ----------
    permutes : bool
        True if every map only reorders features.

    See Also
    --------
    Changes : Base class of all lists of perturbations.
    FiniteOracle : Base class of oracles with such a list.

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
        """True if every map preserves inner products, tested on its matrix."""
        return all(map(_keeps_products, self.maps))

    def differences(self, most: int | None = None) -> LinearChanges | None:
        if self.size**2 > MOST_PAIRS or not self.isometric:
            return None
        # Digests save memory: there may be as many differences as pairs.
        first: dict[bytes, tuple[int, int]] = {}
        weights: dict[bytes, float] = {}
        for left in range(self.size):
            for right, key in enumerate(self._keys(left)):
                first.setdefault(key, (left, right))
                weights[key] = weights.get(key, 0.0) + self.weights[left] * self.weights[right]
            if most is not None and len(first) > most:
                return None
        maps = [_rounded(self.maps[left].T @ self.maps[right], 14) for left, right in first.values()]
        return LinearChanges(self.X, maps, weights=np.array(list(weights.values())))

    def _keys(self, left: int) -> Iterator[bytes]:
        """Return digests of the differences between one map and all maps."""
        if self.permutes:
            order = np.argsort(self.maps[left].indices)
            return (_digest(right.indices[order]) for right in self.maps)
        back = self.maps[left].T.tocsr()
        return (_key(_rounded(back @ right, 14)) for right in self.maps)


def draw_names(size: int) -> list[str]:
    """Return the names of random draws; none of them is the identity."""
    return [f"draw {number}" for number in range(1, size + 1)]


def normalized(weights: np.ndarray) -> np.ndarray:
    """Rescale weights to the sum 1."""
    weights = np.asarray(weights, dtype=np.float64)
    return weights / np.sum(weights)


def usable_differences(changes: Changes, reordering: bool) -> LinearChanges | None:
    """Return the differences of perturbations if they save work; None otherwise.

    If `reordering` is true, only permutations of features save work.
    """
    # Random draws have nearly as many differences as pairs, which would take too much memory.
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
    """Return a copy with rounded entries, without zeros."""
    each = sp.csr_matrix(each, copy=True)
    each.data = np.round(each.data, digits) + 0.0
    each.eliminate_zeros()
    each.sort_indices()
    return each


def _key(each: sp.csr_matrix) -> bytes:
    """Return a digest that is equal for maps that agree up to rounding errors."""
    coarse = _rounded(each, 9)
    return _digest(coarse.indptr, coarse.indices, coarse.data)


def _digest(*arrays: np.ndarray) -> bytes:
    found = blake2b(digest_size=16)
    for each in arrays:
        found.update(each.tobytes())
    return found.digest()
