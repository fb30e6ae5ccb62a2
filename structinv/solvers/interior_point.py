r"""Cutting-plane method with an interior-point method for the master problem.

If :math:`S(x) = x + \{\sum_k \theta_k r_k : |\theta_k| \le 1\}` for every row, the worst-case loss is
the loss of the unperturbed row, with a margin that is equal for all rows:

.. math:: \max_{z \in S(x)} \pm\langle w, z \rangle
   = \pm\langle w, x \rangle + \sum_k |\langle w, r_k \rangle| .

Planes of rows need very many corners of such sets to approximate that sum. With one extra weight for
each part, :math:`s_k \ge |\langle w, r_k \rangle|`, planes of unperturbed rows suffice
(`SpreadProgram`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..dual.margin_steps import KINDS
from ..oracles import Sampled
from ..spaces import ExplicitSpace
from ..spaces.base import Element, Space
from ..spaces.explicit_space import TensorRows
from ..terms import Objective, Term, WorstCase
from ..terms.planes import Planes, PlaneSet
from ..terms.worst_case import WorstMargin
from ..utils.matrices import ALL_ROWS, Rows, dense, dense_rows
from ..utils.parameters import check_integer
from ..utils.row_arrays import Arrays
from .barrier import Master, OuterProductRows
from .base import Bounds, Solver, Start, by_term, check_planes, planes_at

# Weight of the penalty on extra weights that are too small, relative to the sum of the rows' weights.
# It exceeds the decrease of the rows' losses per unit: slopes are at most 1. Slopes of squared hinges
# are at most 2 on average, because the objective is at most that of zero.
STEEPNESS = 4.0
# Smallest extra weight of an initial point. At 0 the oracle of rows may return the wrong sign.
LEAST_EXTRA = 1e-12
# Maximum number of weights for dense rows.
MOST_WEIGHTS = 2000


class Program:
    """Program of a cutting-plane method; here the original objective.

    Shapes: `ridge` (size,).
    """

    ridge: Any = 1.0

    def __init__(self, objective: Objective) -> None:
        self.objective = objective

    def half_square(self, f: Element) -> float:
        """Return half the squared norm of an element of the program."""
        return 0.5 * self.objective.space.dot(f, f)

    def planes_at(self, f: Element) -> Planes:
        """Return the planes of all blocks of the program at `f`."""
        return self.objective.planes(f)

    def begin(self, planes: PlaneSet) -> PlaneSet:
        """Return initial planes for planes of the original objective."""
        return planes

    def lifted(self, f: Element) -> Element:
        """Return the program's best element for one of the original objective."""
        return f

    def function(self, f: Element) -> Element:
        """Return the original objective's element for an element of the program."""
        return f

    def planes(self, found: PlaneSet) -> PlaneSet:
        """Return planes of the original objective for planes of the program."""
        return found


