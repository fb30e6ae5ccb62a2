"""Dask collections as lists of partitions, and rows of partitions during a fit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Self

import dask.array as da
import numpy as np
import scipy.sparse as sp
from dask.bag import Bag
from dask.base import is_dask_collection
from dask.delayed import Delayed, delayed
from distributed import Client, Future

from .cluster import Cluster, release
from .group import grouped, prepare
from .partition import Block, Facts, Recipe, check_consistent, facts, numbered_block


def is_collection(X: Any) -> bool:
    """Return True for a Dask collection, or a list of delayed objects or futures."""
    if isinstance(X, (list, tuple)):
        return len(X) > 0 and all(isinstance(each, (Delayed, Future)) for each in X)
    return bool(is_dask_collection(X)) and not isinstance(X, Delayed)


def in_partitions(X: Any) -> bool:
    """Return True for a Dask collection, and reject similar objects."""
    if isinstance(X, (Delayed, Future)):
        raise TypeError(
            "X must be a Dask collection, or a list of delayed objects or futures, got a single one: "
            "pass [X]"
        )
    if is_collection(X):
        return True
    if isinstance(X, (list, tuple)):
        for each in X:
            if is_dask_collection(each) or isinstance(each, Future):
                raise TypeError(
                    "X must be a Dask collection, or a list of delayed objects or futures, got a "
                    f"{type(X).__name__} with a {type(each).__name__} in it: concatenate collections, "
                    "or wrap all blocks in dask.delayed"
                )
    return False


def refuse_blocks(X: Any) -> None:
    """Raise TypeError for a list of matrices, which is neither rows nor partitions."""
    if not isinstance(X, (list, tuple)) or not X:
        return
    if all(not isinstance(each, (list, tuple)) and np.ndim(each) == 2 for each in X):
        raise TypeError(
            "X must be a Dask collection, a list of delayed objects or futures, or one matrix, "
            f"got a list of {type(X[0]).__name__}: wrap each block in dask.delayed"
        )


def check_width(X: Any, n_features: int) -> None:
    """Raise ValueError if the known number of features differs from that of `fit`.

    Sparse arrays may lack features at the end.
    """
    if not has_rows(X):
        return
    if len(X.shape) != 2:
        raise ValueError(f"X must have two dimensions, got shape {X.shape}")
    width = X.shape[1]
    lacks_some = isinstance(X, da.Array) and sp.issparse(X._meta) and width < n_features
    if width != n_features and not np.isnan(width) and not lacks_some:
        raise ValueError(f"X must have {n_features} features, as in fit, got {width}")


def precision(X: Any) -> np.dtype:
    """Return float32 for arrays and DataFrames of float32, otherwise float64."""
    if not has_rows(X):
        return np.dtype(np.float64)
    kinds = [X.dtype] if isinstance(X, da.Array) else list(X.dtypes)
    single = all(kind == np.float32 for kind in kinds)
    return np.dtype(np.float32 if single else np.float64)


def refuse_bags(X: Any) -> None:
    """Raise TypeError for a bag, whose items are not rows."""
    if isinstance(X, Bag):
        raise TypeError(
            "X must be a Dask array or DataFrame, or a list of delayed objects or futures, "
            f"got {type(X).__name__}"
        )


def check_collection(name: str, X: Any) -> None:
    """Raise TypeError for data that are not in partitions."""
    if not is_collection(X):
        raise TypeError(
            f"{name} must be a Dask collection, or a list of delayed objects or futures, "
            f"got {type(X).__name__}"
        )


def pieces(name: str, X: Any) -> list[Any]:
    """Return each partition of a collection as a delayed object or a future."""
    check_collection(name, X)
    if isinstance(X, (list, tuple)):
        return list(X)
    if isinstance(X, Bag):
        # Partitions of a bag may be iterators, which can be read only once.
        return [delayed(list, pure=False)(each) for each in X.to_delayed()]
    if isinstance(X, da.Array) and X.ndim > 1 and X.numblocks[1] > 1:
        # All features of a row must be in one block.
        X = X.rechunk({1: -1})
    return list(np.ravel(X.to_delayed()))


def cut_like(name: str, given: Any, X: Any, n: int) -> list[Any]:
    """Return the partitions of labels or weights, cut like the rows."""
    if isinstance(given, da.Array) and isinstance(X, da.Array) and given.chunks[0] != X.chunks[0]:
        known = not np.isnan([*given.chunks[0], *X.chunks[0]]).any()
        if known and sum(given.chunks[0]) == sum(X.chunks[0]):
            given = given.rechunk({0: X.chunks[0]})
    parts = pieces(name, given)
    if len(parts) != n:
        raise ValueError(f"{name} must have as many partitions as X, which has {n}, got {len(parts)}")
    return parts


def has_rows(X: Any) -> bool:
    """Return True for an array or DataFrame, whose items are rows."""
    return not isinstance(X, (list, tuple, Bag))


def as_array(parts: Sequence[Delayed], X: Any, meta: Any) -> da.Array:
    """Join blocks with one entry per row to a lazy array."""
    lengths = X.chunks[0] if isinstance(X, da.Array) else [np.nan] * len(parts)
    arrays = [
        da.from_delayed(part, shape=(length, *meta.shape[1:]), meta=meta)
        for part, length in zip(parts, lengths, strict=True)
    ]
    return da.concatenate(arrays, allow_unknown_chunksizes=True)


def partitions_of(X: Any, y: Any, **weights: Any) -> list[tuple[Any, ...]]:
    """Return samples, labels and weights of each partition."""
    return _of_pairs(X, pieces("X", X)) if y is None else cut_alike(X, y=y, **weights)


def cut_alike(X: Any, **others: Any) -> list[tuple[Any, ...]]:
    """Return each partition of X with those of other collections, or with None."""
    parts = pieces("X", X)
    n = len(parts)
    cut = [[None] * n if each is None else cut_like(name, each, X, n) for name, each in others.items()]
    return list(zip(parts, *cut, strict=True))


def _of_pairs(X: Any, parts: list[Any]) -> list[tuple[Any, ...]]:
    """Return partitions of samples together with labels and weights."""
    if isinstance(X, Bag):
        return [(delayed(_columns, pure=False)(each),) for each in parts]
    if not isinstance(X, (list, tuple)):
        raise ValueError(
            "y must not be None: pass y, or a list or bag of pairs of samples and labels as X"
        )
    return [(each,) for each in parts]


def _columns(items: list[Any]) -> tuple[list[Any], ...]:
    """Return the columns of a list of tuples: samples, labels and weights."""
    if not items:
        return [], []
    for i, item in enumerate(items):
        if not isinstance(item, (list, tuple)) or len(item) < 2 or len(item) != len(items[0]):
            raise ValueError(
                f"item {i} must be a tuple (samples, labels) or (samples, labels, weights), of the "
                f"same length as the first item, got a {type(item).__name__}: pass y for labels in a "
                "separate collection"
            )
    return tuple(list(each) for each in zip(*items, strict=True))


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
        blocks = []
        for p in numbers:
            read = delayed(partial(numbered_block, p, self._read), pure=False)
            parts = self.partitions[p]
            # A single part is a tuple of samples, labels and weights.
            blocks.append(read(parts[0] if len(parts) == 1 else list(parts)))
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
