"""What block-coordinate solvers improve: the dual variables of one term."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

import numpy as np

from ..spaces import Space
from ..spaces.base import Element
from ..terms.base import OutOfTime, never
from ..terms.planes import PlaneSet, WorkingSet


class DualState(ABC):
    """The dual variables of one term; the element they stand for is part of the solver's `f`.

    A class in the table is made as ``State(case, rng)``, of cases that meet its requirements.

    Attributes
    ----------
    converged : bool
        Whether the last sweep took up nothing new and left next to no gap on what there was.
    checks_planes : bool
        Whether `restore` drops, or mends, planes that do not bound the term.
    packs : bool
        Whether `pack` tells all, so that the state can leave memory.
    packs_rows : bool
        Whether `pack` gives a `PackedRows`, the first numbers of which are the rows' gaps.
    quick_value : bool
        Whether `value` asks less than the term's own does.
    primal : element or None
        A function at which the objective is lower than at that of the dual variables, if one is known.
    """

    term: Any
    space: Any
    converged: bool = False
    checks_planes: bool = False
    packs: bool = True
    packs_rows: bool = False
    quick_value: bool = False
    primal: Element | None = None

    @property
    @abstractmethod
    def offset(self) -> float:
        """The linear part of the dual."""

    @abstractmethod
    def sweep(self, f: Element, out_of_time: OutOfTime = never) -> tuple[float, int]:
        """Improve every block once, updating `f` in place.

        Parameters
        ----------
        f : element
        out_of_time : callable
            Asked between portions of blocks. Once it says True the rest is left as it is, and the state
            and `f` belong together as ever.

        Returns
        -------
        gap : float
            Sum of the blocks' gaps, each measured on arrival: an estimate of the duality gap. Infinity
            if blocks were left out.
        rows : int
            How many rows an oracle was asked.
        """

    def value(self, f: Element) -> tuple[float, float]:
        """The term at `f`: a bound from above, and what was attained; the term's own by default."""
        return self.term.total(self.space, f)

    @abstractmethod
    def combination(self) -> Element:
        """The term's part of `f`, recomputed from the state; whoever asks sweeps on from it."""

    @abstractmethod
    def planes(self) -> PlaneSet:
        """The state as planes with masses, blocks numbered within the term."""

    @abstractmethod
    def restore(self, planes: PlaneSet) -> None:
        """Start from planes of the same blocks."""

    def pack(self) -> Any:
        """All that a new state of the same case needs to go on from here; the planes, by default.

        It can be pickled, and shares no memory with the rows.
        """
        return self.planes()

    def unpack(self, packed: Any) -> None:
        """Go on from what `pack` gave."""
        self.restore(packed)


def in_runs(rows: np.ndarray, sizes: np.ndarray, room: int) -> list[np.ndarray]:
    """Rows in runs of about `room` in all by their sizes; none of them is empty."""
    ends = np.flatnonzero(np.diff(np.cumsum(sizes) // room)) + 1
    return np.split(rows, ends) if len(rows) else []


def total(space: Space, parts: Iterable[DualState | WorkingSet]) -> Element:
    """The element that the dual variables of all parts stand for together, recomputed from them.

    Parameters
    ----------
    space : Space
    parts : iterable of DualState or WorkingSet
    """
    f = space.zeros()
    for part in parts:
        f += part.combination()
    return f


def join_planes(space: Space, parts: list[PlaneSet]) -> PlaneSet:
    """Several plane sets as one.

    Parameters
    ----------
    space : Space
    parts : list of PlaneSet
    """
    if not parts:
        empty = space.element(space.zeros())[:0]
        return PlaneSet(empty, np.zeros(0), np.zeros(0, dtype=np.int64), np.zeros(0))
    return PlaneSet(
        space.stack([part.normals for part in parts]),
        np.concatenate([part.offsets for part in parts]),
        np.concatenate([part.blocks for part in parts]),
        np.concatenate([part.masses for part in parts]),
        slopes={block: slopes for part in parts for block, slopes in part.slopes.items()},
    )
