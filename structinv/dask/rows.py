"""Rows in partitions on a cluster, for the time of one fit."""

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
from .partition import Block, Facts, Recipe, alike, facts, fingerprint, numbered_block

# So many parts of a reduction are joined in a task.
FAN_IN = 16


class DistributedRows:
    """Rows, labels and weights in partitions. Workers hold them until the context ends.

    Its pickle is a fingerprint of the data.

    Parameters
    ----------
    client : distributed.Client
    partitions : list of tuple
        Inputs, labels and weights of each partition, as delayed objects or futures, or one that holds
        all of them.

    Attributes
    ----------
    cluster : Cluster
    facts : list of Facts
        Of the partitions that have rows.
    """

    def __init__(self, client: Client, partitions: Sequence[tuple[Any, ...]]) -> None:
        self.cluster = Cluster(client)
        self.partitions = list(partitions)
        self.facts: list[Facts] = []
        self._read: Callable[..., Block]
        # Those that have rows, and their blocks until groups have them.
        self._numbers: list[int] = []
        self._kept: list[Future] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._let_go()
        self.cluster.close()

    def _let_go(self) -> None:
        """Hold no blocks any more."""
        release(self._kept)
        self._kept = []

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and number of features, those of the widest partition."""
        return sum(each.shape[0] for each in self.facts), max(each.shape[1] for each in self.facts)

    @property
    def dtype(self) -> np.dtype:
        """Of all rows together."""
        return np.result_type(*(each.dtype for each in self.facts))

    @property
    def sparse(self) -> bool:
        """Whether any partition is sparse."""
        return any(each.sparse for each in self.facts)

    def look(self, read: Callable[..., Block], summarize: Callable[[Block], Any]) -> None:
        """Check all partitions on the workers, and learn the facts about them.

        Sparse partitions may lack features at the end.

        Parameters
        ----------
        read : callable
            Makes a checked block of what a partition holds.
        summarize : callable
            What is to be known of the labels of a block.

        Raises
        ------
        ValueError, TypeError
            If rows, labels or weights cannot be used. The message names the first partition.
        """
        submit, self._read = self.cluster.client.submit, read
        self._kept = kept = self._made(range(len(self.partitions)), None)
        asked = [submit(facts, p, block, summarize, pure=False) for p, block in enumerate(kept)]
        try:
            known = alike(self.cluster.computed(asked))
        finally:
            release(asked)
        self.facts = list(known.values())
        self._numbers, self._kept = list(known), [kept[p] for p in known]
        release(block for p, block in enumerate(kept) if p not in known)

    def _made(self, numbers: Iterable[int], workers: list[str] | None) -> list[Future]:
        """Blocks of partitions, under names of their own."""
        blocks = [
            delayed(partial(numbered_block, p, self._read), pure=False)(_as_one(self.partitions[p]))
            for p in numbers
        ]
        made: list[Future] = self.cluster.client.compute(
            blocks, workers=workers, allow_other_workers=workers is not None, optimize_graph=False
        )
        return made

    def reduced(self, tell: Callable[[Block], Any], join: Callable[[list[Any]], Any]) -> Any:
        """What all blocks tell, joined in their order on the workers, a few at a time."""
        submit = self.cluster.client.submit
        parts = [submit(tell, block, pure=False) for block in self._kept]
        while len(parts) > 1:
            parts = [
                submit(join, parts[i : i + FAN_IN], pure=False) for i in range(0, len(parts), FAN_IN)
            ]
        return self.cluster.computed(parts)[0]

    def bind(self, recipe: Recipe, n_groups: int) -> list[np.ndarray]:
        """Make all partitions ready for a fit, in groups.

        Parameters
        ----------
        recipe : Recipe
        n_groups : int
            How many groups, if there are as many partitions.

        Returns
        -------
        list of (m,) arrays of int
            The partitions of each group, which lie next to each other and are about equally large.
        """
        members = cut_evenly(np.array([each.nbytes for each in self.facts]), n_groups)
        submit = self.cluster.client.submit

        def make(number: int, home: str, workers: list[str] | None) -> Future:
            own = members[number]
            blocks = [self._kept[p] for p in own] if self._kept else []
            blocks = blocks or self._made([self._numbers[p] for p in own], workers)
            return submit(grouped, number, blocks, recipe, workers=[home], pure=False)

        holders, held = self.cluster.holders(self._kept), []
        for own in members:
            held.append(Counter[str]())
            for p in own:
                held[-1].update(dict.fromkeys(holders[p], self.facts[p].nbytes))
        self.cluster.settle(make, held)
        self.cluster.all_of(prepare)
        # From here on groups alone hold the rows.
        self._let_go()
        return members

    def __getstate__(self) -> dict[str, Any]:
        submit = self.cluster.client.submit
        told = [submit(fingerprint, block, pure=False) for block in self._kept]
        return {"shape": self.shape, "partitions": self.cluster.computed(told)}


def cut_evenly(sizes: np.ndarray, n_groups: int) -> list[np.ndarray]:
    """Numbers of neighbors in groups of about equal sizes, none of which is empty.

    Examples
    --------
    >>> [own.tolist() for own in cut_evenly(np.array([1, 1, 1, 3]), 2)]
    [[0, 1, 2], [3]]
    """
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
