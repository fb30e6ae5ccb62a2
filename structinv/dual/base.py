"""Base class of dual states: the dual variables of one term."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

import numpy as np

from ..spaces import Space
from ..spaces.base import Element
from ..terms.base import OutOfTime, never
from ..terms.planes import PlaneSet, WorkingSet

# Dual variables have converged if no plane was added and at most this fraction of the gap is left.
CONVERGED_SHARE = 0.01


class DualState(ABC):
    """Base class of the dual variables of one term.

    Their element is a part of the solver's `f`. Subclasses are created by ``State(case, rng)``, for
    cases that satisfy their requirements in the table.

    Attributes
    ----------
    converged : bool
        Whether the last sweep found no new plane and left almost no gap on the stored ones.
    adds_planes : bool
        Whether sweeps add planes. A state without planes does not set `converged`.
    checks_planes : bool
        Whether `restore` drops or corrects planes that do not bound the term from below.
    packs : bool
        Whether `pack` returns the complete state, so that the state can be deleted.
    packs_rows : bool
        Whether `pack` returns a `PackedRows` that starts with the gaps of the rows.
    quick_value : bool
        Whether `value` is faster than the method of the term.
    primal : element or None
        Function with a smaller objective than the function of the dual variables, if available.

    See Also
    --------
    Case : Term and space of a dual state.
    structinv.solvers.FrankWolfe : Solver with dual states.

    Examples
    --------
    >>> from structinv.dual import TABLE, DualState
    >>> issubclass(TABLE["members"].state, DualState)
    True
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
        """Update the dual variables of every block once, and `f` in place.

        Parameters
        ----------
        f : element
            Function of the solver.
        out_of_time : callable
            Called between portions of blocks. Once it returns True, the remaining blocks are skipped.
            The state and `f` still match.

        Returns
        -------
        gap : float
            Sum of the blocks' gaps, each before its update: an estimate of the duality gap. It is
            infinity if blocks were skipped.
        rows : int
            Number of rows for which oracles were called.
        """

    def value(self, f: Element) -> tuple[float, float]:
        """Return the value of the term at `f`.

        Parameters
        ----------
        f : element
            Function at which the term is evaluated.

        Returns
        -------
        upper : float
            Upper bound of the value.
        attained : float
            Value for the perturbed samples that the oracles found.
        """
        return self.term.total(self.space, f)

    @abstractmethod
    def combination(self) -> Element:
        """Recompute the part of `f` of this term; later sweeps continue from it.

        Returns
        -------
        element
            Sum of the weighted normals.
        """

    @abstractmethod
    def planes(self) -> PlaneSet:
        """Return planes with their dual variables.

        Returns
        -------
        PlaneSet
            Planes, with block numbers within the term.
        """

    @abstractmethod
    def restore(self, planes: PlaneSet) -> None:
        """Start from planes of the same blocks.

        Parameters
        ----------
        planes : PlaneSet
            Planes with dual variables, and with block numbers within the term.
        """

    def pack(self) -> Any:
        """Return the data from which a new state of the same case can continue.

        The data can be pickled, and does not share memory with the rows.

        Returns
        -------
        object
            The planes, by default.
        """
        return self.planes()

    def unpack(self, packed: Any) -> None:
        """Continue from packed data.

        Parameters
        ----------
        packed : object
            Data that `pack` returned.
        """
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
