"""Arrays of dual variables per row: parts of them, and joined sets of rows.

The rows are on axis 0. A list of entries per row has several arrays, whose names have a prefix and a
period. ``"words.counts"`` has the number of entries of each row. The others, such as
``"words.places"``, have the entries of all rows, row by row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np

from .matrices import ranges

Arrays: TypeAlias = dict[str, np.ndarray]


def _counts(name: str, arrays: Mapping[str, np.ndarray]) -> np.ndarray | None:
    """Return the number of entries per row of a list; None for arrays with one item per row."""
    prefix, _, part = name.rpartition(".")
    return arrays[f"{prefix}.counts"] if prefix and part != "counts" else None


def nbytes(arrays: Mapping[str, np.ndarray]) -> int:
    """Return the number of bytes of all arrays."""
    return sum(array.nbytes for array in arrays.values())


def join_rows(parts: Sequence[Mapping[str, np.ndarray]]) -> Arrays:
    """Concatenate several sets of rows."""
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def take_rows(arrays: Mapping[str, np.ndarray], rows: np.ndarray) -> Arrays:
    """Return some rows."""
    found = {}
    for name, array in arrays.items():
        places, counts = rows, _counts(name, arrays)
        if counts is not None:
            starts = np.cumsum(counts, dtype=np.int64) - counts
            places, _ = ranges(starts[rows], counts[rows])
        found[name] = array[places]
    return found


def zero_rows(like: Mapping[str, np.ndarray], n_rows: int) -> Arrays:
    """Return zeros and empty lists with the names and kinds of other arrays."""
    found = {}
    for name, array in like.items():
        size = n_rows if _counts(name, like) is None else 0
        found[name] = np.zeros((size, *array.shape[1:]), dtype=array.dtype)
    return found


def put_rows(
    arrays: Mapping[str, np.ndarray], rows: np.ndarray, other: Mapping[str, np.ndarray], n_rows: int
) -> Arrays:
    """Return a copy of the arrays of `n_rows` rows with some of them replaced."""
    places = np.arange(n_rows)
    places[rows] = n_rows + np.arange(len(rows))
    return take_rows(join_rows([arrays, other]), places)


def has_rows(arrays: Mapping[str, np.ndarray], n_rows: int) -> bool:
    """Return whether all arrays have `n_rows` rows, and lists match their counts."""
    for name, array in arrays.items():
        prefix, _, part = name.rpartition(".")
        counts = arrays.get(f"{prefix}.counts", np.zeros(0))
        n_items = np.sum(counts) if prefix and part != "counts" else n_rows
        if np.ndim(array) == 0 or np.ndim(counts) != 1 or len(array) != n_items:
            return False
    return True


def fitting(arrays: Mapping[str, np.ndarray], own: Mapping[str, np.ndarray]) -> Arrays:
    """Return `arrays` with the names, kinds of numbers and rows of `own`.

    Arrays that do not fit or are not finite are replaced by those of `own`, lists as a whole.
    """
    fitted, n_rows = dict(own), {name: len(array) for name, array in own.items()}
    groups: dict[str, list[str]] = {}
    for name in own:
        groups.setdefault(name.rpartition(".")[0] or name, []).append(name)
    for prefix, names in groups.items():
        if not all(name in arrays and _fits(name, arrays[name], own[name]) for name in names):
            continue
        group = {name: arrays[name] for name in names}
        if has_rows(group, n_rows.get(prefix, n_rows.get(f"{prefix}.counts", 0))):
            fitted.update(group)
    return fitted


def _fits(name: str, array: np.ndarray, own: np.ndarray) -> bool:
    """Return whether an array has the dimensions and kind of numbers of another one, and finite ones."""
    kinds = "f" if own.dtype.kind == "f" else "iu"
    known = array.ndim == own.ndim and array.dtype.kind in kinds and bool(np.all(np.isfinite(array)))
    return known and not (name.endswith(".counts") and np.any(array < 0))
