"""Edits that insert words into rows and may change other features as well."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from ...utils.matrices import Rows

# Function of rows, directions, and the direction of each row. It returns the worst rows without inserted
# words, the number of edits of each row, and the gain of its edits and inserted words.
Own = Callable[[Rows, np.ndarray, np.ndarray], tuple[sp.csr_matrix, np.ndarray, np.ndarray]]


@dataclass(frozen=True)
class Insertions:
    """Edits of rows that insert words; each edit may also change other features.

    k edits of a row insert k m words of order m, such as n-grams of m tokens, in any combination.

    Parameters
    ----------
    rows : CSR matrix of shape (n, d)
        Nonnegative rows in canonical format.
    changed : array of bool of shape (n,)
        Mask of the rows that may be edited.
    values : tuple of arrays of shape (d,)
        For each order, the largest increase of each word by an insertion; 0 if not allowed.
    often : bool
        Whether a word may be inserted by several edits. Otherwise only absent words are inserted, once.
    most : array of int of shape (n,)
        Maximum number of edits of each row.
    without_insertions : callable
        Function that returns the worst edits without the inserted words.
    """

    rows: sp.csr_matrix
    changed: np.ndarray
    values: tuple[np.ndarray, ...]
    often: bool
    most: np.ndarray
    without_insertions: Own

    @property
    def present(self) -> bool:
        """True if words may be inserted into rows that contain them."""
        return self.often

    @property
    def max_changes(self) -> int:
        """Largest number of edits of any row."""
        return int(self.most.max(initial=0))

    @cached_property
    def value(self) -> np.ndarray:
        """Largest increase of each word, (d,)."""
        total: np.ndarray = np.sum(self.values, axis=0)
        return total
