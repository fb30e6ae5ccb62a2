"""Block-coordinate Frank-Wolfe with pairwise and in-hull steps."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..dual_states import DualState, join_planes, total
from ..matrices import ALL_ROWS
from ..objective import Objective
from ..planes import PlaneSet
from ..spaces import Element
from .base import Bounds, Solver, check_epsilon


@dataclass
class FrankWolfeState:
    """The dual states of all terms, and the element they add up to."""

    parts: list[DualState]
    f: Element


class FrankWolfe(Solver):
    """Raises the dual block by block; an iteration is one sweep over all blocks.

    Each term keeps the dual variables that suit it: one averaged plane a row moved inside the hull of
    S(x) where the oracle has such steps, masses on the members of orbits in a kernel's space, a few
    planes a block with pairwise steps otherwise (Lacoste-Julien et al. 2013, alg. 3, with corrective
    steps), one slope a functional for penalties.

    Parameters
    ----------
    epsilon : float, default=0.0
        A plane is taken up only if it lies more than this above the block's planes so far (Teo et al.
        2007, alg. 1): a sparser solution, whose price shows in the gap. Above 0, in-hull steps, which
        have no list of planes, are not taken.

    Examples
    --------
    >>> FrankWolfe()
    FrankWolfe()
    """

    def __init__(self, epsilon: float = 0.0) -> None:
        self.epsilon = epsilon

    def validate(self, objective: Objective) -> None:
        """See `Solver.validate`."""
        check_epsilon(self.epsilon)

    def init(
        self, objective: Objective, rng: np.random.Generator, planes: PlaneSet | None = None
    ) -> FrankWolfeState:
        """See `Solver.init`."""
        parts = [term.dual_state(objective.space, rng, self.epsilon) for term in objective.terms]
        if planes is not None:
            for number, part in enumerate(parts):
                part.restore(_of_term(objective, planes.by_block(), number))
        fresh = planes is None and all(part.offset == 0 for part in parts)
        return FrankWolfeState(
            parts, objective.space.zeros() if fresh else total(objective.space, parts)
        )

    def step(self, objective: Objective, state: FrankWolfeState) -> float:
        """See `Solver.step`."""
        estimate = 0.0
        for part in state.parts:
            gap, rows = part.sweep(state.f)
            objective.rows_asked += rows
            estimate += gap
        return estimate

    def finished(self, objective: Objective, state: FrankWolfeState) -> bool:
        """See `Solver.finished`: what is left of the gap is what epsilon leaves out."""
        return self.epsilon > 0 and all(part.settled for part in state.parts)

    def bounds(self, objective: Objective, state: FrankWolfeState) -> Bounds:
        """See `Solver.bounds`."""
        f = state.f = total(objective.space, state.parts)
        half = 0.5 * objective.space.dot(f, f)
        offset = sum(part.offset for part in state.parts)
        if not np.isfinite(half):
            return Bounds(f, -np.inf)
        values = [part.value(f) for part in state.parts]
        objective.rows_asked += sum(term.rows_of(ALL_ROWS) for term in objective.terms)
        upper, attained = (half + sum(side) for side in zip(*values, strict=True))
        return Bounds(f, offset - half, upper, attained)

    def planes(self, objective: Objective, state: FrankWolfeState) -> PlaneSet:
        """See `Solver.planes`."""
        sets = [part.planes() for part in state.parts]
        numbered = [
            PlaneSet(
                part.normals,
                part.offsets,
                part.blocks + first,
                part.masses,
                slopes={int(first) + block: slopes for block, slopes in part.slopes.items()},
            )
            for part, first in zip(sets, objective.first, strict=False)
        ]
        return join_planes(objective.space, numbered)


def _of_term(objective: Objective, planes: PlaneSet, number: int) -> PlaneSet:
    first, last = objective.first[number], objective.first[number + 1]
    mine = np.flatnonzero((planes.blocks >= first) & (planes.blocks < last))
    return PlaneSet(
        planes.normals[mine],
        planes.offsets[mine],
        planes.blocks[mine] - first,
        planes.masses[mine],
        slopes={b - int(first): p for b, p in planes.slopes.items() if first <= b < last},
    )
