"""Validation of examples of several rows: blocks of rows, and labels."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import chain
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..utils.matrices import Matrix, check_indices, refuse_masked, stack

# Iterable types that are not lists of items.
NO_LIST = (str, bytes, dict, set, frozenset)
# Alternatives to masked arrays, by argument.
MASKS = {
    "y": "fill in any label, and set the position_weight of such positions to 0",
    "position_weight": "pass 0 for positions to ignore",
    "sample_weight": "pass 0 for examples to ignore",
}


def as_list(name: str, given: Any, item: str) -> list[Any]:
    """Return the items of a list, tuple or array, one per example."""
    if sp.issparse(given) or not _is_list(given):
        raise TypeError(f"{name} must be a list with {item} for each example, got {kind_of(given)}")
    check_no_mask(name, given)
    items = list(given)
    if not items:
        raise ValueError(f"{name} must contain at least one example, got 0")
    return items


def _is_list(given: Any) -> bool:
    """Return True for ordered items; an array without dimensions has none."""
    listed = hasattr(given, "__len__") and getattr(given, "shape", None) != ()
    return listed and not isinstance(given, NO_LIST)


def check_no_mask(name: str, given: Any) -> None:
    """Raise TypeError or ValueError for a masked array, with an alternative."""
    kind = name.partition("[")[0]
    refuse_masked(name, given, MASKS.get(kind, "fill in the masked values, or remove them"))


def as_blocks(X: Any) -> list[Any]:
    """Return the blocks of rows of a list of examples; TypeError for one matrix."""
    if getattr(X, "ndim", 1) == 2:
        raise TypeError(
            f"X must be a list with rows for each example, got one matrix of shape {X.shape}: pass a "
            "single example as [x], and its labels as [y]; for separately labeled rows, use "
            "InvariantLinearSVC or InvariantSVC"
        )
    return as_list("X", X, "rows")


def stacked(blocks: Sequence[Any], n_features: int | None = None) -> tuple[Matrix, np.ndarray]:
    """Stack blocks of rows, and return the number of rows of each.

    Shapes: `blocks` (n_i, d); returns `rows` (n, d), `lengths` (n_blocks,).
    """
    required, made = n_features, []
    sparse = sp.issparse(blocks[0])
    for i, block in enumerate(blocks):
        if sp.issparse(block) != sparse:
            raise TypeError(
                "X must contain only sparse matrices or only arrays, "
                f"got {kind_of(blocks[0])} in X[0] and {kind_of(block)} in X[{i}]"
            )
        converted: Any = block if sparse else _array(i, block)
        if converted.dtype.kind not in "biuf":
            raise TypeError(f"X[{i}] must contain numbers, got dtype {converted.dtype}")
        if converted.ndim != 2:
            raise ValueError(
                f"X[{i}] must have two dimensions, one row per position and one column per feature, "
                f"got shape {converted.shape}; pass a single example as [x]"
            )
        check_indices(f"X[{i}]", converted)
        required = converted.shape[1] if required is None else required
        if converted.shape[1] != required:
            source = "as in fit" if n_features is not None else "as X[0] has"
            raise ValueError(f"X[{i}] must have {required} features, {source}, got {converted.shape[1]}")
        made.append(converted)
    if required == 0:
        raise ValueError("X must have at least one feature, got 0")
    lengths = np.array([block.shape[0] for block in made], dtype=np.int64)
    is_single = all(block.dtype == np.float32 for block in made)
    rows = _joined(made, np.dtype(np.float32 if is_single else np.float64))
    _check_finite(rows, lengths)
    return rows, lengths


def _array(i: int, block: Any) -> np.ndarray:
    check_no_mask(f"X[{i}]", block)
    try:
        converted = np.asarray(block)
    except ValueError:
        hint = "; Graph() accepts (rows, edges)" if isinstance(block, tuple) else ""
        raise ValueError(f"X[{i}] must have rows of one length, got {kind_of(block)}{hint}") from None
    if converted.dtype.kind == "O":
        try:
            converted = converted.astype(np.float64)
        except (TypeError, ValueError):
            hint = "; pass a single example as [x]" if isinstance(block, Mapping) else ""
            raise TypeError(
                f"X[{i}] must contain only rows of numbers, only dicts, or only lists of strings, "
                f"got {kind_of(block)}{hint}"
            ) from None
    return converted


def _joined(blocks: list[Any], dtype: np.dtype) -> Matrix:
    if not sp.issparse(blocks[0]):
        return np.concatenate(blocks).astype(dtype, copy=False)
    rows = sp.csr_matrix(stack([sp.csr_matrix(block) for block in blocks]), dtype=dtype)
    if not rows.has_canonical_format:
        # A single block may share its arrays with the argument of the user.
        rows = rows.copy()
        rows.sum_duplicates()
    return rows


def _check_finite(rows: Matrix, lengths: np.ndarray) -> None:
    data: Any = rows.data if sp.issparse(rows) else rows
    with np.errstate(invalid="ignore", over="ignore"):
        total = data.sum(dtype=np.float64)
    if np.isfinite(total):
        return
    if sp.issparse(rows):
        owner = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))
        bad = owner[~np.isfinite(data)]
    else:
        bad = np.flatnonzero(~np.isfinite(data).all(axis=1))
    if len(bad):
        i = int(np.searchsorted(np.cumsum(lengths), bad[0], side="right"))
        raise ValueError(f"X[{i}] must contain finite numbers, got NaN or infinity")


def flat_labels(y: Any, lengths: np.ndarray) -> np.ndarray:
    """Return the labels of all examples, one example after the other.

    Shapes: `lengths` (n_blocks,); returns (n,).
    """
    items = _of_examples("y", y, "labels")
    if len(items) != len(lengths):
        raise ValueError(f"y must have labels for each of {len(lengths)} examples, got {len(items)}")
    for i, (labels, length) in enumerate(zip(items, lengths, strict=True)):
        if not _is_list(labels):
            raise TypeError(f"y[{i}] must be a list of labels, got {kind_of(labels)}")
        check_no_mask(f"y[{i}]", labels)
        # Iteration over a data frame gives columns.
        if getattr(labels, "ndim", 1) != 1:
            raise ValueError(f"y[{i}] must have one dimension, got shape {tuple(labels.shape)}")
        if len(labels) != length:
            raise ValueError(f"y[{i}] must have a label for each of {length} rows, got {len(labels)}")
    return _one_array(items)


def _one_array(items: list[Any]) -> np.ndarray:
    kinds = {item.dtype.kind if isinstance(item, np.ndarray) else "" for item in items}
    if len(kinds) == 1 and kinds <= {"i", "u", "b", "U"}:
        return np.concatenate(items)
    if kinds == {"f"} and not any(np.isnan(item).any() for item in items):
        return np.concatenate(items)
    labels = list(
        chain.from_iterable(each.tolist() if isinstance(each, np.ndarray) else each for each in items)
    )
    types = set(map(type, labels))
    if all(issubclass(kind, str) for kind in types):
        # NumPy strings lose trailing null characters.
        if not any(label.endswith("\0") for label in set(labels)):
            return np.array(labels)
    elif types <= {bool}:
        return np.array(labels)
    elif all(issubclass(kind, (int, np.integer)) and kind is not bool for kind in types):
        # NumPy converts integers beyond 64 bits, or signed and unsigned ones together, to floats.
        joined = np.array(labels)
        if joined.dtype.kind in "iu":
            return joined
    if types <= {float} and not any(map(np.isnan, labels)):
        return np.array(labels)
    owners = np.repeat(np.arange(len(items)), [len(each) for each in items])
    for label, owner in zip(labels, owners, strict=True):
        try:
            hash(label)
        except TypeError:
            raise TypeError(f"y[{owner}] must contain labels, got {kind_of(label)}: {label!r}") from None
        if label is None or not _equals_itself(label):
            raise ValueError(f"y[{owner}] must contain labels, got {label!r}: {MASKS['y']}")
    joined = np.empty(len(labels), dtype=object)
    joined[:] = labels
    return joined


def _equals_itself(label: Any) -> bool:
    """Return False for missing values, such as NaN and pandas' NA."""
    try:
        return bool(label == label)
    except (TypeError, ValueError):
        return False


