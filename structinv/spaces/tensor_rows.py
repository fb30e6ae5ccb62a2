"""Normals of planes of several outputs, kept as short sums of outer products."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..utils.matrices import ALL_ROWS, Matrix, add_combinations, dense, products, scale_rows, stack, take

# Inner products of points that are in memory at once, before those of a row are summed.
ENTRIES_AT_ONCE = 4_000_000


class TensorRows:
    """Rows ``a_j = [vec(sum over r in group j of points_r (x) coefficients_r), extra_j]``.

    A plane of a multiclass loss is an input times two or three coefficients, that of a structured
    loss a sum of those over its rows: this form multiplies the inputs once, not once an output.

    Parameters
    ----------
    points : (n, d) array or CSR matrix
    coefficients : (n, k) array or CSR matrix
        Sparse where k is large: a row's plane has few labels.
    start : (m + 1,) array of int
        Group j owns ``points[start[j]]`` to ``points[start[j + 1] - 1]``, at least one.
    pairwise : (m, e) array or CSR matrix
        The part that no point multiplies.
    """

    def __init__(
        self, points: Matrix, coefficients: Matrix, start: np.ndarray, pairwise: Matrix
    ) -> None:
        self.points = points
        self.coefficients = coefficients
        self.start = start
        self.pairwise = pairwise

    @classmethod
    def of_rows(cls, rows: Matrix, n_outputs: int, n_pairwise: int) -> TensorRows:
        """Flat rows in this form; CSR ones only of a single output."""
        if sp.issparse(rows):
            n_rows = rows.shape[0]
            return cls(rows, np.ones((n_rows, 1)), np.arange(n_rows + 1), np.zeros((n_rows, 0)))
        split = rows.shape[1] - n_pairwise
        points = rows[:, :split].reshape(len(rows), split // n_outputs, n_outputs).swapaxes(1, 2)
        points = points.reshape(len(rows) * n_outputs, split // n_outputs)
        coefficients = np.tile(np.eye(n_outputs), (len(rows), 1))
        return cls(points, coefficients, n_outputs * np.arange(len(rows) + 1), rows[:, split:])

    @classmethod
    def join(cls, parts: Sequence[TensorRows]) -> TensorRows:
        """Rows of all parts, one below the other."""
        sizes = np.concatenate([np.diff(part.start) for part in parts])
        return cls(
            stack([part.points for part in parts]),
            stack([part.coefficients for part in parts]),
            np.r_[0, np.cumsum(sizes)],
            stack([part.pairwise for part in parts]),
        )

    def __len__(self) -> int:
        return len(self.start) - 1

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows, and their length when written out."""
        width = self.points.shape[1] * self.coefficients.shape[1] + self.pairwise.shape[1]
        return len(self), width

    def __getitem__(self, rows: Any) -> TensorRows:
        chosen = np.arange(len(self))[rows]
        sizes = np.diff(self.start)[chosen]
        start = np.r_[0, np.cumsum(sizes)]
        members = np.repeat(self.start[chosen] - start[:-1], sizes) + np.arange(start[-1])
        return self._rows(members, start, self.pairwise[chosen])

    def _rows(self, members: np.ndarray, start: np.ndarray, pairwise: Matrix) -> TensorRows:
        """Rows of some of the points."""
        return TensorRows(self.points[members], self.coefficients[members], start, pairwise)

    def products(self, f: np.ndarray) -> np.ndarray:
        """Inner product of each row with a flat element."""
        k, n_pairwise = self.coefficients.shape[1], self.pairwise.shape[1]
        table = f[: len(f) - n_pairwise].reshape(self.points.shape[1], k)
        each = np.zeros(self.coefficients.shape[0])
        for part, coefficients in self._written():
            each[part] = np.einsum("rk,rk->r", products(take(self.points, part), table), coefficients)
        return self._by_group(each) + self.pairwise @ f[len(f) - n_pairwise :]

    def combination(self, weights: np.ndarray) -> np.ndarray:
        """The flat element ``sum_j weights_j a_j``."""
        owned, n_pairwise = (
            np.repeat(weights, np.diff(self.start))[:, None],
            self.pairwise.shape[1],
        )
        element = np.zeros(self.shape[1])
        table = element[: len(element) - n_pairwise].reshape(-1, self.coefficients.shape[1])
        for part, coefficients in self._written():
            add_combinations(take(self.points, part), coefficients * owned[part], table)
        element[len(element) - n_pairwise :] = self.pairwise.T @ weights
        return element

    def mix(self, weights: np.ndarray) -> TensorRows:
        """``sum_j weights_j a_j`` as one row, of at most one point an output."""
        spread = scale_rows(self.coefficients, np.repeat(weights, np.diff(self.start)))
        used = np.unique(spread.nonzero()[1])
        used = used if len(used) else np.array([0])
        mixed = spread[:, used].T
        if sp.issparse(self.points):
            points = sp.csr_matrix(sp.csr_matrix(mixed) @ self.points)
        else:
            points = mixed @ self.points
        coefficients = _units(used, self.coefficients)
        return TensorRows(
            points, coefficients, np.array([0, len(used)]), (weights @ self.pairwise)[None, :]
        )

    def gram(self, other: TensorRows) -> np.ndarray:
        """Inner products with the rows of another set."""
        points = self.points
        found = np.empty((len(self), len(other)))
        for first, last in other._portions(ENTRIES_AT_ONCE // max(1, points.shape[0])):
            part = other[first:last]
            inner = points @ part.points.T
            tables = dense(inner) * dense(self.coefficients @ part.coefficients.T)
            found[:, first:last] = self._by_group(part._by_group(tables.T).T)
        return found + dense(self.pairwise @ other.pairwise.T)

    def _portions(self, most: int) -> list[tuple[int, int]]:
        """First and last of runs of rows that have about so many points in all, at least one row."""
        filled = np.diff(self.start[:-1] // max(1, most), prepend=-1) > 0
        edges = np.r_[np.flatnonzero(filled), len(self)]
        return list(zip(edges[:-1], edges[1:], strict=True))

    def toarray(self) -> np.ndarray:
        """The rows written out."""
        written = np.zeros(self.shape)
        width = self.shape[1] - self.pairwise.shape[1]
        table = written[:, :width].reshape(len(self), self.points.shape[1], self.coefficients.shape[1])
        for k in range(self.coefficients.shape[1]):
            part = scale_rows(self.points, dense(self.coefficients[:, [k]])[:, 0])
            table[:, :, k] = self._by_group(dense(part))
        written[:, width:] = dense(self.pairwise)
        return written

    def _written(self) -> Iterator[tuple[slice, np.ndarray]]:
        """The coefficients as arrays: all of them if they are one, else of some rows at a time."""
        coefficients = self.coefficients
        if not sp.issparse(coefficients):
            yield ALL_ROWS, coefficients
            return
        at_once = max(1, ENTRIES_AT_ONCE // max(1, coefficients.shape[1]))
        for first in range(0, coefficients.shape[0], at_once):
            part = slice(first, first + at_once)
            yield part, coefficients[part].toarray()

    def summed(self) -> Matrix:
        """Rows of a single output as a matrix, without the extra part; sparse points stay sparse."""
        owners = np.repeat(np.arange(len(self)), np.diff(self.start))
        places, shape = np.arange(len(owners)), (len(self), len(owners))
        return sp.csr_matrix((self.coefficients[:, 0], (owners, places)), shape) @ self.points

    def _by_group(self, values: np.ndarray) -> np.ndarray:
        """Sums over the points of each group, along the first axis."""
        if len(values) == len(self):
            return values
        return np.add.reduceat(values, self.start[:-1], axis=0)


def _units(places: np.ndarray, like: Matrix) -> Matrix:
    """Rows with a single 1, as long as those of another table, and sparse if it is."""
    if not sp.issparse(like):
        return np.eye(like.shape[1])[places]
    ones = np.ones(len(places)), (np.arange(len(places)), places)
    return sp.csr_matrix(ones, shape=(len(places), like.shape[1]))


class ComputedRows(TensorRows):
    """Rows of one point each, which is made when it is asked for, and not kept.

    What the points are made of must not change as long as these rows are in use.

    Parameters
    ----------
    make : callable
        From rows of `which` to points (n, d), an array or a CSR matrix.
    width : int
        Length of a point.
    which : (n, ...) array of int
        What `make` makes the points of.
    coefficients : (n, k) array
    """

    def __init__(
        self,
        make: Callable[[np.ndarray], Matrix],
        width: int,
        which: np.ndarray,
        coefficients: np.ndarray,
    ) -> None:
        self.make = make
        self.width = width
        self.which = which
        self.coefficients = coefficients
        self.start = np.arange(len(which) + 1)
        self.pairwise = np.zeros((len(which), 0))

    @property
    def points(self) -> Matrix:
        """The points, made anew."""
        return self.make(self.which)

    @property
    def shape(self) -> tuple[int, int]:
        return len(self), self.width * self.coefficients.shape[1]

    def _rows(self, members: np.ndarray, start: np.ndarray, pairwise: np.ndarray) -> TensorRows:
        return ComputedRows(self.make, self.width, self.which[members], self.coefficients[members])

    def written(self) -> TensorRows:
        """The same rows with their points, which do not need what makes them."""
        return TensorRows(self.points, self.coefficients, self.start, self.pairwise)

    def __reduce__(self) -> tuple:
        """Pickled with the points, without what makes them."""
        return TensorRows, (self.points, self.coefficients, self.start, self.pairwise)


class MemberRows(ComputedRows):
    """Members of a bound oracle: `which` has rows and numbers of members."""
