"""Prediction bounds of a regression over perturbation sets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..oracles.base import BoundOracle
from ..oracles.query import Violations
from ..spaces.base import Element, Space
from ..structures import Regression
from ..structures.classes import ABOVE, BELOW
from ..structures.competitors import Competitors
from ..utils.matrices import Matrix, stack
from ..utils.summaries import Table, Tabulated, how_many, named_values
from .certificate import SAME, all_of, common, described


@dataclass(frozen=True, repr=False)
class PredictionBounds(Tabulated):
    """Smallest and largest predictions of a regressor over perturbation sets.

    The bounds hold for perturbations of the input of the model. In a Pipeline, this can be the input of
    the last step.

    Attributes
    ----------
    lowest, highest : ndarray of shape (n,)
        Lower and upper bounds of the prediction over the perturbation set of each sample, including
        rounding errors. They are infinite if the oracle has no upper bound.
    exact : ndarray of bool of shape (n,)
        True if perturbations found by the oracle attain both bounds, up to rounding errors.
    perturbations : str or None, default=None
        Short form of the oracle, such as "Box(radius=0.5)"; None if unknown.

    See Also
    --------
    Certificate : Counterpart for classification.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.certificates import PredictionBounds
    >>> bounds = PredictionBounds(np.array([0.5]), np.array([2.0]), np.array([True]))
    >>> bounds.width
    array([1.5])
    """

    lowest: np.ndarray
    highest: np.ndarray
    exact: np.ndarray
    perturbations: str | None = None

    @classmethod
    def join(cls, parts: Sequence[PredictionBounds]) -> PredictionBounds:
        """Concatenate prediction bounds.

        Parameters
        ----------
        parts : sequence of PredictionBounds
            Bounds of several sets of samples.

        Returns
        -------
        PredictionBounds
            Bounds of all samples, in order.
        """
        return cls(
            **{name: all_of(parts, name) for name in ("lowest", "highest", "exact")},
            perturbations=common([part.perturbations for part in parts]),
        )

    @property
    def width(self) -> np.ndarray:
        """Width of the interval between the bounds, (n,)."""
        return self.highest - self.lowest

    def _table(self) -> Table:
        n = len(self.exact)
        if n == 0:
            return named_values("Bounds of 0 predictions", {})
        values = {} if self.perturbations is None else {"perturbations": self.perturbations}
        values |= {
            "median width": f"{np.median(self.width):.4g}",
            "largest width": f"{np.max(self.width):.4g}",
            "tight bounds": how_many(self.exact),
        }
        unbounded = np.count_nonzero(np.isinf(self.width))
        notes = [f"{unbounded} bounds are infinite: the oracle has no upper bound for this model."]
        return named_values(f"Bounds of {n} predictions", values, notes if unbounded else [])


def prediction_bounds(
    space: Space, f: Element, bound: BoundOracle, constant: float = 0.0, eps: float = 0.0
) -> PredictionBounds:
    """Return bounds of ``f(z) + constant`` over z in S(x), for every row.

    The space has a single output. `eps` is the relative error of the sum.
    """
    ends, exact = [], []
    for _, extremes in _extremes(space, f, bound, points=False):
        above = extremes.upper[:, [BELOW, ABOVE]] * [-1.0, 1.0]
        reached = extremes.gains[:, [BELOW, ABOVE]] * [-1.0, 1.0]
        errors: Any = extremes.rounding
        rounding = errors[:, [BELOW, ABOVE]]
        if eps > 0:
            rounding = rounding + eps * (abs(constant) + np.abs(reached))
        ends.append(above + constant + rounding * [-1.0, 1.0])
        exact.append(np.all(np.abs(above - reached) <= SAME * rounding, axis=1))
    lowest, highest = np.concatenate(ends).T
    return PredictionBounds(lowest, highest, np.concatenate(exact), described(bound.oracle))


def furthest_members(
    space: Space, f: Element, bound: BoundOracle, targets: np.ndarray, constant: float = 0.0
) -> Matrix:
    """Return the points of S(x) whose predictions are furthest from the targets."""
    moved = []
    for rows, extremes in _extremes(space, f, bound, points=True):
        offset = constant - targets[rows]
        is_above = extremes.gains[:, ABOVE] + offset >= extremes.gains[:, BELOW] - offset
        moved.append(space.points(extremes.points(np.where(is_above, ABOVE, BELOW)).points))
    return stack(moved)


def _extremes(
    space: Space, f: Element, bound: BoundOracle, points: bool
) -> Iterator[tuple[slice, Violations]]:
    """Yield the maxima of f and -f over S(x), in portions of rows."""
    n_rows = bound.X.shape[0]
    # Costs and targets are not used.
    functions = Regression().functions(3)
    step = space.certified_at_once(bound, len(functions))
    for first in range(0, n_rows, step):
        rows = slice(first, min(first + step, n_rows))
        size = rows.stop - first
        competitors = Competitors(
            functions, np.zeros(size, dtype=np.int64), np.zeros((size, 3)), slack=False
        )
        yield rows, space.worst(f, bound, rows, competitors, points, rounding=True)
