"""Joint perturbations of examples: the worst of several scenarios."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..oracles.base import BoundOracle
from ..oracles.query import Violations, WorstPoints
from ..structures import Layout
from ..structures.bound import BoundStructure
from ..structures.decodings import Competitors, Separation
from ..utils.matrices import stack


@dataclass(frozen=True)
class ScenarioAnswer:
    """Oracle results of a scenario, for each budget level and joined; worst labeling."""

    by_level: list[Violations]
    violations: Violations
    chosen: Separation


def scenarios_of(bound: BoundOracle, labels: BoundStructure) -> list[tuple[BoundOracle, ...]]:
    """Return the scenarios of a structure's examples; see `BoundOracle.scenarios`."""
    layout = labels.layout
    if layout is None or np.max(layout.lengths) == 1:
        # An example of a single row has no joint perturbations.
        return [(bound,)]
    found = bound.scenarios()
    if any(len(levels) > 1 for levels in found) and not labels.structure.budgets:
        raise ValueError(
            f"oracle must not be a Budget for {type(labels.structure).__name__}, which cannot divide "
            f"edits among an example's rows, got {bound.oracle!r}"
        )
    return found


def best_of(
    chosen: list[Separation], scenario: np.ndarray, layout: Layout, labels: BoundStructure
) -> Separation:
    """Return the separation of each block's scenario, with the largest bounds of all."""
    if any(each.fractions is not None for each in chosen):
        chosen = [labels.as_fractional(each, layout) for each in chosen]

    def selected_of(name: str, which: np.ndarray) -> Any:
        parts = [getattr(each, name) for each in chosen]
        if any(part is None for part in parts):
            return None
        # Row i of part p is row p * len(which) + i of the concatenated parts.
        places = which * len(which) + np.arange(len(which))
        if any(sp.issparse(part) for part in parts):
            return sp.csr_matrix(sp.vstack(parts))[places]
        return np.concatenate(parts)[places]

    rows = scenario[layout.owners]
    return Separation(
        selected_of("labels", rows),
        np.max([each.upper for each in chosen], axis=0),
        selected_of("scale", scenario),
        _levels(chosen, rows),
        selected_of("fractions", rows),
        selected_of("features", scenario),
    )


def _levels(chosen: list[Separation], scenario: np.ndarray) -> np.ndarray | None:
    """Return the budget level of each row in its scenario; 0 without a budget."""
    if all(each.levels is None for each in chosen):
        return None
    zeros = np.zeros(len(scenario), dtype=np.intp)
    levels = [zeros if each.levels is None else each.levels for each in chosen]
    return np.array(levels)[scenario, np.arange(len(scenario))]


@dataclass(frozen=True)
class ChosenLabels:
    """Labels of rows in a plane, with the perturbations of the rows.

    In fractional labelings, a row may have several entries.

    - `places` (m,): position of the row of each entry; None for all rows in order
    - `groups`: entries of each block; None if each entry is a block
    - `labels` (m,): label of each entry
    - `fractions` (m,): fraction of the label in the row
    - `scenario, levels` (m,): scenario and budget level of each entry
    """

    places: np.ndarray | None
    groups: Layout | None
    labels: np.ndarray
    fractions: float | np.ndarray = 1.0
    scenario: np.ndarray | None = None
    levels: np.ndarray | None = None

    @classmethod
    def of(
        cls, chosen: Separation, layout: Layout | None, scenario: np.ndarray | None = None
    ) -> ChosenLabels:
        """Return the labels of a separation in the scenario of each block."""
        rows = None if scenario is None or layout is None else scenario[layout.owners]
        if chosen.fractions is None or layout is None:
            return cls(None, layout, chosen.labels, 1.0, rows, chosen.levels)
        places, labels = np.nonzero(chosen.fractions)
        groups = Layout(np.searchsorted(places, layout.starts))
        rows = None if rows is None else rows[places]
        return cls(places, groups, labels, chosen.fractions[places, labels], rows)

    def competitors_of(self, competitors: Competitors) -> Competitors:
        """Return the competitors of the entries' rows."""
        return competitors if self.places is None else competitors.take(self.places)

    def of_labels(self, table: np.ndarray) -> np.ndarray:
        """Return the table's values for the entries, times their fractions."""
        rows = np.arange(len(table)) if self.places is None else self.places
        place: Any = (rows, self.labels) if self.levels is None else (rows, self.labels, self.levels)
        return self.fractions * table[place]

    def sums(self, each: np.ndarray) -> np.ndarray:
        """Return the sums over each block."""
        return each if self.groups is None else self.groups.sums(each)


def points_of(answers: list[ScenarioAnswer], entries: ChosenLabels, n_rows: int) -> WorstPoints:
    """Return the worst members for labels of rows, each in its scenario and level."""
    scenario, levels = entries.scenario, entries.levels
    if scenario is None and levels is None:
        known = answers[0].by_level[0]
        return (known if entries.places is None else known.take(entries.places)).points(entries.labels)
    zeros = np.zeros(len(entries.labels), dtype=np.intp)
    scenario, levels = (zeros if each is None else each for each in (scenario, levels))
    places = np.arange(n_rows) if entries.places is None else entries.places
    found, parts = [], []
    for number, one in enumerate(answers):
        for level, known in enumerate(one.by_level):
            selected = np.flatnonzero((scenario == number) & (levels == level))
            if len(selected):
                found.append(selected)
                parts.append(known.take(places[selected]).points(entries.labels[selected]))
    order = np.argsort(np.concatenate(found))
    points: Any = [part.points for part in parts]
    # Keys of points are numbers, one per row.
    flat = isinstance(points[0], np.ndarray) and points[0].ndim == 1
    points = np.concatenate(points) if flat else stack(points)
    gains, costs = (
        np.concatenate([getattr(part, name) for part in parts])[order] for name in ("gains", "costs")
    )
    return WorstPoints(points[order], gains, costs)
