"""What may happen to examples as a whole: scenarios asked about one by one, and the worst of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..matrices import Rows, stack
from ..oracles.base import BoundOracle
from ..spaces import Element, Furthest, Reached, Space
from ..structures import BoundStructure, Layout, Rivals, Separation


@dataclass(frozen=True)
class Asked:
    """A scenario: what was found at its levels, one by one and side by side, and what violates most."""

    levels: tuple[BoundOracle, ...]
    each: list[Furthest]
    found: Furthest
    chosen: Separation


def scenarios_of(bound: BoundOracle, labels: BoundStructure) -> list[tuple[BoundOracle, ...]]:
    """What may happen to the examples of a structure; see `BoundOracle.scenarios`.

    Raises
    ------
    ValueError
        For a budget where the structure knows none.
    """
    layout = labels.layout
    if layout is None or np.max(layout.sizes) == 1:
        # A row that is an example by itself shares nothing.
        return [(bound,)]
    found = bound.scenarios()
    if any(len(levels) > 1 for levels in found) and not labels.structure.budgets:
        raise ValueError(
            f"oracle must not be a Budget for {type(labels.structure).__name__}, which cannot share out "
            f"changes among the rows of an example, got {bound.oracle!r}"
        )
    return found


def side_by_side(each: list[Furthest]) -> Furthest:
    """What was found at several levels, with a third axis."""
    gains, costs, upper = (
        np.stack([getattr(one, name) for one in each], axis=2) for name in ("gains", "costs", "upper")
    )
    return Furthest(gains, costs, upper)


def best_of(chosen: list[Separation], scenario: np.ndarray, layout: Layout) -> Separation:
    """Of each block what was chosen in its scenario; bounds are the largest of all."""

    def picked(name: str, which: np.ndarray, absent: float) -> Any:
        parts = [getattr(each, name) for each in chosen]
        if all(part is None for part in parts):
            return None
        size = len(which)
        parts = [np.full(size, absent) if part is None else part for part in parts]
        return np.array(parts)[which, np.arange(size)]

    rows = scenario[layout.owners]
    levels = picked("levels", rows, 0)
    return Separation(
        picked("labels", rows, 0),
        np.max([each.upper for each in chosen], axis=0),
        picked("scale", scenario, 1.0),
        None if levels is None else levels.astype(np.intp),
    )


@dataclass(frozen=True)
class Taken:
    """Labels that planes take of rows, and how rows change for them; a row may be there several times.

    Parameters
    ----------
    places : (m,) array of int
        Of the rows, among those asked about.
    labels, scenario, levels : (m,) arrays of int
    """

    places: np.ndarray
    labels: np.ndarray
    scenario: np.ndarray
    levels: np.ndarray

    @classmethod
    def one_each(cls, chosen: Separation, scenario: np.ndarray) -> Taken:
        """The labels of a separation, in the scenario of each row."""
        every = np.arange(len(chosen.labels))
        levels = np.zeros(len(every), dtype=np.intp) if chosen.levels is None else chosen.levels
        return cls(every, chosen.labels, scenario, levels)


def reach(
    space: Space, f: Element, rows: Rows, rivals: Rivals, asked: list[Asked], taken: Taken
) -> Reached:
    """The worst members for labels of rows, each in a scenario and at a level of its own."""
    found, parts = [], []
    for number, one in enumerate(asked):
        for level, (bound, known) in enumerate(zip(one.levels, one.each, strict=True)):
            mine = np.flatnonzero((taken.scenario == number) & (taken.levels == level))
            if len(mine) == 0:
                continue
            places = taken.places[mine]
            which, own = np.arange(bound.X.shape[0])[rows][places], rivals.take(places)
            found.append(mine)
            parts.append(space.reach(f, bound, which, own, known.take(places), taken.labels[mine]))
    order = np.argsort(np.concatenate(found))
    points: Any = [part.points for part in parts]
    # Keys of points are numbers, one a row.
    flat = isinstance(points[0], np.ndarray) and points[0].ndim == 1
    points = np.concatenate(points) if flat else stack(points)
    gains, costs = (
        np.concatenate([getattr(part, name) for part in parts])[order] for name in ("gains", "costs")
    )
    return Reached(points[order], gains, costs)
