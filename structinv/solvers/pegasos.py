"""Projected stochastic subgradient steps, with a dual bound at the end of every pass."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..terms import Objective
from ..terms.planes import PlaneSet
from ..utils.parameters import check_integer
from .base import Bounds, Solver, check_planes


@dataclass
class PegasosState:
    """A dual-feasible sum of planes: `f` the sum of their normals, `offset` that of their offsets.

    Offsets count from the floors, so that scaling a sum down mixes it with the null planes.

    Both are feasible at the ends of passes only; `mean` is the average of such ends, `anchor` an
    earlier end since which nothing was projected, with its number of passes, `best` the feasible
    point with the highest dual value so far. `ended` is `f` with its offset as the last pass left it.
    """

    f: np.ndarray
    offset: float
    passes: int
    radius: float
    rng: np.random.Generator
    mean: tuple[np.ndarray, float]
    anchor: tuple[np.ndarray, float, int]
    best: tuple[np.ndarray, float]
    ended: tuple[np.ndarray, float]


@dataclass(frozen=True)
class StreamSum:
    """The sum of planes of a stream's rows: `f` of the normals, `offset` counted from the floors.

    `mean` is the average of `f` over all steps, the later ones counting more.
    """

    f: np.ndarray
    offset: float
    mean: np.ndarray
    n_steps: int = 0


class Pegasos(Solver):
    """Subgradient steps of length 1/n on mini-batches, projected (Teo et al. 2007, alg. 2).

    An iteration is one pass over all blocks in random order, without replacement: then the iterate is
    itself a dual-feasible point, and its dual value is a bound. So is the average of the planes of
    the later passes alone, which leaves out the wild ones of the first.

    Parameters
    ----------
    batch_size : int, default=16
        Blocks a step.
    projection : bool, default=True
        Project on the ball of radius ``sqrt(F(0) - floors)`` that holds the optimum. Without it,
        squared penalties can blow up in the first steps.
    average : bool, default=True
        Also keep the average of the iterates at the ends of passes, weighted by their number, and
        report it when it is better.

    Examples
    --------
    >>> Pegasos(batch_size=1)
    Pegasos(batch_size=1)
    """

    takes_sums = True

    def __init__(self, batch_size: int = 16, projection: bool = True, average: bool = True) -> None:
        self.batch_size = batch_size
        self.projection = projection
        self.average = average

    def validate(self, objective: Objective) -> None:
        check_integer("batch_size", self.batch_size)
        check_planes("Pegasos", objective)

    def init(
        self, objective: Objective, rng: np.random.Generator, planes: PlaneSet | None = None
    ) -> PegasosState:
        """See `Solver.init`; planes of another solver count as the first pass."""
        space = objective.space
        floor = float(objective.weights @ objective.floors)
        # At the optimum |f|^2 = sum of offsets - sum of losses <= F(0) - floors; Teo's is sqrt(2) wider.
        radius = np.sqrt(max(objective.value(space.zeros()).attained - floor, 0.0))
        ends = [(space.zeros(), 0.0)]
        passes: np.ndarray = np.zeros(1, dtype=np.int64)
        if planes is not None and len(planes):
            sums = planes.sums(space, objective.weights, objective.floors)
            ends = [
                (space.combine(sums.normals[[j]], np.ones(1)), float(sums.offsets[j]) - floor)
                for j in range(len(sums))
            ]
            if sums.passes is None:
                whole = sums.total(space, objective.weights, objective.floors)
                ends, passes = [(whole[0], whole[1] - floor)], np.ones(1, dtype=np.int64)
            else:
                passes = sums.passes
        # Where not all that `planes` gives is there, the first stands for the others.
        best, ended, mean, anchor = ends if len(ends) == 4 else 4 * ends[:1]
        number = int(passes[0])
        f = ended[0].copy()
        since = (*anchor, int(passes[-1]))
        return PegasosState(f, ended[1], number, radius, rng, mean, since, best, ended)

    def step(self, objective: Objective, state: PegasosState) -> None:
        """See `Solver.step`: one pass."""
        n_blocks = objective.n_blocks
        order = state.rng.permutation(n_blocks)
        seen = state.passes * n_blocks
        if state.passes >= 2 * state.anchor[2]:
            state.anchor = (*state.ended, state.passes)
        projected = False
        for first in range(0, n_blocks, self.batch_size):
            if objective.out_of_time():
                self._leave(state, seen, n_blocks)
                return
            batch = order[first : first + self.batch_size]
            seen += len(batch)
            projected |= self._descend(objective, state, batch, len(batch) / seen, n_blocks / seen)
        state.passes += 1
        state.ended = (state.f.copy(), state.offset)
        if projected:
            state.anchor = (*state.ended, state.passes)
        share = 2.0 / (state.passes + 1.0)
        mean_f, mean_offset = state.mean
        state.mean = (
            (1.0 - share) * mean_f + share * state.f,
            (1.0 - share) * mean_offset + share * state.offset,
        )

    def _leave(self, state: PegasosState, seen: int, n_blocks: int) -> None:
        """Make the sum feasible in the midst of a pass: no block may count more than once.

        So far each block was seen once a pass, some of them once more, all with weight
        ``n_blocks / seen``. What a block lacks lies on its null plane.
        """
        begun = seen > state.passes * n_blocks
        share = seen / ((state.passes + begun) * n_blocks) if begun else 1.0
        state.f *= share
        state.offset *= share
        # A run that goes on does so from where the last whole pass ended.
        state.anchor = (*state.ended, state.passes)

    def stream(self, objective: Objective, before: StreamSum, rng: np.random.Generator) -> StreamSum:
        """One pass over rows that come on top of others, whose number nobody knows in advance.

        Each mini-batch adds the sum of its planes to those of all rows before it, with the share in
        [0, 1] that raises the dual most: the length of a step that does not need to know how many
        rows there will be. So `f` stays a sum of planes in which each row counts once at most.

        Parameters
        ----------
        objective : Objective
            Of the new rows alone.
        before : Streamed
        rng : numpy.random.Generator

        Returns
        -------
        Streamed
        """
        space, f, mean = objective.space, before.f.copy(), before.mean.copy()
        offset, n_steps = before.offset, before.n_steps
        order = rng.permutation(objective.n_blocks)
        for first in range(0, len(order), self.batch_size):
            batch = order[first : first + self.batch_size]
            planes = objective.planes(f, batch)
            weights = objective.weights[batch]
            step = space.combine(planes.normals, weights)
            gained = float(weights @ (planes.offsets - objective.floors[batch]))
            slope, square = gained - space.dot(step, f), space.dot(step, step)
            share = min(max(slope, 0.0) / square, 1.0) if square > 0 else 1.0
            f += share * step
            offset += share * gained
            n_steps += 1
            mean += 2.0 / (n_steps + 1.0) * (f - mean)
        return StreamSum(f, offset, mean, n_steps)

    def _descend(
        self, objective: Objective, state: PegasosState, batch: np.ndarray, fade: float, size: float
    ) -> bool:
        """``f <- (1 - fade) f + size * sum of the batch's planes``, offsets alike, then project.

        Returns whether the point lay outside the ball.
        """
        planes = objective.planes(state.f, batch)
        mass = size * objective.weights[batch]
        state.f *= 1.0 - fade
        state.f += objective.space.combine(planes.normals, mass)
        state.offset = (1.0 - fade) * state.offset + float(
            mass @ (planes.offsets - objective.floors[batch])
        )
        norm = np.sqrt(objective.space.dot(state.f, state.f))
        if not self.projection or norm <= state.radius:
            return False
        state.f *= state.radius / norm
        state.offset *= state.radius / norm
        return True

    def bounds(self, objective: Objective, state: PegasosState) -> Bounds:
        points = [(state.f, state.offset), state.mean][: 1 + self.average]
        for f, offset in points:
            self._raise(objective, state, f, offset)
        f, offset, passes = state.anchor
        if passes < state.passes:
            # Planes of the passes since the anchor: their sum is a difference of two sums.
            share = state.passes / (state.passes - passes)
            later = share * state.f + (1.0 - share) * f
            self._raise(objective, state, later, share * state.offset + (1.0 - share) * offset)
        # The average is the better one, but nothing before the first pass has ended.
        first, *others = [f for f, _ in points][:: -1 if state.passes else 1]
        return Bounds(first, _dual(objective, *state.best), others=tuple(others))

    def _raise(self, objective: Objective, state: PegasosState, f: np.ndarray, offset: float) -> None:
        """Keep a feasible point if its dual value is the highest so far."""
        if _dual(objective, f, offset) > _dual(objective, *state.best):
            state.best = (f.copy(), offset)

    def planes(self, objective: Objective, state: PegasosState) -> PlaneSet:
        """See `Solver.planes`: the best one has all the mass; with the others a run goes on."""
        space, weights = objective.space, objective.weights
        ends = [state.best, state.ended, state.mean, state.anchor[:2]]
        floor = float(weights @ objective.floors)
        return PlaneSet(
            space.stack([space.element(f) for f, _ in ends]),
            np.array([offset + floor for _, offset in ends]),
            np.full(4, -1),
            np.array([1.0, 0.0, 0.0, 0.0]),
            weights.copy(),
            passes=np.array([state.passes, state.passes, state.passes, state.anchor[2]]),
        )


def _dual(objective: Objective, f: np.ndarray, offset: float) -> float:
    floor = float(objective.weights @ objective.floors)
    return floor + float(offset) - 0.5 * objective.space.dot(f, f)
