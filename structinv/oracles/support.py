"""Answers of support functions: maximizers, bounds, grades, rounding errors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import TypeAlias

import numpy as np
import scipy.sparse as sp

from ..utils.matrices import TIES, Matrix, row_dots, row_sizes

# Grades of perturbations, as in `InvarianceOracle.discounted`; None without grades.
Grades: TypeAlias = float | Sequence[float] | None
# Misclassification cost of each row at grade 1; None for zeros.
Costs: TypeAlias = np.ndarray | None


@dataclass(frozen=True)
class Support:
    """Maximizers of a support function, one per sample, with upper bounds.

    Parameters
    ----------
    points : array or CSR matrix of shape (n_samples, n_features)
        Maximizers; ``points[i]`` lies in S(x_i).
    upper : array of shape (n_samples,), optional
        Upper bound of ``<v, z>``, or of ``<v, z> + cost * rho(z)`` if `rho` is given. It is infinite
        if no bound is known. By default, `points` attain the maximum.
    rho : array of shape (n_samples,), optional
        Grade rho(x_i, points[i]) in [0, 1]; all grades are 1 by default.

    See Also
    --------
    InvarianceOracle.support : Compute this answer for given directions.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.oracles import Support
    >>> answer = Support(np.array([[1.0, 2.0]]))
    >>> answer.values(np.array([[3.0, 0.0], [0.0, 1.0]]), np.array([1]))
    array([2.])
    """

    points: Matrix
    upper: np.ndarray | None = None
    rho: np.ndarray | None = None

    def values(self, V: np.ndarray, assign: np.ndarray) -> np.ndarray:
        """Compute the inner products of points and directions.

        Parameters
        ----------
        V : array of shape (n_directions, n_features)
            Directions.
        assign : array of int of shape (n_samples,)
            Row of `V` for every point.

        Returns
        -------
        array of shape (n_samples,)
            ``<V[assign[i]], points[i]>``.
        """
        return row_dots(self.points, V, assign)

    def with_points(self) -> Support:
        """Return this answer with computed points.

        Returns
        -------
        Support
            This answer, or a new one if the points of this answer are computed on first access.
        """
        return self

    def rounding(
        self, V: np.ndarray, sizes: np.ndarray, assign: np.ndarray, constant_sizes: np.ndarray
    ) -> np.ndarray:
        """Bound the difference of `values` and predicted scores due to rounding and ties.

        Parameters
        ----------
        V : array of shape (n_directions, n_features)
            Directions.
        sizes : array of shape (n_directions, n_features)
            Sums of the absolute weights in each direction, at least ``|V|``.
        assign : array of int of shape (n_samples,)
            Row of `V` for every point.
        constant_sizes : array of shape (n_samples,)
            Absolute values of the constants in the scores.

        Returns
        -------
        array of shape (n_samples,)
            Bound of the rounding error.
        """
        size = row_sizes(self.points, sizes, assign)
        own = size if np.array_equal(np.abs(V), sizes) else row_sizes(self.points, np.abs(V), assign)
        return rounding_bound(self.points, size + constant_sizes) + 2 * TIES * own

    def gains_and_costs(
        self, V: np.ndarray, assign: np.ndarray, constants: np.ndarray, costs_at_1: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Compute score differences, costs and upper bounds at the points.

        Parameters
        ----------
        V : array of shape (n_directions, n_features)
            Directions.
        assign : array of int of shape (n_samples,)
            Row of `V` for every point.
        constants : array of shape (n_samples,)
            Constant that is added to each score difference.
        costs_at_1 : array of shape (n_samples,)
            Misclassification cost at grade 1.

        Returns
        -------
        gains : array of shape (n_samples,)
            Score differences at the points.
        costs : array of shape (n_samples,)
            Costs times grades.
        upper : array of shape (n_samples,)
            Upper bound of score difference plus cost, at least their sum at the point.
        """
        gains = self.values(V, assign) + constants
        costs = costs_at_1 if self.rho is None else costs_at_1 * self.rho
        upper = gains + costs
        if self.upper is not None:
            # The bound of a graded answer includes the costs.
            ungraded = costs_at_1 if self.rho is None else 0.0
            upper = np.maximum(upper, self.upper + ungraded + constants)
        return gains, costs, upper


class DeferredSupport(Support):
    """An exact answer that computes its points on first access.

    Shapes: `X` (n_samples, n_features).
    """

    def __init__(
        self,
        X: Matrix,
        make: Callable[[], Matrix],
        maxima: Callable[[], tuple[np.ndarray, np.ndarray]],
    ) -> None:
        # The base class is frozen, and `points` is a property here.
        vars(self).update(_rows=X, _make=make, maxima=cache(maxima), upper=None, rho=None)

    _rows: Matrix
    _make: Callable[[], Matrix]
    maxima: Callable[[], tuple[np.ndarray, np.ndarray]]

    @cached_property
    def points(self) -> Matrix:
        return self._make()

    def with_points(self) -> Support:
        return Support(self.points)

    def values(self, V: np.ndarray, assign: np.ndarray) -> np.ndarray:
        """Compute the inner products, from the maxima if the points do not exist yet."""
        return super().values(V, assign) if "points" in vars(self) else self.maxima()[0]

    def rounding(
        self, V: np.ndarray, sizes: np.ndarray, assign: np.ndarray, constant_sizes: np.ndarray
    ) -> np.ndarray:
        """Bound the effect of rounding errors, without points if ``|V| = sizes``."""
        if "points" in vars(self) or not np.array_equal(np.abs(V), sizes):
            return super().rounding(V, sizes, assign, constant_sizes)
        return rounding_of_maxima(self._rows, self.maxima()[1], constant_sizes)


def rounding_of_maxima(
    points: Matrix, sizes: np.ndarray, constant_sizes: float | np.ndarray
) -> np.ndarray:
    """Bound rounding errors and differences of ties, as `Support.rounding`."""
    return rounding_bound(points, sizes + constant_sizes) + 2 * TIES * sizes


def rounding_bound(points: Matrix, sizes: np.ndarray) -> np.ndarray:
    """Bound the rounding errors of predictions, from the sums of absolute terms.

    Products below the smallest normal number may become 0.
    """
    terms = int(np.diff(points.indptr).max(initial=0) if sp.issparse(points) else points.shape[1]) + 8
    # Points in single precision already have rounding errors.
    kind = np.finfo(points.dtype if points.dtype.kind == "f" else np.float64)
    return float(terms * kind.eps) * (sizes + float(kind.tiny) / float(kind.eps) * (sizes > 0))


def costs_of(cost: Costs, assign: np.ndarray) -> np.ndarray:
    """Return the cost of each row, zeros by default."""
    return np.zeros(len(assign)) if cost is None else cost
