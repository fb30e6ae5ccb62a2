"""Words of a bag of words that the other side may add, alone or besides other edits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from numbers import Real
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone

from ..matrices import Matrix, Rows, csr, floating, in_threads, longest_row, short_indices, take
from .arguments import (
    check_count,
    check_directions,
    check_features,
    chosen_features,
    grade_profile,
)
from .base import BoundOracle, InvarianceOracle, Support, answers_for_itself, dense_rows
from .columns import OfFeatures
from .edit_kernels import ranked, worst_edits
from .hulls import Hull
from .support import Additions
from .words import FScale


class EditOracle(OfFeatures, InvarianceOracle):
    """At most `max_changes` words of x are edited: multiplied by factors, or raised by values.

    With ``b = v * x`` the gain of word j is ``max((low - 1) b_j, (high - 1) b_j)`` where it is in the
    row, and ``a_j v_j`` where a value a_j may be added; the best edits take the largest positive gains,
    whatever their kinds. All between no edit and a whole one are members, too.
    """

    supports_sparse = True
    featurewise = True
    feature_parameters = ("allowed",)
    max_changes: int
    allowed: Any

    def edits(self, n_features: int) -> Edits:
        """What may be done to rows of so many features."""
        raise NotImplementedError

    def validate(self, n_features: int | None = None) -> None:
        check_count("max_changes", self.max_changes, least=0)
        if self.allowed is not None:
            check_features("allowed", self.allowed, n_features)

    def most_changes(self) -> int:
        return int(self.max_changes)

    def limited(self, max_changes: int) -> Self:
        return clone(self).set_params(max_changes=max_changes)

    def support(
        self, X: Matrix, V: np.ndarray, assign: np.ndarray, cost: np.ndarray | None = None
    ) -> Support:
        """See `InvarianceOracle.support`; exact."""
        self._check_rows(X)
        check_directions(X, V, assign, cost)
        points, _ = self.edits(X.shape[1]).worst(_words(X), V, assign)
        return Support(points if sp.issparse(X) else points.toarray())

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
        points, reached = self.edits(X.shape[1]).worst(_words(X), V, assign, cost, grades)
        return Support(points if sp.issparse(X) else points.toarray(), rho=reached)

    def bind(self, X: Matrix, y: np.ndarray | None = None) -> BoundOracle:
        self._check_rows(X)
        own = answers_for_itself(self, EditOracle)
        return BoundOracle(self, X, y) if own else _BoundEdits(self, X, y)

    def sample(self, X: Matrix, size: int, rng: np.random.Generator) -> np.ndarray:
        """Members with a uniform number of edits, at words drawn uniformly from those that can be."""
        self._check_rows(X)
        edits = self.edits(X.shape[1])
        members = np.repeat(floating(dense_rows(X))[:, None, :], size, axis=1)
        there = members != 0
        can = (there & edits.multiplies) | ((edits.value > 0) & (~there | edits.present))
        number = rng.integers(self.max_changes + 1, size=members.shape[:2])
        order = np.where(can, rng.random(members.shape), np.inf).argsort(axis=2).argsort(axis=2)
        edited = can & (order < number[:, :, None])
        factors = rng.uniform(edits.low, edits.high, size=members.shape)
        shares = edits.value * rng.random(members.shape)
        changed = np.where(there & edits.multiplies, members * factors, members + shares)
        return np.where(edited, changed, members).astype(members.dtype, copy=False)

    def contains(self, x: np.ndarray, z: np.ndarray) -> bool:
        edits = self.edits(len(x))
        tolerance = 1e-9 * (1.0 + np.abs(x))
        edges = np.stack([x, edits.low * x, edits.high * x])
        raised = np.where((x == 0) | edits.present, edits.value, 0.0)
        low, high = edges.min(axis=0), np.maximum(edges.max(axis=0), x + raised)
        inside = (z >= low - tolerance) & (z <= high + tolerance)
        return bool(np.all(inside) and np.count_nonzero(np.abs(z - x) > tolerance) <= self.max_changes)


class FAdd(EditOracle):
    r"""At most `max_changes` words are added: good words in spam, permissions that malware asks for.

    .. math:: S(x) = \Bigl\{x + \sum_{j \in A} t_j a_j e_j : 0 \le t_j \le 1, \; |A| \le K, \;
       A \subseteq allowed, \; x_j = 0 \text{ for } j \in A\Bigr\}

    with a the `value`. The other half of an adversary's moves, after `FDrop` (Globerson and Roweis
    2006); with `present` a word is counted once more, as in Teo et al. (2007, sec. 5.2).

    Parameters
    ----------
    max_changes : int
        At least 0, and at most the number of features that may be added.
    value : float or (d,) array, default=1.0
        What a feature is raised by, above 0: the number that a word of a text adds where it is new, as
        the weight of the word in rows that are weighted by fixed numbers.
    allowed : array-like of bool of shape (d,), of int or of str, optional
        Features that may be added: a mask, numbers, or names of columns if X is a data frame. All by
        default.
    present : bool, default=False
        Whether features that are in the row may be raised, too.

    Examples
    --------
    >>> import numpy as np
    >>> X, v = np.array([[1.0, 0.0, 0.0]]), np.array([[3.0, 2.0, -1.0]])
    >>> FAdd(max_changes=1).support(X, v, np.array([0])).points
    array([[1., 1., 0.]])
    >>> FAdd(max_changes=1, present=True).support(X, v, np.array([0])).points
    array([[2., 0., 0.]])
    """

    def __init__(
        self, max_changes: int, value: Any = 1.0, allowed: Any = None, present: bool = False
    ) -> None:
        self.max_changes = max_changes
        self.value = value
        self.allowed = allowed
        self.present = present

    def validate(self, n_features: int | None = None) -> None:
        super().validate(n_features)
        _check_value("value", self.value, self.allowed, n_features)
        if not isinstance(self.present, (bool, np.bool_)):
            raise TypeError(f"present must be True or False, got {self.present!r}")
        if n_features is not None:
            able = len(chosen_features(self.allowed, n_features))
            check_count("max_changes", self.max_changes, 0, able, "features that may be added")

    def edits(self, n_features: int) -> Edits:
        value = _spread(self.value, self.allowed, n_features)
        return Edits(int(self.max_changes), 1.0, 1.0, value, bool(self.present))


class FEdit(EditOracle):
    """At most `max_changes` edits in all, of several kinds: words dropped, rescaled, added.

    Parameters
    ----------
    max_changes : int
        At least 0, and at most the number of features.
    drop : bool, default=True
        Whether words of the row may be dropped, wholly or in part.
    add : float or (d,) array, optional
        What an absent feature may be raised by, above 0; without it nothing is added.
    scale : (float, float), optional
        Lowest and highest factor of words of the row, the first in [0, 1], the second at least 1.
    allowed : array-like of bool of shape (d,), of int or of str, optional
        Features that may be added: a mask, numbers, or names of columns if X is a data frame. All by
        default.

    Examples
    --------
    >>> import numpy as np
    >>> X, v = np.array([[1.0, 0.0, 4.0]]), np.array([[3.0, 2.0, -1.0]])
    >>> FEdit(max_changes=2, add=1.0).support(X, v, np.array([0])).points
    array([[1., 1., 0.]])
    """

    def __init__(
        self,
        max_changes: int,
        *,
        drop: bool = True,
        add: Any = None,
        scale: tuple[float, float] | None = None,
        allowed: Any = None,
    ) -> None:
        self.max_changes = max_changes
        self.drop = drop
        self.add = add
        self.scale = scale
        self.allowed = allowed

    def validate(self, n_features: int | None = None) -> None:
        super().validate(n_features)
        if not isinstance(self.drop, (bool, np.bool_)):
            raise TypeError(f"drop must be True or False, got {self.drop!r}")
        _check_scale(self.scale)
        if self.add is not None:
            _check_value("add", self.add, self.allowed, n_features)
        elif self.allowed is not None:
            raise ValueError(
                f"allowed names features that may be added, and add is None: give add what they are "
                f"raised by, or leave allowed out; got {self.allowed!r}"
            )
        elif not self.drop and self.scale is None:
            raise ValueError("FEdit must allow an edit: drop=True, add=a value, or scale=(low, high)")
        if n_features is not None:
            check_count("max_changes", self.max_changes, 0, n_features, "features")

    def edits(self, n_features: int) -> Edits:
        low, high = (1.0, 1.0) if self.scale is None else self.scale
        value = np.zeros(n_features)
        if self.add is not None:
            value = _spread(self.add, self.allowed, n_features)
        return Edits(int(self.max_changes), 0.0 if self.drop else float(low), float(high), value, False)


@dataclass(frozen=True)
class Edits:
    """What may be done to rows, as compiled functions take it.

    Parameters
    ----------
    max_changes : int
    low, high : float
        Factors of words that are there.
    value : (d,) array
        What may be added to each feature, 0 where nothing may.
    present : bool
        Whether it may be added to features that are there.
    """

    max_changes: int
    low: float
    high: float
    value: np.ndarray
    present: bool

    @property
    def multiplies(self) -> bool:
        """Whether words that are there may change by a factor."""
        return self.low < self.high

    def worst(
        self,
        rows: sp.csr_matrix,
        V: np.ndarray,
        assign: np.ndarray,
        cost: np.ndarray | None = None,
        grades: np.ndarray | None = None,
    ) -> tuple[sp.csr_matrix, np.ndarray]:
        """The members furthest along the directions, and their grades."""
        n_rows, room = rows.shape[0], rows.nnz + rows.shape[0] * self._most(rows)
        points = sp.csr_matrix(rows.shape, dtype=rows.dtype)
        indptr = np.zeros(n_rows + 1, dtype=np.int64)
        indices, data = np.empty(room, dtype=rows.indices.dtype), np.empty(room, dtype=rows.dtype)
        _, _, reached = self._ask(rows, V, assign, cost, grades, (indptr, indices, data))
        size = indptr[-1]
        points.indptr = indptr.astype(rows.indptr.dtype)
        points.indices, points.data = indices[:size].copy(), data[:size].copy()
        return points, reached

    def maxima(
        self, rows: sp.csr_matrix, V: np.ndarray, assign: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """The largest ``<v, z>`` of each row, and sizes of their products, as `BoundOracle.maximum`."""
        nowhere = np.empty(0, dtype=np.int64), rows.indices[:0].copy(), rows.data[:0].copy()
        values, sizes, _ = self._ask(rows, V, assign, None, None, nowhere)
        return values, sizes

    def _most(self, rows: sp.csr_matrix) -> int:
        return min(self.max_changes, rows.shape[1])

    def _ask(
        self,
        rows: sp.csr_matrix,
        V: np.ndarray,
        assign: np.ndarray,
        cost: np.ndarray | None,
        grades: np.ndarray | None,
        written: tuple[np.ndarray, np.ndarray, np.ndarray],
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Maxima, sizes and grades; rows are written where there is room."""
        n_rows, most = rows.shape[0], self._most(rows)
        V = np.ascontiguousarray(V, dtype=np.float64)
        longest = longest_row(rows.indptr)
        ranks, order = ranked(V, self.value, most + longest)
        rho = np.ones(most + 1) if grades is None else np.resize(grades, most + 1)
        cost = np.zeros(n_rows) if cost is None else np.asarray(cost, dtype=np.float64)
        found = np.empty((3, n_rows))
        moves = most, self.low, self.high, self.value, self.present, ranks, order, rho

        def ask(part: slice) -> None:
            worst_edits(
                rows.indptr[part.start : part.stop + 1], rows.indices, rows.data, V, assign[part],
                *moves, cost[part], *found[:, part], *written,
            )  # fmt: skip

        if len(written[0]):
            ask(slice(0, n_rows))
        else:
            in_threads(ask, n_rows, rows.nnz + n_rows * most)
        return found[0], found[1], found[2]


