"""Loss of rows in partitions on a Dask cluster."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from ..spaces.base import Element, Space
from ..terms.base import OutOfTime, Term
from ..terms.planes import Planes
from ..utils.matrices import ALL_ROWS, Rows
from .cluster import Call, Cluster, is_late
from .group import Request, Response, plane, respond, value
from .packed import pack

# Number of rounds without a response after which a group moves to another worker.
MOST_ROUNDS_LATE = 10
# Number of rounds between moves of groups to new workers.
ROUNDS_BETWEEN_MOVES = 5


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
        normals = np.stack([each.written(len(f)) for each in packed])
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
        self, f: Element, requests: Mapping[int, Request], out_of_time: OutOfTime
    ) -> list[Response]:
        """Send requests to groups, and return the responses of this round.

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
            self._calls[p] = self.cluster.call(p, respond, (packed, request), self._round)
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
