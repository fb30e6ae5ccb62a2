"""Dual variables and planes as arrays, for checkpoint files.

Perturbed samples are stored by their numbers if the oracle lists them. Labelings and slopes of
penalties are stored as arrays. All other points are stored in full.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from ..dual.labeled_rows import LabeledRows, labeled_rows
from ..dual.linear_member_state import made_rows
from ..oracles.listed_changes import listed
from ..spaces.base import Element, Normals
from ..spaces.kernel_space import KernelSpace
from ..spaces.tensor_rows import ComputedRows, MemberRows, TensorRows
from ..terms import Objective, WorstCase
from ..terms.planes import PlaneSet
from ..utils.matrices import Matrix, check_indices

# Prefix of the names of arrays with the slopes of a block.
SLOPES = "slopes "


def packed(objective: Objective, f: Element, planes: PlaneSet) -> dict[str, np.ndarray]:
    """Return an element and planes of an objective as arrays.

    Penalties with known slopes have no plane in the arrays: the slopes determine it.
    """
    slopes = {f"{SLOPES}{block}": values for block, values in planes.slopes.items()}
    planes = planes.chosen(np.flatnonzero(~np.isin(planes.blocks, list(planes.slopes))))
    arrays = {"offsets": planes.offsets, "blocks": planes.blocks, "masses": planes.alphas, **slopes}
    for name, extra in (("summed", planes.summed), ("passes", planes.passes)):
        if extra is not None:
            arrays[name] = extra
    space = objective.space
    if not isinstance(space, KernelSpace):
        return {**arrays, "f": f, **_packed_rows(planes.normals)}
    found = space.packed(f, planes.normals)
    # Pools are numbered in the order of their creation, terms by their position.
    owners = np.full(1 + len(space.atoms.pools), -1)
    for number, bound in reversed(list(enumerate(_bounds(objective)))):
        owners[space.atoms.pool(listed(bound)).number] = number
    return {**arrays, **found, "pools": owners[found["pools"]]}


def unpacked(objective: Objective, arrays: dict[str, np.ndarray]) -> tuple[Element, PlaneSet]:
    """Return the element and the planes that `packed` stored.

    The objective has the same rows.

    If the space has a kernel, the element and the planes have a separate space. Planes of known slopes
    are missing; see `structinv.solvers.warm_start.carried`.
    """
    f: Element
    normals: Normals
    if isinstance(objective.space, KernelSpace):
        f, normals = objective.space.unpacked(arrays, _points(objective, arrays))
    else:
        f, normals = arrays["f"], _unpacked_rows(objective, arrays)
    slopes = {
        int(name[len(SLOPES) :]): values for name, values in arrays.items() if name.startswith(SLOPES)
    }
    return f, PlaneSet(
        normals,
        arrays["offsets"],
        arrays["blocks"],
        arrays["masses"],
        arrays.get("summed"),
        slopes,
        arrays.get("passes"),
    )


def _worst_cases(objective: Objective) -> list[WorstCase]:
    """Return the terms with an oracle."""
    return [term for term in objective.terms if isinstance(term, WorstCase)]


def _bounds(objective: Objective) -> list[Any]:
    """Return the bound oracles of all terms with an oracle."""
    return [term.bound for term in _worst_cases(objective)]


def _points(objective: Objective, arrays: dict[str, np.ndarray]) -> np.ndarray:
    """Return the points of an expansion; oracles recompute members."""
    owners, origins, others = arrays["pools"], arrays["origins"], arrays["points"]
    points = np.empty((len(owners), others.shape[1]), dtype=others.dtype)
    points[owners < 0] = others
    for number, bound in enumerate(_bounds(objective)):
        selected = np.flatnonzero(owners == number)
        if len(selected):
            rows, members = origins[selected].T
            # A third-party oracle may list fewer members than before. Planes are checked later, so any
            # member may replace a missing one.
            changes = listed(bound)
            points[selected] = changes.points(rows, np.minimum(members, changes.size - 1))
    return points


def _packed_rows(normals: Any) -> dict[str, np.ndarray]:
    """Return normals of linear functions as arrays."""
    if isinstance(normals, MemberRows):
        # The numbers of the members determine the normals.
        return {"which": normals.which, "coefficients": normals.coefficients}
    if isinstance(normals, LabeledRows):
        return {
            "labeled": normals.blocks,
            "labels": normals.labels,
            "edits": normals.edits,
            "factors": np.array(normals.factors),
        }
    arrays = {}
    if isinstance(normals, ComputedRows):
        normals = normals.written()
    if isinstance(normals, TensorRows):
        arrays = {"start": normals.start, **_arrays_of("extra", normals.pairwise)}
        arrays |= _arrays_of("coefficients", normals.coefficients)
        normals = normals.points
    return arrays | _arrays_of("points", normals)


def _arrays_of(name: str, table: Matrix) -> dict[str, np.ndarray]:
    """Return a dense array under its name, and a CSR matrix as its parts."""
    if not sp.issparse(table):
        return {name: table}
    rows = sp.csr_matrix(table)
    parts = {"data": rows.data, "indices": rows.indices, "indptr": rows.indptr}
    parts["shape"] = np.array(rows.shape)
    return {f"{name} {part}": found for part, found in parts.items()}


def _matrix_of(name: str, arrays: dict[str, np.ndarray]) -> Matrix:
    """Return the matrix that `_arrays_of` stored."""
    if name in arrays:
        return arrays[name]
    parts = tuple(arrays[f"{name} {part}"] for part in ("data", "indices", "indptr"))
    table = sp.csr_matrix(parts, shape=tuple(arrays[f"{name} shape"]))
    check_indices("the planes of a checkpoint", table)
    return table


def _unpacked_rows(objective: Objective, arrays: dict[str, np.ndarray]) -> Normals:
    space: Any = objective.space
    if "which" in arrays:
        return made_rows(_bounds(objective)[0], space, arrays["which"], arrays["coefficients"])
    if "labels" in arrays:
        blocks, labels, edits = (arrays[name] for name in ("labeled", "labels", "edits"))
        low, high = arrays["factors"].tolist()
        return labeled_rows(_worst_cases(objective)[0], space, blocks, labels, edits, (low, high))
    normals = _matrix_of("points", arrays)
    if "start" in arrays:
        coefficients, extra = _matrix_of("coefficients", arrays), _matrix_of("extra", arrays)
        return TensorRows(normals, coefficients, arrays["start"], extra)
    return normals
