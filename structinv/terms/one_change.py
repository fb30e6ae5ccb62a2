"""Worst-case loss of rows with several labels and one joint perturbation."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from ..oracles.base import BoundOracle, InvarianceOracle
from ..oracles.listed_changes import listed
from ..oracles.query import WEIGHTS_AT_ONCE
from ..oracles.third_party import bind
from ..spaces.base import NUMBERS_AT_ONCE, Element, Space
from ..structures import Layout, Structure
from ..structures.bound import BoundStructure
from ..structures.inference import decoded
from ..utils.matrices import Rows, count, row_sizes, stack
from .planes import Planes
from .worst_case import WorstCase

# Maximum number of labels for a search over all labelings, if the members of S(x) are not listed.
MOST_LABELS = 12
# Number of alternations between labelings and points, without a search over all labelings.
ROUNDS = 3


@dataclass(frozen=True)
class JointViolation:
    """Labeling of each row at its worst perturbation, with bounds.

    - `labels` (n, L): labelings
    - `gains, costs` (n,): score difference to the given labeling at the perturbed row, and cost there
    - `upper` (n,): upper bound of the largest sum of both
    - `sizes` (n,): sum of the absolute values of all summands of such differences, which bounds rounding
      errors; the largest one found
    - `points`: perturbed rows for `Space.normals`, if requested
    - `grades` (n,): grades of the perturbed rows, if the oracle is graded
    """

    labels: np.ndarray
    gains: np.ndarray
    costs: np.ndarray
    upper: np.ndarray
    sizes: np.ndarray
    points: Any
    grades: np.ndarray | None = None

    @property
    def values(self) -> np.ndarray:
        """Sums of gains and costs, (n,)."""
        return self.gains + self.costs


class OneChangeSearch:
    """Search for labelings of some rows under perturbations that all labels share.

    It uses the first applicable method:

    - one decoding for each member of S(x), if the space has scores of the members;
    - a search over all labelings of at most `MOST_LABELS` labels, by decreasing bound, until no bound
      exceeds the best value;
    - a bound by position, and a few alternations between labelings and points.

    Shapes: `rows` (n,), `codes` (n, L), `costs` (n, L, 2), `pairwise` (n_pairwise,).
    """

    def __init__(
        self,
        space: Space,
        f: Element,
        bound: BoundOracle,
        bound_structure: BoundStructure,
        rows: Rows,
        codes: np.ndarray,
        costs: np.ndarray,
        pairwise: np.ndarray | None = None,
    ) -> None:
        self.space, self.f, self.bound, self.bound_structure = space, f, bound, bound_structure
        self.rows, self.codes, self.costs = rows, codes, costs
        self.pairwise = space.pairwise(f) if pairwise is None else pairwise
        every = isinstance(rows, slice)
        self.numbers = np.arange(bound.X.shape[0])[rows] if every else np.asarray(rows)
        # Sign of each position's function in the score difference of the other label.
        self.signs = 1 - 2 * codes
        self.other_costs = np.take_along_axis(costs, 1 - codes[..., None], axis=2)[..., 0]

    def against(self, codes: np.ndarray) -> OneChangeSearch:
        """Return a search on the same rows against another labeling, without costs."""
        own = self.space, self.f, self.bound, self.bound_structure, self.rows
        return OneChangeSearch(*own, codes, np.zeros(self.costs.shape), self.pairwise)

    def worst(self, *, other: bool = False, points: bool = True) -> JointViolation:
        """Return the worst labeling; with `other`, among those unequal to the given one."""
        values = self.space.member_values(self.f, self.bound, self.rows)
        if values is not None:
            return self._of_members(values, other, points)
        if self.codes.shape[1] <= MOST_LABELS:
            return self._of_all(other, points)
        return self._by_position(other)

    # Members.

    def potentials(self, values: np.ndarray, grades: Any = 1.0) -> np.ndarray:
        """Return potentials of all positions at some members, (n * s * L, 2).

        `values` are the scores of the members, (n, s, L).
        """
        shared = np.broadcast_to(np.asarray(grades, dtype=np.float64), values.shape[:2])
        potentials = self.costs[:, None] * shared[..., None, None]
        potentials[..., 1] += values
        return potentials.reshape(-1, 2)

    def _best(
        self, potentials: np.ndarray, codes: np.ndarray, other: bool
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the best labelings, their score differences to `codes`, and upper bounds."""
        layout, flat = _layout(codes), codes.ravel()
        structure = self.bound_structure.structure
        if other:
            found = self.bound_structure.runner_up(potentials, flat, self.pairwise, layout)
        else:
            found = decoded(structure, potentials, self.pairwise, layout)
        own = structure.score(potentials, flat, self.pairwise, layout)
        reached = structure.score(potentials, found.labels, self.pairwise, layout) - own
        upper = reached if found.upper is None else np.maximum(reached, found.upper - own)
        return found.labels.reshape(codes.shape), reached, upper

    def _of_members(self, values: np.ndarray, other: bool, points: bool) -> JointViolation:
        n, s, size = values.shape
        grades = listed(self.bound).grades(self.rows)
        shared: Any = np.ones((n, s)) if grades is None else grades
        codes = np.repeat(self.codes, s, axis=0)
        found, reached, upper = self._best(self.potentials(values, shared), codes, other)
        every, members = np.arange(n), np.argmax(reached.reshape(n, s), axis=1)
        labels = found.reshape(n, s, size)[every, members]
        costs = shared[every, members] * self._cost_of(labels)
        gains = reached.reshape(n, s)[every, members] - costs
        place = None
        if points:
            place = self.space.members(self.bound, self.rows, members)
        highest = upper.reshape(n, s).max(axis=1)
        return JointViolation(labels, gains, costs, highest, np.zeros(n), place)

    def _cost_of(self, labels: np.ndarray) -> np.ndarray:
        return np.sum(self.other_costs * (labels != self.codes), axis=1)

    # Oracle calls for differences of labelings, for functions that are linear in x.

    def largest_gains(self, some: np.ndarray, differ: np.ndarray) -> JointViolation:
        """Return labelings of some rows at their worst points, without pairwise scores.

        Shapes: `some` (m,), `differ` (m, L).
        """
        directions, assign = np.unique(self.signs[some] * differ, axis=0, return_inverse=True)
        assign, labels = assign.ravel(), np.where(differ, 1 - self.codes[some], self.codes[some])
        at_once = max(1, WEIGHTS_AT_ONCE // max(1, self.space.n_features))
        parts, places = [], []
        for first in range(0, len(directions), at_once):
            place = np.flatnonzero((assign >= first) & (assign < first + at_once))
            factors = directions[first : first + at_once]
            parts.append(self._call_oracle(some[place], labels[place], factors, assign[place] - first))
            places.append(place)
        return parts[0] if len(parts) == 1 else _joined(parts, np.argsort(np.concatenate(places)))

    def _call_oracle(
        self, some: np.ndarray, labels: np.ndarray, factors: np.ndarray, assign: np.ndarray
    ) -> JointViolation:
        space: Any = self.space
        weights, above = space.weights(self.f), space.constants(self.f)
        V, constants = factors @ weights, (factors @ above)[assign]
        sizes = np.abs(factors) @ np.abs(weights)
        costs = np.sum(self.other_costs[some] * (labels != self.codes[some]), axis=1)
        answer = self.bound.support(self.numbers[some], V, assign, costs)
        largest = row_sizes(answer.points, sizes, assign) + (np.abs(factors) @ np.abs(above))[assign]
        found = answer.gains_and_costs(V, assign, constants, costs)
        return JointViolation(labels, *found, largest, answer.points, answer.rho)

    def single(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return values, bounds and sizes for a change of each single label, (n, L) each."""
        n, size = self.codes.shape
        reached, upper, sizes = np.zeros((n, size)), np.zeros((n, size)), np.zeros((n, size))
        for t in range(size):
            differ = np.zeros((n, size), dtype=bool)
            differ[:, t] = True
            found = self.largest_gains(np.arange(n), differ)
            reached[:, t], upper[:, t] = found.values, found.upper
            sizes[:, t] = found.sizes
        return reached, upper, sizes

    def pairwise_differences(self) -> np.ndarray:
        """Return differences of pairwise scores for all sets of other labels, (n, 2^L)."""
        size = self.codes.shape[1]
        every = masks(size).astype(np.int64)
        scores = self._pairwise_score(every)
        own = self.codes @ (1 << np.arange(size))
        return scores[own[:, None] ^ np.arange(len(every))] - scores[own][:, None]

    def bounds_of_all(self, upper: np.ndarray) -> np.ndarray:
        """Return bounds by position of all labelings, (n, 2^L)."""
        bounds = self.pairwise_differences()
        every = masks(self.codes.shape[1])
        for t in range(every.shape[1]):
            bounds += np.where(every[:, t], upper[:, [t]], 0.0)
        return bounds

    def _of_all(self, other: bool, points: bool) -> JointViolation:
        n, size = self.codes.shape
        every, rows = masks(size), np.arange(n)
        singles, highest, position_sizes = self.single()
        apart, open_ = self.pairwise_differences(), self.bounds_of_all(highest)
        alone = 1 << np.arange(size)
        plane_values = np.column_stack(
            [np.full(n, -np.inf if other else 0.0), singles + apart[:, alone]]
        )
        best = np.r_[0, alone][np.argmax(plane_values, axis=1)]
        reached = plane_values.max(axis=1)
        upper = np.maximum(plane_values[:, 0], (highest + apart[:, alone]).max(axis=1))
        sizes = position_sizes.sum(axis=1)
        open_[:, np.r_[0, alone]] = -np.inf
        while True:
            mask = np.argmax(open_, axis=1)
            open_rows = np.flatnonzero(open_[rows, mask] > reached)
            if not len(open_rows):
                break
            mask = mask[open_rows]
            open_[open_rows, mask] = -np.inf
            answer, more = self.largest_gains(open_rows, every[mask]), apart[open_rows, mask]
            plane_value = answer.values + more
            better = plane_value > reached[open_rows]
            best[open_rows[better]], reached[open_rows[better]] = mask[better], plane_value[better]
            upper[open_rows] = np.maximum(upper[open_rows], answer.upper + more)
            sizes[open_rows] = np.maximum(sizes[open_rows], answer.sizes)
        labels = np.where(every[best], 1 - self.codes, self.codes)
        costs, place = self._cost_of(labels), None
        gains = reached - costs
        if points:
            last = self.largest_gains(rows, every[best])
            gains, costs, place = last.gains + apart[rows, best], last.costs, last.points
        return JointViolation(labels, gains, costs, np.maximum(upper, gains + costs), sizes, place)

    def potentials_by_position(self, upper: np.ndarray) -> np.ndarray:
        """Return potentials with a separate perturbation per position, (n * L, 2).

        They are 0 for the codes.
        """
        potentials = np.zeros((*self.codes.shape, 2))
        np.put_along_axis(potentials, 1 - self.codes[..., None], upper[..., None], axis=2)
        return potentials.reshape(-1, 2)

    def _by_position(self, other: bool) -> JointViolation:
        space: Any = self.space
        weights, above = space.weights(self.f), space.constants(self.f)
        _, highest, position_sizes = self.single()
        labels, _, upper = self._best(self.potentials_by_position(highest), self.codes, other)
        every, own_score = np.arange(len(labels)), self._pairwise_score(self.codes)
        best: JointViolation | None = None
        for _ in range(ROUNDS):
            answer = self.largest_gains(every, labels != self.codes)
            gains = answer.gains + self._pairwise_score(labels) - own_score
            sizes = np.maximum(position_sizes.sum(axis=1), answer.sizes)
            answer = replace(answer, gains=gains, sizes=sizes)
            best = answer if best is None else _better(best, answer)
            values = (answer.points @ weights.T + above)[:, None, :]
            grades = 1.0 if answer.grades is None else answer.grades[:, None]
            after, *_ = self._best(self.potentials(values, grades), self.codes, other)
            if np.array_equal(after, labels):
                break
            labels = after
        assert best is not None
        return replace(best, upper=np.maximum(upper, best.values))

    def _pairwise_score(self, labels: np.ndarray) -> np.ndarray:
        """Return the pairwise scores of labelings, (n,)."""
        return self.bound_structure.pairwise_score(labels.ravel(), self.pairwise, _layout(labels))

    # Number of wrong positions.

    def most_wrong(self, truth: np.ndarray, rounding: np.ndarray) -> np.ndarray:
        """Return upper bounds of the number of wrong positions under perturbations.

        The prediction at a point has at least the score of `codes` there. With listed members,
        predictions are known up to ties. Otherwise the bound is over all labelings whose score some
        perturbation raises to that of `codes`.

        Shapes: `truth` (n, L), `rounding` (n,).
        """
        values = self.space.member_values(self.f, self.bound, self.rows)
        if values is not None:
            n, s, size = values.shape
            codes, potentials = np.repeat(truth, s, axis=0), self.potentials(values)
            layout = _layout(codes)
            best = decoded(self.bound_structure.structure, potentials, self.pairwise, layout).labels
            highest = self.bound_structure.structure.score(potentials, best, self.pairwise, layout)
            thresholds = highest - np.repeat(rounding, s)
            wrong = self.bound_structure.most_wrong(
                potentials, codes.ravel(), thresholds, self.pairwise, layout
            )
            return wrong.reshape(n, s).max(axis=1)
        if self.codes.shape[1] <= MOST_LABELS:
            return self._most_wrong_of_all(truth, rounding)
        potentials = self.potentials_by_position(self.single()[1])
        thresholds = self._pairwise_score(self.codes) - rounding
        return self.bound_structure.most_wrong(
            potentials, truth.ravel(), thresholds, self.pairwise, _layout(truth)
        )

    def _most_wrong_of_all(self, truth: np.ndarray, rounding: np.ndarray) -> np.ndarray:
        every, rows = masks(self.codes.shape[1]), np.arange(len(truth))
        apart, bounds = self.pairwise_differences(), self.bounds_of_all(self.single()[1])
        truth_mask = (self.codes != truth) @ (1 << np.arange(truth.shape[1]))
        wrong = every.sum(axis=1)[truth_mask[:, None] ^ np.arange(len(every))]
        # Labelings that may reach the score of the codes, by decreasing number of wrong positions.
        open_ = np.where(bounds >= -rounding[:, None], wrong, -1)
        most = wrong[:, 0].copy()
        while True:
            mask = np.argmax(open_, axis=1)
            open_rows = np.flatnonzero(open_[rows, mask] > most)
            if not len(open_rows):
                return most
            mask = mask[open_rows]
            open_[open_rows, mask] = -1
            answer = self.largest_gains(open_rows, every[mask])
            comes_up = answer.upper + apart[open_rows, mask] >= -rounding[open_rows]
            most[open_rows[comes_up]] = wrong[open_rows, mask][comes_up]


def masks(size: int) -> np.ndarray:
    """Return all subsets of positions, (2^L, L); row m has the binary digits of m."""
    return (np.arange(1 << size)[:, None] >> np.arange(size) & 1).astype(bool)


def _layout(codes: np.ndarray) -> Layout:
    return Layout(codes.shape[1] * np.arange(len(codes) + 1))


def _better(one: JointViolation, other: JointViolation) -> JointViolation:
    """Return the violation with the larger value for each row."""
    wins = other.values > one.values
    if not np.any(wins):
        return one
    joined = _joined([one, other], np.where(wins, len(wins), 0) + np.arange(len(wins)))
    return replace(joined, sizes=np.maximum(one.sizes, other.sizes))


def _joined(parts: list[JointViolation], order: np.ndarray) -> JointViolation:
    """Return rows of several violations, numbered one after the other."""

    def of(name: str) -> Any:
        each = [getattr(part, name) for part in parts]
        if each[0] is None:
            return None
        return (stack(each) if each[0].ndim == 2 else np.concatenate(each))[order]

    return JointViolation(*map(of, (field.name for field in fields(JointViolation))))


class OneChange(WorstCase):
    """Worst-case loss of rows with several labels and one joint perturbation.

    ``l_i(f) = max over y', z in S(x_i) of f(z, y') - f(z, y_i) + D(y_i, y') rho(x_i, z)``

    The score f(z, y) is the sum of the functions of all labels in y, plus the pairwise scores. The space
    has one output for each label. A separate perturbation for each label would give a larger loss.

    The loss is exact if the members of S(x) are listed, with one decoding for each member. For up to 12
    labels it is exact for any exact oracle, by a search over all labelings with bounds. Otherwise
    `values` returns the upper bound with a separate perturbation for each label, and the value found.

    Shapes: `X` (n, d), `y` (n * L,), `weights` (n,), `classes` (2,).
    """

    def _check_structure(self, structure: Structure, oracle: InvarianceOracle) -> None:
        """Raise TypeError unless all positions of the structure share one row."""
        if not isinstance(structure, Structure) or not structure.one_row:
            raise TypeError(
                "structure must be one whose positions share one row, such as Multilabel, got "
                f"{structure!r}"
            )

    def _bind_rows(self, oracle: InvarianceOracle, y: np.ndarray | None) -> None:
        # A row has several labels, so the oracle gets none.
        layout = self.bound_structure.layout
        if layout is None or np.ptp(layout.lengths) > 0:
            raise ValueError("layout must have the same number of positions for every row")
        self.oracle = oracle
        self.bound = bind(oracle, self.X)
        self.scenarios = [(self.bound,)]
        if len(layout) != self.X.shape[0]:
            raise ValueError(f"y must have labels for each of {self.X.shape[0]} rows, got {len(layout)}")

    @property
    def n_positions(self) -> int:
        """Number of labels of each row."""
        return self.codes.shape[1]

    @property
    def codes(self) -> np.ndarray:
        """True labels of the positions of each row, (n, L)."""
        return self.bound_structure.codes.reshape(self.bound_structure.n_blocks, -1)

    @property
    def n_outputs(self) -> int:
        """Number of learned functions, one for each label."""
        return self.n_positions

    def validate(self, space: Space) -> None:
        super().validate(space)
        check_one_change(space, self.oracle)

    def _value(self, space: Space, f: Element, blocks: Rows) -> tuple[np.ndarray, np.ndarray]:
        found = self._search(space, f, blocks, points=False)
        attained = np.maximum(0.0, found.values)
        return np.maximum(found.upper, attained), attained

    def rows_of(self, blocks: Rows) -> int:
        # All calls for a row count as one.
        return count(blocks, self.n_blocks)

    def _parts(self, blocks: Rows, most_rows: int | None = None) -> list[Rows]:
        """Return the blocks in portions with little memory for the answers of the oracle."""
        each = self.n_positions
        if self.oracle.finite:
            each *= listed(self.bound).size
        elif self.n_positions <= MOST_LABELS:
            each = 1 << self.n_positions
        most = max(1, NUMBERS_AT_ONCE // (8 * each))
        most = most if most_rows is None else min(most, most_rows)
        return self.bound_structure.portions(blocks, self.n_positions * most)

    def _search(self, space: Space, f: Element, blocks: Rows, points: bool) -> JointViolation:
        rows, _ = self.bound_structure.rows(blocks)
        codes = self.codes[blocks]
        costs = self.bound_structure.costs(rows).reshape(*codes.shape, 2)
        search = OneChangeSearch(space, f, self.bound, self.bound_structure, blocks, codes, costs)
        return search.worst(points=points)

    def _plane(self, space: Space, f: Element, blocks: Rows) -> Planes:
        found = self._search(space, f, blocks, points=True)
        coefficients = (self.codes[blocks] - found.labels).astype(np.float64)
        moved: Any = None
        if self.bound_structure.n_pairwise:
            _, layout = self.bound_structure.rows(blocks)
            assert layout is not None
            own = self.codes[blocks].ravel()
            moved = -self.bound_structure.moved(found.labels.ravel(), own, layout)
        normals = space.normals(found.points, coefficients, None, moved)
        return Planes(normals, found.costs, found.upper, found.values)


def check_one_change(space: Space, oracle: InvarianceOracle) -> None:
    """Raise ValueError unless a joint perturbation of all labels can be found."""
    if "linear in x" not in space.capabilities and not oracle.finite:
        raise ValueError(
            "oracle must be finite if functions are not linear in x and all labels of a row share "
            f"one perturbation, got {oracle!r}"
        )
