"""Conversion of models to values that skops stores, and back.

Values that skops stores safely are unchanged: numbers, strings, arrays, sparse matrices and objects of
scikit-learn. An object of this package becomes a dict with its registry name under the key `MARK`. The
object may be inside lists, parameters or a Pipeline.
"""

from __future__ import annotations

import copy
import functools
import importlib
import os
import sys
import types
import warnings
from dataclasses import fields, replace
from enum import Enum
from typing import Any

import numpy as np

from ..kernels import Kernel
from ..solvers import Solution, Status
from ..solvers.base import Record
from ..utils.matrices import check_indices
from .stored_names import MADE, NAMES, PARAMETERIZED, arguments

MARK = "structinv"
_PACKAGE = __name__.partition(".")[0]
# From this length a vocabulary is one string, because skops writes a node for each entry of a list.
_LONG = 16

# Objects that are stored by name, or whose __dict__ cannot be rebuilt.
_OPAQUE: tuple[type, ...] = (type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType)
_OPAQUE += (types.MethodType, functools.partial, np.ufunc)


class Encoder:
    """Converter of one model to plain values; repeated objects stay identical."""

    def __init__(self, planes: bool, times: bool = True) -> None:
        self.planes, self.times = planes, times
        # The entry contains the object, so that its id is not reused.
        self._known: dict[int, tuple[Any, Any]] = {}

    def encode(self, value: Any) -> Any:
        """Return values that skops stores, for any value in a model."""
        plain = value is None or isinstance(value, (bool, int, float, str, bytes))
        if plain and not isinstance(value, Enum):
            return value
        if id(value) not in self._known:
            self._known[id(value)] = (value, self._encode(value))
        return self._known[id(value)][1]

    def _encode(self, value: Any) -> Any:
        kind = type(value)
        if isinstance(value, os.PathLike):
            return os.fspath(value)
        if kind in NAMES or isinstance(value, (Solution, Status)):
            return self._own(value)
        if isinstance(value, dict):
            return self._dict(value)
        if kind in (list, tuple):
            return kind(self.encode(each) for each in value)
        if kind in (set, frozenset, range, complex) or isinstance(value, Enum):
            return self._python(value)
        if isinstance(value, np.ndarray):
            return self._array(value)
        if isinstance(value, types.MethodType) and isinstance(value.__self__, Kernel):
            # The kernel of a model of scikit-learn can be a method.
            method = value.__func__.__name__
            return {MARK: "method", "of": self.encode(value.__self__), "name": method}
        if isinstance(value, (type, types.FunctionType)):
            check_importable(value)
            return value
        if any(base.__module__.partition(".")[0] == _PACKAGE for base in kind.__mro__):
            return self._extension(value)
        return self._foreign(value)

    def _own(self, value: Any) -> dict[str, Any]:
        """Encode an object of this package."""
        if isinstance(value, Status):
            return {MARK: "status", "value": value.value}
        if isinstance(value, Solution):
            return self._solution(value)
        name = NAMES[type(value)]
        if name in MADE:
            return {MARK: name, "arguments": self._values(arguments(value))}
        parameters = value.get_params(deep=False)
        learned = {key: each for key, each in vars(value).items() if _is_learned(key, parameters)}
        return {MARK: name, "parameters": self._values(parameters), "learnt": self._values(learned)}

    def _extension(self, value: Any) -> dict[str, Any]:
        """Encode an object of a user's subclass."""
        kind = type(value)
        is_ours = kind.__module__.partition(".")[0] == _PACKAGE
        if is_ours or not hasattr(kind, "get_params"):
            remedy = (
                "pickle the model"
                if is_ours
                else "derive the class from sklearn.base.BaseEstimator, which has get_params"
            )
            raise TypeError(
                f"a {kind.__qualname__} cannot be stored in a model file: {remedy}, got {value!r}"
            )
        check_importable(kind)
        parameters = value.get_params(deep=False)
        state = {key: each for key, each in value.__getstate__().items() if key not in parameters}
        return {
            MARK: "class",
            "class": kind,
            "parameters": self._values(parameters),
            "state": self._values(state),
        }

    def _solution(self, solution: Solution) -> dict[str, Any]:
        # A function of a kernel space is not stored, because the estimator has its coefficients.
        linear = isinstance(solution.f, np.ndarray)
        replaced: Any = {"f": solution.f if linear else None}
        replaced["planes"] = solution.planes if linear and self.planes else None
        history = solution.history
        if not self.times:
            replaced |= {"seconds": 0.0, "compile_seconds": 0.0}
            history = [replace(record, seconds=0.0) for record in history]
        table = [[getattr(record, each.name) for each in fields(Record)] for record in history]
        replaced["history"] = np.asarray(table, dtype=np.float64).reshape(
            len(table), len(fields(Record))
        )
        names = [each.name for each in fields(Solution)]
        values = {
            name: replaced[name] if name in replaced else getattr(solution, name) for name in names
        }
        return {MARK: "solution", "arguments": self._values(values)}

    def _values(self, values: dict[str, Any]) -> dict[str, Any]:
        return {key: self.encode(value) for key, value in values.items()}

    def _dict(self, value: dict) -> Any:
        plain = type(value) is dict
        if plain and len(value) >= _LONG and _is_vocabulary(value):
            numbers = np.fromiter(value.values(), dtype=np.int64, count=len(value))
            return {MARK: "vocabulary", "words": "\n".join(value), "numbers": numbers}
        if plain and (MARK in value or not all(type(key) is str for key in value)):
            # skops converts keys to JSON strings: True would become "true".
            items = [[self.encode(key), self.encode(each)] for key, each in value.items()]
            return {MARK: "dict", "items": items}
        # A copy has the class and the attributes of a subclass of dict.
        encoded = copy.copy(value)
        for key, each in value.items():
            encoded[key] = self.encode(each)
        return encoded

    def _array(self, value: np.ndarray) -> Any:
        if isinstance(value, np.ma.MaskedArray):
            data, mask = self.encode(value.data), np.ma.getmaskarray(value)
            return {MARK: "masked", "data": data, "mask": mask}
        if value.dtype != object:
            return np.asarray(value)
        items = value.ravel().tolist()
        if len(items) >= _LONG and all(_is_word(item) for item in items):
            return {MARK: "words", "shape": value.shape, "words": "\n".join(items)}
        return {MARK: "objects", "shape": value.shape, "items": [self._item(item) for item in items]}

    def _item(self, item: Any) -> Any:
        """Encode an item of an array of objects, such as a label; its class must be importable."""
        encoded = self.encode(item)
        known = item is None or type(item).__module__ == "numpy" or isinstance(item, _OPAQUE)
        if encoded is item and not known:
            check_importable(type(item))
        return encoded

    def _python(self, value: Any) -> dict[str, Any]:
        """Encode built-in types and enumerations that skops does not store safely."""
        if isinstance(value, Enum):
            check_importable(type(value))
            return {MARK: "member", "class": type(value), "name": value.name}
        if isinstance(value, (set, frozenset)):
            # The order of a set of strings differs between processes.
            items = [self.encode(each) for each in sorted(value, key=repr)]
            return {MARK: type(value).__name__, "items": items}
        if isinstance(value, range):
            return {MARK: "range", "ends": [value.start, value.stop, value.step]}
        return {MARK: "complex", "parts": [value.real, value.imag]}

    def _foreign(self, value: Any) -> Any:
        """Return another object unchanged, or a copy if it contains objects of this package."""
        before = None if isinstance(value, _OPAQUE) else value.__getstate__()
        if type(before) is not dict or not hasattr(value, "__dict__"):
            return value
        state = self._values(before)
        if all(state[key] is each for key, each in before.items()):
            return value
        return _with_state(object.__new__(type(value)), state)