def _of_examples(name: str, given: Any, item: str) -> list[Any]:
    """Call `as_list`, but raise TypeError for a data frame."""
    # Iteration over a data frame gives columns.
    if hasattr(given, "columns"):
        raise TypeError(f"{name} must be a list with {item} for each example, got {kind_of(given)}")
    return as_list(name, given, item)


def sorted_classes(labels: np.ndarray) -> np.ndarray:
    """Return the distinct labels: sorted, or in order of appearance."""
    if labels.dtype != object:
        return np.unique(labels)
    each = list(dict.fromkeys(labels.tolist()))
    with suppress(TypeError):
        each = sorted(each)
    classes = np.empty(len(each), dtype=object)
    classes[:] = each
    return classes


def flat_numbers(name: str, given: Any, lengths: np.ndarray) -> np.ndarray:
    """Return nonnegative numbers of all positions, given per example like labels.

    All of them may be 0.
    """
    items = _of_examples(name, given, "numbers")
    if len(items) != len(lengths):
        raise ValueError(
            f"{name} must have numbers for each of {len(lengths)} examples, got {len(items)}"
        )
    made = []
    for i, (each, length) in enumerate(zip(items, lengths, strict=True)):
        numbers = _numbers(f"{name}[{i}]", each)
        if numbers.shape != (length,):
            raise ValueError(
                f"{name}[{i}] must have a number for each of {length} positions, shape ({length},), "
                f"got shape {numbers.shape}"
            )
        made.append(_not_negative(f"{name}[{i}]", numbers))
    return np.concatenate(made)


