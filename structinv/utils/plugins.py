"""Validation of the return values of third-party classes."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Collection
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone

from .exceptions import CheckError
from .matrices import Matrix, check_indices, read_only, rounding, with_data

# Relative tolerance between return values of the same row in two blocks, due to rounding.
_AGAIN = 1e-3
# Prefix of the module names of this package.
_OURS = "structinv."
# Dtypes that compiled functions support.
_PRECISIONS = (np.dtype(np.float64), np.dtype(np.float32))


def method(owner: Any, name: str) -> str:
    """Return the name of a method for messages, such as ``Shifts.orbit``."""
    return f"{type(owner).__name__}.{name}"


def is_third_party(plugin: Any) -> bool:
    """Return True if the class of an object is defined outside this package."""
    return not type(plugin).__module__.startswith(_OURS)


def clone_and_pickle(plugin: Any, name: str) -> tuple[Any, Any]:
    """Return a clone and a restored pickle of a plug-in."""
    try:
        return clone(plugin), pickle.loads(pickle.dumps(plugin))
    except Exception as error:
        raise CheckError(f"{name}: clone and pickle must work: {error}") from error


def writes(plugin: Any, name: str) -> bool:
    """Return True if a class outside this package defines a method of a plug-in."""
    kind = next(kind for kind in type(plugin).__mro__ if name in vars(kind))
    return not kind.__module__.startswith(_OURS)


def ask(plugin: Any, source: str, call: Callable[..., Any], *arguments: Any) -> Any:
    """Return ``call(*arguments)``, with read-only arrays for a third-party plug-in."""
    return ask_third_party(source, call, *arguments) if is_third_party(plugin) else call(*arguments)


def ask_third_party(source: str, call: Callable[..., Any], *arguments: Any) -> Any:
    """Return ``call(*arguments)`` with read-only arrays, as in `ask`."""
    try:
        return call(*map(read_only, arguments))
    except ValueError as error:
        if "read-only" not in str(error):
            raise
        raise ValueError(f"{source} must not change its inputs: copy them first ({error})") from error


def numbers(
    source: str, what: str, value: Any, shape: tuple[int | str, ...], *, finite: bool = True
) -> np.ndarray:
    """Validate a returned array of real numbers; convert to float64 if not float32."""
    array = table(source, what, value, shape)
    if not (all_finite(array) if finite else not np.any(np.isnan(array))):
        bad = "not finite" if finite else "NaN"
        raise ValueError(f"{source} returned {what} that are {bad}")
    return array


def table(source: str, what: str, value: Any, shape: tuple[int | str, ...]) -> np.ndarray:
    """Validate a returned array like `numbers`, but allow NaN and infinity."""
    if not isinstance(value, np.ndarray):
        raise TypeError(
            f"{source} must return {what} as an array of shape {_text(shape)}, got {_kind(value)}"
        )
    if value.dtype.kind not in "fiu":
        raise TypeError(f"{source} must return {what} as real numbers, got dtype {value.dtype}")
    array = np.asarray(value)
    if array.dtype not in _PRECISIONS or not array.dtype.isnative:
        array = array.astype(np.float64)
    if not _fits(array.shape, shape):
        raise ValueError(f"{source} must return {what} of shape {_text(shape)}, got {array.shape}")
    return array


def integers(source: str, what: str, value: Any, shape: tuple[int | str, ...], size: int) -> np.ndarray:
    """Validate a returned array of integers from 0 to ``size - 1``."""
    if not isinstance(value, np.ndarray) or value.dtype.kind not in "iu":
        got = f"dtype {value.dtype}" if isinstance(value, np.ndarray) else _kind(value)
        raise TypeError(f"{source} must return {what} as an array of integers, got {got}")
    if not _fits(value.shape, shape):
        raise ValueError(f"{source} must return {what} of shape {_text(shape)}, got {value.shape}")
    if value.size and (value.min() < 0 or value.max() >= size):
        raise ValueError(
            f"{source} must return {what} from 0 to {size - 1}, got {value.min()} to {value.max()}"
        )
    return np.asarray(value).astype(np.intp, copy=False)


def number(source: str, what: str, value: Any, *, least: float, finite: bool = True) -> float:
    """Validate a returned number, which must be at least `least`."""
    array = np.asarray(value) if np.isscalar(value) or isinstance(value, np.ndarray) else None
    if array is None or array.shape != () or array.dtype.kind not in "fiu":
        raise TypeError(f"{source} must return {what} as a number, got {_kind(value)}")
    result = float(array)
    if not result >= least or (finite and not np.isfinite(result)):
        raise ValueError(f"{source} must return {what} of at least {least:g}, got {result!r}")
    return result


def repeats(source: str, what: str, kept: np.ndarray, ask: Callable[[], np.ndarray]) -> None:
    """Raise ValueError if a call with the last row alone returns other values.

    This usually detects functions that draw at random or depend on other rows.

    Shapes: `kept` (n, ...).
    """
    last = kept[-1:]
    if not last.size:
        return
    again, size = ask(), float(np.max(np.abs(last)))
    if again.shape != last.shape or np.any(np.abs(again - last) > _AGAIN * size):
        raise ValueError(
            f"{source} must return the same {what} for a row in every call and in every block of rows; "
            "they differed when the last row was passed alone. A random function must compute its seed "
            "from the row"
        )


def grades(source: str, value: Any, shape: tuple[int | str, ...]) -> np.ndarray:
    """Validate returned grades, which must be in [0, 1]."""
    array = numbers(source, "grades", value, shape)
    if array.size and (array.min() < 0.0 or array.max() > 1.0 + 1e-9):
        raise ValueError(
            f"{source} must return grades in [0, 1], got {array.min():g} to {array.max():g}"
        )
    return array


def members(source: str, value: Any, X: np.ndarray) -> np.ndarray:
    """Validate a returned list of perturbed samples, with the sample itself first.

    Shapes: `X` (n, d).
    """
    table = numbers(source, "members", value, (X.shape[0], "s", X.shape[1]))
    if table.shape[1] == 0:
        raise ValueError(f"{source} must return at least one member per row, got shape {table.shape}")
    first = table[:, 0]
    if not np.array_equal(first, X) and np.max(np.abs(first - X), initial=0.0) > rounding(X, first):
        row = int(np.argmax(np.max(np.abs(first - X), axis=1)))
        raise ValueError(
            f"{source} must return the row itself as the first of s members, in an array of shape "
            f"(n, s, d); the first member of row {row} differs from the row"
        )
    return table


def rows(source: str, value: Any, X: Matrix, shape: tuple[int, int]) -> Matrix:
    """Validate one returned point per row: an array, or CSR for sparse rows.

    Shapes: `X` (n, d).
    """
    if value is X and X.shape == shape:
        return value
    if not (sp.issparse(value) and sp.issparse(X)):
        return numbers(source, "points", value, shape)
    if value.format != "csr":
        raise TypeError(f"{source} must return sparse points as CSR, got {value.format.upper()}")
    if value.shape != shape:
        raise ValueError(f"{source} must return points of shape {shape}, got {value.shape}")
    shared = X.shape == shape and value.indices is X.indices and value.indptr is X.indptr
    if not shared:
        places(source, "points", value)
    data = numbers(source, "points", value.data, value.indices.shape)
    return value if data is value.data else with_data(value, data)


def places(source: str, what: str, table: Any) -> None:
    """Raise ValueError if a CSR matrix has invalid indices."""
    try:
        check_indices(what, table)
    except ValueError as error:
        raise ValueError(f"{source} must return valid {what} in CSR: {error}") from None


def reset_declarations(
    kind: type, base: type, methods: Collection[str], declared: Collection[str]
) -> None:
    """Reset inherited declarations of a class that overrides a method.

    ``__init_subclass__`` calls this function. A subclass with a new method then does not inherit
    declarations about the old one.
    """
    classes = kind.__mro__[: kind.__mro__.index(base)]
    defining = [each for each in classes if vars(each).keys() & set(methods)]
    if len(defining) < 2:
        return  # A first definition overrides nothing.
    for name in declared:
        before = classes[: classes.index(defining[0]) + 1]
        if not any(name in vars(each) for each in before):
            setattr(kind, name, vars(base)[name])


def all_finite(array: np.ndarray) -> bool:
    """Return True if the array has neither NaN nor infinity, usually without a copy."""
    with np.errstate(all="ignore"):
        total = array.sum()
    return bool(np.isfinite(total)) or bool(np.all(np.isfinite(array)))


def _fits(got: tuple[int, ...], due: tuple[int | str, ...]) -> bool:
    pairs = zip(due, got, strict=False)
    return len(got) == len(due) and all(isinstance(want, str) or want == have for want, have in pairs)


def _text(shape: tuple[int | str, ...]) -> str:
    inner = ", ".join(str(length) for length in shape)
    return f"({inner},)" if len(shape) == 1 else f"({inner})"


def _kind(value: Any) -> str:
    return "None" if value is None else f"{type(value).__name__}"
