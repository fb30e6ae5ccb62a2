"""Validation of parameters."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import numpy as np

# Messages have arrays of at most this number of entries, and other values up to this length.
MOST_ENTRIES, MOST_CHARACTERS = 20, 500


def brief(value: Any) -> str:
    """Return a value for messages; tables and large arrays by type and shape."""
    shape = getattr(value, "shape", ())
    small = isinstance(value, np.ndarray) and value.size <= MOST_ENTRIES
    if not isinstance(shape, tuple) or not shape or small:
        shown = repr(value)
        return shown if len(shown) <= MOST_CHARACTERS else f"{shown[:MOST_CHARACTERS]}..."
    return f"{type(value).__name__} of shape {shape}"


def check_boolean(name: str, value: Any) -> None:
    """Raise TypeError if `value` is not True or False."""
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name} must be True or False, got {brief(value)}")


def check_integer(
    name: str,
    value: Any,
    least: int = 1,
    most: int | None = None,
    what: str = "",
    *,
    optional: bool = False,
) -> None:
    """Raise TypeError or ValueError if `value` is not an integer in a range."""
    if optional and value is None:
        return
    allowed = f"{'None or ' if optional else ''}an integer of at least {least}"
    if not isinstance(value, Integral) or isinstance(value, bool):
        raise TypeError(f"{name} must be {allowed}, got {brief(value)}")
    if most is None and value < least:
        raise ValueError(f"{name} must be {allowed}, got {brief(value)}")
    if most is not None and not least <= int(value) <= most:
        raise ValueError(
            f"{name} must be at least {least} and at most {most}, the number of {what}, got "
            f"{brief(value)}"
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
    """Raise TypeError or ValueError if `value` is not a real number in a range."""
    allowed = f"a number {'above' if strict else 'of at least'} {minimum:g}"
    if not np.isfinite(minimum):
        allowed = "a finite number"
    if np.isfinite(maximum):
        allowed += f" and at most {maximum:g}"
    if not isinstance(value, Real) or isinstance(value, bool):
        raise TypeError(f"{name} must be {allowed}, got {brief(value)}")
    number = float(value)
    too_small = not number > minimum if strict else not number >= minimum
    if too_small or number > maximum or (finite and not np.isfinite(number)):
        raise ValueError(f"{name} must be {allowed}, got {brief(value)}")
