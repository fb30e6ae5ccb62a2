"""A decreasing loss of the least margin over all changes: smooth losses at their worst case."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ..losses import ScalarLoss
from ..losses.base import check_loss
from ..matrices import ALL_ROWS, Matrix, Rows, pick
from ..oracles.base import InvarianceOracle
from ..planes import Planes
from ..spaces import Element, Furthest, Normals, Space
from ..structures import Binary
from ..structures.rivals import Rivals
from .worst_case import WorstCase


@dataclass(frozen=True)
class LeastMargins:
    """Where in S(x) the margins of some rows are least, before any point is made.

    Parameters
    ----------
    rows : slice or (n,) array of int
    rivals : Rivals
    found : Furthest
    labels : (n,) array of int
        The other label of each row.
    """

    rows: Rows
    rivals: Rivals
    found: Furthest
    labels: np.ndarray

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def depths(self) -> np.ndarray:
        """What the margins are there, with the sign turned: ``u_i = -y_i f(z_i)``."""
        return self.found.gains[np.arange(len(self)), self.labels]

    @property
    def upper(self) -> np.ndarray:
        """Bounds of the largest ``-y_i f(z)`` over S(x_i)."""
        return self.found.upper[np.arange(len(self)), self.labels]

    def take(self, places: np.ndarray) -> LeastMargins:
        """Of some of the rows."""
        rows = pick(self.rows, places, len(self))
        return LeastMargins(rows, self.rivals.take(places), self.found.take(places), self.labels[places])


class WorstMargin(WorstCase):
    """A convex decreasing loss r of the least margin of every row, two classes.

    ``l_i(f) = max over z in S(x_i) of r(y_i f(z)) = L(u_i)`` with ``L(u) = r(-u)`` and
    ``u_i = max over z in S(x_i) of -y_i f(z)``, since L increases. With r the hinge this is
    `WorstCase` of `Binary` with its plain cost.

    A point z and a slope p in the domain of ``L*(p) = r*(-p)`` give the plane
    ``l_i(g) >= -L*(p) - <p y_i z, g>``, which is tight at f where p = L'(u_i) and z reaches u_i.

    Parameters
    ----------
    X, y, oracle
        See `WorstCase`; grades of changes count nothing.
    loss : ScalarLoss
        The margin loss r, with slopes of at most 0.
    weights, classes
        See `WorstCase`.

    Raises
    ------
    ValueError
        Unless y is of two classes and the loss decreases.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.losses import SquaredHinge
    >>> from structinv.oracles import Box
    >>> from structinv.spaces import ExplicitSpace
    >>> term = WorstMargin(np.array([[2.0], [-1.0]]), np.array([1, 0]), Box(0.5), SquaredHinge())
    >>> upper, attained = term.values(ExplicitSpace(1), np.array([1.0]))
    >>> upper.tolist()
    [0.0, 0.25]
    """

    def __init__(
        self,
        X: Matrix,
        y: np.ndarray,
        oracle: InvarianceOracle,
        loss: ScalarLoss,
        weights: ArrayLike = 1.0,
        classes: np.ndarray | None = None,
    ) -> None:
        check_loss("loss", loss)
        if not loss.has_slopes or loss.domain()[1] > 0:
            raise ValueError(f"loss must be a margin loss, with slopes of at most 0, got {loss!r}")
        super().__init__(X, y, oracle, Binary(), weights, classes, cost=np.zeros((2, 2)))
        self.loss = loss
        self.floors = np.full(self.n_blocks, loss.floor)

    def conjugate(self, slopes: np.ndarray) -> np.ndarray:
        """``L*``, of slopes of at least 0."""
        return self.loss.conjugate(-slopes)

    def losses(self, depths: np.ndarray) -> np.ndarray:
        """``L(u)``."""
        return self.loss.value(-depths)

    def least_margins(
        self, space: Space, f: Element, blocks: Rows = ALL_ROWS, points: bool = True
    ) -> LeastMargins:
        """Ask the oracle where the margins of some rows are least.

        Parameters
        ----------
        space : Space
        f : element
        blocks : slice or (n,) array of int
        points : bool, default=True
            Whether `unit_normals` is asked next; cheaper answers may do if not.
        """
        rivals = self.labels.rivals(blocks)
        found = space.furthest(f, self.bound, blocks, rivals, points)
        return LeastMargins(blocks, rivals, found, 1 - rivals.codes)

    def unit_normals(self, space: Space, f: Element, least: LeastMargins) -> Normals:
        """``y_i z_i`` of the points where the margins are least: normals of planes of slope 1."""
        reached = space.reach(f, self.bound, least.rows, least.rivals, least.found, least.labels)
        return space.normals(reached.points, least.rivals.normals(least.labels))

    def _values_at_zero(self, space: Space) -> tuple[np.ndarray, np.ndarray]:
        upper = self.losses(np.zeros(self.n_blocks))
        return upper, upper

    def _value(self, space: Space, f: Element, blocks: Rows) -> tuple[np.ndarray, np.ndarray]:
        least = self.least_margins(space, f, blocks, points=False)
        return self.losses(least.upper), self.losses(least.depths)

    def _plane(self, space: Space, f: Element, blocks: Rows) -> Planes:
        least = self.least_margins(space, f, blocks)
        slopes = -self.loss.derivative(-least.depths)
        normals = space.times(self.unit_normals(space, f, least), slopes)
        offsets, attained = -self.conjugate(slopes), self.losses(least.depths)
        return Planes(normals, offsets, self.losses(least.upper), attained)
