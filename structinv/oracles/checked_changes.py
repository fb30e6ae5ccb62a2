"""Validation of third-party lists; errors name the class and method."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..utils import plugins
from ..utils.matrices import ALL_ROWS, Matrix, Rows
from .changes import Changes, LinearChanges


def checked_changes(source: str, found: Any) -> Changes:
    """Return a validated list; third-party classes are wrapped in `CheckedChanges`."""
    if not isinstance(found, Changes):
        raise TypeError(f"{source} must return Changes, got {type(found).__name__}")
    return CheckedChanges(found) if plugins.is_third_party(found) else found


class CheckedChanges(Changes):
    """A third-party list with validated results: types, shapes, finite numbers."""

    def __init__(self, inner: Changes) -> None:
        super().__init__(inner.X, inner.y)
        self.inner = inner
        self.scored = bool(inner.scored)
        self.source = inner.source
        self._has_scores = False

    def _moved_to(self, X: Matrix, y: np.ndarray | None) -> None:
        self.inner = self.inner.on(X, y)

    def _call(self, name: str, *arguments: Any) -> tuple[str, Any]:
        """Call a method of the third-party class; return its name for messages and its result."""
        source = plugins.method(self.inner, name)
        return source, plugins.ask_third_party(source, getattr(self.inner, name), *arguments)

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
            raise ValueError(f"{source} must be at least 0, with one above 0, got {weights}")
        return weights

    def members(self, rows: Rows = ALL_ROWS, numbers: np.ndarray | None = None) -> np.ndarray:
        size = self.size if numbers is None else len(numbers)
        source, found = self._call("members", rows, numbers)
        return plugins.numbers(source, "members", found, (self.count(rows), size, self.X.shape[1]))

    def points(self, rows: Rows, index: np.ndarray) -> Any:
        source, found = self._call("points", rows, index)
        return plugins.rows(source, found, self.X, (self.count(rows), self.X.shape[1]))

    def scores(self, rows: Rows, V: np.ndarray) -> np.ndarray | None:
        if not self.scored:
            return None
        source, found = self._call("scores", rows, V)
        if found is None and self._has_scores:
            raise ValueError(
                f"{source} must return scores in every call, or None in every call, got None after "
                "scores"
            )
        if found is None:
            return None
        self._has_scores = True
        return plugins.numbers(source, "scores", found, (self.count(rows), self.size, len(V)))

    def grades(self, rows: Rows = ALL_ROWS) -> np.ndarray | None:
        if self._rho is not None:
            return super().grades(rows)
        source, found = self._call("grades", rows)
        return None if found is None else plugins.grades(source, found, (self.count(rows), self.size))

    def mesh(self, rows: Rows = ALL_ROWS) -> np.ndarray:
        source, found = self._call("mesh", rows)
        mesh = plugins.numbers(source, "a mesh", found, (self.count(rows),), finite=False)
        if np.any(mesh < 0):
            raise ValueError(f"{source} must return a mesh of at least 0, got {mesh.min():g}")
        return mesh

    def refine(
        self, rows: Rows, index: np.ndarray, score: Callable[[np.ndarray], np.ndarray]
    ) -> np.ndarray:
        source, found = self._call("refine", rows, index, score)
        return plugins.numbers(source, "points", found, (self.count(rows), self.X.shape[1]))

    def adjoint(self, V: np.ndarray) -> np.ndarray | None:
        source, found = self._call("adjoint", V)
        return None if found is None else plugins.numbers(source, "images", found, (self.size, *V.shape))

    def linear(self) -> LinearChanges | None:
        source, found = self._call("linear")
        if found is None:
            return None
        if not isinstance(found, LinearChanges) or found.size != self.size:
            raise TypeError(f"{source} must return None or LinearChanges of all {self.size} changes")
        check_maps(source, found.maps, self.X.shape[1])
        return found


def check_maps(source: str, maps: Sequence[Any], n_features: int) -> None:
    """Raise ValueError or TypeError unless maps are finite square CSR matrices."""
    wanted = n_features, n_features
    for each in maps:
        if not sp.issparse(each) or each.format != "csr" or each.shape != wanted:
            raise ValueError(f"{source} must return maps as CSR of shape {wanted}, got {each!r}")
        plugins.places(source, "maps", each)
        plugins.numbers(source, "maps", each.data, each.indices.shape)


def checked_names(source: str, names: Any, size: int) -> list[str]:
    """Validate the names of members."""
    if not isinstance(names, (list, tuple)) or not all(isinstance(name, str) for name in names):
        raise TypeError(f"{source} must return a list of names, got {names!r}")
    if len(names) != size:
        raise ValueError(f"{source} must return one name per member, {size} names, got {len(names)}")
    return list(names)
