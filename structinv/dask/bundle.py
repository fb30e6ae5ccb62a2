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
from .group import Request, Response
from .packed import pack

if TYPE_CHECKING:
    from .term import PartitionedTerm

# The quadratic program is solved to this share of what new planes promise.
SHARE_OF_PROMISE = 0.01
MOST_PASSES = 300
# What planes may take by default, and how many of a group there are at least and at most.
BYTES_OF_PLANES, PLANES = 2e9, (10, 100)
# So many visits of a group's rows are worth a round, in so many sweeps at most.
ROWS_OF_A_ROUND, MOST_SWEEPS = 25_000, 10
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
    sweeps : int, optional
        Over the rows of each group in a round, at most: they end when half of the group's gap is gone.
        By default one for groups of more than 12,500 rows, and up to ten for smaller ones, since their
        rounds are mostly waiting.
    max_idle : int, default=3
        Planes without mass are forgotten after this many rounds.
    max_planes : int, optional
        Of each group; beyond it the lightest are averaged. It bounds the memory of the driver. By
        default as many as take 2 GB together, but 10 to 100.

    Examples
    --------
    >>> MultiCutBundle(sweeps=2)
    MultiCutBundle(sweeps=2)
    """

    def __init__(
        self, sweeps: int | None = None, max_idle: int = 3, max_planes: int | None = None
    ) -> None:
        self.sweeps = sweeps
        self.max_idle = max_idle
        self.max_planes = max_planes

    def validate(self, objective: Objective) -> None:
        check_integer("sweeps", self.sweeps, optional=True)
        check_integer("max_idle", self.max_idle)
        check_integer("max_planes", self.max_planes, least=4, optional=True)

    def memory(self, n_groups: int, size: int) -> float:
        """Bytes that a driver needs for planes of `size` numbers each."""
        most = n_groups * self._most_planes(n_groups, size)
        # To add planes copies all. Beside them are answers and shares.
        return 8.0 * ((2.0 * most + 5.0 * n_groups) * size + 3.0 * most**2)

    def _most_planes(self, n_groups: int, size: int) -> int:
        """Of a group."""
        if self.max_planes is not None:
            return self.max_planes
        least, most = PLANES
        return int(min(max(BYTES_OF_PLANES / (16.0 * n_groups * size), least), most))

    def _sweeps(self, sizes: np.ndarray) -> int:
        """Of a round, for groups of so many rows."""
        if self.sweeps is not None:
            return self.sweeps
        return int(min(max(ROWS_OF_A_ROUND // sizes.max(), 1), MOST_SWEEPS))

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
        sigma, sweeps = float(np.sqrt(term.n_blocks)), self._sweeps(term.sizes)
        questions = {p: Request(pack(state.shares[p]), sweeps, sigma, state.seed) for p in term.idle()}
        answers = term.ask(state.f, questions, objective.out_of_time)
        objective.rows_asked += sum(answer.rows for answer in answers)
        self._learn_value(objective, state, answers)
        if answers:
            self._add(state, answers)
            state.move()

    def _learn_value(self, objective: Objective, state: BundleState, answers: list[Response]) -> None:
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

    def _add(self, state: BundleState, answers: list[Response]) -> None:
        """Take in the planes of groups, and maximize the dual over all that there are."""
        bundle = state.bundle
        normals = np.stack([normal for answer in answers for normal in answer.normals(len(state.f))])
        offsets = np.array([offset for answer in answers for offset in answer.offsets])
        blocks = np.repeat([answer.number for answer in answers], 2)
        highest, _ = bundle.heights(state.f)
        rise = np.zeros(len(highest))
        np.maximum.at(rise, blocks, offsets - normals @ state.f - highest[blocks])
        bundle.prune(self.max_idle)
        bundle.merge(self._most_planes(len(bundle.weights), len(state.f)) - 2)
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
