"""Column names in parameters: feature numbers and aligned tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, TypeVar

from sklearn.base import BaseEstimator, clone

from ..utils.parameters import are_default, in_order, labels_of
from ..utils.texts import listed
from .arguments import are_names, check_features, closest_of, is_mask

Part = TypeVar("Part", bound=BaseEstimator)


class FeatureParameters:
    """Mixin for parameters that select features, or have one entry per feature."""

    feature_parameters: ClassVar[tuple[str, ...]] = ()
    single_features: ClassVar[tuple[str, ...]] = ()
    feature_axes: ClassVar[Mapping[str, int]] = {}

    def _named(self) -> list[str]:
        """Return the parameters that contain column names."""
        several = [name for name in self.feature_parameters if are_names(getattr(self, name))]
        return several + [name for name in self.single_features if isinstance(getattr(self, name), str)]

    def _align(self, columns: Sequence[Any]) -> None:
        """Replace tables by arrays in the order of the columns of X."""
        for name, (value, axis) in self._tables().items():
            setattr(self, name, in_order(name, value, axis, columns))

    def _tables(self) -> dict[str, tuple[Any, int]]:
        """Return the value and the axis of parameters with one labeled entry per feature."""
        given: Any = self
        values = given.get_params(deep=False)
        axes = dict(self.feature_axes)
        # Numbers and names are lists, whose own labels have no meaning.
        axes |= {name: -1 for name in self.feature_parameters if is_mask(values[name])}
        return {
            name: (values[name], axis)
            for name, axis in axes.items()
            if labels_of(values[name], axis) is not None
        }


def with_numbers(part: Part, columns: Sequence[Any] | None) -> Part:
    """Replace column names in the parameters of an oracle by feature numbers.

    A table with one entry per feature, such as a pandas Series of radii, becomes an array in the order
    of the columns.
    """
    if columns is None or not (_named(part) or any(oracle._tables() for oracle in _parts(part))):
        return part
    check_strings(part, columns)
    part = clone(part)
    numbers = {name: number for number, name in enumerate(columns)}
    for oracle, parameter in _named(part):
        value = getattr(oracle, parameter)
        if isinstance(value, str):
            setattr(oracle, parameter, _number(parameter, value, numbers))
        else:
            check_features(parameter, value, None)
            setattr(oracle, parameter, [_number(parameter, name, numbers) for name in value])
    for oracle in _parts(part):
        oracle._align(columns)
    return part


def _parts(part: Any) -> list[FeatureParameters]:
    found = [part, *part.get_params(deep=True).values()]
    return [each for each in found if isinstance(each, FeatureParameters)]


def _named(part: Any) -> list[tuple[Any, str]]:
    return [(each, name) for each in _parts(part) for name in each._named()]


def check_strings(part: Any, columns: Sequence[Any]) -> None:
    """Raise ValueError if a parameter has labels, and columns are not strings."""
    if all(isinstance(name, str) for name in columns):
        return
    uses: list[tuple[str, Any]] = [(name, None) for _, name in _named(part)]
    for each in _parts(part):
        uses += [(name, labels_of(*table)) for name, table in each._tables().items()]
    for name, labels in uses:
        if labels is None or not are_default(labels) or set(labels) == set(columns):
            several = any(isinstance(column, tuple) for column in columns)
            got = f"the MultiIndex column {columns[0]!r}" if several else repr(columns[0])
            remedy = "X.columns.map('_'.join)" if several else "X.columns.map(str)"
            raise ValueError(
                f"the columns of X must be strings, because {name} refers to them by label, got {got}: "
                f"set X.columns = {remedy}"
            )


def _number(parameter: str, name: str, numbers: dict[str, int]) -> int:
    if name not in numbers:
        hint = closest_of(name, list(numbers)) or _containing(name, numbers)
        raise ValueError(f"{parameter} must contain columns of X, got {str(name)!r}{hint}")
    return numbers[name]


def _containing(name: str, columns: Iterable[str]) -> str:
    """Return a hint with the columns that contain a name, as after a `ColumnTransformer`."""
    found = [column for column in columns if name in column]
    return f"; X has the columns {listed(found)}" if found else ""
