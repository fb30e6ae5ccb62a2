"""Stand-ins for parts of models that skops stores slowly or not at all."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from enum import Enum
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from ..solvers import Solution, Status

# From this length words are one string, because skops writes a node for each of them.
_LONG = 16
# The variable of reproducible-builds.org: files must not contain times that change from run to run.
_WITHOUT_TIMES = "SOURCE_DATE_EPOCH"


class StandIn:
    """Value in a model file; the constructor returns the value, such as a dict."""

    def __new__(cls, kind: str, *parts: Any) -> Any:
        return _MAKERS[kind](*parts)

    @classmethod
    def of(cls, kind: str, *parts: Any) -> Any:
        """Return an object that skops stores as a call of the constructor."""
        made: Any = object.__new__(cls)
        made.arguments = (kind, *parts)
        return made

    def __reduce__(self) -> tuple[type, tuple]:
        return StandIn, vars(self)["arguments"]


class StandIns:
    """Replacement of parts of one model; repeated objects stay identical."""

    def __init__(self) -> None:
        # The entry contains the object, so that its id is not reused.
        self._known: dict[int, tuple[Any, Any]] = {}

    def within(self, value: Any) -> Any:
        """Return a value with stand-ins; the value itself if there are none."""
        if id(value) not in self._known:
            self._known[id(value)] = (value, self._replaced(value))
        return self._known[id(value)][1]

    def _replaced(self, value: Any) -> Any:
        kind = type(value)
        if isinstance(value, os.PathLike):
            return os.fspath(value)
        if isinstance(value, Solution):
            return _shortened(value)
        if isinstance(value, Enum) and not isinstance(value, Status):
            return StandIn.of("member", kind, value.name)
        if kind is complex:
            return StandIn.of("complex", value.real, value.imag)
        if kind in (set, frozenset):
            # The order of a set of strings differs between processes.
            return StandIn.of(kind.__name__, self._each(sorted(value, key=repr)))
        if kind is dict:
            return self._dict(value)
        if kind in (list, tuple):
            items = self._each(value)
            return value if _same(items, value) else kind(items)
        if isinstance(value, deque):
            raise TypeError("skops stores a deque without its items")
        if kind is np.memmap:
            return np.asarray(value)
        if kind is np.ndarray and value.dtype == object:
            return self._objects(value)
        if isinstance(value, BaseEstimator) or kind.__module__.startswith("sklearn."):
            return self._object(value)
        return value

    def _each(self, values: Any) -> list[Any]:
        return [self.within(each) for each in values]

    def _dict(self, value: dict) -> Any:
        if len(value) >= _LONG and _are_words(value) and {*map(type, value.values())} <= {int, np.int64}:
            numbers = np.fromiter(value.values(), dtype=np.int64, count=len(value))
            return StandIn.of("vocabulary", _joined(value), numbers)
        items = self._each(value.values())
        if not all(type(key) is str for key in value):
            # skops converts keys to strings of JSON: True would become "true".
            return StandIn.of("dict", self._each(value), items)
        return value if _same(items, value.values()) else dict(zip(value, items, strict=True))

    def _objects(self, value: np.ndarray) -> Any:
        items = value.ravel().tolist()
        if len(items) >= _LONG and _are_words(items):
            return StandIn.of("words", _joined(items), value.shape)
        replaced = self._each(items)
        return value if _same(replaced, items) else _array(replaced, value.shape)

    def _object(self, value: Any) -> Any:
        before = getattr(value, "__dict__", {})
        state = {name: self.within(each) for name, each in before.items()}
        if _same(state.values(), before.values()):
            return value
        made = object.__new__(type(value))
        vars(made).update(state)
        return made


def _shortened(solution: Solution) -> Solution:
    """Return a solution without planes and, with a kernel, without the function.

    The estimator has the function's coefficients.
    """
    nothing: Any = None
    f = solution.f if isinstance(solution.f, np.ndarray) else nothing
    solution = replace(solution, f=f, planes=nothing)
    if _WITHOUT_TIMES not in os.environ:
        return solution
    history = [replace(record, seconds=0.0) for record in solution.history]
    return replace(solution, seconds=0.0, compile_seconds=0.0, history=history)


def _same(ones: Any, others: Any) -> bool:
    return all(one is other for one, other in zip(ones, others, strict=True))


def _are_words(values: Any) -> bool:
    return all(type(each) is str and "\n" not in each for each in values)


def _joined(words: Any) -> bytes:
    return "\n".join(words).encode("utf-8", "surrogatepass")


def _split(words: bytes) -> list[str]:
    return words.decode("utf-8", "surrogatepass").split("\n")


def _array(items: list[Any], shape: tuple[int, ...]) -> np.ndarray:
    array = np.empty(len(items), dtype=object)
    for number, item in enumerate(items):
        array[number] = item
    return array.reshape(shape)


_MAKERS: dict[str, Callable[..., Any]] = {
    "complex": complex,
    "dict": lambda keys, values: dict(zip(keys, values, strict=True)),
    "frozenset": frozenset,
    "member": lambda kind, name: kind[name],
    "set": set,
    "vocabulary": lambda words, numbers: dict(zip(_split(words), numbers.tolist(), strict=True)),
    "words": lambda words, shape: _array(_split(words), shape),
}
