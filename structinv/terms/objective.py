"""The objective: terms, and half of a squared norm, seen through planes and values only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..spaces import Space
from ..spaces.base import Element
from ..utils.matrices import ALL_ROWS
from .base import OutOfTime, Term, join, never
from .planes import Planes


@dataclass(frozen=True)
class Value:
    """A value of the objective.

    Parameters
    ----------
    upper : float
        A bound from above; infinity where an oracle knows none.
    attained : float
        The value over the changes that the oracles found. Equal to `upper` if they are exact.
    """

    upper: float
    attained: float


class Objective:
    """``F(f) = 1/2 |f|^2 + sum of terms``, seen through planes and values only.

    Parameters
    ----------
    space : Space
    terms : sequence of Term
        Their blocks are numbered one after the other.

    Attributes
    ----------
    weights, floors : (n_blocks,) arrays
    rows_of_a_pass : int
        How many rows one pass over all terms asks the oracles about.
    rows_asked : int
        How many rows the oracles have been asked so far.
    out_of_time : callable
        Whether a step under way had better end; the loop sets it for a run, see `Solver.step`.
    """

    def __init__(self, space: Space, terms: Sequence[Term]) -> None:
        if len(terms) == 0:
            raise ValueError("terms must not be empty")
        for term in terms:
            term.validate(space)
        self.space = space
        self.terms = list(terms)
        self.weights = _joined([term.weights for term in terms])
        self.floors = _joined([term.floors for term in terms])
        self.first = np.cumsum([0, *(term.n_blocks for term in terms)])
        self.rows_of_a_pass = sum(term.rows_of(ALL_ROWS) for term in terms)
        self.rows_asked = 0
        self.out_of_time: OutOfTime = never

    @property
    def n_blocks(self) -> int:
        """How many blocks all terms have together."""
        return len(self.weights)

    @property
    def relaxed(self) -> bool:
        """Whether a term's loss is a relaxed one, and the value a bound of that of the loss itself."""
        return any(term.relaxed for term in self.terms)

    @property
    def planes_are_sums(self) -> bool:
        """Whether dual states keep one plane for the sum of all blocks of a term."""
        return any(term.planes_are_sums for term in self.terms)

    @property
    def unit(self) -> float:
        """The rounding unit of the least precise term."""
        return max((float(np.finfo(term.dtype).eps) for term in self.terms), default=0.0)

    def planes(self, f: Element, blocks: np.ndarray | None = None) -> Planes:
        """A plane of each block named (all by default, in order) that touches it at `f`."""
        if blocks is None:
            self.rows_asked += self.rows_of_a_pass
            return join(self.space, [term.planes(self.space, f) for term in self.terms])
        owner = np.searchsorted(self.first, blocks, side="right") - 1
        parts, places = [], []
        for number, term in enumerate(self.terms):
            place = np.flatnonzero(owner == number)
            if len(place):
                local = blocks[place] - self.first[number]
                self.rows_asked += term.rows_of(local)
                parts.append(term.planes(self.space, f, local))
                places.append(place)
        joined = join(self.space, parts)
        if len(parts) == 1:
            return joined
        order = np.argsort(np.concatenate(places))
        return Planes(
            joined.normals[order], joined.offsets[order], joined.upper[order], joined.heights[order]
        )

    def plane_of_sum(self, f: Element) -> Planes:
        """The plane at `f` of the weighted sum of all blocks; only a portion is in memory at a time."""
        normal, numbers = self.space.zeros(), np.zeros((3, 1))
        self.rows_asked += self.rows_of_a_pass
        for term in self.terms:
            plane = term.plane_of_sum(self.space, f)
            normal += self.space.combine(plane.normals, np.ones(1))
            numbers += [plane.offsets, plane.upper, plane.heights]
        return Planes(self.space.element(normal), *numbers)

    @cached_property
    def at_zero(self) -> Value:
        """The objective at the zero function."""
        return self.value(self.space.zeros())

    def value(self, f: Element) -> Value:
        """The objective at `f`."""
        upper = attained = 0.5 * self.space.dot(f, f)
        self.rows_asked += self.rows_of_a_pass
        for term in self.terms:
            above, reached = term.total(self.space, f)
            upper += above
            attained += reached
        return Value(float(upper), float(attained))


def _joined(parts: list[np.ndarray]) -> np.ndarray:
    """All parts as one array; the array itself if there is one."""
    return parts[0] if len(parts) == 1 else np.concatenate(parts)
