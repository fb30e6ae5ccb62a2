"""Dual states with averaged planes of rows, for in-hull steps."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..oracles.hulls import Hull, LabelHull
from ..spaces.base import Element
from ..spaces.tensor_rows import ComputedRows, TensorRows
from ..terms.planes import PlaneSet
from ..utils.matrices import Matrix, scale_rows
from ..utils.packed_rows import PackedRows
from .base import DualState, FocusedSweeps, rows_at_once
from .case import Case

# For at most this number of labels, every visit includes all of them.
FEW_LABELS = 4
# Number of products between two checks of the time.
PRODUCTS_AT_ONCE = 100_000_000


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
        constants = self.signs * taus

        def averaged(rows: np.ndarray) -> Matrix:
            return self.space.with_constants(self.hull.normals_of(rows), constants[rows])

        normals = ComputedRows(averaged, self.space.stride, active, self.factor[active, None])
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


class LabelState(FocusedSweeps, DualState):
    """One averaged plane for each row and each label with a positive dual variable."""

    checks_planes = True
    packs_rows = True
    quick_value = True
    far_off, enough = 0.4, 0.3

    def __init__(self, case: Case, rng: np.random.Generator) -> None:
        assert case.label_hull is not None
        self.hull: LabelHull = case.label_hull
        self.term = term = case.term
        self.space = case.space
        labels = term.labels
        self.codes = labels.codes
        self.weights = term.weights
        self.cost = labels.cost
        self.rng = rng
        self.rows = np.flatnonzero(term.weights > 0)
        self.gaps = np.zeros(len(term.weights))
        self.rows_at_once = rows_at_once(term.bound.X, PRODUCTS_AT_ONCE // self.space.n_outputs)

    @property
    def offset(self) -> float:
        return self.hull.offset

    def _step(self, f: Element, order: np.ndarray, again: bool) -> None:
        # Additional passes include only a few labels of each row.
        every_label = not again or self.space.n_outputs <= FEW_LABELS
        self.hull.sweep(self.space.table(f), order, self.gaps, every_label)

    def value(self, f: Element) -> tuple[float, float]:
        value = float(self.weights @ self.hull.losses(self.space.table(f)))
        return value, value

    def combination(self) -> Element:
        return self.hull.combination().ravel()

    def planes(self) -> PlaneSet:
        # One plane per active row, the sum over its labels.
        points, rows, levels = self.hull.points()
        blocks, first = np.unique(rows, return_index=True)
        start = np.concatenate([first, [len(rows)]])
        sizes = np.asarray(levels.sum(axis=1)).ravel()
        truths = np.repeat(self.codes[rows], np.diff(levels.indptr))
        each = sp.csr_matrix(
            (levels.data * self.cost[truths, levels.indices], levels.indices, levels.indptr),
            shape=levels.shape,
        )
        costs = np.asarray(each.sum(axis=1)).ravel()
        alphas, offsets = np.zeros(len(blocks)), np.zeros(len(blocks))
        if len(rows):
            alphas, offsets = np.add.reduceat(sizes, first), np.add.reduceat(costs, first)
        share = np.repeat(1.0 / alphas, np.diff(start))
        places = np.arange(len(rows)), self.codes[rows]
        gained = sp.csr_matrix((sizes * share, places), shape=levels.shape)
        coefficients = sp.csr_matrix(gained - scale_rows(levels, share))
        normals = TensorRows(
            self.space.with_constants(points, np.ones(len(rows), dtype=points.dtype)),
            coefficients,
            start,
            np.zeros((len(blocks), 0)),
        )
        return PlaneSet(normals, offsets / alphas, blocks, np.minimum(alphas, 1.0))

    def pack(self) -> PackedRows:
        own = self.hull.pack()
        return replace(own, arrays=(self.gaps.astype(np.float32), *own.arrays))

    def unpack(self, packed: PackedRows) -> None:
        self.gaps[:] = packed.arrays[0]
        self.hull.unpack(replace(packed, arrays=packed.arrays[1:]))

    def restore(self, planes: PlaneSet) -> None:
        # Planes that are not sums over points and labels are replaced by the null plane.
        rows: Any = planes.normals
        if not isinstance(rows, TensorRows):
            return
        owners = np.repeat(np.arange(len(rows)), np.diff(rows.start))
        levels = -scale_rows(sp.csr_matrix(rows.coefficients), planes.alphas[owners])
        points = rows.points[:, : self.space.n_features]
        self.hull.restore(points, planes.blocks[owners], levels)