class SpreadProgram(Program):
    """Program with one extra weight per direction of the perturbations.

    These weights follow those of the features. A dual point of the program gives one of the original
    objective. The dual variables of the two planes of a direction determine the position of all rows
    between both ends.

    Shapes: `directions` (t, d).
    """

    def __init__(self, objective: Objective, directions: np.ndarray) -> None:
        term: Any = objective.terms[0]
        self.directions = directions
        self.n_rows, self.n_features = term.X.shape
        self.width = self.n_features + len(directions)
        shared = np.ones((self.n_rows, len(directions)))
        either_sign = Sampled(self._with_other_sign)
        rows = term.on_rows(np.hstack([dense_rows(term.X), shared]), either_sign)
        original: Any = objective.space
        space = ExplicitSpace(self.width, intercept=original.intercept)
        # Extra weights are not in the norm.
        self.ridge = np.ones(space.size)
        self.ridge[self.n_features : self.width] = 0.0
        parts = SpreadTerm(self._normals(space.size), STEEPNESS * float(term.weights.sum()))
        super().__init__(Objective(space, [rows, parts]))
        self.original = objective

    def _with_other_sign(self, X: np.ndarray) -> np.ndarray:
        """Return rows with the other sign of the features of extra weights, (n, 1, width)."""
        return np.hstack([X[:, : self.n_features], -X[:, self.n_features :]])[:, None]

    def _normals(self, size: int) -> np.ndarray:
        """Return the normals of the planes of all directions, one end after the other, (2 t, size)."""
        t, d = self.directions.shape
        normals = np.zeros((2, t, size))
        normals[0, :, :d], normals[1, :, :d] = -self.directions, self.directions
        normals[:, np.arange(t), d + np.arange(t)] = 1.0
        return normals.reshape(2 * t, -1)

    def half_square(self, f: Element) -> float:
        extra = f[self.n_features : self.width]
        return 0.5 * float(f @ f - extra @ extra)

    def planes_at(self, f: Element) -> Planes:
        self.original.oracle_calls += self.original.rows_of_a_pass
        return super().planes_at(f)

    def begin(self, planes: PlaneSet) -> PlaneSet:
        # The given planes belong to corners of the perturbation sets, and are invalid here. Start with
        # the planes of all directions.
        parts: Any = self.objective.terms[1]
        blocks = self.n_rows + np.tile(np.arange(parts.n_blocks), 2)
        return PlaneSet(parts.normals, np.zeros(len(blocks)), blocks, np.zeros(len(blocks)))

    def lifted(self, f: Element) -> Element:
        # Extra weights are as small as the other weights allow, but positive.
        needed = np.abs(self.directions @ f[: self.n_features])
        return np.insert(f, self.n_features, np.maximum(needed, LEAST_EXTRA))

    def function(self, f: Element) -> Element:
        return np.delete(f, np.s_[self.n_features : self.width])

    def planes(self, planes: PlaneSet) -> PlaneSet:
        # Move the points of the planes as the dual variables of the directions determine.
        (t, d), original = self.directions.shape, planes.normals
        normals = original.toarray() if isinstance(original, TensorRows) else dense(original)
        of_rows, parts = np.flatnonzero(planes.blocks < self.n_rows), planes.blocks >= self.n_rows
        numbers, alphas = planes.blocks[parts] - self.n_rows, planes.alphas[parts]
        ends = np.sign(np.einsum("jd,jd->j", normals[parts, :d], self.directions[numbers]))
        alpha, signed_sum = (np.bincount(numbers, each, minlength=t) for each in (alphas, alphas * ends))
        shift = np.divide(signed_sum, alpha, out=np.zeros(t), where=alpha > 0)
        # Slope of the loss: the oracle chooses the signs of the extra features that increase the loss.
        slopes = -normals[of_rows, d]
        new_normals = np.delete(normals[of_rows], np.s_[d : self.width], axis=1)
        new_normals[:, :d] += slopes[:, None] * (shift @ self.directions)
        return PlaneSet(
            new_normals, planes.offsets[of_rows], planes.blocks[of_rows], planes.alphas[of_rows]
        )


