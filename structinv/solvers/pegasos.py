"""Projected stochastic subgradient steps with a dual bound after every pass."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from ..terms import Objective
from ..utils.parameters import check_integer
from ..utils.row_arrays import Arrays
from .base import Bounds, Solver, Start, check_planes

# Sums of the normals and of the offsets of planes. Offsets are relative to the lower bounds, so smaller
# multiples of both sums mix them with the null planes.
Sums: TypeAlias = tuple[np.ndarray, float]


@dataclass
class PegasosState:
    """State of `Pegasos`; its sums are dual feasible at the ends of passes.

    - `f`, `offset`: sums of normals and offsets
    - `passes`: number of passes
    - `radius`: radius of the ball of the projection
    - `rng`: source of the order of blocks
    - `mean`: weighted average of the sums at the ends of passes
    - `anchor`: sums at the end of an earlier pass, without projections since then, and its number
    - `best`: feasible sums with the largest dual value so far
    - `ended`: sums at the end of the last pass
    """

    f: np.ndarray
    offset: float
    passes: int
    radius: float
    rng: np.random.Generator
    mean: Sums
    anchor: tuple[Sums, int]
    best: Sums
    ended: Sums


@dataclass(frozen=True)
class Stream:
    """State of a stream of rows: the sum of their planes, and numbers.

    - `f` (size,): sum of normals
    - `offset`: sum of offsets, relative to the lower bounds
    - `mean` (size,): average of `f` over all steps; later steps have larger weights
    - `n_steps`: number of steps
    - `n_rows`: number of rows
    - `n_batches`: number of batches
    """

    f: np.ndarray
    offset: float
    mean: np.ndarray
    n_steps: int = 0
    n_rows: int = 0
    n_batches: int = 0


class Pegasos(Solver):
    """Projected subgradient steps on mini-batches (Teo et al. 2007, alg. 2).

    Step n has the length 1/n. An iteration is one pass over all blocks in random order, without
    replacement. The iterate is then dual-feasible, and its dual value is a lower bound. A second lower
    bound is that of the average of planes of later passes. It omits the large steps of the first pass.

    Parameters
    ----------
    batch_size : int, default=16
        Number of blocks per step (>= 1).
    projection : bool, default=True
        Whether iterates are projected on a ball around 0 that contains the optimum. Its radius is
        ``sqrt(F(0) - b)``, with the objective F and the weighted sum b of the lower bounds of all
        blocks. Without projection, squared penalties may diverge in the first steps.
    average : bool, default=True
        Whether a weighted average of the iterates at the ends of passes is also a candidate for the
        solution.

    See Also
    --------
    BMRM : Bundle method, with one plane per pass.
    FrankWolfe : Block-coordinate steps in the dual, without a step length.

    Examples
    --------
    >>> from structinv.solvers import Pegasos
    >>> Pegasos(batch_size=1)
    Pegasos(batch_size=1)
    """

    def __init__(self, batch_size: int = 16, projection: bool = True, average: bool = True) -> None:
        self.batch_size = batch_size
        self.projection = projection
        self.average = average

    def validate(self, objective: Objective) -> None:
        check_integer("batch_size", self.batch_size)
        check_planes("Pegasos", objective)

    def init(
        self, objective: Objective, rng: np.random.Generator, start: Start | None = None
    ) -> PegasosState:
        space = objective.space
        lower_bound = float(objective.weights @ objective.lower_bounds)
        # At the optimum |f|^2 = sum of offsets - sum of losses <= F(0) - b. Teo's radius is larger
        # by sqrt(2).
        radius = np.sqrt(max(objective.value(space.zeros()).attained - lower_bound, 0.0))
        f, offset, passes = space.zeros(), 0.0, 0
        if start is not None:
            # The planes at the given function count as the first pass, with the best common factor.
            plane = objective.plane_of_sum(start.f)
            f, offset = space.combine(plane.normals, np.ones(1)), float(plane.offsets[0]) - lower_bound
            square = space.dot(f, f)
            share = min(1.0, max(offset, 0.0) / square) if square > 0 else 1.0
            f, offset, passes = share * f, share * offset, 1
        sums = f, offset
        return PegasosState(
            f.copy(), offset, passes, radius, rng, sums, (sums, passes), best=sums, ended=sums
        )

    def step(self, objective: Objective, state: PegasosState) -> None:
        # One step is one pass.
        n_blocks = objective.n_blocks
        order = state.rng.permutation(n_blocks)
        seen = state.passes * n_blocks
        if state.passes >= 2 * state.anchor[1]:
            state.anchor = state.ended, state.passes
        projected = False
        for first in range(0, n_blocks, self.batch_size):
            if objective.out_of_time():
                self._make_feasible(state, seen, n_blocks)
                return
            batch = order[first : first + self.batch_size]
            seen += len(batch)
            projected |= self._descend(objective, state, batch, len(batch) / seen, n_blocks / seen)
        state.passes += 1
        state.ended = state.f.copy(), state.offset
        if projected:
            state.anchor = state.ended, state.passes
        share = 2.0 / (state.passes + 1.0)
        state.mean = _mixed(state.mean, state.ended, share)

    def _make_feasible(self, state: PegasosState, seen: int, n_blocks: int) -> None:
        """Make the sum feasible during a pass: the total dual variable of a block is at most 1.

        Each block has one plane of each complete pass and perhaps one of this pass, all with weight
        ``n_blocks / seen``. The rest of a block's weight is on its null plane.
        """
        begun = seen > state.passes * n_blocks
        share = seen / ((state.passes + begun) * n_blocks) if begun else 1.0
        state.f *= share
        state.offset *= share
        # A later run continues from the end of the last complete pass.
        state.anchor = state.ended, state.passes

    def stream(self, objective: Objective, before: Stream, rng: np.random.Generator) -> Stream:
        """Do one pass over new rows of a stream of unknown length.

        Each mini-batch adds the sum of its planes to that of all earlier rows, with the factor in [0, 1]
        that increases the dual most. This step length does not depend on the number of rows. The total
        dual variable of each row is at most 1.

        Parameters
        ----------
        objective : Objective
            Objective of the new rows only.
        before : Stream
            State after all earlier rows.
        rng : numpy.random.Generator
            Source of the order of rows.

        Returns
        -------
        Stream
            State after all rows, one batch later.
        """
        space, f, mean = objective.space, before.f.copy(), before.mean.copy()
        offset, n_steps = before.offset, before.n_steps
        # Rows without weight would count as steps.
        order = rng.permutation(np.flatnonzero(objective.weights > 0))
        for first in range(0, len(order), self.batch_size):
            batch = order[first : first + self.batch_size]
            planes = objective.planes(f, batch)
            weights = objective.weights[batch]
            step = space.combine(planes.normals, weights)
            gained = float(weights @ (planes.offsets - objective.lower_bounds[batch]))
            slope, square = gained - space.dot(step, f), space.dot(step, step)
            share = min(max(slope, 0.0) / square, 1.0) if square > 0 else 1.0
            f += share * step
            offset += share * gained
            n_steps += 1
            mean += 2.0 / (n_steps + 1.0) * (f - mean)
        return Stream(
            f,
            offset,
            mean,
            n_steps,
            before.n_rows + len(objective.weights),
            before.n_batches + 1,
        )

    def _descend(
        self, objective: Objective, state: PegasosState, batch: np.ndarray, fade: float, size: float
    ) -> bool:
        """Set f to ``(1 - fade) f + size * sum of the batch's planes``, and project.

        The offset is updated in the same way. Return whether the point was projected.
        """
        planes = objective.planes(state.f, batch)
        alpha = size * objective.weights[batch]
        state.f *= 1.0 - fade
        state.f += objective.space.combine(planes.normals, alpha)
        state.offset = (1.0 - fade) * state.offset + float(
            alpha @ (planes.offsets - objective.lower_bounds[batch])
        )
        norm = np.sqrt(objective.space.dot(state.f, state.f))
        if not self.projection or norm <= state.radius:
            return False
        state.f *= state.radius / norm
        state.offset *= state.radius / norm
        return True

    def bounds(self, objective: Objective, state: PegasosState) -> Bounds:
        points = [(state.f, state.offset), state.mean][: 1 + self.average]
        feasible = [(f.copy(), offset) for f, offset in points]
        anchor, passes = state.anchor
        if passes < state.passes:
            # The sum of the planes since the anchor is also feasible; it is a difference of two sums.
            feasible.append(_mixed(anchor, points[0], state.passes / (state.passes - passes)))
        state.best = max([state.best, *feasible], key=lambda sums: _dual(objective, *sums))
        # The average is usually better, except before the end of the first pass.
        first, *others = [f for f, _ in points][:: -1 if state.passes else 1]
        return Bounds(first, _dual(objective, *state.best), others=tuple(others))

    def dual_variables(self, objective: Objective, state: PegasosState) -> list[Arrays]:
        # A sum of planes bounds only losses of the same rows, so that only streams continue it.
        f, offset = state.best
        if "linear in x" not in objective.space.capabilities:
            return []
        return [{"normal": f.copy(), "offset": np.array([offset])}]


def _mixed(first: Sums, second: Sums, share: float) -> Sums:
    """Return sums of planes with the share of the second ones."""
    (f, offset), (other, other_offset) = first, second
    return (1.0 - share) * f + share * other, (1.0 - share) * offset + share * other_offset


def _dual(objective: Objective, f: np.ndarray, offset: float) -> float:
    lower_bound = float(objective.weights @ objective.lower_bounds)
    return lower_bound + float(offset) - 0.5 * objective.space.dot(f, f)
