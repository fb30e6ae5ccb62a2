"""Warm starts: planes of an earlier solution that bound the new losses.

Planes of single rows bound the losses of these rows for any weights. For another oracle, only a dual
state with `DualState.checks_planes` can check its planes. Otherwise the new oracle is called once at the
old function, and its planes get the dual variables of the old planes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ..dual.base import join_planes
from ..oracles.listed_changes import listed
from ..spaces.atoms import AtomStore
from ..terms import Objective, WorstCase
from ..terms.planes import PlaneSet
from ..terms.worst_case import ROWS_AT_ONCE
from .base import Solution, Solver
from .coefficient_objectives import planes_of_slopes, slopes_of_planes


def sound_start(
    objective: Objective, solver: Solver, earlier: Solution, *, same_oracle: bool, same_sum: bool
) -> Solution:
    """Return an earlier solution with planes that are valid for `objective`.

    The earlier solution has the same rows and labels and is in the objective's space. `same_oracle` is
    True if S(x) is the same. `same_sum` is True if all weights are the same up to a common factor of
    each term.
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
        planes = _recomputed(objective, solver, earlier)
    return replace(earlier, planes=_shrunk(objective, planes))


def _shrunk(objective: Objective, planes: PlaneSet) -> PlaneSet:
    """Return planes with dual variables scaled by the best common factor up to 1.

    Without scaling, f would be too large if the weights have increased.
    """
    if planes.slopes or planes.passes is not None or len(planes) == 0:
        return planes
    space, weights, lower_bounds = objective.space, objective.weights, objective.lower_bounds
    f, offset = space.zeros(), 0.0
    # Members of orbits are computed on access. Portions limit the memory.
    for first in range(0, len(planes), ROWS_AT_ONCE):
        rows = slice(first, first + ROWS_AT_ONCE)
        more, above = planes.chosen(rows).total(space, weights, lower_bounds)
        f += more
        # Each total includes the lower bounds of all blocks.
        offset += above - float(weights @ lower_bounds)
    square = space.dot(f, f)
    factor = min(1.0, max(offset, 0.0) / square) if square > 0 else 1.0
    return planes if factor == 1.0 else replace(planes, alphas=factor * planes.alphas)


def _of_rows(objective: Objective, planes: PlaneSet) -> PlaneSet:
    """Return planes of single rows and of slopes; other planes depend on the weights."""
    owners = np.searchsorted(objective.first, planes.blocks, side="right") - 1
    of_rows = np.array([isinstance(term, WorstCase) for term in objective.terms])
    selected = np.flatnonzero(of_rows[owners] | np.isin(planes.blocks, list(planes.slopes)))
    return planes if len(selected) == len(planes) else planes.chosen(selected)


def _proportional(objective: Objective, planes: PlaneSet) -> bool:
    try:
        planes.total(objective.space, objective.weights, objective.lower_bounds)
    except ValueError:
        return False
    return True


def _recomputed(objective: Objective, solver: Solver, earlier: Solution) -> PlaneSet:
    """Return planes of the new losses at the old function, with the old dual variable of each block."""
    space, f, old = objective.space, earlier.f, earlier.planes
    if solver.takes_sums or objective.planes_are_sums:
        plane = objective.plane_of_sum(f)
        whole = np.full(1, -1)
        return PlaneSet(plane.normals, plane.offsets, whole, np.ones(1), objective.weights.copy())
    if old.summed is not None:
        # A sum of planes does not contain the dual variables of the blocks.
        return join_planes(space, [])
    alphas = np.bincount(old.blocks, old.alphas, minlength=objective.n_blocks)
    blocks = np.flatnonzero(alphas > 0)
    planes = objective.planes(f, blocks)
    return PlaneSet(planes.normals, planes.offsets, blocks, np.minimum(alphas[blocks], 1.0))


def fitting(objective: Objective, earlier: Solution) -> Solution:
    """Return a warm start in the objective's space, converted if needed.

    The earlier solution may be in a related space.
    """
    planes, space = earlier.planes, objective.space
    if not np.any(planes.blocks >= objective.n_blocks):
        if space.accepts(planes.normals):
            return earlier
        if space.can_convert(earlier.f):
            return carried(objective, earlier)
    raise ValueError(
        "warm_start must be a solution of an objective on the same rows and in the same space"
    )


def carried(objective: Objective, earlier: Solution) -> Solution:
    """Convert a solution in a separate kernel space to the objective's space.

    The rows are the same. Points that equal members of their rows become members, so that planes are
    again planes of members. Planes of penalties with known slopes are recomputed. They bound the losses
    for any weights.
    """
    space: Any = objective.space
    old: Any = earlier.f
    planes = earlier.planes
    firsts = objective.first[:-1]
    slopes = slopes_of_planes(objective.terms, firsts, planes)
    known = np.array([own is not None for own in slopes])
    selected = np.flatnonzero(~np.isin(planes.blocks, firsts[known]))
    chosen = planes.chosen(selected)
    support, terms = old.support(), old.atoms.slots(space.over_atoms(chosen.normals).keys)
    used, places = np.unique(np.concatenate([support, terms]), return_inverse=True)
    keys = _keys(objective, old.atoms, used)[places]
    normals = space.translated_rows(chosen.normals, keys[len(support) :])
    others = replace(chosen, normals=normals, slopes={})
    f = space.translated(old, keys[: len(support)])
    if planes.summed is not None:
        return replace(earlier, f=f, planes=others)
    of_slopes = planes_of_slopes(space, objective.terms, firsts, slopes)
    return replace(
        earlier, f=f, planes=join_planes(space, [part for part in (others, of_slopes) if len(part)])
    )


def _keys(objective: Objective, store: AtomStore, atoms: np.ndarray) -> np.ndarray:
    """Return keys in the objective's space for atoms of another store; of equal members, if any."""
    space: Any = objective.space
    points, origins = store.points(atoms), store.origins[atoms]
    rows, members = origins.T
    keys = np.full(len(rows), -1)
    for term in objective.terms:
        if not isinstance(term, WorstCase):
            continue
        pool, n_rows = space.atoms.pool(listed(term.bound)), term.X.shape[0]
        # Try the old variant number first; in a larger set the number may differ.
        for variant in [np.minimum(members, pool.size - 1), *range(pool.size)]:
            unmatched = np.flatnonzero((keys < 0) & (rows < n_rows))
            if len(unmatched) == 0:
                break
            variants = np.broadcast_to(variant, len(rows))[unmatched]
            is_equal = np.all(
                listed(term.bound).points(rows[unmatched], variants) == points[unmatched], axis=1
            )
            keys[unmatched[is_equal]] = pool.keys(rows[unmatched[is_equal]], variants[is_equal])
    others = np.flatnonzero(keys < 0)
    if len(others):
        # Points between the members of a cover are added as separate points.
        keys[others] = space.atoms.add_points(points[others], origins[others])
    return keys
