"""What may happen to examples as a whole: scenarios asked about one by one, and the worst of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..matrices import Rows, pick, stack
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


def reach(
    space: Space,
    f: Element,
    rows: Rows,
    rivals: Rivals,
    asked: list[Asked],
    scenario: np.ndarray,
    chosen: Separation,
) -> Reached:
    """The worst members of rows, each in a scenario and at a level of its own."""
    levels = np.zeros(len(rivals), dtype=np.intp) if chosen.levels is None else chosen.levels
    places, parts = [], []
    for number, one in enumerate(asked):
        for level, (bound, found) in enumerate(zip(one.levels, one.each, strict=True)):
            mine = np.flatnonzero((scenario == number) & (levels == level))
            if len(mine) == 0:
                continue
            which, labels = pick(rows, mine, len(rivals)), chosen.labels[mine]
            places.append(mine)
            parts.append(space.reach(f, bound, which, rivals.take(mine), found.take(mine), labels))
    order = np.argsort(np.concatenate(places))
    points: Any = [part.points for part in parts]
    # Keys of points are numbers, one a row.
    flat = isinstance(points[0], np.ndarray) and points[0].ndim == 1
    points = np.concatenate(points) if flat else stack(points)
    gains, costs = (
        np.concatenate([getattr(part, name) for part in parts])[order] for name in ("gains", "costs")
    )
    return Reached(points[order], gains, costs)
