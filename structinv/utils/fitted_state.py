"""Fitted attributes of estimators, and their restoration after a failed fit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


def learned_attributes(estimator: Any) -> dict[str, Any]:
    """Return the fitted attributes of an estimator, by name."""
    return {name: value for name, value in vars(estimator).items() if name.endswith("_")}


def restorer(estimator: Any) -> Callable[[], None]:
    """Return a function that restores the present attributes of an estimator."""
    before = dict(vars(estimator))

    def restore() -> None:
        vars(estimator).clear()
        vars(estimator).update(before)

    return restore


@contextmanager
def restored_on_error(estimator: Any) -> Iterator[None]:
    """Restore the attributes of an estimator after an error in a `with` block."""
    restore = restorer(estimator)
    try:
        yield
    except BaseException:
        restore()
        raise
