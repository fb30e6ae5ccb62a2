"""Joint perturbations of all samples of an example: shared, or with a budget."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..utils.matrices import Matrix, Rows, dense_rows, rounding
from .arguments import grade_profile
from .base import BoundOracle, InvarianceOracle, Support
from .changes import Changes
from .combinators import BoundPart, OracleWrapper
from .listed_changes import changes_of, draws_of, listed
from .query import Query, Violations, worst_at, worst_of
from .support import Costs, Grades
from .third_party import bind
from .words.bound_edits import RowEdits


class BoundWhole(BoundPart):
    """A bound oracle whose methods are those of its part, except `scenarios`."""

    oracle: OracleWrapper

    def scenarios(self) -> list[tuple[BoundOracle, ...]]:
        return self.oracle._scenarios(self)

    def support(
        self, rows: Rows, V: np.ndarray, assign: np.ndarray, cost: Costs = None, rho: Grades = None
    ) -> Support:
        return self.inner.support(rows, V, assign, cost, rho)

    def worst(self, rows: Rows, query: Query) -> Violations:
        return self.inner.worst(rows, query)

    def edits(self) -> RowEdits | None:
        return self.inner.edits()


class WholeExample(OracleWrapper):
    """Base class of oracles that perturb the samples of an example jointly.

    For an example of one sample, all methods are those of the part.
    """

    whole_example = True
    _bound = BoundWhole
    _remedy = "write Shared(a) | Budget(b) for a union"

    def __init__(self, oracle: InvarianceOracle) -> None:
        self.oracle = oracle

    def _changes(self, X: Matrix, y: np.ndarray | None) -> Changes | None:
        return changes_of(self.oracle, X, y)

    def _draws(self, X: Matrix, n_draws: int, random_state: int) -> Changes:
        return draws_of(self.oracle, X, n_draws, random_state)


class SingleMember(BoundOracle):
    """A bound oracle with one listed member per row; it need not be the row itself."""

    def __init__(self, oracle: InvarianceOracle, member: Changes) -> None:
        super().__init__(oracle, member.X, member.y)
        self.member = self._list = member

    def support(
        self, rows: Rows, V: np.ndarray, assign: np.ndarray, cost: Costs = None, rho: Grades = None
    ) -> Support:
        self.oracle._refuse_grades(rho)
        return self._answer(rows)

    def worst(self, rows: Rows, query: Query) -> Violations:
        if not query.rounding:
            return worst_of(self, rows, query)
        answer = self._answer(rows)
        return worst_at(answer.points, query, answer.rho)

    def _answer(self, rows: Rows) -> Support:
        points = self.member.points(rows, np.zeros(self.member.count(rows), dtype=np.intp))
        grades = self.member.grades(rows)
        return Support(points, rho=None if grades is None else grades[:, 0])

    def sample(self, rows: Rows, n_draws: int, rng: np.random.Generator) -> np.ndarray:
        return np.repeat(self.member.members(rows), n_draws, axis=1)

    def contains(self, row: int, z: np.ndarray) -> bool:
        point = dense_rows(self._answer(np.array([row])).points)[0]
        return bool(np.max(np.abs(z - point), initial=0.0) <= rounding(point, z))


class SameGrade(BoundPart):
    """A bound oracle with one grade for all members, including the unperturbed row."""

    def __init__(self, inner: BoundOracle, grade: float) -> None:
        super().__init__(inner.oracle, inner)
        self.grade = grade

    def support(
        self, rows: Rows, V: np.ndarray, assign: np.ndarray, cost: Costs = None, rho: Grades = None
    ) -> Support:
        self.oracle._refuse_grades(rho)
        found = self.inner.support(rows, V, assign)
        upper = found.upper
        if upper is not None and cost is not None:
            upper = upper + self.grade * cost
        return Support(found.points, upper, np.full(len(assign), self.grade))


class Shared(WholeExample):
    r"""The same member of a list for all samples of an example.

    .. math:: S(x_1, \dots, x_T) = \{(z_m(x_1), \dots, z_m(x_T)) : m = 0, \dots, s - 1\}

    For instance, all letters of a word have the same slant. If an example has one sample, the set is
    that of `oracle`.

    Parameters
    ----------
    oracle : InvarianceOracle
        Oracle with a list of members that does not depend on the label, optionally discounted. Allowed
        are `FiniteOracle`, listed image transformations, and unions and compositions of these.

    See Also
    --------
    Budget : A common budget of edits for all samples of an example.
    FiniteOracle : Base class of oracles with a list of members.

    Examples
    --------
    Two samples change their sign together:

    >>> import numpy as np
    >>> from structinv.oracles import FiniteOracle, Shared
    >>> class SignFlip(FiniteOracle):
    ...     def orbit(self, X):
    ...         return np.stack([X, -X], axis=1)
    >>> bound = Shared(SignFlip()).bind(np.array([[1.0], [2.0]]))
    >>> [scenario[0].changes().members().ravel().tolist() for scenario in bound.scenarios()]
    [[1.0, 2.0], [-1.0, -2.0]]
    """

    _name = "Shared"

    def validate(self, n_features: int | None = None) -> None:
        super().validate(n_features)
        if self.oracle.depends_on_label:
            raise ValueError(
                "Shared: oracle must list the same perturbations for every sample, but with only_for "
                f"they depend on the label, got {self.oracle!r}: remove only_for, or remove Shared"
            )
        if not self.oracle.finite:
            raise ValueError(
                "Shared: oracle must be finite (oracle.finite), with the same perturbations for every "
                f"sample, got {self.oracle!r}: use Budget for edits of features, and a list of values "
                "instead of interval"
            )

    def _scenarios(self, bound: BoundOracle) -> list[tuple[BoundOracle, ...]]:
        changes = listed(bound)
        return [(SingleMember(self, changes.take([number])),) for number in range(changes.size)]


class Budget(WholeExample):
    r"""At most B edits in all samples of an example together.

    .. math:: S(x_1, \dots, x_T) = \{(z_1, \dots, z_T) : z_t \in S_{k_t}(x_t), \; \sum_t k_t \le B\}

    Here :math:`S_k` is the set of `oracle` with k edits, and B is its ``max_changes``. If an example has
    one sample, the set is that of `oracle`.

    Parameters
    ----------
    oracle : InvarianceOracle
        Oracle with countable edits: `FDrop`, `FScale`, `FAdd` or `FEdit`, optionally restricted by
        ``only_for`` or graded by ``discounted``. Grades then apply to the total number of edits, and
        must not increase with this number.

    See Also
    --------
    Shared : The same perturbation in all samples of an example.
    FDrop : Maximum number of edits for each sample separately.

    Examples
    --------
    At most one value of three samples is removed:

    >>> import numpy as np
    >>> from structinv.oracles import Budget, FDrop
    >>> bound = Budget(FDrop(1)).bind(np.ones((3, 2)))
    >>> [len(levels) for levels in bound.scenarios()]
    [2]
    """

    _name = "Budget"

    def validate(self, n_features: int | None = None) -> None:
        # The checks go from general to specific, so that messages name the first cause.
        super().validate()
        found = self.oracle.counted()
        if found is None:
            raise ValueError(
                "Budget: oracle must be FDrop, FScale, FAdd or FEdit (also with only_for or "
                f"discounted), got {self.oracle!r}, whose edits cannot be counted"
            )
        rho = found.grades
        if rho is not None and np.any(np.diff(grade_profile(rho, found.most + 1)) > 0):
            raise ValueError(
                f"Budget: grades must not increase with the number of edits, got rho={rho!r}"
            )
        super().validate(n_features)

    def _scenarios(self, bound: BoundOracle) -> list[tuple[BoundOracle, ...]]:
        counted: Any = self.oracle.counted()
        levels = [bind(counted.at_most(number), bound.X, bound.y) for number in range(counted.most + 1)]
        if counted.grades is None:
            return [tuple(levels)]
        # One scenario per total number of edits: all rows have the grade of that number.
        grades = grade_profile(counted.grades, len(levels))
        return [
            tuple(SameGrade(level, float(grade)) for level in levels[: number + 1])
            for number, grade in enumerate(grades)
        ]
