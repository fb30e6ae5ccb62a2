"""Row source for a matrix in memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from ..utils.matrices import Matrix, take
from .base import RowSource


class MatrixRows(RowSource):
    """Rows of an array or a CSR matrix. Blocks are views.

    Shapes: `X` (n, d).
    """

    def __init__(self, X: Matrix) -> None:
        self.X: Any = X
        self.shape = X.shape
        self.dtype = X.dtype
        self.sparse = sp.issparse(X)

    def block(self, start: int, stop: int) -> Matrix:
        return take(self.X, slice(start, stop))

    def edges(self, most_values: int) -> np.ndarray:
        n_rows, n_features = self.shape
        if self.sparse:
            return cut_by_entries(self.X.indptr, most_values)
        return cut_evenly(n_rows, most_values // max(1, n_features))


def cut_evenly(n_rows: int, most_rows: int) -> np.ndarray:
    """Return edges of equal blocks of at most `most_rows` rows, at least one."""
    n_blocks = max(1, -(-n_rows // max(1, most_rows)))
    return np.linspace(0, n_rows, n_blocks + 1).astype(np.int64)


def cut_by_entries(indptr: np.ndarray, most_entries: int) -> np.ndarray:
    """Return edges of blocks with similar numbers of entries, up to `most_entries`.

    The limit is approximate.
    """
    n_rows, n_entries = len(indptr) - 1, int(indptr[-1])
    n_blocks = max(1, -(-n_entries // max(1, most_entries)))
    inner = np.searchsorted(indptr, np.linspace(0, n_entries, n_blocks + 1)[1:-1])
    return np.unique(np.concatenate([[0], inner, [n_rows]])).astype(np.int64)
