"""Examples of several rows as users give them: lists of blocks of rows, and of labels."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..utils.matrices import Matrix, refuse_masked, stack

# What is no list of anything, though it can be gone through.
NO_LIST = (str, bytes, dict, set, frozenset)
# What to do instead of masking or leaving out, by what is masked.
MASKS = {
    "y": "fill in any of the labels, and give such positions a position_weight of 0",
    "position_weight": "write 0 for positions that count nothing",
    "sample_weight": "write 0 for examples that count nothing",
}


def as_list(name: str, given: Any, what: str) -> list[Any]:
    """The items of a list, tuple or array, one an example.

    Raises
    ------
    TypeError, ValueError
        If it is none, or holds nothing.
    """
    if sp.issparse(given) or not _is_list(given):
        raise TypeError(f"{name} must be a list with {what} for each example, got {kind_of(given)}")
    check_no_mask(name, given)
    items = list(given)
    if not items:
        raise ValueError(f"{name} must hold at least one example, got none")
    return items


def _is_list(given: Any) -> bool:
    """Whether something has items in an order; an array without dimensions has none."""
    listed = hasattr(given, "__len__") and getattr(given, "shape", None) != ()
    return listed and not isinstance(given, NO_LIST)


def check_no_mask(name: str, given: Any) -> None:
    """`refuse_masked`, with what to do instead."""
    kind = name.partition("[")[0]
    refuse_masked(name, given, MASKS.get(kind, "fill in what it hides, or leave it out"))


def as_blocks(X: Any) -> list[Any]:
    """The blocks of rows of a list of examples; TypeError for one matrix, whose rows are none."""
    if getattr(X, "ndim", 1) == 2:
        raise TypeError(
            f"X must be a list with rows for each example, got one matrix of shape {X.shape}: a single "
            "example is given as [x], its labels as [y]; rows that are labeled each by itself are for "
            "InvariantLinearSVC and InvariantSVC"
        )
    return as_list("X", X, "rows")


def stacked(blocks: Sequence[Any], n_features: int | None = None) -> tuple[Matrix, np.ndarray]:
    """Blocks of rows, one below the other, and how many rows each has.

    Parameters
    ----------
    blocks : list of (n_i, d) arrays or sparse matrices
        All of them sparse, or none.
    n_features : int, optional
        How many features they must have; as many as the first has, by default.

    Returns
    -------
    rows : (n, d) array or CSR matrix
        In float32 if all blocks are, in float64 otherwise.
    sizes : (n_blocks,) array of int

    Raises
    ------
    TypeError, ValueError
        If a block is no matrix of finite numbers, or has other features; the message says which.

    Examples
    --------
    >>> rows, sizes = stacked([np.ones((2, 3)), np.zeros((1, 3))])
    >>> rows.shape, sizes
    ((3, 3), array([2, 1]))
    """
    wanted, made = n_features, []
    sparse = sp.issparse(blocks[0])
    for i, block in enumerate(blocks):
        if sp.issparse(block) != sparse:
            raise TypeError(
                "X must hold sparse matrices only, or arrays only: "
                f"X[0] is {kind_of(blocks[0])}, X[{i}] {kind_of(block)}"
            )
        found: Any = block if sparse else _array(i, block)
        if found.dtype.kind not in "biuf":
            raise TypeError(f"X[{i}] must hold numbers, got dtype {found.dtype}")
        if found.ndim != 2:
            raise ValueError(
                f"X[{i}] must have two dimensions, a row for each position and a column for each "
                f"feature, got shape {found.shape}; a single example is given as [x]"
            )
        wanted = found.shape[1] if wanted is None else wanted
        if found.shape[1] != wanted:
            known = "as in fit" if n_features is not None else "as X[0] has"
            raise ValueError(f"X[{i}] must have {wanted} features, {known}, got {found.shape[1]}")
        made.append(found)
    if wanted == 0:
        raise ValueError("X must have at least one feature, got 0")
    sizes = np.array([block.shape[0] for block in made], dtype=np.int64)
    single = all(block.dtype == np.float32 for block in made)
    rows = _joined(made, np.dtype(np.float32 if single else np.float64))
    _check_finite(rows, sizes)
    return rows, sizes


def _array(i: int, block: Any) -> np.ndarray:
    check_no_mask(f"X[{i}]", block)
    try:
        found = np.asarray(block)
    except ValueError:
        hint = "; Graph() takes (rows, edges)" if isinstance(block, tuple) else ""
        raise ValueError(f"X[{i}] must have rows of one length, got {kind_of(block)}{hint}") from None
    if found.dtype.kind == "O":
        try:
            found = found.astype(np.float64)
        except (TypeError, ValueError):
            hint = "; a single example is given as [x]" if isinstance(block, Mapping) else ""
            raise TypeError(
                f"X[{i}] must hold rows of numbers, all of them dicts, or all lists of strings, "
                f"got {kind_of(block)}{hint}"
            ) from None
    return found


def _joined(blocks: list[Any], dtype: np.dtype) -> Matrix:
    if not sp.issparse(blocks[0]):
        return np.concatenate(blocks).astype(dtype, copy=False)
    rows = sp.csr_matrix(stack([sp.csr_matrix(block) for block in blocks]), dtype=dtype)
    if not rows.has_canonical_format:
        # A single block may share its arrays with what the user gave.
        rows = rows.copy()
        rows.sum_duplicates()
    return rows


def _check_finite(rows: Matrix, sizes: np.ndarray) -> None:
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
        i = int(np.searchsorted(np.cumsum(sizes), bad[0], side="right"))
        raise ValueError(f"X[{i}] must hold finite numbers, got NaN or infinity")


def flat_labels(y: Any, sizes: np.ndarray) -> np.ndarray:
    """The labels of all examples, one behind the other.

    Parameters
    ----------
    y : list of lists or arrays
        A label for each position of each example, of any hashable kind except None.
    sizes : (n_blocks,) array of int
        How many positions each example has.

    Returns
    -------
    (n,) array
        Of objects unless all labels are of one simple kind.

    Raises
    ------
    TypeError, ValueError
        If labels are not hashable, or there is not one a position; the message says where.

    Examples
    --------
    >>> flat_labels([["a", "b"], ["a"]], np.array([2, 1]))
    array(['a', 'b', 'a'], dtype='<U1')
    """
    items = _of_examples("y", y, "labels")
    if len(items) != len(sizes):
        raise ValueError(f"y must have labels for each of {len(sizes)} examples, got {len(items)}")
    for i, (labels, size) in enumerate(zip(items, sizes, strict=True)):
        if not _is_list(labels):
            raise TypeError(f"y[{i}] must be a list of labels, got {kind_of(labels)}")
        check_no_mask(f"y[{i}]", labels)
        # Data frames have columns where labels should be.
        if getattr(labels, "ndim", 1) != 1:
            raise ValueError(f"y[{i}] must have one dimension, got shape {tuple(labels.shape)}")
        if len(labels) != size:
            raise ValueError(f"y[{i}] must have a label for each of {size} rows, got {len(labels)}")
    return _one_array(items)


def _one_array(items: list[Any]) -> np.ndarray:
    kinds = {item.dtype.kind if isinstance(item, np.ndarray) else "" for item in items}
    if len(kinds) == 1 and kinds <= {"i", "u", "b", "U"}:
        return np.concatenate(items)
    if kinds == {"f"} and not any(np.isnan(item).any() for item in items):
        return np.concatenate(items)
    labels = list(chain.from_iterable(each.tolist() if _is_array(each) else each for each in items))
    types = set(map(type, labels))
    if all(issubclass(kind, str) for kind in types):
        # NumPy's strings have no zeros at their ends.
        if not any(label.endswith("\0") for label in set(labels)):
            return np.array(labels)
    elif types <= {bool}:
        return np.array(labels)
    elif all(issubclass(kind, (int, np.integer)) and kind is not bool for kind in types):
        # Beyond 64 bits, or with and without a sign, NumPy would make floats of them.
        found = np.array(labels)
        if found.dtype.kind in "iu":
            return found
    if types <= {float} and not any(map(np.isnan, labels)):
        return np.array(labels)
    owners = np.repeat(np.arange(len(items)), [len(each) for each in items])
    for label, owner in zip(labels, owners, strict=True):
        try:
            hash(label)
        except TypeError:
            raise TypeError(f"y[{owner}] must hold labels, got {kind_of(label)}: {label!r}") from None
        if label is None or not _equals_itself(label):
            raise ValueError(f"y[{owner}] must hold labels, got {label!r}: {MASKS['y']}")
    found = np.empty(len(labels), dtype=object)
    found[:] = labels
    return found


def _equals_itself(label: Any) -> bool:
    """Whether a label is one: NaN is not equal to itself, and pandas' NA does not say."""
    try:
        return bool(label == label)
    except (TypeError, ValueError):
        return False


