"""Conversion of Dask collections to lists of partitions, and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import dask.array as da
import numpy as np
import scipy.sparse as sp
from dask.bag import Bag
from dask.base import is_dask_collection
from dask.delayed import Delayed, delayed
from distributed import Future


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


def pieces(name: str, X: Any) -> list[Any]:
    """Return each partition of a collection as a delayed object or a future."""
    if not is_collection(X):
        raise TypeError(
            f"{name} must be a Dask collection, or a list of delayed objects or futures, "
            f"got {type(X).__name__}"
        )
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
    parts = pieces("X", X)
    if y is None:
        return _of_pairs(X, parts)
    others = [cut_like("y", y, X, len(parts))]
    for name, each in weights.items():
        others.append([None] * len(parts) if each is None else cut_like(name, each, X, len(parts)))
    return list(zip(parts, *others, strict=True))


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
