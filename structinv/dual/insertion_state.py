"""Dual state for oracles whose edits insert features, such as token edits."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..spaces.base import Element
from ..spaces.tensor_rows import TensorRows
from ..terms.planes import PlaneSet
from ..utils.matrices import scale_rows, stack
from .addition_state import AddedWords, AdditionState
from .base import OutOfTime, never
from .case import Case
from .insertion_steps import sweep_points

# Number of rows per call of the oracle.
_ROWS_AT_ONCE = 1024
# Maximum number of sweeps for which a point with a zero dual variable is kept.
_MOST_IDLE = 2
# A point is added if its value exceeds that of the row's other points by more than this, relatively.
_RISE = 1e-12


@dataclass
class Points:
    """Perturbed rows without the inserted features, in the order of the rows.

    Parameters
    ----------
    rows : (m,) array of int
        Row of each point.
    points : (m, d) CSR matrix
        Points without inserted features.
    alphas : (m,) array
        Dual variable of each point.
    edits : (m,) array
        Number of edits of each point.
    edited : (m,) array
        Fraction of the point with an edit, at most 1: the maximum amount of each inserted feature if a
        feature is inserted only once.
    idle : (m,) array of int
        Number of sweeps since the point was last active.
    """

    rows: np.ndarray
    points: sp.csr_matrix
    alphas: np.ndarray
    edits: np.ndarray
    edited: np.ndarray
    idle: np.ndarray

    @classmethod
    def new(
        cls, rows: np.ndarray, points: sp.csr_matrix, edits: np.ndarray, edited: np.ndarray
    ) -> Points:
        """Create points with zero dual variables."""
        return cls(rows, points, np.zeros(len(rows)), edits, edited, np.zeros(len(rows), dtype=np.int64))

    def __len__(self) -> int:
        return len(self.rows)

    def chosen(self, some: np.ndarray) -> Points:
        """Return some of the points."""
        return Points(*(getattr(self, field.name)[some] for field in fields(self)))

    def joined(self, others: Points) -> Points:
        """Return the points of both, in the order of the rows."""
        both = [[getattr(each, field.name) for each in (self, others)] for field in fields(self)]
        joined = Points(
            *(stack(each) if sp.issparse(each[0]) else np.concatenate(each) for each in both)
        )
        return joined.chosen(np.argsort(joined.rows, kind="stable"))


class InsertionState(AdditionState):
    """A few points per row without insertions, and the features that all rows insert.

    A list of planes would need one plane for each set of inserted features. The points here only include
    the other effects of the edits. A point with k edits has insertions of at most k m features of order
    m, in the groups of `AddedWords`. The sums of insertions are settled as in `AdditionState`.

    In a sweep over rows, each edit inserts the average of the insertions of all edits of its sign. The
    average gains as much as the best features if these are held. It is inexact for full features,
    because rows that have them cannot insert them. With full features and slow sweeps, the state
    continues with a list of planes. It also does so if the distribution loses more than the gap.

    Parameters
    ----------
    case : Case
        Worst-case hinge losses of two classes with one function, and edits that insert features.
    rng : numpy.random.Generator
        Source of the order of rows.
    """

    checks_planes = False
    # Calls of the oracle are expensive.
    focused_passes = 30

    def __init__(self, case: Case, rng: np.random.Generator) -> None:
        super().__init__(case, rng)
        self.rows_at_once = _ROWS_AT_ONCE
        self.side = np.where(self.additions.changed, np.where(self.signs > 0, 0, 1), -1)
        nothing = np.zeros(0)
        none = sp.csr_matrix((0, len(self.pushed)))
        self.points = Points.new(nothing.astype(np.int64), none, nothing, nothing)

    def _changes(self, case: Case) -> Any:
        return case.insertions

    def _words(self) -> list[AddedWords]:
        often = self.additions.often
        return [
            AddedWords(value, order + 1 if often else 1, order + 1)
            for order, value in enumerate(self.additions.values)
        ]

    def sweep(self, f: Element, out_of_time: OutOfTime = never) -> tuple[float, int]:
        found = super().sweep(f, out_of_time)
        if not any(np.any(np.abs(words.place) == 2) for words in self.added):
            # Steps are exact, and a list of planes would be even slower.
            self.slow_sweeps = 0
        self.points.idle = np.where(self.points.alphas > 0, 0, self.points.idle + 1)
        self.points = self.points.chosen(self.points.idle <= _MOST_IDLE)
        return found

    def _step(self, f: Element, order: np.ndarray, again: bool) -> None:
        # In a pass over all rows, the oracle is called first.
        if again:
            super()._step(f, order, again)
            return
        rows, gaps = self._add_points(f, order)
        super()._step(f, order, again)
        self.gaps[rows] = gaps

    def _add_points(self, u: np.ndarray, order: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Add the points at the worst edits of some rows; return these rows and their gaps."""
        found, w = self.additions, self._weights(u)
        changes = self.side[order] >= 0
        changed, still = np.sort(order[changes]), np.sort(order[~changes])
        rows, points = np.concatenate([changed, still]), found.rows[still]
        edits, edit_gains = np.zeros((2, len(rows)))
        if len(changed):
            v, n = w[: len(self.pushed)], len(changed)
            assign = (self.signs[changed] > 0).astype(np.int64)
            own, edits[:n], edit_gains[:n] = found.without_insertions(changed, np.stack([v, -v]), assign)
            points = stack([own, points])
        asked = Points.new(rows, points, edits, np.ones(len(rows)))
        plain = Points.new(rows, found.rows[rows], np.zeros(len(rows)), np.ones(len(rows)))
        gains = self._directions(u, w)[1]
        plane_values, known = (self._plane_values(each, w, gains) for each in (asked, self.points))
        highest, mean = np.zeros((2, len(self.signs)))
        np.maximum.at(highest, self.points.rows, known)
        np.add.at(mean, self.points.rows, self.points.alphas * known)
        rising = plane_values > highest[rows] + _RISE * (1.0 + np.abs(plane_values))
        self.points = self.points.joined(asked.chosen(rising))
        losses = np.maximum(self._plane_values(plain, w, gains) + edit_gains, 0.0)
        return rows, self.weights[rows] * np.maximum(losses - mean[rows], 0.0)

    def _plane_values(self, points: Points, w: np.ndarray, gains: np.ndarray) -> np.ndarray:
        """Return the values of points' planes, with the average insertion for each edit."""
        d, side = len(self.pushed), self.side[points.rows]
        margins = self.signs[points.rows] * (points.points @ w[:d] + w[d:].sum())
        plane_values: np.ndarray = 1.0 - margins + np.where(side >= 0, points.edits * gains[side], 0.0)
        return plane_values

    def _directions(self, u: np.ndarray, w: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the average insertion of an edit, and its gain and the number of edits by side.

        The numbers of edits are weighted by the dual variables. `w` are the weights, including the
        insertions of all rows.
        """
        d, points = len(self.pushed), self.points
        amounts, side = self.weights[points.rows] * points.alphas * points.edits, self.side[points.rows]
        edits = np.array([amounts[side == each].sum() for each in range(2)])
        w = w[:d]
        average = w - u[:d]
        for words in self.added:
            for number, sign in enumerate((1.0, -1.0)):
                mine = np.flatnonzero(words.place * sign > 0)
                if edits[number] > 0:
                    average[mine] /= edits[number]
                else:
                    # The feature that would be inserted first.
                    average[mine] = sign * words.in_total * words.value[mine]
        return average, -_by_side(average * w, average), edits

    def _sweep_rows(self, f: Element, order: np.ndarray) -> None:
        points = self.points
        average, gains, edits = self._directions(f, self._weights(f))
        first = np.searchsorted(points.rows, np.arange(len(self.signs) + 1))
        most, matrix = int(np.diff(first).max(initial=0)), points.points
        sweep_points(
            order, first, matrix.indptr, matrix.indices, matrix.data, points.edits, points.alphas,
            self.weights, self.signs, self.side, self.space.intercept, f, edits, average,
            _by_side(average**2, average), gains, self.gaps, np.empty((most, most)),
            np.empty((4, most)), np.zeros(len(average)),
        )  # fmt: skip
        # Rounding errors may raise the sum of dual variables above 1.
        self.alphas[:] = np.minimum(self._sums(points.alphas), 1.0)
        self._count()

    def _parts(self, f: Element) -> tuple[np.ndarray, ...]:
        return *super()._parts(f), self.points.alphas

    def _sums(self, amounts: np.ndarray) -> np.ndarray:
        """Return the sums over the points of each row."""
        return np.bincount(self.points.rows, amounts, len(self.signs))

    def _left_over(self) -> tuple[np.ndarray, np.ndarray]:
        points = self.points
        budgets = self.weights * self._sums(points.alphas * points.edits)
        if self.additions.often:
            return budgets, budgets
        some = points.alphas * np.where(points.edits > 0, points.edited, 0.0)
        return self.weights * self._sums(some), budgets

    def _of_rows(self) -> Element:
        f, points, d = self.space.zeros(), self.points, len(self.pushed)
        rates = (self.weights * self.signs)[points.rows] * points.alphas
        f[:d] = points.points.T @ rates
        f[d:] = rates.sum()
        return f

    def _rows(self, active: np.ndarray) -> sp.csr_matrix:
        points, n = self.points, len(self.signs)
        shares = points.alphas / np.where(self.alphas > 0, self.alphas, 1.0)[points.rows]
        gather = sp.csr_matrix((shares, (points.rows, np.arange(len(points)))), (n, len(points)))
        return sp.csr_matrix(gather[active] @ points.points)

    def _take_over(self, alphas: np.ndarray, planes: PlaneSet) -> None:
        # One point per row. Its excess over the row was inserted.
        super()._take_over(alphas, planes)
        found, normals = self.additions, planes.normals
        if isinstance(normals, TensorRows):
            normals = normals.summed()
        rows = np.flatnonzero(alphas > 0)
        shape = (len(alphas), len(planes.blocks))
        gather = sp.csr_matrix((planes.alphas, (planes.blocks, np.arange(shape[1]))), shape)
        whole = sp.csr_matrix(gather[rows] @ normals[:, : found.rows.shape[1]])
        whole = scale_rows(whole, self.signs[rows] / alphas[rows])
        own = whole.minimum(found.rows[rows])
        came = whole - own
        units = [came @ words.inverse / words.in_total for words in self.added]
        most = np.where(found.changed, found.most, 0)[rows]
        edits = np.clip(np.max(units, axis=0), 0.0, most)
        edited = np.divide(edits, most, out=np.zeros(len(rows)), where=most > 0)
        self.points = Points.new(rows, sp.csr_matrix(own), edits, edited)
        self.points.alphas = alphas[rows]


def _by_side(amounts: np.ndarray, average: np.ndarray) -> np.ndarray:
    """Return the sums over the features of each side."""
    return np.array([amounts[average > 0].sum(), amounts[average < 0].sum()])
