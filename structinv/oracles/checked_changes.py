"""Validates the lists of changes that classes of authors return; errors name the class and method."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..utils import plugins
from ..utils.matrices import ALL_ROWS, Matrix, Rows
from .changes import Changes, LinearChanges


def checked_changes(source: str, found: Any) -> Changes:
    """A list of changes, or `CheckedChanges` around one of an author's class.

    Parameters
    ----------
    source : str
        Class and method that returned it.
    found : object

    Raises
    ------
    TypeError
        If it is no `Changes`.
    """
    if not isinstance(found, Changes):
        raise TypeError(f"{source} must return Changes, got {type(found).__name__}")
    return CheckedChanges(found) if plugins.is_third_party(found) else found


class CheckedChanges(Changes):
    """A list of an author's class, whose answers have the shape and the numbers of the contract.

    Parameters
    ----------
    inner : Changes
    """

    def __init__(self, inner: Changes) -> None:
        super().__init__(inner.X, inner.y)
        self.inner = inner
        self.scored = bool(inner.scored)
        self.source = inner.source
        self._has_scores = False

    def _moved_to(self, X: Matrix, y: np.ndarray | None) -> None:
        self.inner = self.inner.on(X, y)

    def _ask(self, name: str, *question: Any) -> tuple[str, Any]:
        """How messages name a method of the author's class, and its answer."""
        source = plugins.method(self.inner, name)
        return source, plugins.ask_third_party(source, getattr(self.inner, name), *question)

    @property
    def size(self) -> int:
        source = plugins.method(self.inner, "size")
        return int(plugins.number(source, "a size", self.inner.size, least=1))

    @property
    def names(self) -> list[str]:
        return checked_names(plugins.method(self.inner, "names"), self.inner.names, self.size)

    def _own_weights(self) -> np.ndarray:
        source = plugins.method(self.inner, "weights")
        weights = plugins.numbers(source, "weights", self.inner.weights, (self.size,))
        if np.min(weights) < 0 or not np.sum(weights) > 0:
            raise ValueError(f"{source} must be at least 0, and some above, got {weights}")
        return weights

    def members(self, rows: Rows = ALL_ROWS, numbers: np.ndarray | None = None) -> np.ndarray:
        size = self.size if numbers is None else len(numbers)
        source, found = self._ask("members", rows, numbers)
        return plugins.numbers(source, "members", found, (self.count(rows), size, self.X.shape[1]))

    def points(self, rows: Rows, index: np.ndarray) -> Any:
        source, found = self._ask("points", rows, index)
        return plugins.rows(source, found, self.X, (self.count(rows), self.X.shape[1]))

    def scores(self, rows: Rows, V: np.ndarray) -> np.ndarray | None:
        if not self.scored:
            return None
        source, found = self._ask("scores", rows, V)
        if found is None and self._has_scores:
            raise ValueError(f"{source} must return scores in every call or in none, got None")
        if found is None:
            return None
        self._has_scores = True
        return plugins.numbers(source, "scores", found, (self.count(rows), self.size, len(V)))

    def grades(self, rows: Rows = ALL_ROWS) -> np.ndarray | None:
        if self._rho is not None:
            return super().grades(rows)
        source, found = self._ask("grades", rows)
        return None if found is None else plugins.grades(source, found, (self.count(rows), self.size))

    def mesh(self, rows: Rows = ALL_ROWS) -> np.ndarray:
        source, found = self._ask("mesh", rows)
        mesh = plugins.numbers(source, "a mesh", found, (self.count(rows),), finite=False)
        if np.any(mesh < 0):
            raise ValueError(f"{source} must return a mesh of at least 0, got {mesh.min():g}")
        return mesh

    def refine(
        self, rows: Rows, index: np.ndarray, score: Callable[[np.ndarray], np.ndarray]
    ) -> np.ndarray:
        source, found = self._ask("refine", rows, index, score)
        return plugins.numbers(source, "points", found, (self.count(rows), self.X.shape[1]))

    def adjoint(self, V: np.ndarray) -> np.ndarray | None:
        source, found = self._ask("adjoint", V)
        return None if found is None else plugins.numbers(source, "images", found, (self.size, *V.shape))

    def linear(self) -> LinearChanges | None:
        source, found = self._ask("linear")
        if found is None:
            return None
        if not isinstance(found, LinearChanges) or found.size != self.size:
            raise TypeError(f"{source} must return None or LinearChanges of all {self.size} changes")
        check_maps(source, found.maps, self.X.shape[1])
        return found


def check_maps(source: str, maps: Sequence[Any], n_features: int) -> None:
    """Raise ValueError or TypeError unless maps are finite CSR matrices of the rows' features."""
    wanted = n_features, n_features
    for each in maps:
        if not sp.issparse(each) or each.format != "csr" or each.shape != wanted:
            raise ValueError(f"{source} must return maps as CSR of shape {wanted}, got {each!r}")
        plugins.places(source, "maps", each)
        plugins.numbers(source, "maps", each.data, each.indices.shape)


def checked_names(source: str, names: Any, size: int) -> list[str]:
    """Names of members, one each.

    Raises
    ------
    TypeError, ValueError
        If they are no list of names, or not so many.
    """
    if not isinstance(names, (list, tuple)) or not all(isinstance(name, str) for name in names):
        raise TypeError(f"{source} must return a list of names, got {names!r}")
    if len(names) != size:
        raise ValueError(f"{source} must return a name for each of {size} members, got {len(names)}")
    return list(names)
