"""What an oracle makes once for all questions about the same rows."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

# Longer arrays and collections are compared by identity: to look through them takes too long.
MOST_VALUES = 1000


class Cache:
    """Things by name, each made when it is first asked for.

    It belongs to the copy of an oracle that `InvarianceOracle._prepared` gives, and is freed with it.
    Pickles and deep copies are empty, since everything can be made again.

    Examples
    --------
    >>> kept = Cache()
    >>> kept.get("table", lambda: [1, 2]) is kept.get("table", lambda: [1, 2])
    True
    """

    def __init__(self) -> None:
        self._made: dict[Hashable, Any] = {}

    def get(self, name: Hashable, make: Callable[[], Any]) -> Any:
        """What has this name, made now if there is nothing yet."""
        if name not in self._made:
            self._made[name] = make()
        return self._made[name]

    def __reduce__(self) -> tuple[type[Cache], tuple[()]]:
        return Cache, ()


class LastResult:
    """The last thing made for an array, as long as the same array is asked about.

    Pickles and deep copies are empty.
    """

    def __init__(self) -> None:
        self._made: tuple[Any, Any] | None = None

    def get(self, array: Any, make: Callable[[], Any]) -> Any:
        """What was made for this very array, made now if it was another one."""
        made = self._made
        if made is None or made[0] is not array:
            made = self._made = array, make()
        return made[1]

    def __reduce__(self) -> tuple[type[LastResult], tuple[()]]:
        return LastResult, ()


class Record:
    """Something made, and what it was made of: never changed, so that threads see it whole.

    Parameters
    ----------
    key : object
        As `parameters_of` gives it. Records themselves are equal to nothing else.
    made : object
    """

    __slots__ = ("key", "made")

    def __init__(self, key: Any, made: Any) -> None:
        self.key = key
        self.made = made


class _SameObject:
    """Equal to what holds the very same object, which lives as long as this."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _SameObject) and self.value is other.value

    __hash__ = None  # type: ignore[assignment]


def parameters_of(value: Any) -> Any:
    """Something that is equal for equal parameters, whatever is changed in place later.

    Numbers, texts, and arrays and collections of at most `MOST_VALUES` entries are compared by value,
    and estimators by identity and their parameters, down to the last. All else is compared by identity:
    longer arrays, functions, and objects of other classes.

    Examples
    --------
    >>> from structinv.oracles import Rotations
    >>> turns = Rotations([90, 180])
    >>> before = parameters_of(turns)
    >>> before == parameters_of(turns), before == parameters_of(turns.set_params(degrees=90))
    (True, False)
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
