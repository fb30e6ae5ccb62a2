"""Validates the answers of oracles once, before they are used; errors name the class and the method."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from ..utils import plugins
from ..utils.matrices import Matrix, Rows, count, resolution, row_dots, take
from .base import BoundOracle, Hull, InvarianceOracle, Support, as_oracle, check_rows
from .changes import Changes
from .checked_changes import checked_changes
from .hulls import LabelHull
from .query import Query, Violations, worst_of
from .support import Grades
from .words.insertions import Insertions
from .words.word_edits import RowEdits


def bind(oracle: InvarianceOracle, X: Matrix, y: np.ndarray | None = None) -> CheckedOracle:
    """``oracle.bind(X, y)`` whose answers are checked before they are used.

    Parameters
    ----------
    oracle : InvarianceOracle
    X : (n, d) array or CSR matrix
    y : (n,) array, optional

    Raises
    ------
    TypeError
        If `bind` gives no bound oracle.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.oracles import FiniteOracle
    >>> class Reversal(FiniteOracle):
    ...     "With the axis of the members forgotten."
    ...     def orbit(self, X):
    ...         return np.stack([X, X[:, ::-1]])
    >>> bind(Reversal(), np.ones((3, 2))).changes().members()
    Traceback (most recent call last):
        ...
    ValueError: Reversal.orbit must return members of shape (3, s, 2), got (2, 3, 2)
    """
    as_oracle(oracle)
    check_rows(X)
    source = plugins.method(oracle, "bind")
    inner = plugins.ask(oracle, source, oracle.bind, X, y)
    if not isinstance(inner, BoundOracle):
        raise TypeError(f"{source} must return a BoundOracle, got {type(inner).__name__}")
    if isinstance(inner, CheckedOracle):
        return inner
    return CheckedOracle(inner, oracle, X, y)


def tangents_of(oracle: InvarianceOracle, X: np.ndarray) -> np.ndarray:
    """``oracle.tangents(X)``, validated.

    Raises
    ------
    TypeError, ValueError
        If it is no finite array of shape (n, t, d).
    """
    source = plugins.method(oracle, "tangents")
    found = plugins.ask(oracle, source, oracle.tangents, X)
    return plugins.numbers(source, "directions", found, (X.shape[0], "t", X.shape[1]))


class CheckedOracle(BoundOracle):
    """A bound oracle whose answers have the type, shape and numbers that the contract says.

    Each view asks the one of `inner` and raises TypeError or ValueError, with the oracle's class, the
    method, what was due and what came, where that is something else. Members keep their number from
    call to call, and the first is the row itself. A look costs a pass over what was just made, or less.

    Parameters
    ----------
    inner : BoundOracle
        What the oracle's `bind` gave.
    oracle : InvarianceOracle
    X : (n, d) array or CSR matrix
    y : (n,) array, optional
    """

    def __init__(
        self, inner: BoundOracle, oracle: InvarianceOracle, X: Matrix, y: np.ndarray | None
    ) -> None:
        super().__init__(oracle, X, y)
        self.inner = inner
        self._third_party = plugins.is_third_party(oracle)

    def _ask(self, name: str, *question: Any) -> Any:
        """What `inner` answers."""
        call = getattr(self.inner, name)
        if self._third_party:
            return plugins.ask_third_party(self._source(name), call, *question)
        return call(*question)

    def support(
        self,
        rows: Rows,
        V: np.ndarray,
        assign: np.ndarray,
        cost: np.ndarray | None = None,
        rho: Grades | None = None,
    ) -> Support:
        if not self._third_party:
            return self.inner.support(rows, V, assign, cost, rho)
        name = "support" if rho is None else "graded_support"
        more = () if rho is None else (rho,)
        found = plugins.ask_third_party(
            self._source(name), self.inner.support, rows, V, assign, cost, *more
        )
        answer = self._supported(name, found, len(assign))
        return self._look_at_answer(name, answer, (rows, V, assign), cost)

    def worst(self, rows: Rows, question: Query) -> Violations:
        """See `BoundOracle.worst`; classes of others answer by `support` or a list."""
        return worst_of(self, rows, question) if self._third_party else self.inner.worst(rows, question)

    def _look_at_answer(
        self,
        name: str,
        answer: Support,
        question: tuple[Rows, np.ndarray, np.ndarray],
        cost: np.ndarray | None,
    ) -> Support:
        """The answer, unless it does worse than the unchanged row."""
        V, assign = question[1:]
        # The unchanged row has the largest grade, 1.
        bonus: Any = 0.0 if cost is None or answer.rho is None else cost
        reached = answer.upper
        if reached is None:
            reached = row_dots(answer.points, V, assign) + (
                0.0 if answer.rho is None else bonus * answer.rho
            )
        self._look_at_heights(name, reached, answer.points, question, bonus)
        return answer

    def _look_at_heights(
        self,
        name: str,
        reached: np.ndarray,
        points: Matrix,
        question: tuple[Rows, np.ndarray, np.ndarray],
        bonus: Any,
    ) -> None:
        """Raise ValueError if bounds on a support are below the unchanged row: margins would gain."""
        rows, V, assign = question
        X = take(self.X, rows)
        own = row_dots(X, V, assign) + bonus
        worse = np.flatnonzero(reached < own)
        if not len(worse):
            return
        sizes = (bonus + sum(row_dots(abs(part), np.abs(V), assign) for part in (X, points)))[worse]
        missing = own[worse] - reached[worse] - resolution(_numbers(X), _numbers(points)) * sizes
        if np.any(missing > 0):
            row = worse[np.argmax(missing)]
            raise ValueError(
                f"{self._source(name)} must do at least as well as the unchanged row: S(x) contains x; "
                f"got {reached[row]:.6g}, and {own[row]:.6g} without a change, for row {row} of those "
                "asked about"
            )

    def _supported(self, name: str, answer: Any, n_rows: int) -> Support:
        source = self._source(name)
        if not isinstance(answer, Support):
            raise ValueError(f"{source} must return a Support, got {type(answer).__name__}")
        points = plugins.rows(source, answer.points, self.X, (n_rows, self.X.shape[1]))
        upper, rho = answer.upper, answer.rho
        if upper is not None:
            upper = plugins.numbers(source, "upper", upper, (n_rows,), finite=False)
        if rho is not None:
            rho = plugins.grades(source, rho, (n_rows,))
        return Support(points, upper, rho)

    def _new_changes(self) -> Changes | None:
        found = self.inner.changes()
        return None if found is None else checked_changes(self._source("changes"), found)

    def sample(self, rows: Rows, n_draws: int, rng: np.random.Generator) -> np.ndarray:
        members = self._ask("sample", rows, n_draws, rng)
        shape = (count(rows, self.X.shape[0]), n_draws, self.X.shape[1])
        return plugins.numbers(self._source("sample"), "members", members, shape)

    def contains(self, row: int, z: np.ndarray) -> bool:
        inside = self._ask("contains", row, z)
        if not isinstance(inside, (bool, np.bool_)):
            source = self._source("contains")
            raise TypeError(f"{source} must return True or False, got {inside!r}")
        return bool(inside)

    def hull(self, signs: np.ndarray, weights: np.ndarray, intercept: bool) -> Hull | None:
        """See `BoundOracle.hull`; None for classes of others, whose own answers count."""
        return None if self._third_party else self.inner.hull(signs, weights, intercept)

    def label_hull(
        self, codes: np.ndarray, weights: np.ndarray, cost: np.ndarray, intercept: bool
    ) -> LabelHull | None:
        """See `BoundOracle.label_hull`; None for classes of others."""
        return None if self._third_party else self.inner.label_hull(codes, weights, cost, intercept)

    def spread(self) -> np.ndarray | None:
        """See `BoundOracle.spread`; None for classes of others."""
        return None if self._third_party else self.inner.spread()

    def edits(self) -> RowEdits | None:
        """See `BoundOracle.edits`; None for classes of others, whose own answers count."""
        return None if self._third_party else self.inner.edits()

    def insertions(self) -> Insertions | None:
        """See `BoundOracle.insertions`; None for classes of others, whose own answers count."""
        return None if self._third_party else self.inner.insertions()

    def scenarios(self) -> list[tuple[BoundOracle, ...]]:
        return checked_scenarios(self)

    def _source(self, name: str) -> str:
        return plugins.method(self.oracle, name)


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

    def _look_at_heights(self, *question: Any) -> None:
        """The unchanged row is no member of all scenarios."""


def checked_scenarios(checked: CheckedOracle) -> list[tuple[BoundOracle, ...]]:
    """The scenarios of a bound oracle, validated; see `BoundOracle.scenarios`.

    Raises
    ------
    TypeError, ValueError
        Unless they are a list of tuples of bound oracles of the same rows.
    """
    found: Any = checked.inner.scenarios()
    source = plugins.method(checked.oracle, "scenarios")
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


def _numbers(X: Matrix) -> np.ndarray:
    return X.data if sp.issparse(X) else np.asarray(X)
