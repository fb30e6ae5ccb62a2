"""Edits of rows that bring words in, where what else they change is known edit by edit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from ...utils.matrices import Rows

# Of rows named, each along one of given directions: the rows without the words that come in, how many
# edits they have, and what the worst edits win, these words included.
Own = Callable[[Rows, np.ndarray, np.ndarray], tuple[sp.csr_matrix, np.ndarray, np.ndarray]]


@dataclass(frozen=True)
class Insertions:
    """Edits of given rows, each of which lets words come in, whatever else it does.

    A row of k edits may have any words of order m added, k m in all.

    Parameters
    ----------
    rows : (n, d) CSR matrix
        Non-negative and canonical.
    changed : (n,) array of bool
        Those that may be changed.
    values : tuple of (d,) arrays
        For each order what may be added of each of its words, 0 where nothing may.
    often : bool
        Whether one word may come in with each edit; else a row adds each word once, if it lacks it.
    most : (n,) array of int
        How many edits each row can have.
    own : callable
        The worst edits, without the words that come in.
    """

    rows: sp.csr_matrix
    changed: np.ndarray
    values: tuple[np.ndarray, ...]
    often: bool
    most: np.ndarray
    own: Own

    @property
    def present(self) -> bool:
        """Whether words may be added to rows that have them."""
        return self.often

    @property
    def max_changes(self) -> int:
        """The most edits of a row."""
        return int(self.most.max(initial=0))

    @cached_property
    def value(self) -> np.ndarray:
        """What may be added of each word of any order, (d,)."""
        total: np.ndarray = np.sum(self.values, axis=0)
        return total
