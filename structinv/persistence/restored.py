"""Storage of values by skops, with a check that they are restored."""

from __future__ import annotations

import functools
import types
from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator

from .numbered import numbered

# Types that are restored as the same object, or by their parts.
_NAMED = (type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType, np.ufunc)
# Keys that the encoder adds.
_LAYERS = ("parameters", "learnt", "arguments", "state", "items")


def stored(values: Any) -> tuple[bytes, Any]:
    """Serialize values with skops, and return the bytes and the restored values.

    skops rebuilds an object of an unknown class from its state alone. Some classes need more: their
    objects cannot be loaded, or lack a part.
    """
    try:
        return _round_trip(values)
    except RecursionError:
        raise TypeError("model cannot be stored: an object in it contains itself") from None
    except MemoryError:
        raise
    except Exception as error:
        place, part, reason = _culprit(values, "", error)
    kind = f"{type(part).__module__.partition('.')[0]}.{type(part).__qualname__}"
    raise TypeError(
        f"model cannot be stored: skops does not restore {place or 'it'}, of type {kind} ({reason}); "
        "use arrays, sparse matrices, lists or dicts"
    )


def _round_trip(values: Any) -> tuple[bytes, Any]:
    """Serialize and restore values, as in `stored`; raise any error if that fails."""
    import skops.io

    content = numbered(skops.io.dumps(values))
    again = skops.io.loads(content, trusted=skops.io.get_untrusted_types(data=content))
    if not _Comparison().same(values, again):
        raise ValueError("a part of it is lost")
    return content, again


def _culprit(part: Any, place: str, error: Exception) -> tuple[str, Any, str]:
    """Return path, value and error of the first smallest part that is not restored."""
    for name, each in _parts(part):
        try:
            _round_trip(each)
        except Exception as cause:
            inner = name if name.startswith("[") or not place else f".{name}"
            return _culprit(each, place + inner if name else place, cause)
    return place, part, f"{type(error).__name__}: {error}"


def _parts(part: Any) -> Iterator[tuple[str, Any]]:
    """Yield the parts of a value with their names; the encoder's own keys have empty names."""
    if isinstance(part, dict):
        for key, each in part.items():
            yield "" if key in _LAYERS else str(key), each
    elif type(part) in (list, tuple):
        for number, each in enumerate(part):
            yield f"[{number}]", each
    elif isinstance(part, BaseEstimator):
        yield from vars(part).items()


class _Comparison:
    """Recursive comparison of values, by the parts that pickle would store."""

    def __init__(self) -> None:
        # The entry contains the values, so that their ids are not reused.
        self._known: dict[tuple[int, int], tuple[Any, Any]] = {}

    def same(self, one: Any, other: Any) -> bool:
        """Return True if two values are the same, or if their parts are unknown."""
        if one is other or (id(one), id(other)) in self._known:
            return True
        if type(one) is not type(other) or isinstance(one, _NAMED):
            return False
        self._known[id(one), id(other)] = (one, other)
        if isinstance(one, (np.ndarray, np.generic)):
            return self._arrays(np.asarray(one), np.asarray(other))
        if sp.issparse(one):
            return self._sparse(one, other)
        if isinstance(one, (float, complex)):
            return bool(one == other or (one != one and other != other))
        if one is None or isinstance(one, (bool, int, str, bytes, bytearray, set, frozenset, slice)):
            return bool(one == other)
        if type(one) in (list, tuple):
            return self._each(one, other)
        if type(one) is dict:
            return self._each(list(one), list(other)) and self._each(one.values(), other.values())
        if isinstance(one, types.MethodType):
            return one.__name__ == other.__name__ and self.same(one.__self__, other.__self__)
        if isinstance(one, functools.partial):
            return self._each(
                [one.func, one.args, one.keywords], [other.func, other.args, other.keywords]
            )
        return self._objects(one, other)

    def _each(self, ones: Any, others: Any) -> bool:
        return len(ones) == len(others) and all(map(self.same, ones, others))

    def _arrays(self, one: np.ndarray, other: np.ndarray) -> bool:
        if one.dtype != other.dtype or one.shape != other.shape:
            return False
        if one.dtype.hasobject:
            return self._each(one.ravel().tolist(), other.ravel().tolist())
        if one.dtype.names is not None:
            # The bytes between fields are undefined.
            return all(self._arrays(one[name], other[name]) for name in one.dtype.names)
        return one.tobytes() == other.tobytes()

    def _sparse(self, one: Any, other: Any) -> bool:
        # Attributes of sparse matrices also contain cached flags, so only the entries are compared.
        ones, others = one.tocoo(), other.tocoo()
        same = one.shape == other.shape and self._arrays(ones.data, others.data)
        return same and all(map(np.array_equal, ones.coords, others.coords))

    def _objects(self, one: Any, other: Any) -> bool:
        try:
            made = one.__reduce_ex__(4)
        except TypeError:
            return True
        again = other.__reduce_ex__(4)
        if isinstance(made, str):
            return bool(made == again)
        # The last two entries are iterators over items.
        ones, others = ([list(items or ()) for items in each[3:5]] for each in (made, again))
        if not self._each(ones, others):
            return False
        if type(one).__getstate__ is not object.__getstate__:
            return self._states(one.__getstate__(), other.__getstate__())
        state, other_state = (each[2] if len(each) > 2 else None for each in (made, again))
        return self._each(made[:2], again[:2]) and self._states(state, other_state)

    def _states(self, one: Any, other: Any) -> bool:
        """Return True if the attributes that both states contain are the same."""
        if not (type(one) is type(other) is dict):
            return self.same(one, other)
        return all(self.same(one[key], other[key]) for key in one.keys() & other.keys())
