"""What either of several oracles allows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..matrices import ALL_ROWS, Matrix, Rows, floating, pick
from ..regions import Region
from ..regions.parts import Parts
from .arguments import check_directions
from .base import (
    BoundOracle,
    Cover,
    Hull,
    InvarianceOracle,
    Support,
    dense_rows,
    pulled_back,
)
from .checked import bind
from .combinators import Pair, best_of
from .geometry import region_of
from .joined_laws import MixedLaw
from .laws import Law, changes_otherwise, law_of
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
    def featurewise(self) -> bool:  # type: ignore[override]
        """Whether both parts are."""
        return self.left.featurewise and self.right.featurewise

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
        return Parts([region_of(leaf, X) for leaf in self.leaves()])

    def leaves(self) -> list[InvarianceOracle]:
        """The oracles of a union of unions, from left to right."""
        parts = (self.left, self.right)
        return [
            leaf for part in parts for leaf in (part.leaves() if isinstance(part, Union) else [part])
        ]

    def pullback(self, V: np.ndarray) -> np.ndarray | None:
        """See `InvarianceOracle.pullback`; None unless both parts are linear maps."""
        left = pulled_back(self.left, V)
        right = None if left is None else pulled_back(self.right, V)
        return None if left is None or right is None else np.concatenate([left, right[1:]])

    def law(self, n_features: int, size: int | None = None, random_state: int = 0) -> Law:
        """See `InvarianceOracle.law`; each leaf is as likely as any other."""
        if changes_otherwise(self, Union, "member_weights"):
            return super().law(n_features, size, random_state)
        leaves = self.leaves()
        if size is None:
            return MixedLaw([law_of(leaf, n_features) for leaf in leaves], np.ones(len(leaves)))
        rng = np.random.default_rng(random_state)
        sizes = np.bincount(rng.integers(len(leaves), size=size), minlength=len(leaves))
        seeds = rng.integers(2**32, size=len(leaves))
        drawn = np.flatnonzero(sizes)
        laws = [law_of(leaves[k], n_features, int(sizes[k]), int(seeds[k])) for k in drawn]
        return MixedLaw(laws, sizes[drawn])

    def bind(self, X: Matrix, y: np.ndarray | None = None) -> BoundOracle:
        """Both parts on the rows of `X`."""
        self._check_rows(X)
        return _BoundUnion(self.prepared(), X, y)

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

    def orbit(self, rows: Rows) -> np.ndarray:
        return _joined([part.orbit(rows) for part in self.parts])

    def cover(self, rows: Rows) -> Cover:
        covers = [part.cover(rows) for part in self.parts]
        mesh = np.max([cover.mesh for cover in covers], axis=0)
        return Cover(_joined([cover.points for cover in covers]), mesh)

    @cached_property
    def sizes(self) -> np.ndarray:
        """How many members each leaf has, its identity included."""
        return np.array([len(part.member_names()) for part in self.parts])

    def _owners(self, index: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The leaf of each member, and its number there."""
        first = np.r_[0, 1 + np.cumsum(self.sizes - 1)]
        owner = np.searchsorted(first, index, side="right") - 1
        return owner, np.where(owner == 0, index, index - first[owner] + 1)

    def members(self, rows: Rows, index: np.ndarray) -> np.ndarray:
        last = int(np.sum(self.sizes - 1))
        if np.any((index < 0) | (index > last)):
            raise ValueError(f"index must hold numbers of members, 0 to {last}, got {index}")
        points = np.empty((len(index), self.X.shape[1]), dtype=floating(self.X[:0]).dtype)
        owner, local = self._owners(index)
        for number, part in enumerate(self.parts):
            mine = np.flatnonzero(owner == number)
            if len(mine):
                points[mine] = dense_rows(part.members(pick(rows, mine, len(index)), local[mine]))
        return points

    def refine(
        self, rows: Rows, index: np.ndarray, score: Callable[[np.ndarray], np.ndarray]
    ) -> np.ndarray:
        owner, local = self._owners(index)
        points = self.members(rows, index)
        for number, part in enumerate(self.parts):
            mine = owner == number
            if np.any(mine):
                found = part.refine(rows, np.where(mine, local, 0), score)
                points[mine] = found[mine]
        return points

    def member_names(self) -> list[str]:
        names = [part.member_names() for part in self.parts]
        return names[0] + [name for part in names[1:] for name in part[1:]]

    def member_scores(self, rows: Rows, V: np.ndarray) -> np.ndarray | None:
        if sp.issparse(self.X):
            # Members of several leaves are put side by side as dense rows.
            return None
        in_one_product = super().member_scores(rows, V)
        if in_one_product is not None:
            return in_one_product
        scores = []
        for part in self.parts:
            known = part.member_scores(rows, V)
            if known is None:
                return None
            scores.append(known)
        return _joined(scores)

    def member_grades(self, rows: Rows, rho: float | Sequence[float]) -> np.ndarray:
        return _joined([part.member_grades(rows, rho) for part in self.parts])

    def grades(self, rows: Rows) -> np.ndarray | None:
        grades = [part.grades(rows) for part in self.parts]
        if all(each is None for each in grades):
            return None
        n_rows = self.count(rows)
        return _joined(
            [
                np.ones((n_rows, size)) if each is None else each
                for each, size in zip(grades, self.sizes, strict=True)
            ]
        )

    def sample(self, rows: Rows, size: int, rng: np.random.Generator) -> np.ndarray:
        """Each leaf is as likely as any other, however many members it has."""
        draws = np.stack([part.sample(rows, size, rng) for part in self.parts])
        leaf = rng.integers(len(self.parts), size=draws.shape[1:3])
        return np.take_along_axis(draws, leaf[None, :, :, None], axis=0)[0]

    def contains(self, row: int, z: np.ndarray) -> bool:
        return any(part.contains(row, z) for part in self.parts)


def _joined(parts: Sequence[np.ndarray]) -> np.ndarray:
    """Values of the members of all leaves; those of an identity only once."""
    return np.concatenate([parts[0], *(part[:, 1:] for part in parts[1:])], axis=1)
