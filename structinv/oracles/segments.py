"""Rescaling of samples by a factor, and shifts of their baseline by a constant."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np

from ..regions import Region
from ..regions.inner_products import Stack
from ..regions.zonotopes import Zonotopes
from ..utils.matrices import (
    Matrix,
    Rows,
    dense_rows,
    floating,
    row_dots,
    row_sizes,
    scale_rows,
    take,
)
from ..utils.parameters import check_number
from .arguments import breakpoints, check_directions
from .base import BoundOracle, Support
from .curves import CurveOracle
from .support import Costs, DeferredSupport, Grades, costs_of


class _Line(CurveOracle):
    """Base class of segments S(x) = {x + t u(x) : a <= t <= b}."""

    convex = True

    @abstractmethod
    def _slopes(self, X: Matrix, V: np.ndarray, assign: np.ndarray) -> np.ndarray:
        """Compute ``<v, u(x)>`` of each row and its direction, (n,)."""

    @abstractmethod
    def _moved(self, X: Matrix, t: np.ndarray) -> Matrix:
        """Compute ``x + t u(x)``, sparse if the rows are sparse."""

    def support(
        self, X: Matrix, V: np.ndarray, assign: np.ndarray, cost: Costs = None, rho: Grades = None
    ) -> Support:
        self._check_rows(X)
        check_directions(X, V, assign, cost)
        slopes = self._slopes(X, V, assign)
        if rho is None:
            return Support(self._moved(X, self._furthest(slopes)))
        shares, grades = breakpoints(rho)
        # The value is piecewise linear in t on both sides of 0, so a breakpoint is best.
        t = np.concatenate([end * shares for end in self._interval()])
        values = slopes[:, None] * t + costs_of(cost, assign)[:, None] * np.tile(grades, 2)
        best = np.argmax(values, axis=1)
        return Support(self._moved(X, t[best]), rho=np.tile(grades, 2)[best])

    def _furthest(self, slopes: np.ndarray) -> np.ndarray:
        """Return the best t; rows with slope 0 stay unperturbed."""
        low, high = self._interval()
        return np.where(slopes > 0, high, np.where(slopes < 0, low, 0.0))

    def region(self, X: np.ndarray) -> Region:
        self._check_rows(X)
        rows = floating(dense_rows(X))
        ends = (np.full((len(rows), 1), end) for end in self._interval())
        return Zonotopes(Stack.of(rows, self._powers(rows)), *ends)


class BoundLine(BoundOracle):
    """Segments through the samples of one fit."""

    oracle: _Line

    def support(
        self, rows: Rows, V: np.ndarray, assign: np.ndarray, cost: Costs = None, rho: Grades = None
    ) -> Support:
        X, oracle = take(self.X, rows), self.oracle
        if rho is not None:
            return oracle.support(X, V, assign, cost, rho)

        def maxima() -> tuple[np.ndarray, np.ndarray]:
            slopes = oracle._slopes(X, V, assign)
            t = oracle._furthest(slopes)
            # The direction of |x| is the absolute value of that of x.
            sizes = row_sizes(X, np.abs(V), assign)
            sizes += np.abs(t) * oracle._slopes(abs(X), np.abs(V), assign)
            return row_dots(X, V, assign) + t * slopes, sizes

        return DeferredSupport(X, lambda: oracle.support(X, V, assign).points, maxima)


class Segment(_Line):
    r"""Multiplication by a bounded factor, for signals of unknown amplitude.

    .. math:: S(x) = \{c\, x : low \le c \le high\}

    (Pozdnoukhov and Bengio 2006, section 2.2). The worst case along v is at ``high`` if
    :math:`\langle v, x \rangle > 0`, and at ``low`` if it is negative.

    Parameters
    ----------
    low : float
        Smallest factor (<= 1); it may be negative.
    high : float
        Largest factor (>= 1).
    resolution : int, default=9
        Number of equidistant factors (>= 2) in the cover for kernel models; the cover also contains the
        factor 1.

    Raises
    ------
    TypeError, ValueError
        Raised by `validate` and all other methods, if a limit is not a finite number, or 1 is not
        between them.

    See Also
    --------
    Offset : Addition of a constant to all features.
    FScale : Rescaling of single features.
    Trajectory : Polynomial curve through the sample.

    Notes
    -----
    ``discounted(rho)`` interpolates the grades over the distance from 1 to either limit. `sample` draws
    uniform factors. Samples may be sparse.

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
        check_number("low", self.low, minimum=-np.inf)
        check_number("high", self.high, minimum=-np.inf)
        if not self.low <= 1 <= self.high:
            raise ValueError(
                "low must be at most 1 and high at least 1, so that S(x) contains the sample, got "
                f"low={self.low!r} and high={self.high!r}"
            )
        self._check_grid()

    def _interval(self) -> tuple[float, float]:
        return float(self.low) - 1.0, float(self.high) - 1.0

    def _powers(self, X: np.ndarray) -> np.ndarray:
        return floating(X)[:, None, :]

    def _slopes(self, X: Matrix, V: np.ndarray, assign: np.ndarray) -> np.ndarray:
        return row_dots(X, V, assign)

    def _moved(self, X: Matrix, t: np.ndarray) -> Matrix:
        X = floating(X)
        return scale_rows(X, (1.0 + t).astype(X.dtype))

    def _name(self, t: float) -> str:
        return f"x {1.0 + t:g}"


class Offset(_Line):
    r"""Addition of a bounded constant, for signals of unknown baseline.

    .. math:: S(x) = \{x + c\, \mathbf{1} : |c| \le limit\}

    (Pozdnoukhov and Bengio 2006, section 5.2). The worst case along v adds the limit with the sign of
    the sum of v.

    Parameters
    ----------
    limit : float
        Largest absolute constant (>= 0), in units of the features.
    resolution : int, default=9
        Number of equidistant constants (>= 2) in the cover for kernel models; the cover also contains
        the constant 0.

    Raises
    ------
    TypeError, ValueError
        Raised by `validate` and all other methods, if the limit is not a finite number of at least 0.

    See Also
    --------
    Segment : Multiplication by a factor.
    Box : Independent bound for each feature.

    Notes
    -----
    ``discounted(rho)`` interpolates the grades over the fraction of the limit. `sample` draws uniform
    constants. Samples must be dense.

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
        check_number("limit", self.limit, minimum=-np.inf)
        if self.limit < 0:
            raise ValueError(f"limit must be at least 0, got {self.limit!r}")
        self._check_grid()

    def _interval(self) -> tuple[float, float]:
        return -float(self.limit), float(self.limit)

    def _powers(self, X: np.ndarray) -> np.ndarray:
        X = floating(X)
        return np.broadcast_to(np.ones(1, dtype=X.dtype), (len(X), 1, X.shape[1]))

    def _slopes(self, X: Matrix, V: np.ndarray, assign: np.ndarray) -> np.ndarray:
        return V.sum(axis=1)[assign]

    def _moved(self, X: Matrix, t: np.ndarray) -> Matrix:
        X = floating(X)
        return X + t.astype(X.dtype)[:, None]

    def _name(self, t: float) -> str:
        return f"{t:+g}"
