"""Dual state with one averaged plane per row, for in-hull steps."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..oracles.base import Hull
from ..spaces import ExplicitSpace
from ..spaces.base import Element
from ..spaces.tensor_rows import ComputedRows, TensorRows
from ..terms.planes import PlaneSet
from ..utils.matrices import Matrix
from ..utils.packed_rows import PackedRows
from .base import DualState
from .case import Case
from .focused_sweeps import FocusedSweeps, rows_at_once


class HullState(FocusedSweeps, DualState):
    """One averaged plane per row, updated in the convex hull of S(x) by the oracle.

    Shapes: `signs` (n_rows,), `factor` (n_rows,).
    """

    checks_planes = True
    packs_rows = True
    quick_value = True

    def __init__(self, case: Case, rng: np.random.Generator) -> None:
        assert case.hull is not None
        self.hull: Hull = case.hull
        self.term = term = case.term
        self.space = case.space
        self.signs = case.signs
        self.factor = others = case.others
        self.rng = rng
        self.rows = np.flatnonzero(term.weights * others > 0)
        self.gaps = np.zeros(len(others))
        self.rows_at_once = rows_at_once(term.bound.X)

    @property
    def offset(self) -> float:
        return self.hull.offset

    def _step(self, f: Element, order: np.ndarray, again: bool) -> None:
        self.hull.sweep(f, order, self.gaps)

    def value(self, f: Element) -> tuple[float, float]:
        losses = self.hull.losses(f)
        if losses is None:
            return self.term.total(self.space, f)
        value = float(self.term.weights @ (self.factor * losses))
        return value, value

    def combination(self) -> Element:
        return self.hull.combination()

    def planes(self) -> PlaneSet:
        # Only rows with a plane other than the null plane; normals may be larger than the rows.
        taus = self.hull.taus.copy()
        active = np.flatnonzero(taus > 0)
        make = AveragedPoints(self.hull, self.space, self.signs * taus)
        normals = ComputedRows(make, self.space.stride, active, self.factor[active, None])
        return PlaneSet(normals, self.factor[active] * taus[active], active, np.ones(len(active)))

    def pack(self) -> PackedRows:
        own = self.hull.pack()
        return replace(own, arrays=(self.gaps.astype(np.float32), *own.arrays))

    def unpack(self, packed: PackedRows) -> None:
        self.gaps[:] = packed.arrays[0]
        self.hull.unpack(replace(packed, arrays=packed.arrays[1:]), self.space.n_features)

    def restore(self, planes: PlaneSet) -> None:
        share = planes.alphas / self.factor[planes.blocks]
        rows: Any = planes.normals
        if isinstance(rows, TensorRows):
            rows = rows.summed()
        # Planes of a row add up to one.
        n_rows, n_planes = len(self.gaps), len(planes)
        sums = sp.csr_matrix((share, (planes.blocks, np.arange(n_planes))), shape=(n_rows, n_planes))
        self.hull.restore(sums @ rows[:, : self.space.n_features], sums @ planes.offsets)


@dataclass(frozen=True)
class AveragedPoints:
    """Normals of a hull's averaged planes, computed on access; see `ComputedRows`."""

    hull: Hull
    space: ExplicitSpace
    constants: np.ndarray

    def __call__(self, rows: np.ndarray) -> Matrix:
        """Return the normals of some rows, including the constant feature."""
        return self.space.with_constants(self.hull.normals_of(rows), self.constants[rows])
