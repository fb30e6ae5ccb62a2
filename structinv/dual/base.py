"""Base class of dual states: the dual variables of one term."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

import numpy as np

from ..spaces.base import Element, Space
from ..terms.base import OutOfTime, never
from ..terms.planes import PlaneSet, WorkingSet

# Dual variables have converged if no plane was added and at most this fraction of the gap is left.
CONVERGED_SHARE = 0.01


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
