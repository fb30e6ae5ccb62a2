"""Normals of labelings, computed from rows and labels on access."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from ..spaces import ExplicitSpace
from ..spaces.tensor_rows import TensorRows
from ..structures import Layout
from ..structures.bound import BoundStructure
from ..terms import WorstCase
from ..utils.matrices import Matrix, csr


class LabeledRows(TensorRows):
    """Normals of labelings of examples, stored as labelings.

    The points of a normal are the rows with wrong labels, with their edits. All arguments must stay
    unchanged while the normals are in use.

    Shapes: `X` (n, d), `blocks` (m,), `edits` (n_labels, n_edits), `factors` (low, high).
    """

    def __init__(
        self,
        X: Matrix,
        bound: BoundStructure,
        blocks: np.ndarray,
        labels: np.ndarray,
        edits: np.ndarray | None = None,
        factors: tuple[float, float] = (1.0, 1.0),
    ) -> None:
        self.X = X
        self.bound = bound
        self.blocks = blocks
        self.labels = labels
        self.edits = np.zeros((len(labels), 0), dtype=np.int32) if edits is None else edits
        self.factors = factors
        assert bound.layout is not None
        self.layout: Layout = bound.layout.take(blocks)
        wrong = self.layout.sums((labels != self._truth()).astype(np.int64)) if len(blocks) else blocks
        self.start = np.r_[0, np.cumsum(wrong)]

    def _rows_of_all(self) -> np.ndarray:
        """Return the row of each label."""
        assert self.bound.layout is not None
        return self.bound.layout.rows(self.blocks)

    def _truth(self) -> np.ndarray:
        return self.bound.codes[self._rows_of_all()]

    @property
    def _wrong(self) -> np.ndarray:
        """Positions of wrong labels."""
        return np.flatnonzero(self.labels != self._truth())

    @property
    def points(self) -> Matrix:
        """Edited rows with wrong labels."""
        wrong = self._wrong
        rows, edits = self.X[self._rows_of_all()[wrong]], self.edits[wrong]
        if not np.any(edits):
            return rows
        found = csr(rows).copy()
        owners, which = np.nonzero(edits)
        edited = edits[owners, which] - 1
        found.data[found.indptr[owners] + edited // 2] *= np.array(self.factors)[edited % 2]
        return found if sp.issparse(rows) else found.toarray()

    @property
    def coefficients(self) -> sp.csr_matrix:
        """Coefficients: 1 for the true label, -1 for the label of the labeling."""
        wrong = self._wrong
        columns = np.column_stack([self._truth()[wrong], self.labels[wrong]]).ravel()
        signs = np.tile([1.0, -1.0], len(wrong))
        starts = 2 * np.arange(len(wrong) + 1)
        return sp.csr_matrix((signs, columns, starts), shape=(len(wrong), self.bound.n_labels))

    @property
    def pairwise(self) -> sp.csr_matrix:
        """Pairwise features of the true labelings minus those of the labelings."""
        if len(self) == 0:
            return sp.csr_matrix((0, self.bound.n_pairwise))
        found: Any = self.bound.moved(self.labels.astype(np.int64), self._truth(), self.layout)
        return sp.csr_matrix(-found)

    @property
    def shape(self) -> tuple[int, int]:
        return len(self), self.X.shape[1] * self.bound.n_labels + self.bound.n_pairwise

    def __getitem__(self, rows: Any) -> LabeledRows:
        chosen = np.arange(len(self))[rows]
        places = self.layout.rows(chosen)
        labels, edits = self.labels[places], self.edits[places]
        return LabeledRows(self.X, self.bound, self.blocks[chosen], labels, edits, self.factors)

    def __reduce__(self) -> tuple:
        # Pickles contain the points, not the rows.
        return TensorRows, (self.points, self.coefficients, self.start, self.pairwise)


def labeled_rows(
    term: WorstCase,
    space: ExplicitSpace,
    blocks: np.ndarray,
    labels: np.ndarray,
    edits: np.ndarray,
    factors: tuple[float, float],
) -> LabeledRows:
    """Return the normals of labelings of a term's examples."""
    return LabeledRows(constant_rows(term.bound.X, space), term.labels, blocks, labels, edits, factors)


def constant_rows(X: Matrix, space: ExplicitSpace) -> Matrix:
    """Return rows with the constant feature of the space, if it has one."""
    return space.with_constants(X, np.ones(X.shape[0], dtype=X.dtype)) if space.intercept else X
