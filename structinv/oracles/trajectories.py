"""Polynomial trajectories through samples, with custom or fitted coefficients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..regions import Region
from ..regions.curve_regions import CurveRegion
from ..regions.inner_products import Stack
from ..utils import plugins
from ..utils.matrices import Matrix, Rows, floating, row_dots
from ..utils.parameters import brief, check_integer
from ..utils.polynomials import largest_on_interval
from .arguments import check_directions
from .base import BoundOracle, Support
from .cache import CachedOracle
from .changes import Changes
from .curves import CurveOracle, Curves, GridOfCurves
from .parameter_values import interval
from .support import Costs, Grades


class Trajectory(CachedOracle, CurveOracle):
    r"""Samples moved along a polynomial of one parameter (Graepel and Herbrich 2004).

    .. math:: S(x) = \{x + \sum_{k=1}^p t^k x_k : a \le t \le b\}, \quad a \le 0 \le b

    The worst case along v maximizes the polynomial :math:`\langle v, x \rangle + \sum_k t^k \langle v,
    x_k \rangle` exactly, over the ends and all stationary points. Graepel and Herbrich train the same
    worst case by a semidefinite program (Teo et al. 2007, section 4).

    Parameters
    ----------
    function : callable
        Function from samples (n, d) to their coefficients x_1, ..., x_p as an array (n, p, d). It is
        called with arbitrary blocks of samples, and its result for a sample must depend on this sample
        only.
    degree : int
        Degree p of the polynomial (>= 1).
    interval : pair of float, default=(-1, 1)
        Ends a <= 0 and b >= 0 of the parameter t.
    resolution : int, default=9
        Number of equidistant values of t (>= 2) in the cover for kernel models; the cover also contains
        t = 0.

    Raises
    ------
    TypeError, ValueError
        Raised by `validate` and all other methods, if a parameter is out of its range, or if `function`
        does not return finite numbers of shape (n, p, d). Raised by `bind`, and so by every fit, if the
        coefficients of the last sample differ in a call with this sample alone.

    See Also
    --------
    TangentDerivative : First-order approximation, by tangents.
    Segment : Multiplication by a factor.

    Notes
    -----
    `tangents` is x_1. `sample` draws uniform values of t. Samples must be dense. A bound oracle stores
    the n p d coefficients of all samples.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.oracles import Trajectory
    >>> def powers(X):
    ...     "A parabola: t to the right and t² upwards."
    ...     return np.broadcast_to(np.eye(2), (len(X), 2, 2))
    >>> parabola = Trajectory(powers, degree=2)
    >>> X, V = np.zeros((2, 2)), np.array([[1.0, -1.0], [1.0, 1.0]])
    >>> parabola.support(X, V, np.array([0, 1])).points
    array([[0.5 , 0.25],
           [1.  , 1.  ]])
    """

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

    def validate(self, n_features: int | None = None) -> None:
        if not callable(self.function):
            raise TypeError(f"function must be callable, got {brief(self.function)}")
        check_integer("degree", self.degree)
        low, high = self._interval()
        if not low <= 0.0 <= high:
            raise ValueError(
                "interval must contain 0, the parameter of the unperturbed sample, got "
                f"{self.interval!r}"
            )
        self._check_grid()

    def _interval(self) -> tuple[float, float]:
        return interval("interval", self.interval)

    def _powers(self, X: np.ndarray) -> np.ndarray:
        found = plugins.ask_third_party("function", self.function, X)
        return plugins.numbers("function", "coefficients", found, (len(X), int(self.degree), X.shape[1]))

    def _name(self, t: float) -> str:
        return f"t = {t:g}"

    def _changes(self, X: Matrix, y: np.ndarray | None) -> Changes:
        found: Changes = self._once_for(X, lambda: GridOfCurves(self, X))
        return found

    def support(
        self, X: Matrix, V: np.ndarray, assign: np.ndarray, cost: np.ndarray | None = None
    ) -> Support:
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
        cover = self._values(), listed.members(), listed.mesh()
        return CurveRegion(Stack.of(floating(curves.X), curves.powers), self._interval(), *cover)


class BoundTrajectory(BoundOracle):
    """Trajectories of the samples of one fit, with cached coefficients."""

    oracle: Trajectory

    def __init__(self, oracle: Trajectory, X: Matrix, y: np.ndarray | None) -> None:
        super().__init__(oracle, X, y)
        listed: Any = self.changes()
        self.curves: Curves = listed.curves()
        powers = self.curves.powers
        plugins.repeats("function", "coefficients", powers, lambda: oracle._curves(X[-1:]).powers)

    def support(
        self, rows: Rows, V: np.ndarray, assign: np.ndarray, cost: Costs = None, rho: Grades = None
    ) -> Support:
        self.oracle._refuse_grades(rho)
        return self.oracle._furthest(self.curves.take(rows), V, assign)

    def sample(self, rows: Rows, n_draws: int, rng: np.random.Generator) -> np.ndarray:
        return self.oracle._sample(self.curves.take(rows), n_draws, rng)
