"""Checks of what code of third-party classes returns: arrays of numbers, rows, indices."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import numpy as np
import scipy.sparse as sp

from .matrices import Matrix, read_only, rounding, with_data

# Answers for a row in two blocks may differ by so much of their size, as products of matrices do.
_AGAIN = 1e-3
# How the names of this package's modules begin.
_OURS = "structinv."
# Precisions that compiled functions take.
_PRECISIONS = (np.dtype(np.float64), np.dtype(np.float32))


def method(owner: Any, name: str) -> str:
    """How messages name a method: ``Shifts.orbit``."""
    return f"{type(owner).__name__}.{name}"


def is_third_party(plugin: Any) -> bool:
    """Whether the class of an object is none of this package's.

    Examples
    --------
    >>> from structinv.oracles import Box
    >>> is_third_party(Box(0.1)), is_third_party(type("Mine", (Box,), {})(0.1))
    (False, True)
    """
    return not type(plugin).__module__.startswith(_OURS)


def writes(plugin: Any, name: str) -> bool:
    """Whether a class outside this package defines the method that a plug-in has under a name."""
    kind = next(kind for kind in type(plugin).__mro__ if name in vars(kind))
    return not kind.__module__.startswith(_OURS)


def ask(plugin: Any, source: str, call: Callable[..., Any], *question: Any) -> Any:
    """``call(*question)``; a third-party plug-in cannot change the arrays of the question.

    Raises
    ------
    ValueError
        That names the source, if it tries to.

    Examples
    --------
    >>> def halve(x):
    ...     x /= 2
    >>> ask(halve, "halve", halve, np.ones(2))
    Traceback (most recent call last):
        ...
    ValueError: halve must not change its inputs: copy them first (output array is read-only)
    """
    return ask_third_party(source, call, *question) if is_third_party(plugin) else call(*question)


def ask_third_party(source: str, call: Callable[..., Any], *question: Any) -> Any:
    """`ask` of a plugin that is of a third-party class."""
    try:
        return call(*map(read_only, question))
    except ValueError as error:
        if "read-only" not in str(error):
            raise
        raise ValueError(f"{source} must not change its inputs: copy them first ({error})") from error


def numbers(
    source: str, what: str, value: Any, shape: tuple[int | str, ...], *, finite: bool = True
) -> np.ndarray:
    """An answer as a plain array of float64, or of float32 if it is that.

    Parameters
    ----------
    source : str
        Class and method that gave the answer.
    what : str
        Which part of the answer it is.
    value : object
    shape : tuple of int and str
        The shape that is due; a string stands for any length.
    finite : bool, default=True
        Whether infinity is an error, too; NaN always is.

    Returns
    -------
    array
        `value` itself where it is such an array.

    Raises
    ------
    TypeError
        If it is no array of real numbers.
    ValueError
        If it has another shape, or holds NaN, or infinity where that is an error.
    """
    array = table(source, what, value, shape)
    if not (all_finite(array) if finite else not np.any(np.isnan(array))):
        bad = "not finite" if finite else "NaN"
        raise ValueError(f"{source} returned {what} that are {bad}")
    return array


def table(source: str, what: str, value: Any, shape: tuple[int | str, ...]) -> np.ndarray:
    """`numbers` that may be infinite or NaN, as where an overflow is looked for elsewhere.

    Raises
    ------
    TypeError
        If it is no array of real numbers.
    ValueError
        If it has another shape.
    """
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
    """An answer as an array of integers from 0 to ``size - 1``.

    Raises
    ------
    TypeError
        If it is no array of integers.
    ValueError
        If it has another shape, or holds others.
    """
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
    """An answer as one real number of at least `least`.

    Raises
    ------
    TypeError, ValueError
        If it is none.
    """
    array = np.asarray(value) if np.isscalar(value) or isinstance(value, np.ndarray) else None
    if array is None or array.shape != () or array.dtype.kind not in "fiu":
        raise TypeError(f"{source} must return {what} as a number, got {_kind(value)}")
    found = float(array)
    if not found >= least or (finite and not np.isfinite(found)):
        raise ValueError(f"{source} must return {what} of at least {least:g}, got {found!r}")
    return found


def repeats(source: str, what: str, kept: np.ndarray, ask: Callable[[], np.ndarray]) -> None:
    """Raise ValueError if the last row has another answer when asked about alone.

    Functions that draw at random, or look at other rows, are found out by it, most of the time.

    Parameters
    ----------
    source, what : str
        See `numbers`.
    kept : (n, ...) array
        The answer for all rows.
    ask : callable
        Gives the answer for the last row alone, (1, ...).

    Examples
    --------
    >>> repeats("function", "members", np.array([[1.0], [2.0]]), lambda: np.array([[2.0]]))
    """
    last = kept[-1:]
    if not last.size:
        return
    again, size = ask(), float(np.max(np.abs(last)))
    if again.shape != last.shape or np.any(np.abs(again - last) > _AGAIN * size):
        raise ValueError(
            f"{source} must give {what} of a row that are the same in every call and block of rows, "
            "but gave the last row others when asked about that row alone; one that draws at random "
            "must take its seed from the row"
        )


def grades(source: str, value: Any, shape: tuple[int | str, ...]) -> np.ndarray:
    """An answer as grades in [0, 1].

    Raises
    ------
    TypeError, ValueError
        If it is none.
    """
    array = numbers(source, "grades", value, shape)
    if array.size and (array.min() < 0.0 or array.max() > 1.0 + 1e-9):
        raise ValueError(
            f"{source} must return grades in [0, 1], got {array.min():g} to {array.max():g}"
        )
    return array


def members(source: str, value: Any, X: np.ndarray) -> np.ndarray:
    """An answer as the members of each row's S(x), the row itself first.

    Parameters
    ----------
    source : str
        Class and method that gave the answer.
    value : object
    X : (n, d) array
        The rows asked about.

    Raises
    ------
    TypeError, ValueError
        If it is no finite array of shape (n, s, d), or its first members are not the rows.
    """
    table = numbers(source, "members", value, (X.shape[0], "s", X.shape[1]))
    if table.shape[1] == 0:
        raise ValueError(f"{source} must return at least one member a row, got shape {table.shape}")
    first = table[:, 0]
    if not np.array_equal(first, X) and np.max(np.abs(first - X), initial=0.0) > rounding(X, first):
        row = int(np.argmax(np.max(np.abs(first - X), axis=1)))
        raise ValueError(
            f"{source} must return the row itself as its first member, in an array of shape (n, s, d) "
            f"for s members a row; row {row} of those asked about got another point"
        )
    return table


def rows(source: str, value: Any, X: Matrix, shape: tuple[int, int]) -> Matrix:
    """An answer as one point a row: an array, or CSR where the rows asked about are sparse.

    Parameters
    ----------
    source : str
        Class and method that gave the answer.
    value : object
    X : (n, d) array or CSR matrix
        All rows, which have been looked at before: what an answer shares with them needs no look.
    shape : pair of int
        How many rows were asked about, and d.

    Raises
    ------
    TypeError, ValueError
        If it is none; a CSR matrix is looked at as closely as compiled functions need it.
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
    """Raise ValueError if the index arrays of a CSR matrix lead out of it, as nobody else looks."""
    indptr, indices = table.indptr, table.indices
    n_rows, n_columns = table.shape
    sound = (
        indptr.shape == (n_rows + 1,)
        and indices.ndim == 1
        and indptr[0] == 0
        and indptr[-1] == len(indices)
        and not np.any(np.diff(indptr) < 0)
        and (len(indices) == 0 or (indices.min() >= 0 and indices.max() < n_columns))
    )
    if not sound:
        raise ValueError(
            f"{source} must return {what} in CSR with columns from 0 to {n_columns - 1} and boundaries "
            f"of {n_rows} rows that rise from 0 to the number of columns, got columns {indices} and "
            f"boundaries {indptr}"
        )


