"""Collections of Dask as lists of partitions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import dask.array as da
import numpy as np
from dask.bag import Bag
from dask.base import is_dask_collection
from dask.delayed import Delayed
from distributed import Future


def is_collection(X: Any) -> bool:
    """Whether rows are in partitions: a collection of Dask, or a list of delayed objects or futures.

    Examples
    --------
    >>> import dask.array as da
    >>> is_collection(da.ones((4, 2), chunks=2)), is_collection([[1.0, 2.0]])
    (True, False)
    """
    if isinstance(X, (list, tuple)):
        return len(X) > 0 and all(isinstance(each, (Delayed, Future)) for each in X)
    return bool(is_dask_collection(X)) and not isinstance(X, Delayed)


def refuse_bags(name: str, X: Any) -> None:
    """Raise TypeError for a collection whose items are no rows."""
    if isinstance(X, Bag):
        raise TypeError(
            f"{name} must be an array or DataFrame of Dask, or a list of delayed objects or futures, "
            f"got {type(X).__name__}"
        )


def pieces(name: str, X: Any) -> list[Any]:
    """Each partition of a collection as a delayed object or a future.

    Raises
    ------
    TypeError
        If it is none; the message names the argument.
    """
    if not is_collection(X):
        raise TypeError(
            f"{name} must be an array or DataFrame of Dask, or a list of delayed objects or futures, "
            f"got {type(X).__name__}"
        )
    if isinstance(X, (list, tuple)):
        return list(X)
    if isinstance(X, da.Array) and X.ndim > 1 and X.numblocks[1] > 1:
        # All features of a row lie together.
        X = X.rechunk({1: -1})
    return list(np.ravel(X.to_delayed()))


def cut_like(name: str, given: Any, X: Any, n: int) -> list[Any]:
    """Each partition of labels or weights, cut like the rows.

    Raises
    ------
    ValueError
        If they have another number of partitions.
    """
    if isinstance(given, da.Array) and isinstance(X, da.Array) and given.chunks[0] != X.chunks[0]:
        known = not np.isnan([*given.chunks[0], *X.chunks[0]]).any()
        if known and sum(given.chunks[0]) == sum(X.chunks[0]):
            given = given.rechunk({0: X.chunks[0]})
    found = pieces(name, given)
    if len(found) != n:
        raise ValueError(f"{name} must have as many partitions as X, which has {n}, got {len(found)}")
    return found


def heights(X: Any) -> Sequence[float]:
    """How many rows each partition has; NaN where that is not known."""
    return X.chunks[0] if isinstance(X, da.Array) else [np.nan] * len(pieces("X", X))


def as_array(parts: Sequence[Delayed], X: Any, meta: Any) -> da.Array:
    """Blocks with something for each row as an array that is computed when it is asked for.

    Parameters
    ----------
    parts : list of Delayed
        A block for each partition.
    X : collection
        The rows.
    meta : array or sparse matrix
        Without rows; of the type and the width of the blocks.
    """
    arrays = [
        da.from_delayed(part, shape=(height, *meta.shape[1:]), meta=meta)
        for part, height in zip(parts, heights(X), strict=True)
    ]
    return da.concatenate(arrays, allow_unknown_chunksizes=True)


def partitions_of(X: Any, y: Any, sample_weight: Any = None) -> list[tuple[Any, Any, Any]]:
    """Rows, labels and weights of each partition; weights are None without any.

    Parameters
    ----------
    X : dask Array or DataFrame, or list of Delayed or Future
        Without `y`, each item of a list is a pair of rows and labels, or has weights as a third.
    y : dask Array or Series, list of Delayed or Future, or None
    sample_weight : as y

    Raises
    ------
    TypeError, ValueError
        If these are no collections, or have different numbers of partitions.
    """
    rows = pieces("X", X)
    if y is None:
        if not isinstance(X, (list, tuple)):
            raise ValueError("y must be given unless X is a list of pairs of rows and labels, got None")
        return [(each, None, None) for each in rows]
    labels = cut_like("y", y, X, len(rows))
    weights: Sequence[Any] = [None] * len(rows)
    if sample_weight is not None:
        weights = cut_like("sample_weight", sample_weight, X, len(rows))
    return list(zip(rows, labels, weights, strict=True))
