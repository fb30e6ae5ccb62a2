"""Base class of dual states, and sweeps over rows with a large gap."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import scipy.sparse as sp

from ..spaces.base import Element, Space
from ..terms.objective import OutOfTime, never
from ..terms.planes import WorkingSet
from ..utils.matrices import Matrix
from ..utils.row_arrays import Arrays, fitting

if TYPE_CHECKING:
    from .case import Case

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

    Their element is a part of the solver's `f`. Subclasses are created for cases that they do not
    refuse.
    """

    # Name in the table.
    name: ClassVar[str]
    # True if the dual variables of a row, and its visits, do not depend on other rows. Blocks of rows
    # require this.
    packs: bool = True
    # True if blocks of rows may call `visit_all` of `FocusedSweeps`.
    packs_rows: bool = False
    # True if `value` is faster than the oracle.
    quick_value: bool = False
    # True if a run with `plane_tol` ends when `converged` is True; otherwise a small gap ends it.
    adds_planes: bool = True

    term: Any
    space: Any
    converged: bool = False
    primal: Element | None = None

    @abstractmethod
    def __init__(self, case: Case, rng: np.random.Generator) -> None: ...

    @staticmethod
    def refuses(case: Case) -> str:
        """Return the reason why the state does not support a case; empty if it does."""
        return ""

    @abstractmethod
    def arrays(self) -> Arrays:
        """Return copies of the dual variables, in the form of `row_arrays`."""

    def start(self, arrays: Arrays, f: Element) -> int:
        """Start from dual variables, clipped to the feasible set of the present term.

        Arrays of another form are left out, so that a new state starts at zero. States with planes
        compute them at `f`. Return the number of rows for which oracles were called.
        """
        return self._start(fitting(arrays, self.arrays()), f)

    @abstractmethod
    def _start(self, arrays: Arrays, f: Element) -> int:
        """Start from arrays of the right form."""

    @property
    @abstractmethod
    def offset(self) -> float:
        """Linear part of the dual."""

    @abstractmethod
    def combination(self) -> Element:
        """Recompute the part of `f` of this term; later sweeps continue from it."""

    @abstractmethod
    def sweep(self, f: Element, out_of_time: OutOfTime = never) -> tuple[float, int]:
        """Update the dual variables of every block once, and `f` in place.

        Return an estimate of the gap, infinite after an interruption, and the number of visited rows.
        """

    def value(self, f: Element) -> tuple[float, float]:
        """Return the value of the term at `f`."""
        return self.term.total(self.space, f)

    def pack(self) -> Any:
        """Return what another state of this run needs in addition to `arrays`, or None."""
        return None

    def unpack(self, packed: Any) -> None:
        """Continue from the result of `pack`, which is not None."""
        raise NotImplementedError(f"{type(self).__name__} packs no more than its dual variables")


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
    # True if the last sweep visited all rows because of their large gaps.
    revisited: bool = False

    @abstractmethod
    def _step(self, f: Element, order: np.ndarray, again: bool) -> None:
        """Do a step on each row of `order`, and update `f` and the gaps.

        `again` is True in additional passes over rows with a large gap.
        """

    def sweep(self, f: Element, out_of_time: OutOfTime = never) -> tuple[float, int]:
        """Visit rows with a large gap several times, then all rows.

        If these are all rows, the visits are a separate sweep, after which a run may end.
        """
        # The time is checked before the first portion.
        self.unwatched = self.rows_at_once
        visits, self.revisited = (0, False) if self.revisited else self._revisit(f, out_of_time)
        if self.revisited:
            return float(self.gaps.sum()), visits
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

    def _revisit(self, f: Element, out_of_time: OutOfTime) -> tuple[int, bool]:
        """Visit the rows with most of the gap until it is small.

        Return the number of visits, and whether they include all rows.
        """
        visits, total, complete = 0, self.gaps.sum(), False
        for _ in range(self.focused_passes):
            active = np.flatnonzero(self.gaps > self.far_off * total / len(self.gaps))
            if len(active) == 0:
                break
            done = self.visit(f, active, out_of_time, again=True)
            visits += done
            complete = done == len(active) and (complete or done == len(self.rows))
            if done < len(active) or self.gaps[active].sum() <= self.enough * total:
                break
        return visits, complete


def rows_at_once(X: Matrix, entries: int | None = None) -> int:
    """Return the number of rows to visit between two checks of the time."""
    most = ENTRIES_AT_ONCE if entries is None else entries
    own = X.nnz if sp.issparse(X) else X.size
    return max(LEAST_ROWS, most * X.shape[0] // max(1, own))
