"""Column names as parameters: replacement by feature numbers for a data frame."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, TypeVar

import numpy as np
from sklearn.base import BaseEstimator, clone

from .arguments import are_names, check_features, closest_of

Part = TypeVar("Part", bound=BaseEstimator)


class FeatureParameters:
    """Mixin for parameters that select features: numbers, a mask, or column names.

    Attributes
    ----------
    feature_parameters : tuple of str
        Names of parameters that select several features.
    single_features : tuple of str
        Names of parameters that select one feature, by number or name.
    """

    feature_parameters: ClassVar[tuple[str, ...]] = ()
    single_features: ClassVar[tuple[str, ...]] = ()

    def named(self) -> list[str]:
        """Return the parameters that contain column names.

        Returns
        -------
        list of str
            Names of these parameters.
        """
        several = [name for name in self.feature_parameters if are_names(getattr(self, name))]
        return several + [name for name in self.single_features if isinstance(getattr(self, name), str)]


def with_numbers(part: Part, columns: Sequence[str] | None) -> Part:
    """Replace column names in the parameters of an oracle by feature numbers.

    A mask with names, such as a pandas Series, becomes a mask in the order of the columns.

    Parameters
    ----------
    part : BaseEstimator
        An oracle, or an object made of oracles; it is not modified.
    columns : sequence of str, or None
        Columns of X. If None, names remain, and `validate` raises.

    Returns
    -------
    BaseEstimator
        A copy, or `part` itself if it contains no names.

    Raises
    ------
    ValueError
        If a name is not a column or occurs twice, or if a mask has other names than the columns.

    Examples
    --------
    >>> from structinv.oracles import FAdd
    >>> with_numbers(FAdd(1, allowed=["url", "ip"]), ["ip", "port", "url"]).allowed
    [2, 0]
    """
    if columns is None or not (_named(part) or _labeled(part)):
        return part
    part = clone(part)
    numbers = {name: number for number, name in enumerate(columns)}
    for each, parameter in _named(part):
        given = getattr(each, parameter)
        if isinstance(given, str):
            setattr(each, parameter, _number(parameter, given, numbers))
        else:
            check_features(parameter, given, None)
            setattr(each, parameter, [_number(parameter, name, numbers) for name in given])
    for each, parameter in _labeled(part):
        setattr(each, parameter, _in_order(parameter, getattr(each, parameter), columns))
    return part


def _named(part: Any) -> list[tuple[Any, str]]:
    found = [part, *part.get_params(deep=True).values()]
    return [
        (each, name) for each in found if isinstance(each, FeatureParameters) for name in each.named()
    ]


def _labeled(part: Any) -> list[tuple[Any, str]]:
    """Return the parameters that contain a mask with names."""
    found = [part, *part.get_params(deep=True).values()]
    return [
        (each, name)
        for each in found
        if isinstance(each, FeatureParameters)
        for name in each.feature_parameters
        if are_names(_labels(getattr(each, name)))
    ]


def _labels(given: Any) -> list[Any]:
    """Return the index of a boolean Series; an empty list for other values."""
    index = getattr(given, "index", None)
    return list(index) if np.iterable(index) and np.asarray(given).dtype == bool else []


def _in_order(parameter: str, mask: Any, columns: Sequence[str]) -> np.ndarray:
    """Return a mask with names in the order of the columns."""
    names = _labels(mask)
    if sorted(names) != sorted(columns):
        raise ValueError(
            f"the index of the mask {parameter} must contain each column of X once: "
            f"{_difference(names, columns)}"
        )
    chosen = dict(zip(names, np.asarray(mask).tolist(), strict=True))
    return np.array([chosen[name] for name in columns], dtype=bool)


def _difference(names: list[str], columns: Sequence[str]) -> str:
    for name in names:
        if name not in columns:
            return f"{name!r} is not a column of X"
    for name in columns:
        if name not in names:
            return f"{name!r} is missing"
    return f"it has {len(names)} entries for {len(columns)} columns"


def _number(parameter: str, name: str, numbers: dict[str, int]) -> int:
    if name not in numbers:
        hint = closest_of(name, list(numbers))
        raise ValueError(f"{parameter} must contain columns of X, got {str(name)!r}{hint}")
    return numbers[name]
