"""n-slack cutting-plane method with a working set of planes for every block."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..dual.base import OutOfTime, total
from ..spaces.base import Element
from ..terms import Objective
from ..terms.planes import WorkingSet
from ..utils.parameters import check_integer, check_number
from ..utils.row_arrays import Arrays
from .base import Bounds, Solver, Start, by_term, check_planes, planes_at

# Maximum number of rounds over all working sets in a master problem.
MASTER_ROUNDS = 20


@dataclass
class SVMStructState:
    """Working sets over portions of the blocks, and their sum f.

    `n_added` is the number of planes that the last step added. `remaining_gap` is the gap over the older
    planes.
    """

    batches: list[np.ndarray]
    sets: list[WorkingSet]
    f: Element
    n_added: int = -1
    remaining_gap: float = np.inf


class SVMStruct(Solver):
    """Cutting planes of every block and a master problem (Teo et al. 2007, alg. 1).

    An iteration adds the most violated plane of each block and minimizes over all stored planes.

    Parameters
    ----------
    plane_tol : float, default=0.0
        Plane tolerance (>= 0). A plane is stored if it exceeds the block's other planes by more than
        this. Larger values give fewer support vectors and a larger gap.
    max_idle : int, default=20
        Number of iterations after which a plane with a zero dual variable is dropped (>= 1).

    See Also
    --------
    InteriorPoint : The same planes with an interior-point master problem, for few features.
    BMRM : One plane per iteration for the sum of all losses.

    Examples
    --------
    >>> from structinv.solvers import SVMStruct
    >>> SVMStruct(plane_tol=0.1)
    SVMStruct(plane_tol=0.1)
    """

    still_iterations = 100

    def __init__(self, plane_tol: float = 0.0, max_idle: int = 20) -> None:
        self.plane_tol = plane_tol
        self.max_idle = max_idle

    def validate(self, objective: Objective) -> None:
        check_number("plane_tol", self.plane_tol)
        check_integer("max_idle", self.max_idle)
        check_planes("SVMStruct", objective)

    def init(
        self, objective: Objective, rng: np.random.Generator, start: Start | None = None
    ) -> SVMStructState:
        every = np.arange(objective.n_blocks)
        size = objective.space.blocks_in_a_set
        edges = range(size, objective.n_blocks, size)
        batches = np.split(every, list(edges))
        sets = [
            WorkingSet(objective.space, objective.weights[batch], objective.lower_bounds[batch])
            for batch in batches
        ]
        if start is not None:
            planes = planes_at(objective, start)
            for batch, working in zip(batches, sets, strict=True):
                own = planes.chosen(np.flatnonzero(np.isin(planes.blocks, batch)))
                working.add(own.normals, own.offsets, own.blocks - batch[0], own.alphas)
        return SVMStructState(batches, sets, total(objective.space, sets))

    def step(self, objective: Objective, state: SVMStructState) -> None:
        planes = objective.planes(state.f)
        violation, state.n_added, state.remaining_gap = 0.0, 0, 0.0
        for batch, working in zip(state.batches, state.sets, strict=True):
            if objective.out_of_time():
                # Skipped blocks may have new planes.
                state.remaining_gap = np.inf
                return
            highest, mean = working.block_values(state.f)
            state.remaining_gap += float(working.weights @ (highest - mean))
            above = planes.plane_values[batch] - highest
            margin = self.plane_tol + 1e-12 * (1.0 + np.abs(planes.plane_values[batch]))
            new = np.flatnonzero((above > margin) & (working.weights > 0))
            violation += float(working.weights[new] @ above[new])
            state.n_added += len(new)
            working.prune(self.max_idle)
            working.add(planes.normals[batch[new]], planes.offsets[batch[new]], new)
        # Violations below plane_tol add no planes, so the master problem need not be more accurate.
        enough = 0.1 * max(violation, 0.01 * self.plane_tol * objective.weights.sum())
        self._solve_master(state, enough, objective.out_of_time)

    def finished(self, objective: Objective, state: SVMStructState) -> bool:
        # No new plane exceeds plane_tol, and the master problem over the stored planes is solved.
        share = 0.1 * self.plane_tol * objective.weights.sum()
        return self.plane_tol > 0 and state.n_added == 0 and state.remaining_gap <= share

    def _solve_master(self, state: SVMStructState, tolerance: float, out_of_time: OutOfTime) -> None:
        """Do block-coordinate ascent over the working sets, to a gap of `tolerance`.

        After the maximum number of rounds, the next iteration continues.
        """
        share = tolerance / len(state.sets)
        for _ in range(MASTER_ROUNDS):
            gap = 0.0
            for working in state.sets:
                if out_of_time():
                    return
                gap += working.ascend(state.f, 0.5 * share, 10)
            if gap <= tolerance:
                break

    def bounds(self, objective: Objective, state: SVMStructState) -> Bounds:
        state.f = total(objective.space, state.sets)
        offset = sum(working.offset for working in state.sets)
        return Bounds(state.f, offset - 0.5 * objective.space.dot(state.f, state.f))

    def dual_variables(self, objective: Objective, state: SVMStructState) -> list[Arrays]:
        parts = [
            np.bincount(working.blocks, working.alphas, len(working.weights)) for working in state.sets
        ]
        return by_term(objective, np.concatenate(parts))


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
