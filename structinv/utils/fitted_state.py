"""What an estimator has learned, and how a fit that fails leaves nothing of it half-changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


def learned_attributes(estimator: Any) -> dict[str, Any]:
    """What an estimator has learned, by name."""
    return {name: value for name, value in vars(estimator).items() if name.endswith("_")}


def remembered(estimator: Any) -> Callable[[], None]:
    """A function that takes an estimator back to what it is now."""
    before = dict(vars(estimator))

    def take_back() -> None:
        vars(estimator).clear()
        vars(estimator).update(before)

    return take_back


@contextmanager
def taken_back(estimator: Any) -> Iterator[None]:
    """Take an estimator back to what it was, where a `with` statement fails.

    Examples
    --------
    >>> from sklearn.base import BaseEstimator
    >>> estimator = BaseEstimator()
    >>> estimator.coef_ = 1.0
    >>> try:
    ...     with taken_back(estimator):
    ...         estimator.coef_, estimator.intercept_ = 2.0, 3.0
    ...         raise ValueError
    ... except ValueError:
    ...     vars(estimator)
    {'coef_': 1.0}
    """
    take_back = remembered(estimator)
    try:
        yield
    except BaseException:
        take_back()
        raise
