"""What either of several oracles allows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..regions import Region
from ..regions.region_union import RegionUnion
from ..utils.matrices import ALL_ROWS, Matrix, Rows
from .arguments import check_directions
from .base import BoundOracle, Hull, InvarianceOracle, Support
from .changes import Changes
from .checked_oracle import bind
from .combinators import Pair, best_of
from .combined_changes import UnionChanges
from .geometry import region_of
from .listing import changes_of, draws_of
from .support import Grades
from .union_hull import UnionHull


class Union(Pair):
    r"""Everything that either of two oracles allows; written ``left | right``.

    .. math:: S(x) = S_{left}(x) \cup S_{right}(x)

    The answer is the better of the two answers, and exact if both are. With a change of whole examples
    (`Shared`, `Budget`) it is a union of sets of examples, else each row may change by either oracle.

    Parameters
    ----------
    left, right : InvarianceOracle

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.oracles import Box, Ellipsoid
    >>> either = Box([3.0, 0.0]) | Ellipsoid(np.eye(2), radius=2.0)
    >>> either.support(np.zeros((2, 2)), np.eye(2), np.array([0, 1])).points
    array([[3., 0.],
           [0., 2.]])
    """

    @property
    def coordinatewise(self) -> bool:  # type: ignore[override]
        """Whether both parts are."""
        return self.left.coordinatewise and self.right.coordinatewise

    @property
    def graded(self) -> bool:  # type: ignore[override]
        """Whether a part is graded."""
        return self.left.graded or self.right.graded

    @property
    def whole_example(self) -> bool:  # type: ignore[override]
        """Whether a part speaks of whole examples."""
        return self.left.whole_example or self.right.whole_example

    def region(self, X: np.ndarray) -> Region:
        """See `InvarianceOracle.region`: the union of those of the parts."""
        if self.finite:
            return super().region(X)
        self._check_rows(X)
        return RegionUnion([region_of(leaf, X) for leaf in self.leaves()])

    def leaves(self) -> list[InvarianceOracle]:
        """The oracles of a union of unions, from left to right."""
        parts = (self.left, self.right)
        return [
            leaf for part in parts for leaf in (part.leaves() if isinstance(part, Union) else [part])
        ]

    def _changes(self, X: Matrix, y: np.ndarray | None) -> Changes | None:
        """See `InvarianceOracle.changes`; each leaf is as likely as any other."""
        parts = [changes_of(leaf, X, y) for leaf in self.leaves()]
        known = [part for part in parts if part is not None]
        return UnionChanges(known, np.ones(len(known)), once=True) if len(known) == len(parts) else None

    def _draws(self, X: Matrix, n_draws: int, random_state: int) -> Changes:
        """See `InvarianceOracle.draws`; each leaf is as likely as any other."""
        leaves = self.leaves()
        rng = np.random.default_rng(random_state)
        sizes = np.bincount(rng.integers(len(leaves), size=n_draws), minlength=len(leaves))
        seeds = rng.integers(2**32, size=len(leaves))
        drawn = np.flatnonzero(sizes)
        parts = [draws_of(leaves[k], X, int(sizes[k]), int(seeds[k])) for k in drawn]
        return UnionChanges(parts, sizes[drawn])

    def bind(self, X: Matrix, y: np.ndarray | None = None) -> BoundOracle:
        """Both parts on the rows of `X`."""
        self._check_rows(X)
        return _BoundUnion(self._prepared(), X, y)

    def graded_support(
        self,
        X: Matrix,
        V: np.ndarray,
        assign: np.ndarray,
        cost: np.ndarray,
        rho: float | Sequence[float],
    ) -> Support:
        """See `InvarianceOracle.graded_support`: the same grades in both parts."""
        bound = self.bind(X)
        check_directions(X, V, assign, cost)
        return bound.support(ALL_ROWS, V, assign, cost, rho)


class _BoundUnion(BoundOracle):
    """All leaves on the same rows; only the first of them shows its identity among the members."""

    def __init__(self, oracle: Union, X: Matrix, y: np.ndarray | None) -> None:
        super().__init__(oracle, X, y)
        self.parts = [bind(leaf, X, y) for leaf in oracle.leaves()]

    def scenarios(self) -> list[tuple[BoundOracle, ...]]:
        """Those of both parts; where neither speaks of whole examples, the union of each row."""
        oracle: Any = self.oracle
        if not oracle.whole_example:
            return super().scenarios()
        parts = [bind(part, self.X, self.y) for part in (oracle.left, oracle.right)]
        return [levels for part in parts for levels in part.scenarios()]

    def support(
        self,
        rows: Rows,
        V: np.ndarray,
        assign: np.ndarray,
        cost: np.ndarray | None = None,
        rho: Grades | None = None,
    ) -> Support:
        answers = [part.support(rows, V, assign, cost, rho) for part in self.parts]
        return best_of(answers, V, assign, cost)

    def hull(self, signs: np.ndarray, weights: np.ndarray, intercept: bool) -> Hull | None:
        """Those of the leaves, which share the level of each row; None if one has none to share."""
        hulls = []
        for part in self.parts:
            hull = part.hull(signs, weights.copy(), intercept)
            if hull is None or not hull.shares:
                return None
            hulls.append(hull)
        return UnionHull(hulls, signs, weights, intercept)

    def sample(self, rows: Rows, n_draws: int, rng: np.random.Generator) -> np.ndarray:
        """Each leaf is as likely as any other, however many members it has."""
        draws = np.stack([part.sample(rows, n_draws, rng) for part in self.parts])
        leaf = rng.integers(len(self.parts), size=draws.shape[1:3])
        return np.take_along_axis(draws, leaf[None, :, :, None], axis=0)[0]

    def contains(self, row: int, z: np.ndarray) -> bool:
        return any(part.contains(row, z) for part in self.parts)
