"""Dual ascent on partitions of rows, of each of which the driver knows one plane."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from ..solvers.base import Bounds, Solver
from ..terms import Objective
from ..terms.planes import PlaneSet
from ..utils.parameters import check_integer
from .partition import Start

if TYPE_CHECKING:
    from .term import PartitionedTerm

# Easy problems are done by then, and momentum would only overshoot.
ROUNDS_BEFORE_MOMENTUM = 4
# A plane is taken as it is where it does no worse than the one before it: its best step is then a half.
NO_WORSE = 0.5


@dataclass
class AscentState:
    """What the driver of `CoCoA` knows.

    Parameters
    ----------
    normals, offsets : (n_partitions, size) and (n_partitions,) arrays
        The loss of partition p is at least ``offsets[p] - <normals[p], f>`` at every f.
    seed : int
        Of the orders in which partitions visit their rows.

    Attributes
    ----------
    f : (size,) array
        The sum of the normals.
    before : (n_partitions, size) array
        The normals where the last round began.
    whole : (n_partitions,) array of bool
        Whether the plane of a partition is the one that its rows stand at.
    pace, momentum : float
        Of Nesterov's sequence.
    rounds : int
        Since the momentum began.
    """

    normals: np.ndarray
    offsets: np.ndarray
    seed: int
    f: np.ndarray = field(init=False)
    before: np.ndarray = field(init=False)
    whole: np.ndarray = field(init=False)
    pace: float = 1.0
    momentum: float = 0.0
    rounds: int = 0

    def __post_init__(self) -> None:
        self.f = self.normals.sum(axis=0)
        self.before = self.normals
        # Rows start at zero.
        self.whole = ~self.normals.any(axis=1) & (self.offsets == 0)


class CoCoA(Solver):
    """Dual ascent in rounds, in which all partitions sweep their rows from the same function.

    A partition answers with the plane that its rows stand at. Sweeps see their own change as many times
    as there are partitions, so that the changes of all can be added (CoCoA+, Ma et al. 2015). The
    driver takes the exact best step, so the dual value never falls. After four rounds sweeps start
    ahead on the way of the last round, as in Nesterov's method.

    A partition whose rows have lost their state, or whose answer is late, has a step of its own: the
    driver mixes its answer with the plane that it knows. That plane stays a bound.

    Parameters
    ----------
    sweeps : int, default=1
        Over the rows of each partition in a round.

    Examples
    --------
    >>> CoCoA()
    CoCoA()
    """

    def __init__(self, sweeps: int = 1) -> None:
        self.sweeps = sweeps

    def validate(self, objective: Objective) -> None:
        check_integer("sweeps", self.sweeps)

    def init(
        self, objective: Objective, rng: np.random.Generator, planes: PlaneSet | None = None
    ) -> AscentState:
        n, size = objective.n_blocks, _size(objective)
        normals, offsets = np.zeros((n, size)), np.zeros(n)
        if planes is not None:
            for own, offset, block, mass in zip(
                planes.normals, planes.offsets, planes.blocks, planes.masses, strict=True
            ):
                normals[block] += mass * own
                offsets[block] += mass * offset
        return AscentState(normals, offsets, int(rng.integers(2**31)))

    def step(self, objective: Objective, state: AscentState) -> float:
        term = _term(objective)
        n, size = state.normals.shape
        starts = {p: self._start(state, p) for p in term.idle()}
        answers = term.sweep(starts, objective.out_of_time)
        moved, gained, gap = np.zeros((n, size)), np.zeros(n), 0.0
        for answer in answers:
            p = answer.number
            objective.rows_asked += answer.rows
            gap += answer.gap
            share = 1.0
            moved[p], gained[p] = answer.normal - state.normals[p], answer.offset - state.offsets[p]
            if answer.anew or answer.late or not state.whole[p]:
                share = _own_share(state.f, moved[p], gained[p], n)
                moved[p], gained[p] = share * moved[p], share * gained[p]
            state.whole[p] = share == 1.0
        self._move(state, moved, gained)
        return gap if len(answers) == n else np.inf

    def _start(self, state: AscentState, p: int) -> Start:
        """Where the sweeps of a partition start."""
        own, ahead = state.normals[p], state.f
        if state.momentum > 0:
            ahead = ahead + state.momentum * (state.f - state.before.sum(axis=0))
            if state.whole[p]:
                own = own + state.momentum * (own - state.before[p])
        nothing = not own.any() and state.offsets[p] == 0
        return Start(ahead - len(state.offsets) * own, self.sweeps, state.seed, nothing)

    def _move(self, state: AscentState, moved: np.ndarray, gained: np.ndarray) -> None:
        """Go the way of all partitions as far as raises the dual value most."""
        way = moved.sum(axis=0)
        curve = float(way @ way)
        quotient = (float(gained.sum()) - float(state.f @ way)) / curve if curve > 0 else 1.0
        step = min(max(quotient, 0.0), 1.0)
        state.before = state.normals
        state.normals = state.normals + step * moved
        state.offsets = state.offsets + step * gained
        state.f = state.normals.sum(axis=0)
        if step < 1.0:
            state.whole[moved.any(axis=1)] = False
        state.rounds += 1
        if state.rounds >= ROUNDS_BEFORE_MOMENTUM:
            _next_momentum(state, quotient)

    def bounds(self, objective: Objective, state: AscentState) -> Bounds:
        half = 0.5 * objective.space.dot(state.f, state.f)
        return Bounds(state.f.copy(), float(state.offsets.sum()) - half)

    def planes(self, objective: Objective, state: AscentState) -> PlaneSet:
        n = len(state.offsets)
        return PlaneSet(state.normals.copy(), state.offsets.copy(), np.arange(n), np.ones(n))


def _size(objective: Objective) -> int:
    return len(objective.space.zeros())


def _term(objective: Objective) -> PartitionedTerm:
    term: PartitionedTerm = objective.terms[0]  # type: ignore[assignment]
    return term


def _own_share(f: np.ndarray, way: np.ndarray, gained: float, n: int) -> float:
    """How far a partition goes by itself, its change being counted n times."""
    curve = n * float(way @ way)
    best = (gained - float(f @ way)) / curve if curve > 0 else 1.0
    return 1.0 if best >= NO_WORSE else max(best, 0.0)


def _next_momentum(state: AscentState, quotient: float) -> None:
    """Nesterov's sequence, from its start where a step fell short of the whole way."""
    if quotient < 1.0:
        state.pace, state.momentum = 1.0, 0.0
        return
    following = (1.0 + np.sqrt(1.0 + 4.0 * state.pace**2)) / 2.0
    state.momentum = float((state.pace - 1.0) / following)
    state.pace = float(following)