class Decoder:
    """Converter of plain values, loaded by skops, to a model."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Any, Any]] = {}

    def decode(self, value: Any) -> Any:
        """Return the value for the result of `Encoder.encode`."""
        if value is None or isinstance(value, (bool, int, float, str, bytes)):
            return value
        if id(value) not in self._known:
            self._known[id(value)] = (value, self._decode(value))
        return self._known[id(value)][1]

    def _decode(self, value: Any) -> Any:
        if type(value) is dict and MARK in value:
            return self._marked(value)
        check_indices("a matrix", value)
        if isinstance(value, dict):
            for key, each in value.items():
                value[key] = self.decode(each)
            return value
        if type(value) in (list, tuple):
            return type(value)(self.decode(each) for each in value)
        if not isinstance(value, (*_OPAQUE, np.ndarray)) and hasattr(value, "__dict__"):
            vars(value).update(self._values(vars(value)))
        return value

    def _values(self, values: dict[str, Any]) -> dict[str, Any]:
        return {key: self.decode(value) for key, value in values.items()}

    def _marked(self, state: dict[str, Any]) -> Any:
        name = state[MARK]
        if name in PARAMETERIZED:
            kind = PARAMETERIZED[name]
            made = kind(**self._values(state["parameters"]))
            learned = self._values(state["learnt"])
            return _with_state(made, {key: each for key, each in learned.items() if _is_learned(key)})
        if name in MADE:
            return MADE[name](**self._values(state["arguments"]))
        special = getattr(self, f"_made_{name}", None)
        if special is None:
            raise ValueError(f"it contains {name!r}, which is unknown to structinv")
        return special(state)

    def _made_class(self, state: dict[str, Any]) -> Any:
        kind = state["class"]
        made = kind(**self._values(state["parameters"]))
        return _with_state(made, self._values(state["state"]))

    def _made_status(self, state: dict[str, Any]) -> Status:
        return Status(state["value"])

    def _made_solution(self, state: dict[str, Any]) -> Solution:
        solution = Solution(**self._values(state["arguments"]))
        history: Any = solution.history
        records = [Record(int(row[0]), int(row[1]), *row[2:]) for row in history.tolist()]
        return replace(solution, history=records)

    def _made_method(self, state: dict[str, Any]) -> Any:
        kernel = self.decode(state["of"])
        if not isinstance(kernel, Kernel) or state["name"] != "matrix":
            raise ValueError(f"it contains the method {state['name']!r} of a {type(kernel).__name__}")
        return kernel.matrix

    def _made_dict(self, state: dict[str, Any]) -> dict:
        return {self.decode(key): self.decode(each) for key, each in state["items"]}

    def _made_member(self, state: dict[str, Any]) -> Enum:
        if not issubclass(state["class"], Enum):
            raise ValueError(f"it contains a member of {state['class'].__name__}, which is not an Enum")
        return state["class"][state["name"]]

    def _made_set(self, state: dict[str, Any]) -> set:
        return {self.decode(each) for each in state["items"]}

    def _made_frozenset(self, state: dict[str, Any]) -> frozenset:
        return frozenset(self.decode(each) for each in state["items"])

    def _made_range(self, state: dict[str, Any]) -> range:
        return range(*state["ends"])

    def _made_complex(self, state: dict[str, Any]) -> complex:
        return complex(*state["parts"])

    def _made_vocabulary(self, state: dict[str, Any]) -> dict[str, int]:
        return dict(zip(state["words"].split("\n"), state["numbers"].tolist(), strict=True))

    def _made_words(self, state: dict[str, Any]) -> np.ndarray:
        return _objects(state["words"].split("\n"), state["shape"])

    def _made_objects(self, state: dict[str, Any]) -> np.ndarray:
        return _objects([self.decode(item) for item in state["items"]], state["shape"])

    def _made_masked(self, state: dict[str, Any]) -> np.ma.MaskedArray:
        return np.ma.MaskedArray(self.decode(state["data"]), state["mask"])


def check_importable(named: Any) -> None:
    """Raise TypeError if a class or function cannot be imported by its name."""
    module, name = named.__module__, named.__name__
    holder = sys.modules.get(module) or importlib.import_module(module)
    kind = "class" if isinstance(named, type) else "function"
    if getattr(holder, name, None) is not named:
        raise TypeError(
            f"the {kind} {named.__qualname__} of {module} cannot be stored in a model file, which "
            "imports "
            "it by name: define it at the top level of a module"
        )
    if module == "__main__":
        warnings.warn(
            f"the {kind} {name} is defined in __main__, so the file can be loaded only by programs that "
            "define it in __main__ also: move it to a module",
            UserWarning,
            stacklevel=2,
        )


def _with_state(made: Any, state: dict[str, Any]) -> Any:
    vars(made).update(state)
    return made


def _is_learned(name: str, parameters: Any = ()) -> bool:
    return name.endswith("_") and not name.startswith("__") and name not in parameters


def _is_word(value: Any) -> bool:
    return type(value) is str and "\n" not in value


def _is_vocabulary(value: dict) -> bool:
    whole = all(isinstance(each, (int, np.integer)) for each in value.values())
    return whole and all(_is_word(key) for key in value) and bool not in map(type, value.values())


def _objects(items: list[Any], shape: tuple[int, ...]) -> np.ndarray:
    array = np.empty(len(items), dtype=object)
    for number, item in enumerate(items):
        array[number] = item
    return array.reshape(shape)
