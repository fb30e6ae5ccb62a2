"""A dual point as arrays, for files: members' numbers, labelings, slopes of penalties, else points."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from ..dual.labeled_rows import LabeledRows, labeled_rows
from ..dual.linear_member_state import made_rows
from ..oracles.listing import listed
from ..spaces import KernelSpace
from ..spaces.base import Element, Normals
from ..spaces.tensor_rows import ComputedRows, MemberRows, TensorRows
from ..terms import Objective, WorstCase
from ..terms.planes import PlaneSet
from ..utils.matrices import Matrix

# Names of arrays that hold the slopes of a block begin like this.
SLOPES = "slopes "


def packed(objective: Objective, f: Element, planes: PlaneSet) -> dict[str, np.ndarray]:
    """An element and planes of an objective as arrays.

    The plane of a penalty whose slopes are known is left to these.
    """
    slopes = {f"{SLOPES}{block}": own for block, own in planes.slopes.items()}
    planes = planes.chosen(np.flatnonzero(~np.isin(planes.blocks, list(planes.slopes))))
    arrays = {"offsets": planes.offsets, "blocks": planes.blocks, "masses": planes.masses, **slopes}
    for name, extra in (("summed", planes.summed), ("passes", planes.passes)):
        if extra is not None:
            arrays[name] = extra
    space = objective.space
    if not isinstance(space, KernelSpace):
        return {**arrays, "f": f, **_packed_rows(planes.normals)}
    found = space.packed(f, planes.normals)
    # Pools are numbered as they were made; terms are where they were.
    owners = np.full(1 + len(space.atoms.pools), -1)
    for number, bound in reversed(list(enumerate(_bounds(objective)))):
        owners[space.atoms.pool(listed(bound)).number] = number
    return {**arrays, **found, "pools": owners[found["pools"]]}


def unpacked(objective: Objective, arrays: dict[str, np.ndarray]) -> tuple[Element, PlaneSet]:
    """What `packed` was given, of an objective on the same rows; in a kernel's space of its own.

    Planes that slopes tell are missing; see `structinv.solvers.warm_start.carried`.
    """
    f: Element
    normals: Normals
    if isinstance(objective.space, KernelSpace):
        f, normals = objective.space.unpacked(arrays, _points(objective, arrays))
    else:
        f, normals = arrays["f"], _unpacked_rows(objective, arrays)
    slopes = {int(name[len(SLOPES) :]): own for name, own in arrays.items() if name.startswith(SLOPES)}
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
    """The terms that have an oracle."""
    return [term for term in objective.terms if isinstance(term, WorstCase)]


def _bounds(objective: Objective) -> list[Any]:
    """The bound oracles of the terms that have one."""
    return [term.bound for term in _worst_cases(objective)]


def _points(objective: Objective, arrays: dict[str, np.ndarray]) -> np.ndarray:
    """The points of an expansion: members made anew, and those that are none."""
    owners, origins, others = arrays["pools"], arrays["origins"], arrays["points"]
    points = np.empty((len(owners), others.shape[1]), dtype=others.dtype)
    points[owners < 0] = others
    for number, bound in enumerate(_bounds(objective)):
        mine = np.flatnonzero(owners == number)
        if len(mine):
            rows, members = origins[mine].T
            # A third-party oracle may list fewer by now: any member will do, as planes are checked.
            changes = listed(bound)
            points[mine] = changes.points(rows, np.minimum(members, changes.size - 1))
    return points


def _packed_rows(normals: Any) -> dict[str, np.ndarray]:
    """Normals of linear functions."""
    if isinstance(normals, MemberRows):
        # Numbers of members say it all.
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
        arrays = {"start": normals.start, **_flat("extra", normals.pairwise)}
        arrays |= _flat("coefficients", normals.coefficients)
        normals = normals.points
    return arrays | _flat("points", normals)


def _flat(name: str, table: Matrix) -> dict[str, np.ndarray]:
    """An array under its name, a CSR matrix as its parts."""
    if not sp.issparse(table):
        return {name: table}
    rows = sp.csr_matrix(table)
    parts = {"data": rows.data, "indices": rows.indices, "indptr": rows.indptr}
    parts["shape"] = np.array(rows.shape)
    return {f"{name} {part}": found for part, found in parts.items()}


def _whole(name: str, arrays: dict[str, np.ndarray]) -> Matrix:
    """What `_flat` took apart."""
    if name in arrays:
        return arrays[name]
    parts = tuple(arrays[f"{name} {part}"] for part in ("data", "indices", "indptr"))
    return sp.csr_matrix(parts, shape=tuple(arrays[f"{name} shape"]))


def _unpacked_rows(objective: Objective, arrays: dict[str, np.ndarray]) -> Normals:
    space: Any = objective.space
    if "which" in arrays:
        return made_rows(_bounds(objective)[0], space, arrays["which"], arrays["coefficients"])
    if "labels" in arrays:
        blocks, labels, edits = (arrays[name] for name in ("labeled", "labels", "edits"))
        low, high = arrays["factors"].tolist()
        return labeled_rows(_worst_cases(objective)[0], space, blocks, labels, edits, (low, high))
    normals = _whole("points", arrays)
    if "start" in arrays:
        coefficients, extra = _whole("coefficients", arrays), _whole("extra", arrays)
        return TensorRows(normals, coefficients, arrays["start"], extra)
    return normals
