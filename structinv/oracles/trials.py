"""Test cases of `check_oracle`: samples, directions, answers, errors."""

from __future__ import annotations

import copy
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..utils import plugins
from ..utils.exceptions import CheckError
from ..utils.matrices import ALL_ROWS, Matrix, count, resolution
from .base import BoundOracle, InvarianceOracle, Support
from .combinators import attained_by, upper_of
from .third_party import checked_support


class Trial:
    """Samples, directions and costs of all checks, with the answers of the oracle.

    The samples are the given ones and a row of zeros.
    """

    def __init__(
        self,
        oracle: InvarianceOracle,
        X: np.ndarray,
        y: np.ndarray | None,
        n_directions: int,
        rng: np.random.Generator,
    ) -> None:
        self.oracle, self.rng = oracle, rng
        self.X = np.vstack([X, np.zeros(X.shape[1])])
        self.y = None if y is None else np.r_[y, y[:1]]
        self.V = _directions(n_directions, X.shape[1], rng)
        # Costs are zero, about the score change by a perturbation as large as the row, or larger.
        size = float(np.mean(np.abs(self.V)) * np.mean(np.abs(self.X)))
        self.costs = rng.uniform(size=(len(self.V), len(self.X)))
        self.costs *= np.resize([0.0, size, 10.0 * size], len(self.V))[:, None]
        self.stored = with_stored_orbits(oracle)
        with untouched("bind", X=self.X, y=self.y):
            self.bound = self.stored.bind(self.X, self.y)
        self.answers = [self.answer(self.bound, self.V[k], self.costs[k]) for k in self.directions]
        self.points = np.stack([answer.points for answer in self.answers])
        # Relative tolerance, by the precision of the answers.
        self.rtol = resolution(*(part for a in self.answers for part in (a.points, a.upper, a.rho)))
        graded = np.array([answer.rho is not None for answer in self.answers])
        self.graded_costs = self.costs * graded[:, None]
        reached = map(values_and_bounds, self.answers, self.V, self.costs)
        self.values, self.upper = np.stack(list(reached), axis=1)

    @property
    def directions(self) -> range:
        """Numbers of the pairs of a direction and costs."""
        return range(len(self.V))

    def answer(
        self,
        bound: BoundOracle,
        V: np.ndarray,
        cost: np.ndarray | None,
        rows: Any = ALL_ROWS,
        assign: np.ndarray | None = None,
    ) -> Support:
        """Return a validated answer; `V` is one direction unless `assign` is given."""
        V = np.atleast_2d(V)
        assign = np.zeros(count(rows, bound.X.shape[0]), dtype=np.intp) if assign is None else assign
        with untouched("support", X=bound.X, V=V, assign=assign, cost=cost, y=bound.y):
            answer = raising_check_error(bound.support)(rows, V, assign, cost)
        source = plugins.method(self.oracle, "support")
        checked = raising_check_error(checked_support)(source, answer, bound.X, len(assign))
        if answer.points.dtype.kind != "f":
            raise CheckError(f"{source} must return points as floating-point numbers")
        return checked

    def tolerance(self, V: np.ndarray, points: np.ndarray) -> np.ndarray:
        """Return the tolerance of ``points @ V`` for rounding errors."""
        rtol = max(self.rtol, resolution(points))
        return rtol * (np.abs(points) @ np.abs(V) + np.abs(self.X) @ np.abs(V)) + 1e-300

    def where(self, row: int, v: np.ndarray | None = None) -> str:
        """Return a description of a row of `X` and of a direction, for messages."""
        name = f"row {row} of X" if row < len(self.X) - 1 else "the added row of zeros"
        if v is None:
            return name
        entries = np.array2string(v, precision=6, threshold=20, max_line_width=10**6, separator=", ")
        return f"{name}, direction {entries}"


def _directions(n: int, d: int, rng: np.random.Generator) -> np.ndarray:
    """Return random directions, neighbors of them, directions with ties, and zero.

    If an answer is not the maximum, the answer of a neighbor is often better and reveals it.
    """
    far = rng.standard_normal((n, d))
    near = np.tile(far, (3, 1))
    near *= rng.uniform(0.5, 1.5, near.shape)
    ties = rng.integers(-1, 2, (2, d)).astype(np.float64)
    return np.vstack([far, near, ties, np.ones(d), np.zeros(d)])


