"""Format of model files, and conversion of older formats."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..embeddings import OrbitFourier, OrbitNystroem, PatchOrbits
from ..embeddings.distributions import GroupCDF
from ..embeddings.image_changes import ImageChanges
from ..estimators import InvariantStructuredSVC, InvariantSVC, InvariantSVR
from ..kernels import OrbitDistance, OrbitMean, TangentDistributionKernel
from ..losses import CvxpyLoss
from ..oracles import Offset, Rotations, Scalings, Segment, Shears, Shifts, Trajectory
from ..oracles.images.image_curves import ImageCurve
from ..solvers import FrankWolfe, Representer, Solution, Status, SVMStruct
from ..spaces.tensor_rows import TensorRows
from ..structures import Multilabel
from ..terms.planes import PlaneSet
from ..utils.matrices import dense

# The format that this version writes. It reads all formats up to this one.
FORMAT = 5
# Up to this format the weights of several outputs were stored output by output.
LAST_BY_OUTPUT = 2
# Up to this format parameters and attributes had the names on the left of `_RENAMED`.
LAST_OLD_NAMES = 4

_PATCHES = {"size": "patch_size", "draws": "n_draws", "whole_draws": "n_whole_draws"}
_DRAWS = {"size": "n_draws", "size_": "n_draws_"}
_IMAGES = {"between": "interval", "grid": "resolution"}
_BUDGET = {"budget": "max_support_vectors"}
_EIGENVALUE = {"least_eigenvalue": "min_eigenvalue", "least_eigenvalue_": "min_eigenvalue_"}
# Former and current names, for a class and its subclasses.
_RENAMED: dict[type, dict[str, str]] = {
    **dict.fromkeys((FrankWolfe, SVMStruct, Representer), {"epsilon": "plane_tol"}),
    InvariantSVC: {"epsilon": "plane_tol", **_BUDGET},
    InvariantSVR: _BUDGET,
    InvariantStructuredSVC: {"epsilon": "plane_tol", "_extra_": "_pairwise_"},
    **dict.fromkeys((OrbitMean, OrbitDistance, OrbitFourier, OrbitNystroem, GroupCDF), _DRAWS),
    ImageChanges: _DRAWS,
    PatchOrbits: _PATCHES,
    **dict.fromkeys((Rotations, Scalings, Shears, Shifts), _IMAGES),
    **dict.fromkeys((Segment, Offset, Trajectory, ImageCurve), {"grid": "resolution"}),
    TangentDistributionKernel: {"normalised": "normalized"},  # codespell:ignore
    object: _EIGENVALUE,
    TensorRows: {"extra": "pairwise"},
    PlaneSet: {"masses": "alphas"},
    Solution: {"rows_asked": "oracle_calls"},
    CvxpyLoss: {"floor": "lower_bound"},
    Multilabel: {"pairwise": "edges"},
}
# Parameters with two values that were stored as a tuple.
_VALUES: dict[type, str] = {
    Rotations: "degrees",
    Scalings: "factors",
    Shears: "factors",
    Shifts: "pixels",
}


def renamed(kind: type, values: dict[str, Any]) -> dict[str, Any]:
    """Rename parameters or attributes from a file of format 4 or before."""
    names: dict[str, str] = {}
    for base in kind.__mro__:
        names |= _RENAMED.get(base, {})
    values = {names.get(key, key): value for key, value in values.items()}
    for base, key in _VALUES.items():
        if issubclass(kind, base) and isinstance(values.get(key), tuple):
            values[key] = list(values[key])
    return values


def status(value: str) -> Status:
    """Return a status from its text, also from files of format 4 or before."""
    return Status("within plane_tol" if value == "within epsilon" else value)


def by_feature(learned: dict[str, Any]) -> dict[str, Any]:
    """Reorder the weights of several outputs by feature instead of by output."""
    coef, solution = learned.get("coef_"), learned.get("solution_")
    if not isinstance(coef, np.ndarray) or coef.ndim != 2 or len(coef) == 1:
        return learned
    changed, n_outputs = dict(learned), len(coef)
    if solution is not None:
        planes = solution.planes
        if planes is not None and _is_flat(planes.normals):
            planes = replace(planes, normals=_reordered(planes.normals, n_outputs))
        changed["solution_"] = replace(
            solution, f=_reordered(solution.f[None], n_outputs)[0], planes=planes
        )
    stream = learned.get("_stream_")
    if stream is not None:
        sums = stream.sums
        f, mean = (_reordered(each[None], n_outputs)[0] for each in (sums.f, sums.mean))
        changed["_stream_"] = replace(stream, sums=replace(sums, f=f, mean=mean))
    return changed


def _is_flat(normals: Any) -> bool:
    return isinstance(normals, np.ndarray) or sp.issparse(normals)


def _reordered(rows: Any, n_outputs: int) -> np.ndarray:
    """Reorder rows of shape (m, n_outputs x n) from output by output to feature by feature."""
    values = dense(rows)
    return values.reshape(len(values), n_outputs, -1).swapaxes(1, 2).reshape(len(values), -1)
