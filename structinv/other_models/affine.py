"""Affine scores of rows, with bounds of their rounding errors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..utils.matrices import ALL_ROWS, Matrix, Rows, magnitudes, pick, take


class NotAffineError(ValueError):
    """A step of a Pipeline that is not known to be affine."""


@dataclass(frozen=True)
class Affine:
    """Scores ``X coef' + intercept + offsets``, and bounds of the terms.

    - `coef` (n_outputs, d): weights
    - `intercept` (n_outputs,): constants
    - `coef_size` (n_outputs, d): sums of absolute products in all steps, at least ``|coef|``
    - `intercept_size` (n_outputs,): the same for the constants
    - `n_steps`: number of composed maps
    - `widest`: largest number of features of a step
    - `unit`: rounding unit of the steps, if it is larger than that of the weights
    - `offsets, offset_sizes` (n, n_outputs): constants of each row, from features in which the scores
      are not affine
    - `reasons` (d,): the reason why the scores are not affine in a feature, which has the weight 0; else
      empty
    """

    coef: np.ndarray
    intercept: np.ndarray
    coef_size: np.ndarray
    intercept_size: np.ndarray
    n_steps: int = 0
    widest: int = 0
    unit: float = 0.0
    offsets: np.ndarray | None = None
    offset_sizes: np.ndarray | None = None
    reasons: np.ndarray | None = None

    @staticmethod
    def of(coef: np.ndarray, intercept: np.ndarray) -> Affine:
        """Return the scores of one linear model."""
        return Affine(coef, intercept, np.abs(coef), np.abs(intercept))

    @staticmethod
    def stacked(parts: Sequence[Affine]) -> Affine:
        """Return the scores of several linear models of the same rows."""
        return Affine(
            np.vstack([part.coef for part in parts]),
            np.concatenate([part.intercept for part in parts]),
            np.vstack([part.coef_size for part in parts]),
            np.concatenate([part.intercept_size for part in parts]),
            max(part.n_steps for part in parts),
            max(part.widest for part in parts),
        )

    @property
    def n_features(self) -> int:
        """Number of features of a row."""
        return self.coef.shape[1]

    @property
    def fixed(self) -> np.ndarray:
        """Mask of the features in which the scores are not affine, (d,)."""
        return np.zeros(self.n_features, dtype=bool) if self.reasons is None else self.reasons != ""

    @property
    def optional(self) -> np.ndarray:
        """Mask of the features that need not be numbers, (d,): fixed or dropped ones."""
        return self.fixed if self.reasons is None else ~np.any(self.coef_size > 0, axis=0)

    def values(self, rows: Matrix) -> np.ndarray:
        """Return the scores of rows, (n, n_outputs)."""
        scores = np.asarray(rows @ self.coef.T) + self.intercept
        return scores if self.offsets is None else scores + self.offsets

    def roundings(self, rows: Matrix) -> np.ndarray:
        """Bound the rounding errors of computed scores of rows, (n, n_outputs)."""
        sizes = np.asarray(magnitudes(rows) @ self.coef_size.T) + self.intercept_size
        if self.offset_sizes is not None:
            sizes = sizes + self.offset_sizes
        eps = max(np.finfo(rows.dtype).eps, np.finfo(self.coef.dtype).eps, self.unit)
        terms = max(rows.shape[1], self.widest) + 8
        if sp.issparse(rows) and self.n_steps == 0:
            terms = int(np.diff(rows.indptr).max(initial=0)) + 8
        return float(eps * terms * (self.n_steps + 1)) * sizes

    def roundings_at(self, places: np.ndarray, rows: Matrix) -> np.ndarray:
        """Bound the rounding errors of computed scores of some of the rows."""
        chosen = pick(ALL_ROWS, places, rows.shape[0])
        return self.of_rows(chosen).roundings(take(rows, chosen))

    def of_rows(self, rows: Rows) -> Affine:
        """Return the scores of some of the rows."""
        if self.offsets is None or self.offset_sizes is None:
            return self
        return replace(self, offsets=self.offsets[rows], offset_sizes=self.offset_sizes[rows])

    def combined(self, weights: np.ndarray) -> Affine:
        """Return sums of the scores with weights (n_sums, n_outputs)."""
        size = np.abs(weights)
        return replace(
            self,
            coef=weights @ self.coef,
            intercept=weights @ self.intercept,
            coef_size=size @ self.coef_size,
            intercept_size=size @ self.intercept_size,
            offsets=None if self.offsets is None else self.offsets @ weights.T,
            offset_sizes=None if self.offset_sizes is None else self.offset_sizes @ size.T,
        )

    def mapped(self, matrix: Matrix, before: Any = 0.0, after: Any = 0.0) -> Affine:
        """Return scores of x if these are scores of ``(x - before) @ matrix.T + after``."""
        coef = np.asarray(self.coef @ matrix)
        size = np.asarray(self.coef_size @ abs(matrix))
        before, after = np.broadcast_to(before, coef.shape[1]), np.broadcast_to(after, self.n_features)
        reasons = None
        if self.reasons is not None:
            reasons = np.full(coef.shape[1], "", dtype=object)
            entries = sp.coo_matrix(matrix[self.fixed])
            reasons[entries.col] = self.reasons[self.fixed][entries.row]
        return self._before(
            coef=coef,
            intercept=self.intercept - coef @ before + self.coef @ after,
            coef_size=size,
            intercept_size=self.intercept_size + size @ np.abs(before) + self.coef_size @ np.abs(after),
            reasons=reasons,
        )

    def scaled(self, factors: Any, before: Any = 0.0, after: Any = 0.0) -> Affine:
        """Return scores of x if these are scores of ``(x - before) * factors + after``."""
        factors = np.broadcast_to(factors, self.n_features)
        return self.mapped(sp.diags_array(factors, format="csr"), before, after)

    def spread(self, places: np.ndarray, n_features: int) -> Affine:
        """Return scores of x if these are scores of ``x[places]``."""
        parts = np.ones(len(places), self.coef.dtype), places, np.arange(len(places) + 1)
        return self.mapped(sp.csr_matrix(parts, (len(places), n_features)))

    def part(self, features: Any) -> Affine:
        """Return the part of the scores that some features contribute, without constants."""
        nothing = np.zeros(len(self.coef))
        return replace(
            self,
            coef=self.coef[:, features],
            intercept=nothing,
            coef_size=self.coef_size[:, features],
            intercept_size=nothing,
            offsets=None,
            offset_sizes=None,
            reasons=None if self.reasons is None else self.reasons[features],
        )

    def constants(self, n_features: int) -> Affine:
        """Return the constants of the scores, as scores of rows with other features."""
        nothing = np.zeros((len(self.coef), n_features))
        reasons = np.full(n_features, "", dtype=object)
        return self._before(coef=nothing, coef_size=nothing, reasons=reasons)

    def at(self, values: Matrix, n_features: int, reason: str) -> Affine:
        """Return the scores of given values, as constants of rows with other features.

        The scores are not affine in these features, for the given reason.
        """
        return replace(
            self.constants(n_features),
            offsets=np.asarray(values @ self.coef.T),
            offset_sizes=np.asarray(abs(values) @ self.coef_size.T),
            reasons=np.full(n_features, reason, dtype=object),
        )

    def plus(self, other: Affine) -> Affine:
        """Return the sum with other scores of the same rows."""
        reasons = [part.reasons for part in (self, other) if part.reasons is not None]
        return Affine(
            self.coef + other.coef,
            self.intercept + other.intercept,
            self.coef_size + other.coef_size,
            self.intercept_size + other.intercept_size,
            max(self.n_steps, other.n_steps) + 1,
            max(self.widest, other.widest),
            max(self.unit, other.unit),
            _sum(self.offsets, other.offsets),
            _sum(self.offset_sizes, other.offset_sizes),
            np.where(reasons[0] == "", reasons[-1], reasons[0]) if reasons else None,
        )

    def _before(self, **arrays: Any) -> Affine:
        """Return the scores before one more map, with its arrays."""
        widest = max(self.widest, self.n_features)
        return replace(self, n_steps=self.n_steps + 1, widest=widest, **arrays)


def _sum(left: np.ndarray | None, right: np.ndarray | None) -> np.ndarray | None:
    if left is None or right is None:
        return right if left is None else left
    return left + right
