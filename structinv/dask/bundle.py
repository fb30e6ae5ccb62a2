"""Bundle method for groups of partitions, with several cutting planes per group."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from ..dual.base import join_planes
from ..solvers.base import Bounds, Solver
from ..terms import Objective
from ..terms.planes import PlaneSet, WorkingSet
from .group import Request, Response
from .packed import pack

if TYPE_CHECKING:
    from .term import PartitionedTerm

# Tolerance of the quadratic program, relative to the violation of the new planes.
SHARE_OF_PROMISE = 0.01
MOST_PASSES = 300
# Default memory of the planes, and smallest and largest number of planes per group.
BYTES_OF_PLANES, PLANES = 2e9, (10, 100)
# Number of row updates per group and round, and maximum number of sweeps.
ROWS_OF_A_ROUND, MOST_SWEEPS = 25_000, 10
# Number of rounds without weight after which a plane is removed.
MOST_IDLE = 3
# Number of rounds without losses of all groups, after which a separate pass computes the objective.
ROUNDS_WITHOUT_VALUE = 10


@dataclass
class BundleState:
    """State of the driver.

    - `bundle`: planes of all groups
    - `best` (size,): best weights so far
    - `upper, attained`: upper bound and attained value of the objective at the best weights
    - `seed`: seed of the order of rows in the groups
    - `f` (size,): weights at which the next planes are computed
    - `shares` (n_groups, size): part of each group in `f`; the sum of all parts is `f`
    - `rounds`: number of rounds since the last value of the objective
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
        """Set `f` and `shares` from the dual variables."""
        bundle = self.bundle
        self.shares = np.zeros((len(bundle.weights), len(bundle.space.zeros())))
        for p in np.unique(bundle.blocks):
            active = np.flatnonzero((bundle.blocks == p) & (bundle.alphas > 0))
            if bundle.normals is not None and len(active):
                self.shares[p] = bundle.space.combine(bundle.normals[active], bundle.alphas[active])
        self.f = self.shares.sum(axis=0)


class MultiCutBundle(Solver):
    """Bundle method for partitions on a Dask cluster, with planes of each group.

    It is a multi-cut method (Birge and Louveaux 1988). In each round every group of partitions returns
    two cutting planes. The first plane is tight at the present weights, where it also gives the loss of
    the group. The second plane results from local sweeps of dual ascent over the rows of the group. The
    driver maximizes the dual over the planes of all groups, with one convex combination per group. The
    dual value never decreases, even if results are late or lost.
    """

    def validate(self, objective: Objective) -> None:
        """Accept all objectives of partitions."""

    def memory(self, n_groups: int, size: int) -> float:
        """Compute the memory of the driver for its planes."""
        most = n_groups * most_planes(n_groups, size)
        # Adding planes copies all of them. Responses and shares need memory also.
        return 8.0 * ((2.0 * most + 5.0 * n_groups) * size + 3.0 * most**2)

    def init(
        self, objective: Objective, rng: np.random.Generator, planes: PlaneSet | None = None
    ) -> BundleState:
        space, value = objective.space, objective.at_zero
        bundle = WorkingSet(space, objective.weights, objective.lower_bounds)
        if planes is not None:
            planes = planes.by_block()
            bundle.add(planes.normals, planes.offsets, planes.blocks, planes.alphas.copy())
        return BundleState(bundle, space.zeros(), value.upper, value.attained, int(rng.integers(2**31)))

    def step(self, objective: Objective, state: BundleState) -> None:
        # Each group returns two planes; then the quadratic program is solved.
        term: PartitionedTerm = objective.terms[0]  # type: ignore[assignment]
        sigma, sweeps = float(np.sqrt(term.n_blocks)), _most_sweeps(term.sizes)
        requests = {p: Request(pack(state.shares[p]), sweeps, sigma, state.seed) for p in term.idle()}
        responses = term.request(state.f, requests, objective.out_of_time)
        objective.oracle_calls += sum(response.rows for response in responses)
        self._update_value(objective, state, responses)
        if responses:
            self._add(state, responses)
            state.move()

    def _update_value(self, objective: Objective, state: BundleState, responses: list[Response]) -> None:
        """Update the best weights if all groups returned their losses in this round."""
        state.rounds += 1
        if len(responses) < objective.n_blocks or any(response.late for response in responses):
            return
        state.rounds = 0
        half = 0.5 * objective.space.dot(state.f, state.f)
        upper = half + sum(response.upper for response in responses)
        attained = half + sum(response.attained for response in responses)
        if (attained, upper) < (state.attained, state.upper):
            state.best, state.upper, state.attained = state.f, upper, attained

    def _add(self, state: BundleState, responses: list[Response]) -> None:
        """Add the new planes, and maximize the dual over all planes."""
        bundle = state.bundle
        size = len(state.f)
        normals = np.stack([normal for response in responses for normal in response.normals(size)])
        offsets = np.array([offset for response in responses for offset in response.offsets])
        blocks = np.repeat([response.number for response in responses], 2)
        highest, _ = bundle.block_values(state.f)
        rise = np.zeros(len(highest))
        np.maximum.at(rise, blocks, offsets - normals @ state.f - highest[blocks])
        bundle.prune(MOST_IDLE)
        bundle.merge(most_planes(len(bundle.weights), len(state.f)) - 2)
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
        used = np.flatnonzero(bundle.alphas > 0)
        if bundle.normals is None or len(used) == 0:
            return join_planes(objective.space, [])
        return PlaneSet(
            bundle.normals[used], bundle.offsets[used], bundle.blocks[used], bundle.alphas[used]
        )


def most_planes(n_groups: int, size: int) -> int:
    """Return the maximum number of planes per group."""
    least, most = PLANES
    return int(min(max(BYTES_OF_PLANES / (16.0 * n_groups * size), least), most))


def _most_sweeps(sizes: np.ndarray) -> int:
    """Return the maximum number of sweeps per round, for groups of these sizes."""
    return int(min(max(ROWS_OF_A_ROUND // sizes.max(), 1), MOST_SWEEPS))
