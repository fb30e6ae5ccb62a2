"""Base class of dual states for sequences, for functions that are linear in x."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np

from ..spaces import ExplicitSpace
from ..spaces.base import Element
from ..spaces.tensor_rows import TensorRows
from ..terms.planes import PlaneSet
from ..utils.matrices import ALL_ROWS, Matrix, csr, dense, products, short_indices
from .base import DualState, FocusedSweeps, OutOfTime, never
from .case import Case
from .labeled_rows import LabeledRows, constant_rows

PRODUCTS_AT_ONCE = 100_000_000


class SequenceState(FocusedSweeps, DualState):
    """Base class of dual states with sequences as blocks and labelings as planes."""

    checks_planes = True
    quick_value = True
    far_off, enough = 1.0, 0.3
    n_edits: int = 0

    def __init__(self, case: Case, rng: np.random.Generator) -> None:
        self.term = term = case.term
        self.space: ExplicitSpace = case.space
        space, labels = self.space, term.labels
        self.rng = rng
        self.weights = term.weights
        X = short_indices(constant_rows(csr(term.bound.X), space))
        self._X, self._rows = X, (X.indptr, X.indices, X.data)
        assert labels.layout is not None
        self.layout = labels.layout
        n_labels, barred = labels.n_labels, np.zeros((labels.n_labels + 2, labels.n_labels))
        if labels.structure.follows_ is not None:
            barred[:-1][~labels.structure.follows_] = -np.inf
        codes, costs = labels.codes.astype(np.int32), labels.costs(ALL_ROWS)
        self._truth = self.layout.starts, codes, costs, barred, term.weights
        self._sizes = self.layout.lengths
        self.rows = np.flatnonzero(term.weights > 0)
        self.gaps = np.zeros(labels.n_blocks)
        each = (X.nnz * n_labels + X.shape[0] * n_labels**2) // max(1, labels.n_blocks)
        self.rows_at_once = max(1, PRODUCTS_AT_ONCE // max(1, each))

    @abstractmethod
    def _visit(self, f: Element, order: np.ndarray, moves: bool, gaps: np.ndarray) -> np.ndarray:
        """Visit sequences and return their losses, without weights; do steps if `moves` is True."""

    @abstractmethod
    def _provide_slots(self, order: np.ndarray) -> None:
        """Provide slots for all labelings that a visit of each sequence may add."""

    @abstractmethod
    def _start_from(
        self, blocks: np.ndarray, labels: np.ndarray, edits: np.ndarray, alphas: np.ndarray
    ) -> None:
        """Start from concatenated labelings of `blocks`, which are in increasing order."""

    def _parameters(self, f: Element) -> tuple[np.ndarray, np.ndarray]:
        """Return weights and transitions of an element, as views."""
        n_labels = self._truth[2].shape[1]
        return self.space.table(f), self.space.pairwise(f).reshape(n_labels + 2, n_labels)

    def sweep(self, f: Element, out_of_time: OutOfTime = never) -> tuple[float, int]:
        self._n_visited = 0
        gap, _ = super().sweep(f, out_of_time)
        return gap, self._n_visited

    def _step(self, f: Element, order: np.ndarray, again: bool) -> None:
        self._provide_slots(order)
        self._n_visited += int(self._sizes[order].sum())
        self._visit(f, order, True, self.gaps)

    def value(self, f: Element) -> tuple[float, float]:
        found = self._visit(f, self.rows, False, np.empty(len(self.weights)))
        value = float(self.weights @ found)
        return value, value

    def restore(self, planes: PlaneSet) -> None:
        """Restore labelings; other planes are replaced by the nearest labeling.

        True, forbidden and invalid labelings are replaced by the null plane.
        """
        normals: Any = planes.normals
        if isinstance(normals, LabeledRows) and np.array_equal(normals.blocks, planes.blocks):
            labels = normals.labels
            if not np.array_equal(normals.layout.lengths, self._sizes[planes.blocks]):
                return
            edits = self._valid_edits(planes.blocks, normals.edits)
        else:
            labels = self._nearest_labels(planes)
            edits = np.zeros((len(labels), self.n_edits), dtype=np.int32)
        n_labels = self.term.labels.n_labels
        if len(labels) and labels.min() >= 0 and labels.max() < n_labels:
            chosen = self._valid(planes.blocks, labels, planes.alphas)
            places = self.layout.take(planes.blocks).rows(chosen)
            self._start_from(planes.blocks[chosen], labels[places], edits[places], planes.alphas[chosen])

    def _valid(self, blocks: np.ndarray, labels: np.ndarray, alphas: np.ndarray) -> np.ndarray:
        """Return the numbers of active, allowed and wrong labelings, sorted by example."""
        bound, layout = self.term.labels, self.layout.take(blocks)
        wrong = layout.sums((labels != bound.codes[self.layout.rows(blocks)]).astype(np.int64)) > 0
        sound = wrong & (alphas > 0) & bound.structure.allows(labels, layout, bound.n_labels)
        chosen: np.ndarray = np.flatnonzero(sound)[np.argsort(blocks[sound], kind="stable")]
        return chosen

    def _valid_edits(self, blocks: np.ndarray, edits: np.ndarray) -> np.ndarray:
        """Return the valid edits of labelings, at most the allowed number.

        They are allowed by this oracle, also if they belong to another one.
        """
        found = np.zeros((len(edits), self.n_edits), dtype=np.int32)
        common = min(found.shape[1], edits.shape[1])
        if common:
            sizes = np.diff(self._rows[0])[self.layout.rows(blocks)]
            found[:, -common:] = edits[:, -common:]
            found[(found < 0) | (found > 2 * sizes[:, None])] = 0
        return found

    def _nearest_labels(self, planes: PlaneSet) -> np.ndarray:
        """Return the labelings whose normals are nearest to those of planes."""
        found, bound = [np.zeros(0, dtype=np.int64)], self.term.labels
        X = constant_rows(self.term.bound.X, self.space)
        for place, block in enumerate(planes.blocks):
            rows, _ = bound.rows(np.array([block]))
            coefficients, own = (
                _row_coefficients(self.space, X[rows], planes.normals[[place]]),
                bound.codes[rows],
            )
            coefficients[np.arange(len(own)), own] -= 1.0
            found.append(np.argmin(coefficients, axis=1))
        return np.concatenate(found)


def _row_coefficients(space: ExplicitSpace, rows: Matrix, normal: Any) -> np.ndarray:
    """Return the coefficients of each row and label in a normal, (n, n_labels).

    The points of a sum are matched with rows. Otherwise the coefficients are the least-squares solution
    of smallest norm.
    """
    if isinstance(normal, TensorRows):
        points, coefficients = normal.points, np.zeros((rows.shape[0], space.n_outputs))
        places = _places(rows, points) if points.shape[1] == rows.shape[1] else None
        if places is not None:
            np.add.at(coefficients, places, dense(normal.coefficients))
            return coefficients
    f = space.combine(normal, np.ones(1))
    gram = np.asarray(dense(rows @ rows.T), dtype=np.float64)
    solved: np.ndarray = np.linalg.lstsq(gram, products(rows, space.table(f)), rcond=None)[0]
    return solved


def _places(rows: Matrix, points: Matrix) -> list[int] | None:
    """Return the row of each point, in increasing order; None if a point is not among the rows."""
    own, of_points = (np.diag(dense(each @ each.T)) for each in (rows, points))
    inner = dense(points @ rows.T)
    distances = of_points[:, None] + own - 2.0 * inner
    same = distances <= 8 * np.finfo(rows.dtype).eps * (of_points[:, None] + own)
    places: list[int] = []
    for each in same:
        later = np.flatnonzero(each)
        later = later[later > (places[-1] if places else -1)]
        if len(later) == 0:
            return None
        places.append(int(later[0]))
    return places
