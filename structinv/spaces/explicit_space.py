"""Space of linear functions of explicit features, with normals of planes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from ..oracles.query import Query, Violations
from ..structures.competitors import Competitors
from ..utils.matrices import (
    ALL_ROWS,
    Matrix,
    Rows,
    add_combinations,
    dense,
    products,
    scale_rows,
    stack,
    take,
)
from .base import Normals, Space
from .point_sums import PointSums

if TYPE_CHECKING:
    from ..oracles.base import BoundOracle

# Number of inner products of points in memory at once.
ENTRIES_AT_ONCE = 4_000_000


class TensorRows(PointSums):
    """Rows ``[vec(sum over group j of points_r (x) coefficients_r), pairwise_j]``.

    A plane of a multiclass loss is a sample times two or three coefficients. A plane of a structured
    loss is a sum of these over the rows of an example. This form multiplies each point once, not once
    per output.
    """

    @classmethod
    def of_rows(cls, rows: np.ndarray, n_outputs: int, n_pairwise: int) -> TensorRows:
        """Convert flat dense rows to this form."""
        split = rows.shape[1] - n_pairwise
        tables = rows[:, :split].reshape(len(rows), split // n_outputs, n_outputs).swapaxes(1, 2)
        points = tables.reshape(len(rows) * n_outputs, split // n_outputs)
        coefficients = np.tile(np.eye(n_outputs), (len(rows), 1))
        return cls(points, coefficients, n_outputs * np.arange(len(rows) + 1), rows[:, split:])

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows, and their length as flat rows."""
        width = self.points.shape[1] * self.coefficients.shape[1] + self.pairwise.shape[1]
        return len(self), width

    def products(self, f: np.ndarray) -> np.ndarray:
        """Return the inner product of each row with a flat element."""
        k, n_pairwise = self.coefficients.shape[1], self.pairwise.shape[1]
        table = f[: len(f) - n_pairwise].reshape(self.points.shape[1], k)
        each = np.zeros(self.coefficients.shape[0])
        for part, coefficients in self._dense_coefficients():
            each[part] = np.einsum("rk,rk->r", products(take(self.points, part), table), coefficients)
        return self.by_normal(each) + self.pairwise @ f[len(f) - n_pairwise :]

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
        spread = self.spread(weights)
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
            gram[:, first:last] = self.by_normal(part.by_normal(tables.T).T)
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
            table[:, :, k] = self.by_normal(dense(part))
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


def _units(places: np.ndarray, like: Matrix) -> Matrix:
    """Return rows with a single 1, in the width and format of another matrix."""
    if not sp.issparse(like):
        return np.eye(like.shape[1])[places]
    ones = np.ones(len(places)), (np.arange(len(places)), places)
    return sp.csr_matrix(ones, shape=(len(places), like.shape[1]))


