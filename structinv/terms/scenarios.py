"""What may happen to examples as a whole: scenarios asked about one by one, and the worst of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..oracles.base import BoundOracle
from ..oracles.query import Violations, WorstPoints
from ..structures import Layout
from ..structures.bound import BoundStructure
from ..structures.competitors import Competitors
from ..structures.decodings import Separation
from ..utils.matrices import stack


@dataclass(frozen=True)
class ScenarioAnswer:
    """A scenario: the answers at its levels, one by one and together, and what violates most."""

    each: list[Violations]
    found: Violations
    chosen: Separation


def scenarios_of(bound: BoundOracle, labels: BoundStructure) -> list[tuple[BoundOracle, ...]]:
    """What may happen to the examples of a structure; see `BoundOracle.scenarios`.

    Raises
    ------
    ValueError
        For a budget where the structure knows none.
    """
    layout = labels.layout
    if layout is None or np.max(layout.lengths) == 1:
        # A row that is an example by itself shares nothing.
        return [(bound,)]
    found = bound.scenarios()
    if any(len(levels) > 1 for levels in found) and not labels.structure.budgets:
        raise ValueError(
            f"oracle must not be a Budget for {type(labels.structure).__name__}, which cannot share out "
            f"changes among the rows of an example, got {bound.oracle!r}"
        )
    return found


def best_of(
    chosen: list[Separation], scenario: np.ndarray, layout: Layout, labels: BoundStructure
) -> Separation:
    """Of each block what was chosen in its scenario; bounds are the largest of all."""
    if any(each.shares is not None for each in chosen):
        chosen = [labels.as_shares(each, layout) for each in chosen]

    def picked(name: str, which: np.ndarray) -> Any:
        parts = [getattr(each, name) for each in chosen]
        if any(part is None for part in parts):
            return None
        # Row i of part p is row p * len(which) + i of all of them.
        places = which * len(which) + np.arange(len(which))
        if any(sp.issparse(part) for part in parts):
            return sp.csr_matrix(sp.vstack(parts))[places]
        return np.concatenate(parts)[places]

    rows = scenario[layout.owners]
    return Separation(
        picked("labels", rows),
        np.max([each.upper for each in chosen], axis=0),
        picked("scale", scenario),
        _levels(chosen, rows),
        picked("shares", rows),
        picked("features", scenario),
    )


def _levels(chosen: list[Separation], scenario: np.ndarray) -> np.ndarray | None:
    """The level of each row in its scenario; scenarios of one level have level 0."""
    if all(each.levels is None for each in chosen):
        return None
    zeros = np.zeros(len(scenario), dtype=np.intp)
    levels = [zeros if each.levels is None else each.levels for each in chosen]
    return np.array(levels)[scenario, np.arange(len(scenario))]


@dataclass(frozen=True)
class ChosenLabels:
    """Labels that planes take of rows, and how rows change for them; a row may be there several times.

    Parameters
    ----------
    places : (m,) array of int, or None
        Of the rows, among those asked about; all of them, if None.
    groups : Layout or None
        Which of them belong to which block; each is one, if None.
    labels : (m,) array of int
    shares : float or (m,) array
        How much of the label a row has.
    scenario, levels : (m,) arrays of int, or None for 0
    """

    places: np.ndarray | None
    groups: Layout | None
    labels: np.ndarray
    shares: float | np.ndarray = 1.0
    scenario: np.ndarray | None = None
    levels: np.ndarray | None = None

    @classmethod
    def of(
        cls, chosen: Separation, layout: Layout | None, scenario: np.ndarray | None = None
    ) -> ChosenLabels:
        """The labels of a separation, in the scenario of each block: one a row, or all with a share."""
        rows = None if scenario is None or layout is None else scenario[layout.owners]
        if chosen.shares is None or layout is None:
            return cls(None, layout, chosen.labels, 1.0, rows, chosen.levels)
        places, labels = np.nonzero(chosen.shares)
        groups = Layout(np.searchsorted(places, layout.starts))
        rows = None if rows is None else rows[places]
        return cls(places, groups, labels, chosen.shares[places, labels], rows)

    def own(self, competitors: Competitors) -> Competitors:
        """The competitors of the rows taken."""
        return competitors if self.places is None else competitors.take(self.places)

    def of_labels(self, table: np.ndarray) -> np.ndarray:
        """Of numbers about rows and labels those of the labels taken, times their shares."""
        rows = np.arange(len(table)) if self.places is None else self.places
        place: Any = (rows, self.labels) if self.levels is None else (rows, self.labels, self.levels)
        return self.shares * table[place]

    def sums(self, each: np.ndarray) -> np.ndarray:
        """Sums over each block."""
        return each if self.groups is None else self.groups.sums(each)


def points_of(asked: list[ScenarioAnswer], taken: ChosenLabels, n_rows: int) -> WorstPoints:
    """The worst members for labels of rows, each in a scenario and at a level of its own."""
    scenario, levels = taken.scenario, taken.levels
    if scenario is None and levels is None:
        known = asked[0].each[0]
        return (known if taken.places is None else known.take(taken.places)).points(taken.labels)
    zeros = np.zeros(len(taken.labels), dtype=np.intp)
    scenario, levels = (zeros if each is None else each for each in (scenario, levels))
    places = np.arange(n_rows) if taken.places is None else taken.places
    found, parts = [], []
    for number, one in enumerate(asked):
        for level, known in enumerate(one.each):
            mine = np.flatnonzero((scenario == number) & (levels == level))
            if len(mine):
                found.append(mine)
                parts.append(known.take(places[mine]).points(taken.labels[mine]))
    order = np.argsort(np.concatenate(found))
    points: Any = [part.points for part in parts]
    # Keys of points are numbers, one a row.
    flat = isinstance(points[0], np.ndarray) and points[0].ndim == 1
    points = np.concatenate(points) if flat else stack(points)
    gains, costs = (
        np.concatenate([getattr(part, name) for part in parts])[order] for name in ("gains", "costs")
    )
    return WorstPoints(points[order], gains, costs)
