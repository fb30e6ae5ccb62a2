"""Normals of planes as short sums of points with coefficients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import scipy.sparse as sp

from ..utils.matrices import Matrix, scale_rows, stack


class PointSums:
    """Normals as short sums over points, with pairwise weights.

    Normal j has the terms from ``start[j]`` to ``start[j + 1] - 1``. The points are samples, or in a
    kernel's space the keys of atoms. Each point has one coefficient per output.

    Shapes: `points` (n, d) or (n,), `coefficients` (n, n_outputs), `start` (m + 1,), `pairwise`
    (m, n_pairwise).
    """

    def __init__(
        self, points: Any, coefficients: Matrix, start: np.ndarray, pairwise: Matrix | None = None
    ) -> None:
        self.points = points
        self.coefficients = coefficients
        self.start = start
        self.pairwise = np.zeros((len(start) - 1, 0)) if pairwise is None else pairwise

    @classmethod
    def join(cls, parts: Sequence[Self]) -> Self:
        """Concatenate the normals of all parts."""
        lengths = np.concatenate([np.diff(part.start) for part in parts])
        points = [part.points for part in parts]
        return cls(
            np.concatenate(points) if points[0].ndim == 1 else stack(points),
            stack([part.coefficients for part in parts]),
            np.r_[0, np.cumsum(lengths)],
            stack([part.pairwise for part in parts]),
        )

    def __len__(self) -> int:
        return len(self.start) - 1

    def __getitem__(self, rows: Any) -> Self:
        chosen = np.arange(len(self))[rows]
        lengths = np.diff(self.start)[chosen]
        start = np.r_[0, np.cumsum(lengths)]
        terms = np.repeat(self.start[chosen] - start[:-1], lengths) + np.arange(start[-1])
        return type(self)(self.points[terms], self.coefficients[terms], start, self.pairwise[chosen])

    def spread(self, factors: np.ndarray) -> Matrix:
        """Return the coefficients of all terms, times the factor of their normal."""
        return scale_rows(self.coefficients, np.repeat(factors, np.diff(self.start)))

    def scaled(self, factors: np.ndarray) -> Self:
        """Multiply each normal by a factor."""
        pairwise = scale_rows(self.pairwise, factors)
        return type(self)(self.points, self.spread(factors), self.start, pairwise)

    def by_normal(self, values: np.ndarray) -> np.ndarray:
        """Sum over the terms of each normal, along the first axis."""
        if len(values) == len(self) and np.all(np.diff(self.start) == 1):
            return values
        ones = np.ones(len(values), dtype=values.dtype)
        sums = sp.csr_matrix((ones, np.arange(len(ones)), self.start), (len(self), len(ones)))
        return sums @ values
