"""Validation of parameters."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import numpy as np


def check_boolean(name: str, value: Any) -> None:
    """Raise TypeError if `value` is not True or False."""
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name} must be True or False, got {value!r}")


def check_integer(
    name: str,
    value: Any,
    least: int = 1,
    most: int | None = None,
    what: str = "",
    *,
    optional: bool = False,
) -> None:
    """Raise TypeError or ValueError if `value` is not an integer in a range.

    Parameters
    ----------
    name : str
        Name of the parameter in messages.
    value : object
        Value of the parameter.
    least, most : int
        Bounds; no upper bound by default.
    what : str
        Things whose number is `most`, for messages.
    optional : bool, default=False
        Whether None is allowed.

    Examples
    --------
    >>> check_integer("n_neighbors", 9, 2, 5, "reference rows")
    Traceback (most recent call last):
        ...
    ValueError: n_neighbors must be at least 2 and at most 5, the number of reference rows, got 9
    """
    if optional and value is None:
        return
    allowed = f"{'None or ' if optional else ''}an integer of at least {least}"
    if not isinstance(value, Integral) or isinstance(value, bool):
        raise TypeError(f"{name} must be {allowed}, got {value!r}")
    if most is None and value < least:
        raise ValueError(f"{name} must be {allowed}, got {value!r}")
    if most is not None and not least <= int(value) <= most:
        raise ValueError(
            f"{name} must be at least {least} and at most {most}, the number of {what}, got {value!r}"
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
    """Raise TypeError or ValueError if `value` is not a real number in a range.

    Parameters
    ----------
    name : str
        Name of the parameter in messages.
    value : object
        Value of the parameter.
    minimum, maximum : float
        Bounds; 0 and infinity by default.
    strict : bool, default=False
        Whether `value` must be above `minimum`.
    finite : bool, default=True
        Whether infinity is an error.

    Examples
    --------
    >>> check_number("tol", 0, strict=True)
    Traceback (most recent call last):
        ...
    ValueError: tol must be a number above 0, got 0
    """
    allowed = f"a number {'above' if strict else 'of at least'} {minimum:g}"
    if not np.isfinite(minimum):
        allowed = "a finite number"
    if np.isfinite(maximum):
        allowed += f" and at most {maximum:g}"
    if not isinstance(value, Real) or isinstance(value, bool):
        raise TypeError(f"{name} must be {allowed}, got {value!r}")
    number = float(value)
    too_small = not number > minimum if strict else not number >= minimum
    if too_small or number > maximum or (finite and not np.isfinite(number)):
        raise ValueError(f"{name} must be {allowed}, got {value!r}")
