"""Lists of perturbations made of other lists: unions, compositions, restrictions."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, Self

import numpy as np
import scipy.sparse as sp

from ..regions.curve_regions import Score
from ..utils.matrices import ALL_ROWS, Matrix, Rows, dense_rows, floating, pick, take, with_data
from .changes import MOST_PAIRS, Changes, LinearChanges, normalized, usable_differences


class UnionChanges(Changes):
    """A perturbation of one of several lists."""

    def __init__(self, parts: Sequence[Changes], weights: np.ndarray) -> None:
        super().__init__(parts[0].X, parts[0].y)
        self.parts = list(parts)
        self._weights = normalized(weights)
        self.scored = all(part.scored for part in parts)

    def _moved_to(self, X: Matrix, y: np.ndarray | None) -> None:
        self.parts = [part.on(X, y) for part in self.parts]

    @cached_property
    def _ends(self) -> np.ndarray:
        """Number of members up to and including each part."""
        return np.cumsum([part.size for part in self.parts])

    @property
    def size(self) -> int:
        return int(self._ends[-1])

    def _owners(self, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the index of the part of each member, and its number in this part."""
        if np.any((numbers < 0) | (numbers >= self.size)):
            raise ValueError(
                f"index must contain numbers of perturbed samples, from 0 to {self.size - 1}, got "
                f"{numbers}"
            )
        owner = np.searchsorted(self._ends, numbers, side="right")
        return owner, numbers - np.r_[0, self._ends[:-1]][owner]

    def members(self, rows: Rows = ALL_ROWS, numbers: np.ndarray | None = None) -> np.ndarray:
        if numbers is None:
            return np.concatenate([part.members(rows) for part in self.parts], axis=1)
        owner, local = self._owners(np.asarray(numbers))
        if len(owner) == 0:
            return self.parts[0].members(rows, local)
        # Only the parts with these members are evaluated.
        runs = np.split(np.arange(len(owner)), np.flatnonzero(np.diff(owner)) + 1)
        tables = [self.parts[owner[run[0]]].members(rows, local[run]) for run in runs]
        return np.concatenate(tables, axis=1)

    def points(self, rows: Rows, index: np.ndarray) -> np.ndarray:
        owner, local = self._owners(np.asarray(index))
        points = np.empty((len(index), self.X.shape[1]), dtype=floating(self.X[:0]).dtype)
        for number, part in enumerate(self.parts):
            owned = np.flatnonzero(owner == number)
            if len(owned):
                points[owned] = dense_rows(part.points(pick(rows, owned, len(index)), local[owned]))
        return points

    def refine(self, rows: Rows, index: np.ndarray, score: Score) -> np.ndarray:
        owner, local = self._owners(np.asarray(index))
        points = self.points(rows, index)
        for number, part in enumerate(self.parts):
            owned = owner == number
            if np.any(owned):
                points[owned] = part.refine(rows, np.where(owned, local, 0), score)[owned]
        return points

    @property
    def names(self) -> list[str]:
        return [name for part in self.parts for name in part.names]

    def mesh(self, rows: Rows = ALL_ROWS) -> np.ndarray:
        return np.max([part.mesh(rows) for part in self.parts], axis=0)

    def _member_scores(self, rows: Rows, V: np.ndarray) -> np.ndarray | None:
        if sp.issparse(self.X):
            # Joined members are dense, so there are no fast scores for sparse rows.
            return None
        return _joined([part.scores(rows, V) for part in self.parts], axis=1)

    def grades(self, rows: Rows = ALL_ROWS) -> np.ndarray | None:
        grades = [part.grades(rows) for part in self.parts]
        if all(each is None for each in grades):
            return None
        n_rows = self.count(rows)
        pairs = zip(grades, self.parts, strict=True)
        tables = [np.ones((n_rows, part.size)) if each is None else each for each, part in pairs]
        return np.concatenate(tables, axis=1)

    def graded(self, rho: float | Sequence[float]) -> Self:
        """Return the same list with these grades in all parts."""
        other = copy.copy(self)
        other.parts = [part.graded(rho) for part in self.parts]
        return other

    def adjoint(self, V: np.ndarray) -> np.ndarray | None:
        return _joined([part.adjoint(V) for part in self.parts])

    def linear(self) -> LinearChanges | None:
        found = [part.linear() for part in self.parts]
        known = [part for part in found if part is not None]
        if len(known) < len(found):
            return None
        maps = [each for part in known for each in part.maps]
        return LinearChanges(self.X, maps, self.names, self.weights)


