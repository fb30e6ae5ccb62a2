"""Cutting-plane method with an interior-point method for the master problem."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..spaces import ExplicitSpace
from ..spaces.base import Element, Space
from ..spaces.tensor_rows import TensorRows
from ..terms import Objective
from ..terms.planes import Planes, PlaneSet
from ..utils.matrices import dense
from ..utils.parameters import check_integer
from ..utils.row_arrays import Arrays
from .barrier import Master, OuterProductRows
from .base import Bounds, Solver, Start, by_term, check_planes, planes_at
from .shared_changes import MOST_WEIGHTS, Program, program_of

# Tolerance of the master problem, as a fraction of the gap. Initial barrier parameter, as a multiple of
# the gap per constraint.
MASTER_SHARE = 0.1
START_FACTOR = 30.0
# A plane is idle if its weighted dual variable is at most this fraction of the largest one, times the
# relative gap. The loss by dropping it is then small compared with the gap.
IDLE_ALPHA = 1e-2
SEARCH_STEPS, SEARCH_SHRINK = 5, 0.3
TINY = np.finfo(float).tiny


@dataclass
class InteriorPointState:
    """Planes with their dual variables, the master's optimum, and the best point.

    - `program`: program of all planes and points here
    - `planes`: stored planes
    - `idle` (n,): number of iterations since each plane was last active
    - `f`: optimum of the master problem
    - `best`: best point so far
    - `upper, attained`: objective at `best`, from above and over the perturbed samples found
    - `dual`: largest lower bound so far
    """

    program: Program
    planes: PlaneSet
    idle: np.ndarray
    f: Element
    best: Element
    upper: float = np.inf
    attained: float = np.inf
    dual: float = -np.inf


class InteriorPoint(Solver):
    """Cutting planes of every block, with an interior-point master problem.

    Like `SVMStruct`, it stores the active planes of all blocks (Teo et al. 2007, alg. 1). Newton's
    method on the master problem does not depend on the scale of the features. It often needs about ten
    iterations for problems on which first-order steps need thousands. The minimizer of the
    master problem may be worse than the best function so far. Planes are then also computed between the
    two functions (Franc and Sonnenburg 2009).

    Parameters
    ----------
    max_idle : int, default=3
        Number of iterations after which a plane with an almost zero dual variable is dropped (>= 1).

    See Also
    --------
    SVMStruct : Cutting planes with first-order steps, for many features.
    FrankWolfe : Block-coordinate steps in the dual, for many features and a moderate C.

    Examples
    --------
    >>> from structinv.solvers import InteriorPoint
    >>> InteriorPoint()
    InteriorPoint()
    """

    # About ten iterations suffice. More do not improve on rounding errors, and each is expensive.
    min_iterations = 50
    still_iterations = 20

    def __init__(self, max_idle: int = 3) -> None:
        self.max_idle = max_idle

    def validate(self, objective: Objective) -> None:
        check_integer("max_idle", self.max_idle)
        check_planes("InteriorPoint", objective)

    def init(
        self, objective: Objective, rng: np.random.Generator, start: Start | None = None
    ) -> InteriorPointState:
        program = program_of(objective)
        f = program.lifted(objective.space.zeros() if start is None else start.f)
        found = PlaneSet.join(objective.space, [] if start is None else [planes_at(objective, start)])
        found = program.begin(found)
        return InteriorPointState(program, found, np.zeros(len(found), dtype=np.int64), f, f.copy())

    def step(self, objective: Objective, state: InteriorPointState) -> None:
        original, objective = objective, state.program.objective
        objective.out_of_time = original.out_of_time
        answers = [self._planes_at(objective, state, state.f)]
        if state.attained < answers[0][1] and not objective.out_of_time():
            answers += self._search(objective, state)
        new = [_above(objective, state, point, planes) for point, _, planes in answers]
        self._drop_idle(objective, state)
        parts = [state.planes, *new]
        state.idle = np.concatenate([state.idle, *(np.zeros(len(each), dtype=int) for each in new)])
        state.planes = PlaneSet.join(objective.space, parts)
        if len(state.planes) and not objective.out_of_time():
            self._solve_master(original, state)

    def _planes_at(
        self, objective: Objective, state: InteriorPointState, f: Element
    ) -> tuple[Element, float, Planes]:
        """Return `f`, the objective there, and the planes; store `f` if it is the best point."""
        planes = objective.planes(f)
        half = 0.5 * objective.space.dot(f, f)
        counted = objective.weights > 0
        reached = np.maximum(planes.plane_values, objective.lower_bounds)
        attained = half + float(objective.weights @ reached)
        upper = half + float(objective.weights[counted] @ planes.upper[counted])
        if (attained, upper) < (state.attained, state.upper):
            state.best, state.attained, state.upper = f.copy(), attained, upper
        return f, attained, planes

    def _search(
        self, objective: Objective, state: InteriorPointState
    ) -> list[tuple[Element, float, Planes]]:
        """Search from the master's optimum toward the best point; return the last planes."""
        start, direction = state.best.copy(), state.f.copy()
        direction -= start
        before, share, lowest = state.attained, 1.0, np.inf
        answers = []
        for _ in range(SEARCH_STEPS):
            share *= SEARCH_SHRINK
            f = direction * share
            f += start
            answers = [self._planes_at(objective, state, f)]
            attained = answers[0][1]
            if attained < before or attained > lowest or objective.out_of_time():
                break
            lowest = attained
        return answers

    def _drop_idle(self, objective: Objective, state: InteriorPointState) -> None:
        """Drop planes that were idle for more than `max_idle` iterations."""
        alpha = objective.weights[state.planes.blocks] * state.planes.alphas
        share = IDLE_ALPHA * min(1.0, _gap(objective, state) / max(state.attained, TINY))
        idle = alpha <= share * alpha.max(initial=0.0)
        state.idle = np.where(idle, state.idle + 1, 0)
        stored = np.flatnonzero(state.idle <= self.max_idle)
        if len(stored) < len(state.idle):
            state.planes = state.planes.chosen(stored)
            state.idle = state.idle[stored]

    def _solve_master(self, original: Objective, state: InteriorPointState) -> None:
        """Solve the master problem, starting at the best point."""
        objective = state.program.objective
        planes, space = state.planes, objective.space
        gap = _gap(objective, state)
        owners, blocks = np.unique(planes.blocks, return_inverse=True)
        rows, start = _rows(space, planes, state.best)
        offsets = planes.offsets - objective.lower_bounds[planes.blocks]
        master = Master(rows, offsets, blocks, objective.weights[owners], state.program.ridge)
        mu = START_FACTOR * gap / master.n_constraints
        alphas, _ = master.solve(start, mu, MASTER_SHARE * gap, objective.out_of_time)
        state.planes = PlaneSet(planes.normals, planes.offsets, planes.blocks, alphas)
        f, dual = _total(original, state.program.planes(state.planes))
        state.f = state.program.lifted(f)
        state.dual = max(state.dual, dual)

    def bounds(self, objective: Objective, state: InteriorPointState) -> Bounds:
        f, dual = _total(objective, state.program.planes(state.planes))
        if not np.isfinite(state.attained):
            return Bounds(f, dual)
        return Bounds(state.program.function(state.best), dual, state.upper, state.attained)

    def dual_variables(self, objective: Objective, state: InteriorPointState) -> list[Arrays]:
        planes = state.program.planes(state.planes)
        return by_term(objective, np.bincount(planes.blocks, planes.alphas, objective.n_blocks))


