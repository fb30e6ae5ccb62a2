"""What of an earlier solution may start a run: nothing that is not certain to bound the new losses.

Planes of single rows bound the losses of these rows whatever the weights are. Whether they bound
them with another oracle, too, only a dual state can tell that keeps its planes in the set itself
(`DualState.checks_planes`). Otherwise the new oracle is asked once at the old function, and its planes
take over the masses of the old.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ..dual.base import join_planes
from ..oracles.listing import listed
from ..spaces.atoms import AtomStore
from ..terms import Objective, WorstCase
from ..terms.planes import PlaneSet
from ..terms.worst_case import ROWS_AT_ONCE
from .base import Solution, Solver
from .coefficients import planes_of_slopes, slopes_of_planes


def sound_start(
    objective: Objective, solver: Solver, earlier: Solution, *, same_oracle: bool, same_sum: bool
) -> Solution:
    """An earlier solution on the same rows and labels, with planes that bound these losses for certain.

    The earlier solution is in the objective's space. `same_oracle` says whether S(x) is what it was,
    `same_sum` whether all weights are, but for a common factor of each term.
    """
    planes = earlier.planes
    if planes.summed is not None:
        takes_sums = solver.takes_sums or objective.planes_are_sums
        usable = same_oracle and same_sum and takes_sums and _proportional(objective, planes)
    else:
        if not same_sum:
            planes = _of_rows(objective, planes)
            earlier = replace(earlier, planes=planes)
        usable = same_oracle or solver.checks_planes(objective)
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
        more, above = planes.chosen(rows).total(space, weights, floors)
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


def _of_rows(objective: Objective, planes: PlaneSet) -> PlaneSet:
    """Planes of single rows, and those of slopes: others of a family hold the weights of its members."""
    owners = np.searchsorted(objective.first, planes.blocks, side="right") - 1
    of_rows = np.array([isinstance(term, WorstCase) for term in objective.terms])
    kept = np.flatnonzero(of_rows[owners] | np.isin(planes.blocks, list(planes.slopes)))
    return planes if len(kept) == len(planes) else planes.chosen(kept)


def _proportional(objective: Objective, planes: PlaneSet) -> bool:
    try:
        planes.total(objective.space, objective.weights, objective.floors)
    except ValueError:
        return False
    return True


def _asked_anew(objective: Objective, solver: Solver, earlier: Solution) -> PlaneSet:
    """Planes of the new losses at the old function, with the masses that each block had."""
    space, f, old = objective.space, earlier.f, earlier.planes
    if solver.takes_sums or objective.planes_are_sums:
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


def fitting(objective: Objective, earlier: Solution) -> Solution:
    """A warm start in the objective's space: as it is, or brought over from a space related to it.

    Raises
    ------
    ValueError
        If it is of another problem.
    """
    planes, space = earlier.planes, objective.space
    if not np.any(planes.blocks >= objective.n_blocks):
        if space.owns(planes.normals):
            return earlier
        if space.related(earlier.f):
            return carried(objective, earlier)
    raise ValueError(
        "warm_start does not fit: it must come from an objective on the same rows and space"
    )


def carried(objective: Objective, earlier: Solution) -> Solution:
    """A solution in a kernel's space of its own, as one in the space of an objective on the same rows.

    Points are looked for among the members of their rows, so that the planes are those of members
    again. Where a penalty's slopes are known, its plane is made anew of these, which bound its losses
    whatever their weights are.
    """
    space: Any = objective.space
    old: Any = earlier.f
    planes = earlier.planes
    firsts = objective.first[:-1]
    slopes = slopes_of_planes(objective.terms, firsts, planes)
    known = np.array([own is not None for own in slopes])
    kept = np.flatnonzero(~np.isin(planes.blocks, firsts[known]))
    chosen = planes.chosen(kept)
    support, terms = old.support(), old.atoms.slots(space.over_atoms(chosen.normals).keys)
    used, places = np.unique(np.concatenate([support, terms]), return_inverse=True)
    keys = _keys(objective, old.atoms, used)[places]
    normals = space.translated_rows(chosen.normals, keys[len(support) :])
    others = replace(chosen, normals=normals, slopes={})
    f = space.translated(old, keys[: len(support)])
    if planes.summed is not None:
        return replace(earlier, f=f, planes=others)
    told = planes_of_slopes(space, objective.terms, firsts, slopes)
    return replace(
        earlier, f=f, planes=join_planes(space, [part for part in (others, told) if len(part)])
    )


def _keys(objective: Objective, store: AtomStore, atoms: np.ndarray) -> np.ndarray:
    """Keys in the objective's space of atoms of another store: of members, where they are some."""
    space: Any = objective.space
    points, origins = store.points(atoms), store.origins[atoms]
    rows, members = origins.T
    keys = np.full(len(rows), -1)
    for term in objective.terms:
        if not isinstance(term, WorstCase):
            continue
        pool, n_rows = space.atoms.pool(listed(term.bound)), term.X.shape[0]
        # At their old place first, which a larger set may have moved.
        for guess in [np.minimum(members, pool.size - 1), *range(pool.size)]:
            left = np.flatnonzero((keys < 0) & (rows < n_rows))
            if len(left) == 0:
                break
            tried = np.broadcast_to(guess, len(rows))[left]
            same = np.all(listed(term.bound).points(rows[left], tried) == points[left], axis=1)
            keys[left[same]] = pool.keys(rows[left[same]], tried[same])
    others = np.flatnonzero(keys < 0)
    if len(others):
        # Between the members of a cover: points of their own.
        keys[others] = space.atoms.add_points(points[others], origins[others])
    return keys
