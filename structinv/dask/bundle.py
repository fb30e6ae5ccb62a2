"""Bundle method for groups of partitions, and the loss of these groups."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..solvers.base import Bounds, Solver, Start
from ..spaces.base import Element, Space
from ..terms import Objective
from ..terms.objective import OutOfTime, Term
from ..terms.planes import Planes, WorkingSet
from ..utils.matrices import ALL_ROWS, Rows
from .cluster import Call, Cluster, is_late
from .group import Response, pack, plane, respond, unpack, value

# Number of rounds without a response after which a group moves to another worker.
MOST_ROUNDS_LATE = 10
# Number of rounds between moves of groups to new workers.
ROUNDS_BETWEEN_MOVES = 5
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


class PartitionedTerm(Term):
    """The sum of the losses of all partitions; each group of them is a block.

    Shapes: `sizes` (n_groups,).
    """

    def __init__(self, cluster: Cluster, n_outputs: int, sizes: np.ndarray, dtype: np.dtype) -> None:
        self.cluster = cluster
        self.n_outputs = n_outputs
        self.sizes = sizes
        self.weights = np.ones(len(sizes))
        self.lower_bounds = np.zeros(len(sizes))
        self._dtype = dtype
        self._calls: dict[int, Call] = {}
        self._round = 0

    @property
    def dtype(self) -> np.dtype:
        """Dtype of normals: that of the rows, at least float32."""
        return np.result_type(self._dtype, np.float32)

    def validate(self, space: Space) -> None:
        # Workers check the rest.
        if space.n_outputs != self.n_outputs:
            raise ValueError(f"the space must have {self.n_outputs} outputs, got {space.n_outputs}")

    def planes(self, space: Space, f: Element, blocks: Rows = ALL_ROWS) -> Planes:
        packed, *numbers = zip(*self.cluster.all_of(plane, pack(f)), strict=True)
        normals = np.stack([unpack(each) for each in packed])
        offsets, upper, attained = (np.array(each) for each in numbers)
        return Planes(normals[blocks], offsets[blocks], upper[blocks], attained[blocks])

    def values(self, space: Space, f: Element) -> tuple[np.ndarray, np.ndarray]:
        upper, attained = np.array(self.cluster.all_of(value, pack(f))).T
        return upper, attained

    def rows_of(self, blocks: Rows) -> int:
        return int(self.sizes[blocks].sum())

    def idle(self) -> list[int]:
        """Return the groups without an open request."""
        return [p for p in range(self.n_blocks) if p not in self._calls]

    def request(
        self, f: Element, requests: Mapping[int, tuple[Any, ...]], out_of_time: OutOfTime
    ) -> list[Response]:
        """Send requests to groups, and return the responses of this round.

        A request consists of the arguments of `respond` after `f`.

        The round ends when all groups have responded. It does not wait for groups that take several
        times as long as the others. Their responses belong to a later round.

        Shapes: `f` (size,).
        """
        self._round += 1
        self.cluster.begin_round()
        if self._round % ROUNDS_BETWEEN_MOVES == 0:
            self.cluster.balance(requests)
        packed = pack(f)
        for p, request in requests.items():
            self._calls[p] = self.cluster.call(p, respond, (packed, *request), self._round)
        began, times, responses = time.perf_counter(), [], []
        while self._calls:
            rounds = {p: call.round for p, call in self._calls.items()}
            for p, response in self.cluster.finished(self._calls).items():
                responses.append(replace(response, late=rounds[p] != self._round))
                if rounds[p] == self._round:
                    times.append(time.perf_counter() - began)
            if out_of_time() or is_late(time.perf_counter() - began, times, len(requests)):
                break
        self._move_late_groups()
        return sorted(responses, key=lambda response: response.number)

    def _move_late_groups(self) -> None:
        """Move very late groups to other workers."""
        for p, call in list(self._calls.items()):
            if self._round - call.round >= MOST_ROUNDS_LATE:
                self._calls[p] = replace(self.cluster.give_away(p, call), round=self._round)


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
        self, objective: Objective, rng: np.random.Generator, start: Start | None = None
    ) -> BundleState:
        space, value = objective.space, objective.at_zero
        bundle = WorkingSet(space, objective.weights, objective.lower_bounds)
        state = BundleState(bundle, space.zeros(), value.upper, value.attained, int(rng.integers(2**31)))
        if start is not None:
            # The first planes are those at the given function.
            state.f = start.f
        return state

    def step(self, objective: Objective, state: BundleState) -> None:
        # Each group returns two planes; then the quadratic program is solved.
        term: PartitionedTerm = objective.terms[0]  # type: ignore[assignment]
        settings = _most_sweeps(term.sizes), float(np.sqrt(term.n_blocks)), state.seed
        requests = {p: (pack(state.shares[p]), *settings) for p in term.idle()}
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
        normals = np.stack([unpack(each) for response in responses for each in response.normals])
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


def most_planes(n_groups: int, size: int) -> int:
    """Return the maximum number of planes per group."""
    least, most = PLANES
    return int(min(max(BYTES_OF_PLANES / (16.0 * n_groups * size), least), most))


def _most_sweeps(sizes: np.ndarray) -> int:
    """Return the maximum number of sweeps per round, for groups of these sizes."""
    return int(min(max(ROWS_OF_A_ROUND // sizes.max(), 1), MOST_SWEEPS))
