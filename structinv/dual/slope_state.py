"""Dual state with one slope per row, for smooth losses of unperturbed rows."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from ..spaces.tensor_rows import TensorRows
from ..terms.planes import PlaneSet
from ..utils.matrices import Matrix
from .base import OutOfTime, never
from .case import Case
from .linear_member_state import made_rows
from .margin_steps import KINDS
from .newton_steps import SmoothRows
from .plain_rows import PlainRows

# After a pass that leaves more than this fraction of the gap, Newton's method is used. Each of its
# sweeps ends at this fraction of the gap.
SLOW, NEWTON_SHARE = 0.5, 0.1


class SlopeState(PlainRows):
    """One slope tau per row, with ``tau y x`` in f and ``-L*(tau)`` in the dual.

    Sweeps are those of dual coordinate descent (Hsieh et al. 2008; Yu, Huang and Lin 2011): each row
    takes its optimal slope. Rows with a large norm relative to their weight undo each other's steps.
    Newton's method then continues from the function of the sweeps. Its iterate is stored as `primal`,
    because the function of its slopes may have a much larger objective.
    """

    checks_planes = True

    def __init__(self, case: Case, rng: np.random.Generator) -> None:
        super().__init__(case, rng, KINDS[type(case.loss)], case.signs)
        self.total = np.inf

    @property
    def slopes(self) -> np.ndarray:
        """Slope of each row, (n_rows,)."""
        return np.maximum(0.0, self.targets * self.coefficients / self._counted)

    @property
    def offset(self) -> float:
        return -float(self.term.weights @ self.term.conjugate(self.slopes))

    def sweep(self, f: np.ndarray, out_of_time: OutOfTime = never) -> tuple[float, int]:
        # A pass over all rows, or steps of Newton's method.
        visits = 0
        if self.primal is None:
            self.unwatched = self.rows_at_once
            gap, visits = self.visit_all(f, out_of_time)
            slow, self.total = gap > SLOW * self.total, gap
            if not slow or not np.isfinite(gap):
                return gap, visits
        start = f if self.primal is None else self.primal
        found = SmoothPlainRows(self, f).minimize(start, NEWTON_SHARE, 0.0, out_of_time)
        self.primal = found.f
        # Far from the optimum, the current slopes may have a larger dual value.
        if found.proven > self.offset - 0.5 * self.space.dot(f, f):
            self.coefficients = self.targets * self.term.weights * found.slopes
            f[:] = found.of_slopes
        return found.gap, visits + len(self.rows)

    def value(self, f: np.ndarray) -> tuple[float, float]:
        value = float(self.term.weights @ self.term.losses(-self.targets * self.scores(f)))
        return value, value

    def planes(self) -> PlaneSet:
        # Only rows with a positive slope. Normals are computed on access.
        slopes = self.slopes
        rows = np.flatnonzero(slopes)
        which = np.column_stack([rows, np.zeros_like(rows)])
        signed = (self.targets * slopes)[rows, None]
        normals = made_rows(self.term.bound, self.space, which, signed)
        return PlaneSet(normals, -self.term.conjugate(slopes)[rows], rows, np.ones(len(rows)))

    def restore(self, planes: PlaneSet) -> None:
        # The slope is the coefficient of the projection of each normal on its row.
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
        slopes = np.bincount(rows, planes.alphas * self.targets[rows] * shares, len(self.coefficients))
        lowest, highest = (-side for side in self.term.loss.domain()[::-1])
        self.coefficients = self.targets * self.term.weights * np.clip(slopes, lowest, highest)


class SmoothPlainRows(SmoothRows):
    """Minimization over all rows, with each row itself as its point."""

    def __init__(self, state: SlopeState, f: np.ndarray) -> None:
        self.state = state
        others = f - state.combination()
        super().__init__(state.space, state.term.loss, state.term.weights, others)

    def gains(self, f: np.ndarray) -> np.ndarray:
        return -self.state.targets * self.state.scores(f)

    def sum_of(self, slopes: np.ndarray) -> np.ndarray:
        return self.state.combined(self.state.targets * self.weights * slopes)


def _row_products(left: Matrix, right: Matrix) -> np.ndarray:
    """Return ``<left[i], right[i]>`` of every row i."""
    if sp.issparse(right):
        left, right = right, left
    products = left.multiply(right) if sp.issparse(left) else left * right
    return np.ravel(products.sum(axis=1))
