"""Lists of perturbed samples from `orbit` or `sample`, validated."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..utils import plugins
from ..utils.matrices import ALL_ROWS, Matrix, Rows, dense_rows, floating, take
from .changes import Changes, draw_names
from .checked_changes import checked_names

if TYPE_CHECKING:
    from .base import InvarianceOracle


class ListedChanges(Changes):
    """The members of S(x) that `orbit` of an oracle returns.

    Shapes: `X` (n_samples, n_features).
    """

    def __init__(
        self, oracle: InvarianceOracle, X: Matrix, *, scored: bool = True, keep: bool = False
    ) -> None:
        super().__init__(X)
        self.oracle = oracle
        self.scored = scored
        self.keep = keep
        self._cached_members: np.ndarray | None = None
        # Number of members; copies of this list for other rows share the dict.
        self._known: dict[str, int] = {}

    def _moved_to(self, X: Matrix, y: np.ndarray | None) -> None:
        self.keep, self._cached_members = False, None

    @property
    def size(self) -> int:
        if not self._known:
            first = self.X[:1] if self.X.shape[0] else np.zeros((1, self.X.shape[1]))
            self._orbit_of(first)
        return self._known["size"]

    @property
    def names(self) -> list[str]:
        source = plugins.method(self.oracle, "member_names")
        return checked_names(source, self.oracle.member_names(self.size), self.size)

    def members(self, rows: Rows = ALL_ROWS, numbers: np.ndarray | None = None) -> np.ndarray:
        if self.keep and self._cached_members is None:
            self._cached_members = self._orbit_of(self.X)
        members = (
            self._orbit_of(take(self.X, rows))
            if self._cached_members is None
            else self._cached_members[rows]
        )
        return members if numbers is None else members[:, numbers]

    def _orbit_of(self, X: Matrix) -> np.ndarray:
        """Return the validated orbit of some rows."""
        source, X = plugins.method(self.oracle, "orbit"), floating(X)
        found = plugins.ask(self.oracle, source, self.oracle.orbit, X)
        members = plugins.members(source, found, dense_rows(X))
        known = self._known.setdefault("size", members.shape[1])
        if members.shape[1] != known:
            raise ValueError(
                f"{source} must return the same number of members in every call and for every row, "
                f"got {members.shape[1]} after {known}"
            )
        return members

    def _member_scores(self, rows: Rows, V: np.ndarray) -> np.ndarray | None:
        if not self.scored:
            return None
        members = self.members(rows)
        return members @ V.astype(members.dtype).T

    def grades(self, rows: Rows = ALL_ROWS) -> np.ndarray | None:
        if self._rho is None and self.oracle.graded:
            raise self.oracle._absent("grades of its members")
        return super().grades(rows)


class DrawnChanges(Changes):
    """Random members of S(x) from `sample`, with the same seed for every row.

    Shapes: `X` (n_samples, n_features).
    """

    def __init__(self, oracle: InvarianceOracle, X: Matrix, size: int, random_state: int) -> None:
        super().__init__(X)
        self.oracle = oracle
        self.n_draws = size
        self.random_state = random_state

    @property
    def size(self) -> int:
        return self.n_draws

    @property
    def names(self) -> list[str]:
        return draw_names(self.size)

    def members(self, rows: Rows = ALL_ROWS, numbers: np.ndarray | None = None) -> np.ndarray:
        source, X = plugins.method(self.oracle, "sample"), floating(take(self.X, rows))
        found = []
        # One row per call, because the members of a row must not depend on other rows.
        for number in range(X.shape[0]):
            generator = np.random.default_rng(self.random_state)
            row = X[number : number + 1]
            part = plugins.ask(self.oracle, source, self.oracle.sample, row, self.size, generator)
            found.append(plugins.numbers(source, "members", part, (1, self.size, X.shape[1])))
        table = np.concatenate(found) if found else np.zeros((0, self.size, X.shape[1]))
        return table if numbers is None else table[:, numbers]
