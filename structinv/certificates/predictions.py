"""Between which numbers the predictions of a regression stay under all allowed changes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..oracles.base import BoundOracle
from ..oracles.query import Violations
from ..spaces import Space
from ..spaces.base import Element
from ..structures import Regression
from ..structures.competitors import Competitors
from ..structures.regression import ABOVE, BELOW
from ..utils.matrices import Matrix, stack
from ..utils.summaries import Summarized, Summary, share
from .certificate import SAME


@dataclass(frozen=True, repr=False)
class PredictionBounds(Summarized):
    """What is proven about predictions of numbers under all allowed changes.

    It speaks of changes in the feature space that the model was given.

    Attributes
    ----------
    lowest, highest : (n,) arrays
        No member of S(x) has a prediction below or above, rounding subtracted and added; infinite where
        the oracle knows no bound.
    exact : (n,) array of bool
        Whether changes that the oracle found reach both bounds, up to rounding.
    """

    lowest: np.ndarray
    highest: np.ndarray
    exact: np.ndarray

    @classmethod
    def join(cls, parts: Sequence[PredictionBounds]) -> PredictionBounds:
        """Bounds of the predictions of several sets of rows, one behind the other."""
        names = "lowest", "highest", "exact"
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))

    @property
    def width(self) -> np.ndarray:
        """How much a prediction can change at most, (n,)."""
        return self.highest - self.lowest

    def _summary(self) -> Summary:
        n = len(self.exact)
        if n == 0:
            return Summary("Bounds of 0 predictions", {})
        values = {
            "median width": f"{np.median(self.width):.4g}",
            "largest width": f"{np.max(self.width):.4g}",
            "tight bounds": share(self.exact),
        }
        unbounded = np.count_nonzero(np.isinf(self.width))
        notes = [f"{unbounded} bounds are infinite: the oracle has no upper bound for this model."]
        return Summary(f"Bounds of {n} predictions", values, notes if unbounded else [])


def prediction_bounds(
    space: Space, f: Element, bound: BoundOracle, constant: float = 0.0, eps: float = 0.0
) -> PredictionBounds:
    """Bounds of the predictions ``f(z) + constant`` for all z in S(x), of every row.

    The space is one of a single function. `eps` is the relative error of the sum.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.certificates.certificate import linear_function
    >>> from structinv.oracles import Box
    >>> from structinv.oracles.checked_oracle import bind
    >>> bound = bind(Box(0.5), np.array([[1.0, 2.0]]))
    >>> found = prediction_bounds(*linear_function(np.array([[1.0, -1.0]]), np.zeros(1)), bound)
    >>> found.lowest.round(6), found.highest.round(6), found.exact
    (array([-2.]), array([0.]), array([ True]))
    """
    ends, exact = [], []
    for _, found in _asked(space, f, bound, points=False):
        above = found.upper[:, [BELOW, ABOVE]] * [-1.0, 1.0]
        reached = found.gains[:, [BELOW, ABOVE]] * [-1.0, 1.0]
        allowed: Any = found.rounding
        rounding = allowed[:, [BELOW, ABOVE]]
        if eps > 0:
            rounding = rounding + eps * (abs(constant) + np.abs(reached))
        ends.append(above + constant + rounding * [-1.0, 1.0])
        exact.append(np.all(np.abs(above - reached) <= SAME * rounding, axis=1))
    lowest, highest = np.concatenate(ends).T
    return PredictionBounds(lowest, highest, np.concatenate(exact))


def furthest_members(
    space: Space, f: Element, bound: BoundOracle, targets: np.ndarray, constant: float = 0.0
) -> Matrix:
    """The member of each S(x) that the oracle finds with the prediction furthest from the target."""
    moved = []
    for rows, found in _asked(space, f, bound, points=True):
        off = constant - targets[rows]
        above = found.gains[:, ABOVE] + off >= found.gains[:, BELOW] - off
        moved.append(space.points(found.points(np.where(above, ABOVE, BELOW)).points))
    return stack(moved)


def _asked(
    space: Space, f: Element, bound: BoundOracle, points: bool
) -> Iterator[tuple[slice, Violations]]:
    """How far f, and -f, reach in portions of all rows."""
    n_rows = bound.X.shape[0]
    # Costs have no part in it, and no target either.
    functions = Regression().functions(3)
    step = space.certified_at_once(bound, len(functions))
    for first in range(0, n_rows, step):
        rows = slice(first, min(first + step, n_rows))
        size = rows.stop - first
        competitors = Competitors(
            functions, np.zeros(size, dtype=np.int64), np.zeros((size, 3)), slack=False
        )
        yield rows, space.worst(f, bound, rows, competitors, points, rounding=True)
