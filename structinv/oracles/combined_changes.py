"""Lists of changes made of others: either, one after another, only for some rows or features."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, Self

import numpy as np
import scipy.sparse as sp

from ..utils.matrices import ALL_ROWS, Matrix, Rows, dense_rows, floating, pick, take, with_data
from .changes import MOST_PAIRS, Changes, LinearChanges, normalized, usable_differences


class UnionChanges(Changes):
    """A change of one of several lists.

    Parameters
    ----------
    parts : sequence of Changes
        On the same rows.
    shares : (n_parts,) array
        How likely each of them is, up to a factor.
    once : bool, default=False
        Whether all parts begin with the identity, which is to be listed once.
    """

    def __init__(self, parts: Sequence[Changes], shares: np.ndarray, *, once: bool = False) -> None:
        super().__init__(parts[0].X, parts[0].y)
        self.parts = list(parts)
        self.shares = np.asarray(shares) / np.sum(shares)
        self.once = once
        self.scored = all(part.scored for part in parts)

    def _moved_to(self, X: Matrix, y: np.ndarray | None) -> None:
        self.parts = [part.on(X, y) for part in self.parts]

    @cached_property
    def _ends(self) -> np.ndarray:
        """The number after the last one of each part."""
        return np.cumsum([part.size - (self.once and k > 0) for k, part in enumerate(self.parts)])

    @property
    def size(self) -> int:
        return int(self._ends[-1])

    def _own_weights(self) -> np.ndarray:
        tables = [share * part.weights for share, part in zip(self.shares, self.parts, strict=True)]
        if not self.once:
            return np.concatenate(tables)
        identity = sum(table[0] for table in tables)
        return np.concatenate([[identity], *(table[1:] for table in tables)])

    def _joined(self, tables: Sequence[Any]) -> np.ndarray:
        """Values (n, s, ...) of the members of all parts; those of an identity only once."""
        skip = int(self.once)
        return np.concatenate([tables[0], *(table[:, skip:] for table in tables[1:])], axis=1)

    def _owners(self, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The part of each member, and its number there."""
        if np.any((numbers < 0) | (numbers >= self.size)):
            raise ValueError(f"index must hold numbers of members, 0 to {self.size - 1}, got {numbers}")
        owner = np.searchsorted(self._ends, numbers, side="right")
        first = np.r_[0, self._ends[:-1] - int(self.once)]
        return owner, numbers - first[owner]

    def members(self, rows: Rows = ALL_ROWS, numbers: np.ndarray | None = None) -> np.ndarray:
        if numbers is None:
            return self._joined([part.members(rows) for part in self.parts])
        owner, local = self._owners(np.asarray(numbers))
        if len(owner) == 0:
            return self.parts[0].members(rows, local)
        # Only the parts that have these changes are asked for members.
        runs = np.split(np.arange(len(owner)), np.flatnonzero(np.diff(owner)) + 1)
        tables = [self.parts[owner[run[0]]].members(rows, local[run]) for run in runs]
        return np.concatenate(tables, axis=1)

    def points(self, rows: Rows, index: np.ndarray) -> np.ndarray:
        owner, local = self._owners(np.asarray(index))
        points = np.empty((len(index), self.X.shape[1]), dtype=floating(self.X[:0]).dtype)
        for number, part in enumerate(self.parts):
            mine = np.flatnonzero(owner == number)
            if len(mine):
                points[mine] = dense_rows(part.points(pick(rows, mine, len(index)), local[mine]))
        return points

    def refine(
        self, rows: Rows, index: np.ndarray, score: Callable[[np.ndarray], np.ndarray]
    ) -> np.ndarray:
        owner, local = self._owners(np.asarray(index))
        points = self.points(rows, index)
        for number, part in enumerate(self.parts):
            mine = owner == number
            if np.any(mine):
                points[mine] = part.refine(rows, np.where(mine, local, 0), score)[mine]
        return points

    @property
    def names(self) -> list[str]:
        skip = int(self.once)
        return self.parts[0].names + [name for part in self.parts[1:] for name in part.names[skip:]]

    def mesh(self, rows: Rows = ALL_ROWS) -> np.ndarray:
        return np.max([part.mesh(rows) for part in self.parts], axis=0)

    def _member_scores(self, rows: Rows, V: np.ndarray) -> np.ndarray | None:
        if sp.issparse(self.X):
            # Members of several parts are put side by side as dense rows.
            return None
        return _if_all_known([part.scores(rows, V) for part in self.parts], self._joined)

    def grades(self, rows: Rows = ALL_ROWS) -> np.ndarray | None:
        grades = [part.grades(rows) for part in self.parts]
        if all(each is None for each in grades):
            return None
        n_rows = self.count(rows)
        pairs = zip(grades, self.parts, strict=True)
        return self._joined([np.ones((n_rows, p.size)) if each is None else each for each, p in pairs])

    def graded(self, rho: float | Sequence[float]) -> Self:
        """See `Changes.graded`: the same grades in all parts."""
        other = copy.copy(self)
        other.parts = [part.graded(rho) for part in self.parts]
        return other

    def adjoint(self, V: np.ndarray) -> np.ndarray | None:
        skip = int(self.once)
        return _if_all_known(
            [part.adjoint(V) for part in self.parts],
            lambda known: np.concatenate([known[0], *(each[skip:] for each in known[1:])]),
        )

    def linear(self) -> LinearChanges | None:
        found = [part.linear() for part in self.parts]
        skips = [int(self.once and k > 0) for k in range(len(found))]
        maps = [
            each for skip, part in zip(skips, found, strict=True) if part for each in part.maps[skip:]
        ]
        known = all(part is not None for part in found)
        return LinearChanges(self.X, maps, self.names, self.weights) if known else None


