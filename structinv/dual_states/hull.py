"""One averaged plane a row, moved inside the hull of S(x)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from ..matrices import scale_rows
from ..oracles.base import Hull
from ..planes import PlaneSet
from ..spaces import Element, ExplicitSpace
from ..tensor_rows import TensorRows
from .base import DualState

if TYPE_CHECKING:
    from ..objective import Term

ROWS_IN_A_RUN = 4
FOCUSED_PASSES = 10


class HullState(DualState):
    """One averaged plane a row, moved inside the hull of S(x) by the oracle's own kernel.

    Parameters
    ----------
    hull : Hull
    term : Term
        The term of which the hull is the dual.
    space : ExplicitSpace
    signs : (n_rows,) array of -1 and 1
    factor : (n_rows,) array
        What the hull's planes are multiplied with to become planes of the term (slack rescaling).
    rng : numpy.random.Generator
    """

    verifies = True

    def __init__(
        self,
        hull: Hull,
        term: Term,
        space: ExplicitSpace,
        signs: np.ndarray,
        factor: np.ndarray,
        rng: np.random.Generator,
    ) -> None:
        self.hull = hull
        self.term = term
        self.space = space
        self.signs = signs
        self.factor = factor
        self.rng = rng
        self.rows = np.flatnonzero(term.weights * factor > 0)
        self.gaps = np.zeros(len(factor))

    @property
    def offset(self) -> float:
        """See `DualState.offset`."""
        return self.hull.offset

    def sweep(self, f: Element) -> tuple[float, int]:
        """See `DualState.sweep`: first the rows that were far off, again and again, then all."""
        visits = self._focus(f)
        self.hull.sweep(f, self._order(), self.gaps)
        return float(self.gaps.sum()), visits + len(self.rows)

    def _order(self) -> np.ndarray:
        """A random order of short runs of rows: neighbours in memory are cheaper to visit."""
        starts = ROWS_IN_A_RUN * self.rng.permutation(-(-len(self.rows) // ROWS_IN_A_RUN))
        places = (starts[:, None] + np.arange(ROWS_IN_A_RUN)).ravel()
        return self.rows[places[places < len(self.rows)]]

    def _focus(self, f: Element) -> int:
        """Sweep over the rows that hold most of the gap until it is a tenth; how many visits."""
        visits, total = 0, self.gaps.sum()
        for _ in range(FOCUSED_PASSES):
            active = np.flatnonzero(self.gaps > 0.1 * total / len(self.gaps))
            if len(active) == 0:
                break
            self.hull.sweep(f, active, self.gaps)
            visits += len(active)
            if self.gaps[active].sum() <= 0.1 * total:
                break
        return visits

    def value(self, f: Element) -> tuple[float, float]:
        """See `DualState.value`."""
        losses = self.hull.losses(f)
        if losses is None:
            return self.term.total(self.space, f)
        value = float(self.term.weights @ (self.factor * losses))
        return value, value

    def combination(self) -> Element:
        """See `DualState.combination`."""
        return self.hull.combination()

    def planes(self) -> PlaneSet:
        """See `DualState.planes`; only rows whose plane is not the null plane."""
        normals, levels = self.hull.planes()
        active = np.flatnonzero(levels > 0)
        levels, factor = levels[active], self.factor[active]
        if len(active) < len(self.factor):
            normals = normals[active]
        scaled = normals if np.all(factor == 1) else scale_rows(normals, factor)
        whole = self.space.with_constants(scaled, factor * self.signs[active] * levels)
        return PlaneSet(whole, factor * levels, active, np.ones(len(active)))

    def restore(self, planes: PlaneSet) -> None:
        """See `DualState.restore`."""
        n_rows = len(self.gaps)
        share = planes.masses / self.factor[planes.blocks]
        gather = sp.csr_matrix(
            (share, (planes.blocks, np.arange(len(planes)))), shape=(n_rows, len(planes))
        )
        rows = planes.normals
        normals = gather @ (rows.toarray() if isinstance(rows, TensorRows) else rows)
        self.hull.restore(normals[:, : self.space.n_features], gather @ planes.offsets)
