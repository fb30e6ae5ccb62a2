"""Joint perturbations of all samples of an example: shared base classes."""

from __future__ import annotations

import numpy as np

from ..utils.matrices import Matrix, Rows, count, dense_rows, rounding
from .arguments import check_row_by_row
from .base import BoundOracle, Hull, InvarianceOracle, Support
from .changes import Changes
from .checked_lists import changes_of, draws_of
from .checked_oracle import bind
from .combinators import BoundPart, OracleWrapper, validate_part
from .hulls import LabelHull
from .query import Query, Violations, worst_at, worst_of
from .support import Grades


class WholeExample(OracleWrapper):
    """Base class of oracles that perturb the samples of an example jointly.

    For an example of one sample, all methods are those of the part.
    """

    whole_example = True

    def __init__(self, oracle: InvarianceOracle) -> None:
        self.oracle = oracle

    def validate(self, n_features: int | None = None) -> None:
        name = type(self).__name__
        validate_part("oracle", self.oracle, n_features)
        check_row_by_row(f"{name}: oracle", self.oracle, "write Shared(a) | Budget(b) for a union")

    def support(
        self, X: Matrix, V: np.ndarray, assign: np.ndarray, cost: np.ndarray | None = None
    ) -> Support:
        return self.oracle.support(X, V, assign, cost)

    def tangents(self, X: Matrix) -> np.ndarray:
        return self.oracle.tangents(X)

    def sample(self, X: Matrix, n_draws: int, rng: np.random.Generator) -> np.ndarray:
        return self.oracle.sample(X, n_draws, rng)

    def contains(self, x: np.ndarray, z: np.ndarray) -> bool:
        return self.oracle.contains(x, z)

    def _changes(self, X: Matrix, y: np.ndarray | None) -> Changes | None:
        return changes_of(self.oracle, X, y)

    def _draws(self, X: Matrix, n_draws: int, random_state: int) -> Changes:
        return draws_of(self.oracle, X, n_draws, random_state)

    def bind(self, X: Matrix, y: np.ndarray | None = None) -> BoundOracle:
        self._check_rows(X)
        prepared = self._prepared()
        return BoundWhole(prepared, bind(prepared.oracle, X, y))


class BoundWhole(BoundPart):
    """A bound oracle whose methods are those of its part, except `scenarios`."""

    oracle: OracleWrapper

    def scenarios(self) -> list[tuple[BoundOracle, ...]]:
        return self.oracle._scenarios(self)

    def support(
        self,
        rows: Rows,
        V: np.ndarray,
        assign: np.ndarray,
        cost: np.ndarray | None = None,
        rho: Grades | None = None,
    ) -> Support:
        return self.inner.support(rows, V, assign, cost, rho)

    def worst(self, rows: Rows, query: Query) -> Violations:
        return self.inner.worst(rows, query)

    def hull(self, signs: np.ndarray, weights: np.ndarray, intercept: bool) -> Hull | None:
        return self.inner.hull(signs, weights, intercept)

    def label_hull(
        self, codes: np.ndarray, weights: np.ndarray, cost: np.ndarray, intercept: bool
    ) -> LabelHull | None:
        return self.inner.label_hull(codes, weights, cost, intercept)


class SingleMember(BoundOracle):
    """A bound oracle with one listed member per row; it need not be the row itself."""

    def __init__(self, oracle: InvarianceOracle, member: Changes) -> None:
        super().__init__(oracle, member.X, member.y)
        self.member = member

    def _new_changes(self) -> Changes:
        return self.member

    def _support(
        self, rows: Rows, V: np.ndarray, assign: np.ndarray, cost: np.ndarray | None
    ) -> Support:
        grades = self.member.grades(rows)
        return Support(self._points(rows), rho=None if grades is None else grades[:, 0])

    def worst(self, rows: Rows, query: Query) -> Violations:
        if not query.rounding:
            return worst_of(self, rows, query)
        grades = self.member.grades(rows)
        return worst_at(self._points(rows), query, None if grades is None else grades[:, 0])

    def _points(self, rows: Rows) -> Matrix:
        return self.member.points(rows, np.zeros(count(rows, self.X.shape[0]), dtype=np.intp))

    def sample(self, rows: Rows, n_draws: int, rng: np.random.Generator) -> np.ndarray:
        return np.repeat(self.member.members(rows), n_draws, axis=1)

    def contains(self, row: int, z: np.ndarray) -> bool:
        point = dense_rows(self._points(np.array([row])))[0]
        return bool(np.max(np.abs(z - point), initial=0.0) <= rounding(point, z))


class SameGrade(BoundPart):
    """A bound oracle with one grade for all members, including the unperturbed row."""

    def __init__(self, inner: BoundOracle, grade: float) -> None:
        super().__init__(inner.oracle, inner)
        self.grade = grade

    def _support(
        self, rows: Rows, V: np.ndarray, assign: np.ndarray, cost: np.ndarray | None
    ) -> Support:
        found = self.inner.support(rows, V, assign, None)
        upper = found.upper
        if upper is not None and cost is not None:
            upper = upper + self.grade * cost
        return Support(found.points, upper, np.full(len(assign), self.grade))
