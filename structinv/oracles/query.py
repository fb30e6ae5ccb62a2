"""The one question about a bound oracle: how far labels exceed the true ones at the worst changes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from ..structures.competitors import Competitors
from ..utils.jit import njit
from ..utils.matrices import Matrix, Rows, in_threads, interleave, pick, products, stack
from .support import rounding_error

if TYPE_CHECKING:
    from .base import BoundOracle
    from .changes import Changes

# Weights of directions that are in memory at once.
WEIGHTS_AT_ONCE = 20_000_000


@dataclass(frozen=True)
class Query:
    """Functions ``f(z, k) = <weights[k], z> + constants[k]`` whose labels compete in some rows.

    Parameters
    ----------
    weights : (n_outputs, d) array
    constants : (n_outputs,) array
    competitors : Competitors
        Labels, true labels and costs of the rows asked about.
    points : bool, default=True
        Whether `Violations.points` is asked next. Cheaper answers may do if not.
    rounding : bool, default=False
        Whether `Violations.rounding` is wanted.
    """

    weights: np.ndarray
    constants: np.ndarray
    competitors: Competitors
    points: bool = True
    rounding: bool = False

    def take(self, places: np.ndarray) -> Query:
        """The question for some of the rows."""
        whole = len(places) == len(self.competitors)
        return self if whole else replace(self, competitors=self.competitors.take(places))

    @property
    def of_all_labels(self) -> bool:
        """Whether each of three or more labels has its own function, and costs are margins."""
        competitors = self.competitors
        return competitors.functions.are_one_each and not competitors.slack and competitors.n_labels > 2


@dataclass(frozen=True)
class WorstPoints:
    """The worst change of each row for one label.

    Parameters
    ----------
    points : array, CSR matrix, or keys of points
        In the form that `Space.normals` takes.
    gains, costs : (n,) arrays
        What the label exceeds the true one by at the point, and what it costs there.
    """

    points: Any
    gains: np.ndarray
    costs: np.ndarray


# From places among the rows and a label for each to the worst points.
PointsOf: TypeAlias = Callable[[np.ndarray, np.ndarray], WorstPoints]


class Violations:
    """By how much each label exceeds the true one at the worst members of S(x).

    Parameters
    ----------
    gains : (n, n_labels) array
        ``G (f(z, k) - f(z, c))`` at the worst member z for label k; 0 for the true label c.
    costs : (n, n_labels) array
        Cost of the label, times the grade of the member.
    upper : (n, n_labels) array
        Bound on the largest gain plus cost.
    points_of : callable, optional
        Makes the points that reach the gains.
    rounding : (n, n_labels) array, optional
        How far the rounding of predictions can move the gains.
    """

    def __init__(
        self,
        gains: np.ndarray,
        costs: np.ndarray,
        upper: np.ndarray,
        points_of: PointsOf | None = None,
        rounding: np.ndarray | None = None,
    ) -> None:
        self.gains = gains
        self.costs = costs
        self.upper = upper
        self.rounding = rounding
        self._points_of = points_of

    def points(self, labels: np.ndarray) -> WorstPoints:
        """The worst changes for one label of each row, of which only these are made.

        Parameters
        ----------
        labels : (n,) array of int
            Where that is the true one, the point is any member.
        """
        assert self._points_of is not None
        return self._points_of(np.arange(len(labels)), labels)

    def take(self, places: np.ndarray) -> Violations:
        """The answers for some of the rows."""
        whole = self._points_of

        def points_of(some: np.ndarray, labels: np.ndarray) -> WorstPoints:
            assert whole is not None
            return whole(places[some], labels)

        rounding = None if self.rounding is None else self.rounding[places]
        return Violations(
            self.gains[places], self.costs[places], self.upper[places], points_of, rounding
        )

    @classmethod
    def of_levels(cls, each: Sequence[Violations]) -> Violations:
        """Answers at several levels with a third axis, without points; a single one as it is."""
        if len(each) == 1:
            return each[0]

        def joined(name: str) -> Any:
            parts = [getattr(one, name) for one in each]
            return None if parts[0] is None else np.stack(parts, axis=2)

        return cls(joined("gains"), joined("costs"), joined("upper"), None, joined("rounding"))

    @classmethod
    def by_mask(cls, mask: np.ndarray, inside: Violations, outside: Violations) -> Violations:
        """Answers for the rows where a mask holds and for all others, as one."""
        number = np.where(mask, np.cumsum(mask), np.cumsum(~mask)) - 1

        def points_of(places: np.ndarray, labels: np.ndarray) -> WorstPoints:
            mine = mask[places]
            parts = [
                part.take(number[places[own]]).points(labels[own])
                for part, own in ((inside, mine), (outside, ~mine))
            ]
            gains, costs = (_by_mask(mine, [getattr(p, n) for p in parts]) for n in ("gains", "costs"))
            return WorstPoints(interleave(mine, parts[0].points, parts[1].points), gains, costs)

        def both(name: str) -> Any:
            return _by_mask(mask, [getattr(part, name) for part in (inside, outside)])

        return cls(both("gains"), both("costs"), both("upper"), points_of, both("rounding"))


def _by_mask(mask: np.ndarray, parts: list[np.ndarray | None]) -> Any:
    """Numbers of the rows where a mask holds and of all others, as one array; None if there are none."""
    inside, outside = parts
    if inside is None or outside is None:
        return None
    whole = np.empty((len(mask), *inside.shape[1:]))
    whole[mask], whole[~mask] = inside, outside
    return whole


def worst_of(bound: BoundOracle, rows: Rows, question: Query) -> Violations:
    """The answer of any bound oracle: from a list that is scored in one product, else by `support`."""
    if not question.rounding:
        changes = bound.changes()
        scores = None if changes is None else changes.scores(rows, question.weights)
        if changes is not None and scores is not None:
            return worst_in_list(changes, rows, question, scores)
    return worst_by_support(bound, rows, question)


def worst_in_list(changes: Changes, rows: Rows, question: Query, scores: np.ndarray) -> Violations:
    """The answer from ``<w, z>`` of all members z, (n, s, n_outputs)."""
    competitors = question.competitors
    values = scores
    if np.any(question.constants):
        values = scores + question.constants.astype(scores.dtype)
    gains, costs, members = best_members(values, competitors, changes.grades(rows))

    def points_of(places: np.ndarray, labels: np.ndarray) -> WorstPoints:
        points = changes.points(pick(rows, places, len(competitors)), members[places, labels])
        return WorstPoints(points, gains[places, labels], costs[places, labels])

    return Violations(gains, costs, gains + costs, points_of)


def worst_at(points: Matrix, question: Query, grades: np.ndarray | None = None) -> Violations:
    """The answer where each row has a single member.

    Parameters
    ----------
    points : (n, d) array or CSR matrix
    question : Query
    grades : (n,) array, optional
        The grade of each point, 1 by default.
    """
    competitors, every = question.competitors, np.arange(points.shape[0])
    functions = competitors.functions
    values = functions.scores(products(points, question.weights.T) + question.constants)
    factors = competitors.costs if competitors.slack else 1.0
    gains = factors * (values - values[every, competitors.codes][:, None])
    costs = competitors.costs if grades is None else competitors.costs * grades[:, None]
    rounding = None
    if question.rounding:
        sizes = products(abs(points), np.abs(question.weights).T) + np.abs(question.constants)
        sizes = functions.sizes(sizes)
        rounding = rounding_error(points) * (sizes + sizes[every, competitors.codes][:, None])
        rounding[every, competitors.codes] = 0.0

    def points_of(places: np.ndarray, labels: np.ndarray) -> WorstPoints:
        return WorstPoints(rows_at(points, places), gains[places, labels], costs[places, labels])

    return Violations(gains, costs, gains + costs, points_of, rounding)


def worst_by_support(bound: BoundOracle, rows: Rows, question: Query) -> Violations:
    """The answer by `BoundOracle.support`, asked for one label of each row at a time.

    The few weights become directions, not the many rows.
    """
    competitors = question.competitors
    n, n_labels = len(competitors), competitors.n_labels
    found, kept = np.zeros((4, n, n_labels)), None
    portions = _portions(question)
    # With a single competitor a row its point is the one that will be wanted.
    last = question.points and n_labels == 2 and len(portions) == 1
    for every in portions:
        mine, part = question.take(every), pick(rows, every, n)
        for shift in range(1, n_labels):
            labels = (mine.competitors.codes + shift) % n_labels
            answer = _ask(bound, part, replace(mine, points=last), labels)
            found[:, every, labels] = answer[1:]
            kept = answer[0] if last else None
    gains, costs, upper, rounding = found

    def points_of(places: np.ndarray, labels: np.ndarray) -> WorstPoints:
        if kept is not None:
            return WorstPoints(rows_at(kept, places), gains[places, labels], costs[places, labels])
        return _points_by_support(bound, pick(rows, places, n), question.take(places), labels)

    return Violations(gains, costs, upper, points_of, rounding if question.rounding else None)


def rows_at(X: Matrix, places: np.ndarray) -> Matrix:
    """Rows of a matrix at increasing places; the matrix itself for all of them."""
    return X if len(places) == X.shape[0] else X[places]


def _portions(question: Query) -> list[np.ndarray]:
    """All rows together, or those of some labels: each label is a direction a question."""
    competitors = question.competitors
    present = np.unique(competitors.codes)
    at_once = max(1, WEIGHTS_AT_ONCE // max(1, question.weights.shape[1]))
    if len(present) <= at_once:
        return [np.arange(len(competitors))]
    parts = np.split(present, range(at_once, len(present), at_once))
    return [np.flatnonzero(np.isin(competitors.codes, part)) for part in parts]


def _points_by_support(
    bound: BoundOracle, rows: Rows, question: Query, labels: np.ndarray
) -> WorstPoints:
    """Ask the oracle once more, for a label of each row, in portions that face few directions each."""
    places, answers = _by_pair(question, labels), []
    question = replace(question, points=True, rounding=False)
    for place in places:
        part = pick(rows, place, len(labels))
        answers.append(_ask(bound, part, question.take(place), labels[place]))
    if len(answers) == 1:
        return WorstPoints(*answers[0][:3])
    order = np.argsort(np.concatenate(places))
    gains, costs = (np.concatenate([each[k] for each in answers])[order] for k in (1, 2))
    return WorstPoints(stack([each[0] for each in answers])[order], gains, costs)


def _by_pair(question: Query, labels: np.ndarray) -> list[np.ndarray]:
    """Places of rows in portions that face few directions each."""
    competitors, every = question.competitors, np.arange(len(labels))
    at_once = max(1, WEIGHTS_AT_ONCE // max(1, question.weights.shape[1]))
    if len(labels) <= at_once or competitors.n_labels**2 <= at_once:
        return [every]
    assign = competitors.pairs(labels)[2]
    if np.max(assign) < at_once:
        return [every]
    order = np.argsort(assign, kind="stable")
    ends = np.flatnonzero(np.diff(assign[order] // at_once)) + 1
    return np.split(order, ends)


def _ask(
    bound: BoundOracle, rows: Rows, question: Query, labels: np.ndarray
) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Ask about one label of each row: points if wanted, gains, costs, upper bounds and rounding."""
    competitors = question.competitors
    theirs, own, assign = competitors.facing(question.weights, labels)
    above, below, _ = competitors.facing(question.constants[:, None], labels)
    V, constants = theirs - own, (above - below)[assign, 0]
    factors, worth = competitors.factors(labels), competitors.cost_of(labels)
    if competitors.slack:
        # Cost times (gain + rho): the oracle is asked for the sum, which is no more than its own.
        worth = (worth != 0).astype(np.float64)
    # A label may cost less than nothing, but only where no change is graded.
    answer = bound.support(rows, V, assign, np.maximum(worth, 0.0))
    # Points are made before heights, which are cheaper from points than by a pass of their own.
    points = answer.points if question.points else None
    rounding = np.zeros(len(labels))
    if question.rounding:
        # Predictions round each score by itself, however much of them cancels in a margin.
        sizes, height = np.abs(theirs) + np.abs(own), (np.abs(above) + np.abs(below))[assign, 0]
        rounding = answer.rounding(V, sizes, assign, height)
    gains, costs, upper = answer.heights(V, assign, constants, worth)
    if competitors.slack:
        costs = factors * costs
    upper = factors * np.where(factors == 0, 0.0, upper)
    return points, factors * gains, costs, upper, rounding


