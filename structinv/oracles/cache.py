"""Caches of intermediate results of oracles."""

from __future__ import annotations

import copy
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator

# Longer arrays and collections are compared by identity, which is faster.
MOST_VALUES = 1000


class Cache:
    """Named values, each computed on first access.

    A cache belongs to the copy of an oracle from `InvarianceOracle._prepared`, and is freed with it.
    Pickles and deep copies are empty, because all values can be computed again.
    """

    def __init__(self) -> None:
        self._values: dict[Hashable, Any] = {}

    def get(self, name: Hashable, make: Callable[[], Any]) -> Any:
        """Return the value with this name; compute it by `make` if it does not exist."""
        if name not in self._values:
            self._values[name] = make()
        return self._values[name]

    def last(self, array: Any, make: Callable[[], Any]) -> Any:
        """Return the result for an array object; compute it for another than the last."""
        last = self._values.get("last")
        if last is None or last[0] is not array:
            last = self._values["last"] = array, make()
        return last[1]

    def __reduce__(self) -> tuple[type[Cache], tuple[()]]:
        return Cache, ()


class CachedOracle:
    """Mixin of oracles that compute intermediate results once for each `bind`."""

    # Only prepared copies have a cache.
    _cache: Cache | None = None

    def _prepared(self) -> Self:
        if self._cache is not None:
            return self
        prepared = copy.copy(self)
        prepared._cache = Cache()
        return prepared

    def _once(self, name: Hashable, make: Callable[[], Any]) -> Any:
        return make() if self._cache is None else self._cache.get(name, make)

    def _once_for(self, array: Any, make: Callable[[], Any]) -> Any:
        return make() if self._cache is None else self._cache.last(array, make)


@dataclass(frozen=True, eq=False)
class Record:
    """A value with the parameters that it was computed from.

    Records never change, so other threads always see both together.
    """

    key: Any
    made: Any


class _SameObject:
    """Wrapper that compares objects by identity and keeps a reference."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _SameObject) and self.value is other.value

    __hash__ = None  # type: ignore[assignment]


def parameters_of(value: Any) -> Any:
    """Return a snapshot of parameters, for comparison with later ones.

    Numbers, strings, and arrays and collections of at most `MOST_VALUES` entries are compared by
    value. Estimators are compared by identity and by their parameters, recursively. All other objects
    are compared by identity, such as longer arrays and functions.
    """
    if value is None or isinstance(value, (bool, int, float, complex, str, bytes, np.generic)):
        return type(value), value
    if isinstance(value, BaseEstimator):
        return _SameObject(value), parameters_of(value.get_params(deep=False))
    if isinstance(value, np.ndarray) and value.size <= MOST_VALUES:
        entries = value.tolist() if value.dtype.hasobject else None
        numbers = value.tobytes() if entries is None else parameters_of(entries)
        return type(value), value.dtype, value.shape, numbers
    if isinstance(value, (tuple, list)) and len(value) <= MOST_VALUES:
        return type(value), tuple(parameters_of(each) for each in value)
    if isinstance(value, dict) and len(value) <= MOST_VALUES:
        return type(value), tuple((parameters_of(k), parameters_of(v)) for k, v in value.items())
    if isinstance(value, (set, frozenset)) and len(value) <= MOST_VALUES:
        return type(value), frozenset(value)
    return _SameObject(value)
