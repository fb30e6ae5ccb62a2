"""Rows of an unknown size or zero level: they are multiplied by a number, or one is added."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

import numpy as np

from ..regions import Region, Zonotopes
from ..regions.inner_products import Stack
from ..utils.matrices import (
    Matrix,
    Rows,
    dense_rows,
    floating,
    rounding,
    row_dots,
    row_sizes,
    scale_rows,
    take,
)
from ..utils.parameters import check_number
from .affine_hull import ZonotopeHull
from .arguments import check_directions, grade_profile
from .base import BoundOracle, Hull, Support
from .curves import CurveOracle
from .support import DeferredSupport


class _Line(CurveOracle):
    """S(x) = {x + t u(x) : a <= t <= b}, a segment with a direction u of the row."""

    convex = True

    @abstractmethod
    def _slopes(self, X: Matrix, V: np.ndarray, assign: np.ndarray) -> np.ndarray:
        """``<v, u(x)>`` of each row and the direction that it faces, (n,)."""

    @abstractmethod
    def _moved(self, X: Matrix, t: np.ndarray) -> Matrix:
        """``x + t u(x)``, stored as the rows are."""

    @abstractmethod
    def _directions(self, X: np.ndarray) -> np.ndarray:
        """u of all rows: (1, d) where they share it, else (n, 1, d)."""

    def support(
        self, X: Matrix, V: np.ndarray, assign: np.ndarray, cost: np.ndarray | None = None
    ) -> Support:
        """See `InvarianceOracle.support`; exact, at one of the ends."""
        self._check_rows(X)
        check_directions(X, V, assign, cost)
        return Support(self._moved(X, self._furthest(self._slopes(X, V, assign))))

    def _furthest(self, slopes: np.ndarray) -> np.ndarray:
        """The best t; rows that gain nothing stay where they are."""
        low, high = self._interval()
        return np.where(slopes > 0, high, np.where(slopes < 0, low, 0.0))

    def graded_support(
        self,
        X: Matrix,
        V: np.ndarray,
        assign: np.ndarray,
        cost: np.ndarray,
        rho: float | Sequence[float],
    ) -> Support:
        """See `InvarianceOracle.graded_support`; exact, at one of the breakpoints."""
        self._check_rows(X)
        check_directions(X, V, assign, cost)
        grades = grade_profile(rho)
        grades = grades if len(grades) > 1 else np.ones(2)
        shares = np.linspace(0.0, 1.0, len(grades))
        # What is gained is piecewise linear in t on either side of 0.
        t = np.concatenate([end * shares for end in self._interval()])
        worth = self._slopes(X, V, assign)[:, None] * t + cost[:, None] * np.tile(grades, 2)
        best = np.argmax(worth, axis=1)
        return Support(self._moved(X, t[best]), rho=np.tile(grades, 2)[best])

    def region(self, X: np.ndarray) -> Region:
        self._check_rows(X)
        rows = floating(dense_rows(X))
        ends = (np.full((len(rows), 1), end) for end in self._interval())
        return Zonotopes(Stack.of(rows, self._powers(rows)), *ends)

    def contains(self, x: np.ndarray, z: np.ndarray) -> bool:
        """Whether `z` lies on the segment, up to rounding."""
        wide = x.astype(np.float64)[None, :]
        u = self._powers(wide)[0, 0]
        size = float(u @ u)
        t = float(u @ (z - wide[0])) / size if size > 0 else 0.0
        nearest = wide[0] + float(np.clip(t, *self._interval())) * u
        return float(np.linalg.norm(z - nearest)) <= rounding(x, z)


class BoundLine(BoundOracle):
    """Segments through given rows."""

    oracle: _Line

    def _support(
        self, rows: Rows, V: np.ndarray, assign: np.ndarray, cost: np.ndarray | None
    ) -> Support:
        X, oracle = take(self.X, rows), self.oracle

        def maxima() -> tuple[np.ndarray, np.ndarray]:
            slopes = oracle._slopes(X, V, assign)
            t = oracle._furthest(slopes)
            # The direction of |x| is that of x without its signs.
            sizes = row_sizes(X, np.abs(V), assign)
            sizes += np.abs(t) * oracle._slopes(abs(X), np.abs(V), assign)
            return row_dots(X, V, assign) + t * slopes, sizes

        return DeferredSupport(X, lambda: oracle.support(X, V, assign).points, maxima)

    def hull(self, signs: np.ndarray, weights: np.ndarray, intercept: bool) -> Hull | None:
        if not isinstance(self.X, np.ndarray):
            return None
        low, high = self.oracle._interval()
        # A segment is its middle and as much on both sides.
        middle = self.oracle._moved(self.X, np.full(len(self.X), (low + high) / 2))
        directions = self.oracle._directions(floating(self.X))
        return ZonotopeHull(middle, signs, weights, intercept, directions, np.array([(high - low) / 2]))


class Segment(_Line):
    r"""The row times a number between two limits: the size of a signal carries no information.

    .. math:: S(x) = \{c\, x : low \le c \le high\}

    (Pozdnoukhov and Bengio 2006, section 2.2). The worst case along v is at ``high`` where
    :math:`\langle v, x \rangle > 0` and at ``low`` where it is below 0.

    Parameters
    ----------
    low, high : float
        The smallest and the largest factor, with 1 between them or at an end, so that the row itself
        is a member. ``low`` may be below 0.
    resolution : int, default=9
        Factors in the list that kernel machines start from, at equal distances, beside 1; at
        least 2.

    Raises
    ------
    TypeError, ValueError
        From `validate` and all views, if a limit is no finite number, or 1 is not between them.

    Notes
    -----
    ``discounted(rho)`` interpolates the grades over the share of the way from 1 to either limit.
    Members at random have uniform factors. Rows may be sparse.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.oracles import Segment
    >>> X, V = np.array([[1.0, 2.0]]), np.array([[1.0, 0.0], [-1.0, 0.0]])
    >>> Segment(0.5, 2.0).support(np.repeat(X, 2, axis=0), V, np.array([0, 1])).points
    array([[2. , 4. ],
           [0.5, 1. ]])
    """

    supports_sparse = True

    def __init__(self, low: float, high: float, resolution: int = 9) -> None:
        self.low = low
        self.high = high
        self.resolution = resolution

    def validate(self, n_features: int | None = None) -> None:
        """Raise unless the limits are finite numbers with 1 between them."""
        check_number("low", self.low, minimum=-np.inf)
        check_number("high", self.high, minimum=-np.inf)
        if not self.low <= 1 <= self.high:
            raise ValueError(
                "low must be at most 1 and high at least 1, so that the row itself is a member, got "
                f"low={self.low!r} and high={self.high!r}"
            )
        self._check_grid()

    def _interval(self) -> tuple[float, float]:
        return float(self.low) - 1.0, float(self.high) - 1.0

    def _powers(self, X: np.ndarray) -> np.ndarray:
        return floating(X)[:, None, :]

    def _directions(self, X: np.ndarray) -> np.ndarray:
        return X[:, None, :]

    def _slopes(self, X: Matrix, V: np.ndarray, assign: np.ndarray) -> np.ndarray:
        return row_dots(X, V, assign)

    def _moved(self, X: Matrix, t: np.ndarray) -> Matrix:
        X = floating(X)
        return scale_rows(X, (1.0 + t).astype(X.dtype))

    def _name(self, t: float) -> str:
        return f"x {1.0 + t:g}"


class Offset(_Line):
    r"""The row plus a constant within a limit: the zero level of a signal carries no information.

    .. math:: S(x) = \{x + c\, \mathbf{1} : |c| \le limit\}

    (Pozdnoukhov and Bengio 2006, section 5.2). The worst case along v adds the limit with the sign of
    the sum of v.

    Parameters
    ----------
    limit : float
        How far the level may move, at least 0, in the units of the features.
    resolution : int, default=9
        Levels in the list that kernel machines start from, at equal distances, beside 0; at
        least 2.

    Raises
    ------
    TypeError, ValueError
        From `validate` and all views, if the limit is no finite number of at least 0.

    Notes
    -----
    ``discounted(rho)`` interpolates the grades over the share of the limit. Members at random have
    uniform levels. Rows are dense.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.oracles import Offset
    >>> X, V = np.array([[1.0, 2.0]]), np.array([[1.0, 1.0]])
    >>> Offset(0.5).support(X, V, np.array([0])).points
    array([[1.5, 2.5]])
    """

    additive = True

    def __init__(self, limit: float, resolution: int = 9) -> None:
        self.limit = limit
        self.resolution = resolution

    def validate(self, n_features: int | None = None) -> None:
        """Raise unless the limit is a finite number of at least 0."""
        check_number("limit", self.limit, minimum=-np.inf)
        if self.limit < 0:
            raise ValueError(f"limit must be at least 0, got {self.limit!r}")
        self._check_grid()

    def _interval(self) -> tuple[float, float]:
        return -float(self.limit), float(self.limit)

    def _powers(self, X: np.ndarray) -> np.ndarray:
        X = floating(X)
        return np.broadcast_to(np.ones(1, dtype=X.dtype), (len(X), 1, X.shape[1]))

    def _directions(self, X: np.ndarray) -> np.ndarray:
        return np.ones((1, X.shape[1]), dtype=X.dtype)

    def _slopes(self, X: Matrix, V: np.ndarray, assign: np.ndarray) -> np.ndarray:
        return V.sum(axis=1)[assign]

    def _moved(self, X: Matrix, t: np.ndarray) -> Matrix:
        X = floating(X)
        return X + t.astype(X.dtype)[:, None]

    def _name(self, t: float) -> str:
        return f"{t:+g}"
