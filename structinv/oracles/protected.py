"""Protection of some features from the perturbations of an oracle."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from ..regions import Region
from ..utils.matrices import Matrix, Rows, dense_rows, row_dots, take
from .arguments import check_features, chosen_features
from .base import CountedChanges, InvarianceOracle, Support
from .changes import Changes
from .columns import FeatureParameters
from .combinators import BoundPart, OracleWrapper, counted_inside
from .combined_changes import DerivedChanges, with_values
from .listed_changes import changes_of, listed, listed_region
from .support import Costs, Grades
from .third_party import tangents_of
from .words.bound_edits import RowEdits


class _BoundProtected(BoundPart):
    oracle: Protected

    @cached_property
    def is_protected(self) -> np.ndarray:
        """Mask of the unchanged features."""
        return self.oracle._mask(self.X.shape[1])

    def support(
        self, rows: Rows, V: np.ndarray, assign: np.ndarray, cost: Costs = None, rho: Grades = None
    ) -> Support:
        answer = self.inner.support(rows, np.where(self.is_protected, 0.0, V), assign, cost, rho)
        X, upper = take(self.X, rows), answer.upper
        if upper is not None:
            upper = upper + row_dots(X, np.where(self.is_protected, V, 0.0), assign)
        return Support(with_values(answer.points, X, self.is_protected), upper, answer.rho)

    def edits(self) -> RowEdits | None:
        found = self.inner.edits()
        if found is None or found.multiplies or not found.adds:
            return None
        return replace(found, value=np.where(self.is_protected, 0.0, found.value))

    def sample(self, rows: Rows, n_draws: int, rng: np.random.Generator) -> np.ndarray:
        members, X = self.inner.sample(rows, n_draws, rng), dense_rows(take(self.X, rows))
        return np.where(self.is_protected, X[:, None], members)

    def contains(self, row: int, z: np.ndarray) -> bool:
        x = dense_rows(self.X, [row])[0]
        if np.any(np.abs(z - x)[self.is_protected] > 1e-9 * (1.0 + np.abs(x[self.is_protected]))):
            return False
        if self.oracle.finite:
            members = listed(self).members(np.array([row]))[0]
            return bool(np.any(np.max(np.abs(members - z), axis=1) <= 1e-9 * (1.0 + np.abs(z).max())))
        counted = self.oracle.counted()
        if counted is None or counted.tokens or counted.norm:
            raise self.oracle._absent("contains")
        return self.inner.contains(row, np.where(self.is_protected, x, z))


class Protected(FeatureParameters, OracleWrapper):
    r"""Perturbations of an oracle that leave some features unchanged.

    .. math:: S(x) = \{z' : z'_P = x_P, \; z'_j = z_j \text{ for } j \notin P, \; z \in S_{oracle}(x)\}

    The worst member is that of `oracle` along the direction with zeros at P: exact if `oracle` is.
    `tangents` are those of `oracle`, with zeros at P.

    Parameters
    ----------
    oracle : InvarianceOracle
        Oracle whose perturbations are restricted.
    features : array-like of bool of shape (n_features,), of int or of str
        Unchanged features P: a mask, column numbers, or column names if X is a data frame.

    See Also
    --------
    OnlyFor : Restriction of an oracle to samples of some labels.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.oracles import FDrop, Protected
    >>> X, v = np.array([[1.0, 2.0, 1.0]]), np.array([[-3.0, -2.0, -1.0]])
    >>> Protected(FDrop(max_changes=1), features=[0]).support(X, v, np.array([0])).points
    array([[1., 0., 1.]])
    """

    feature_parameters = ("features",)
    _bound, _name = _BoundProtected, "Protected"
    _remedy = "write Shared(Protected(oracle, features)) or Budget(Protected(oracle, features))"

    def __init__(self, oracle: InvarianceOracle, features: Any) -> None:
        self.oracle = oracle
        self.features = features

    def validate(self, n_features: int | None = None) -> None:
        super().validate(n_features)
        check_features("features", self.features, n_features)

    def counted(self) -> CountedChanges | None:
        return counted_inside(self.oracle, lambda part: Protected(part, self.features))

    def tangents(self, X: Matrix) -> np.ndarray:
        tangents = tangents_of(self.oracle, X).copy()
        tangents[:, :, chosen_features(self.features, X.shape[1])] = 0.0
        return tangents

    def region(self, X: np.ndarray) -> Region:
        return listed_region(self, X)

    def _changes(self, X: Matrix, y: np.ndarray | None) -> Changes | None:
        inner, mask = changes_of(self.oracle, X, y), self._mask(X.shape[1])
        return None if inner is None else DerivedChanges(inner, y, lambda labels: mask)

    def _mask(self, n_features: int) -> np.ndarray:
        mask = np.zeros(n_features, dtype=bool)
        mask[chosen_features(self.features, n_features)] = True
        return mask