class ExplicitSpace(Space):
    """Linear functions ``f(x, k) = <w_k, x> + b_k`` with the Euclidean norm.

    An element is a flat array: the (n_features [+ 1], n_outputs) weights, then `n_pairwise` pairwise
    weights, such as transitions. If `intercept` is True, the last row of the weights has the constants.
    All weights of a feature are adjacent in memory, which suits sparse rows.

    Parameters
    ----------
    n_features : int
        Number of features of a sample.
    n_outputs : int, default=1
        Number of functions.
    intercept : bool, default=False
        If True, each sample has a constant feature 1. It is penalized like the others, and oracles do
        not change it.
    n_pairwise : int, default=0
        Number of pairwise weights.

    See Also
    --------
    KernelSpace : Kernel expansions.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.spaces import ExplicitSpace
    >>> space = ExplicitSpace(2, intercept=True)
    >>> space.weights(np.array([1.0, 2.0, 3.0])), space.constants(np.array([1.0, 2.0, 3.0]))
    (array([[1., 2.]]), array([3.]))
    """

    capabilities = frozenset(["linear in x"])

    def __init__(
        self,
        n_features: int,
        n_outputs: int = 1,
        *,
        intercept: bool = False,
        n_pairwise: int = 0,
    ) -> None:
        self.n_features = n_features
        self.n_outputs = n_outputs
        self.intercept = intercept
        self.n_pairwise = n_pairwise
        self.stride = n_features + bool(intercept)
        self.size = n_outputs * self.stride + n_pairwise

    def zeros(self) -> np.ndarray:
        return np.zeros(self.size)

    def weights(self, f: np.ndarray) -> np.ndarray:
        """Return the weight of each feature, as a view.

        Parameters
        ----------
        f : ndarray of shape (size,)
            Element.

        Returns
        -------
        ndarray of shape (n_outputs, n_features)
            Weights.
        """
        return self.table(f)[: self.n_features].T

    def constants(self, f: np.ndarray) -> np.ndarray:
        """Return the constant of each output; zeros without an intercept.

        Parameters
        ----------
        f : ndarray of shape (size,)
            Element.

        Returns
        -------
        ndarray of shape (n_outputs,)
            Constants.
        """
        return self.table(f)[-1] if self.intercept else np.zeros(self.n_outputs)

    def table(self, f: np.ndarray) -> np.ndarray:
        """Return weights and constants by feature, as a view.

        Parameters
        ----------
        f : ndarray of shape (size,)
            Element.

        Returns
        -------
        ndarray of shape (n_features [+ 1], n_outputs)
            Weights; the last row has the constants if `intercept` is True.
        """
        return self._table_of(f[None])[0]

    def _table_of(self, rows: np.ndarray) -> np.ndarray:
        """Return `table` of several elements as a view."""
        width = self.size - self.n_pairwise
        return rows[:, :width].reshape(len(rows), self.stride, self.n_outputs)

    def pairwise(self, f: np.ndarray) -> np.ndarray:
        return f[self.size - self.n_pairwise :]

    def dot(self, f: np.ndarray, g: np.ndarray) -> float:
        return float(f @ g)

    def scores(self, f: np.ndarray, normals: Normals) -> np.ndarray:
        return normals.products(f) if isinstance(normals, TensorRows) else normals @ f

    def combine(self, normals: Normals, coefficients: np.ndarray) -> np.ndarray:
        if isinstance(normals, TensorRows):
            return normals.combination(coefficients)
        return normals.T @ coefficients

    def add(self, f: np.ndarray, points: Matrix, coefficients: np.ndarray) -> None:
        """Add the weights ``coefficients' points`` to an element.

        The constants, if any, increase by the column sums of `coefficients`.

        Parameters
        ----------
        f : ndarray of shape (size,)
            Element, changed in place.
        points : ndarray or CSR matrix of shape (n, n_features)
            Points.
        coefficients : ndarray of shape (n, n_outputs)
            Coefficients of each point.
        """
        table = self.table(f)
        add_combinations(points, coefficients, table[: self.n_features])
        if self.intercept:
            table[-1] += coefficients.sum(axis=0)

    def mix(self, normals: Normals, coefficients: np.ndarray) -> Normals:
        if isinstance(normals, TensorRows):
            return normals.mix(coefficients)
        row = coefficients[None, :]
        return sp.csr_matrix(row) @ normals if sp.issparse(normals) else row @ normals

    def mixtures(self, normals: Normals, shares: sp.csr_matrix) -> Normals:
        if isinstance(normals, TensorRows):
            return super().mixtures(normals, shares)
        return shares @ normals

    def gram(self, left: Normals, right: Normals) -> np.ndarray:
        left, right = self._in_one_form([left, right])
        if isinstance(left, TensorRows):
            return left.gram(right)
        products = left @ right.T
        return dense(products)

    def stack(self, parts: Sequence[Normals]) -> Normals:
        converted = self._in_one_form(parts)
        if len(converted) > 1 and isinstance(converted[0], TensorRows):
            return TensorRows.join(converted)
        return stack(converted)

    def _in_one_form(self, parts: Sequence[Normals]) -> list[Any]:
        """Return all parts as tensor rows, or all as plain rows.

        Mixed parts become plain if one of them is sparse, otherwise tensor rows.
        """
        tensors = [isinstance(part, TensorRows) for part in parts]
        if all(tensors) or not any(tensors):
            return list(parts)
        if any(sp.issparse(part) for part in parts):
            return [self._plain(part) if isinstance(part, TensorRows) else part for part in parts]
        sizes = self.n_outputs, self.n_pairwise
        return [
            part if isinstance(part, TensorRows) else TensorRows.of_rows(part, *sizes) for part in parts
        ]

    def _plain(self, rows: TensorRows) -> Matrix:
        """Convert tensor rows to plain ones."""
        return self._fold(rows.points, dense(rows.coefficients), rows.start, rows.pairwise)

    def element(self, f: np.ndarray) -> Matrix:
        return f[None, :].copy()

    def scaled(self, normals: Normals, factors: np.ndarray) -> Normals:
        tensor = isinstance(normals, TensorRows)
        return normals.scaled(factors) if tensor else scale_rows(normals, factors)

    def worst(
        self,
        f: np.ndarray,
        bound: BoundOracle,
        rows: Rows,
        competitors: Competitors,
        points: bool = True,
        rounding: bool = False,
    ) -> Violations:
        query = Query(self.weights(f), self.constants(f), competitors, points, rounding)
        return bound.worst(rows, query)

    def values(self, f: np.ndarray, X: Matrix) -> np.ndarray:
        return products(X, self.weights(f).T) + self.constants(f)

    def member_values(self, f: np.ndarray, bound: BoundOracle, rows: Rows) -> np.ndarray | None:
        changes = bound.changes()
        scores = None if changes is None else changes.scores(rows, self.weights(f))
        if scores is None or not self.intercept:
            return scores
        return scores + self.constants(f).astype(scores.dtype)

    def normals(
        self,
        points: Matrix,
        coefficients: np.ndarray,
        groups: np.ndarray | None = None,
        pairwise: Matrix | None = None,
    ) -> Normals:
        # Plain rows for groups or a single output, tensor rows otherwise.
        if groups is not None:
            ones = np.ones(points.shape[0], dtype=points.dtype)
            return self._fold(self.with_constants(points, ones), coefficients, groups, pairwise)
        if self.n_outputs == 1 and not self.n_pairwise:
            signs = coefficients[:, 0]
            return self.with_constants(scale_rows(points, signs), signs)
        n_rows = points.shape[0]
        tail = np.zeros((n_rows, self.n_pairwise)) if pairwise is None else dense(pairwise)
        ones = np.ones(n_rows, dtype=points.dtype)
        return TensorRows(self.with_constants(points, ones), coefficients, np.arange(n_rows + 1), tail)

    def _fold(
        self, whole: Matrix, coefficients: np.ndarray, groups: np.ndarray, pairwise: Any
    ) -> Matrix:
        """Return the sum of each group's rows, with the length of an element.

        The result is dense if the points are dense, and if it needs about as much memory as the points.
        """
        n_blocks, n_rows = len(groups) - 1, whole.shape[0]
        owners = np.repeat(np.arange(n_blocks), np.diff(groups))
        rows, outputs = np.nonzero(coefficients)
        used, place = np.unique(owners[rows] * self.n_outputs + outputs, return_inverse=True)
        shape = (len(used), n_rows)
        gather = sp.csr_matrix((coefficients[rows, outputs], (place, rows)), shape)
        blocks, outputs = np.divmod(used, self.n_outputs)
        sums = gather @ whole
        tail = sp.csr_matrix((n_blocks, self.n_pairwise) if pairwise is None else pairwise)
        if not sp.issparse(sums) and 2 * n_blocks * self.n_outputs <= 3 * max(len(used), n_rows):
            folded = np.zeros((n_blocks, self.size), dtype=sums.dtype)
            self._table_of(folded)[blocks, :, outputs] = sums
            folded[:, self.size - self.n_pairwise :] = tail.toarray()
            return folded
        # Move the entries of sum s to the columns of its output, in the row of its block.
        sums = sp.csr_matrix(sums)
        columns = sums.indices.astype(np.int64) * self.n_outputs + np.repeat(
            outputs, np.diff(sums.indptr)
        )
        entries = sums.data, (np.repeat(blocks, np.diff(sums.indptr)), columns)
        width = self.size - self.n_pairwise
        return sp.csr_matrix(sp.hstack([sp.csr_matrix(entries, (n_blocks, width)), tail]))

    def with_constants(self, rows: Matrix, constants: np.ndarray) -> Matrix:
        """Append a constant to each row if the space has an intercept.

        Parameters
        ----------
        rows : ndarray or CSR matrix of shape (n, n_features)
            Rows.
        constants : ndarray of shape (n,)
            Constant of each row.

        Returns
        -------
        ndarray or CSR matrix of shape (n, n_features [+ 1])
            Extended rows.
        """
        if not self.intercept:
            return rows
        if sp.issparse(rows):
            last, width = rows.indptr[1:], rows.shape[1]
            entries = np.insert(rows.data, last, constants), np.insert(rows.indices, last, width)
            starts = rows.indptr + np.arange(len(rows.indptr), dtype=rows.indptr.dtype)
            return sp.csr_matrix((*entries, starts), shape=(rows.shape[0], width + 1))
        return np.column_stack([rows, constants])


class OffsetSpace(ExplicitSpace):
    """Linear functions with an additional constant for each row.

    Shapes: `offsets` (n_rows, n_outputs).
    """

    capabilities = frozenset()

    def __init__(self, space: ExplicitSpace, offsets: np.ndarray) -> None:
        super().__init__(
            space.n_features, space.n_outputs, intercept=space.intercept, n_pairwise=space.n_pairwise
        )
        self.offsets = offsets

    def worst(
        self,
        f: np.ndarray,
        bound: BoundOracle,
        rows: Rows,
        competitors: Competitors,
        points: bool = True,
        rounding: bool = False,
    ) -> Violations:
        return (
            super()
            .worst(f, bound, rows, competitors, points, rounding)
            .shifted(competitors.functions.scores(take(self.offsets, rows)), competitors.codes)
        )

    def values(self, f: np.ndarray, X: Matrix) -> np.ndarray:
        return super().values(f, X) + self.offsets

    def of_rows(self, rows: Rows) -> OffsetSpace:
        return OffsetSpace(self, take(self.offsets, rows))
