"""Kernel expansions with fewer atoms: which of them to keep, and with which coefficients."""

from __future__ import annotations

import numpy as np
from scipy.linalg import lapack, solve_triangular

from ..kernels import Kernel, half_norms, kernel_diagonal, kernel_lipschitz, kernel_matrix, squared_norms
from .atoms import expand

# How much the squared norm of the difference counts beside the squared changes of scores at the old
# atoms, times the mean of k(z, z).
SHARE_OF_NORM = 0.1


class Columns:
    """Columns of the kernel among points, from a table where there is room for it.

    Parameters
    ----------
    kernel : Kernel
    points : (n, n_features) array
        In float64.
    room : float
        Bytes that the table may take.
    """

    def __init__(self, kernel: Kernel, points: np.ndarray, room: float) -> None:
        self.kernel, self.points = kernel, points
        self.norms = half_norms(points)
        self.diagonal = kernel_diagonal(kernel, points).astype(np.float64)
        self.table: np.ndarray | None = None
        if 8.0 * len(points) ** 2 <= room:
            self.table = kernel_matrix(kernel, points, points, (self.norms, self.norms))

    def column(self, j: int) -> np.ndarray:
        """The kernel between point j and all points, (n,)."""
        if self.table is not None:
            return self.table[j]
        one = slice(j, j + 1)
        return kernel_matrix(self.kernel, self.points[one], self.points, (self.norms[one], self.norms))[
            0
        ]

    def product(self, coefficients: np.ndarray) -> np.ndarray:
        """``sum_j coefficients_j k(z_j, z_i)``, (n, n_outputs)."""
        if self.table is not None:
            return self.table @ coefficients.astype(self.table.dtype)
        return expand(self.kernel, self.points, self.points, coefficients)


def chosen_atoms(
    columns: Columns, coefficients: np.ndarray, most: int, least: float = 0.0
) -> tuple[np.ndarray, float]:
    """Atoms whose span comes near ``f = sum_j coefficients_j k(z_j, .)``, in the order chosen.

    Each step takes the atom by which the squared distance of f from the span, summed over the outputs,
    shrinks most: orthogonal least squares in the kernel's space, by columns of a pivoted Cholesky factor
    (Smola and Schoelkopf 2000). An atom with coordinate v in the factor's next column and residual r at
    it gains ``|r|^2 / v^2``. Atoms that depend on those chosen but for rounding are left out.

    Parameters
    ----------
    columns : Columns
    coefficients : (n, n_outputs) array
    most : int
        How many atoms to choose at most.
    least : float, default=0.0
        The squared distance, summed over the outputs, at which it is near enough.

    Returns
    -------
    atoms : (m,) array of int
    left : float
        The squared distance that is left, as the steps carry it along.
    """
    residuals = columns.product(coefficients).astype(np.float64)
    left = float(np.sum(coefficients * residuals))
    height = columns.diagonal.copy()
    eps = np.finfo(np.float64 if columns.table is None else columns.table.dtype).eps
    dependent = len(height) * eps * np.max(height, initial=0.0)
    factor = np.empty((min(most, len(height)), len(height)))
    found: list[int] = []
    while len(found) < most and left > least:
        gains = np.full(len(height), -1.0)
        free = height > dependent
        gains[free] = np.sum(residuals[free] ** 2, axis=1) / height[free]
        best = int(np.argmax(gains)) if len(gains) else 0
        if not np.any(free) or gains[best] <= 0:
            break
        known = factor[: len(found)]
        row = (columns.column(best) - known[:, best] @ known) / np.sqrt(height[best])
        share = residuals[best] / row[best]
        residuals -= np.outer(row, share)
        height -= row**2
        height[best] = -np.inf
        factor[len(found)] = row
        found.append(best)
        left -= float(share @ share)
    return np.array(found, dtype=np.intp), max(left, 0.0)


def best_coefficients(
    kernel: Kernel,
    points: np.ndarray,
    old: np.ndarray,
    coefficients: np.ndarray,
    by_scores: bool,
) -> tuple[np.ndarray, np.ndarray]:
    """The coefficients over some points that come nearest to f, in one of two senses.

    By the norm, g is f's projection on the span of the points: ``K_SS beta = K_SZ coefficients``. By
    the scores, g is the least of ``sum_j |g(z_j) - f(z_j)|^2 + c |g - f|^2`` over the old atoms z_j, a
    regression on f's own values; c is `SHARE_OF_NORM` times the mean of k(z, z). Both are solved in an
    orthonormal basis of the span, where they are well conditioned.

    Parameters
    ----------
    kernel : Kernel
    points : (m, n_features) array
        In float64, like `old`.
    old : (n, n_features) array
        The atoms of f.
    coefficients : (n, n_outputs) array
        Those of f.
    by_scores : bool

    Returns
    -------
    kept : (k,) array of int
        Which of the points have coefficients: those that do not depend on others but for rounding.
    new : (k, n_outputs) array
    """
    square = kernel_matrix(kernel, points, points).astype(np.float64)
    factor, kept = _independent(square, np.finfo(np.float64).eps)
    across = kernel_matrix(kernel, old, points[kept]).astype(np.float64)
    # The values at the old atoms of an orthonormal basis of the span.
    basis = solve_triangular(factor, across.T, lower=True, check_finite=False)
    nearest = basis @ coefficients
    if by_scores:
        share = SHARE_OF_NORM * float(np.mean(kernel_diagonal(kernel, old)))
        values = expand(kernel, old, old, coefficients)
        system = basis @ basis.T
        system[np.diag_indices_from(system)] += share
        nearest = np.linalg.solve(system, basis @ values + share * nearest)
    return kept, solve_triangular(factor, nearest, lower=True, trans="T", check_finite=False)


def _independent(square: np.ndarray, eps: float) -> tuple[np.ndarray, np.ndarray]:
    """A Cholesky factor over a largest set of points that do not depend on one another, and the set."""
    if not len(square):
        return square, np.zeros(0, dtype=np.intp)
    threshold = len(square) * eps * float(np.max(np.diagonal(square)))
    factor, order, rank, _ = lapack.dpstrf(square, tol=threshold, lower=True)
    return np.tril(factor[:rank, :rank]), order[:rank] - 1


def norm_of_difference(
    kernel: Kernel, points: np.ndarray, coefficients: np.ndarray, eps: float
) -> float:
    """An upper bound of ``|sum_j coefficients_j k(z_j, .)|``, of all outputs jointly, rounding added.

    Parameters
    ----------
    kernel : Kernel
    points : (n, n_features) array
    coefficients : (n, n_outputs) array
    eps : float
        The unit of the precision in which the kernel's values are known.
    """
    used = np.any(coefficients != 0, axis=1)
    points, coefficients = points[used], coefficients[used].astype(np.float64)
    if not len(points):
        return 0.0
    values = expand(kernel, points, points, coefficients)
    sizes = np.abs(coefficients)
    norms = np.sqrt(kernel_diagonal(kernel, points).astype(np.float64))
    heights = norms @ sizes
    slope = kernel_lipschitz(kernel, points.shape[1])
    slope = slope if np.isfinite(slope) else 0.0
    # Values of functions of distances are off by what |x|^2 + |y|^2 - 2 <x, y> cancels.
    lengths = 2.0 * slope**2 * sizes.sum(axis=0) * (squared_norms(points) @ sizes)
    terms = 16.0 + np.sqrt(points.shape[1]) + np.sqrt(len(points))
    rounding = eps * (terms * heights**2 + lengths)
    return float(np.sqrt(np.sum(np.maximum(np.sum(coefficients * values, axis=0), 0.0) + rounding)))
