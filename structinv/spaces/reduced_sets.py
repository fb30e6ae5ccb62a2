"""Kernel expansions with fewer atoms: which of them to keep, and with which coefficients."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import lapack, solve_triangular

from ..kernels import Kernel
from ..kernels.checked_kernel import kernel_diagonal, kernel_matrix
from ..kernels.values import half_norms, squared_norms
from .kernel_tiles import expand

# How much the squared norm of the difference counts beside the squared changes of scores at the old
# atoms, times the mean of k(z, z).
SHARE_OF_NORM = 0.1
# Atoms are chosen in blocks of so many steps, each among so many atoms.
STEPS_OF_A_BLOCK = 16
SEEN_BY_A_BLOCK = 96


@dataclass(frozen=True)
class TargetExpansion:
    """``f = sum_j coefficients_j k(z_j, .)``, for which fewer atoms are to stand, and its own values.

    Parameters
    ----------
    kernel : Kernel
    points : (n, n_features) array
        The atoms z_j, in float64.
    coefficients : (n, n_outputs) array
        In float64.
    values : (n, n_outputs) array
        ``f(z_j)``.
    """

    kernel: Kernel
    points: np.ndarray
    coefficients: np.ndarray
    values: np.ndarray

    @classmethod
    def of(cls, kernel: Kernel, points: np.ndarray, coefficients: np.ndarray) -> TargetExpansion:
        """The function, with its values looked up."""
        points, coefficients = points.astype(np.float64), coefficients.astype(np.float64)
        return cls(kernel, points, coefficients, expand(kernel, points, points, coefficients))

    @property
    def squared_norm(self) -> float:
        """``|f|^2``, summed over the outputs."""
        return float(np.sum(self.coefficients * self.values))

    @property
    def share_of_norm(self) -> float:
        """What a squared distance counts beside squared changes of the values."""
        return SHARE_OF_NORM * float(np.mean(kernel_diagonal(self.kernel, self.points)))


def chosen_atoms(f: TargetExpansion, most: int, least: float = 0.0) -> tuple[np.ndarray, float]:
    """Atoms of f whose span comes near it, in the order chosen.

    Each step takes the atom by which the squared distance of f from the span, summed over the outputs,
    shrinks most: orthogonal least squares in the kernel's space, by rows of a pivoted Cholesky factor
    (Smola and Schoelkopf 2000). An atom at distance h from the span, and with residuals r of f there,
    gains ``|r|^2 / h^2``. The steps of a block see the atoms that gained most before it; all others
    hear of them together, by products of matrices. Atoms that depend on those chosen but for rounding
    are left out.

    Parameters
    ----------
    f : Whole
    most : int
        How many atoms to choose at most.
    least : float, default=0.0
        The squared distance, summed over the outputs, at which it is near enough.

    Returns
    -------
    atoms : (m,) array of int
    left : float
        The squared distance that is left, as the steps carry it along.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.kernels import Linear
    >>> points = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    >>> atoms, left = chosen_atoms(TargetExpansion.of(Linear(), points, np.ones((3, 1))), 1)
    >>> atoms.tolist(), round(left, 12)
    ([2], 0.0)
    """
    kernel, points = f.kernel, f.points
    n, norms = len(points), half_norms(points)
    residuals, left = f.values.copy(), f.squared_norm
    heights = kernel_diagonal(kernel, points).astype(np.float64)
    values = kernel_matrix(kernel, points[:1], points[:1])
    dependent = n * float(np.finfo(values.dtype).eps) * np.max(heights, initial=0.0)
    factor = np.empty((min(most, n), n))
    found = np.zeros(0, dtype=np.intp)
    while len(found) < most and left > least:
        gains = np.sum(residuals**2, axis=1) / np.where(heights > dependent, heights, np.inf)
        seen = np.argsort(-gains, kind="stable")[:SEEN_BY_A_BLOCK]
        seen = seen[gains[seen] > 0]
        if not len(seen):
            break
        known = factor[: len(found)]
        square = kernel_matrix(kernel, points[seen], points[seen]) - known[:, seen].T @ known[:, seen]
        count = min(STEPS_OF_A_BLOCK, most - len(found))
        steps, left = _steps(square, residuals[seen], count, left, least, dependent)
        atoms = seen[steps]
        rows = kernel_matrix(kernel, points[atoms], points, (norms[atoms], norms))
        rows = rows - known[:, atoms].T @ known
        corner = np.linalg.cholesky(square[np.ix_(steps, steps)])
        rows = solve_triangular(corner, rows, lower=True, check_finite=False)
        shares = solve_triangular(corner, residuals[atoms], lower=True, check_finite=False)
        residuals -= rows.T @ shares
        heights -= np.sum(rows**2, axis=0)
        heights[atoms] = -np.inf
        factor[len(found) : len(found) + len(atoms)] = rows
        found = np.concatenate([found, atoms])
    return found, max(left, 0.0)


def _steps(
    square: np.ndarray,
    residuals: np.ndarray,
    count: int,
    left: float,
    least: float,
    dependent: float,
) -> tuple[np.ndarray, float]:
    """Some steps of `chosen_atoms` among the atoms seen: at least one, and the distance left then."""
    square, residuals = square.copy(), residuals.copy()
    found: list[int] = []
    for _ in range(count):
        heights = np.diagonal(square)
        gains = np.sum(residuals**2, axis=1) / np.where(heights > dependent, heights, np.inf)
        best = int(np.argmax(gains))
        if found and (gains[best] <= 0 or left <= least):
            break
        found.append(best)
        left -= float(gains[best])
        row = square[best] / heights[best]
        residuals -= np.outer(row, residuals[best])
        square -= np.outer(row, square[best])
        square[best, best] = -np.inf
    return np.array(found, dtype=np.intp), left


def best_coefficients(
    f: TargetExpansion, points: np.ndarray, by_scores: bool
) -> tuple[np.ndarray, np.ndarray]:
    """The coefficients over some points that come nearest to f, in one of two senses.

    By the norm, g is f's projection on the span of the points: ``K_SS beta = K_SZ coefficients``. By
    the scores, g is the least of ``sum_j |g(z_j) - f(z_j)|^2 + c |g - f|^2`` over the old atoms z_j, a
    regression on f's own values; c is `SHARE_OF_NORM` times the mean of k(z, z). Both are solved in an
    orthonormal basis of the span, where they are well conditioned.

    Parameters
    ----------
    f : Whole
    points : (m, n_features) array
        In float64.
    by_scores : bool

    Returns
    -------
    kept : (k,) array of int
        Which of the points have coefficients, ascending: those that do not depend on others but for
        rounding.
    new : (k, n_outputs) array
    """
    factor, kept = _independent(kernel_matrix(f.kernel, points, points))
    across = kernel_matrix(f.kernel, f.points, points[kept]).astype(np.float64)
    # The values at the old atoms of an orthonormal basis of the span.
    basis = solve_triangular(factor, across.T, lower=True, check_finite=False)
    nearest = basis @ f.coefficients
    if by_scores:
        share = f.share_of_norm
        system = basis @ basis.T
        system[np.diag_indices_from(system)] += share
        nearest = np.linalg.solve(system, basis @ f.values + share * nearest)
    new = solve_triangular(factor, nearest, lower=True, trans="T", check_finite=False)
    order = np.argsort(kept)
    return kept[order], new[order]


def _independent(square: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A Cholesky factor over a largest set of points that do not depend on one another, and the set."""
    if not len(square):
        return square, np.zeros(0, dtype=np.intp)
    threshold = len(square) * float(np.finfo(square.dtype).eps) * float(np.max(np.diagonal(square)))
    factor, order, rank, _ = lapack.dpstrf(square.astype(np.float64), tol=threshold, lower=True)
    return np.tril(factor[:rank, :rank]), order[:rank] - 1