def reset_declarations(
    kind: type, base: type, methods: Collection[str], declared: Collection[str]
) -> None:
    """Give a class that overrides a method the defaults of `base` for what its parents declare of it.

    Classes call it as they are made, so that no subclass inherits a declaration about other answers.

    Parameters
    ----------
    kind : type
        The class that is made.
    base : type
        The class at the root, which has the defaults.
    methods : collection of str
        The methods that the declarations are about.
    declared : collection of str
        Names of attributes and methods.

    Examples
    --------
    >>> class Greeting:
    ...     short = False
    ...     def __init_subclass__(cls):
    ...         reset_declarations(cls, Greeting, {"word"}, {"short"})
    >>> class Hello(Greeting):
    ...     short = True
    ...     def word(self):
    ...         return "hi"
    >>> class Named(Hello):
    ...     pass
    >>> class Long(Named):
    ...     def word(self):
    ...         return "good morning"
    >>> Named.short, Long.short
    (True, False)
    """
    own = kind.__mro__[: kind.__mro__.index(base)]
    answering = [each for each in own if vars(each).keys() & set(methods)]
    if len(answering) < 2:
        return  # It may write a method, but overrides none.
    for name in declared:
        before = own[: own.index(answering[0]) + 1]
        if not any(name in vars(each) for each in before):
            setattr(kind, name, vars(base)[name])


def all_finite(array: np.ndarray) -> bool:
    """Whether there is neither NaN nor infinity; a sum tells in nearly all cases, without a copy."""
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
