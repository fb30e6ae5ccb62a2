"""The door through which distributions over changes come in: laws looked at by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from .. import answers
from ..matrices import Matrix
from .laws import Law, LinearLaw, normalised

# By how much the sum of weights may miss 1, also in single precision.
_SUM = 1e-6


def looked_at(source: str, law: Any, n_features: int, size: int | None = None) -> Law:
    """The law, if it can be one; what one of a foreign class answers is looked at in every call.

    Parameters
    ----------
    source : str
        Class and method that gave it.
    law : object
    n_features : int
    size : int, optional
        How many changes were asked for.

    Raises
    ------
    TypeError, ValueError
        If it is no `Law`, or its weights are none.
    """
    if not isinstance(law, Law):
        raise TypeError(f"{source} must return a Law, got {type(law).__name__}")
    weights = _weights(source, law, size)
    return CheckedLaw(law, weights, n_features) if answers.of_a_stranger(law) else law


def _weights(source: str, law: Law, size: int | None) -> np.ndarray:
    name = f"the law of {source}, {type(law).__name__},"
    found: Any = getattr(law, "weights", None)
    good = isinstance(found, np.ndarray) and found.ndim == 1 and found.dtype.kind == "f"
    # Products of weights of this package's own laws may be too small for a number.
    good = good and bool(np.all(found > 0 if answers.of_a_stranger(law) else found >= 0))
    if not good or not abs(np.sum(found, dtype=np.float64) - 1.0) <= _SUM:
        raise ValueError(f"{name} must have weights above 0 with sum 1, an array (s,), got {found!r}")
    if size is not None and len(found) != size:
        raise ValueError(f"{name} must have as many changes as asked for, got {len(found)}, not {size}")
    return found


class CheckedLaw(Law):
    """A law whose answers have the shape and the numbers that the contract says.

    Parameters
    ----------
    inner : Law
    weights : (s,) array
        Those of `inner`.
    n_features : int
    """

    def __init__(self, inner: Law, weights: np.ndarray, n_features: int) -> None:
        self.inner = inner
        self.weights = normalised(weights)
        self.n_features = n_features

    def members(self, X: Matrix) -> np.ndarray:
        source = answers.method(self.inner, "members")
        found = answers.ask_stranger(source, self.inner.members, X)
        return answers.numbers(source, "members", found, (X.shape[0], self.size, X.shape[1]))

    def pull_back(self, V: np.ndarray) -> np.ndarray | None:
        source = answers.method(self.inner, "pull_back")
        found = answers.ask_stranger(source, self.inner.pull_back, V)
        if found is None:
            return None
        return answers.numbers(source, "images", found, (self.size, *V.shape))

    def linear(self) -> LinearLaw | None:
        source, found = answers.method(self.inner, "linear"), self.inner.linear()
        if found is None:
            return None
        self._look_at_maps(source, found)
        if found.size != self.size or not np.allclose(found.weights, self.weights, rtol=_SUM, atol=0):
            raise ValueError(
                f"{source} must return the {self.size} changes of the law, in their order and with "
                f"their weights, got {found.size} with weights {found.weights}"
            )
        return found

    def differences(self, most: int | None = None) -> LinearLaw | None:
        # The maps that they are made from, or the law's own ones.
        if type(self.inner).differences is Law.differences:
            return super().differences(most)
        found = self.inner.differences(most)
        if found is not None:
            self._look_at_maps(answers.method(self.inner, "differences"), found)
        return found

    def take(self, numbers: Sequence[int] | np.ndarray, weights: np.ndarray | None = None) -> Law:
        if type(self.inner).take is Law.take:
            return super().take(numbers, weights)
        source = answers.method(self.inner, "take")
        law = self.inner.take(numbers, weights)
        if not isinstance(law, Law):
            raise TypeError(f"{source} must return a Law, got {type(law).__name__}")
        return CheckedLaw(law, _weights(source, law, len(numbers)), self.n_features)

    def _look_at_maps(self, source: str, law: Any) -> None:
        if not isinstance(law, LinearLaw):
            raise TypeError(f"{source} must return None or a LinearLaw, got {type(law).__name__}")
        wanted = self.n_features, self.n_features
        for each in law.maps:
            if not sp.issparse(each) or each.format != "csr" or each.shape != wanted:
                raise ValueError(f"{source} must return maps as CSR of shape {wanted}, got {each!r}")
            answers.places(source, "maps", each)
            answers.numbers(source, "maps", each.data, each.indices.shape)