class ComposedChanges(Changes):
    """First a change of one list, then one of another: all pairs of them, or the k-th with the k-th.

    Parameters
    ----------
    left, right : Changes
        `right` comes first, and is on the rows; `left` is moved to the changed rows.
    paired : bool
        Whether change number k is made of both lists' number k, as for draws.
    bounded : bool, default=True
        Whether `left` carries two points no further apart, so that both meshes add up.
    """

    def __init__(
        self, left: Changes, right: Changes, *, paired: bool = False, bounded: bool = True
    ) -> None:
        super().__init__(right.X, right.y)
        self.left = left
        self.right = right
        self.paired = paired
        self.bounded = bounded

    def _moved_to(self, X: Matrix, y: np.ndarray | None) -> None:
        self.right = self.right.on(X, y)

    @property
    def size(self) -> int:
        return self.right.size if self.paired else self.right.size * self.left.size

    def _own_weights(self) -> np.ndarray:
        if self.paired:
            return self.left.weights * self.right.weights
        return np.outer(self.right.weights, self.left.weights).ravel()

    def _after(self, points: Matrix, rows: Rows, times: int = 1) -> Changes:
        """The changes of `left` on changed rows, with the labels of the rows they came from."""
        labels = None if self.y is None else self.y[rows]
        return self.left.on(points, None if labels is None else np.repeat(labels, times))

    def members(self, rows: Rows = ALL_ROWS, numbers: np.ndarray | None = None) -> np.ndarray:
        if self.paired:
            chosen = np.arange(self.size) if numbers is None else numbers
            first = self.right.members(rows, chosen)
            if len(chosen) == 0:
                return first
            parts = [
                self._after(first[:, place], rows).members(ALL_ROWS, np.array([number]))
                for place, number in enumerate(chosen)
            ]
            return np.concatenate(parts, axis=1)
        first = self.right.members(rows)
        n, s, d = first.shape
        members = self._after(first.reshape(n * s, d), rows, times=s).members()
        members = members.reshape(n, s * members.shape[1], d)
        return members if numbers is None else members[:, numbers]

    def points(self, rows: Rows, index: np.ndarray) -> Any:
        index = np.asarray(index)
        first, second = (index, index) if self.paired else np.divmod(index, self.left.size)
        return self._after(self.right.points(rows, first), rows).points(ALL_ROWS, second)

    @property
    def names(self) -> list[str]:
        right, left = self.right.names, self.left.names
        pairs = zip(right, left, strict=True) if self.paired else itertools.product(right, left)
        return [_name_of_pair(first, second) for first, second in pairs]

    def mesh(self, rows: Rows = ALL_ROWS) -> np.ndarray:
        right = self.right.mesh(rows)
        if not self.bounded:
            return np.full(len(right), np.inf)
        first = self.right.members(rows)
        n, s, d = first.shape
        left = self._after(first.reshape(n * s, d), rows, times=s).mesh()
        return right + left.reshape(n, s).max(axis=1)

    def adjoint(self, V: np.ndarray) -> np.ndarray | None:
        moved = self.left.adjoint(V)
        if moved is None:
            return None
        if self.paired:
            each = [self.right.take([k]).adjoint(part) for k, part in enumerate(moved)]
            return _if_all_known(each, np.concatenate)
        found = self.right.adjoint(moved.reshape(-1, V.shape[1]))
        return None if found is None else found.reshape(-1, *V.shape)

    def linear(self) -> LinearChanges | None:
        left, right = self.left.linear(), self.right.linear()
        if left is None or right is None or self.size**2 > MOST_PAIRS:
            return None
        if self.paired:
            maps = [last @ first for first, last in zip(right.maps, left.maps, strict=True)]
        else:
            maps = [last @ first for first in right.maps for last in left.maps]
        return LinearChanges(self.X, maps, self.names, self.weights)

    def graded(self, rho: float | Sequence[float]) -> Self:
        """See `Changes.graded`: pairs of changes have none."""
        raise NotImplementedError(
            f"{self.source or 'Compose'} has no grades of pairs of changes, so it cannot be discounted"
        )

    def take(self, numbers: Sequence[int] | np.ndarray, weights: np.ndarray | None = None) -> Changes:
        if not self.paired:
            return super().take(numbers, weights)
        chosen = np.asarray(numbers, dtype=np.intp)
        found = ComposedChanges(self.left.take(chosen), self.right.take(chosen), paired=True)
        return found.weighted(self.weights[chosen] if weights is None else weights)

    def sides(self, *, reordering: bool = False) -> tuple[Changes | None, Changes]:
        """See `Changes.sides`; changes that come last and keep inner products move one side only."""
        left, right = super().sides(reordering=reordering)
        # With other probabilities than the products of the parts', both parts are drawn together.
        apart = np.array_equal(self.weights, normalized(self._own_weights()))
        if left is None or self.paired or not apart:
            return left, right
        last = usable_differences(self.left, reordering)
        return (self, self) if last is None else (self.right, ComposedChanges(last, self.right))


