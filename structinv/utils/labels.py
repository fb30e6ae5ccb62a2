"""Tables as arguments: alignment of their labels with columns or classes."""

from __future__ import annotations

from collections.abc import Collection
from numbers import Integral
from typing import Any

import numpy as np

from .matrices import refuse_masked

COLUMN = "column of X"


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
