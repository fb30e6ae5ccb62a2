"""Explicit features: functions that are linear in the input."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..matrices import Matrix, add_combinations, row_dots, scale_rows, stack, take
from ..tensor_rows import TensorRows
from .base import Furthest, Normals, Question, Space, best_members


class ExplicitSpace(Space):
    """Functions ``f(x, k) = <w_k, x> + b_k`` on explicit features, with the Euclidean norm.

    An element is the flat array of the (n_outputs, n_features [+ 1]) weights, each row ending with its
    constant if `intercept`, followed by `n_extra` parameters that no input multiplies (transitions
    between labels, for instance).

    Parameters
    ----------
    n_features : int
    n_outputs : int, default=1
    intercept : bool, default=False
        Whether every input has a constant feature 1, penalised like the others and seen by no oracle.
    n_extra : int, default=0

    Examples
    --------
    >>> import numpy as np
    >>> space = ExplicitSpace(2, intercept=True)
    >>> space.weights(np.array([1.0, 2.0, 3.0])), space.constants(np.array([1.0, 2.0, 3.0]))
    (array([[1., 2.]]), array([3.]))
    """

    def __init__(
        self, n_features: int, n_outputs: int = 1, *, intercept: bool = False, n_extra: int = 0
    ) -> None:
        self.n_features = n_features
        self.n_outputs = n_outputs
        self.intercept = intercept
        self.n_extra = n_extra
        self.stride = n_features + bool(intercept)
        self.size = n_outputs * self.stride + n_extra

    def zeros(self) -> np.ndarray:
        """See `Space.zeros`."""
        return np.zeros(self.size)

    def weights(self, f: np.ndarray) -> np.ndarray:
        """The weight of each feature, (n_outputs, n_features); a view."""
        return self._table(f)[:, : self.n_features]

    def constants(self, f: np.ndarray) -> np.ndarray:
        """The constant of each output, (n_outputs,); zeros without an intercept."""
        return self._table(f)[:, -1] if self.intercept else np.zeros(self.n_outputs)

    def extra(self, f: np.ndarray) -> np.ndarray:
        """The parameters that no input multiplies, (n_extra,); a view."""
        return f[self.size - self.n_extra :]

    def _table(self, f: np.ndarray) -> np.ndarray:
        return f[: self.size - self.n_extra].reshape(self.n_outputs, self.stride)

    def dot(self, f: np.ndarray, g: np.ndarray) -> float:
        """See `Space.dot`."""
        return float(f @ g)

    def scores(self, f: np.ndarray, normals: Normals) -> np.ndarray:
        """See `Space.scores`."""
        return normals.products(f) if isinstance(normals, TensorRows) else normals @ f

    def combine(self, normals: Normals, coefficients: np.ndarray) -> np.ndarray:
        """See `Space.combine`."""
        if isinstance(normals, TensorRows):
            return normals.combination(coefficients)
        return normals.T @ coefficients

    def add(self, f: np.ndarray, points: Matrix, coefficients: np.ndarray) -> None:
        """Add ``sum_i sum_k coefficients[i, k] e_k (x) points[i]`` to `f`, without making normals."""
        table = self._table(f)
        add_combinations(points, coefficients, table[:, : self.n_features])
        if self.intercept:
            table[:, -1] += coefficients.sum(axis=0)

    def mix(self, normals: Normals, coefficients: np.ndarray) -> Normals:
        """See `Space.mix`."""
        if isinstance(normals, TensorRows):
            return normals.mix(coefficients)
        row = coefficients[None, :]
        return sp.csr_matrix(row) @ normals if sp.issparse(normals) else row @ normals

    def gram(self, left: Normals, right: Normals) -> np.ndarray:
        """See `Space.gram`."""
        if isinstance(left, TensorRows) or isinstance(right, TensorRows):
            return self._tensor(left).gram(self._tensor(right))
        products = left @ right.T
        return products.toarray() if sp.issparse(products) else products

    def stack(self, parts: Sequence[Normals]) -> Normals:
        """See `Space.stack`."""
        if len(parts) > 1 and any(isinstance(part, TensorRows) for part in parts):
            return TensorRows.join([self._tensor(part) for part in parts])
        return stack(parts)

    def _tensor(self, normals: Normals) -> TensorRows:
        if isinstance(normals, TensorRows):
            return normals
        return TensorRows.of_rows(normals, self.n_outputs, self.n_extra)

    def element(self, f: np.ndarray) -> Matrix:
        """See `Space.element`."""
        return f[None, :].copy()

    def owns(self, normals: Normals) -> bool:
        """See `Space.owns`."""
        rows = isinstance(normals, (np.ndarray, TensorRows)) or sp.issparse(normals)
        return rows and normals.shape[1] == self.size

    def furthest(
        self,
        f: np.ndarray,
        question: Question,
        tables: np.ndarray,
        codes: np.ndarray,
        worth: np.ndarray,
        points: bool = True,
    ) -> Furthest:
        """See `Space.furthest`: the few weights become directions, not the many rows."""
        scores = question.member_scores(self.weights(f))
        if scores is None:
            return self._one_by_one(f, question, tables, codes, worth, points)
        values = scores + self.constants(f).astype(scores.dtype) if self.intercept else scores
        gains, rewards, members = best_members(values, tables, codes, worth, question.grades())

        def chosen(alternative: np.ndarray) -> Matrix:
            index = members[np.arange(len(alternative)), alternative]
            return question.members(np.where(alternative < 0, 0, index))

        return Furthest(gains, rewards, gains + rewards, chosen if points else None)

    def _one_by_one(
        self,
        f: np.ndarray,
        question: Question,
        tables: np.ndarray,
        codes: np.ndarray,
        worth: np.ndarray,
        points: bool,
    ) -> Furthest:
        """Ask the oracle once for each alternative, about the rows for which it competes."""
        shape = (len(codes), len(tables))
        gains, rewards, upper = np.zeros(shape), np.zeros(shape), np.zeros(shape)
        found: list[tuple[tuple[np.ndarray, int], Matrix]] = []
        for alternative, (table, worths) in enumerate(zip(tables, worth, strict=True)):
            asked = np.flatnonzero((np.any(table != 0, axis=1) | (worths > 0))[codes])
            if len(asked) == 0:
                continue
            part = question if len(asked) == len(codes) else question.only(asked)
            few = codes[asked]
            reached = self._ask(f, part, table, few, worths[few], points)
            where = asked, alternative
            gains[where], rewards[where], upper[where] = reached[1:]
            if points:
                found.append((where, reached[0]))

        def chosen(alternative: np.ndarray) -> Matrix:
            return _gather(question, found, alternative)

        return Furthest(gains, rewards, upper, chosen if points else None)

    def _ask(
        self,
        f: np.ndarray,
        question: Question,
        table: np.ndarray,
        codes: np.ndarray,
        worth: np.ndarray,
        points: bool,
    ) -> tuple[Matrix, np.ndarray, np.ndarray, np.ndarray]:
        """Points (None if not wanted), gains, rewards and upper bounds for one alternative."""
        directions = np.ascontiguousarray(table @ self.weights(f))
        constants = (table @ self.constants(f))[codes]
        largest = None if points else question.maximum(directions, codes)
        if largest is not None:
            gains = largest + constants
            return None, gains, worth, gains + worth
        answer = question.support(directions, codes, worth)
        gains = row_dots(answer.points, directions, codes) + constants
        rewards = worth if answer.rho is None else worth * answer.rho
        upper = gains + rewards
        if answer.upper is not None:
            graded = worth if answer.rho is None else 0.0
            upper = np.maximum(upper, answer.upper + graded + constants)
        return answer.points, gains, rewards, upper

    def normals(
        self,
        points: Matrix,
        coefficients: np.ndarray,
        groups: np.ndarray | None = None,
        extra: Matrix | None = None,
    ) -> Normals:
        """See `Space.normals`: plain rows for a single output, tensor rows otherwise."""
        if self.n_outputs == 1 and groups is None and not self.n_extra:
            signs = coefficients[:, 0]
            return self.with_constants(scale_rows(points, signs), signs)
        n_rows = points.shape[0]
        start = np.arange(n_rows + 1) if groups is None else groups
        if extra is None:
            extra = np.zeros((len(start) - 1, self.n_extra))
        tail: Any = extra if isinstance(extra, np.ndarray) else extra.toarray()
        ones = np.ones(n_rows, dtype=points.dtype)
        return TensorRows(self.with_constants(points, ones), coefficients, start, tail)

    def with_constants(self, rows: Matrix, constants: np.ndarray) -> Matrix:
        """Rows with a constant put behind, if the space has an intercept."""
        if not self.intercept:
            return rows
        if sp.issparse(rows):
            last, width = rows.indptr[1:], rows.shape[1]
            entries = np.insert(rows.data, last, constants), np.insert(rows.indices, last, width)
            starts = rows.indptr + np.arange(len(rows.indptr), dtype=rows.indptr.dtype)
            return sp.csr_matrix((*entries, starts), shape=(rows.shape[0], width + 1))
        return np.column_stack([rows, constants])


def _gather(
    question: Question, found: list[tuple[tuple[np.ndarray, int], Matrix]], chosen: np.ndarray
) -> Matrix:
    """The point of each row's alternative; the row itself where there is none."""
    if len(found) == 1 and len(found[0][0][0]) == len(chosen):
        return found[0][1]
    parts, owners = [], []
    for (asked, alternative), points in found:
        wanted = np.flatnonzero(chosen[asked] == alternative)
        parts.append(points[wanted])
        owners.append(asked[wanted])
    # Where no alternative can cost anything, no row was asked about.
    silent = np.setdiff1d(np.arange(len(chosen)), np.concatenate([*owners, np.zeros(0, dtype=int)]))
    parts.append(take(question.source.X, question.rows)[silent])
    place = np.argsort(np.concatenate([*owners, silent]), kind="stable")
    return stack(parts)[place]
