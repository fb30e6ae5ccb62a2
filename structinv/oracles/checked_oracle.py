"""Validation of answers of oracles; errors name the class and method."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from ..regions import Region
from ..regions.zonotopes import AffineSubspaces
from ..utils import plugins
from ..utils.matrices import Matrix, Rows, count, floating, resolution, row_dots, take
from .arguments import check_needs_no_label
from .base import BoundOracle, Hull, InvarianceOracle, Support, as_oracle, check_rows
from .changes import Changes
from .checked_changes import checked_changes
from .checked_lists import listed_region
from .hulls import LabelHull
from .query import Query, Violations, worst_of
from .support import Grades
from .words.word_edits import RowEdits


def bind(oracle: InvarianceOracle, X: Matrix, y: np.ndarray | None = None) -> CheckedOracle:
    """Call ``oracle.bind(X, y)`` and wrap the result, to validate its answers.

    Shapes: `X` (n_samples, n_features), `y` (n_samples,).
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
    """Call ``oracle.tangents(X)`` and validate the result."""
    source = plugins.method(oracle, "tangents")
    found = plugins.ask(oracle, source, oracle.tangents, X)
    return plugins.numbers(source, "directions", found, (X.shape[0], "t", X.shape[1]))


class CheckedOracle(BoundOracle):
    """A bound oracle whose answers are validated: types, shapes and values.

    Each method calls that of `inner` and raises TypeError or ValueError if the result is invalid. The
    message has the oracle's class, the method, and the required and the actual value. The validation
    costs at most one pass over the result. Methods of fast paths return None for third-party classes,
    which must not inherit them.

    Shapes: `X` (n_samples, n_features), `y` (n_samples,).
    """

    def __init__(
        self, inner: BoundOracle, oracle: InvarianceOracle, X: Matrix, y: np.ndarray | None
    ) -> None:
        super().__init__(oracle, X, y)
        self.inner = inner
        self._third_party = plugins.is_third_party(oracle)

    def _call(self, name: str, *arguments: Any) -> Any:
        """Call a method of `inner`."""
        call = getattr(self.inner, name)
        if self._third_party:
            return plugins.ask_third_party(self._source(name), call, *arguments)
        return call(*arguments)

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
        return self._check_answer(name, answer, (rows, V, assign), cost)

    def worst(self, rows: Rows, arguments: Query) -> Violations:
        return (
            worst_of(self, rows, arguments) if self._third_party else self.inner.worst(rows, arguments)
        )

    def _check_answer(
        self,
        name: str,
        answer: Support,
        arguments: tuple[Rows, np.ndarray, np.ndarray],
        cost: np.ndarray | None,
    ) -> Support:
        """Return the answer; raise if it is worse than the unperturbed row."""
        V, assign = arguments[1:]
        # The unperturbed row has the grade 1.
        bonus: Any = 0.0 if cost is None or answer.rho is None else cost
        reached = answer.upper
        if reached is None:
            reached = row_dots(answer.points, V, assign) + (
                0.0 if answer.rho is None else bonus * answer.rho
            )
        self._check_values(name, reached, answer.points, arguments, bonus)
        return answer

    def _check_values(
        self,
        name: str,
        reached: np.ndarray,
        points: Matrix,
        arguments: tuple[Rows, np.ndarray, np.ndarray],
        bonus: Any,
    ) -> None:
        """Raise ValueError if upper bounds are below the value of the unperturbed row."""
        rows, V, assign = arguments
        X = take(self.X, rows)
        unperturbed = row_dots(X, V, assign) + bonus
        worse = np.flatnonzero(reached < unperturbed)
        if not len(worse):
            return
        sizes = (bonus + sum(row_dots(abs(part), np.abs(V), assign) for part in (X, points)))[worse]
        missing = unperturbed[worse] - reached[worse] - resolution(_numbers(X), _numbers(points)) * sizes
        if np.any(missing > 0):
            row = worse[np.argmax(missing)]
            raise ValueError(
                f"{self._source(name)} must return at least the value of the unperturbed row, because "
                f"S(x) contains x: got {reached[row]:.6g} instead of {unperturbed[row]:.6g} for row "
                f"{row} of the call"
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
        members = self._call("sample", rows, n_draws, rng)
        shape = (count(rows, self.X.shape[0]), n_draws, self.X.shape[1])
        return plugins.numbers(self._source("sample"), "members", members, shape)

    def contains(self, row: int, z: np.ndarray) -> bool:
        inside = self._call("contains", row, z)
        if not isinstance(inside, (bool, np.bool_)):
            source = self._source("contains")
            raise TypeError(f"{source} must return True or False, got {inside!r}")
        return bool(inside)

    def hull(self, signs: np.ndarray, weights: np.ndarray, intercept: bool) -> Hull | None:
        return None if self._third_party else self.inner.hull(signs, weights, intercept)

    def label_hull(
        self, codes: np.ndarray, weights: np.ndarray, cost: np.ndarray, intercept: bool
    ) -> LabelHull | None:
        return None if self._third_party else self.inner.label_hull(codes, weights, cost, intercept)

    def spread(self) -> np.ndarray | None:
        return None if self._third_party else self.inner.spread()

    def edits(self) -> RowEdits | None:
        return None if self._third_party else self.inner.edits()

    def scenarios(self) -> list[tuple[BoundOracle, ...]]:
        return checked_scenarios(self)

    def _source(self, name: str) -> str:
        return plugins.method(self.oracle, name)


class CheckedLevel(CheckedOracle):
    """One validated level of a scenario; it need not contain the unperturbed rows."""

    def __init__(self, inner: BoundOracle, whole: CheckedOracle) -> None:
        super().__init__(inner, whole.oracle, whole.X, whole.y)
        self.whole = whole

    def _check_values(self, *arguments: Any) -> None:
        """Accept any value: a scenario need not contain the unperturbed rows."""


def checked_scenarios(checked: CheckedOracle) -> list[tuple[BoundOracle, ...]]:
    """Return the validated scenarios of a bound oracle."""
    found: Any = checked.inner.scenarios()
    source = plugins.method(checked.oracle, "scenarios")
    if not isinstance(found, list) or not found:
        raise TypeError(f"{source} must return a list of joint perturbations, got {found!r}")
    for levels in found:
        if not isinstance(levels, tuple) or not all(isinstance(each, BoundOracle) for each in levels):
            raise TypeError(
                f"{source} must return joint perturbations as tuples of BoundOracles, got {levels!r}"
            )
        if not levels or any(each.X.shape != checked.X.shape for each in levels):
            raise ValueError(
                f"{source} must return nonempty tuples of BoundOracles with rows of shape "
                f"{checked.X.shape}, got rows of shapes {[each.X.shape for each in levels]}"
            )
    if found == [(checked.inner,)]:
        return [(checked,)]
    checked_levels: dict[int, BoundOracle] = {}
    for each in {id(each): each for levels in found for each in levels}.values():
        known = isinstance(each, CheckedOracle)
        checked_levels[id(each)] = each if known else CheckedLevel(each, checked)
    return [tuple(checked_levels[id(each)] for each in levels) for levels in found]


def _numbers(X: Matrix) -> np.ndarray:
    return X.data if sp.issparse(X) else np.asarray(X)


def region_of(oracle: InvarianceOracle, X: np.ndarray) -> Region:
    """Call ``oracle.region(X)`` and validate the result.

    For a third-party subclass, only its own `region` is used. An inherited one might describe another
    set, so the list or cover of the subclass is used instead.

    Shapes: `X` (n_samples, n_features).
    """
    check_needs_no_label(as_oracle(oracle))
    if plugins.is_third_party(oracle) and not plugins.writes(oracle, "region"):
        return listed_region(oracle, X)
    source = plugins.method(oracle, "region")
    found = plugins.ask(oracle, source, oracle.region, floating(X))
    if not isinstance(found, Region):
        raise TypeError(f"{source} must return a Region, got {type(found).__name__}")
    if len(found) != len(X) or found.centers.shape != X.shape:
        raise ValueError(
            f"{source} must return one set per row, {len(X)} sets with centers of shape {X.shape}, got "
            f"{len(found)} with centers of shape {found.centers.shape}"
        )
    return found


def tangent_planes(oracle: InvarianceOracle, X: np.ndarray) -> AffineSubspaces:
    """Return the planes through the samples along an oracle's tangents."""
    check_needs_no_label(as_oracle(oracle))
    oracle.validate(X.shape[1])
    X = floating(X)
    return AffineSubspaces.spanned(X, tangents_of(oracle, X))
