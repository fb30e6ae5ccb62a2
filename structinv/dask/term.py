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
from .cluster import Call, Cluster, is_late
from .group import Request, Response, ask, plane, value
from .packed import pack

# A group that has not answered for so many rounds goes to another worker.
MOST_ROUNDS_LATE = 10
# So often groups go to workers that have joined.
ROUNDS_BETWEEN_MOVES = 5


class PartitionedTerm(Term):
    """The sum of the losses of all partitions; each group of them is a block.

    Parameters
    ----------
    cluster : Cluster
        With its groups.
    n_outputs : int
        How many functions are learned.
    sizes : (n_groups,) array of int
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
        packed, *found = zip(*self.cluster.all_of(plane, pack(f)), strict=True)
        normals = np.stack([each.written(len(f)) for each in packed])
        offsets, upper, heights = (np.array(each) for each in found)
        return Planes(normals[blocks], offsets[blocks], upper[blocks], heights[blocks])

    def values(self, space: Space, f: Element) -> tuple[np.ndarray, np.ndarray]:
        upper, attained = np.array(self.cluster.all_of(value, pack(f))).T
        return upper, attained

    def rows_of(self, blocks: Rows) -> int:
        return int(self.sizes[blocks].sum())

    def idle(self) -> list[int]:
        """The groups that have nothing to answer at present."""
        return [p for p in range(self.n_blocks) if p not in self._calls]

    def ask(
        self, f: Element, questions: Mapping[int, Request], out_of_time: OutOfTime
    ) -> list[Response]:
        """Ask groups about a function, and return the answers that have come by the end of the round.

        The round ends when all have answered. It does not wait for groups that take several times as
        long as the others: their answers come in a later round.
        """
        self._round += 1
        self.cluster.begin_round()
        if self._round % ROUNDS_BETWEEN_MOVES == 0:
            self.cluster.balance(questions)
        told = pack(f)
        for p, question in questions.items():
            self._calls[p] = self.cluster.call(p, ask, (told, question), self._round)
        began, times, answers = time.perf_counter(), [], []
        while self._calls:
            rounds = {p: call.round for p, call in self._calls.items()}
            for p, answer in self.cluster.finished(self._calls).items():
                answers.append(replace(answer, late=rounds[p] != self._round))
                if rounds[p] == self._round:
                    times.append(time.perf_counter() - began)
            if out_of_time() or is_late(time.perf_counter() - began, times, len(questions)):
                break
        self._give_away()
        return sorted(answers, key=lambda answer: answer.number)

    def _give_away(self) -> None:
        """Give groups that are very late to other workers."""
        for p, call in list(self._calls.items()):
            if self._round - call.round >= MOST_ROUNDS_LATE:
                self._calls[p] = replace(self.cluster.give_away(p, call), round=self._round)
