"""Objective: half the squared norm plus a sum of terms, with planes and values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..spaces.base import Element, Space
from ..utils.matrices import ALL_ROWS
from .base import OutOfTime, Term, join, never
from .planes import Planes, sum_of_planes


@dataclass(frozen=True)
class Value:
    """Value of the objective.

    - `upper`: upper bound; infinity if an oracle has none
    - `attained`: value for the perturbed samples that the oracles found; equal to `upper` for exact
      oracles
    """

    upper: float
    attained: float


class Objective:
    """Objective ``F(f) = 1/2 |f|^2 + sum of terms`` for solvers.

    Parameters
    ----------
    space : Space
        Space of the functions f.
    terms : sequence of Term
        Terms. The blocks of all terms are numbered consecutively.

    Attributes
    ----------
    weights, lower_bounds : ndarray of shape (n_blocks,)
        Weight and lower bound of each block.
    rows_of_a_pass : int
        Number of rows for which oracles are called in one pass over all terms.
    oracle_calls : int
        Number of rows for which oracles have been called so far.
    out_of_time : callable
        Function that returns True if the current step of a solver must end. `solve` sets it for a run;
        see `Solver.step`.

    See Also
    --------
    structinv.solvers.solve : Minimize an objective.
    WorstCase : Worst-case loss of samples.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.oracles import Box
    >>> from structinv.spaces import ExplicitSpace
    >>> from structinv.structures import Binary
    >>> from structinv.terms import Objective, WorstCase
    >>> term = WorstCase(np.array([[2.0], [-1.0]]), np.array([1, 0]), Box(0.5), Binary())
    >>> Objective(ExplicitSpace(1), [term]).value(np.zeros(1))
    Value(upper=2.0, attained=2.0)
    """

    def __init__(self, space: Space, terms: Sequence[Term]) -> None:
        if len(terms) == 0:
            raise ValueError("terms must not be empty")
        for term in terms:
            term.validate(space)
        self.space = space
        self.terms = list(terms)
        self.weights = _joined([term.weights for term in terms])
        self.lower_bounds = _joined([term.lower_bounds for term in terms])
        self.first = np.cumsum([0, *(term.n_blocks for term in terms)])
        self.rows_of_a_pass = sum(term.rows_of(ALL_ROWS) for term in terms)
        self.oracle_calls = 0
        self.out_of_time: OutOfTime = never

    @property
    def n_blocks(self) -> int:
        """Number of blocks of all terms."""
        return len(self.weights)

    @property
    def relaxed(self) -> bool:
        """True if a term has a relaxed loss, an upper bound of the loss itself."""
        return any(term.relaxed for term in self.terms)

    @property
    def planes_are_sums(self) -> bool:
        """True if dual states store one plane for the sum of all blocks of a term."""
        return any(term.planes_are_sums for term in self.terms)

    @property
    def unit(self) -> float:
        """Machine epsilon of the least precise term."""
        return max((float(np.finfo(term.dtype).eps) for term in self.terms), default=0.0)

    def planes(self, f: Element, blocks: np.ndarray | None = None) -> Planes:
        """Return a plane per block that is tight at `f`.

        Parameters
        ----------
        f : element
            Function at which the planes are computed.
        blocks : array of int, optional
            Numbers of the blocks; all by default.

        Returns
        -------
        Planes
            One plane per block, in the order of `blocks`.
        """
        if blocks is None:
            self.oracle_calls += self.rows_of_a_pass
            return join(self.space, [term.planes(self.space, f) for term in self.terms])
        owner = np.searchsorted(self.first, blocks, side="right") - 1
        parts, places = [], []
        for number, term in enumerate(self.terms):
            place = np.flatnonzero(owner == number)
            if len(place):
                local = blocks[place] - self.first[number]
                self.oracle_calls += term.rows_of(local)
                parts.append(term.planes(self.space, f, local))
                places.append(place)
        joined = join(self.space, parts)
        if len(parts) == 1:
            return joined
        order = np.argsort(np.concatenate(places))
        return Planes(
            joined.normals[order], joined.offsets[order], joined.upper[order], joined.plane_values[order]
        )

    def plane_of_sum(self, f: Element) -> Planes:
        """Return the plane at `f` of the weighted sum of all blocks.

        Only one portion of the blocks is in memory at a time.

        Parameters
        ----------
        f : element
            Function at which the plane is computed.

        Returns
        -------
        Planes
            A single plane.
        """
        self.oracle_calls += self.rows_of_a_pass
        return sum_of_planes(self.space, (term.plane_of_sum(self.space, f) for term in self.terms))

    @cached_property
    def at_zero(self) -> Value:
        """Objective at the zero function."""
        return self.value(self.space.zeros())

    def value(self, f: Element) -> Value:
        """Return the objective at `f`.

        Parameters
        ----------
        f : element
            Function at which the objective is evaluated.

        Returns
        -------
        Value
            Upper bound and attained value.
        """
        upper = attained = 0.5 * self.space.dot(f, f)
        self.oracle_calls += self.rows_of_a_pass
        for term in self.terms:
            above, reached = term.total(self.space, f)
            upper += above
            attained += reached
        return Value(float(upper), float(attained))


def _joined(parts: list[np.ndarray]) -> np.ndarray:
    """Concatenate arrays; return a single array without a copy."""
    return parts[0] if len(parts) == 1 else np.concatenate(parts)
