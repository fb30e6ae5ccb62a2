"""Features that keep their value, whatever changes around them."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
import scipy.sparse as sp

from ..matrices import Matrix, Rows, row_dots, take, with_data
from ..regions import Region
from .arguments import check_features, check_row_by_row, chosen_features
from .base import BoundOracle, Cover, InvarianceOracle, Support, dense_rows, pulled_back
from .checked import bind, tangents_of
from .columns import OfFeatures
from .combinators import Combination, OfOnePart, validate_part
from .geometry import listed_or_covered
from .support import Grades
from .word_edits import Additions


class Protected(OfFeatures, OfOnePart, Combination):
    r"""The set of an oracle with some features left as they are.

    .. math:: S(x) = \{z' : z'_P = x_P, \; z'_j = z_j \text{ for } j \notin P, \; z \in S_{oracle}(x)\}

    The worst member is that of `oracle` along the direction with zeros at P: exact where `oracle` is.

    Parameters
    ----------
    oracle : InvarianceOracle
    features : array-like of bool of shape (d,), of int or of str
        The features P: a mask, numbers, or names of columns if X is a data frame.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.oracles import FDrop, Protected
    >>> X, v = np.array([[1.0, 2.0, 1.0]]), np.array([[-3.0, -2.0, -1.0]])
    >>> Protected(FDrop(max_changes=1), features=[0]).support(X, v, np.array([0])).points
    array([[1., 0., 1.]])
    """

    isometric = False
    feature_parameters = ("features",)

    def __init__(self, oracle: InvarianceOracle, features: Any) -> None:
        self.oracle = oracle
        self.features = features

    def validate(self, n_features: int | None = None) -> None:
        """Raise if the part is no oracle of single rows, or features are named that are not there."""
        validate_part("oracle", self.oracle, n_features)
        check_row_by_row(
            "Protected: oracle",
            self.oracle,
            "write Shared(Protected(oracle, features)) or Budget(Protected(oracle, features))",
        )
        check_features("features", self.features, n_features)

    def prepared(self) -> Self:
        """See `InvarianceOracle.prepared`: the part is."""
        prepared = copy.copy(self)
        prepared.oracle = self.oracle.prepared()
        return prepared

    def most_changes(self) -> int:
        return self.oracle.most_changes()

    def limited(self, max_changes: int) -> Protected:
        return Protected(self.oracle.limited(max_changes), self.features)

    def without_grades(self) -> tuple[InvarianceOracle, float | Sequence[float] | None]:
        oracle, rho = self.oracle.without_grades()
        return Protected(oracle, self.features), rho

    def member_weights(self, size: int) -> np.ndarray:
        return self.oracle.member_weights(size)

    def graded_support(
        self,
        X: Matrix,
        V: np.ndarray,
        assign: np.ndarray,
        cost: np.ndarray,
        rho: float | Sequence[float],
    ) -> Support:
        bound = self.bind(X)
        return bound.support(slice(None), V, assign, cost, rho)

    def tangents(self, X: Matrix) -> np.ndarray:
        """See `InvarianceOracle.tangents`; they are zero at the features."""
        tangents = tangents_of(self.oracle, X).copy()
        tangents[:, :, chosen_features(self.features, X.shape[1])] = 0.0
        return tangents

    def region(self, X: np.ndarray) -> Region:
        """See `InvarianceOracle.region`: the list of a finite part, or the cover of another."""
        return listed_or_covered(self, X)

    def pullback(self, V: np.ndarray) -> np.ndarray | None:
        mine = chosen_features(self.features, V.shape[1])
        others = V.copy()
        others[:, mine] = 0.0
        images = pulled_back(self.oracle, others)
        return None if images is None else images + (V - others)

    def member_names(self, size: int) -> list[str]:
        return self.oracle.member_names(size)

    def bind(self, X: Matrix, y: np.ndarray | None = None) -> BoundOracle:
        """The part on the rows of `X`."""
        self._check_rows(X)
        prepared = self.prepared()
        return _BoundProtected(prepared, bind(prepared.oracle, X, y))


class _BoundProtected(BoundOracle):
    oracle: Protected

    def __init__(self, oracle: Protected, inner: BoundOracle) -> None:
        super().__init__(oracle, inner.X, inner.y)
        self.inner = inner
        self.kept = np.zeros(inner.X.shape[1], dtype=bool)
        self.kept[chosen_features(oracle.features, len(self.kept))] = True

    def _restored(self, points: Matrix, rows: Rows) -> Matrix:
        """Points with the values of the rows at the features."""
        X = take(self.X, rows)
        if not sp.issparse(points):
            return np.where(self.kept, dense_rows(X), points).astype(points.dtype, copy=False)
        of_points = with_data(points, points.data * ~self.kept[points.indices])
        return (of_points + with_data(X, X.data * self.kept[X.indices])).astype(points.dtype, copy=False)

    def _of_members(self, members: np.ndarray, rows: Rows) -> np.ndarray:
        return np.where(self.kept, dense_rows(take(self.X, rows))[:, None], members)

    def _split(self, V: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.where(self.kept, 0.0, V), np.where(self.kept, V, 0.0)

    def support(
        self,
        rows: Rows,
        V: np.ndarray,
        assign: np.ndarray,
        cost: np.ndarray | None = None,
        rho: Grades | None = None,
    ) -> Support:
        others, own = self._split(V)
        answer = self.inner.support(rows, others, assign, cost, rho)
        return self._answer(answer, rows, own, assign)

    def _answer(self, answer: Support, rows: Rows, own: np.ndarray, assign: np.ndarray) -> Support:
        upper = answer.upper
        if upper is not None:
            upper = upper + row_dots(take(self.X, rows), own, assign)
        return Support(self._restored(answer.points, rows), upper, answer.rho)

    def additions(self) -> Additions | None:
        found = self.inner.additions()
        if found is None or found.multiplies:
            return None
        return replace(found, value=np.where(self.kept, 0.0, found.value))

    def orbit(self, rows: Rows) -> np.ndarray:
        return self._of_members(self.inner.orbit(rows), rows)

    def cover(self, rows: Rows) -> Cover:
        # Members come no further apart where they agree in more features.
        cover = self.inner.cover(rows)
        return Cover(self._of_members(cover.points, rows), cover.mesh)

    def members(self, rows: Rows, index: np.ndarray) -> np.ndarray:
        return np.asarray(self._restored(self.inner.members(rows, index), rows))

    def refine(
        self, rows: Rows, index: np.ndarray, score: Callable[[np.ndarray], np.ndarray]
    ) -> np.ndarray:
        def restored(points: np.ndarray) -> np.ndarray:
            return score(np.asarray(self._restored(points, rows)))

        return np.asarray(self._restored(self.inner.refine(rows, index, restored), rows))

    def sample(self, rows: Rows, size: int, rng: np.random.Generator) -> np.ndarray:
        return self._of_members(self.inner.sample(rows, size, rng), rows)

    def member_names(self) -> list[str]:
        return self.inner.member_names()

    def member_grades(self, rows: Rows, rho: float | Sequence[float]) -> np.ndarray:
        return self.inner.member_grades(rows, rho)

    def grades(self, rows: Rows) -> np.ndarray | None:
        return self.inner.grades(rows)

    def contains(self, row: int, z: np.ndarray) -> bool:
        x = dense_rows(self.X, [row])[0]
        if np.any(np.abs(z - x)[self.kept] > 1e-9 * (1.0 + np.abs(x[self.kept]))):
            return False
        if self.oracle.finite:
            members = self.orbit(np.array([row]))[0]
            return bool(np.any(np.max(np.abs(members - z), axis=1) <= 1e-9 * (1.0 + np.abs(z).max())))
        if not self.oracle.featurewise:
            raise self.oracle._absent("contains")
        return self.inner.contains(row, np.where(self.kept, x, z))
