"""A decreasing loss of the least margin over all changes: smooth losses at their worst case."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ..losses import ScalarLoss
from ..losses.base import check_loss
from ..oracles.base import InvarianceOracle
from ..oracles.query import Violations
from ..spaces import Space
from ..spaces.base import Element, Normals
from ..structures import Binary
from ..utils.matrices import ALL_ROWS, Matrix, Rows
from .planes import Planes
from .worst_case import WorstCase


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

    def worst(
        self, space: Space, f: Element, blocks: Rows = ALL_ROWS, points: bool = True
    ) -> Violations:
        """Where the margins of some rows are least; `depths` and `unit_normals` read the answer.

        Parameters
        ----------
        space : Space
        f : element
        blocks : slice or (n,) array of int
        points : bool, default=True
            Whether `unit_normals` is asked next. Cheaper answers may do if not.
        """
        return space.worst(f, self.bound, blocks, self.labels.competitors(blocks), points)

    def depths(self, worst: Violations, blocks: Rows) -> np.ndarray:
        """``u_i = -y_i f(z_i)`` at the points where the margins are least."""
        others = 1 - self.labels.codes[blocks]
        return worst.gains[np.arange(len(others)), others]

    def unit_normals(self, space: Space, worst: Violations, blocks: Rows) -> Normals:
        """``y_i z_i`` of the points where the margins are least: normals of planes of slope 1."""
        competitors = self.labels.competitors(blocks)
        others = 1 - competitors.codes
        return space.normals(worst.points(others).points, competitors.normals(others))

    def _values_at_zero(self, space: Space) -> tuple[np.ndarray, np.ndarray]:
        upper = self.losses(np.zeros(self.n_blocks))
        return upper, upper

    def _value(self, space: Space, f: Element, blocks: Rows) -> tuple[np.ndarray, np.ndarray]:
        worst = self.worst(space, f, blocks, points=False)
        return self._upper(worst, blocks), self.losses(self.depths(worst, blocks))

    def _upper(self, worst: Violations, blocks: Rows) -> np.ndarray:
        """Bounds of the losses."""
        others = 1 - self.labels.codes[blocks]
        return self.losses(worst.upper[np.arange(len(others)), others])

    def _plane(self, space: Space, f: Element, blocks: Rows) -> Planes:
        worst = self.worst(space, f, blocks)
        depths = self.depths(worst, blocks)
        slopes = -self.loss.derivative(-depths)
        normals = space.times(self.unit_normals(space, worst, blocks), slopes)
        upper = self._upper(worst, blocks)
        return Planes(normals, -self.conjugate(slopes), upper, self.losses(depths))
