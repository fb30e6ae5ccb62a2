"""Rows on polynomial trajectories, whose coefficients differ from row to row."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, Self

import numpy as np

from ..regions import Region
from ..regions.curve_regions import CurveRegion, Grid
from ..regions.inner_products import Stack
from ..utils import plugins
from ..utils.matrices import Matrix, Rows, dense_rows, floating, rounding, row_dots
from ..utils.parameters import check_integer
from ..utils.polynomials import largest_on_interval, smallest_on_interval, squared_distances
from .arguments import check_directions
from .base import BoundOracle, Hull, Support
from .cache import LastResult
from .changes import Changes
from .curve_hull import CurveHull
from .curves import CurveOracle, Curves, GridOfCurves
from .images.image_base import ImageOracle
from .images.image_curves import ImageCurve, check_one_family
from .images.image_parameters import interval

# Rows of a block whose images at many values are compared at once.
_BLOCK = 64


class Trajectory(CurveOracle):
    r"""The row moved along a polynomial of one parameter (Graepel and Herbrich 2004).

    .. math:: S(x) = \{x + \sum_{k=1}^p t^k x_k : a \le t \le b\}, \quad a \le 0 \le b

    The worst case along v is where :math:`\langle v, x \rangle + \sum_k t^k \langle v, x_k \rangle` is
    largest: at an end or at a stationary point, all of which are found. Graepel and Herbrich
    train the same worst case by a semidefinite program (Teo et al. 2007, section 4).

    Parameters
    ----------
    function : callable
        From rows (n, d) to their x_1, ..., x_p, (n, p, d). It sees any block of rows, and what it
        gives for a row may depend on that row only.
    degree : int
        p, at least 1.
    interval : pair of float, default=(-1, 1)
        a and b, with 0 between them or at an end, so that the row itself is a member.
    resolution : int, default=9
        Values of t in the list that kernel machines start from, at equal distances, beside 0; at
        least 2.

    Raises
    ------
    TypeError, ValueError
        From `validate` and all views, if a parameter is out of its range, or `function` gives anything
        else than finite numbers of shape (n, p, d); from `bind`, and with it every fit, if the last row
        has others when asked about alone.

    Notes
    -----
    `tangents` is x_1. Members at random have t uniform in the interval. Rows are dense; a bound oracle
    keeps the x_k of all rows, n p d numbers.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.oracles import Trajectory
    >>> def powers(X):
    ...     "A parabola: one to the right, and as far up as the square."
    ...     return np.broadcast_to(np.eye(2), (len(X), 2, 2))
    >>> parabola = Trajectory(powers, degree=2)
    >>> X, V = np.zeros((2, 2)), np.array([[1.0, -1.0], [1.0, 1.0]])
    >>> parabola.support(X, V, np.array([0, 1])).points
    array([[0.5 , 0.25],
           [1.  , 1.  ]])
    """

    # Of a prepared copy only.
    _last: LastResult | None = None

    def __init__(
        self,
        function: Callable[[np.ndarray], np.ndarray],
        degree: int,
        interval: tuple[float, float] = (-1.0, 1.0),
        resolution: int = 9,
    ) -> None:
        self.function = function
        self.degree = degree
        self.interval = interval
        self.resolution = resolution

    @classmethod
    def from_oracle(
        cls,
        oracle: ImageOracle,
        degree: int = 2,
        interval: tuple[float, float] | None = None,
        method: str = "fit",
        resolution: int = 9,
    ) -> Self:
        r"""Polynomials that come near the members of a continuous family of images.

        An approximation: members of the family are sums over pixels whose weights are no polynomials of
        the parameter. `deviation` tells how far apart the two are.

        Parameters
        ----------
        oracle : ImageOracle
            With `between`, and one axis or direction: `Rotations`, `Scalings`, ``Shears(axes=0)``.
        degree : int, default=2
        interval : pair of float, optional
            Of t, the value of the parameter less that of no change. By default that of the oracle's
            `between`.
        method : {"fit", "taylor"}, default="fit"
            Least squares over the whole interval, or differences near no change; see
            `structinv.oracles.images.image_curves.ImageCurve`.
        grid : int, default=9

        Returns
        -------
        Trajectory

        Raises
        ------
        TypeError, ValueError
            If the oracle is none of this kind, or an argument out of its range.

        Examples
        --------
        >>> import numpy as np
        >>> from structinv.oracles import Rotations, Trajectory
        >>> turns = Rotations(interval=(-10, 10))
        >>> X = np.linspace(0.0, 1.0, 25)[None, :]
        >>> [float(Trajectory.from_oracle(turns, p).deviation(turns, X).round(4)[0]) for p in (1, 2)]
        [0.4769, 0.119]
        """
        check_one_family(oracle)
        if interval is None:
            low, high = (end - oracle.neutral for end in oracle._ends())
        else:
            low, high = interval
        made = cls(ImageCurve(oracle, degree, (low, high), method), degree, (low, high), resolution)
        made.validate()
        made.function.validate()  # type: ignore[attr-defined]
        return made

    def validate(self, n_features: int | None = None) -> None:
        """Raise unless the function can be called and 0 lies in an interval of finite numbers."""
        if not callable(self.function):
            raise TypeError(f"function must be callable, got {self.function!r}")
        check_integer("degree", self.degree)
        low, high = self._interval()
        if not low <= 0.0 <= high:
            raise ValueError(
                f"interval must contain 0, where a row does not change, got {self.interval!r}"
            )
        self._check_grid()

    def _interval(self) -> tuple[float, float]:
        return interval("interval", self.interval)

    def _powers(self, X: np.ndarray) -> np.ndarray:
        found = plugins.ask_third_party("function", self.function, X)
        return plugins.numbers("function", "the x_k", found, (len(X), int(self.degree), X.shape[1]))

    def _name(self, t: float) -> str:
        return f"t = {t:g}"

    def _prepared(self) -> Self:
        """See `InvarianceOracle._prepared`; the curves of the rows asked about last are kept."""
        if self._last is not None:
            return self
        prepared = copy.copy(self)
        prepared._last = LastResult()
        return prepared

    def _changes(self, X: Matrix, y: np.ndarray | None) -> Changes:
        return (
            GridOfCurves(self, X)
            if self._last is None
            else self._last.get(X, lambda: GridOfCurves(self, X))
        )

    def support(
        self, X: Matrix, V: np.ndarray, assign: np.ndarray, cost: np.ndarray | None = None
    ) -> Support:
        """See `InvarianceOracle.support`; exact, from all stationary points."""
        curves = self._curves(X)
        check_directions(X, V, assign, cost)
        return self._furthest(curves, V, assign)

    def _furthest(self, curves: Curves, V: np.ndarray, assign: np.ndarray) -> Support:
        n, p, d = curves.powers.shape
        slopes = row_dots(curves.powers.reshape(n * p, d), V, np.repeat(assign, p))
        coefficients = np.column_stack([row_dots(curves.X, V, assign), slopes.reshape(n, p)])
        return Support(curves.at(largest_on_interval(coefficients, *self._interval())[0]))

    def region(self, X: np.ndarray) -> Region:
        curves = self._curves(X)
        listed = GridOfCurves(self, X)
        resolution = Grid(self._values(), listed.members(), listed.mesh())
        return CurveRegion(Stack.of(floating(curves.X), curves.powers), self._interval(), resolution)

    def contains(self, x: np.ndarray, z: np.ndarray) -> bool:
        """Whether `z` lies on the trajectory, up to rounding: at the least squared distance."""
        return self._reaches(self._curves(x[None, :]), x, z)

    def _reaches(self, curves: Curves, x: np.ndarray, z: np.ndarray) -> bool:
        away = np.vstack([x.astype(np.float64) - z, curves.powers[0]])
        squares = squared_distances(np.zeros(1), np.zeros((1, len(away))), (away @ away.T)[None])
        t = smallest_on_interval(squares, *self._interval())[0]
        steps = t[0] ** np.arange(len(away))[:, None] * away
        # Steps that cancel are rounded by their own sizes.
        room = max(rounding(x, z), rounding(steps[1:], x))
        return float(np.max(np.abs(np.sum(steps, axis=0)), initial=0.0)) <= room

    def deviation(self, oracle: ImageOracle, X: Matrix, steps: int = 201) -> np.ndarray:
        """How far a family of images is from these trajectories at the same values, (n,).

        Parameters
        ----------
        oracle : ImageOracle
            As in `from_oracle`.
        X : (n, d) array
        steps : int, default=201
            Values at which both are compared, at equal distances over the interval; what lies between
            them is not looked at.

        Returns
        -------
        (n,) array
            The largest Euclidean distance.
        """
        check_one_family(oracle)
        check_integer("steps", steps, 2)
        self._check_rows(X)
        t, rows = np.linspace(*self._interval(), steps), dense_rows(X)
        found = np.zeros(len(rows))
        for first in range(0, len(rows), _BLOCK):
            part = slice(first, first + _BLOCK)
            apart = oracle.members_at(rows[part], oracle.neutral + t)
            apart = apart - self._curves(rows[part]).table(t)
            found[part] = np.max(np.linalg.norm(apart, axis=2), axis=1)
        return found


class BoundTrajectory(BoundOracle):
    """Trajectories of given rows, whose coefficients are made once."""

    oracle: Trajectory

    def __init__(self, oracle: Trajectory, X: Matrix, y: np.ndarray | None) -> None:
        super().__init__(oracle, X, y)
        listed: Any = self.changes()
        self.curves: Curves = listed.curves()
        powers = self.curves.powers
        plugins.repeats("function", "the x_k", powers, lambda: oracle._curves(X[-1:]).powers)

    def _support(
        self, rows: Rows, V: np.ndarray, assign: np.ndarray, cost: np.ndarray | None
    ) -> Support:
        return self.oracle._furthest(self.curves.take(rows), V, assign)

    def sample(self, rows: Rows, n_draws: int, rng: np.random.Generator) -> np.ndarray:
        return self.oracle._sample(self.curves.take(rows), n_draws, rng)

    def hull(self, signs: np.ndarray, weights: np.ndarray, intercept: bool) -> Hull | None:
        curves = self.curves
        ends = self.oracle._interval()
        return CurveHull(curves.X, signs, weights, intercept, curves.powers, ends)

    def contains(self, row: int, z: np.ndarray) -> bool:
        return self.oracle._reaches(self.curves.take(slice(row, row + 1)), self.X[row], z)
