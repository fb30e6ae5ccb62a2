"""Base class of dual states, and sweeps over rows with a large gap."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..spaces.base import Element, Space
from ..terms.base import OutOfTime, never
from ..terms.planes import PlaneSet, WorkingSet
from ..utils.matrices import Matrix

# Dual variables have converged if no plane was added and at most this fraction of the gap is left.
CONVERGED_SHARE = 0.01
# Neighboring rows are visited in runs, because they share cache lines.
ROWS_IN_A_RUN = 4
# Passes over the rows with most of the gap, before a pass over all.
FOCUSED_PASSES = 10
# Number of entries of rows between two checks of the time, and minimum number of rows.
ENTRIES_AT_ONCE, LEAST_ROWS = 10_000_000, 64


class DualState(ABC):
    """Base class of the dual variables of one term.

    Their element is a part of the solver's `f`. Subclasses are created by ``State(case, rng)``, for
    cases that satisfy their requirements in the table.
    """

    term: Any
    space: Any
    converged: bool = False
    adds_planes: bool = True
    checks_planes: bool = False
    packs: bool = True
    packs_rows: bool = False
    quick_value: bool = False
    primal: Element | None = None

    @property
    @abstractmethod
    def offset(self) -> float:
        """Linear part of the dual."""

    @abstractmethod
    def sweep(self, f: Element, out_of_time: OutOfTime = never) -> tuple[float, int]:
        """Update the dual variables of every block once, and `f` in place."""

    def value(self, f: Element) -> tuple[float, float]:
        """Return the value of the term at `f`."""
        return self.term.total(self.space, f)

    @abstractmethod
    def combination(self) -> Element:
        """Recompute the part of `f` of this term; later sweeps continue from it."""

    @abstractmethod
    def planes(self) -> PlaneSet:
        """Return planes with their dual variables."""

    @abstractmethod
    def restore(self, planes: PlaneSet) -> None:
        """Start from planes of the same blocks."""

    def pack(self) -> Any:
        """Return the data from which a new state of the same case can continue.

        The data can be pickled, and does not share memory with the rows.
        """
        return self.planes()

    def unpack(self, packed: Any) -> None:
        """Continue from packed data."""
        self.restore(packed)


def in_runs(rows: np.ndarray, sizes: np.ndarray, room: int) -> list[np.ndarray]:
    """Split rows into nonempty runs with a total size of about `room` each."""
    ends = np.flatnonzero(np.diff(np.cumsum(sizes) // room)) + 1
    return np.split(rows, ends) if len(rows) else []


def total(space: Space, parts: Iterable[DualState | WorkingSet]) -> Element:
    """Recompute the element f of the dual variables of all parts."""
    f = space.zeros()
    for part in parts:
        f += part.combination()
    return f


def join_planes(space: Space, parts: list[PlaneSet]) -> PlaneSet:
    """Concatenate plane sets."""
    if not parts:
        empty = space.element(space.zeros())[:0]
        return PlaneSet(empty, np.zeros(0), np.zeros(0, dtype=np.int64), np.zeros(0))
    return PlaneSet(
        space.stack([part.normals for part in parts]),
        np.concatenate([part.offsets for part in parts]),
        np.concatenate([part.blocks for part in parts]),
        np.concatenate([part.alphas for part in parts]),
        slopes={block: slopes for part in parts for block, slopes in part.slopes.items()},
    )


class FocusedSweeps(ABC):
    """Mixin class for dual states whose rows take one step per visit.

    Shapes: `rows` (m,), `gaps` (n_rows,).
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
        """Do a step on each row of `order`, and update `f` and the gaps.

        `again` is True in additional passes over rows with a large gap.
        """

    def sweep(self, f: Element, out_of_time: OutOfTime = never) -> tuple[float, int]:
        """Visit rows with a large gap several times, then all rows."""
        # The time is checked before the first portion.
        self.unwatched = self.rows_at_once
        visits = self._revisit(f, out_of_time)
        gap, visited = self.visit_all(f, out_of_time)
        return gap, visits + visited

    def visit_all(self, f: Element, out_of_time: OutOfTime) -> tuple[float, int]:
        """Visit each row once, in random order; return values as in `DualState.sweep`."""
        visited = self.visit(f, self._order(), out_of_time, again=False)
        return float(self.gaps.sum()) if visited == len(self.rows) else np.inf, visited

    def visit(self, f: Element, order: np.ndarray, out_of_time: OutOfTime, again: bool) -> int:
        """Visit rows in portions until time is up; return the number of visited rows."""
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
        """Return a random order of short runs of rows, because neighbors in memory are faster."""
        starts = ROWS_IN_A_RUN * self.rng.permutation(-(-len(self.rows) // ROWS_IN_A_RUN))
        places = (starts[:, None] + np.arange(ROWS_IN_A_RUN)).ravel()
        return self.rows[places[places < len(self.rows)]]

    def _revisit(self, f: Element, out_of_time: OutOfTime) -> int:
        """Visit the rows with most of the gap until it is small; return the number of visits."""
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
    """Return the number of rows to visit between two checks of the time."""
    most = ENTRIES_AT_ONCE if entries is None else entries
    own = X.nnz if sp.issparse(X) else X.size
    return max(LEAST_ROWS, most * X.shape[0] // max(1, own))
