"""Normals of planes with several outputs, stored as sums of outer products."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..utils.matrices import ALL_ROWS, Matrix, add_combinations, dense, products, scale_rows, stack, take

# Number of inner products of points in memory at once.
ENTRIES_AT_ONCE = 4_000_000


class TensorRows:
    """Rows ``[vec(sum over group j of points_r (x) coefficients_r), pairwise_j]``.

    A plane of a multiclass loss is a sample times two or three coefficients. A plane of a structured
    loss is a sum of these over the rows of an example. This form multiplies each point once, not once
    per output.

    Shapes: `points` (n, d), `coefficients` (n, k), `start` (m + 1,), `pairwise` (m, e).
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
        """Convert flat rows to this form; CSR rows must have a single output."""
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
        """Concatenate the rows of all parts."""
        lengths = np.concatenate([np.diff(part.start) for part in parts])
        return cls(
            stack([part.points for part in parts]),
            stack([part.coefficients for part in parts]),
            np.r_[0, np.cumsum(lengths)],
            stack([part.pairwise for part in parts]),
        )

    def __len__(self) -> int:
        return len(self.start) - 1

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows, and their length as flat rows."""
        width = self.points.shape[1] * self.coefficients.shape[1] + self.pairwise.shape[1]
        return len(self), width

    def __getitem__(self, rows: Any) -> TensorRows:
        chosen = np.arange(len(self))[rows]
        lengths = np.diff(self.start)[chosen]
        start = np.r_[0, np.cumsum(lengths)]
        terms = np.repeat(self.start[chosen] - start[:-1], lengths) + np.arange(start[-1])
        return self._rows(terms, start, self.pairwise[chosen])

    def _rows(self, terms: np.ndarray, start: np.ndarray, pairwise: Matrix) -> TensorRows:
        """Return rows with the points `terms`; those of row j begin at ``start[j]``."""
        return TensorRows(self.points[terms], self.coefficients[terms], start, pairwise)

    def products(self, f: np.ndarray) -> np.ndarray:
        """Return the inner product of each row with a flat element."""
        k, n_pairwise = self.coefficients.shape[1], self.pairwise.shape[1]
        table = f[: len(f) - n_pairwise].reshape(self.points.shape[1], k)
        each = np.zeros(self.coefficients.shape[0])
        for part, coefficients in self._dense_coefficients():
            each[part] = np.einsum("rk,rk->r", products(take(self.points, part), table), coefficients)
        return self._by_group(each) + self.pairwise @ f[len(f) - n_pairwise :]

    def combination(self, weights: np.ndarray) -> np.ndarray:
        """Return the flat element ``sum_j weights_j row_j``."""
        owned, n_pairwise = (
            np.repeat(weights, np.diff(self.start))[:, None],
            self.pairwise.shape[1],
        )
        element = np.zeros(self.shape[1])
        table = element[: len(element) - n_pairwise].reshape(-1, self.coefficients.shape[1])
        for part, coefficients in self._dense_coefficients():
            add_combinations(take(self.points, part), coefficients * owned[part], table)
        element[len(element) - n_pairwise :] = self.pairwise.T @ weights
        return element

    def mix(self, weights: np.ndarray) -> TensorRows:
        """Return ``sum_j weights_j row_j`` as one row, with at most one point per output."""
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
        """Return the inner products with the rows of another set."""
        points = self.points
        gram = np.empty((len(self), len(other)))
        for first, last in other._portions(ENTRIES_AT_ONCE // max(1, points.shape[0])):
            part = other[first:last]
            inner = points @ part.points.T
            tables = dense(inner) * dense(self.coefficients @ part.coefficients.T)
            gram[:, first:last] = self._by_group(part._by_group(tables.T).T)
        return gram + dense(self.pairwise @ other.pairwise.T)

    def _portions(self, most: int) -> list[tuple[int, int]]:
        """Split the rows into runs with about `most` points each, at least one row."""
        filled = np.diff(self.start[:-1] // max(1, most), prepend=-1) > 0
        edges = np.r_[np.flatnonzero(filled), len(self)]
        return list(zip(edges[:-1], edges[1:], strict=True))

    def toarray(self) -> np.ndarray:
        """Return the rows as a dense array."""
        flat = np.zeros(self.shape)
        width = self.shape[1] - self.pairwise.shape[1]
        table = flat[:, :width].reshape(len(self), self.points.shape[1], self.coefficients.shape[1])
        for k in range(self.coefficients.shape[1]):
            part = scale_rows(self.points, dense(self.coefficients[:, [k]])[:, 0])
            table[:, :, k] = self._by_group(dense(part))
        flat[:, width:] = dense(self.pairwise)
        return flat

    def _dense_coefficients(self) -> Iterator[tuple[slice, np.ndarray]]:
        """Yield the coefficients as dense arrays, in portions if they are sparse."""
        coefficients = self.coefficients
        if not sp.issparse(coefficients):
            yield ALL_ROWS, coefficients
            return
        at_once = max(1, ENTRIES_AT_ONCE // max(1, coefficients.shape[1]))
        for first in range(0, coefficients.shape[0], at_once):
            part = slice(first, first + at_once)
            yield part, coefficients[part].toarray()

    def summed(self) -> Matrix:
        """Return rows of a single output as a matrix, without the pairwise part.

        Sparse points give a sparse matrix.
        """
        owners = np.repeat(np.arange(len(self)), np.diff(self.start))
        places, shape = np.arange(len(owners)), (len(self), len(owners))
        return sp.csr_matrix((self.coefficients[:, 0], (owners, places)), shape) @ self.points

    def _by_group(self, values: np.ndarray) -> np.ndarray:
        """Sum over the points of each group, along the first axis."""
        if len(values) == len(self):
            return values
        return np.add.reduceat(values, self.start[:-1], axis=0)


def _units(places: np.ndarray, like: Matrix) -> Matrix:
    """Return rows with a single 1, in the width and format of another matrix."""
    if not sp.issparse(like):
        return np.eye(like.shape[1])[places]
    ones = np.ones(len(places)), (np.arange(len(places)), places)
    return sp.csr_matrix(ones, shape=(len(places), like.shape[1]))
