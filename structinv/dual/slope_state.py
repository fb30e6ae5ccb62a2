"""Smooth losses of the margin on rows that nothing changes: one slope a row."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from ..spaces.tensor_rows import TensorRows
from ..terms.planes import PlaneSet
from ..utils.matrices import Matrix
from .base import OutOfTime, never
from .case import Case
from .levels import Levels
from .linear_member_state import made_rows
from .margin_steps import KINDS
from .plain_rows import PlainRows

# A pass that leaves more than this share of the gap is slow, and Newton's method takes over. Each of its
# sweeps goes on until so little is left.
SLOW, NEWTON_SHARE = 0.5, 0.1


class SlopeState(PlainRows):
    """One slope tau a row: its part of f is ``tau y x``, and of the dual ``-L*(tau)``.

    Sweeps are those of dual coordinate descent (Hsieh et al. 2008; Yu, Huang and Lin 2011): each row
    takes its best slope. Where rows are long for their weight, rows undo each other's steps. There
    Newton's method takes over, from the function that the sweeps have found. Its point is kept as
    `primal`: the function of its slopes is a step along the gradient away, which may be far too long.

    Parameters
    ----------
    case : Case
        Smooth losses of the margin, whose oracle changes nothing, linear in the input.
    rng : numpy.random.Generator
    """

    checks_planes = True

    def __init__(self, case: Case, rng: np.random.Generator) -> None:
        super().__init__(case, rng, KINDS[type(case.loss)], case.signs)
        self.total = np.inf

    @property
    def slopes(self) -> np.ndarray:
        """The slope of each row, (n_rows,)."""
        return np.maximum(0.0, self.targets * self.pulls / self._counted)

    @property
    def offset(self) -> float:
        return -float(self.term.weights @ self.term.conjugate(self.slopes))

    def sweep(self, f: np.ndarray, out_of_time: OutOfTime = never) -> tuple[float, int]:
        """See `DualState.sweep`: a pass over all rows, or steps of Newton's method."""
        visits = 0
        if self.primal is None:
            self.unwatched = self.rows_at_once
            gap, visits = self.visit_all(f, out_of_time)
            slow, self.total = gap > SLOW * self.total, gap
            if not slow or not np.isfinite(gap):
                return gap, visits
        start = f if self.primal is None else self.primal
        found = LevelsOfRows(self, f).minimize(start, NEWTON_SHARE, 0.0, out_of_time)
        self.primal = found.f
        # Far from the optimum the slopes that there are may prove more.
        if found.proven > self.offset - 0.5 * self.space.dot(f, f):
            self.pulls = self.targets * self.term.weights * found.slopes
            f[:] = found.of_slopes
        return found.gap, visits + len(self.rows)

    def value(self, f: np.ndarray) -> tuple[float, float]:
        value = float(self.term.weights @ self.term.losses(-self.targets * self.scores(f)))
        return value, value

    def planes(self) -> PlaneSet:
        """See `DualState.planes`; only rows with a slope. Normals make their points when asked."""
        slopes = self.slopes
        rows = np.flatnonzero(slopes)
        which = np.column_stack([rows, np.zeros_like(rows)])
        signed = (self.targets * slopes)[rows, None]
        normals = made_rows(self.term.bound, self.space, which, signed)
        return PlaneSet(normals, -self.term.conjugate(slopes)[rows], rows, np.ones(len(rows)))

    def restore(self, planes: PlaneSet) -> None:
        """See `DualState.restore`; of each normal the part along the row itself."""
        self.primal, self.total = None, np.inf
        normals, rows = planes.normals, planes.blocks
        if len(planes) == 0:
            return
        if isinstance(normals, TensorRows):
            normals = normals.summed()
        d, squares = self.space.n_features, self.squares[rows]
        along = _row_products(self.X[rows], normals[:, :d])
        if self.space.intercept:
            along = along + np.ravel(normals[:, [d]].sum(axis=1))
        shares = np.divide(along, squares, out=np.zeros(len(rows)), where=squares > 0)
        slopes = np.bincount(rows, planes.masses * self.targets[rows] * shares, len(self.pulls))
        lowest, highest = (-side for side in self.term.loss.domain()[::-1])
        self.pulls = self.targets * self.term.weights * np.clip(slopes, lowest, highest)


class LevelsOfRows(Levels):
    """See `Levels`; each row is its own point."""

    def __init__(self, state: SlopeState, f: np.ndarray) -> None:
        self.state = state
        others = f - state.combination()
        super().__init__(state.space, state.term.loss, state.term.weights, others)

    def depths(self, f: np.ndarray) -> np.ndarray:
        return -self.state.targets * self.state.scores(f)

    def sum_of(self, slopes: np.ndarray) -> np.ndarray:
        return self.state.combined(self.state.targets * self.weights * slopes)


def _row_products(left: Matrix, right: Matrix) -> np.ndarray:
    """``<left[i], right[i]>`` of every row i."""
    if sp.issparse(right):
        left, right = right, left
    products = left.multiply(right) if sp.issparse(left) else left * right
    return np.ravel(products.sum(axis=1))
