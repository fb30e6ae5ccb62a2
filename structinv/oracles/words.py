"""Words of a bag of words that the other side may drop or rescale."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from numbers import Real
from typing import Self

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone

from ..matrices import Matrix, Rows, csr, floating, in_threads, longest_row, take, with_data
from .arguments import check_directions, grade_profile
from .base import (
    BoundOracle,
    Hull,
    InvarianceOracle,
    Support,
    answers_for_itself,
    dense_rows,
)
from .hulls import LabelHull
from .identity_hull import IdentityHull
from .image_parameters import check_distribution, draw
from .label_hull import IdentityLabelHull, WordLabelHull, word_losses
from .word_hull import WordHull
from .word_kernels import edit_rows, edit_rows_graded, worst_sums
from .word_leads import word_edits, word_leads


class WordOracle(InvarianceOracle):
    """At most `max_changes` entries of x are multiplied by factors in [low, high].

    A word that is absent stays absent. With ``b = v * x`` the gain of word j is
    ``max((low - 1) b_j, (high - 1) b_j)`` and the best edit takes the largest positive gains: linear
    in the words of the row, whatever the signs of x.
    """

    supports_sparse = True
    featurewise = True
    max_changes: int

    @property
    def factors(self) -> tuple[float, float]:
        """The smallest and the largest factor."""
        raise NotImplementedError

    def validate(self, n_features: int | None = None) -> None:
        K = self.max_changes
        if not isinstance(K, (int, np.integer)) or isinstance(K, bool):
            raise TypeError(f"max_changes must be an integer, got {K!r}")
        if K < 0:
            raise ValueError(f"max_changes must be at least 0, got {K!r}")

    def most_changes(self) -> int:
        return int(self.max_changes)

    def limited(self, max_changes: int) -> Self:
        return clone(self).set_params(max_changes=max_changes)

    def support(
        self, X: Matrix, V: np.ndarray, assign: np.ndarray, cost: np.ndarray | None = None
    ) -> Support:
        """See `InvarianceOracle.support`; exact (Teo et al. 2007, alg. 3, without its sort)."""
        self._check_rows(X)
        check_directions(X, V, assign, cost)
        rows = csr(X)
        edited = self._edited(rows, V, assign)
        return Support(_like(X, rows, edited))

    def _maxima(
        self, rows: sp.csr_matrix, V: np.ndarray, assign: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """The maxima of all rows and the sizes of their products."""
        n_rows, V = rows.shape[0], np.ascontiguousarray(V, dtype=np.float64)
        values, sizes, near = np.empty(n_rows), np.empty(n_rows), np.zeros(n_rows)
        K, room = int(min(self.max_changes, rows.shape[1])), longest_row(rows.indptr) + 1

        def ask(part: slice) -> None:
            worst_sums(
                rows.indptr[part.start : part.stop + 1], rows.indices, rows.data, V, assign[part],
                K, *self.factors, near[part], values[part], sizes[part], np.empty((2, room)),
            )  # fmt: skip

        in_threads(ask, n_rows, rows.nnz)
        return values, sizes

    def _edited(self, rows: sp.csr_matrix, V: np.ndarray, assign: np.ndarray) -> np.ndarray:
        """The data of all rows after their worst edits."""
        edited, V = rows.data.copy(), np.ascontiguousarray(V, dtype=np.float64)
        K, room = int(min(self.max_changes, rows.shape[1])), longest_row(rows.indptr) + 1

        def ask(part: slice) -> None:
            edit_rows(
                rows.indptr[part.start : part.stop + 1], rows.indices, rows.data, V, assign[part],
                K, *self.factors, edited, np.empty((2, room)),
            )  # fmt: skip

        in_threads(ask, rows.shape[0], rows.nnz)
        return edited

    def graded_support(
        self,
        X: Matrix,
        V: np.ndarray,
        assign: np.ndarray,
        cost: np.ndarray,
        rho: float | Sequence[float],
    ) -> Support:
        """See `InvarianceOracle.graded_support`; `rho` is indexed by the number of edits."""
        self._check_rows(X)
        check_directions(X, V, assign, cost)
        grades = grade_profile(rho, self.max_changes + 1)
        rows, V = csr(X), np.ascontiguousarray(V, dtype=np.float64)
        edited, reached, room = rows.data.copy(), np.empty(rows.shape[0]), longest_row(rows.indptr) + 1
        edit_rows_graded(
            rows.indptr, rows.indices, rows.data, V, assign, int(min(self.max_changes, rows.shape[1])),
            *self.factors, grades, np.ascontiguousarray(cost, dtype=np.float64), edited, reached,
            np.empty((2, room)), np.empty(room, dtype=np.int64),
        )  # fmt: skip
        return Support(_like(X, rows, edited), rho=reached)

    def bind(self, X: Matrix, y: np.ndarray | None = None) -> BoundOracle:
        self._check_rows(X)
        own = answers_for_itself(self, WordOracle)
        return BoundOracle(self, X, y) if own else _BoundWords(self, X, y)

    def sample(self, X: Matrix, size: int, rng: np.random.Generator) -> np.ndarray:
        """Members with a uniform number of edits, at words drawn uniformly."""
        self._check_rows(X)
        members = np.repeat(floating(dense_rows(X))[:, None, :], size, axis=1)
        present = members != 0
        edits = rng.integers(self.max_changes + 1, size=members.shape[:2])
        order = np.where(present, rng.random(members.shape), np.inf).argsort(axis=2).argsort(axis=2)
        edited = present & (order < edits[:, :, None])
        factors = self._drawn_factors(members.shape, rng)
        return np.where(edited, members * factors, members).astype(members.dtype, copy=False)

    def _drawn_factors(self, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
        return rng.uniform(*self.factors, size=shape)

    def contains(self, x: np.ndarray, z: np.ndarray) -> bool:
        low, high = self.factors
        tolerance = 1e-9 * (1.0 + np.abs(x)) * (x != 0)
        edges = np.stack([low * x, high * x])
        inside = (z >= edges.min(axis=0) - tolerance) & (z <= edges.max(axis=0) + tolerance)
        edited = np.abs(z - x) > tolerance
        return bool(np.all(inside) and np.count_nonzero(edited) <= self.max_changes)


class FScale(WordOracle):
    """FSCALE: at most `max_changes` words are scaled by factors between `low` and `high`.

    ``S(x) = {x * a : low <= a <= high, at most max_changes entries of a differ from 1}``
    (Teo et al. 2007, sec. 3).

    Parameters
    ----------
    max_changes : int
        At least 0. There is no default: ten changes are nothing to a long mail, and all of a short
        one.
    low : float, default=0.5
        Smallest factor, in [0, 1].
    high : float, default=2.0
        Largest factor, at least 1.
    distribution : {"uniform", "lognormal"}, default="uniform"
        Of the factors in `sample`. "lognormal" is a normal density over their logarithm, largest at 1
        and cut off at `low` and `high`; it needs `low` above 0.
    spread : float, optional
        Standard deviation of the logarithm, before it is cut off; needed and above 0 for "lognormal".

    Examples
    --------
    >>> import numpy as np
    >>> X, v = np.array([[1.0, 2.0, 0.0]]), np.array([[1.0, -1.0, 5.0]])
    >>> FScale(max_changes=1).support(X, v, np.array([0])).points
    array([[2., 2., 0.]])
    """

    def __init__(
        self,
        max_changes: int,
        low: float = 0.5,
        high: float = 2.0,
        *,
        distribution: str = "uniform",
        spread: float | None = None,
    ) -> None:
        self.max_changes = max_changes
        self.low = low
        self.high = high
        self.distribution = distribution
        self.spread = spread

    @property
    def factors(self) -> tuple[float, float]:
        return float(self.low), float(self.high)

    def validate(self, n_features: int | None = None) -> None:
        super().validate(n_features)
        for name, value, least, most in (("low", self.low, 0, 1), ("high", self.high, 1, np.inf)):
            if not isinstance(value, Real) or isinstance(value, bool):
                raise TypeError(f"{name} must be a number, got {value!r}")
            if not least <= value <= most or value == np.inf:
                allowed = "a factor in [0, 1]" if most == 1 else "a finite factor of at least 1"
                raise ValueError(f"{name} must be {allowed}, got {value!r}")
        check_distribution("FScale", ("uniform", "lognormal"), self.distribution, self.spread)
        if self.distribution == "lognormal" and self.low == 0:
            raise ValueError(f"low must be above 0 for the distribution 'lognormal', got {self.low!r}")

    def _drawn_factors(self, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
        return draw(self.distribution, *self.factors, 1.0, self.spread, shape, rng)


class FDrop(WordOracle):
    """FDROP: at most `max_changes` words are dropped (Globerson and Roweis 2006).

    ``S(x) = {x * a : 0 <= a <= 1, at most max_changes entries of a differ from 1}``

    Parameters
    ----------
    max_changes : int
        At least 0. There is no default: ten changes are nothing to a long mail, and all of a short
        one.

    Examples
    --------
    >>> import numpy as np
    >>> X, v = np.array([[1.0, 2.0, 0.0]]), np.array([[1.0, -1.0, 5.0]])
    >>> FDrop(max_changes=1).support(X, v, np.array([0])).points
    array([[1., 0., 0.]])
    """

    factors = (0.0, 1.0)

    def __init__(self, max_changes: int) -> None:
        self.max_changes = max_changes


class _BoundWords(BoundOracle):
    """Words on given rows, with in-hull steps."""

    oracle: WordOracle

    @cached_property
    def words(self) -> sp.csr_matrix:
        """All rows; dense ones become sparse once, and not in each call."""
        return csr(self.X)

    def edits(self) -> tuple[int, float, float]:
        return int(min(self.oracle.max_changes, self.X.shape[1])), *self.oracle.factors

    def support(
        self, rows: Rows, V: np.ndarray, assign: np.ndarray, cost: np.ndarray | None = None
    ) -> Support:
        answer = self.oracle.support(take(self.words, rows), V, assign, cost)
        return self._as_given(answer)

    def graded_support(
        self,
        rows: Rows,
        V: np.ndarray,
        assign: np.ndarray,
        cost: np.ndarray,
        rho: float | Sequence[float],
    ) -> Support:
        answer = self.oracle.graded_support(take(self.words, rows), V, assign, cost, rho)
        return self._as_given(answer)

    def _as_given(self, answer: Support) -> Support:
        """The answer with points that are dense if the rows are."""
        if sp.issparse(self.X):
            return answer
        return replace(answer, points=answer.points.toarray())

    def maximum(self, rows: Rows, V: np.ndarray, assign: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """See `BoundOracle.maximum`: without points nothing is copied."""
        part = take(self.words, rows)
        values, sizes = self.oracle._maxima(part, V, assign)
        return values, sizes * max(1.0, self.oracle.factors[1])

    def hull(self, signs: np.ndarray, weights: np.ndarray, intercept: bool) -> Hull:
        rows, (changes, low, high) = self.words, self.edits()
        if changes == 0 or low == high:
            return IdentityHull(rows, signs, weights, intercept)
        return WordHull(
            rows, signs, weights, max_changes=changes, low=low, high=high, intercept=intercept
        )

    def largest_leads(
        self, rows: Rows, table: np.ndarray, codes: np.ndarray, cost: np.ndarray, intercept: bool
    ) -> np.ndarray | None:
        changes, low, high = self.edits()
        moves = changes, 1.0 - low, high - 1.0
        return word_losses(take(self.words, rows), codes, cost, intercept, moves, table)

    def leads(self, rows: Rows, table: np.ndarray, codes: np.ndarray, intercept: bool) -> np.ndarray:
        part, found = take(self.words, rows), np.empty((len(codes), table.shape[1]))
        table = np.ascontiguousarray(table, dtype=np.float64)
        edits = self.edits()

        def ask(some: slice) -> None:
            indptr = part.indptr[some.start : some.stop + 1]
            word_leads(indptr, part.indices, part.data, table, codes[some], *edits, found[some])

        in_threads(ask, len(codes), part.nnz * table.shape[1])
        return found + (table[-1] - table[-1][codes, None]) if intercept else found

    def leading(self, rows: Rows, table: np.ndarray, codes: np.ndarray, labels: np.ndarray) -> Matrix:
        part = take(self.words, rows)
        edited, table = part.data.copy(), np.ascontiguousarray(table, dtype=np.float64)
        word_edits(part.indptr, part.indices, part.data, table, codes, labels, *self.edits(), edited)
        return _like(self.X, part, edited)

    def label_hull(
        self, codes: np.ndarray, weights: np.ndarray, cost: np.ndarray, intercept: bool
    ) -> LabelHull | None:
        rows, (changes, low, high) = self.words, self.edits()
        if changes == 0 or low == high:
            return IdentityLabelHull(rows, codes, weights, cost, intercept=intercept)
        return WordLabelHull(
            rows,
            codes,
            weights,
            cost,
            max_changes=changes,
            low=low,
            high=high,
            intercept=intercept,
        )


def _like(X: Matrix, rows: sp.csr_matrix, data: np.ndarray) -> Matrix:
    edited = with_data(rows, data)
    return edited if sp.issparse(X) else edited.toarray()
