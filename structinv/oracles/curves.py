"""Rows on polynomial curves of one parameter: members, covers, local search."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..utils.matrices import ALL_ROWS, Matrix, Rows, dense_rows, floating
from ..utils.parameters import check_integer
from .base import InvarianceOracle
from .changes import Changes
from .images.image_parameters import check_draw
from .images.image_search import halve

# Halvings of the interval between the neighbors of the best parameter on a grid.
_HALVINGS = 12


@dataclass(frozen=True)
class Curves:
    r"""The curves :math:`x_i(t) = x_i + \sum_k t^k x_{ik}` of some rows.

    Parameters
    ----------
    X : (n, d) array
    powers : (n, p, d) array
        What each power of t multiplies, from t itself to its p-th power.
    """

    X: np.ndarray
    powers: np.ndarray

    def at(self, t: np.ndarray) -> np.ndarray:
        """The point of each row at a value of its own, (n,), as an (n, d) array."""
        weights = self._weights(t)
        return self._as_rows(self.X + np.einsum("np,npd->nd", weights, self.powers))

    def table(self, t: np.ndarray) -> np.ndarray:
        """The points of each row at values that all share, (s,), or at its own, (n, s): (n, s, d)."""
        weights = self._weights(np.broadcast_to(t, (len(self.X), np.shape(t)[-1])))
        return self._as_rows(self.X[:, None, :] + weights @ self.powers)

    def take(self, rows: Rows) -> Curves:
        """Those of some rows."""
        return Curves(self.X[rows], self.powers[rows])

    def speeds(self, furthest: np.ndarray) -> np.ndarray:
        r"""Bounds :math:`\sum_k k |t|^{k-1} |x_{ik}|` on the speed where |t| is at most that, (n, g)."""
        orders = np.arange(self.powers.shape[1])
        sizes = np.linalg.norm(self.powers, axis=2).astype(np.float64)
        return (sizes * (orders + 1)) @ furthest[None, :] ** orders[:, None]

    def _weights(self, t: np.ndarray) -> np.ndarray:
        return np.asarray(t, dtype=np.float64)[..., None] ** np.arange(1, self.powers.shape[1] + 1)

    def _as_rows(self, points: np.ndarray) -> np.ndarray:
        return points.astype(floating(self.X[:0]).dtype, copy=False)


class CurveOracle(InvarianceOracle):
    r"""The views that all sets on a polynomial curve share.

    .. math:: S(x) = \{x + \sum_k t^k x_k : a \le t \le b\}, \quad a \le 0 \le b

    A subclass gives the interval, what the powers of t multiply, names of members, and `support`.
    """

    resolution: int = 9

    @abstractmethod
    def _interval(self) -> tuple[float, float]:
        """The ends a <= 0 <= b."""

    @abstractmethod
    def _powers(self, X: np.ndarray) -> np.ndarray:
        """What each power of t multiplies, (n, p, d)."""

    @abstractmethod
    def _name(self, t: float) -> str:
        """A short name of the member at t."""

    def _check_grid(self) -> None:
        check_integer("resolution", self.resolution, 2)

    def _curves(self, X: Matrix) -> Curves:
        self._check_rows(X)
        rows = dense_rows(X)
        return Curves(rows, self._powers(rows))

    def _values(self) -> np.ndarray:
        """The values of t in the cover: 0, then the others in order."""
        t = np.linspace(*self._interval(), self.resolution)
        return np.r_[0.0, np.unique(t[t != 0])]

    def _changes(self, X: Matrix, y: np.ndarray | None) -> Changes:
        return GridOfCurves(self, X)

    def tangents(self, X: Matrix) -> np.ndarray:
        """The derivative at t = 0, (n, 1, d)."""
        return np.array(self._curves(X).powers[:, :1])

    def sample(self, X: Matrix, n_draws: int, rng: np.random.Generator) -> np.ndarray:
        """Members at values of t that are uniform in the interval, (n, n_draws, d)."""
        return self._sample(self._curves(X), n_draws, rng)

    def _sample(self, curves: Curves, n_draws: int, rng: np.random.Generator) -> np.ndarray:
        check_draw(n_draws, rng)
        return curves.table(rng.uniform(*self._interval(), (len(curves.X), n_draws)))


class GridOfCurves(Changes):
    r"""`resolution` members of each curve at equal distances, beside the row itself.

    A curve whose speed is at most s between two neighbors is no further than half of s times their
    distance in t from one of them.

    Parameters
    ----------
    oracle : CurveOracle
    X : (n, d) array
    """

    scored = False

    def __init__(self, oracle: CurveOracle, X: Matrix) -> None:
        super().__init__(X)
        self.oracle = oracle
        self.values = oracle._values()
        self._all: Curves | None = None

    def _moved_to(self, X: Matrix, y: np.ndarray | None) -> None:
        self._all = None

    @property
    def size(self) -> int:
        return len(self.values)

    @property
    def names(self) -> list[str]:
        return ["identity", *(self.oracle._name(float(t)) for t in self.values[1:])]

    def curves(self, rows: Rows = ALL_ROWS) -> Curves:
        """The curves of the rows named; those of all rows are made once."""
        if self._all is None:
            self._all = self.oracle._curves(self.X)
        return self._all.take(rows)

    def members(self, rows: Rows = ALL_ROWS, numbers: np.ndarray | None = None) -> np.ndarray:
        return self.curves(rows).table(self.values if numbers is None else self.values[numbers])

    def mesh(self, rows: Rows = ALL_ROWS) -> np.ndarray:
        ends = np.sort(self.values)
        furthest = np.maximum(np.abs(ends[:-1]), np.abs(ends[1:]))
        ways = self.curves(rows).speeds(furthest) * np.diff(ends) / 2
        return np.max(ways, axis=1, initial=0.0)

    def points(self, rows: Rows, index: np.ndarray) -> np.ndarray:
        return self.curves(rows).at(self.values[self._numbered(rows, index)])

    def _numbered(self, rows: Rows, index: np.ndarray) -> np.ndarray:
        index, last, n_rows = np.asarray(index, dtype=np.intp), self.size - 1, self.count(rows)
        if index.shape != (n_rows,) or np.any((index < 0) | (index > last)):
            raise ValueError(f"index must be {n_rows} numbers from 0 to {last}, got {index!r}")
        return index

    def refine(
        self, rows: Rows, index: np.ndarray, score: Callable[[np.ndarray], np.ndarray]
    ) -> np.ndarray:
        """See `Changes.refine`; between the neighbors on the grid, which halve each step."""
        curves, values = self.curves(rows), self.values[self._numbered(rows, index)]
        points = curves.at(values)
        if not len(points):
            return points
        ends = np.sort(self.values)
        place = np.searchsorted(ends, values)
        around = ends[np.maximum(place - 1, 0)], ends[np.minimum(place + 1, len(ends) - 1)]
        reached = score(points)
        for _ in range(_HALVINGS):
            around = halve(curves.at, score, values, around, points, reached)
        return points
