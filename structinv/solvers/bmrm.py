"""One-slack bundle method: one plane per iteration bounds the sum of all losses."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..terms import Objective
from ..terms.planes import WorkingSet
from ..utils.parameters import check_integer
from .base import Bounds, Solver, Start, check_planes


@dataclass
class BMRMState:
    """Bundle of planes, its minimizer, and the best point so far with its values."""

    bundle: WorkingSet
    f: np.ndarray
    best: np.ndarray
    upper: float
    attained: float


class BMRM(Solver):
    """Bundle method with one plane per iteration (Teo et al. 2010, alg. 1).

    The solver minimizes ``1/2 |f|^2`` plus the maximum of all stored planes. Each iteration calls all
    oracles once, at the minimizer, and stores the sum of their planes as one plane.

    Parameters
    ----------
    max_idle : int, default=50
        Number of iterations after which a plane with a zero dual variable is dropped (>= 1).

    See Also
    --------
    SVMStruct : Cutting planes of every block, for fewer passes of the oracles.
    FrankWolfe : Block-coordinate steps in the dual, for many features.

    Examples
    --------
    >>> from structinv.solvers import BMRM
    >>> BMRM()
    BMRM()
    """

    still_iterations = 100

    def __init__(self, max_idle: int = 50) -> None:
        self.max_idle = max_idle

    def validate(self, objective: Objective) -> None:
        check_integer("max_idle", self.max_idle)
        check_planes("BMRM", objective, sums=True)

    def init(
        self, objective: Objective, rng: np.random.Generator, start: Start | None = None
    ) -> BMRMState:
        space = objective.space
        lower_bound = float(objective.weights @ objective.lower_bounds)
        bundle = WorkingSet(space, np.ones(1), np.array([lower_bound]))
        f = space.zeros() if start is None else start.f
        return BMRMState(bundle, f, f, np.inf, np.inf)

    def step(self, objective: Objective, state: BMRMState) -> None:
        space = objective.space
        plane = objective.plane_of_sum(state.f)
        half = 0.5 * space.dot(state.f, state.f)
        upper, attained = half + float(plane.upper[0]), half + float(plane.plane_values[0])
        if (attained, upper) < (state.attained, state.upper):
            state.best, state.upper, state.attained = state.f.copy(), upper, attained
        bundle = state.bundle
        above = attained - half - bundle.block_values(state.f)[0][0]
        if len(bundle) == 0:
            # A start has no planes.
            state.f = space.zeros()
        bundle.prune(self.max_idle)
        bundle.add(plane.normals, plane.offsets, np.zeros(1, int))
        bundle.ascend(state.f, 0.01 * max(above, 0.0), 200)

    def bounds(self, objective: Objective, state: BMRMState) -> Bounds:
        if len(state.bundle):
            state.f = state.bundle.combination()
        dual = state.bundle.offset - 0.5 * objective.space.dot(state.f, state.f)
        if not np.isfinite(state.attained):
            return Bounds(state.f, dual)
        return Bounds(state.best, dual, state.upper, state.attained)