class SpreadTerm(Term):
    """Penalty on ``|<w, r_k>|`` above the extra weight of each direction r_k.

    Shapes: `normals` (2 t, size).
    """

    def __init__(self, normals: np.ndarray, weight: float) -> None:
        self.normals = normals
        self.weights = np.full(len(normals) // 2, weight)
        self.lower_bounds = np.zeros(len(self.weights))

    def validate(self, space: Space) -> None:
        if self.normals.shape[1] != len(space.zeros()):
            raise ValueError(f"normals must belong to the space, got shape {self.normals.shape}")

    def planes(self, space: Space, f: Element, blocks: Rows = ALL_ROWS) -> Planes:
        both = -space.scores(f, self.normals).reshape(2, -1)
        numbers = np.arange(self.n_blocks)[blocks]
        side = np.argmax(both[:, numbers], axis=0)
        plane_values = both[side, numbers]
        normals = self.normals[side * self.n_blocks + numbers]
        return Planes(normals, np.zeros(len(numbers)), np.maximum(0.0, plane_values), plane_values)

    def values(self, space: Space, f: Element) -> tuple[np.ndarray, np.ndarray]:
        upper = self.planes(space, f).upper
        return upper, upper

    def rows_of(self, blocks: Rows) -> int:
        return 0


def spread_of(objective: Objective) -> np.ndarray | None:
    """Return the directions of all perturbations, (t, d).

    None is returned if `SpreadProgram` does not apply.
    """
    term: Any = objective.terms[0]
    space: Any = objective.space
    if len(objective.terms) > 1 or type(term) not in (WorstCase, WorstMargin):
        return None
    if isinstance(term, WorstMargin) and type(term.loss) not in KINDS:
        return None
    if type(space) is not ExplicitSpace or space.n_outputs > 1 or space.n_pairwise:
        return None
    if space.size >= MOST_WEIGHTS:
        # Return before the oracle creates a large diagonal matrix.
        return None
    if not term.bound_structure.structure.rowwise or term.bound_structure.slack:
        return None
    boxes = term.bound.boxes()
    if boxes is None or not np.all(boxes.changed):
        return None
    found = boxes.directions()
    found = found[np.any(found != 0, axis=1)]
    fits = 0 < len(found) <= MOST_WEIGHTS - space.size
    return found if fits else None


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
        directions = spread_of(objective)
        program = Program(objective) if directions is None else SpreadProgram(objective, directions)
        f = program.lifted(objective.space.zeros() if start is None else start.f)
        found = PlaneSet.join(objective.space, [] if start is None else [planes_at(objective, start)])
        found = program.begin(found)
        return InteriorPointState(program, found, np.zeros(len(found), dtype=np.int64), f, f.copy())

    def step(self, objective: Objective, state: InteriorPointState) -> None:
        answers = [self._planes_at(state, state.f)]
        if state.attained < answers[0][1] and not objective.out_of_time():
            answers += self._search(objective, state)
        new = [_above(state, point, planes) for point, _, planes in answers]
        self._drop_idle(state)
        parts = [state.planes, *new]
        state.idle = np.concatenate([state.idle, *(np.zeros(len(each), dtype=int) for each in new)])
        state.planes = PlaneSet.join(state.program.objective.space, parts)
        if len(state.planes) and not objective.out_of_time():
            self._solve_master(objective, state)

    def _planes_at(self, state: InteriorPointState, f: Element) -> tuple[Element, float, Planes]:
        """Return `f`, the objective there, and the planes; store `f` if it is the best point."""
        objective, planes = state.program.objective, state.program.planes_at(f)
        half = state.program.half_square(f)
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
            answers = [self._planes_at(state, f)]
            attained = answers[0][1]
            if attained < before or attained > lowest or objective.out_of_time():
                break
            lowest = attained
        return answers

    def _drop_idle(self, state: InteriorPointState) -> None:
        """Drop planes that were idle for more than `max_idle` iterations."""
        alpha = state.program.objective.weights[state.planes.blocks] * state.planes.alphas
        share = IDLE_ALPHA * min(1.0, _gap(state) / max(state.attained, TINY))
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
        gap = _gap(state)
        owners, blocks = np.unique(planes.blocks, return_inverse=True)
        rows, start = _rows(space, planes, state.best)
        offsets = planes.offsets - objective.lower_bounds[planes.blocks]
        master = Master(rows, offsets, blocks, objective.weights[owners], state.program.ridge)
        mu = START_FACTOR * gap / master.n_constraints
        alphas, _ = master.solve(start, mu, MASTER_SHARE * gap, original.out_of_time)
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


def _gap(state: InteriorPointState) -> float:
    """Return the gap between the best point and the largest lower bound so far; > 0."""
    objective = state.program.objective
    gap = state.attained - max(state.dual, float(objective.weights @ objective.lower_bounds))
    return max(gap, 1e-14 * abs(state.attained), TINY)


def _total(objective: Objective, found: PlaneSet) -> tuple[Element, float]:
    """Return the sum of planes, weighted by their dual variables, and the dual value."""
    f, offset = found.total(objective.space, objective.weights, objective.lower_bounds)
    return f, offset - 0.5 * objective.space.dot(f, f)


def _above(state: InteriorPointState, f: Element, planes: Planes) -> PlaneSet:
    """Return the planes at `f` whose value there exceeds that of all stored planes."""
    objective = state.program.objective
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