class ComposedChanges(Changes):
    """A perturbation of one list after one of another, for all or matching pairs."""

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

    @cached_property
    def _pairs(self) -> tuple[np.ndarray, np.ndarray]:
        """Numbers of both perturbations in `right` and in `left`."""
        if self.paired:
            return np.arange(self.right.size), np.arange(self.left.size)
        first, second = np.divmod(np.arange(self.right.size * self.left.size), self.left.size)
        return first, second

    @property
    def size(self) -> int:
        return len(self._pairs[0])

    def _own_weights(self) -> np.ndarray:
        first, second = self._pairs
        return self.right.weights[first] * self.left.weights[second]

    def _after(self, points: Matrix, rows: Rows, times: int = 1) -> Changes:
        """Move the list of `left` to perturbed rows, with the labels of the unperturbed rows."""
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
        first, second = (numbers[index] for numbers in self._pairs)
        return self._after(self.right.points(rows, first), rows).points(ALL_ROWS, second)

    @property
    def names(self) -> list[str]:
        right, left = self.right.names, self.left.names
        return [_name_of_pair(right[k], left[m]) for k, m in zip(*self._pairs, strict=True)]

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
            return _joined(each)
        found = self.right.adjoint(moved.reshape(-1, V.shape[1]))
        return None if found is None else found.reshape(-1, *V.shape)

    def linear(self) -> LinearChanges | None:
        left, right = self.left.linear(), self.right.linear()
        if left is None or right is None or self.size**2 > MOST_PAIRS:
            return None
        maps = [left.maps[m] @ right.maps[k] for k, m in zip(*self._pairs, strict=True)]
        return LinearChanges(self.X, maps, self.names, self.weights)

    def graded(self, rho: float | Sequence[float]) -> Self:
        raise NotImplementedError(
            f"{self.source or 'Compose'} cannot be discounted, because compositions do not have grades"
        )

    def take(self, numbers: Sequence[int] | np.ndarray, weights: np.ndarray | None = None) -> Changes:
        if not self.paired:
            return super().take(numbers, weights)
        chosen = np.asarray(numbers, dtype=np.intp)
        found = ComposedChanges(self.left.take(chosen), self.right.take(chosen), paired=True)
        return found.weighted(self.weights[chosen] if weights is None else weights)

    def sides(self, *, reordering: bool = False) -> tuple[Changes | None, Changes]:
        """Return both lists of `Changes.sides`; isometries of `left` move to one side."""
        left, right = super().sides(reordering=reordering)
        # The parts are independent only if the probabilities are products.
        independent = np.array_equal(self.weights, normalized(self._own_weights()))
        if left is None or self.paired or not independent:
            return left, right
        last = usable_differences(self.left, reordering)
        return (self, self) if last is None else (self.right, ComposedChanges(last, self.right))


