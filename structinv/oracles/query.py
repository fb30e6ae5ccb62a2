"""Loss-augmented argmax over perturbed samples, for linear functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from ..structures.competitors import Competitors
from ..utils.jit import LEAN, njit
from ..utils.matrices import TIES, Matrix, Rows, in_threads, interleave, pick, products, stack
from .support import rounding_bound

if TYPE_CHECKING:
    from .base import BoundOracle
    from .changes import Changes

# Number of weights of directions that are in memory at once.
WEIGHTS_AT_ONCE = 20_000_000


@dataclass(frozen=True)
class Query:
    """Linear functions ``<weights[k], z> + constants[k]`` and the labels of rows.

    - `weights` (n_outputs, n_features): weights of the functions
    - `constants` (n_outputs,): constants of the functions
    - `competitors`: labels, true labels and costs of the rows
    - `points`: true if `Violations.points` will be called
    - `rounding`: true if `Violations.rounding` is needed
    """

    weights: np.ndarray
    constants: np.ndarray
    competitors: Competitors
    points: bool = True
    rounding: bool = False

    def take(self, places: np.ndarray) -> Query:
        """Return the query for some of the rows."""
        is_complete = len(places) == len(self.competitors)
        return self if is_complete else replace(self, competitors=self.competitors.take(places))

    @property
    def of_two_labels(self) -> bool:
        """True for two labels with the scores 0 and f, and margin rescaling."""
        functions = self.competitors.functions
        signs = functions.signs.tolist()
        return functions.n_outputs == 1 and signs == [0.0, 1.0] and not self.competitors.slack

    @property
    def of_all_labels(self) -> bool:
        """True for 3 or more labels with a function each and margin rescaling."""
        competitors = self.competitors
        return competitors.functions.are_one_each and not competitors.slack and competitors.n_labels > 2


@dataclass(frozen=True)
class WorstPoints:
    """The worst perturbed sample of each row for one label.

    - `points`: perturbed samples in the form that `Space.normals` requires
    - `gains` (n_rows,): score of the label minus score of the true label at the point
    - `costs` (n_rows,): cost of the label at the point
    """

    points: Any
    gains: np.ndarray
    costs: np.ndarray


# Function from positions among the rows, with one label each, to the worst points.
PointsOf: TypeAlias = Callable[[np.ndarray, np.ndarray], WorstPoints]


class Violations:
    """Score differences and costs of each label at the worst members of S(x).

    Shapes: `gains` (n_rows, n_labels), `costs` (n_rows, n_labels), `upper` (n_rows, n_labels),
    `rounding` (n_rows, n_labels).
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
        """Compute the worst perturbed samples for one label of each row.

        Shapes: `labels` (n_rows,).
        """
        assert self._points_of is not None
        return self._points_of(np.arange(len(labels)), labels)

    def take(self, places: np.ndarray) -> Violations:
        """Return the violations of some of the rows."""
        make_points = self._points_of

        def points_of(chosen: np.ndarray, labels: np.ndarray) -> WorstPoints:
            assert make_points is not None
            return make_points(places[chosen], labels)

        rounding = None if self.rounding is None else self.rounding[places]
        return Violations(
            self.gains[places], self.costs[places], self.upper[places], points_of, rounding
        )

    def shifted(self, scores: np.ndarray, codes: np.ndarray) -> Violations:
        """Return the violations after constants are added to the scores of each row.

        Shapes: `scores` (n_rows, n_labels), `codes` (n_rows,).
        """
        added = scores - np.take_along_axis(scores, codes[:, None], axis=1)
        return Violations(
            self.gains + added, self.costs, self.upper + added, self._points_of, self.rounding
        )

    @classmethod
    def of_levels(cls, answers: Sequence[Violations]) -> Violations:
        """Stack violations of the levels of a scenario on a third axis, without points.

        Violations of a single level are returned unchanged.
        """
        if len(answers) == 1:
            return answers[0]

        def joined(name: str) -> Any:
            parts = [getattr(answer, name) for answer in answers]
            return None if parts[0] is None else np.stack(parts, axis=2)

        return cls(joined("gains"), joined("costs"), joined("upper"), None, joined("rounding"))

    @classmethod
    def by_mask(cls, mask: np.ndarray, inside: Violations, outside: Violations) -> Violations:
        """Merge the violations of rows inside and outside a mask."""
        number = np.where(mask, np.cumsum(mask), np.cumsum(~mask)) - 1

        def points_of(places: np.ndarray, labels: np.ndarray) -> WorstPoints:
            is_inside = mask[places]
            parts = [
                part.take(number[places[selected]]).points(labels[selected])
                for part, selected in ((inside, is_inside), (outside, ~is_inside))
            ]
            gains, costs = (
                _by_mask(is_inside, [getattr(p, n) for p in parts]) for n in ("gains", "costs")
            )
            return WorstPoints(interleave(is_inside, parts[0].points, parts[1].points), gains, costs)

        def both(name: str) -> Any:
            return _by_mask(mask, [getattr(part, name) for part in (inside, outside)])

        return cls(both("gains"), both("costs"), both("upper"), points_of, both("rounding"))


