"""The worst-case invariant loss of examples: where oracle, structure and space meet."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from ..oracles.base import InvarianceOracle
from ..oracles.checked_oracle import bind
from ..oracles.query import Violations
from ..spaces import Space
from ..spaces.base import NUMBERS_AT_ONCE, Element
from ..structures import Layout, Structure
from ..structures.bound import BoundStructure
from ..structures.competitors import Competitors
from ..structures.decodings import Separation
from ..utils.matrices import ALL_ROWS, Matrix, Rows, count
from .base import Term, check_weights, join
from .planes import Planes
from .scenarios import ChosenLabels, ScenarioAnswer, best_of, points_of, scenarios_of

# Rows whose worst members are held at once.
ROWS_AT_ONCE = 4096
# The same of rows with two labels and without a list of members, which are asked about in one go.
ROWS_OF_TWO_LABELS = 2**17
# How many times as many planes a block of several rows keeps as one of a single row.
PLANES_OF_LABELINGS = 3


class WorstCase(Term):
    """The worst-case invariant loss of every example (Teo et al. 2007, eq. 2).

    ``l_i(f) = max over y', z in S(x_i) of G (f(z, y') - f(z, y_i)) + D(y_i, y') rho(x_i, z)``

    Where an example has several rows, each of them changes by itself, unless the oracle speaks of whole
    examples (`Shared`, `Budget`): the maximum is then over the scenarios of its bound oracle.

    Parameters
    ----------
    X : (n, d) array or CSR matrix
        Rows without the intercept; CSR with sorted, unique indices.
    y : (n,) array
        True labels; true numbers for structures whose truth is no label, and no oracle sees these.
    oracle : InvarianceOracle
        Without grades for such structures.
    structure : Structure
    weights : float or (n_examples,) array, default=1.0
        Weight of each example, C included.
    classes : (n_labels,) array, optional
        All labels there are, where `y` may lack some.
    layout : Layout, optional
        Which rows belong to which example; each row is one, by default.
    cost : (n_labels, n_labels) array-like, optional
        What a label costs; see `Structure.bind`.
    rescaling : {"margin", "slack"}, default="margin"
        Whether G is 1 or the cost.
    position_weight : (n,) array-like, optional
        Factors of what labels cost at each row.

    Raises
    ------
    TypeError, ValueError
        For arguments that do not fit, for examples whose true labeling the structure forbids, and for a
        budget where the structure knows none.

    Attributes
    ----------
    scenarios : list of tuples of BoundOracle
        What may happen to examples; see `BoundOracle.scenarios`.
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
        self.labels: BoundStructure = structure.bind(
            y,
            classes,
            layout=layout,
            cost=cost,
            rescaling=rescaling,
            position_weight=position_weight,
        )
        self.X = X
        self._bind_rows(oracle, y if structure.labeled else None)
        self.weights = check_weights(weights, self.labels.n_blocks)
        self.floors = np.zeros(self.labels.n_blocks)
        forbidden = np.flatnonzero(~self.labels.allowed())
        if len(forbidden):
            own, _ = self.labels.rows(forbidden[:1])
            raise ValueError(
                f"y must hold labelings that {structure!r} allows; it forbids that of example "
                f"{forbidden[0]}, {self.labels.classes[self.labels.codes[own]].tolist()}, and those of "
                f"{len(forbidden) - 1} others"
            )

    def _check_structure(self, structure: Structure, oracle: InvarianceOracle) -> None:
        """Raise TypeError or ValueError unless this is a structure for this term and oracle."""
        if not isinstance(structure, Structure):
            raise TypeError(f"structure must be an instance of a Structure, got {structure!r}")
        if getattr(oracle, "graded", False) and not structure.labeled:
            raise ValueError(
                f"oracle must not be discounted for {type(structure).__name__}: an error's cost depends "
                f"on the target, and has no grades, got {oracle!r}"
            )

    def _bind_rows(self, oracle: InvarianceOracle, y: np.ndarray | None) -> None:
        """Ask this oracle from now on; y are labels of rows that it may see."""
        self.oracle = oracle
        self.bound = bind(oracle, self.X, y)
        self.scenarios = scenarios_of(self.bound, self.labels)
        n_labeled, n_rows = len(self.labels.codes), self.X.shape[0]
        if n_labeled != n_rows:
            raise ValueError(f"y must have a label for each row, got {n_labeled} for {n_rows} rows")

    def on_rows(self, X: Matrix, oracle: InvarianceOracle) -> WorstCase:
        """The same losses of other rows, one for each of these, under an oracle that sees no labels."""
        found = copy.copy(self)
        found.X = X
        found._bind_rows(oracle, None)
        return found

    @property
    def n_outputs(self) -> int:
        """How many functions are learned."""
        return self.labels.n_outputs

    @property
    def dtype(self) -> np.dtype:
        """See `Term.dtype`: of the rows."""
        return np.result_type(self.X.dtype, np.float32)

    def validate(self, space: Space) -> None:
        wanted = (self.X.shape[1], self.n_outputs, self.labels.n_pairwise)
        given = (space.n_features, space.n_outputs, space.n_pairwise)
        if wanted != given:
            raise ValueError(
                "the space must have (n_features, n_outputs, n_pairwise) = "
                f"{wanted} for these rows and this structure, got {given}"
            )

    @property
    def joint(self) -> bool:
        """Whether changes of rows of one example depend on one another; else each asks `bound` alone."""
        return len(self.scenarios) > 1 or len(self.scenarios[0]) > 1

    def scores(self, space: Space, f: Element) -> np.ndarray:
        """The functions at the rows without changes, (n, n_outputs)."""
        return space.values(f, self.X)

    def planes(self, space: Space, f: Element, blocks: Rows = ALL_ROWS) -> Planes:
        return join(space, [self._plane(space, f, part) for part in self._parts(blocks)])

    def values(self, space: Space, f: Element) -> tuple[np.ndarray, np.ndarray]:
        if space.dot(f, f) == 0:
            return self._values_at_zero(space)
        most = ROWS_AT_ONCE
        if sp.issparse(self.X) and not self.oracle.finite:
            # Sparse rows cost less than directions of all weights, which each portion makes anew.
            most = max(1, NUMBERS_AT_ONCE // self.labels.n_labels)
        parts = [self._value(space, f, part) for part in self._parts(ALL_ROWS, most)]
        upper, attained = (np.concatenate(each) for each in zip(*parts, strict=True))
        return upper, attained

    def _values_at_zero(self, space: Space) -> tuple[np.ndarray, np.ndarray]:
        """No change matters to the zero function, so no oracle is asked."""
        pairwise, found = np.zeros(space.n_pairwise), []
        for part in self._parts(ALL_ROWS):
            rows, layout = self.labels.rows(part)
            competitors = self.labels.competitors(rows)
            still = Violations(np.zeros(competitors.costs.shape), competitors.costs, competitors.costs)
            found.append(self.labels.separate(competitors, still, pairwise, layout).upper)
        upper = np.concatenate(found)
        return upper, upper

    @property
    def relaxed(self) -> bool:
        return self.labels.relaxed

    def rows_of(self, blocks: Rows) -> int:
        rows, _ = self.labels.rows(blocks)
        return count(rows, self.X.shape[0])

    def portions(self) -> list[Rows]:
        return self._parts(ALL_ROWS)

    def blocks_at_once(self, space: Space) -> int:
        """See `Term.blocks_at_once`: those of the rows whose members the space holds together."""
        rows = space.rows_at_once(self.bound)
        return max(1, rows * self.n_blocks // max(1, self.X.shape[0]))

    def planes_of_a_block(self, space: Space) -> int:
        """See `Term.planes_of_a_block`: of many labelings, many are nearly the worst."""
        each = 1 if self.labels.layout is None else PLANES_OF_LABELINGS
        return each * super().planes_of_a_block(space)

    def _parts(self, blocks: Rows, most_rows: int | None = None) -> list[Rows]:
        """The blocks in portions whose answers fit in memory several times over."""
        n_labels = self.labels.n_labels
        if n_labels == 2 and self.labels.structure.rowwise and not self.oracle.finite:
            return self.labels.portions(blocks, ROWS_OF_TWO_LABELS)
        most = ROWS_AT_ONCE if most_rows is None else most_rows
        each = n_labels * sum(map(len, self.scenarios))
        return self.labels.portions(blocks, min(most, max(1, NUMBERS_AT_ONCE // each)))

    def _asked(
        self, space: Space, f: Element, blocks: Rows, points: bool
    ) -> tuple[Layout | None, Competitors, list[ScenarioAnswer]]:
        """Of each scenario the labeling that violates most."""
        rows, layout = self.labels.rows(blocks)
        competitors, asked = self.labels.competitors(rows), []
        for levels in self.scenarios:
            each = [space.worst(f, level, rows, competitors, points) for level in levels]
            found = Violations.of_levels(each)
            chosen = self.labels.separate(competitors, found, space.pairwise(f), layout)
            asked.append(ScenarioAnswer(each, found, chosen))
        return layout, competitors, asked

    def _value(self, space: Space, f: Element, blocks: Rows) -> tuple[np.ndarray, np.ndarray]:
        """Bounds of the blocks' losses, and what was attained."""
        layout, competitors, asked = self._asked(space, f, blocks, points=False)
        upper = np.max([each.chosen.upper for each in asked], axis=0)
        reached = [self._attained(each, competitors, space.pairwise(f), layout) for each in asked]
        return upper, np.maximum(0.0, np.max(reached, axis=0))

    def _attained(
        self,
        asked: ScenarioAnswer,
        competitors: Competitors,
        pairwise: np.ndarray,
        layout: Layout | None,
    ) -> np.ndarray:
        """What the labeling of each block that was chosen in a scenario attains, cost included."""
        taken = ChosenLabels.of(asked.chosen, layout)
        gains, costs = (taken.of_labels(each) for each in (asked.found.gains, asked.found.costs))
        heights = taken.sums(gains)
        if layout is not None and len(pairwise):
            heights = heights + self.labels.extra_gain(asked.chosen, competitors.codes, pairwise, layout)
        scale = asked.chosen.scale
        return (heights if scale is None else heights * scale) + taken.sums(costs)

    def _plane(self, space: Space, f: Element, blocks: Rows) -> Planes:
        """Planes of the blocks."""
        layout, competitors, asked = self._asked(space, f, blocks, points=True)
        pairwise, chosen, scenario = space.pairwise(f), asked[0].chosen, None
        if len(asked) > 1 and layout is not None:
            attained = [self._attained(each, competitors, pairwise, layout) for each in asked]
            scenario = np.argmax(attained, axis=0)
            chosen = best_of([each.chosen for each in asked], scenario, layout, self.labels)
        taken = ChosenLabels.of(chosen, layout, scenario)
        reached = points_of(asked, taken, len(competitors))
        coefficients = taken.own(competitors).normals(taken.labels) * np.reshape(taken.shares, (-1, 1))
        if chosen.scale is not None:
            owners = ALL_ROWS if taken.groups is None else taken.groups.owners
            coefficients *= chosen.scale[owners][:, None]
        heights = taken.sums(taken.shares * reached.gains)
        if chosen.scale is not None:
            heights = heights * chosen.scale
        offsets = taken.sums(taken.shares * reached.costs)
        groups = None if taken.groups is None else taken.groups.starts
        moved = self._moved(competitors, chosen, pairwise, layout)
        if moved is not None:
            heights = heights - moved @ pairwise
        normals = space.normals(reached.points, coefficients, groups, moved)
        return Planes(normals, offsets, chosen.upper, offsets + heights)

    def _moved(
        self, competitors: Competitors, chosen: Separation, pairwise: np.ndarray, layout: Layout | None
    ) -> Any:
        """The part on `pairwise` of the blocks' normals."""
        if layout is None or not len(pairwise):
            return None
        moved: Any = self.labels.moved_by(chosen, competitors.codes, layout)
        if chosen.scale is not None:
            sparse = sp.issparse(moved)
            moved = sp.diags(chosen.scale) @ moved if sparse else moved * chosen.scale[:, None]
        return -moved
