"""Averaged planes of pairs of a row and a label, moved inside the hull of S(x)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from ..answers import as_written
from ..matrices import scale_rows
from ..planes import PlaneSet
from ..spaces import Element, Space
from ..structures import Multiclass
from ..tensor_rows import TensorRows
from .base import DualState, Hurried, Refusal, never
from .capabilities import linear_in_x, worst_case_of_rows

if TYPE_CHECKING:
    from ..terms import Term

ROWS_IN_A_RUN = 4
FOCUSED_PASSES = 10
# Of so few labels all compete in every visit: leaving some out would save next to nothing.
FEW_LABELS = 4
# Between two looks at the clock so many products are made, but of at least so many rows.
PRODUCTS_AT_ONCE, LEAST_ROWS = 100_000_000, 64


class LabelState(DualState):
    """One averaged plane for each pair of a row and a label that has a level.

    Parameters
    ----------
    term : WorstCase
        Of several labels with a function each, and costs as margins.
    space : ExplicitSpace
    rng : numpy.random.Generator
    epsilon : float, default=0.0
        Above 0 refused: there is no list of planes.
    """

    verifies = True

    def __init__(self, term: Term, space: Space, rng: np.random.Generator, epsilon: float = 0.0) -> None:
        if epsilon > 0:
            raise Refusal("averaged planes are no list, and epsilon speaks of a list")
        term, space = worst_case_of_rows(term), linear_in_x(space)
        labels = term.labels
        if not as_written(labels.structure, Multiclass):
            raise Refusal("the structure is not several classes with a function each")
        if labels.slack:
            raise Refusal("costs are factors of the loss, too")
        hull = term.bound.label_hull(labels.codes, term.weights, labels.cost, space.intercept)
        if hull is None:
            raise Refusal(f"{type(term.oracle).__name__} has no in-hull steps of several labels")
        self.hull = hull
        self.space = space
        self.codes = labels.codes
        self.weights = term.weights
        self.cost = labels.cost
        self.rng = rng
        self.rows = np.flatnonzero(term.weights > 0)
        self.gaps = np.zeros(len(term.weights))
        X = term.bound.X
        entries = X.nnz if sp.issparse(X) else X.size
        of_a_row = max(1, entries * space.n_outputs // max(1, X.shape[0]))
        self.rows_at_once = max(LEAST_ROWS, PRODUCTS_AT_ONCE // of_a_row)

    @property
    def offset(self) -> float:
        """See `DualState.offset`."""
        return self.hull.offset

    def sweep(self, f: Element, hurried: Hurried = never) -> tuple[float, int]:
        """See `DualState.sweep`."""
        # Rows that were far off come first, again and again, then all.
        table = self.space.table(f)
        visits = self._focus(table, hurried)
        visited = self._visit(table, self._order(), hurried, True)
        gap = float(self.gaps.sum()) if visited == len(self.rows) else np.inf
        return gap, visits + visited

    def _visit(self, table: np.ndarray, order: np.ndarray, hurried: Hurried, all_labels: bool) -> int:
        """Sweep over rows in portions until all are done or time is up; how many were done."""
        for first in range(0, len(order), self.rows_at_once):
            if hurried():
                return first
            part = order[first : first + self.rows_at_once]
            self.hull.sweep(table, part, self.gaps, all_labels or self.space.n_outputs <= FEW_LABELS)
        return len(order)

    def _order(self) -> np.ndarray:
        """A random order of short runs of rows: neighbours in memory are cheaper to visit."""
        starts = ROWS_IN_A_RUN * self.rng.permutation(-(-len(self.rows) // ROWS_IN_A_RUN))
        places = (starts[:, None] + np.arange(ROWS_IN_A_RUN)).ravel()
        return self.rows[places[places < len(self.rows)]]

    def _focus(self, table: np.ndarray, hurried: Hurried) -> int:
        """Sweep over the rows that hold most of the gap until most of that is gone; how many visits."""
        visits, total = 0, self.gaps.sum()
        for _ in range(FOCUSED_PASSES):
            active = np.flatnonzero(self.gaps > 0.4 * total / len(self.gaps))
            if len(active) == 0:
                break
            visits += self._visit(table, active, hurried, False)
            if hurried() or self.gaps[active].sum() <= 0.3 * total:
                break
        return visits

    def value(self, f: Element) -> tuple[float, float]:
        """See `DualState.value`."""
        value = float(self.weights @ self.hull.losses(self.space.table(f)))
        return value, value

    def combination(self) -> Element:
        """See `DualState.combination`."""
        return self.hull.combination().ravel()

    def planes(self) -> PlaneSet:
        """See `DualState.planes`: one of each row that has a level, a sum over its labels."""
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
        masses, offsets = np.zeros(len(blocks)), np.zeros(len(blocks))
        if len(rows):
            masses, offsets = np.add.reduceat(sizes, first), np.add.reduceat(costs, first)
        share = np.repeat(1.0 / masses, np.diff(start))
        places = np.arange(len(rows)), self.codes[rows]
        gained = sp.csr_matrix((sizes * share, places), shape=levels.shape)
        coefficients = sp.csr_matrix(gained - scale_rows(levels, share))
        normals = TensorRows(
            self.space.with_constants(points, np.ones(len(rows), dtype=points.dtype)),
            coefficients,
            start,
            np.zeros((len(blocks), 0)),
        )
        return PlaneSet(normals, offsets / masses, blocks, np.minimum(masses, 1.0))

    def restore(self, planes: PlaneSet) -> None:
        """See `DualState.restore`; what is no sum of points and labels is left to the null plane."""
        rows: Any = planes.normals
        if not isinstance(rows, TensorRows):
            return
        owners = np.repeat(np.arange(len(rows)), np.diff(rows.start))
        levels = -scale_rows(sp.csr_matrix(rows.coefficients), planes.masses[owners])
        points = rows.points[:, : self.space.n_features]
        self.hull.restore(points, planes.blocks[owners], levels)