class DerivedChanges(Changes):
    """Members of another list, with values of the row itself.

    The function `mask_of` returns a mask of these values for labels: of whole rows, (n_rows, 1), or of
    the same features in all rows, (n_features,).

    Shapes: `y` (n_rows,).
    """

    def __init__(
        self,
        inner: Changes,
        y: np.ndarray | None,
        mask_of: Callable[[np.ndarray | None], np.ndarray],
    ) -> None:
        super().__init__(inner.X, y)
        self.inner = inner
        self.scored = inner.scored
        self.mask_of = mask_of
        self.mask = mask_of(y)

    def _moved_to(self, X: Matrix, y: np.ndarray | None) -> None:
        self.inner = self.inner.on(X, y)
        self.mask = self.mask_of(y)

    def _mask(self, rows: Rows) -> np.ndarray:
        return self.mask if self.mask.ndim == 1 else self.mask[rows]

    @property
    def size(self) -> int:
        return self.inner.size

    @property
    def names(self) -> list[str]:
        return self.inner.names

    def _own_weights(self) -> np.ndarray:
        return self.inner.weights

    def members(self, rows: Rows = ALL_ROWS, numbers: np.ndarray | None = None) -> np.ndarray:
        X, mask = dense_rows(take(self.X, rows)), np.atleast_2d(self._mask(rows))
        return np.where(mask[:, None], X[:, None], self.inner.members(rows, numbers))

    def points(self, rows: Rows, index: np.ndarray) -> Any:
        return self._restored(self.inner.points(rows, index), rows)

    def refine(self, rows: Rows, index: np.ndarray, score: Score) -> np.ndarray:
        def restored(points: np.ndarray) -> np.ndarray:
            return score(self._restored(points, rows))

        return self._restored(self.inner.refine(rows, index, restored), rows)

    def _restored(self, points: Matrix, rows: Rows) -> Any:
        return with_values(points, take(self.X, rows), self._mask(rows))

    def mesh(self, rows: Rows = ALL_ROWS) -> np.ndarray:
        """Bound the mesh by that of `inner`, as features that agree add no distance."""
        return np.where(np.all(self._mask(rows), axis=-1), 0.0, self.inner.mesh(rows))

    def adjoint(self, V: np.ndarray) -> np.ndarray | None:
        if self.mask.ndim > 1:
            return None
        others = np.where(self.mask, 0.0, V)
        moved = self.inner.adjoint(others)
        return None if moved is None else moved + (V - others)

    def _member_scores(self, rows: Rows, V: np.ndarray) -> np.ndarray | None:
        if self.mask.ndim == 1:
            return None
        scores = self.inner.scores(rows, V)
        return None if scores is None else self._repeat_first(scores, rows)

    def grades(self, rows: Rows = ALL_ROWS) -> np.ndarray | None:
        grades = self.inner.grades(rows)
        return None if grades is None else self._repeat_first(grades, rows)

    def graded(self, rho: float | Sequence[float]) -> Self:
        other = copy.copy(self)
        other.inner = self.inner.graded(rho)
        return other

    def _repeat_first(self, values: np.ndarray, rows: Rows) -> np.ndarray:
        """Replace the values of unperturbed rows by the value of their first member."""
        mask = self._mask(rows)
        if mask.ndim == 1 or not np.any(mask):
            return values
        return np.where(mask.reshape(-1, *[1] * (values.ndim - 1)), values[:, :1], values)


def with_values(points: Matrix, X: Matrix, mask: np.ndarray) -> Any:
    """Return points with the values of the rows `X` where the mask is True."""
    if not sp.issparse(points):
        return np.where(mask, dense_rows(X), points).astype(points.dtype, copy=False)
    of_points = with_data(points, points.data * ~_at_entries(mask, points))
    return (of_points + with_data(X, X.data * _at_entries(mask, X))).astype(points.dtype, copy=False)


def _at_entries(mask: np.ndarray, rows: sp.csr_matrix) -> np.ndarray:
    """Return the mask at the stored entries of a CSR matrix."""
    numbers = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))
    return np.broadcast_to(mask, rows.shape)[numbers, rows.indices]


def _joined(parts: Sequence[Any], axis: int = 0) -> np.ndarray | None:
    """Join all parts; return None if one of them is None."""
    return None if any(part is None for part in parts) else np.concatenate(parts, axis)


def _name_of_pair(first: str, second: str) -> str:
    changes = [name for name in (first, second) if name != "identity"]
    return ", then ".join(changes) if changes else "identity"