def values_and_bounds(
    answer: Support, v: np.ndarray, cost: np.ndarray | None, assign: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return values along one direction or assigned ones, and their upper bounds."""
    assign = np.zeros(answer.points.shape[0], dtype=np.intp) if assign is None else assign
    V = np.atleast_2d(v)
    return attained_by(answer, V, assign, cost), upper_of(answer, V, assign, cost)


def orbits_of(oracle: InvarianceOracle) -> Iterator[InvarianceOracle]:
    """Yield the oracle and its parts whose `orbit` a third-party class defines."""
    if plugins.writes(oracle, "orbit"):
        yield oracle
    for part in oracle._parts().values():
        yield from orbits_of(part)


def with_stored_orbits(oracle: InvarianceOracle) -> InvarianceOracle:
    """Return an oracle that calls each third-party `orbit` once for the same rows.

    A custom `orbit` can take milliseconds, and `contains` of a finite oracle calls it for each point.
    `check_orbits` compares several calls of the original method.
    """
    oracle = oracle._with_parts(with_stored_orbits)
    if not plugins.writes(oracle, "orbit"):
        return oracle
    oracle, orbit, stored = copy.copy(oracle), oracle.orbit, {}

    def stored_orbit(X: Matrix) -> np.ndarray:
        key = _content(X)
        if key not in stored:
            stored[key] = orbit(X)
        return copy.copy(stored[key])

    oracle.__dict__["orbit"] = stored_orbit
    return oracle


def _content(X: Matrix) -> Hashable:
    """Return numbers and storage of rows as a key."""
    parts = [X.data, X.indices, X.indptr] if sp.issparse(X) else [X]
    return X.shape, *((part.dtype.str, part.strides, part.tobytes()) for part in parts)


@contextmanager
def untouched(name: str, **arrays: Any) -> Iterator[None]:
    """Raise CheckError if arrays, or the arrays of CSR matrices, are modified."""

    def parts() -> list[tuple[str, np.ndarray]]:
        given = {name: array for name, array in arrays.items() if array is not None}
        return [
            (name, part)
            for name, a in given.items()
            for part in ([a.data, a.indices, a.indptr] if sp.issparse(a) else [a])
        ]

    before = [part.copy() for _, part in parts()]
    yield
    for (key, new), old in zip(parts(), before, strict=True):
        if not np.array_equal(old, new):
            raise CheckError(f"{name} must not modify its argument {key}")


def fail_where(
    trial: Trial,
    bad: np.ndarray,
    message: str,
    along: np.ndarray | None = None,
    rows: np.ndarray | None = None,
) -> None:
    """Raise CheckError for the first True of `bad`, with its row and direction.

    The last axis of `bad` is rows, and the one before it is directions. `rows` has the row numbers if
    they are not in order. `along` has the directions if they are not those of the trial: one for all
    rows, or one per row.
    """
    if not np.any(bad):
        return
    place = np.argwhere(bad)[0]
    row = int(place[-1])
    if along is not None:
        along = along if along.ndim == 1 else along[row]
    elif len(place) > 1:
        along = trial.V[place[-2]]
    raise CheckError(f"{message} ({trial.where(row if rows is None else int(rows[row]), along)})")


def inside(trial: Trial, name: str, members: np.ndarray) -> None:
    """Raise unless members (n, s, d) lie in S(x), by `contains` and the upper bounds."""
    contains = optional(trial.bound.contains)
    reached = np.einsum("nsd,qd->qsn", members, trial.V)
    tolerance = trial.tolerance(trial.V.T, np.moveaxis(members, 1, 0))
    excess = reached - trial.upper[:, None, :] - np.moveaxis(tolerance, 2, 0)
    fail_where(trial, np.max(excess, axis=1, initial=-1.0) > 0, f"a member from {name} exceeds upper")
    for row in range(len(members)):
        if any(contains(row, z) is False for z in members[row]):
            raise CheckError(f"a member from {name} lies outside S(x) ({trial.where(row)})")


def optional(view: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a method to return None instead of raising NotImplementedError."""
    checked = raising_check_error(view)

    def call(*args: Any) -> Any:
        try:
            return checked(*args)
        except NotImplementedError:
            return None

    return call


def raising_check_error(view: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a method to raise CheckError instead of TypeError or ValueError."""

    def call(*args: Any) -> Any:
        try:
            return view(*args)
        except (TypeError, ValueError) as error:
            raise CheckError(str(error)) from error

    return call
