"""Worst-case loss of samples or examples, by scenario (Teo et al. 2007)."""

from __future__ import annotations

import copy
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from ..losses import ScalarLoss
from ..losses.base import validate_loss
from ..oracles.base import BoundOracle, InvarianceOracle
from ..oracles.query import Violations, WorstPoints
from ..oracles.third_party import bind
from ..spaces.base import NUMBERS_AT_ONCE, Element, Normals, Space
from ..structures import Binary, Layout, Structure
from ..structures.bound import BoundStructure
from ..structures.competitors import Competitors
from ..structures.decodings import Decoding
from ..utils.matrices import ALL_ROWS, Matrix, Rows, count, stack
from .objective import Term, check_weights, join
from .planes import Planes


@dataclass(frozen=True)
class ScenarioAnswer:
    """Worst labelings of some blocks in a scenario.

    - `competitors`, `layout`: true labels and costs of the rows, and their blocks
    - `by_level`: results of the oracle for each budget level; one without a budget
    - `chosen`: worst labeling
    - `shares`: factor of each row; a fractional labeling has a row for each label of a row
    """

    competitors: Competitors
    layout: Layout | None
    by_level: list[Violations]
    chosen: Decoding
    shares: float | np.ndarray = 1.0

    def take(self, blocks: np.ndarray) -> ScenarioAnswer:
        """Return the answer for some of the blocks."""
        if self.layout is None:
            rows, layout = blocks, None
        else:
            rows, layout = self.layout.rows(blocks), self.layout.take(blocks)
        by_level = [each.take(rows) for each in self.by_level]
        places = {"labels": rows, "levels": rows, "fractions": rows}
        each = {field.name: getattr(self.chosen, field.name) for field in fields(self.chosen)}
        taken: dict[str, Any] = {
            name: value[places.get(name, blocks)] for name, value in each.items() if value is not None
        }
        return ScenarioAnswer(self.competitors.take(rows), layout, by_level, Decoding(**taken))

    def whole(self) -> ScenarioAnswer:
        """Return the answer with a row for each label that has a fraction."""
        fractions = self.chosen.fractions
        if fractions is None or self.layout is None:
            return self
        rows, labels = np.nonzero(fractions)
        layout = Layout(np.searchsorted(rows, self.layout.starts))
        by_level = [each.take(rows) for each in self.by_level]
        shares, chosen = fractions[rows, labels], replace(self.chosen, labels=labels)
        return ScenarioAnswer(self.competitors.take(rows), layout, by_level, chosen, shares)

    def sums(self, each: np.ndarray) -> np.ndarray:
        """Return the sums over each block, for values of the rows."""
        shared = self.shares * each
        return shared if self.layout is None else self.layout.sums(shared)

    def gains_and_costs(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the gain and the cost of each row's label at its level."""
        labels, levels = self.chosen.labels, self.chosen.levels
        found, rows = Violations.of_levels(self.by_level), np.arange(len(labels))
        place: Any = (rows, labels) if levels is None else (rows, labels, levels)
        return found.gains[place], found.costs[place]

    def points(self) -> WorstPoints:
        """Return the worst members for the labels of the rows, each at its level."""
        labels, levels = self.chosen.labels, self.chosen.levels
        if levels is None:
            return self.by_level[0].points(labels)
        found, parts = [], []
        for level, known in enumerate(self.by_level):
            rows = np.flatnonzero(levels == level)
            if len(rows):
                found.append(rows)
                parts.append(known.take(rows).points(labels[rows]))
        order = np.argsort(np.concatenate(found))
        points: Any = [part.points for part in parts]
        # Keys of points are numbers, one per row.
        flat = isinstance(points[0], np.ndarray) and points[0].ndim == 1
        points = np.concatenate(points) if flat else stack(points)
        gains, costs = (
            np.concatenate([getattr(part, name) for part in parts])[order] for name in ("gains", "costs")
        )
        return WorstPoints(points[order], gains, costs)


def scenarios_of(bound: BoundOracle, bound_structure: BoundStructure) -> list[tuple[BoundOracle, ...]]:
    """Return the scenarios of a structure's examples; see `BoundOracle.scenarios`."""
    layout = bound_structure.layout
    if layout is None or np.max(layout.lengths) == 1:
        # An example of a single row has no joint perturbations.
        return [(bound,)]
    found = bound.scenarios()
    if any(len(levels) > 1 for levels in found) and not bound_structure.structure.budgets:
        raise ValueError(
            f"oracle must not be a Budget for {type(bound_structure.structure).__name__}, which cannot "
            f"divide edits among an example's rows, got {bound.oracle!r}"
        )
    return found


# Maximum number of rows whose worst members are in memory together.
ROWS_AT_ONCE = 4096
# The same for rows with two labels and without listed members, which take a single oracle call.
ROWS_OF_TWO_LABELS = 2**17
# Ratio of the numbers of stored planes of a block of several rows and of a single row.
PLANES_OF_LABELINGS = 3


class WorstCase(Term):
    """Worst-case loss of every example (Teo et al. 2007, eq. 2).

    ``l_i(f) = max over y', z in S(x_i) of G (f(z, y') - f(z, y_i)) + D(y_i, y') rho(x_i, z)``

    G is the factor of the score difference (see `rescaling`), D the misclassification cost, and rho the
    grade of a perturbed sample. The rows of an example are perturbed independently, except by `Shared`
    and `Budget`. With these, the maximum is over the joint perturbations in `scenarios`.

    Parameters
    ----------
    X : ndarray or CSR matrix of shape (n_rows, n_features)
        Rows of all examples, without a constant feature. CSR indices are sorted and unique.
    y : ndarray of shape (n_rows,)
        True labels, or true values for structures of regression. Oracles do not depend on true values.
    oracle : InvarianceOracle
        Oracle of the perturbation sets. It must not be discounted for structures of regression.
    structure : Structure
        Output structure.
    weights : float or ndarray of shape (n_examples,), default=1.0
        Weight of each example, including C (>= 0).
    classes : ndarray of shape (n_labels,), optional
        All labels; required if `y` does not contain every label.
    layout : Layout, optional
        Assignment of rows to examples; by default, each row is one example.
    cost : array-like of shape (n_labels, n_labels), optional
        Misclassification costs: ``cost[i, j]`` is the cost of label j if the true label is i. By
        default every wrong label costs 1.
    rescaling : {"margin", "slack"}, default="margin"
        Factor G of the score difference: 1 ("margin") or the cost ("slack").
    position_weight : array-like of shape (n_rows,), optional
        Factor of the cost at each row.

    Attributes
    ----------
    scenarios : list of tuples of BoundOracle
        Joint perturbations of examples, as in `BoundOracle.scenarios`.

    Raises
    ------
    TypeError, ValueError
        If an argument is invalid, if the structure forbids a true labeling, or if the oracle is a
        `Budget` that the structure does not support.

    See Also
    --------
    Objective : Sum of terms and half the squared norm.
    Penalty : Smoothness penalty on functionals.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.oracles import Box
    >>> from structinv.spaces import ExplicitSpace
    >>> from structinv.structures import Binary
    >>> from structinv.terms import WorstCase
    >>> term = WorstCase(np.array([[2.0], [-1.0]]), np.array([1, 0]), Box(0.5), Binary())
    >>> upper, attained = term.values(ExplicitSpace(1), np.array([1.0]))
    >>> upper.tolist()
    [0.0, 0.5]
    """

    def __init__(
        self,
        X: Matrix,
        y: np.ndarray,
        oracle: InvarianceOracle,
        structure: Structure,
        weights: ArrayLike = 1.0,
        classes: np.ndarray | None = None,
        *,
        layout: Layout | None = None,
        cost: ArrayLike | None = None,
        rescaling: str = "margin",
        position_weight: ArrayLike | None = None,
    ) -> None:
        self._check_structure(structure, oracle)
        self.bound_structure: BoundStructure = structure.bind(
            y,
            classes,
            layout=layout,
            cost=cost,
            rescaling=rescaling,
            position_weight=position_weight,
        )
        self.X = X
        self._bind_rows(oracle, y if structure.labeled else None)
        self.weights = check_weights(weights, self.bound_structure.n_blocks)
        self.lower_bounds = np.zeros(self.bound_structure.n_blocks)
        forbidden = np.flatnonzero(~self.bound_structure.allowed())
        if len(forbidden):
            own, _ = self.bound_structure.rows(forbidden[:1])
            labeling = self.bound_structure.classes[self.bound_structure.codes[own]].tolist()
            raise ValueError(
                f"y must contain only labelings that {structure!r} allows; it forbids that of example "
                f"{forbidden[0]}, {labeling}, and those of {len(forbidden) - 1} others"
            )

    def _check_structure(self, structure: Structure, oracle: InvarianceOracle) -> None:
        """Raise TypeError or ValueError unless the term and the oracle support the structure."""
        if not isinstance(structure, Structure):
            raise TypeError(f"structure must be an instance of a Structure, got {structure!r}")
        if getattr(oracle, "graded", False) and not structure.labeled:
            raise ValueError(
                f"oracle must not be discounted for {type(structure).__name__}, whose cost depends on "
                f"the target, got {oracle!r}"
            )

    def _bind_rows(self, oracle: InvarianceOracle, y: np.ndarray | None) -> None:
        """Bind an oracle to the rows; y are labels for the oracle, or None."""
        self.oracle = oracle
        self.bound = bind(oracle, self.X, y)
        self.scenarios = scenarios_of(self.bound, self.bound_structure)
        n_labeled, n_rows = len(self.bound_structure.codes), self.X.shape[0]
        if n_labeled != n_rows:
            raise ValueError(f"y must have one label per row, got {n_labeled} for {n_rows} rows")

    def on_rows(self, X: Matrix, oracle: InvarianceOracle) -> WorstCase:
        """Return the same losses for other rows and another oracle.

        Parameters
        ----------
        X : ndarray or CSR matrix of shape (n_rows, n_features)
            One new row for each row, with the same label.
        oracle : InvarianceOracle
            Oracle that does not depend on labels.

        Returns
        -------
        WorstCase
            Copy of this term.
        """
        found = copy.copy(self)
        found.X = X
        found._bind_rows(oracle, None)
        return found

    @property
    def n_outputs(self) -> int:
        """Number of functions to learn, such as one per class."""
        return self.bound_structure.n_outputs

    @property
    def dtype(self) -> np.dtype:
        return np.result_type(self.X.dtype, np.float32)

    def validate(self, space: Space) -> None:
        wanted = (self.X.shape[1], self.n_outputs, self.bound_structure.n_pairwise)
        given = (space.n_features, space.n_outputs, space.n_pairwise)
        if wanted != given:
            raise ValueError(
                "the space must have (n_features, n_outputs, n_pairwise) = "
                f"{wanted} for these rows and this structure, got {given}"
            )

    @property
    def joint(self) -> bool:
        """True if the perturbations of an example's rows depend on each other."""
        return len(self.scenarios) > 1 or len(self.scenarios[0]) > 1

    def scores(self, space: Space, f: Element) -> np.ndarray:
        """Return the values of the functions at the unperturbed rows.

        Parameters
        ----------
        space : Space
            Space of `f`.
        f : element
            Function at which the scores are computed.

        Returns
        -------
        ndarray of shape (n_rows, n_outputs)
            Scores.
        """
        return space.values(f, self.X)

    def planes(self, space: Space, f: Element, blocks: Rows = ALL_ROWS) -> Planes:
        return join(space, [self._plane(space, f, part) for part in self._parts(blocks)])

    def values(self, space: Space, f: Element) -> tuple[np.ndarray, np.ndarray]:
        if space.dot(f, f) == 0:
            return self._values_at_zero(space)
        most = ROWS_AT_ONCE
        if sp.issparse(self.X) and not self.oracle.finite:
            # Sparse rows need less memory than dense directions, which every portion computes again.
            most = max(1, NUMBERS_AT_ONCE // self.bound_structure.n_labels)
        parts = [self._value(space, f, part) for part in self._parts(ALL_ROWS, most)]
        upper, attained = (np.concatenate(each) for each in zip(*parts, strict=True))
        return upper, attained

    def _values_at_zero(self, space: Space) -> tuple[np.ndarray, np.ndarray]:
        """Return values at the zero function, without calls of the oracle."""
        pairwise, found = np.zeros(space.n_pairwise), []
        for part in self._parts(ALL_ROWS):
            rows, layout = self.bound_structure.rows(part)
            competitors = self.bound_structure.competitors(rows)
            still = Violations(np.zeros(competitors.costs.shape), competitors.costs, competitors.costs)
            found.append(self.bound_structure.separate(competitors, still, pairwise, layout).upper)
        upper = np.concatenate(found)
        return upper, upper

    @property
    def relaxed(self) -> bool:
        return self.bound_structure.relaxed

    def rows_of(self, blocks: Rows) -> int:
        rows, _ = self.bound_structure.rows(blocks)
        return count(rows, self.X.shape[0])

    def portions(self) -> list[Rows]:
        return self._parts(ALL_ROWS)

    def blocks_at_once(self, space: Space) -> int:
        # Blocks whose members the space keeps in memory together.
        rows = space.rows_at_once(self.bound)
        return max(1, rows * self.n_blocks // max(1, self.X.shape[0]))

    def planes_of_a_block(self, space: Space) -> int:
        # Many of an example's labelings are almost the worst.
        each = 1 if self.bound_structure.layout is None else PLANES_OF_LABELINGS
        return each * super().planes_of_a_block(space)

    def _parts(self, blocks: Rows, most_rows: int | None = None) -> list[Rows]:
        """Return the blocks in portions with little memory for the answers of the oracle."""
        n_labels = self.bound_structure.n_labels
        if n_labels == 2 and self.bound_structure.structure.rowwise and not self.oracle.finite:
            return self.bound_structure.portions(blocks, ROWS_OF_TWO_LABELS)
        most = ROWS_AT_ONCE if most_rows is None else most_rows
        each = n_labels * sum(map(len, self.scenarios))
        return self.bound_structure.portions(blocks, min(most, max(1, NUMBERS_AT_ONCE // each)))

    def _answers(self, space: Space, f: Element, blocks: Rows, points: bool) -> list[ScenarioAnswer]:
        """Return the worst labeling in each scenario."""
        rows, layout = self.bound_structure.rows(blocks)
        competitors, answers = self.bound_structure.competitors(rows), []
        for levels in self.scenarios:
            by_level = [space.worst(f, level, rows, competitors, points) for level in levels]
            found = Violations.of_levels(by_level)
            chosen = self.bound_structure.separate(competitors, found, space.pairwise(f), layout)
            answers.append(ScenarioAnswer(competitors, layout, by_level, chosen))
        return answers

    def _value(self, space: Space, f: Element, blocks: Rows) -> tuple[np.ndarray, np.ndarray]:
        """Return upper bounds of the blocks' losses, and attained values."""
        answers = self._answers(space, f, blocks, points=False)
        upper = np.max([each.chosen.upper for each in answers], axis=0)
        reached = [self._attained(each, space.pairwise(f)) for each in answers]
        return upper, np.maximum(0.0, np.max(reached, axis=0))

    def _attained(self, answer: ScenarioAnswer, pairwise: np.ndarray) -> np.ndarray:
        """Return the attained value of each block's labeling in a scenario, including cost."""
        chosen, whole = answer.chosen, answer.whole()
        gains, costs = map(whole.sums, whole.gains_and_costs())
        if answer.layout is not None and len(pairwise):
            gains = gains + self.bound_structure.pairwise_gain(
                chosen, answer.competitors.codes, pairwise, answer.layout
            )
        return (gains if chosen.scale is None else gains * chosen.scale) + costs

    def _plane(self, space: Space, f: Element, blocks: Rows) -> Planes:
        """Return one plane per block."""
        answers, pairwise = self._answers(space, f, blocks, points=True), space.pairwise(f)
        if len(answers) == 1:
            return self._plane_of(space, answers[0], pairwise)
        scenario = np.argmax([self._attained(each, pairwise) for each in answers], axis=0)
        places = [np.flatnonzero(scenario == number) for number in range(len(answers))]
        parts = [
            self._plane_of(space, answer.take(place), pairwise)
            for answer, place in zip(answers, places, strict=True)
            if len(place)
        ]
        upper = np.max([each.chosen.upper for each in answers], axis=0)
        return replace(join(space, parts, np.concatenate(places)), upper=upper)

    def _plane_of(self, space: Space, answer: ScenarioAnswer, pairwise: np.ndarray) -> Planes:
        """Return the plane of each block in a scenario."""
        chosen, whole = answer.chosen, answer.whole()
        reached = whole.points()
        coefficients = whole.competitors.normals(whole.chosen.labels) * np.reshape(whole.shares, (-1, 1))
        gains, costs = whole.sums(reached.gains), whole.sums(reached.costs)
        if chosen.scale is not None:
            owners = ALL_ROWS if whole.layout is None else whole.layout.owners
            coefficients *= chosen.scale[owners][:, None]
            gains = gains * chosen.scale
        moved = self._moved(answer, pairwise)
        if moved is not None:
            gains = gains - moved @ pairwise
        groups = None if whole.layout is None else whole.layout.starts
        normals = space.normals(reached.points, coefficients, groups, moved)
        return Planes(normals, costs, chosen.upper, costs + gains)

    def _moved(self, answer: ScenarioAnswer, pairwise: np.ndarray) -> Any:
        """Return the pairwise part of the blocks' normals."""
        if answer.layout is None or not len(pairwise):
            return None
        scale = answer.chosen.scale
        moved: Any = self.bound_structure.moved_by(
            answer.chosen, answer.competitors.codes, answer.layout
        )
        if scale is not None:
            moved = sp.diags(scale) @ moved if sp.issparse(moved) else moved * scale[:, None]
        return -moved


class WorstMargin(WorstCase):
    """Convex decreasing loss r of every row's worst-case margin, for two classes.

    ``l_i(f) = max over z in S(x_i) of r(y_i f(z)) = L(u_i)`` with ``L(u) = r(-u)`` and
    ``u_i = max over z in S(x_i) of -y_i f(z)``, because L is increasing. For the hinge loss r this is
    `WorstCase` of `Binary` with its default cost.

    A point z and a slope p in the domain of ``L*(p) = r*(-p)`` give the plane
    ``l_i(g) >= -L*(p) - <p y_i z, g>``. It is tight at f if p = L'(u_i) and z attains u_i.
    """

    def __init__(
        self,
        X: Matrix,
        y: np.ndarray,
        oracle: InvarianceOracle,
        loss: ScalarLoss,
        weights: ArrayLike = 1.0,
        classes: np.ndarray | None = None,
    ) -> None:
        validate_loss("loss", loss)
        if not loss.has_slopes or loss.domain()[1] > 0:
            raise ValueError(f"loss must be a margin loss with slopes of at most 0, got {loss!r}")
        super().__init__(X, y, oracle, Binary(), weights, classes, cost=np.zeros((2, 2)))
        self.loss = loss
        self.lower_bounds = np.full(self.n_blocks, loss.lower_bound)

    def conjugate(self, slopes: np.ndarray) -> np.ndarray:
        """Return ``L*`` of slopes of at least 0."""
        return self.loss.conjugate(-slopes)

    def losses(self, gains: np.ndarray) -> np.ndarray:
        """Return ``L(u)``."""
        return self.loss.value(-gains)

    def worst(
        self, space: Space, f: Element, blocks: Rows = ALL_ROWS, points: bool = True
    ) -> Violations:
        """Return the points of the smallest margins, for `gains` and `unit_normals`.

        Shapes: `blocks` (n,).
        """
        return space.worst(f, self.bound, blocks, self.bound_structure.competitors(blocks), points)

    def gains(self, worst: Violations, blocks: Rows) -> np.ndarray:
        """Return ``u_i = -y_i f(z_i)`` at the points of the smallest margins."""
        others = 1 - self.bound_structure.codes[blocks]
        return worst.gains[np.arange(len(others)), others]

    def unit_normals(self, space: Space, worst: Violations, blocks: Rows) -> Normals:
        """Return ``y_i z_i`` at the points of the smallest margins: normals of slope 1."""
        competitors = self.bound_structure.competitors(blocks)
        others = 1 - competitors.codes
        return space.normals(worst.points(others).points, competitors.normals(others))

    def _values_at_zero(self, space: Space) -> tuple[np.ndarray, np.ndarray]:
        upper = self.losses(np.zeros(self.n_blocks))
        return upper, upper

    def _value(self, space: Space, f: Element, blocks: Rows) -> tuple[np.ndarray, np.ndarray]:
        worst = self.worst(space, f, blocks, points=False)
        return self._upper(worst, blocks), self.losses(self.gains(worst, blocks))

    def _upper(self, worst: Violations, blocks: Rows) -> np.ndarray:
        """Return upper bounds of the losses."""
        others = 1 - self.bound_structure.codes[blocks]
        return self.losses(worst.upper[np.arange(len(others)), others])

    def _plane(self, space: Space, f: Element, blocks: Rows) -> Planes:
        worst = self.worst(space, f, blocks)
        gains = self.gains(worst, blocks)
        slopes = -self.loss.derivative(-gains)
        normals = space.scaled(self.unit_normals(space, worst, blocks), slopes)
        upper = self._upper(worst, blocks)
        return Planes(normals, -self.conjugate(slopes), upper, self.losses(gains))