def norm_of_difference(f: TargetExpansion, points: np.ndarray, new: np.ndarray) -> float:
    """An upper bound of ``|f - g|``, of all outputs jointly: what is computed, and its rounding.

    Parameters
    ----------
    f : Whole
    points : (m, n_features) array
        In float64.
    new : (m, n_outputs) array
        The coefficients of g over these.
    """
    kernel, new = f.kernel, new.astype(np.float64)
    across, square = kernel_matrix(kernel, f.points, points), kernel_matrix(kernel, points, points)
    # With f - g at the atoms of both.
    squares = np.sum(f.coefficients * (f.values - across @ new), axis=0)
    squares -= np.sum(new * (across.T @ f.coefficients - square @ new), axis=0)
    both, sizes = np.concatenate([f.points, points]), np.abs(np.concatenate([f.coefficients, new]))
    heights = np.sqrt(kernel_diagonal(kernel, both).astype(np.float64)) @ sizes
    slope = kernel.lipschitz(both.shape[1])
    slope = slope if np.isfinite(slope) else 0.0
    # Values of functions of distances are off by what |x|^2 + |y|^2 - 2 <x, y> cancels.
    lengths = 2.0 * slope**2 * sizes.sum(axis=0) * (squared_norms(both) @ sizes)
    terms = 16.0 + np.sqrt(both.shape[1]) + np.sqrt(len(both))
    rounding = float(np.finfo(across.dtype).eps) * (terms * heights**2 + lengths)
    return float(np.sqrt(np.sum(np.maximum(squares, 0.0) + rounding)))
