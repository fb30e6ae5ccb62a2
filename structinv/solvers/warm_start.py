"""What of an earlier solution may start a run: nothing that is not certain to bound the new losses.

Planes of single rows bound the losses of these rows whatever the weights are. Whether they bound
them with another oracle, too, only a dual state can tell that keeps its planes in the set itself
(`DualState.verifies`). Where there is none, the new oracle is asked once at the old function, and its
planes take over the masses of the old.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ..dual_states import join_planes
from ..objective import Objective, WorstCase
from ..planes import PlaneSet
from ..spaces import Element, KernelSpace, RepresenterSpace
from ..spaces.atoms import AtomRows, AtomStore
from .base import Solution, Solver
from .coefficients import slopes_of_planes

ROWS_AT_ONCE = 4096


def sound_start(
    objective: Objective, solver: Solver, earlier: Solution, *, same_oracle: bool, same_sum: bool
) -> Solution:
    """An earlier solution on the same rows and labels, with planes that bound these losses for certain.

    Parameters
    ----------
    objective : Objective
    solver : Solver
    earlier : Solution
        In the objective's space; see `carried`.
    same_oracle : bool
        Whether S(x) is what it was.
    same_sum : bool
        Whether all weights are what they were, but for a common factor of each term.
    """
    planes = earlier.planes
    if planes.summed is not None:
        usable = same_oracle and same_sum and solver.takes_sums and _proportional(objective, planes)
    else:
        usable = same_oracle or solver.verifies(objective)
    if not usable:
        planes = _asked_anew(objective, solver, earlier)
    return replace(earlier, planes=_shrunk(objective, planes))


def _shrunk(objective: Objective, planes: PlaneSet) -> PlaneSet:
    """Planes with all masses times the best common factor below 1: larger weights would overshoot."""
    if planes.slopes or planes.passes is not None or len(planes) == 0:
        return planes
    space, weights, floors = objective.space, objective.weights, objective.floors
    f, offset = space.zeros(), 0.0
    # Members of orbits are made when they are asked for, so not all at once.
    for first in range(0, len(planes), ROWS_AT_ONCE):
        rows = slice(first, first + ROWS_AT_ONCE)
        part = replace(
            planes,
            normals=planes.normals[rows],
            offsets=planes.offsets[rows],
            blocks=planes.blocks[rows],
            masses=planes.masses[rows],
        )
        more, above = part.total(space, weights, floors)
        f += more
        offset += above
        if planes.summed is None:
            offset -= float(weights @ floors)
    if planes.summed is not None:
        # A bundle is small, and its planes count from zero, not from the floors.
        offset -= float(weights @ floors)
    square = space.dot(f, f)
    factor = min(1.0, max(offset, 0.0) / square) if square > 0 else 1.0
    return planes if factor == 1.0 else replace(planes, masses=factor * planes.masses)


def _proportional(objective: Objective, planes: PlaneSet) -> bool:
    try:
        planes.total(objective.space, objective.weights, objective.floors)
    except ValueError:
        return False
    return True


def _asked_anew(objective: Objective, solver: Solver, earlier: Solution) -> PlaneSet:
    """Planes of the new losses at the old function, with the masses that each block had."""
    space, f, old = objective.space, earlier.f, earlier.planes
    if solver.takes_sums:
        plane = objective.plane_of_sum(f)
        whole = np.full(1, -1)
        return PlaneSet(plane.normals, plane.offsets, whole, np.ones(1), objective.weights.copy())
    if old.summed is not None:
        # Which blocks had how much of the sum, nobody knows.
        return join_planes(space, [])
    masses = np.bincount(old.blocks, old.masses, minlength=objective.n_blocks)
    blocks = np.flatnonzero(masses > 0)
    planes = objective.planes(f, blocks)
    return PlaneSet(planes.normals, planes.offsets, blocks, np.minimum(masses[blocks], 1.0))


def carried(objective: Objective, earlier: Solution, *, by_number: bool = False) -> Solution:
    """A solution in a kernel's space of its own, as one in the space of an objective on the same rows.

    Points are looked for among the members of their rows, so that the planes are those of members
    again. Penalties start from the slopes that are known of them, which bound their losses whatever
    the weights are.

    Parameters
    ----------
    objective : Objective
        In a kernel's space.
    earlier : Solution
        Of the same rows, labels, families and losses.
    by_number : bool, default=False
        Whether members are known by their numbers alone, as where inputs do not show.
    """
    space: Any = objective.space
    old: Any = earlier.f
    terms = [term for term in objective.terms if isinstance(term, WorstCase)]
    f = _same_functions(space, old)
    parts = []
    if earlier.planes.summed is not None and len(terms) < len(objective.terms):
        earlier = replace(earlier, planes=join_planes(space, []))
    if terms:
        keys = _keys(space, old.atoms, terms[0].bound, by_number)
        f.make_room(len(space.atoms))
        used = old.support()
        element = AtomRows(space.atoms, keys[used], old.coefficients[used], np.array([0, len(used)]))
        f += space.combine(element, np.ones(1))
        parts.append(_worst_cases(objective, earlier.planes, keys))
        if earlier.planes.summed is not None:
            return replace(earlier, f=f, planes=parts[0])
    if earlier.planes.summed is None:
        slopes = slopes_of_planes(objective, earlier.planes)
        for term, own, first in zip(objective.terms, slopes, objective.first, strict=False):
            if own is not None:
                parts.append(term.plane_of_slopes(space, own, int(first)))
    return replace(earlier, f=f, planes=join_planes(space, [part for part in parts if len(part)]))


def _same_functions(space: Any, old: Any) -> Element:
    """The part of an element that lies on representers, and its free part."""
    if not isinstance(space, RepresenterSpace):
        return space.zeros()
    return space.of_representers(old.representers.copy(), old.free.copy())


def _worst_cases(objective: Objective, planes: PlaneSet, keys: np.ndarray) -> PlaneSet:
    """The planes of worst-case terms, over keys of the points of the old space's atoms."""
    mine = np.arange(len(planes))
    if planes.summed is None:
        worst = [isinstance(term, WorstCase) for term in objective.terms]
        owners = np.searchsorted(objective.first, planes.blocks, side="right") - 1
        mine = np.flatnonzero(np.array(worst)[owners])
    chosen: Any = planes.normals[mine]
    # Of a row of representers, the part over atoms; those of worst cases have no other.
    rows = getattr(chosen, "rows", chosen)
    slots = rows.atoms.slots(rows.keys)
    space: Any = objective.space
    normals = AtomRows(space.atoms, keys[slots], rows.coefficients, rows.start)
    return replace(
        planes,
        normals=normals,
        offsets=planes.offsets[mine],
        blocks=planes.blocks[mine],
        masses=planes.masses[mine],
        slopes={},
    )


def _keys(space: KernelSpace, store: AtomStore, bound: Any, by_number: bool) -> np.ndarray:
    """Keys in a space of the points of another store's atoms: of members, where they are some."""
    pool = space.atoms.pool(bound)
    points, origins = store.points(np.arange(len(store))), store.origins
    rows, members = origins.T
    found = np.full(len(rows), -1)
    if by_number:
        found[:] = members
    else:
        # At their old place first, which a larger set may have moved.
        for guess in [np.minimum(members, pool.size - 1), *range(pool.size)]:
            left = np.flatnonzero(found < 0)
            if len(left) == 0:
                break
            tried = np.broadcast_to(guess, len(rows))[left]
            same = np.all(bound.members(rows[left], tried) == points[left], axis=1)
            found[left[same]] = tried[same]
    keys = np.zeros(len(rows), dtype=np.int64)
    known = found >= 0
    keys[known] = pool.keys(rows[known], found[known])
    if not np.all(known):
        # Between the members of a cover: points of their own.
        keys[~known] = space.atoms.add_points(points[~known], origins[~known])
    return keys