def _is_array(each: Any) -> bool:
    return isinstance(each, np.ndarray)


def _of_examples(name: str, given: Any, what: str) -> list[Any]:
    """`as_list`, and TypeError for a data frame, which would be gone through by its columns."""
    if hasattr(given, "columns"):
        raise TypeError(f"{name} must be a list with {what} for each example, got {kind_of(given)}")
    return as_list(name, given, what)


def sorted_classes(labels: np.ndarray) -> np.ndarray:
    """Each label once: sorted where they can be, else in the order of their appearance.

    Examples
    --------
    >>> sorted_classes(np.array([2, 0, 2])), sorted_classes(np.array(["b", 1, "b"], dtype=object))
    (array([0, 2]), array(['b', 1], dtype=object))
    """
    if labels.dtype != object:
        return np.unique(labels)
    each = list(dict.fromkeys(labels.tolist()))
    with suppress(TypeError):
        each = sorted(each)
    classes = np.empty(len(each), dtype=object)
    classes[:] = each
    return classes


def flat_numbers(name: str, given: Any, sizes: np.ndarray) -> np.ndarray:
    """Numbers for all positions, given by example as labels are; they may all be 0.

    Raises
    ------
    TypeError, ValueError
        If there is not a finite number of at least 0 a position; the message says where.
    """
    items = _of_examples(name, given, "numbers")
    if len(items) != len(sizes):
        raise ValueError(f"{name} must have numbers for each of {len(sizes)} examples, got {len(items)}")
    made = []
    for i, (each, size) in enumerate(zip(items, sizes, strict=True)):
        numbers = _numbers(f"{name}[{i}]", each)
        if numbers.shape != (size,):
            raise ValueError(
                f"{name}[{i}] must have a number for each of {size} positions, shape ({size},), "
                f"got shape {numbers.shape}"
            )
        made.append(_not_negative(f"{name}[{i}]", numbers))
    return np.concatenate(made)


