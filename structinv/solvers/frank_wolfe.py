"""Block-coordinate Frank-Wolfe with pairwise and in-hull steps."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ..dual import DualState, dual_state
from ..dual.base import CONVERGED_SHARE, total
from ..spaces.base import Element
from ..terms import Objective
from ..utils.parameters import check_number
from ..utils.row_arrays import Arrays
from .base import Bounds, Solver, Start, check_planes


@dataclass
class FrankWolfeState:
    """Dual states of all terms, sum f, gaps of a sweep."""

    parts: list[DualState]
    f: Element
    gaps: list[float] = field(default_factory=list)

    def converged(self) -> bool:
        """Return True if only planes within the tolerance could reduce the gap."""
        most = CONVERGED_SHARE * sum(self.gaps)
        return all(
            part.converged if part.adds_planes else gap <= most
            for part, gap in zip(self.parts, self.gaps, strict=True)
        )


class FrankWolfe(Solver):
    """Block-coordinate ascent in the dual; an iteration is one sweep over all blocks.

    The dual variables depend on the kind of the term:

    - one averaged plane per row, if the oracle supports in-hull steps;
    - one dual variable per transformed sample, if the space is that of a kernel and S(x) is a list;
    - one slope per functional, if the term is a penalty;
    - otherwise a few planes per block, with pairwise steps (Lacoste-Julien et al. 2013, alg. 3, with
      corrective steps).

    Parameters
    ----------
    plane_tol : float, default=0.0
        Plane tolerance (>= 0). A plane is stored if it exceeds the block's other planes by more than
        this (Teo et al. 2007, alg. 1). Larger values give fewer support vectors and a larger gap.
        In-hull steps require 0.

    See Also
    --------
    SVMStruct : Cutting planes of every block and a master problem.
    InteriorPoint : Cutting planes for few features and any C.

    Examples
    --------
    >>> from structinv.solvers import FrankWolfe
    >>> FrankWolfe()
    FrankWolfe()
    """

    still_iterations = 100

    def __init__(self, plane_tol: float = 0.0) -> None:
        self.plane_tol = plane_tol

    def validate(self, objective: Objective) -> None:
        check_number("plane_tol", self.plane_tol)
        check_planes("FrankWolfe", objective, sums=True)

    def init(
        self, objective: Objective, rng: np.random.Generator, start: Start | None = None
    ) -> FrankWolfeState:
        parts = [dual_state(term, objective.space, rng, self.plane_tol) for term in objective.terms]
        return started(objective, parts, start)

    def step(self, objective: Objective, state: FrankWolfeState) -> float:
        state.gaps = []
        for part in state.parts:
            gap, rows = part.sweep(state.f, objective.out_of_time)
            objective.oracle_calls += rows
            state.gaps.append(gap)
        return sum(state.gaps)

    def finished(self, objective: Objective, state: FrankWolfeState) -> bool:
        # The remaining gap is due to plane_tol.
        return self.plane_tol > 0 and state.converged()

    def bounds(self, objective: Objective, state: FrankWolfeState) -> Bounds:
        f = state.f = total(objective.space, state.parts)
        half = 0.5 * objective.space.dot(f, f)
        offset = sum(part.offset for part in state.parts)
        if not np.isfinite(half):
            return Bounds(f, -np.inf)
        points = [part.primal for part in state.parts if part.primal is not None]
        if not points or len(state.parts) > 1:
            # The best point of one term may be worse for the sum of all terms.
            points.append(f)
        if objective.out_of_time() or not any(part.quick_value for part in state.parts):
            # `solve` computes the objective at these points.
            return Bounds(points[0], offset - half, others=tuple(points[1:]))
        found = [(*self._values(objective, state, point), point) for point in points]
        # As in `solve`: with loose upper bounds, the upper values would favor small functions.
        upper, attained, better = min(found, key=lambda one: one[1::-1])
        return Bounds(better, offset - half, upper, attained)

    def _values(self, objective: Objective, state: FrankWolfeState, f: Element) -> tuple[float, float]:
        """Return an upper bound of the objective at f, and the value over found perturbed samples."""
        values = [part.value(f) for part in state.parts]
        objective.oracle_calls += objective.rows_of_a_pass
        norm = 0.5 * objective.space.dot(f, f)
        upper, attained = (norm + sum(side) for side in zip(*values, strict=True))
        return upper, attained

    def dual_variables(self, objective: Objective, state: FrankWolfeState) -> list[Arrays]:
        return [part.arrays() for part in state.parts]


def started(objective: Objective, parts: list[DualState], start: Start | None) -> FrankWolfeState:
    """Return the initial state of a run for new dual states of all terms."""
    if start is not None:
        for part, arrays in zip(parts, start.dual_variables, strict=False):
            objective.oracle_calls += part.start(arrays, start.f)
    from_zero = start is None and all(part.offset == 0 for part in parts)
    f = objective.space.zeros() if from_zero else total(objective.space, parts)
    return FrankWolfeState(parts, f)
