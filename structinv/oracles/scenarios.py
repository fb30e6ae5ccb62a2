"""What may happen to examples of several rows: the same change of all rows, or a budget of changes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import answers
from ..matrices import Matrix, Rows, rounding
from .arguments import check_row_by_row
from .base import BoundOracle, Cover, Hull, InvarianceOracle, Support, pulled_back
from .bound_part import BoundPart
from .checked import CheckedOracle
from .combinators import OfOnePart, validate_part
from .hulls import LabelHull
from .laws import Law, changes_otherwise, law_of
from .question import Question, Worst, worst_at, worst_of
from .support import Grades


class WholeExample(OfOnePart):
    """The changes of an oracle, of which those of one example's rows depend on one another.

    To a row that is an example by itself it is the oracle that it holds, in all views.

    Parameters
    ----------
    oracle : InvarianceOracle
    """

    whole_example = True

    def __init__(self, oracle: InvarianceOracle) -> None:
        self.oracle = oracle

    isometric = property(lambda self: self.oracle.isometric)

    def validate(self, n_features: int | None = None) -> None:
        """Raise unless the part is an oracle of single rows, with parameters in their ranges."""
        name = type(self).__name__
        validate_part("oracle", self.oracle, n_features)
        check_row_by_row(f"{name}: oracle", self.oracle, "join them outside, by |")

    def support(
        self, X: Matrix, V: np.ndarray, assign: np.ndarray, cost: np.ndarray | None = None
    ) -> Support:
        """See `InvarianceOracle.support`; of rows that are examples by themselves."""
        return self.oracle.support(X, V, assign, cost)

    def orbit(self, X: Matrix) -> np.ndarray:
        return self.oracle.orbit(X)

    def tangents(self, X: Matrix) -> np.ndarray:
        return self.oracle.tangents(X)

    def sample(self, X: Matrix, size: int, rng: np.random.Generator) -> np.ndarray:
        return self.oracle.sample(X, size, rng)

    def law(self, n_features: int, size: int | None = None, random_state: int = 0) -> Law:
        if changes_otherwise(self, WholeExample, "member_weights"):
            return super().law(n_features, size, random_state)
        return law_of(self.oracle, n_features, size, random_state)

    def contains(self, x: np.ndarray, z: np.ndarray) -> bool:
        return self.oracle.contains(x, z)

    def cover(self, X: Matrix) -> Cover:
        return self.oracle.cover(X)

    def members(self, X: Matrix, index: np.ndarray) -> np.ndarray:
        return self.oracle.members(X, index)

    def member_names(self, size: int) -> list[str]:
        return self.oracle.member_names(size)

    def pullback(self, V: np.ndarray) -> np.ndarray | None:
        return pulled_back(self.oracle, V)

    def member_scores(self, X: Matrix, V: np.ndarray) -> np.ndarray | None:
        return self.oracle.member_scores(X, V)

    def refine(
        self, X: Matrix, index: np.ndarray, score: Callable[[np.ndarray], np.ndarray]
    ) -> np.ndarray:
        return self.oracle.refine(X, index, score)


class BoundWhole(BoundPart):
    """A `WholeExample` on given rows; what it says of single rows is what `inner` says.

    Parameters
    ----------
    oracle : WholeExample
    inner : BoundOracle
        The part, on the same rows.
    """

    def support(
        self,
        rows: Rows,
        V: np.ndarray,
        assign: np.ndarray,
        cost: np.ndarray | None = None,
        rho: Grades | None = None,
    ) -> Support:
        return self.inner.support(rows, V, assign, cost, rho)

    def worst(self, rows: Rows, question: Question) -> Worst:
        return self.inner.worst(rows, question)

    def pullback(self, V: np.ndarray) -> np.ndarray | None:
        return self.inner.pullback(V)

    def member_grades(self, rows: Rows, rho: float | Sequence[float]) -> np.ndarray:
        return self.inner.member_grades(rows, rho)

    def grades(self, rows: Rows) -> np.ndarray | None:
        return self.inner.grades(rows)

    def hull(self, signs: np.ndarray, weights: np.ndarray, intercept: bool) -> Hull | None:
        return self.inner.hull(signs, weights, intercept)

    def label_hull(
        self, codes: np.ndarray, weights: np.ndarray, cost: np.ndarray, intercept: bool
    ) -> LabelHull | None:
        return self.inner.label_hull(codes, weights, cost, intercept)


class SoleMember(BoundOracle):
    """One member of each row's list, alone; not the row itself, unless it is that member.

    Parameters
    ----------
    whole : BoundOracle
        A list.
    number : int
        Of the member.
    """

    def __init__(self, whole: BoundOracle, number: int) -> None:
        super().__init__(whole.oracle, whole.X, whole.y)
        self.whole = whole
        self.number = number

    def listed_in(self) -> tuple[BoundOracle, np.ndarray | None]:
        return self.whole, np.array([self.number])

    def support(
        self,
        rows: Rows,
        V: np.ndarray,
        assign: np.ndarray,
        cost: np.ndarray | None = None,
        rho: Grades | None = None,
    ) -> Support:
        grades = self.grades(rows) if rho is None else self.member_grades(rows, rho)
        return Support(self._points(rows), rho=None if grades is None else grades[:, 0])

    def worst(self, rows: Rows, question: Question) -> Worst:
        """See `BoundOracle.worst`; all labels face one point."""
        if not question.rounding:
            return worst_of(self, rows, question)
        grades = self.grades(rows)
        return worst_at(self._points(rows), question, None if grades is None else grades[:, 0])

    def _points(self, rows: Rows) -> Matrix:
        return self.whole.members(rows, np.full(self.count(rows), self.number))

    def _dense(self, rows: Rows) -> np.ndarray:
        points: Any = self._points(rows)
        return points if isinstance(points, np.ndarray) else points.toarray()

    def orbit(self, rows: Rows) -> np.ndarray:
        return self._dense(rows)[:, None]

    def members(self, rows: Rows, index: np.ndarray) -> Any:
        return self._points(rows)

    def member_names(self) -> list[str]:
        return [self.whole.member_names()[self.number]]

    def pullback(self, V: np.ndarray) -> np.ndarray | None:
        images = self.whole.pullback(V)
        return None if images is None else images[[self.number]]

    def member_scores(self, rows: Rows, V: np.ndarray) -> np.ndarray | None:
        scores = self.whole.member_scores(rows, V)
        return None if scores is None else scores[:, [self.number]]

    def member_grades(self, rows: Rows, rho: float | Sequence[float]) -> np.ndarray:
        return self.whole.member_grades(rows, rho)[:, [self.number]]

    def grades(self, rows: Rows) -> np.ndarray | None:
        grades = self.whole.grades(rows)
        return None if grades is None else grades[:, [self.number]]

    def cover(self, rows: Rows) -> Cover:
        members = self.orbit(rows)
        return Cover(members, np.zeros(len(members)))

    def refine(
        self, rows: Rows, index: np.ndarray, score: Callable[[np.ndarray], np.ndarray]
    ) -> np.ndarray:
        return self._dense(rows)

    def sample(self, rows: Rows, size: int, rng: np.random.Generator) -> np.ndarray:
        return np.repeat(self.orbit(rows), size, axis=1)

    def contains(self, row: int, z: np.ndarray) -> bool:
        point = self._dense(np.array([row]))[0]
        return bool(np.max(np.abs(z - point), initial=0.0) <= rounding(point, z))


class SameGrade(BoundPart):
    """A bound oracle all of whose members, the unchanged row too, have one grade.

    Parameters
    ----------
    inner : BoundOracle
        Without grades.
    grade : float
    """

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


class CheckedLevel(CheckedOracle):
    """One level of a scenario, whose answers are looked at; it need not contain the unchanged rows.

    Parameters
    ----------
    inner : BoundOracle
    whole : CheckedOracle
        The oracle that has the scenario.
    """

    def __init__(self, inner: BoundOracle, whole: CheckedOracle) -> None:
        super().__init__(inner, whole.oracle, whole.X, whole.y)
        self.whole = whole

    def listed_in(self) -> tuple[BoundOracle, np.ndarray | None]:
        source, numbers = self.inner.listed_in()
        if source is self.inner:
            return self, numbers
        return (self.whole if source is self.whole.inner else source), numbers

    def _look_at_heights(self, *question: Any) -> None:
        """The unchanged row is no member of all scenarios."""

    def orbit(self, rows: Rows) -> np.ndarray:
        return self._listed("orbit", self._ask("orbit", rows), rows)

    def cover(self, rows: Rows) -> Cover:
        cover, source = self._ask("cover", rows), self._source("cover")
        if not isinstance(cover, Cover):
            raise TypeError(f"{source} must return a Cover, got {type(cover).__name__}")
        points = self._listed("cover", cover.points, rows)
        return Cover(points, answers.numbers(source, "mesh", cover.mesh, (len(points),), finite=False))

    def _listed(self, name: str, members: Any, rows: Rows) -> np.ndarray:
        shape = (self.count(rows), "s", self.X.shape[1])
        found = answers.numbers(self._source(name), "members", members, shape)
        self._same_size(name, found.shape[1])
        return found


def checked_scenarios(checked: CheckedOracle) -> list[tuple[BoundOracle, ...]]:
    """The scenarios of a bound oracle, looked at; see `BoundOracle.scenarios`.

    Raises
    ------
    TypeError, ValueError
        Unless they are a list of tuples of bound oracles of the same rows.
    """
    found: Any = checked.inner.scenarios()
    source = answers.method(checked.oracle, "scenarios")
    if not isinstance(found, list) or not found:
        raise TypeError(f"{source} must return a list of scenarios, got {found!r}")
    for levels in found:
        if not isinstance(levels, tuple) or not all(isinstance(each, BoundOracle) for each in levels):
            raise TypeError(f"{source} must return scenarios as tuples of BoundOracles, got {levels!r}")
        if not levels or any(each.X.shape != checked.X.shape for each in levels):
            raise ValueError(
                f"{source} must return scenarios of at least one level, bound to the rows of shape "
                f"{checked.X.shape}, got {[each.X.shape for each in levels]}"
            )
    if found == [(checked.inner,)]:
        return [(checked,)]
    made: dict[int, BoundOracle] = {}
    for each in {id(each): each for levels in found for each in levels}.values():
        known = isinstance(each, CheckedOracle)
        made[id(each)] = each if known else CheckedLevel(each, checked)
    return [tuple(made[id(each)] for each in levels) for levels in found]
