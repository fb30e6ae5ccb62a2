"""The bundle method on groups of partitions, of each of which the driver keeps several planes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from ..dual.base import join_planes
from ..solvers.base import Bounds, Solver
from ..terms import Objective
from ..terms.planes import PlaneSet, WorkingSet
from ..utils.parameters import check_integer
from .group import Answer, Question
from .packed import pack

if TYPE_CHECKING:
    from .term import PartitionedTerm

# The quadratic program is solved to this share of what new planes promise.
SHARE_OF_PROMISE = 0.01
MOST_PASSES = 300
# After so many rounds in which a group was late, all groups are asked for the value.
ROUNDS_WITHOUT_VALUE = 10


@dataclass
class BundleState:
    """What the driver knows.

    Parameters
    ----------
    bundle : WorkingSet
        The planes of all groups.
    best : (size,) array
        The best function so far.
    upper, attained : float
        Its value.
    seed : int
        Of the orders in which groups visit their rows.

    Attributes
    ----------
    f : (size,) array
        Where the next planes are asked for.
    shares : (n_groups, size) array
        The part of each group; their sum is `f`.
    rounds : int
        Since the value was last known.
    """

    bundle: WorkingSet
    best: np.ndarray
    upper: float
    attained: float
    seed: int
    f: np.ndarray = field(init=False)
    shares: np.ndarray = field(init=False)
    rounds: int = 0

    def __post_init__(self) -> None:
        self.move()

    def move(self) -> None:
        """Go to the point of the masses."""
        bundle = self.bundle
        self.shares = np.zeros((len(bundle.weights), len(bundle.space.zeros())))
        for p in np.unique(bundle.blocks):
            mine = np.flatnonzero((bundle.blocks == p) & (bundle.masses > 0))
            if bundle.normals is not None and len(mine):
                self.shares[p] = bundle.space.combine(bundle.normals[mine], bundle.masses[mine])
        self.f = self.shares.sum(axis=0)


class MultiCutBundle(Solver):
    """A bundle method with planes of each group of partitions (multi-cut, Birge and Louveaux 1988).

    A round: every group answers with two planes. One touches its loss at the driver's function, which
    tells the value of the objective. The other is the one that the group's rows stand at after local
    sweeps of dual ascent. The driver maximizes the dual over the planes of all groups, one convex
    combination for each. The dual value never falls, whichever answers are late or lost.

    Parameters
    ----------
    sweeps : int, default=1
        Over the rows of each group in a round.
    max_idle : int, default=3
        Planes without mass are forgotten after this many rounds.
    max_planes : int, default=20
        Of each group; beyond it the lightest are averaged. It bounds the memory of the driver.

    Examples
    --------
    >>> MultiCutBundle(sweeps=2)
    MultiCutBundle(sweeps=2)
    """

    def __init__(self, sweeps: int = 1, max_idle: int = 3, max_planes: int = 20) -> None:
        self.sweeps = sweeps
        self.max_idle = max_idle
        self.max_planes = max_planes

    def validate(self, objective: Objective) -> None:
        check_integer("sweeps", self.sweeps)
        check_integer("max_idle", self.max_idle)
        check_integer("max_planes", self.max_planes, least=4)

    def memory(self, n_groups: int, size: int) -> float:
        """Bytes that a driver needs for planes of `size` numbers each."""
        most = n_groups * self.max_planes
        # To add planes copies all. Beside them are answers and shares.
        return 8.0 * ((2.0 * most + 5.0 * n_groups) * size + 3.0 * most**2)

    def init(
        self, objective: Objective, rng: np.random.Generator, planes: PlaneSet | None = None
    ) -> BundleState:
        space, value = objective.space, objective.at_zero
        bundle = WorkingSet(space, objective.weights, objective.floors)
        if planes is not None:
            planes = planes.by_block()
            bundle.add(planes.normals, planes.offsets, planes.blocks, planes.masses.copy())
        return BundleState(bundle, space.zeros(), value.upper, value.attained, int(rng.integers(2**31)))

    def step(self, objective: Objective, state: BundleState) -> None:
        """See `Solver.step`: two planes of each group, then the quadratic program."""
        term: PartitionedTerm = objective.terms[0]  # type: ignore[assignment]
        sigma = float(np.sqrt(term.n_blocks))
        questions = {
            p: Question(pack(state.shares[p]), self.sweeps, sigma, state.seed) for p in term.idle()
        }
        answers = term.ask(state.f, questions, objective.out_of_time)
        objective.rows_asked += sum(answer.rows for answer in answers)
        self._learn_value(objective, state, answers)
        if answers:
            self._add(state, answers)
            state.move()

    def _learn_value(self, objective: Objective, state: BundleState, answers: list[Answer]) -> None:
        """The objective at the function that was asked about, where all groups have answered."""
        state.rounds += 1
        if len(answers) < objective.n_blocks or any(answer.late for answer in answers):
            return
        state.rounds = 0
        half = 0.5 * objective.space.dot(state.f, state.f)
        upper = half + sum(answer.upper for answer in answers)
        attained = half + sum(answer.height for answer in answers)
        if (attained, upper) < (state.attained, state.upper):
            state.best, state.upper, state.attained = state.f, upper, attained

    def _add(self, state: BundleState, answers: list[Answer]) -> None:
        """Take in the planes of groups, and maximize the dual over all that there are."""
        bundle = state.bundle
        normals = np.stack([normal for answer in answers for normal in answer.normals(len(state.f))])
        offsets = np.array([offset for answer in answers for offset in answer.offsets])
        blocks = np.repeat([answer.number for answer in answers], 2)
        highest, _ = bundle.heights(state.f)
        rise = np.zeros(len(highest))
        np.maximum.at(rise, blocks, offsets - normals @ state.f - highest[blocks])
        bundle.prune(self.max_idle)
        bundle.merge(self.max_planes - 2)
        bundle.add(normals, offsets, blocks)
        bundle.ascend(state.f.copy(), SHARE_OF_PROMISE * float(rise.sum()), MOST_PASSES)

    def bounds(self, objective: Objective, state: BundleState) -> Bounds:
        dual = state.bundle.offset - 0.5 * objective.space.dot(state.f, state.f)
        if state.rounds >= ROUNDS_WITHOUT_VALUE:
            state.rounds = 0
            return Bounds(state.f, dual)
        return Bounds(state.best, dual, state.upper, state.attained)

    def planes(self, objective: Objective, state: BundleState) -> PlaneSet:
        bundle = state.bundle
        used = np.flatnonzero(bundle.masses > 0)
        if bundle.normals is None or len(used) == 0:
            return join_planes(objective.space, [])
        return PlaneSet(
            bundle.normals[used], bundle.offsets[used], bundle.blocks[used], bundle.masses[used]
        )
