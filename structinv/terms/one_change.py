"""Worst-case loss of rows with several labels and one joint perturbation."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..oracles.base import InvarianceOracle
from ..oracles.listed_changes import listed
from ..oracles.third_party import bind
from ..spaces.base import NUMBERS_AT_ONCE, Element, Space
from ..structures import Structure
from ..structures.inference import decoded
from ..utils.matrices import ALL_ROWS, Rows, count
from .base import join
from .one_change_search import MOST_LABELS, JointViolation, OneChangeSearch
from .planes import Planes
from .worst_case import WorstCase


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
        layout = self.labels.layout
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
        return self.labels.codes.reshape(self.labels.n_blocks, -1)

    @property
    def n_outputs(self) -> int:
        """Number of learned functions, one for each label."""
        return self.n_positions

    def validate(self, space: Space) -> None:
        super().validate(space)
        check_one_change(space, self.oracle)

    def planes(self, space: Space, f: Element, blocks: Rows = ALL_ROWS) -> Planes:
        return join(space, [self._plane(space, f, part) for part in self._parts(blocks)])

    def values(self, space: Space, f: Element) -> tuple[np.ndarray, np.ndarray]:
        parts = []
        at_zero = space.dot(f, f) == 0
        for part in self._parts(ALL_ROWS):
            if at_zero:
                parts.append(self._values_of_zero(space, part))
                continue
            found = self._search(space, f, part, points=False)
            parts.append((found.upper, np.maximum(0.0, found.gains + found.costs)))
        upper, attained = (np.concatenate(each) for each in zip(*parts, strict=True))
        return np.maximum(upper, attained), attained

    def _values_of_zero(self, space: Space, blocks: Rows) -> tuple[np.ndarray, np.ndarray]:
        """Return values at the zero function, without calls of the oracle."""
        rows, layout = self.labels.rows(blocks)
        assert layout is not None
        costs, pairwise = self.labels.costs(rows), np.zeros(space.n_pairwise)
        structure = self.labels.structure
        found = decoded(structure, costs, pairwise, layout)
        value = structure.score(costs, found.labels, pairwise, layout)
        return value, value

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
        return self.labels.portions(blocks, self.n_positions * most)

    def _search(self, space: Space, f: Element, blocks: Rows, points: bool) -> JointViolation:
        rows, _ = self.labels.rows(blocks)
        codes = self.codes[blocks]
        costs = self.labels.costs(rows).reshape(*codes.shape, 2)
        search = OneChangeSearch(space, f, self.bound, self.labels, blocks, codes, costs)
        return search.worst(points=points)

    def _plane(self, space: Space, f: Element, blocks: Rows) -> Planes:
        found = self._search(space, f, blocks, points=True)
        coefficients = (self.codes[blocks] - found.labels).astype(np.float64)
        moved: Any = None
        if self.labels.n_pairwise:
            _, layout = self.labels.rows(blocks)
            assert layout is not None
            own = self.codes[blocks].ravel()
            moved = -self.labels.moved(found.labels.ravel(), own, layout)
        normals = space.normals(found.points, coefficients, None, moved)
        return Planes(normals, found.costs, found.upper, found.gains + found.costs)


def check_one_change(space: Space, oracle: InvarianceOracle) -> None:
    """Raise ValueError unless a joint perturbation of all labels can be found."""
    if "linear in x" not in space.capabilities and not oracle.finite:
        raise ValueError(
            "oracle must be finite if functions are not linear in x and all labels of a row share "
            f"one perturbation, got {oracle!r}"
        )
