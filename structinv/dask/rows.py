"""Rows in partitions on a Dask cluster, during one fit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Self

import numpy as np
from dask.delayed import delayed
from distributed import Client, Future

from .cluster import Cluster, release
from .group import grouped, prepare
from .partition import Block, Facts, Recipe, check_consistent, facts, numbered_block

# Number of parts that one task of a reduction joins.
FAN_IN = 16


class DistributedRows:
    """Context of rows, labels and weights in partitions, cached on workers."""

    def __init__(self, client: Client, partitions: Sequence[tuple[Any, ...]]) -> None:
        self.cluster = Cluster(client)
        self.partitions = list(partitions)
        self.facts: list[Facts] = []
        self._read: Callable[..., Block]
        # The nonempty partitions, and their blocks until they are joined to groups.
        self._numbers: list[int] = []
        self._blocks: list[Future] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._release_blocks()
        self.cluster.close()

    def _release_blocks(self) -> None:
        release(self._blocks)
        self._blocks = []

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows, and largest number of features of a partition."""
        return sum(each.shape[0] for each in self.facts), max(each.shape[1] for each in self.facts)

    @property
    def dtype(self) -> np.dtype:
        """Common dtype of all rows."""
        return np.result_type(*(each.dtype for each in self.facts))

    @property
    def sparse(self) -> bool:
        """True if a partition is sparse."""
        return any(each.sparse for each in self.facts)

    def read(self, read: Callable[..., Block], summarize: Callable[[Block], Any]) -> None:
        """Check all partitions on the workers, and collect the facts about them.

        Sparse partitions may lack features at the end.
        """
        submit, self._read = self.cluster.client.submit, read
        self._blocks = blocks = self._computed(range(len(self.partitions)), None)
        futures = [submit(facts, p, block, summarize, pure=False) for p, block in enumerate(blocks)]
        try:
            filled = check_consistent(self.cluster.computed(futures))
        finally:
            release(futures)
        self.facts = list(filled.values())
        self._numbers, self._blocks = list(filled), [blocks[p] for p in filled]
        release(block for p, block in enumerate(blocks) if p not in filled)

    def _computed(self, numbers: Iterable[int], workers: list[str] | None) -> list[Future]:
        """Compute blocks of partitions, with unique names."""
        blocks = [
            delayed(partial(numbered_block, p, self._read), pure=False)(_as_one(self.partitions[p]))
            for p in numbers
        ]
        futures: list[Future] = self.cluster.client.compute(
            blocks, workers=workers, allow_other_workers=workers is not None, optimize_graph=False
        )
        return futures

    def reduced(self, extract: Callable[[Block], Any], join: Callable[[list[Any]], Any]) -> Any:
        """Extract values from all blocks, and join them in order on the workers."""
        submit = self.cluster.client.submit
        parts = [submit(extract, block, pure=False) for block in self._blocks]
        while len(parts) > 1:
            parts = [
                submit(join, parts[i : i + FAN_IN], pure=False) for i in range(0, len(parts), FAN_IN)
            ]
        return self.cluster.computed(parts)[0]

    def bind(self, recipe: Recipe, n_groups: int) -> list[np.ndarray]:
        """Join the partitions to groups, and prepare the groups for a fit.

        Returns shape (m,).
        """
        members = cut_evenly(np.array([each.nbytes for each in self.facts]), n_groups)
        submit = self.cluster.client.submit

        def make(number: int, home: str, workers: list[str] | None) -> Future:
            group = members[number]
            blocks = [self._blocks[p] for p in group] if self._blocks else []
            blocks = blocks or self._computed([self._numbers[p] for p in group], workers)
            return submit(grouped, number, blocks, recipe, workers=[home], pure=False)

        holders, n_bytes = self.cluster.holders(self._blocks), []
        for group in members:
            n_bytes.append(Counter[str]())
            for p in group:
                n_bytes[-1].update(dict.fromkeys(holders[p], self.facts[p].nbytes))
        self.cluster.settle(make, n_bytes)
        self.cluster.all_of(prepare)
        # From here on only the groups contain the rows.
        self._release_blocks()
        return members


def cut_evenly(sizes: np.ndarray, n_groups: int) -> list[np.ndarray]:
    """Divide consecutive numbers into nonempty groups of about equal total size."""
    n = len(sizes)
    n_groups = min(n, n_groups)
    ends = np.cumsum(sizes)
    cuts, last = [], 0
    for k in range(1, n_groups):
        near = 1 + int(np.argmin(np.abs(ends - ends[-1] * k / n_groups)))
        last = min(max(near, last + 1), n - (n_groups - k))
        cuts.append(last)
    return np.split(np.arange(n), cuts)


def _as_one(partition: tuple[Any, ...]) -> Any:
    if len(partition) == 1:
        return delayed(tuple, pure=False)(partition[0])
    return delayed(_together, pure=False)(*partition)


def _together(*parts: Any) -> tuple[Any, ...]:
    return parts
