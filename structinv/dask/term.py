"""The losses of rows that are in partitions on a cluster."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from ..spaces import Space
from ..spaces.base import Element
from ..terms.base import OutOfTime, Term
from ..terms.planes import Planes
from ..utils.matrices import ALL_ROWS, Rows
from .cluster import Call, Cluster
from .partition import Answer, Start, plane, sweep, value

# Once half of the answers of a round have come, the others have this many times the median of
# their times,
PATIENCE = 4.0
# and at least so many seconds.
LEAST_PATIENCE = 1.0
# A partition that has not answered for so many rounds goes to another worker.
MOST_ROUNDS_LATE = 10
# So often partitions go to workers that have joined.
ROUNDS_BETWEEN_MOVES = 5


class PartitionedTerm(Term):
    """The sum of the losses of all partitions, each of them a block.

    Parameters
    ----------
    cluster : Cluster
        With its partitions.
    n_outputs : int
        How many functions are learnt.
    sizes : (n_partitions,) array of int
        How many rows each has.
    dtype : dtype
        Of the rows.
    """

    def __init__(self, cluster: Cluster, n_outputs: int, sizes: np.ndarray, dtype: np.dtype) -> None:
        self.cluster = cluster
        self.n_outputs = n_outputs
        self.sizes = sizes
        self.weights = np.ones(len(sizes))
        self.floors = np.zeros(len(sizes))
        self._dtype = dtype
        self._calls: dict[int, Call] = {}
        self._round = 0

    @property
    def dtype(self) -> np.dtype:
        """See `Term.dtype`: of the rows."""
        return np.result_type(self._dtype, np.float32)

    def validate(self, space: Space) -> None:
        """See `Term.validate`; workers check the rest."""
        if space.n_outputs != self.n_outputs:
            raise ValueError(f"the space must have {self.n_outputs} outputs, got {space.n_outputs}")

    def planes(self, space: Space, f: Element, blocks: Rows = ALL_ROWS) -> Planes:
        found = self.cluster.all_of(plane, f)
        normals, offsets, upper, heights = (np.array(each) for each in zip(*found, strict=True))
        return Planes(normals[blocks], offsets[blocks], upper[blocks], heights[blocks])

    def values(self, space: Space, f: Element) -> tuple[np.ndarray, np.ndarray]:
        upper, attained = np.array(self.cluster.all_of(value, f)).T
        return upper, attained

    def rows_of(self, blocks: Rows) -> int:
        return int(self.sizes[blocks].sum())

    def idle(self) -> list[int]:
        """The partitions that do not sweep at present."""
        return [p for p in range(self.n_blocks) if p not in self._calls]

    def sweep(self, starts: Mapping[int, Start], out_of_time: OutOfTime) -> list[Answer]:
        """Let partitions sweep, and return the answers that have come by the end of the round.

        The round ends when all have answered. It does not wait for partitions that take several times
        as long as the others: their answers come in a later round.
        """
        self._round += 1
        if self._round % ROUNDS_BETWEEN_MOVES == 0:
            self.cluster.balance(starts)
        for p, start in starts.items():
            self._calls[p] = self.cluster.call(p, sweep, (self.cluster.fit, start), self._round)
        began, times, answers = time.perf_counter(), [], []
        while self._calls:
            before = dict(self._calls)
            for p, answer in self.cluster.finished(self._calls, sweep).items():
                punctual = before[p].round == self._round and not before[p].again
                answers.append(answer if punctual else replace(answer, late=True))
                times.append(time.perf_counter() - began)
            if out_of_time() or self._is_over(len(starts), times, time.perf_counter() - began):
                break
        self._give_away()
        return sorted(answers, key=lambda answer: answer.number)

    def _is_over(self, asked: int, times: list[float], seconds: float) -> bool:
        """Whether the round does not wait for the partitions that have not answered."""
        if not times or 2 * len(times) < asked:
            return False
        return seconds > max(LEAST_PATIENCE, PATIENCE * float(np.median(times)))

    def _give_away(self) -> None:
        """Give partitions that are very late to other workers."""
        for p, call in list(self._calls.items()):
            if self._round - call.round >= MOST_ROUNDS_LATE:
                self._calls[p] = replace(self.cluster.give_away(p, call, sweep), round=self._round)
