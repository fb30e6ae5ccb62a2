"""Polynomial curves through samples: members, covers, local search."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..utils.matrices import ALL_ROWS, Matrix, Rows, dense_rows, floating
from ..utils.parameters import check_integer
from .arguments import member_numbers
from .base import InvarianceOracle
from .changes import Changes
from .parameter_values import bisect, check_draw, neighbors

# Number of bisections between the neighbors of the best value in the cover.
_HALVINGS = 12


@dataclass(frozen=True)
class Curves:
    r"""The curves :math:`x_i(t) = x_i + \sum_k t^k x_{ik}` of some rows.

    - `X` (n_rows, n_features): rows x_i
    - `powers` (n_rows, degree, n_features): coefficients x_ik of the powers of t, from t to t^degree
    """

    X: np.ndarray
    powers: np.ndarray

    def at(self, t: np.ndarray) -> np.ndarray:
        """Compute one point per row (n, d), at values of t (n,)."""
        weights = self._weights(t)
        return self._as_rows(self.X + np.einsum("np,npd->nd", weights, self.powers))

    def table(self, t: np.ndarray) -> np.ndarray:
        """Compute points (n, s, d), at common values (s,) or values per row (n, s)."""
        weights = self._weights(np.broadcast_to(t, (len(self.X), np.shape(t)[-1])))
        return self._as_rows(self.X[:, None, :] + weights @ self.powers)

    def take(self, rows: Rows) -> Curves:
        """Select curves."""
        return Curves(self.X[rows], self.powers[rows])

    def speeds(self, furthest: np.ndarray) -> np.ndarray:
        r"""Bound the speed for |t| <= `furthest`: :math:`\sum_k k |t|^{k-1} |x_{ik}|`."""
        orders = np.arange(self.powers.shape[1])
        sizes = np.linalg.norm(self.powers, axis=2).astype(np.float64)
        return (sizes * (orders + 1)) @ furthest[None, :] ** orders[:, None]

    def _weights(self, t: np.ndarray) -> np.ndarray:
        return np.asarray(t, dtype=np.float64)[..., None] ** np.arange(1, self.powers.shape[1] + 1)

    def _as_rows(self, points: np.ndarray) -> np.ndarray:
        return points.astype(floating(self.X[:0]).dtype, copy=False)


class CurveOracle(InvarianceOracle):
    r"""Base class of sets on polynomial curves.

    .. math:: S(x) = \{x + \sum_k t^k x_k : a \le t \le b\}, \quad a \le 0 \le b

    A subclass implements the interval, the coefficients, names of members, and `support`. `tangents`
    are x_1, and `sample` draws uniform values of t.
    """

    resolution: int = 9

    @abstractmethod
    def _interval(self) -> tuple[float, float]:
        """Return the ends a <= 0 <= b."""

    @abstractmethod
    def _powers(self, X: np.ndarray) -> np.ndarray:
        """Return the coefficients x_k of the powers of t, (n, p, d)."""

    @abstractmethod
    def _name(self, t: float) -> str:
        """Return a short name of the member at t."""

    def _check_grid(self) -> None:
        check_integer("resolution", self.resolution, 2)

    def _curves(self, X: Matrix) -> Curves:
        self._check_rows(X)
        rows = dense_rows(X)
        return Curves(rows, self._powers(rows))

    def _values(self) -> np.ndarray:
        """Return the values of t in the cover: 0 first, the others in increasing order."""
        t = np.linspace(*self._interval(), self.resolution)
        return np.r_[0.0, np.unique(t[t != 0])]

    def _changes(self, X: Matrix, y: np.ndarray | None) -> Changes:
        return GridOfCurves(self, X)

    def tangents(self, X: Matrix) -> np.ndarray:
        return np.array(self._curves(X).powers[:, :1])

    def sample(self, X: Matrix, n_draws: int, rng: np.random.Generator) -> np.ndarray:
        return self._sample(self._curves(X), n_draws, rng)

    def _sample(self, curves: Curves, n_draws: int, rng: np.random.Generator) -> np.ndarray:
        check_draw(n_draws, rng)
        return curves.table(rng.uniform(*self._interval(), (len(curves.X), n_draws)))


class GridOfCurves(Changes):
    """Cover of each curve: `resolution` members at equidistant t, and the row itself.

    If the speed of a curve is at most s between two neighbors, the mesh is half of s times their
    distance in t.

    Shapes: `X` (n_rows, n_features).
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
        """Return the curves of some rows; all curves are computed once."""
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
        return self.curves(rows).at(self.values[member_numbers(index, self.count(rows), self.size)])

    def refine(
        self, rows: Rows, index: np.ndarray, score: Callable[[np.ndarray], np.ndarray]
    ) -> np.ndarray:
        """Improve members by bisection between their neighbors in the cover."""
        numbers = member_numbers(index, self.count(rows), self.size)
        curves, values = self.curves(rows), self.values[numbers]
        points = curves.at(values)
        if not len(points):
            return points
        around = neighbors(np.sort(self.values), values)
        bisect(curves.at, score, values, around, points, score(points), _HALVINGS)
        return points
