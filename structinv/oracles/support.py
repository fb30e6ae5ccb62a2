"""What oracles answer: members of S(x), and how far others may be from these."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import TypeAlias

import numpy as np
import scipy.sparse as sp

from ..utils.matrices import Matrix, row_dots, row_sizes

# Grades of changes: that of a full change, or one for each size; see `InvarianceOracle.discounted`.
Grades: TypeAlias = float | Sequence[float]


@dataclass(frozen=True)
class Support:
    """An oracle's answer: for each row a member of S(x), and how far the answer can be from the best.

    Parameters
    ----------
    points : (n, d) array or CSR matrix
        ``points[i]`` lies in S(x_i).
    upper : (n,) array, optional
        Bound on the maximum of ``<v, z>``, or of ``<v, z> + cost * rho(z)`` where `rho` is given;
        infinity where nothing is known, None where `points` attain it.
    rho : (n,) array, optional
        The grade rho(x_i, points[i]) in [0, 1]; None where every change counts in full.
    """

    points: Matrix
    upper: np.ndarray | None = None
    rho: np.ndarray | None = None

    def values(self, V: np.ndarray, assign: np.ndarray) -> np.ndarray:
        """``<V[assign[i]], points[i]>`` of every row, (n,)."""
        return row_dots(self.points, V, assign)

    def with_points(self) -> Support:
        """The answer with its points made."""
        return self

    def rounding(
        self, V: np.ndarray, sizes: np.ndarray, assign: np.ndarray, height: np.ndarray
    ) -> np.ndarray:
        """How far the rounding of predictions can move `values`, (n,).

        Parameters
        ----------
        V : (p, d) array
        sizes : (p, d) array
            Sizes of all weights that enter each direction, at least ``|V|``.
        assign : (n,) array of int
        height : (n,) array
            Sizes of constants.
        """
        return rounding_error(self.points) * (row_sizes(self.points, sizes, assign) + height)

    def heights(
        self, V: np.ndarray, assign: np.ndarray, constants: np.ndarray, worth: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """What labels win and cost at the points, and at most.

        Parameters
        ----------
        V : (p, d) array
        assign : (n,) array of int
            The question: row i faces ``V[assign[i]]``.
        constants : (n,) array
            What a label wins at every point.
        worth : (n,) array
            What it costs where a change counts in full.

        Returns
        -------
        gains, costs, upper : (n,) arrays
            `upper` bounds the sum of both, and is no less than it.
        """
        gains = self.values(V, assign) + constants
        costs = worth if self.rho is None else worth * self.rho
        upper = gains + costs
        if self.upper is not None:
            # The bound of an answer with grades has costs in it.
            ungraded = worth if self.rho is None else 0.0
            upper = np.maximum(upper, self.upper + ungraded + constants)
        return gains, costs, upper


class DeferredSupport(Support):
    """An exact answer whose points are made when they are asked for.

    Parameters
    ----------
    X : (n, d) array or CSR matrix
        The rows asked about.
    make : callable
        Makes the points.
    maxima : callable
        Computes the maxima, (n,), and bounds of ``<|v|, |z|>`` there, (n,), without points.
    """

    def __init__(
        self,
        X: Matrix,
        make: Callable[[], Matrix],
        maxima: Callable[[], tuple[np.ndarray, np.ndarray]],
    ) -> None:
        # A frozen class, whose `points` are no field here.
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
        """See `Support.values`; from points if these are made, and cheaper otherwise."""
        return super().values(V, assign) if "points" in vars(self) else self.maxima()[0]

    def rounding(
        self, V: np.ndarray, sizes: np.ndarray, assign: np.ndarray, height: np.ndarray
    ) -> np.ndarray:
        """See `Support.rounding`; without points where no weights cancel in a direction."""
        if "points" in vars(self) or not np.array_equal(np.abs(V), sizes):
            return super().rounding(V, sizes, assign, height)
        return rounding_error(self._rows) * (self.maxima()[1] + height)


def rounding_error(points: Matrix) -> float:
    """Relative error of an inner product of a row, in the precision that predictions use."""
    terms = np.diff(points.indptr).max(initial=0) if sp.issparse(points) else points.shape[1]
    # Points in single precision are rounded themselves, however exactly they are multiplied.
    kind = points.dtype if points.dtype.kind == "f" else np.float64
    return float((int(terms) + 8) * np.finfo(kind).eps)
