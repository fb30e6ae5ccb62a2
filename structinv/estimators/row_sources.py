"""Rows that estimators read in blocks: checks, and answers for one block after the other."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from os import PathLike
from typing import Any

import numpy as np
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import check_is_fitted, column_or_1d

from ..oracles import InvarianceOracle
from ..rows import RowSource
from ..rows.reading_ahead import read_ahead
from ..terms.blockwise_term import BlockSizes
from ..utils.matrices import Matrix, stack
from ..utils.parameters import check_number
from ..utils.resources import free_memory
from .row_shapes import check_suits
from .target_labels import as_labels, check_one_kind

DEFAULT_SIZES = BlockSizes()
# The share of the free memory that a fit without a limit may take.
MOST_OF_FREE = 0.8
# Shares of the room for blocks, and for rows that stay in memory: each of these saves more passes.
OF_BLOCKS, OF_KEPT = 0.15, 0.5
# Codes and weights of the labels, and the weights that a solution keeps.
BYTES_OF_A_ROW = 24
# Packed dual variables of a row of which some ten words are changed.
PACKED_BYTES_OF_A_ROW = 128
# No block is to have fewer stored values.
LEAST_VALUES = 2**16
# Stored values are counted by so many, for estimates.
COUNTED_BY = 2**20
_SIZE = re.compile(r"(\d+(?:\.\d*)?)\s*([KkMmGgTt]?[Ii]?[Bb])")
_UNITS = {"b": 1.0}
_UNITS |= {f"{unit}b": 1000.0**power for power, unit in enumerate("kmgt", start=1)}
_UNITS |= {f"{unit}ib": 1024.0**power for power, unit in enumerate("kmgt", start=1)}


def refuse_sources(estimator: Any, X: Any) -> None:
    """Raise TypeError for rows that are read in blocks."""
    if isinstance(X, RowSource):
        raise TypeError(
            f"X must be an array or a matrix for {type(estimator).__name__}, got {X!r}: rows are read "
            "in blocks by InvariantLinearSVC and InvariantLinearSVR"
        )


def refuse_paths(X: Any) -> None:
    """Raise TypeError for the name of a file or folder in the place of rows."""
    if isinstance(X, (str, PathLike)):
        raise TypeError(
            f"X must hold rows, got the path {str(X)!r}: structinv.rows.RowFolder(path) opens a folder "
            "of rows"
        )


def labels_of_source(estimator: Any, X: RowSource, y: Any) -> np.ndarray:
    """Checked labels or targets of all rows of a source; the estimator learns how many features it has.

    Raises
    ------
    TypeError, ValueError
        Unless there is one label a row, all of one kind, and none is missing.
    """
    if y is None:
        raise ValueError(
            f"{type(estimator).__name__} requires y to be passed, but the target y is None; a RowFolder "
            "has labels"
        )
    y = column_or_1d(as_labels(y), warn=True)
    if len(y) != X.shape[0]:
        raise ValueError(f"y must have a label for each of the {X.shape[0]} rows, got {len(y)}")
    check_one_kind(y)
    if y.dtype.kind == "f" and not np.isfinite(y).all():
        raise ValueError("y must hold finite numbers, got NaN or infinity")
    estimator.n_features_in_ = X.shape[1]
    return y


def source_for_oracle(X: RowSource, oracle: InvarianceOracle) -> RowSource:
    """Rows in blocks in the form that an oracle takes; see `for_oracle`."""
    check_suits(oracle, X.sparse, X.shape[1], "rows of dense blocks")
    return X


def check_source(estimator: Any, X: RowSource) -> RowSource:
    """Rows in blocks with as many features as those of `fit`."""
    check_is_fitted(estimator)
    if X.shape[1] != estimator.n_features_in_:
        raise ValueError(
            f"X has {X.shape[1]} features, but {type(estimator).__name__} is expecting "
            f"{estimator.n_features_in_} features as input"
        )
    return X


def in_blocks(
    X: RowSource, answer: Callable[[Matrix, slice], Any], most_values: int | None = None
) -> Iterator[Any]:
    """The answers about the blocks of a source, from the first rows to the last ones."""
    cuts = X.cuts(BlockSizes.values if most_values is None else most_values)
    for cut, rows in zip(cuts, read_ahead(X, [[cut] for cut in cuts]), strict=True):
        yield answer(rows, cut)


def sample_of(X: Any) -> Matrix:
    """The first block of rows in blocks; a matrix as it is."""
    return X.block(0, int(X.edges(BlockSizes.values)[1])) if isinstance(X, RowSource) else X


def some_rows(X: Any, rows: np.ndarray) -> Matrix:
    """A few rows of a source or of a matrix, by their numbers."""
    if isinstance(X, RowSource):
        return stack([X.block(row, row + 1) for row in rows.tolist()])
    return _safe_indexing(X, rows)


def block_sizes(
    X: RowSource, functions: float, limit: float | None, sizes: BlockSizes = DEFAULT_SIZES
) -> BlockSizes:
    """What may be in memory at a time, for a fit of at most so many bytes.

    Parameters
    ----------
    X : RowSource
    functions : float
        Bytes of the functions that a solver holds.
    limit : float or None
        None stands for most of the memory that is free.
    sizes : BlockSizes
        No more than these.

    Raises
    ------
    MemoryError
        If the limit leaves no room for a block of rows.
    """
    most = MOST_OF_FREE * free_memory() if limit is None else limit
    fixed = BYTES_OF_A_ROW * X.shape[0] + functions
    room, each = most - fixed, X.dtype.itemsize
    # Two blocks of rows, the dual variables of one, and what is made on the way.
    values = OF_BLOCKS * room / (5 * each + 8)
    least = min(LEAST_VALUES, sizes.values)
    if values < least:
        what = "the memory that is free" if limit is None else f"memory_limit={limit:g}"
        blocks = least * (5 * each + 8) / OF_BLOCKS
        # Hundredths of a MB, rounded so that the sum is that of its parts and more than the limit.
        own, rest = math.ceil(fixed / 1e4), math.ceil(blocks / 1e4)
        raise MemoryError(
            f"{what} must leave room for blocks of rows: labels and functions of {X.shape[0]} rows of "
            f"{X.shape[1]} features take {own / 100:.2f} MB, and blocks at least {rest / 100:.2f} MB; "
            f"that is {(own + rest) / 100:.2f} MB, got {math.floor(most / 1e4) / 100:.2f} MB"
        )
    kept = OF_KEPT * room / (2 * each + 8)
    packed = (1.0 - OF_BLOCKS - OF_KEPT) * room
    return BlockSizes(int(min(sizes.values, values)), int(min(sizes.kept, kept)), packed)


def as_bytes(limit: Any) -> float | None:
    """A limit of memory in bytes; None for none.

    Raises
    ------
    TypeError, ValueError
        For anything but None, a number above 0, or a string like "4GB" or "500 MiB".

    Examples
    --------
    >>> as_bytes("4GiB"), as_bytes(1e9), as_bytes(None)
    (4294967296.0, 1000000000.0, None)
    """
    if limit is None:
        return None
    if isinstance(limit, str):
        found = _SIZE.fullmatch(limit.strip())
        if found is None:
            raise ValueError(
                f"memory_limit must be None, a number of bytes, or a string like '4GB', got {limit!r}"
            )
        limit = float(found[1]) * _UNITS[found[2].lower()]
    check_number("memory_limit", limit, strict=True)
    return float(limit)


def memory_of_blocks(X: RowSource, functions: float, limit: float | None) -> float:
    """About how many bytes a fit on rows in blocks takes at most, without files."""
    sizes, each = block_sizes(X, functions, limit), X.dtype.itemsize
    n_values = (len(X.edges(COUNTED_BY)) - 1) * float(COUNTED_BY)
    blocks, kept = (min(size, n_values) for size in (sizes.values, sizes.kept))
    fixed = BYTES_OF_A_ROW * X.shape[0] + functions
    packed = min(sizes.packed, PACKED_BYTES_OF_A_ROW * X.shape[0])
    return float(fixed + blocks * (5 * each + 8) + kept * (2 * each + 8) + packed)
