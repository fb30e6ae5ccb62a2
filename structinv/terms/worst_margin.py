"""Decreasing (smooth) losses of the worst-case margin, for two classes."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ..losses import ScalarLoss
from ..losses.base import validate_loss
from ..oracles.base import InvarianceOracle
from ..oracles.query import Violations
from ..spaces.base import Element, Normals, Space
from ..structures import Binary
from ..utils.matrices import ALL_ROWS, Matrix, Rows
from .planes import Planes
from .worst_case import WorstCase


class WorstMargin(WorstCase):
    """Convex decreasing loss r of every row's worst-case margin, for two classes.

    ``l_i(f) = max over z in S(x_i) of r(y_i f(z)) = L(u_i)`` with ``L(u) = r(-u)`` and
    ``u_i = max over z in S(x_i) of -y_i f(z)``, because L is increasing. For the hinge loss r this is
    `WorstCase` of `Binary` with its default cost.

    A point z and a slope p in the domain of ``L*(p) = r*(-p)`` give the plane
    ``l_i(g) >= -L*(p) - <p y_i z, g>``. It is tight at f if p = L'(u_i) and z attains u_i.
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
        validate_loss("loss", loss)
        if not loss.has_slopes or loss.domain()[1] > 0:
            raise ValueError(f"loss must be a margin loss with slopes of at most 0, got {loss!r}")
        super().__init__(X, y, oracle, Binary(), weights, classes, cost=np.zeros((2, 2)))
        self.loss = loss
        self.lower_bounds = np.full(self.n_blocks, loss.lower_bound)

    def conjugate(self, slopes: np.ndarray) -> np.ndarray:
        """Return ``L*`` of slopes of at least 0."""
        return self.loss.conjugate(-slopes)

    def losses(self, gains: np.ndarray) -> np.ndarray:
        """Return ``L(u)``."""
        return self.loss.value(-gains)

    def worst(
        self, space: Space, f: Element, blocks: Rows = ALL_ROWS, points: bool = True
    ) -> Violations:
        """Return the points of the smallest margins, for `gains` and `unit_normals`.

        Shapes: `blocks` (n,).
        """
        return space.worst(f, self.bound, blocks, self.labels.competitors(blocks), points)

    def gains(self, worst: Violations, blocks: Rows) -> np.ndarray:
        """Return ``u_i = -y_i f(z_i)`` at the points of the smallest margins."""
        others = 1 - self.labels.codes[blocks]
        return worst.gains[np.arange(len(others)), others]

    def unit_normals(self, space: Space, worst: Violations, blocks: Rows) -> Normals:
        """Return ``y_i z_i`` at the points of the smallest margins: normals of slope 1."""
        competitors = self.labels.competitors(blocks)
        others = 1 - competitors.codes
        return space.normals(worst.points(others).points, competitors.normals(others))

    def _values_at_zero(self, space: Space) -> tuple[np.ndarray, np.ndarray]:
        upper = self.losses(np.zeros(self.n_blocks))
        return upper, upper

    def _value(self, space: Space, f: Element, blocks: Rows) -> tuple[np.ndarray, np.ndarray]:
        worst = self.worst(space, f, blocks, points=False)
        return self._upper(worst, blocks), self.losses(self.gains(worst, blocks))

    def _upper(self, worst: Violations, blocks: Rows) -> np.ndarray:
        """Return upper bounds of the losses."""
        others = 1 - self.labels.codes[blocks]
        return self.losses(worst.upper[np.arange(len(others)), others])

    def _plane(self, space: Space, f: Element, blocks: Rows) -> Planes:
        worst = self.worst(space, f, blocks)
        gains = self.gains(worst, blocks)
        slopes = -self.loss.derivative(-gains)
        normals = space.scaled(self.unit_normals(space, worst, blocks), slopes)
        upper = self._upper(worst, blocks)
        return Planes(normals, -self.conjugate(slopes), upper, self.losses(gains))
