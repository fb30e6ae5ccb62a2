"""Projected stochastic subgradient steps, with a dual bound at the end of every pass."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..objective import Objective
from ..planes import PlaneSet
from .base import Bounds, Solver, check_positive_integer


@dataclass
class PegasosState:
    """A dual-feasible sum of planes: `f` the sum of their normals, `offset` that of their offsets.

    Both are feasible at the ends of passes only; `mean` is the average of such ends, `best` the one
    with the highest dual value so far.
    """

    f: np.ndarray
    offset: float
    passes: int
    radius: float
    rng: np.random.Generator
    mean: tuple[np.ndarray, float]
    best: tuple[np.ndarray, float]


class Pegasos(Solver):
    """Subgradient steps of length 1/n on mini-batches, projected (Teo et al. 2007, alg. 2).

    An iteration is one pass over all blocks in random order, without replacement: then the iterate is
    itself a dual-feasible point, and its dual value is a bound.

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

    def __init__(
        self, batch_size: int = 16, projection: bool = True, average: bool = True
    ) -> None:
        self.batch_size = batch_size
        self.projection = projection
        self.average = average

    def validate(self, objective: Objective) -> None:
        """See `Solver.validate`."""
        check_positive_integer("batch_size", self.batch_size)

    def init(
        self, objective: Objective, rng: np.random.Generator, planes: PlaneSet | None = None
    ) -> PegasosState:
        """See `Solver.init`; planes of an earlier run count as the first pass."""
        space = objective.space
        floor = float(objective.weights @ objective.floors)
        # At the optimum |f|^2 = sum of offsets - sum of losses <= F(0) - floors; Teo's is sqrt(2) wider.
        radius = np.sqrt(max(objective.value(space.zeros()).attained - floor, 0.0))
        if planes is None or len(planes) == 0:
            start, passes = (space.zeros(), 0.0), 0
        else:
            start, passes = planes.total(space, objective.weights, objective.floors), 1
        f, offset = start
        return PegasosState(f.copy(), offset, passes, radius, rng, start, start)

    def step(self, objective: Objective, state: PegasosState) -> None:
        """See `Solver.step`: one pass."""
        n_blocks = objective.n_blocks
        order = state.rng.permutation(n_blocks)
        seen = state.passes * n_blocks
        for first in range(0, n_blocks, self.batch_size):
            batch = order[first : first + self.batch_size]
            seen += len(batch)
            self._descend(objective, state, batch, len(batch) / seen, n_blocks / seen)
        state.passes += 1
        share = 2.0 / (state.passes + 1.0)
        mean_f, mean_offset = state.mean
        state.mean = (
            (1.0 - share) * mean_f + share * state.f,
            (1.0 - share) * mean_offset + share * state.offset,
        )

    def _descend(
        self, objective: Objective, state: PegasosState, batch: np.ndarray, fade: float, size: float
    ) -> None:
        """``f <- (1 - fade) f + size * sum of the batch's planes``, offsets alike, then project."""
        planes = objective.planes(state.f, batch)
        mass = size * objective.weights[batch]
        state.f *= 1.0 - fade
        state.f += objective.space.combine(planes.normals, mass)
        state.offset = (1.0 - fade) * state.offset + float(mass @ planes.offsets)
        norm = np.sqrt(objective.space.dot(state.f, state.f))
        if self.projection and norm > state.radius:
            state.f *= state.radius / norm
            state.offset *= state.radius / norm

    def bounds(self, objective: Objective, state: PegasosState) -> Bounds:
        """See `Solver.bounds`."""
        found = []
        for f, offset in [(state.f, state.offset), state.mean][: 1 + self.average]:
            value = objective.value(f)
            dual = offset - 0.5 * objective.space.dot(f, f)
            if dual > state.best[1] - 0.5 * objective.space.dot(state.best[0], state.best[0]):
                state.best = (f.copy(), offset)
            found.append(Bounds(f, dual, value.upper, value.attained))
        lowest = min(found, key=lambda bounds: (bounds.upper, bounds.attained))
        highest = max(bounds.dual for bounds in found)
        return Bounds(lowest.f, highest, lowest.upper, lowest.attained)

    def planes(self, objective: Objective, state: PegasosState) -> PlaneSet:
        """See `Solver.planes`: one plane, which bounds the weighted sum of all blocks."""
        return PlaneSet.of_sum(objective.space, *state.best, objective.weights)
