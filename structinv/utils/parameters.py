"""Parameters of estimators: checks, tables, and learned attributes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from numbers import Integral, Real
from typing import Any

import numpy as np

from .matrices import refuse_masked

# Messages have arrays of at most this number of entries, and other values up to this length.
MOST_ENTRIES, MOST_CHARACTERS = 20, 500
COLUMN = "column of X"


def brief(value: Any) -> str:
    """Return a value for messages; tables and large arrays by type and shape."""
    shape = getattr(value, "shape", ())
    small = isinstance(value, np.ndarray) and value.size <= MOST_ENTRIES
    if not isinstance(shape, tuple) or not shape or small:
        shown = repr(value)
        return shown if len(shown) <= MOST_CHARACTERS else f"{shown[:MOST_CHARACTERS]}..."
    return f"{type(value).__name__} of shape {shape}"


def check_boolean(name: str, value: Any) -> None:
    """Raise TypeError if `value` is not True or False."""
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name} must be True or False, got {brief(value)}")


def check_integer(
    name: str,
    value: Any,
    least: int = 1,
    most: int | None = None,
    what: str = "",
    *,
    optional: bool = False,
) -> None:
    """Raise TypeError or ValueError if `value` is not an integer in a range."""
    if optional and value is None:
        return
    allowed = f"{'None or ' if optional else ''}an integer of at least {least}"
    if not isinstance(value, Integral) or isinstance(value, bool):
        raise TypeError(f"{name} must be {allowed}, got {brief(value)}")
    if most is None and value < least:
        raise ValueError(f"{name} must be {allowed}, got {brief(value)}")
    if most is not None and not least <= int(value) <= most:
        raise ValueError(
            f"{name} must be at least {least} and at most {most}, the number of {what}, got "
            f"{brief(value)}"
        )


def check_number(
    name: str,
    value: Any,
    *,
    minimum: float = 0.0,
    maximum: float = np.inf,
    strict: bool = False,
    finite: bool = True,
) -> None:
    """Raise TypeError or ValueError if `value` is not a real number in a range."""
    allowed = f"a number {'above' if strict else 'of at least'} {minimum:g}"
    if not np.isfinite(minimum):
        allowed = "a finite number"
    if np.isfinite(maximum):
        allowed += f" and at most {maximum:g}"
    if not isinstance(value, Real) or isinstance(value, bool):
        raise TypeError(f"{name} must be {allowed}, got {brief(value)}")
    number = float(value)
    too_small = not number > minimum if strict else not number >= minimum
    if too_small or number > maximum or (finite and not np.isfinite(number)):
        raise ValueError(f"{name} must be {allowed}, got {brief(value)}")


def labels_of(given: Any, axis: int = -1) -> list[Any] | None:
    """Return the labels of a table along an axis; None for arrays and other objects."""
    columns = getattr(given, "columns", None)
    labels = getattr(given, "index", None) if axis == 0 or columns is None else columns
    # Lists and strings have a method of this name.
    return list(labels) if np.iterable(labels) else None


def are_default(labels: Collection[Any]) -> bool:
    """Return True for the labels 0, 1, 2, ..., which tables have by default."""
    return list(labels) == list(range(len(labels)))


def columns_of(X: Any) -> list[Any] | None:
    """Return the labels of the features; None for arrays and for the default labels."""
    labels = labels_of(X)
    return None if labels is None or are_default(labels) else labels


def in_order(
    name: str, given: Any, axis: int = -1, known: Collection[Any] | None = None, kind: str = COLUMN
) -> np.ndarray:
    """Return an argument as an array in the order of the known labels.

    Arrays remain unchanged. The default labels 0, 1, 2, ... apply by position, unless they are the known
    labels.
    """
    refuse_masked(name, given)
    places = places_of(name, given, axis, known, kind)
    return np.asarray(given) if places is None else np.take(np.asarray(given), places, axis=axis)


def places_of(
    name: str, given: Any, axis: int, known: Collection[Any] | None, kind: str
) -> list[int] | None:
    """Return the places of known labels in a table; None if it stays as given."""
    labels = labels_of(given, axis)
    if labels is None or (known is not None and labels == list(known)):
        return None
    if known is None or set(labels) != set(known):
        if are_default(labels):
            return None
        if known is None:
            known = _numbers(name, labels, kind)
    if len(labels) != len(known) or set(labels) != set(known):
        raise ValueError(
            f"the labels of {name} must contain each {kind} once: {_difference(labels, known, kind)}"
        )
    places = {label: place for place, label in enumerate(labels)}
    return [places[label] for label in known]


def _numbers(name: str, labels: list[Any], kind: str) -> range:
    """Return the numbers 0, 1, 2, ...; raise ValueError unless they are the labels in any order."""
    numbers = range(len(labels))
    whole = all(isinstance(label, Integral) and not isinstance(label, bool) for label in labels)
    if not whole or set(labels) != set(numbers):
        others = [label for label in labels if label not in numbers]
        named = "X as a data frame with names, or " if kind == COLUMN else ""
        raise ValueError(
            f"{name} must have no labels, because no {kind} has a name, got {(others or labels)[0]!r}: "
            f"pass {named}{name}.to_numpy()"
        )
    return numbers


def _difference(labels: Collection[Any], known: Collection[Any], kind: str) -> str:
    """Return the first label that is unknown, missing or repeated, for messages."""
    for label in labels:
        if label not in set(known):
            return f"{label!r} is not a {kind}"
    for label in known:
        if label not in set(labels):
            return f"{label!r} is missing"
    return f"it has {len(labels)} labels for {len(known)} of them"


def learned_attributes(estimator: Any) -> dict[str, Any]:
    """Return the fitted attributes of an estimator, by name."""
    return {name: value for name, value in vars(estimator).items() if name.endswith("_")}


def restorer(estimator: Any) -> Callable[[], None]:
    """Return a function that restores the present attributes of an estimator."""
    before = dict(vars(estimator))

    def restore() -> None:
        vars(estimator).clear()
        vars(estimator).update(before)

    return restore


@contextmanager
def restored_on_error(estimator: Any) -> Iterator[None]:
    """Restore the attributes of an estimator after an error in a `with` block."""
    restore = restorer(estimator)
    try:
        yield
    except BaseException:
        restore()
        raise