def example_weights(given: Any, n_examples: int) -> np.ndarray:
    """The `sample_weight` of examples, of which one is above 0; see `part_of_weights`.

    Raises
    ------
    TypeError, ValueError
        If there is not a finite number of at least 0 an example, or none is above 0; the message says
        where.

    Examples
    --------
    >>> example_weights(None, 2), example_weights([0.5, 2], 2)
    (array([1., 1.]), array([0.5, 2. ]))
    >>> example_weights([1.0, -2.0], 2)
    Traceback (most recent call last):
        ...
    ValueError: sample_weight[1] must be a finite number of at least 0, got -2.0
    """
    found = part_of_weights(given, n_examples)
    check_some("sample_weight", found, "an example")
    return found


def check_some(name: str, numbers: np.ndarray, what: str) -> None:
    """Raise ValueError unless some weight is above 0."""
    if not np.any(numbers > 0):
        raise ValueError(f"{name} must leave {what} with a weight above 0")


def part_of_weights(given: Any, n_examples: int) -> np.ndarray:
    """The `sample_weight` of some examples; 1 for each without any, and a number is that of all.

    Raises
    ------
    TypeError, ValueError
        If there is not a finite number of at least 0 an example; the message says where.
    """
    found = np.ones(()) if given is None else _numbers("sample_weight", given)
    if found.shape not in ((), (n_examples,)):
        raise ValueError(
            f"sample_weight must have a number for each of {n_examples} examples, shape "
            f"({n_examples},), got shape {found.shape}"
        )
    return np.array(np.broadcast_to(_not_negative("sample_weight", found), n_examples))


def _numbers(name: str, given: Any) -> np.ndarray:
    check_no_mask(name, given)
    try:
        return np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"{name} must hold numbers, got {kind_of(given)}") from None


def _not_negative(name: str, numbers: np.ndarray) -> np.ndarray:
    """The numbers, or ValueError for the first that is no finite number of at least 0."""
    bad = np.flatnonzero(~(np.isfinite(numbers) & (numbers >= 0)))
    if len(bad):
        place = f"[{bad[0]}]" if numbers.ndim else ""
        value = numbers.ravel()[bad[0]]
        raise ValueError(f"{name}{place} must be a finite number of at least 0, got {value}")
    return numbers


class Reader:
    """Makes rows of what users give for examples, by the rules of whoever asks.

    Parameters
    ----------
    examples : callable
        From a list of blocks to rows and sizes, as `stacked`.
    matrix : callable
        From an (n, d) matrix to checked rows.
    """

    def __init__(
        self,
        examples: Callable[[Sequence[Any]], tuple[Matrix, np.ndarray]],
        matrix: Callable[[Any], Matrix],
    ) -> None:
        self.examples = examples
        self.matrix = matrix


def kind_of(value: Any) -> str:
    """What something is, for messages."""
    if isinstance(value, np.ndarray):
        return f"an array of shape {value.shape}"
    return f"a {type(value).__name__}"