class DerivedChanges(Changes):
    """The changes of another list, one by one; a subclass says what is different about their members.

    Parameters
    ----------
    inner : Changes
    """

    def __init__(self, inner: Changes) -> None:
        super().__init__(inner.X, inner.y)
        self.inner = inner
        self.scored = inner.scored

    def _moved_to(self, X: Matrix, y: np.ndarray | None) -> None:
        self.inner = self.inner.on(X, y)

    @property
    def size(self) -> int:
        return self.inner.size

    @property
    def names(self) -> list[str]:
        return self.inner.names

    def _own_weights(self) -> np.ndarray:
        return self.inner.weights

    def mesh(self, rows: Rows = ALL_ROWS) -> np.ndarray:
        """See `Changes.mesh`: members come no further apart where they agree more."""
        return self.inner.mesh(rows)

    def grades(self, rows: Rows = ALL_ROWS) -> np.ndarray | None:
        return self.inner.grades(rows)

    def graded(self, rho: float | Sequence[float]) -> Self:
        other = copy.copy(self)
        other.inner = self.inner.graded(rho)
        return other


class LabelRestrictedChanges(DerivedChanges):
    """The changes of a list for rows of some labels; for all other rows every member is the row itself.

    Parameters
    ----------
    inner : Changes
    y : (n,) array
        Labels of its rows.
    labels : (m,) array
        Those of rows that change.
    """

    def __init__(self, inner: Changes, y: np.ndarray, labels: np.ndarray) -> None:
        super().__init__(inner)
        self.y, self.labels = y, labels
        self.covered = np.isin(y, labels)

    def _moved_to(self, X: Matrix, y: np.ndarray | None) -> None:
        super()._moved_to(X, y)
        self.covered = np.isin(np.asarray(y), self.labels)

    def _repeat_first(self, values: np.ndarray, rows: Rows) -> np.ndarray:
        """For the rows left alone, the values of the identity in place of those of all other members."""
        outside = ~self.covered[rows]
        if not np.any(outside):
            return values
        # An author may hand out an array that is kept.
        values = values.copy()
        values[outside] = values[outside, :1]
        return values

    def members(self, rows: Rows = ALL_ROWS, numbers: np.ndarray | None = None) -> np.ndarray:
        members = self._repeat_first(self.inner.members(rows), rows)
        return members if numbers is None else members[:, numbers]

    def points(self, rows: Rows, index: np.ndarray) -> Any:
        return self.inner.points(rows, np.where(self.covered[rows], index, 0))

    def refine(
        self, rows: Rows, index: np.ndarray, score: Callable[[np.ndarray], np.ndarray]
    ) -> np.ndarray:
        points = self.inner.refine(rows, index, score).copy()
        outside = np.flatnonzero(~self.covered[rows])
        points[outside] = dense_rows(take(self.X, rows), outside)
        return points

    def mesh(self, rows: Rows = ALL_ROWS) -> np.ndarray:
        return np.where(self.covered[rows], self.inner.mesh(rows), 0.0)

    def _member_scores(self, rows: Rows, V: np.ndarray) -> np.ndarray | None:
        scores = self.inner.scores(rows, V)
        return None if scores is None else self._repeat_first(scores, rows)

    def grades(self, rows: Rows = ALL_ROWS) -> np.ndarray | None:
        grades = self.inner.grades(rows)
        return None if grades is None else self._repeat_first(grades, rows)


