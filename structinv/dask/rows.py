"""Rows in partitions on a cluster, for the time of one fit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np
from dask.delayed import delayed
from distributed import Client

from .cluster import Cluster
from .partition import Block, Facts, Part, Recipe, alike, facts, fingerprint, numbered_block


class DistributedRows:
    """Rows, labels and weights in partitions. Workers hold them until the context ends.

    Its pickle is a fingerprint of the data.

    Parameters
    ----------
    client : distributed.Client
    partitions : list of tuple
        Rows, labels and weights of each partition, as delayed objects or futures. Without labels, the
        first is a pair or a triple of all.

    Attributes
    ----------
    cluster : Cluster
    facts : list of Facts
        Of the partitions that have rows.
    """

    def __init__(self, client: Client, partitions: Sequence[tuple[Any, Any, Any]]) -> None:
        self.cluster = Cluster(client)
        self.partitions = list(partitions)
        self.facts: list[Facts] = []
        self._blocks: list[Any] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._blocks = []
        self.cluster.close()

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and number of features."""
        return sum(each.shape[0] for each in self.facts), self.facts[0].shape[1]

    @property
    def dtype(self) -> np.dtype:
        """Of all rows together."""
        return np.result_type(*(each.dtype for each in self.facts))

    @property
    def sparse(self) -> bool:
        """Whether any partition is sparse."""
        return any(each.sparse for each in self.facts)

    def look(self, summarize: Callable[[Block], Any]) -> None:
        """Check all partitions on the workers, and learn the facts about them.

        Raises
        ------
        ValueError, TypeError
            If rows, labels or weights cannot be used. The message names the first partition.
        """
        submit = self.cluster.client.submit
        given = self.cluster.client.compute([_as_one(each) for each in self.partitions])
        blocks = [submit(numbered_block, p, each, pure=False) for p, each in enumerate(given)]
        asked = [submit(facts, p, block, summarize, pure=False) for p, block in enumerate(blocks)]
        found = self.cluster.computed(asked)
        kept = alike(found)
        self._blocks = [blocks[p] for p in kept]
        self.facts = list(kept.values())

    def bind(self, recipe: Recipe) -> None:
        """Make all partitions ready for a fit."""
        client = self.cluster.client
        parts = [
            client.submit(Part, p, block, recipe, pure=False) for p, block in enumerate(self._blocks)
        ]
        self.cluster.computed([client.submit(_ready, part, pure=False) for part in parts])
        self.cluster.settle(parts)

    def __getstate__(self) -> dict[str, Any]:
        submit = self.cluster.client.submit
        told = [submit(fingerprint, block, pure=False) for block in self._blocks]
        return {"shape": self.shape, "partitions": self.cluster.computed(told)}


def _as_one(partition: tuple[Any, Any, Any]) -> Any:
    X, y, weights = partition
    return delayed(_together, pure=False)(X, y, weights)


def _together(X: Any, y: Any, weights: Any) -> tuple[Any, ...]:
    if y is None:
        return tuple(X)
    return X, y, weights


def _ready(part: Part) -> bool:
    return True
