"""Binding of oracles; answers of third-party classes are validated."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..regions import Region
from ..regions.zonotopes import AffineSubspaces
from ..utils import plugins
from ..utils.matrices import Matrix, Rows, count, floating, resolution, row_dots, take
from .arguments import check_needs_no_label
from .base import BoundOracle, InvarianceOracle, Support, as_oracle, check_rows
from .changes import Changes
from .listed_changes import checked_changes, listed_region
from .support import Costs, Grades


def bind(oracle: InvarianceOracle, X: Matrix, y: np.ndarray | None = None) -> BoundOracle:
    """Call ``oracle.bind(X, y)``; answers of a third-party class are validated.

    Shapes: `X` (n_samples, n_features), `y` (n_samples,).
    """
    if not plugins.is_third_party(as_oracle(oracle)):
        return oracle.bind(X, y)
    check_rows(X)
    source = plugins.method(oracle, "bind")
    inner = plugins.ask_third_party(source, oracle.bind, X, y)
    if not isinstance(inner, BoundOracle):
        raise TypeError(f"{source} must return a BoundOracle, got {type(inner).__name__}")
    return ThirdPartyOracle(inner, oracle, X, y)


class ThirdPartyOracle(BoundOracle):
    """A bound oracle of a third-party class, with validated answers.

    Types, shapes and values are checked, in at most one pass over an answer. Errors have the oracle's
    class, the method, and the required and the actual value. Other methods, such as `worst` and `edits`,
    are not used: they might belong to another set, if the class inherits them.

    Shapes: `X` (n_samples, n_features), `y` (n_samples,).
    """

    def __init__(
        self,
        inner: BoundOracle,
        oracle: InvarianceOracle,
        X: Matrix,
        y: np.ndarray | None,
        *,
        contains_rows: bool = True,
    ) -> None:
        super().__init__(oracle, X, y)
        self.inner = inner
        self.contains_rows = contains_rows

    def _ask(self, name: str, *arguments: Any) -> tuple[str, Any]:
        """Call a method of `inner`; return its name for messages and its result."""
        source = plugins.method(self.oracle, name)
        return source, plugins.ask_third_party(source, getattr(self.inner, name), *arguments)

    def support(
        self, rows: Rows, V: np.ndarray, assign: np.ndarray, cost: Costs = None, rho: Grades = None
    ) -> Support:
        more = () if rho is None else (rho,)
        source, found = self._ask("support", rows, V, assign, cost, *more)
        answer = checked_support(source, found, self.X, len(assign))
        if self.contains_rows:
            self._check_values(source, answer, (rows, V, assign), cost)
        return answer

    def _check_values(
        self,
        source: str,
        answer: Support,
        arguments: tuple[Rows, np.ndarray, np.ndarray],
        cost: np.ndarray | None,
    ) -> None:
        """Raise ValueError if upper bounds are below the value of the unperturbed row."""
        rows, V, assign = arguments
        X, points = take(self.X, rows), answer.points
        # The unperturbed row has the grade 1.
        bonus: Any = 0.0 if cost is None or answer.rho is None else cost
        reached = answer.upper
        if reached is None:
            reached = row_dots(points, V, assign) + (0.0 if answer.rho is None else bonus * answer.rho)
        unperturbed = row_dots(X, V, assign) + bonus
        worse = np.flatnonzero(reached < unperturbed)
        if not len(worse):
            return
        sizes = (bonus + sum(row_dots(abs(part), np.abs(V), assign) for part in (X, points)))[worse]
        missing = unperturbed[worse] - reached[worse] - resolution(_numbers(X), _numbers(points)) * sizes
        if np.any(missing > 0):
            row = worse[np.argmax(missing)]
            raise ValueError(
                f"{source} must return at least the value of the unperturbed row, because S(x) contains "
                f"x: got {reached[row]:.6g} instead of {unperturbed[row]:.6g} for row {row} of the call"
            )

    @cached_property
    def _list(self) -> Changes | None:
        found = self.inner.changes()
        source = plugins.method(self.oracle, "changes")
        return None if found is None else checked_changes(source, found)

    def sample(self, rows: Rows, n_draws: int, rng: np.random.Generator) -> np.ndarray:
        source, members = self._ask("sample", rows, n_draws, rng)
        shape = (count(rows, self.X.shape[0]), n_draws, self.X.shape[1])
        return plugins.numbers(source, "members", members, shape)

    def contains(self, row: int, z: np.ndarray) -> bool:
        source, inside = self._ask("contains", row, z)
        if not isinstance(inside, (bool, np.bool_)):
            raise TypeError(f"{source} must return True or False, got {inside!r}")
        return bool(inside)

    def scenarios(self) -> list[tuple[BoundOracle, ...]]:
        answer: Any = self.inner.scenarios()
        source = plugins.method(self.oracle, "scenarios")
        if not isinstance(answer, list) or not answer:
            raise TypeError(f"{source} must return a list of joint perturbations, got {answer!r}")
        for levels in answer:
            if not isinstance(levels, tuple) or not all(
                isinstance(each, BoundOracle) for each in levels
            ):
                raise TypeError(
                    f"{source} must return joint perturbations as tuples of BoundOracles, got {levels!r}"
                )
            if not levels or any(each.X.shape != self.X.shape for each in levels):
                raise ValueError(
                    f"{source} must return nonempty tuples of BoundOracles with rows of shape "
                    f"{self.X.shape}, got rows of shapes {[each.X.shape for each in levels]}"
                )
        if answer == [(self.inner,)]:
            return [(self,)]
        distinct = {id(each): each for levels in answer for each in levels}
        checked = {key: self._level(each) for key, each in distinct.items()}
        return [tuple(checked[id(each)] for each in levels) for levels in answer]

    def _level(self, level: BoundOracle) -> BoundOracle:
        """Return one level of a scenario, validated unless it is of this package."""
        if not plugins.is_third_party(level) and not plugins.is_third_party(level.oracle):
            return level
        if isinstance(level, ThirdPartyOracle):
            return level
        # A scenario need not contain the unperturbed rows.
        return ThirdPartyOracle(level, self.oracle, self.X, self.y, contains_rows=False)


def checked_support(source: str, found: Any, X: Matrix, n_rows: int) -> Support:
    """Validate types, shapes and numbers of the result of `support` for rows of X.

    Shapes: `X` (n, d).
    """
    if not isinstance(found, Support):
        raise ValueError(f"{source} must return a Support, got {type(found).__name__}")
    points = plugins.rows(source, found.points, X, (n_rows, X.shape[1]))
    upper, grades = found.upper, found.rho
    if upper is not None:
        upper = plugins.numbers(source, "upper", upper, (n_rows,), finite=False)
    if grades is not None:
        grades = plugins.grades(source, grades, (n_rows,))
    return Support(points, upper, grades)


def _numbers(X: Matrix) -> np.ndarray:
    return X.data if sp.issparse(X) else np.asarray(X)


def tangents_of(oracle: InvarianceOracle, X: np.ndarray) -> np.ndarray:
    """Call ``oracle.tangents(X)`` and validate the result."""
    source = plugins.method(oracle, "tangents")
    found = plugins.ask(oracle, source, oracle.tangents, X)
    return plugins.numbers(source, "directions", found, (X.shape[0], "t", X.shape[1]))


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
