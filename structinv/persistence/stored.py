"""Content of model files: replaced values, and archives with the same bytes."""

from __future__ import annotations

import json
import os
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from enum import Enum
from functools import partial
from io import BytesIO
from pathlib import PurePath
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

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


def dumps(value: Any) -> bytes:
    """Return a value as an archive of skops without memory addresses and times.

    Objects and files are numbered in the order of their appearance.
    """
    import skops.io

    stream = BytesIO()
    content = skops.io.dumps(_stored(value, {}))
    with ZipFile(BytesIO(content)) as given, ZipFile(stream, "w") as archive:
        schema = json.loads(given.read("schema.json"))
        names: dict[str, str] = {}
        _number(schema, {}, names)
        for old, new in names.items():
            add(archive, new, given.read(old))
        add(archive, "schema.json", json.dumps(schema))
    return stream.getvalue()


def add(archive: ZipFile, name: str, content: bytes | str) -> None:
    """Add a compressed file without a time to an archive."""
    entry = ZipInfo(name)
    # The system on which a file is written does not change its bytes.
    entry.create_system = 3
    archive.writestr(entry, content, compress_type=ZIP_DEFLATED)


def _number(node: Any, numbers: dict[int, int], names: dict[str, str]) -> None:
    """Replace addresses by numbers in a part of a schema, and collect the new names of files."""
    parts = node if isinstance(node, list) else node.values()
    if isinstance(node, dict) and "__id__" in node:
        node["__id__"] = numbers.setdefault(node["__id__"], len(numbers) + 1)
        if "file" in node:
            old = node["file"]
            node["file"] = names.setdefault(old, f"{len(names) + 1}{PurePath(old).suffix}")
    for part in parts:
        if isinstance(part, (dict, list)):
            _number(part, numbers, names)


def _stored(value: Any, known: dict[int, tuple[Any, Any]]) -> Any:
    """Return a value with stand-ins; repeated objects stay identical."""
    if id(value) not in known:
        # The entry contains the object, so that its id is not reused.
        known[id(value)] = value, _replaced(value, partial(_stored, known=known))
    return known[id(value)][1]


def _replaced(value: Any, inner: Callable[[Any], Any]) -> Any:
    """Return a value of the same content for skops; `inner` replaces its parts."""
    kind = type(value)
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, Solution):
        return _shortened(value)
    if isinstance(value, Enum) and not isinstance(value, Status):
        return StandIn.of("member", kind, value.name)
    if isinstance(value, deque):
        raise TypeError("skops stores a deque without its items")
    if kind in (set, frozenset):
        # The order of a set of strings differs between processes.
        return StandIn.of(kind.__name__, [inner(each) for each in sorted(value, key=repr)])
    if kind is dict:
        return _of_dict(value, inner)
    if kind in (list, tuple):
        return kind(map(inner, value))
    if kind is np.memmap:
        return np.asarray(value)
    if kind is np.ndarray and value.dtype == object:
        items = value.ravel().tolist()
        if _are_many_words(items):
            return StandIn.of("words", _joined(items), value.shape)
        return _array([inner(each) for each in items], value.shape)
    # Compiled objects have no attributes.
    attributes = getattr(value, "__dict__", None)
    if attributes and (isinstance(value, BaseEstimator) or kind.__module__.startswith("sklearn.")):
        made = object.__new__(kind)
        vars(made).update({name: inner(each) for name, each in attributes.items()})
        return made
    return value


def _of_dict(value: dict, inner: Callable[[Any], Any]) -> Any:
    if _are_many_words(value) and {*map(type, value.values())} <= {int, np.int64}:
        numbers = np.fromiter(value.values(), dtype=np.int64, count=len(value))
        return StandIn.of("vocabulary", _joined(value), numbers)
    items = {key: inner(each) for key, each in value.items()}
    if all(type(key) is str for key in value):
        return items
    # skops converts keys to strings of JSON: True would become "true".
    return StandIn.of("dict", [inner(key) for key in value], list(items.values()))


def _shortened(solution: Solution) -> Solution:
    """Return a solution without dual variables and, with a kernel, without the function.

    The estimator has the function's coefficients.
    """
    nothing: Any = None
    f = solution.f if isinstance(solution.f, np.ndarray) else nothing
    solution = replace(solution, f=f, dual_variables=[])
    if _WITHOUT_TIMES not in os.environ:
        return solution
    history = [replace(record, seconds=0.0) for record in solution.history]
    return replace(solution, seconds=0.0, compile_seconds=0.0, history=history)


def _are_many_words(values: Any) -> bool:
    return len(values) >= _LONG and all(type(each) is str and "\n" not in each for each in values)


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
    "dict": lambda keys, values: dict(zip(keys, values, strict=True)),
    "frozenset": frozenset,
    "member": lambda kind, name: kind[name],
    "set": set,
    "vocabulary": lambda words, numbers: dict(zip(_split(words), numbers.tolist(), strict=True)),
    "words": lambda words, shape: _array(_split(words), shape),
}