def _by_mask(mask: np.ndarray, parts: list[np.ndarray | None]) -> Any:
    """Merge values of rows inside and outside a mask; None if one of them is None."""
    inside, outside = parts
    if inside is None or outside is None:
        return None
    whole = np.empty((len(mask), *inside.shape[1:]))
    whole[mask], whole[~mask] = inside, outside
    return whole


def worst_of(bound: BoundOracle, rows: Rows, query: Query) -> Violations:
    """Compute the loss-augmented argmax, from a list of members or by `support`."""
    if not query.rounding:
        changes = bound.changes()
        scores = None if changes is None else changes.scores(rows, query.weights)
        if changes is not None and scores is not None:
            return worst_in_list(changes, rows, query, scores)
    return worst_by_support(bound, rows, query)


def worst_in_list(changes: Changes, rows: Rows, query: Query, scores: np.ndarray) -> Violations:
    """Compute the loss-augmented argmax from scores of members, (n, s, n_outputs)."""
    competitors = query.competitors
    values = scores
    if np.any(query.constants):
        values = scores + query.constants.astype(scores.dtype)
    gains, costs, members = best_members(values, competitors, changes.grades(rows))

    def points_of(places: np.ndarray, labels: np.ndarray) -> WorstPoints:
        points = changes.points(pick(rows, places, len(competitors)), members[places, labels])
        return WorstPoints(points, gains[places, labels], costs[places, labels])

    return Violations(gains, costs, gains + costs, points_of)


def worst_at(points: Matrix, query: Query, grades: np.ndarray | None = None) -> Violations:
    """Compute the loss-augmented argmax if each S(x) has a single member.

    Shapes: `points` (n_rows, n_features), `grades` (n_rows,).
    """
    competitors, every = query.competitors, np.arange(points.shape[0])
    functions = competitors.functions
    values = functions.scores(products(points, query.weights.T) + query.constants)
    factors = competitors.costs if competitors.slack else 1.0
    gains = factors * (values - values[every, competitors.codes][:, None])
    costs = competitors.costs if grades is None else competitors.costs * grades[:, None]
    rounding = None
    if query.rounding:
        sizes = products(abs(points), np.abs(query.weights).T) + np.abs(query.constants)
        sizes = functions.sizes(sizes)
        rounding = rounding_bound(points, sizes + sizes[every, competitors.codes][:, None])
        rounding[every, competitors.codes] = 0.0

    def points_of(places: np.ndarray, labels: np.ndarray) -> WorstPoints:
        return WorstPoints(rows_at(points, places), gains[places, labels], costs[places, labels])

    return Violations(gains, costs, gains + costs, points_of, rounding)


def worst_by_support(bound: BoundOracle, rows: Rows, query: Query) -> Violations:
    """Compute the loss-augmented argmax by one call of `support` per competing label.

    Directions are differences of two labels' weights, so rows with equal labels share them.
    """
    competitors, every = query.competitors, np.arange(len(query.competitors))
    n_labels = competitors.n_labels
    results, last_points = np.zeros((4, len(every), n_labels)), None
    # With one competitor per row, its point is the one that `Violations.points` returns.
    of_bounds = replace(query, points=query.points and n_labels == 2)
    for shift in range(1, n_labels):
        labels = (competitors.codes + shift) % n_labels
        answer = _answer_in_parts(bound, rows, of_bounds, labels)
        last_points, results[:, every, labels] = answer[0], answer[1:]
    gains, costs, upper, rounding = results

    def points_of(places: np.ndarray, labels: np.ndarray) -> WorstPoints:
        if last_points is not None:
            return WorstPoints(
                rows_at(last_points, places), gains[places, labels], costs[places, labels]
            )
        of_points = replace(query.take(places), points=True, rounding=False)
        part = pick(rows, places, len(competitors))
        return WorstPoints(*_answer_in_parts(bound, part, of_points, labels)[:3])

    return Violations(gains, costs, upper, points_of, rounding if query.rounding else None)


def rows_at(X: Matrix, places: np.ndarray) -> Matrix:
    """Return the rows at increasing positions; for all positions the matrix itself."""
    return X if len(places) == X.shape[0] else X[places]


def _answer_in_parts(bound: BoundOracle, rows: Rows, query: Query, labels: np.ndarray) -> Any:
    """Compute the answer for one label per row, in parts whose directions fit in memory."""
    places = _by_pair(query, labels)
    answers = [
        _answer_for_labels(bound, pick(rows, place, len(labels)), query.take(place), labels[place])
        for place in places
    ]
    if len(answers) == 1:
        return answers[0]
    order = np.argsort(np.concatenate(places))
    points, *numbers = zip(*answers, strict=True)
    joined = stack(points)[order] if query.points else None
    return joined, *(np.concatenate(each)[order] for each in numbers)