class ProtectedChanges(DerivedChanges):
    """The changes of a list, some features of which stay as they are.

    Parameters
    ----------
    inner : Changes
    kept : (d,) array of bool
        The features that stay.
    """

    def __init__(self, inner: Changes, kept: np.ndarray) -> None:
        super().__init__(inner)
        self.kept = kept

    def members(self, rows: Rows = ALL_ROWS, numbers: np.ndarray | None = None) -> np.ndarray:
        X = dense_rows(take(self.X, rows))
        return np.where(self.kept, X[:, None], self.inner.members(rows, numbers))

    def points(self, rows: Rows, index: np.ndarray) -> np.ndarray:
        return self._restored(self.inner.points(rows, index), rows)

    def refine(
        self, rows: Rows, index: np.ndarray, score: Callable[[np.ndarray], np.ndarray]
    ) -> np.ndarray:
        def restored(points: np.ndarray) -> np.ndarray:
            return score(self._restored(points, rows))

        return self._restored(self.inner.refine(rows, index, restored), rows)

    def _restored(self, points: Matrix, rows: Rows) -> Any:
        return with_features(points, take(self.X, rows), self.kept)

    def adjoint(self, V: np.ndarray) -> np.ndarray | None:
        others = np.where(self.kept, 0.0, V)
        moved = self.inner.adjoint(others)
        return None if moved is None else moved + (V - others)


def with_features(points: Matrix, X: Matrix, kept: np.ndarray) -> Any:
    """Points with the values of the rows `X` at the features `kept`."""
    if not sp.issparse(points):
        return np.where(kept, dense_rows(X), points).astype(points.dtype, copy=False)
    of_points = with_data(points, points.data * ~kept[points.indices])
    return (of_points + with_data(X, X.data * kept[X.indices])).astype(points.dtype, copy=False)


def _if_all_known(
    parts: Sequence[Any], join: Callable[[Sequence[Any]], np.ndarray]
) -> np.ndarray | None:
    """All parts joined; None if one of them is."""
    return None if any(part is None for part in parts) else join(parts)


def _name_of_pair(first: str, second: str) -> str:
    changes = [name for name in (first, second) if name != "identity"]
    return ", then ".join(changes) if changes else "identity"
