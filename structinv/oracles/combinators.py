"""Combined oracles: restriction to labels, grades, shared base classes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from ..regions import Region
from ..structures.bound import check_named_labels
from ..utils.matrices import (
    ALL_ROWS,
    TIES,
    Matrix,
    Rows,
    dense_rows,
    interleave,
    refuse_masked,
    rounding,
    row_dots,
    select,
    take,
)
from ..utils.parameters import brief
from .arguments import check_directions, check_row_by_row, grade_profile
from .base import BoundOracle, CountedChanges, InvarianceOracle, Support, as_oracle
from .changes import Changes
from .combined_changes import DerivedChanges
from .listed_changes import changes_of, draws_of
from .query import Query, Violations
from .support import Costs, Grades
from .third_party import bind, region_of, tangents_of
from .words.bound_edits import RowEdits

if TYPE_CHECKING:
    from .affine import RowBoxes


class Combination(InvarianceOracle):
    """Base class of oracles that combine others; methods use the bound oracle."""

    def support(
        self, X: Matrix, V: np.ndarray, assign: np.ndarray, cost: Costs = None, rho: Grades = None
    ) -> Support:
        bound = self.bind(X)
        check_directions(X, V, assign, cost)
        return bound.support(ALL_ROWS, V, assign, cost, rho).with_points()

    def sample(self, X: Matrix, n_draws: int, rng: np.random.Generator) -> np.ndarray:
        return self.bind(X).sample(ALL_ROWS, n_draws, rng)

    def contains(self, x: np.ndarray, z: np.ndarray) -> bool:
        return self.bind(x[None, :]).contains(0, z)


def counted_inside(
    part: InvarianceOracle, wrap: Callable[[InvarianceOracle], InvarianceOracle]
) -> CountedChanges | None:
    """Return `counted` of an oracle ``wrap(part)``."""
    found = part.counted()
    if found is None:
        return None
    at_most = found.at_most
    return replace(found, at_most=lambda most: wrap(at_most(most)))


class OracleWrapper(Combination):
    """Base class of oracles that modify one oracle; attributes are those of the part."""

    oracle: InvarianceOracle
    # Class of the bound oracle.
    _bound: type[BoundPart]
    # Name for messages, and a remedy if the part perturbs whole examples.
    _name: str
    _remedy: str

    supports_sparse = property(lambda self: self.oracle.supports_sparse)
    finite = property(lambda self: self.oracle.finite)
    additive = property(lambda self: self.oracle.additive)
    convex = property(lambda self: self.oracle.convex)
    graded = property(lambda self: self.oracle.graded)

    def validate(self, n_features: int | None = None) -> None:
        validate_part("oracle", self.oracle, n_features)
        check_row_by_row(f"{self._name}: oracle", self.oracle, self._remedy)

    def region(self, X: np.ndarray) -> Region:
        if self.depends_on_label:
            return super().region(X)
        return region_of(self.oracle, X)

    def tangents(self, X: Matrix) -> np.ndarray:
        return tangents_of(self.oracle, X)

    def bind(self, X: Matrix, y: np.ndarray | None = None) -> BoundOracle:
        self._check_rows(X)
        prepared = self._prepared()
        return self._bound(prepared, bind(prepared.oracle, X, self._known(y)))

    def _known(self, y: np.ndarray | None) -> np.ndarray | None:
        """Return the labels of the rows; subclasses that need them check them."""
        return y

    def _scenarios(self, bound: BoundOracle) -> list[tuple[BoundOracle, ...]]:
        """Return the scenarios of this oracle, bound as `bound`."""
        return [(bound,)]


class BoundPart(BoundOracle):
    """Base class of bound oracles that modify another bound oracle."""

    def __init__(self, oracle: InvarianceOracle, inner: BoundOracle) -> None:
        super().__init__(oracle, inner.X, inner.y)
        self.inner = inner

    def sample(self, rows: Rows, n_draws: int, rng: np.random.Generator) -> np.ndarray:
        return self.inner.sample(rows, n_draws, rng)

    def contains(self, row: int, z: np.ndarray) -> bool:
        return self.inner.contains(row, z)


class Pair(Combination):
    """Base class of oracles that combine two oracles."""

    def __init__(self, left: InvarianceOracle, right: InvarianceOracle) -> None:
        self.left = left
        self.right = right

    supports_sparse = property(lambda self: self.left.supports_sparse and self.right.supports_sparse)
    finite = property(lambda self: self.left.finite and self.right.finite)
    additive = property(lambda self: self.left.additive and self.right.additive)

    def tangents(self, X: Matrix) -> np.ndarray:
        return np.concatenate([tangents_of(part, X) for part in (self.left, self.right)], axis=1)

    def validate(self, n_features: int | None = None) -> None:
        validate_part("left", self.left, n_features)
        validate_part("right", self.right, n_features)


class _BoundOnlyFor(BoundPart):
    oracle: OnlyFor

    @cached_property
    def covered(self) -> np.ndarray:
        """Mask of the rows that may change."""
        return ~self.oracle._unperturbed(self.y)[:, 0]

    def support(
        self, rows: Rows, V: np.ndarray, assign: np.ndarray, cost: Costs = None, rho: Grades = None
    ) -> Support:
        numbers = np.arange(self.X.shape[0])[rows]
        mask = self.covered[numbers]
        X = take(self.X, rows)
        grades = np.ones(len(mask))
        graded = rho is not None or self.oracle.graded
        if not np.any(mask):
            return Support(X, rho=grades if graded else None)
        part_cost = None if cost is None else cost[mask]
        part = self.inner.support(numbers[mask], V, assign[mask], part_cost, rho)
        points = interleave(mask, part.points, take(X, np.flatnonzero(~mask)))
        if part.rho is not None:
            grades[mask], graded = part.rho, True
        upper = None
        if part.upper is not None:
            upper = row_dots(X, V, assign)
            if graded and cost is not None:
                upper += cost
            upper[mask] = part.upper
        return Support(points, upper, grades if graded else None)

    def worst(self, rows: Rows, query: Query) -> Violations:
        numbers = np.arange(self.X.shape[0])[rows]
        mask = self.covered[numbers]
        inside, outside = np.flatnonzero(mask), np.flatnonzero(~mask)
        if len(inside) and not len(outside):
            return self.inner.worst(rows, query)
        unperturbed = self.inner.unperturbed(numbers[outside], query.take(outside))
        if not len(inside):
            return unperturbed
        return Violations.by_mask(
            mask, self.inner.worst(numbers[inside], query.take(inside)), unperturbed
        )

    def edits(self) -> RowEdits | None:
        return self._restricted(self.inner.edits())

    def boxes(self) -> RowBoxes | None:
        return self._restricted(self.inner.boxes())

    def _restricted(self, found: Any) -> Any:
        return None if found is None else replace(found, changed=found.changed & self.covered)

    def sample(self, rows: Rows, n_draws: int, rng: np.random.Generator) -> np.ndarray:
        members = self.inner.sample(rows, n_draws, rng)
        outside = ~self.covered[rows]
        members = members.copy()
        members[outside] = dense_rows(take(self.X, rows), np.flatnonzero(outside))[:, None, :]
        return members

    def contains(self, row: int, z: np.ndarray) -> bool:
        if self.covered[row]:
            return self.inner.contains(row, z)
        x = dense_rows(self.X, [row])[0]
        return bool(np.max(np.abs(z - x), initial=0.0) <= rounding(x, z))


class OnlyFor(OracleWrapper):
    r"""Restriction of an oracle to some labels: ``oracle.only_for(labels)``.

    .. math:: S(x, y) = S_{oracle}(x) \text{ if } y \in labels, \quad \{x\} \text{ otherwise}

    Bind it with ``bind(X, y)``. Without labels, methods raise a ValueError.
    """

    def __init__(self, oracle: InvarianceOracle, labels: Any) -> None:
        self.oracle = oracle
        self.labels = labels

    depends_on_label = True
    _bound, _name = _BoundOnlyFor, "only_for"
    _remedy = "labels belong to rows; write Budget(oracle.only_for(labels))"

    def counted(self) -> CountedChanges | None:
        return counted_inside(self.oracle, lambda part: OnlyFor(part, self.labels))

    def validate(self, n_features: int | None = None) -> None:
        super().validate(n_features)
        refuse_masked("labels", self.labels)
        if self.labels is None or len(self.listed()) == 0:
            raise ValueError(f"labels must be a label or a sequence of labels, got {brief(self.labels)}")

    def for_any_label(self) -> InvarianceOracle:
        return self.oracle.for_any_label()

    def _changes(self, X: Matrix, y: np.ndarray | None) -> Changes | None:
        y = self._known(y)
        inner = changes_of(self.oracle, X, y)
        return None if inner is None else DerivedChanges(inner, y, self._unperturbed)

    def _unperturbed(self, y: np.ndarray | None) -> np.ndarray:
        """Return True for the rows of all other labels, (n_rows, 1)."""
        return ~np.isin(np.asarray(y), self.listed())[:, None]

    def listed(self) -> np.ndarray:
        """Return the labels as an array.

        Returns shape (n_labels,).
        """
        return np.asarray([self.labels] if np.isscalar(self.labels) else list(self.labels))

    # The tangents of the part do not hold for rows with other labels.
    tangents = InvarianceOracle.tangents

    def _known(self, y: np.ndarray | None) -> np.ndarray:
        """Return the labels as an array; raise if there are none or they have another type."""
        if y is None:
            raise ValueError(
                "only_for requires one class label per row: regressors and models with several labels "
                "per row do not support it"
            )
        y, listed = np.asarray(y), self.listed()
        if (y.dtype.kind in "US") != (listed.dtype.kind in "US") and "O" not in y.dtype.kind:
            raise TypeError(
                f"only_for: labels must have the type of y, text or numbers, got {self.labels!r}, but y "
                f"contains {y[:3].tolist()}"
            )
        return y

    def check_labels(self, classes: np.ndarray) -> None:
        """Check that all labels are classes of the model.

        Shapes: `classes` (n_classes,).
        """
        check_named_labels("only_for", self.listed().tolist(), classes)
        self.oracle.check_labels(classes)


class _BoundDiscounted(BoundPart):
    oracle: Discounted

    def support(
        self, rows: Rows, V: np.ndarray, assign: np.ndarray, cost: Costs = None, rho: Grades = None
    ) -> Support:
        self.oracle._refuse_grades(rho)
        return self.inner.support(rows, V, assign, cost, self.oracle.rho)


class Discounted(OracleWrapper):
    r"""An oracle with grades: ``oracle.discounted(rho)``.

    `support` maximizes :math:`\langle v, z\rangle + cost \cdot \rho(x, z)`. The loss of a
    misclassification is smaller at large perturbations.
    """

    graded = True
    _bound, _name = _BoundDiscounted, "discounted"
    _remedy = "write Shared(oracle.discounted(rho)) or Budget(oracle.discounted(rho)) for each part"

    def __init__(self, oracle: InvarianceOracle, rho: float | Sequence[float]) -> None:
        self.oracle = oracle
        self.rho = rho

    def validate(self, n_features: int | None = None) -> None:
        super().validate(n_features)
        grade_profile(self.rho)

    def counted(self) -> CountedChanges | None:
        found = self.oracle.counted()
        return None if found is None or found.grades is not None else replace(found, grades=self.rho)

    def _changes(self, X: Matrix, y: np.ndarray | None) -> Changes | None:
        """Return the list of the part with grades; probabilities remain unchanged."""
        inner = changes_of(self.oracle, X, y)
        return None if inner is None else inner.graded(self.rho)

    def _draws(self, X: Matrix, n_draws: int, random_state: int) -> Changes:
        return draws_of(self.oracle, X, n_draws, random_state)


def validate_part(name: str, part: Any, n_features: int | None) -> None:
    """Raise TypeError unless the part is an oracle; then call its `validate`."""
    as_oracle(part, name).validate(n_features)


def attained_by(
    answer: Support, V: np.ndarray, assign: np.ndarray, cost: np.ndarray | None = None
) -> np.ndarray:
    """Compute the values at the points; costs are added only with grades."""
    values = row_dots(answer.points, V, assign)
    return values if answer.rho is None or cost is None else values + cost * answer.rho


def upper_of(
    answer: Support, V: np.ndarray, assign: np.ndarray, cost: np.ndarray | None = None
) -> np.ndarray:
    """Return an upper bound of the maximum; an exact answer attains it."""
    return attained_by(answer, V, assign, cost) if answer.upper is None else answer.upper


def best_of(
    answers: Sequence[Support],
    V: np.ndarray,
    assign: np.ndarray,
    cost: np.ndarray | None = None,
) -> Support:
    """Return the best of several answers in each row; ties prefer the larger grade."""
    if any(answer.rho is not None for answer in answers):
        answers = [_with_grades(answer, cost) for answer in answers]
    values = np.stack([attained_by(answer, V, assign, cost) for answer in answers])
    grades = [np.ones(len(assign)) if a.rho is None else a.rho for a in answers]
    highest = np.max(values, axis=0)
    ties = np.where(values >= highest - TIES * np.abs(highest), grades, -1.0)
    choice = np.argmax(ties, axis=0)
    upper = None
    if any(answer.upper is not None for answer in answers):
        upper = np.max([upper_of(a, V, assign, cost) for a in answers], axis=0)
    rho = None if answers[0].rho is None else np.stack(grades)[choice, np.arange(len(choice))]
    return Support(select(choice, [answer.points for answer in answers]), upper, rho)


def _with_grades(answer: Support, cost: np.ndarray | None) -> Support:
    if answer.rho is not None:
        return answer
    upper = answer.upper
    if upper is not None and cost is not None:
        upper = upper + cost
    return Support(answer.points, upper, np.ones(answer.points.shape[0]))