def _by_pair(query: Query, labels: np.ndarray) -> list[np.ndarray]:
    """Split the rows by pairs of labels so that the directions of one call fit in memory."""
    competitors, every = query.competitors, np.arange(len(labels))
    at_once = max(1, WEIGHTS_AT_ONCE // max(1, query.weights.shape[1]))
    if len(labels) <= at_once or competitors.n_labels**2 <= at_once:
        return [every]
    assign = competitors.pairs(labels)[2]
    if np.max(assign) < at_once:
        return [every]
    order = np.argsort(assign, kind="stable")
    ends = np.flatnonzero(np.diff(assign[order] // at_once)) + 1
    return np.split(order, ends)


def _answer_for_labels(
    bound: BoundOracle, rows: Rows, query: Query, labels: np.ndarray
) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Compute points (if required), gains, costs, upper bounds and rounding of one label per row."""
    competitors = query.competitors
    label_weights, true_weights, assign = competitors.facing(query.weights, labels)
    label_constants, true_constants, _ = competitors.facing(query.constants[:, None], labels)
    V, constants = label_weights - true_weights, (label_constants - true_constants)[assign, 0]
    factors, costs_at_1 = competitors.factors(labels), competitors.cost_of(labels)
    if competitors.slack:
        # The loss is cost times (gain + rho), so the oracle maximizes gain + rho.
        costs_at_1 = (costs_at_1 != 0).astype(np.float64)
    # A cost can be negative, but only without grades.
    answer = bound.support(rows, V, assign, np.maximum(costs_at_1, 0.0))
    # Points come first: `gains_and_costs` is cheaper if they exist.
    points = answer.points if query.points else None
    rounding = np.zeros(len(labels))
    if query.rounding:
        # Predictions round each score separately, even if the scores nearly cancel in a margin.
        sizes = np.abs(label_weights) + np.abs(true_weights)
        constant_sizes = (np.abs(label_constants) + np.abs(true_constants))[assign, 0]
        rounding = answer.rounding(V, sizes, assign, constant_sizes)
    gains, costs, upper = answer.gains_and_costs(V, assign, constants, costs_at_1)
    if competitors.slack:
        costs = factors * costs
    upper = factors * np.where(factors == 0, 0.0, upper)
    return points, factors * gains, costs, upper, rounding


def best_members(
    values: np.ndarray, competitors: Competitors, grades: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Find the listed member with the largest gain plus cost, per row and label.

    Shapes: `values` (n_rows, n_members, n_outputs), `grades` (n_rows, n_members); returns `gains`
    (n_rows, n_labels), `costs` (n_rows, n_labels), `members` (n_rows, n_labels).
    """
    n, s, _ = values.shape
    shape = (n, competitors.n_labels)
    gains, costs = np.zeros(shape), np.zeros(shape)
    members = np.zeros(shape, dtype=np.int64)
    # The innermost loops run over members, so these must be contiguous.
    values = np.ascontiguousarray(values.swapaxes(1, 2))
    member_grades = np.ones((1, s)) if grades is None else np.ascontiguousarray(grades)
    functions = competitors.functions.outputs, competitors.functions.signs

    def work(part: slice) -> None:
        part_grades = member_grades if grades is None else member_grades[part]
        _best_members(
            values[part], *functions, competitors.codes[part], competitors.costs[part],
            competitors.slack, part_grades, gains[part], costs[part], members[part],
        )  # fmt: skip
        # Comparisons skip NaN, so mark these rows for the caller.
        with np.errstate(over="ignore", invalid="ignore"):
            gains[part][~np.isfinite(values[part].sum(axis=(1, 2), dtype=np.float64))] = np.nan

    # One value takes about an eighth of the time that `in_threads` expects for a value.
    in_threads(work, n, values.size // 8)
    return gains, costs, members


@njit(**LEAN)
def _best_members(values, outputs, signs, codes, label_costs, slack, grades, gains, costs, members):
    n, _, s = values.shape
    for i in range(n):
        c, row = codes[i], i if grades.shape[0] > 1 else 0
        true_values = values[i, outputs[c]]
        for k in range(len(outputs)):
            if k == c:
                continue
            label_values, cost = values[i, outputs[k]], label_costs[i, k]
            factor = cost if slack else 1.0
            best_member, best_value = 0, -np.inf
            for m in range(s):
                value = (
                    factor * (signs[k] * label_values[m] - signs[c] * true_values[m])
                    + cost * grades[row, m]
                )
                if value - best_value > TIES * abs(value):
                    best_member = m
                best_value = max(best_value, value)
            costs[i, k] = cost * grades[row, best_member]
            gains[i, k], members[i, k] = best_value - costs[i, k], best_member
