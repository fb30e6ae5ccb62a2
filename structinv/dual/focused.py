"""Sweeps over rows that come back to those which are far off."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
import scipy.sparse as sp

from ..spaces.base import Element
from ..utils.matrices import Matrix
from .base import OutOfTime, never

# Neighboring rows are visited in runs, since they share lines of memory.
ROWS_IN_A_RUN = 4
# Passes over the rows with most of the gap, before a pass over all.
FOCUSED_PASSES = 10
# Between two looks at the clock so many entries of rows are visited, but at least so many rows.
ENTRIES_AT_ONCE, LEAST_ROWS = 10_000_000, 64


class FocusedSweeps(ABC):
    """Of a dual state whose rows take one step a visit.

    Attributes
    ----------
    rng : numpy.random.Generator
    rows : (m,) array of int
        The rows that count.
    gaps : (n_rows,) array
        What each row's gap was on its last visit.
    rows_at_once : int
        Between two looks at the clock.
    unwatched : int
        How many rows have been visited since the last look at the clock.
    far_off : float
        Rows with more than this share of the mean gap are visited again.
    enough : float
        Of the gap, this share is left to the next pass over all rows.
    focused_passes : int
        Passes over the rows with most of the gap, before a pass over all.
    """

    far_off: float = 0.1
    enough: float = 0.1
    focused_passes: int = FOCUSED_PASSES

    rng: np.random.Generator
    rows: np.ndarray
    gaps: np.ndarray
    rows_at_once: int
    unwatched: int = 0

    @abstractmethod
    def _step(self, f: Element, order: np.ndarray, again: bool) -> None:
        """Raise the dual in each row of `order` once, updating `f` and the gaps.

        `again` says that these are rows that were far off, and not a pass over all.
        """

    def sweep(self, f: Element, out_of_time: OutOfTime = never) -> tuple[float, int]:
        """See `DualState.sweep`: first the rows that were far off, again and again, then all."""
        # The first portion waits for a look at the clock.
        self.unwatched = self.rows_at_once
        visits = self._revisit(f, out_of_time)
        gap, visited = self.visit_all(f, out_of_time)
        return gap, visits + visited

    def visit_all(self, f: Element, out_of_time: OutOfTime) -> tuple[float, int]:
        """Visit each row once, in random order; see `DualState.sweep` for what it returns."""
        visited = self.visit(f, self._order(), out_of_time, again=False)
        return float(self.gaps.sum()) if visited == len(self.rows) else np.inf, visited

    def visit(self, f: Element, order: np.ndarray, out_of_time: OutOfTime, again: bool) -> int:
        """Visit rows in portions until all are done or time is up; how many were done."""
        for first in range(0, len(order), self.rows_at_once):
            if self.unwatched >= self.rows_at_once:
                if out_of_time():
                    return first
                self.unwatched = 0
            portion = order[first : first + self.rows_at_once]
            self._step(f, portion, again)
            self.unwatched += len(portion)
        return len(order)

    def _order(self) -> np.ndarray:
        """A random order of short runs of rows: neighbors in memory are cheaper to visit."""
        starts = ROWS_IN_A_RUN * self.rng.permutation(-(-len(self.rows) // ROWS_IN_A_RUN))
        places = (starts[:, None] + np.arange(ROWS_IN_A_RUN)).ravel()
        return self.rows[places[places < len(self.rows)]]

    def _revisit(self, f: Element, out_of_time: OutOfTime) -> int:
        """Sweep over the rows that hold most of the gap until little is left; how many visits."""
        visits, total = 0, self.gaps.sum()
        for _ in range(self.focused_passes):
            active = np.flatnonzero(self.gaps > self.far_off * total / len(self.gaps))
            if len(active) == 0:
                break
            done = self.visit(f, active, out_of_time, again=True)
            visits += done
            if done < len(active) or self.gaps[active].sum() <= self.enough * total:
                break
        return visits


def rows_at_once(X: Matrix, entries: int | None = None) -> int:
    """How many rows, of so many entries together, to visit between two looks at the clock."""
    most = ENTRIES_AT_ONCE if entries is None else entries
    own = X.nnz if sp.issparse(X) else X.size
    return max(LEAST_ROWS, most * X.shape[0] // max(1, own))