def _gap(objective: Objective, state: InteriorPointState) -> float:
    """Return the gap between the best point and the largest lower bound so far; > 0."""
    gap = state.attained - max(state.dual, float(objective.weights @ objective.lower_bounds))
    return max(gap, 1e-14 * abs(state.attained), TINY)


def _total(objective: Objective, found: PlaneSet) -> tuple[Element, float]:
    """Return the sum of planes, weighted by their dual variables, and the dual value."""
    f, offset = found.total(objective.space, objective.weights, objective.lower_bounds)
    return f, offset - 0.5 * objective.space.dot(f, f)


def _above(objective: Objective, state: InteriorPointState, f: Element, planes: Planes) -> PlaneSet:
    """Return the planes at `f` whose value there exceeds that of all stored planes."""
    known, found = objective.lower_bounds.copy(), state.planes
    if len(found):
        plane_values = found.offsets - objective.space.scores(f, found.normals)
        np.maximum.at(known, found.blocks, plane_values)
    margin = 1e-12 * (1.0 + np.abs(planes.plane_values))
    new = np.flatnonzero((planes.plane_values > known + margin) & (objective.weights > 0))
    return PlaneSet(planes.normals[new], planes.offsets[new], new, np.zeros(len(new)))


def _rows(space: Space, planes: PlaneSet, f: Element) -> tuple[OuterProductRows, np.ndarray]:
    """Return the normals and `f` in coordinates: weights, or a basis of the normals and `f`."""
    normals: Any = planes.normals
    if not isinstance(space, ExplicitSpace) or space.size > MOST_WEIGHTS:
        joined = space.stack([normals, space.element(f)])
        values, vectors = np.linalg.eigh(space.gram(joined, joined))
        is_kept = values > 1e-15 * values.max()
        coordinates = vectors[:, is_kept] * np.sqrt(values[is_kept])
        return OuterProductRows(coordinates[:-1], np.ones((len(planes), 1))), coordinates[-1]
    if isinstance(normals, TensorRows):
        single = normals.coefficients.shape[0] == len(normals)
        if single and not space.n_pairwise:
            # `OuterProductRows` sorts weights by output, the space by feature.
            rows = OuterProductRows(dense(normals.points), dense(normals.coefficients))
            return rows, space.table(f).T.ravel()
        normals = normals.toarray()
    return OuterProductRows(dense(normals), np.ones((len(planes), 1))), f
