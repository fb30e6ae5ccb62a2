"""Methods that depend on parameters, with the reason in the AttributeError."""

from __future__ import annotations

from collections.abc import Callable
from functools import update_wrapper
from types import MethodType
from typing import Any, cast


def available_with_reason(check: Callable[[Any], None]) -> Callable[[Callable[..., Any]], Any]:
    """Decorate a method that is available only if a check of the object passes.

    `available_if` of scikit-learn replaces the message of the check by its own.
    """
    return lambda method: _Available(method, check)


class _Available:
    """Descriptor of a method with a check."""

    def __init__(self, method: Callable[..., Any], check: Callable[[Any], None]) -> None:
        self.method = method
        self.check = check
        update_wrapper(cast(Any, self), method)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self.method
        self.check(instance)
        return MethodType(self.method, instance)
