"""Compression of kernel models to fewer support vectors, with changes of scores."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from sklearn.base import clone

from ..kernels.indefinite import min_eigenvalue, rounding_of
from ..solvers import Status
from ..spaces.reduced_sets import (
    TargetExpansion,
    best_coefficients,
    chosen_atoms,
    has_gradients,
    largest_change,
    moved_points,
)
from ..terms import Objective
from ..utils.fitted_state import learned_attributes
from ..utils.parameters import check_integer, check_number
from ..utils.resources import check_memory

if TYPE_CHECKING:
    from .support_vectors import SupportVectorMachine

Model = TypeVar("Model", bound="SupportVectorMachine")

POINTS = ("auto", "chosen", "moved")
# Number of matrices (support vectors times points, single precision) in memory while points move.
TABLES_AT_ONCE = 5
# Maximum number of support vectors in the test of a kernel for negative eigenvalues.
ATOMS_TESTED = 2000
# Gaps of small objectives are relative to this fraction of the objective at zero.
LEAST_SHARE = 1e-12


def compressed(
    model: Model, tol: float | None, n_support: int | None, points: str, max_iter: int
) -> Model:
    """Return a copy with fewer support vectors, as described in `compress`."""
    moving = _check_compression(model, tol, n_support, points, max_iter)
    n_before = len(model.support_)
    if n_support is not None and n_before <= n_support:
        return _copied(model)
    most = n_before if n_support is None else int(n_support)
    check_compression_memory(n_before, most, moving)
    whole = TargetExpansion.of(model.kernel_, model._atoms(), model.dual_coef_.T)
    least = 0.0 if tol is None else float(tol) ** 2 * _squared_norm(model, whole)
    kept = np.sort(chosen_atoms(whole, most, least)[0])
    if len(kept) == n_before:
        return _copied(model)
    places = whole.points[kept]
    if moving and len(kept):
        places = moved_points(whole, places, int(max_iter))
    return _shortened(model, whole, kept, places, n_support is not None)


def compressed_with_value(model: Model, objective: Objective, n_support: int) -> Model:
    """Return a compressed copy whose solution has the value of the objective."""
    smaller = model.compress(n_support=n_support)
    space: Any = objective.space
    value = objective.value(smaller._in(space)).upper
    gap = value - smaller.solution_.dual
    scale = max(value, LEAST_SHARE * objective.at_zero.upper)
    smaller.solution_ = replace(
        smaller.solution_, primal=value, gap=gap, relative_gap=gap / scale if scale > 0 else 0.0
    )
    return smaller


def _check_compression(model: Any, tol: Any, n_support: Any, points: Any, max_iter: Any) -> bool:
    """Raise if an argument is not valid; return True if points are to be moved."""
    if (tol is None) == (n_support is None):
        raise ValueError(
            f"either tol or n_support must be given, got tol={tol!r} and n_support={n_support!r}"
        )
    if tol is not None:
        check_number("tol", tol)
        if tol >= 1:
            raise ValueError(f"tol must be below 1, since 1 allows the zero function, got {tol!r}")
    else:
        check_integer("n_support", n_support)
    check_integer("max_iter", max_iter)
    if not isinstance(points, str) or points not in POINTS:
        raise ValueError(f"points must be one of {list(POINTS)}, got {points!r}")
    if "support_" not in vars(model):
        raise ValueError(
            "compress requires support vectors, but a model with kernel='linear' has weights: use "
            "another kernel, such as 'rbf'"
        )
    _check_norm(model)
    possible = has_gradients(model.kernel_)
    if points == "moved" and tol is not None:
        raise ValueError("points='moved' requires n_support, got tol: pass n_support instead of tol")
    if points == "moved" and not possible:
        raise ValueError(
            f"points='moved' requires a kernel with first derivatives, got {model.kernel_!r}"
        )
    return points != "chosen" and tol is None and possible


def _check_norm(model: SupportVectorMachine) -> None:
    """Raise ValueError if the kernel has an eigenvalue below 0 on the support vectors."""
    if model.kernel_.definite or not len(model.support_):
        return
    atoms = model._atoms()
    some = np.linspace(0, len(atoms) - 1, min(len(atoms), ATOMS_TESTED)).astype(int)
    least, largest = min_eigenvalue(model.kernel_, atoms[some])
    if least < -rounding_of(model.dual_coef_.dtype) * largest:
        raise ValueError(
            "compress requires a positive semi-definite kernel, but the eigenvalues of "
            f"{model.kernel_!r} on the support vectors go from {least:.3g} to {largest:.3g}. Fit with "
            "structinv.kernels.psd_corrected(kernel, X)"
        )


def _shortened(
    model: Model, whole: TargetExpansion, kept: np.ndarray, places: np.ndarray, by_scores: bool
) -> Model:
    """Return a copy of the model whose support vectors are `places`, the replacements of `kept`."""
    points = places.astype(model._atoms().dtype)
    # The error is computed for the rounded points of the copy.
    places = points.astype(np.float64)
    some, new = best_coefficients(whole, places, by_scores)
    new = new.astype(model.dual_coef_.dtype)
    other = _copied(model)
    other._take_support(kept[some], points[some], new)
    other.compression_error_ = largest_change(whole, places[some], new)
    f: Any = other._expansion(other._parameters)[1]
    other.solution_ = replace(
        model.solution_, f=f, primal=np.inf, gap=np.inf, relative_gap=np.inf,
        status=Status.COMPRESSED, dual_variables=[],
    )  # fmt: skip
    return other


def _copied(model: Model) -> Model:
    """Return an independent copy with the same solution, since solutions are never changed."""
    other: Any = clone(model)
    for name, value in learned_attributes(model).items():
        setattr(other, name, value if name == "solution_" else deepcopy(value))
    return other


def _squared_norm(model: SupportVectorMachine, whole: TargetExpansion) -> float:
    """Return the squared norm of the whole function, with representers."""
    if model._representers_ is None:
        return whole.squared_norm
    space, f = model._expansion()
    return float(space.dot(f, f))


def check_compression_memory(n_before: int, most: int, moving: bool) -> None:
    """Raise MemoryError if the matrices of a compression exceed the free memory."""
    needed = 8.0 * n_before * most * 2
    if moving:
        needed = max(needed, 4.0 * TABLES_AT_ONCE * (n_before + most) * most)
    what = f"compressing {n_before} support vectors to at most {most}"
    check_memory(what, needed, "pass a smaller n_support, or fit with plane_tol above 0")