class _BoundEdits(BoundOracle):
    """Edits of given rows."""

    oracle: EditOracle

    @cached_property
    def words(self) -> sp.csr_matrix:
        """All rows; dense ones become sparse once, and not in each call."""
        return _words(self.X)

    @cached_property
    def edits_allowed(self) -> Edits:
        """What may be done to them."""
        return self.oracle.edits(self.X.shape[1])

    def support(
        self, rows: Rows, V: np.ndarray, assign: np.ndarray, cost: np.ndarray | None = None
    ) -> Support:
        points, _ = self.edits_allowed.worst(take(self.words, rows), V, assign)
        return Support(self._as_given(points))

    def graded_support(
        self,
        rows: Rows,
        V: np.ndarray,
        assign: np.ndarray,
        cost: np.ndarray,
        rho: float | Sequence[float],
    ) -> Support:
        grades = grade_profile(rho, self.oracle.max_changes + 1)
        points, reached = self.edits_allowed.worst(take(self.words, rows), V, assign, cost, grades)
        return Support(self._as_given(points), rho=reached)

    def maximum(self, rows: Rows, V: np.ndarray, assign: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return self.edits_allowed.maxima(take(self.words, rows), V, assign)

    def hull(self, signs: np.ndarray, weights: np.ndarray, intercept: bool) -> Hull | None:
        edits = self.edits_allowed
        if np.any(edits.value > 0) and edits.max_changes > 0:
            return None
        # Nothing is added: what is left are words that are multiplied, or nothing at all.
        plain = FScale(edits.max_changes, edits.low, edits.high)
        return plain.bind(self.words).hull(signs, weights, intercept)

    def additions(self) -> Additions | None:
        edits = self.edits_allowed
        if not np.any(edits.value > 0) or edits.max_changes == 0:
            return None
        rows = self.words
        if not rows.data.all():
            rows = rows.copy()
            rows.eliminate_zeros()
        adds = np.ones(rows.shape[0], dtype=bool)
        return Additions(
            rows, adds, edits.max_changes, edits.value, edits.present, edits.low, edits.high
        )

    def _as_given(self, points: sp.csr_matrix) -> Matrix:
        return points if sp.issparse(self.X) else points.toarray()


def _words(X: Matrix) -> sp.csr_matrix:
    """Rows as compiled functions take them: CSR, each word once and in order."""
    rows = csr(X)
    if not rows.has_canonical_format:
        rows = rows.copy()
        rows.sum_duplicates()
    return short_indices(rows)


def _spread(value: Any, allowed: Any, n_features: int) -> np.ndarray:
    """What may be added to each feature, 0 where nothing may."""
    values, chosen = np.zeros(n_features), chosen_features(allowed, n_features)
    values[chosen] = np.broadcast_to(np.asarray(value, dtype=np.float64), n_features)[chosen]
    return values


def _check_value(name: str, value: Any, allowed: Any, n_features: int | None) -> None:
    """Raise TypeError or ValueError unless every feature that may be added has a number above 0."""
    wanted = f"{name} must be a number above 0, or one for each feature"
    if isinstance(value, (bool, np.bool_)) or (np.ndim(value) == 0 and not isinstance(value, Real)):
        raise TypeError(f"{wanted}, got {value!r}")
    given = np.asarray(value)
    if given.ndim > 1 or given.dtype.kind not in "iuf":
        raise TypeError(f"{wanted}, got an array of {given.dtype} of shape {given.shape}")
    if given.ndim == 1 and n_features is not None and len(given) != n_features:
        raise ValueError(f"{wanted}, {n_features} of them, got {len(given)}")
    if given.ndim == 0:
        if not (given > 0 and np.isfinite(given)):
            raise ValueError(f"{wanted}, got {value!r}")
        return
    asked = np.arange(len(given)) if n_features is None and allowed is not None else None
    chosen = chosen_features(allowed, len(given)) if asked is None else asked[:0]
    bad = chosen[~((given[chosen] > 0) & np.isfinite(given[chosen]))]
    if len(bad):
        raise ValueError(
            f"{wanted}, got {given[bad[0]]!r} for feature {bad[0]}: leave features that cannot be "
            f"added out of allowed"
        )


def _check_scale(scale: Any) -> None:
    """Raise TypeError or ValueError unless it is None, or a factor up to 1 and one of at least 1."""
    if scale is None:
        return
    if not isinstance(scale, (tuple, list)) or len(scale) != 2:
        raise TypeError(f"scale must be a pair (low, high) of factors, got {scale!r}")
    if any(isinstance(each, (bool, np.bool_)) or not isinstance(each, Real) for each in scale):
        raise TypeError(f"scale must be a pair of numbers, got {scale!r}")
    low, high = scale
    if not 0 <= low <= 1 <= high < np.inf:
        raise ValueError(
            f"scale must be a factor in [0, 1] and a finite one of at least 1, got {scale!r}"
        )