def best_members(
    values: np.ndarray, competitors: Competitors, grades: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The member of each row's list at which each label wins most.

    Parameters
    ----------
    values : (n, s, n_outputs) array
        ``f(z, k)`` for every member z.
    competitors : Competitors
    grades : (n, s) array or None

    Returns
    -------
    gains, costs : (n, n_labels) arrays
        See `Violations`.
    members : (n, n_labels) array of int
        The first of equals.
    """
    n, s, _ = values.shape
    shape = (n, competitors.n_labels)
    gains, costs = np.zeros(shape), np.zeros(shape)
    members = np.zeros(shape, dtype=np.int64)
    # The innermost loops run over members; who makes the values lays them out like that.
    values = np.ascontiguousarray(values.swapaxes(1, 2))
    share = np.ones((1, s)) if grades is None else np.ascontiguousarray(grades)
    functions = competitors.functions.outputs, competitors.functions.signs

    def work(part: slice) -> None:
        mine = share if grades is None else share[part]
        _best_members(
            values[part], *functions, competitors.codes[part], competitors.costs[part],
            competitors.slack, mine, gains[part], costs[part], members[part],
        )  # fmt: skip
        # So that the caller sees it: comparisons pass over what is no number.
        with np.errstate(over="ignore", invalid="ignore"):
            gains[part][~np.isfinite(values[part].sum(axis=(1, 2), dtype=np.float64))] = np.nan

    # A value is little work for a thread.
    in_threads(work, n, values.size // 8)
    return gains, costs, members


@njit(cache=True, nogil=True)
def _best_members(values, outputs, signs, codes, worth, slack, grades, gains, costs, members):
    n, _, s = values.shape
    for i in range(n):
        c, row = codes[i], i if grades.shape[0] > 1 else 0
        truth = values[i, outputs[c]]
        for k in range(len(outputs)):
            if k == c:
                continue
            theirs, cost = values[i, outputs[k]], worth[i, k]
            factor = cost if slack else 1.0
            best, highest = 0, -np.inf
            for m in range(s):
                height = factor * (signs[k] * theirs[m] - signs[c] * truth[m]) + cost * grades[row, m]
                if height > highest:
                    best, highest = m, height
            costs[i, k] = cost * grades[row, best]
            gains[i, k], members[i, k] = highest - costs[i, k], best