def example_weights(given: Any, n_examples: int) -> np.ndarray:
    """Return the `sample_weight` of examples; at least one must be positive."""
    weights = part_of_weights(given, n_examples)
    check_some("sample_weight", weights, "example")
    return weights


def check_some(name: str, numbers: np.ndarray, item: str) -> None:
    """Raise ValueError unless at least one weight is positive."""
    if not np.any(numbers > 0):
        raise ValueError(f"{name} must be above 0 for at least one {item}")


def part_of_weights(given: Any, n_examples: int) -> np.ndarray:
    """Return the `sample_weight` of some examples: 1 by default; a number is for all."""
    weights = np.ones(()) if given is None else _numbers("sample_weight", given)
    if weights.shape not in ((), (n_examples,)):
        raise ValueError(
            f"sample_weight must have a number for each of {n_examples} examples, shape "
            f"({n_examples},), got shape {weights.shape}"
        )
    return np.array(np.broadcast_to(_not_negative("sample_weight", weights), n_examples))


def _numbers(name: str, given: Any) -> np.ndarray:
    check_no_mask(name, given)
    try:
        return np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"{name} must contain numbers, got {kind_of(given)}") from None


def _not_negative(name: str, numbers: np.ndarray) -> np.ndarray:
    """Return the numbers; raise ValueError for the first negative number, NaN or infinity."""
    bad = np.flatnonzero(~(np.isfinite(numbers) & (numbers >= 0)))
    if len(bad):
        place = f"[{bad[0]}]" if numbers.ndim else ""
        value = numbers.ravel()[bad[0]]
        raise ValueError(f"{name}{place} must be a finite number of at least 0, got {value}")
    return numbers


class Reader(ABC):
    """Conversion of user-given examples to rows, as defined by the estimator."""

    @abstractmethod
    def examples(self, blocks: Sequence[Any]) -> tuple[Matrix, np.ndarray]:
        """Return the rows of all blocks, and the number of rows of each."""

    @abstractmethod
    def matrix(self, X: Any) -> Matrix:
        """Return a matrix with one row for each example."""


def kind_of(value: Any) -> str:
    """Describe the type of a value, for messages."""
    if isinstance(value, np.ndarray):
        return f"an array of shape {value.shape}"
    return f"a {type(value).__name__}"
