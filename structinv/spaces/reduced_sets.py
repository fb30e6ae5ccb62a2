"""Compression of kernel expansions: chosen atoms, and moved points."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve, lapack, solve_triangular
from scipy.optimize import fmin_l_bfgs_b

from ..functionals.gram import partials_between
from ..kernels import Kernel
from ..kernels.kernel_values import half_norms, kernel_diagonal, kernel_matrix
from .kernel_tiles import expand

# Weight of ``|g - f|^2`` in the score criterion of `best_coefficients`, as a fraction of the mean of
# k(z, z).
SHARE_OF_NORM = 0.1
# Number of steps in a block, and number of candidate atoms of a block.
STEPS_OF_A_BLOCK = 16
SEEN_BY_A_BLOCK = 96


@dataclass(frozen=True)
class TargetExpansion:
    """Kernel expansion to approximate with fewer atoms, with its values at the atoms.

    - `points` (n, n_features): atoms z_j
    - `coefficients` (n, n_outputs): coefficients of ``f = sum_j coefficients_j k(z_j, .)``
    - `values` (n, n_outputs): ``f(z_j)``
    """

    kernel: Kernel
    points: np.ndarray
    coefficients: np.ndarray
    values: np.ndarray

    @classmethod
    def of(cls, kernel: Kernel, points: np.ndarray, coefficients: np.ndarray) -> TargetExpansion:
        """Return the expansion with computed values."""
        points, coefficients = points.astype(np.float64), coefficients.astype(np.float64)
        return cls(kernel, points, coefficients, expand(kernel, points, points, coefficients))

    @property
    def squared_norm(self) -> float:
        """``|f|^2``, summed over the outputs."""
        return float(np.sum(self.coefficients * self.values))

    @property
    def share_of_norm(self) -> float:
        """Weight of a squared distance relative to squared changes of the values."""
        return SHARE_OF_NORM * float(np.mean(kernel_diagonal(self.kernel, self.points)))


def chosen_atoms(f: TargetExpansion, most: int, least: float = 0.0) -> tuple[np.ndarray, float]:
    """Select atoms of f whose span is close to f, in order of selection.

    Each step selects the atom that reduces the squared distance of f from the span most, summed over the
    outputs. This is orthogonal least squares in the kernel's space, by rows of a pivoted Cholesky factor
    (Smola and Schoelkopf 2000). An atom at distance h from the span, with residuals r of f there,
    reduces the squared distance by ``|r|^2 / h^2``. The steps of a block choose among the atoms with the
    largest reductions at its start. The other atoms are updated after the block, by matrix products.
    Atoms in the span, up to rounding errors, are never selected.

    Returns `atoms` (m,).
    """
    kernel, points = f.kernel, f.points
    n, norms = len(points), half_norms(points)
    residuals, squared_distance = f.values.copy(), f.squared_norm
    # Squared distances of the atoms from the span.
    distances = kernel_diagonal(kernel, points).astype(np.float64)
    values = kernel_matrix(kernel, points[:1], points[:1])
    dependent = n * float(np.finfo(values.dtype).eps) * np.max(distances, initial=0.0)
    factor = np.empty((min(most, n), n))
    selected = np.zeros(0, dtype=np.intp)
    while len(selected) < most and squared_distance > least:
        reductions = np.sum(residuals**2, axis=1) / np.where(distances > dependent, distances, np.inf)
        candidates = np.argsort(-reductions, kind="stable")[:SEEN_BY_A_BLOCK]
        candidates = candidates[reductions[candidates] > 0]
        if not len(candidates):
            break
        factor_rows = factor[: len(selected)]
        square = kernel_matrix(kernel, points[candidates], points[candidates])
        square = square - factor_rows[:, candidates].T @ factor_rows[:, candidates]
        count = min(STEPS_OF_A_BLOCK, most - len(selected))
        steps, squared_distance = _steps(
            square, residuals[candidates], count, squared_distance, least, dependent
        )
        atoms = candidates[steps]
        new_factor_rows = kernel_matrix(kernel, points[atoms], points, (norms[atoms], norms))
        new_factor_rows = new_factor_rows - factor_rows[:, atoms].T @ factor_rows
        candidate_factor = np.linalg.cholesky(square[np.ix_(steps, steps)])
        new_factor_rows = solve_triangular(
            candidate_factor, new_factor_rows, lower=True, check_finite=False
        )
        projections = solve_triangular(
            candidate_factor, residuals[atoms], lower=True, check_finite=False
        )
        residuals -= new_factor_rows.T @ projections
        distances -= np.sum(new_factor_rows**2, axis=0)
        distances[atoms] = -np.inf
        factor[len(selected) : len(selected) + len(atoms)] = new_factor_rows
        selected = np.concatenate([selected, atoms])
    return selected, max(squared_distance, 0.0)


def _steps(
    square: np.ndarray,
    residuals: np.ndarray,
    count: int,
    left: float,
    least: float,
    dependent: float,
) -> tuple[np.ndarray, float]:
    """Run steps of `chosen_atoms` among candidates, at least one.

    Return the selected candidates and the remaining squared distance.
    """
    square, residuals = square.copy(), residuals.copy()
    selected: list[int] = []
    for _ in range(count):
        distances = np.diagonal(square)
        reductions = np.sum(residuals**2, axis=1) / np.where(distances > dependent, distances, np.inf)
        best = int(np.argmax(reductions))
        if selected and (reductions[best] <= 0 or left <= least):
            break
        selected.append(best)
        left -= float(reductions[best])
        row = square[best] / distances[best]
        residuals -= np.outer(row, residuals[best])
        square -= np.outer(row, square[best])
        square[best, best] = -np.inf
    return np.array(selected, dtype=np.intp), left


def best_coefficients(
    f: TargetExpansion, points: np.ndarray, by_scores: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Return the coefficients over given points that approximate f best.

    The norm criterion projects f on the span of the points: ``K_SS beta = K_SZ coefficients``. The score
    criterion minimizes ``sum_j |g(z_j) - f(z_j)|^2 + c |g - f|^2`` over the old atoms z_j. This is a
    regression on the values of f; c is `SHARE_OF_NORM` times the mean of k(z, z). Both are solved in an
    orthonormal basis of the span, for numerical stability.

    Shapes: `points` (m, n_features); returns `kept` (k,), `new` (k, n_outputs).
    """
    factor, kept = _independent(kernel_matrix(f.kernel, points, points))
    across = kernel_matrix(f.kernel, f.points, points[kept]).astype(np.float64)
    # Values of an orthonormal basis of the span at the old atoms.
    basis = solve_triangular(factor, across.T, lower=True, check_finite=False)
    solution = basis @ f.coefficients
    if by_scores:
        share = f.share_of_norm
        system = basis @ basis.T
        system[np.diag_indices_from(system)] += share
        solution = np.linalg.solve(system, basis @ f.values + share * solution)
    new = solve_triangular(factor, solution, lower=True, trans="T", check_finite=False)
    order = np.argsort(kept)
    return kept[order], new[order]


def _independent(square: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return a Cholesky factor of a largest independent set of points, and the set."""
    if not len(square):
        return square, np.zeros(0, dtype=np.intp)
    threshold = len(square) * float(np.finfo(square.dtype).eps) * float(np.max(np.diagonal(square)))
    factor, order, rank, _ = lapack.dpstrf(square.astype(np.float64), tol=threshold, lower=True)
    return np.tril(factor[:rank, :rank]), order[:rank] - 1


def largest_change(f: TargetExpansion, points: np.ndarray, new: np.ndarray) -> float:
    """Return the largest difference of an output of f and g at the atoms of f.

    Shapes: `points` (m, n_features), `new` (m, n_outputs).
    """
    values = kernel_matrix(f.kernel, f.points, points) @ new.astype(np.float64)
    return float(np.max(np.abs(f.values - values), initial=0.0))


# Number of steps stored by L-BFGS; each has the size of all points.
STORED_STEPS = 10


def has_gradients(kernel: Kernel) -> bool:
    """Return True if the kernel has known first derivatives everywhere."""
    return (kernel.uses_distances or kernel.uses_products) and kernel.smoothness >= 1


def moved_points(f: TargetExpansion, start: np.ndarray, max_iter: int) -> np.ndarray:
    """Move points so that the scores of a reduced set approach those of f.

    This is reduced-set construction (Burges 1996) for scores. L-BFGS minimizes the ``sum_j |g(z_j) -
    f(z_j)|^2 + c |g - f|^2`` of `best_coefficients` over the points of g. The coefficients are the best
    ones for given points, so the sum is a function of the points only. Its gradient is that at the best
    coefficients.

    Shapes: `start` (m, n_features); returns (m, n_features).
    """
    # Single precision suffices for a descent direction. The caller recomputes the coefficients of the
    # final points.
    arrays = (each.astype(np.float32) for each in (f.points, f.coefficients, f.values))
    single = TargetExpansion(f.kernel, *arrays)

    def value(flat: np.ndarray) -> tuple[float, np.ndarray]:
        points = flat.reshape(start.shape).astype(np.float32)
        total, gradient = score_error(single, points, f.squared_norm, f.share_of_norm)
        return total, gradient.ravel().astype(np.float64)

    flat = start.astype(np.float64).ravel()
    points, _, _ = fmin_l_bfgs_b(value, flat, m=STORED_STEPS, maxiter=max_iter, maxfun=2 * max_iter + 10)
    return points.reshape(start.shape)


def score_error(
    f: TargetExpansion, points: np.ndarray, squared_norm: float, share: float
) -> tuple[float, np.ndarray]:
    """Return the squared error of the scores over these points, and its gradient.

    Shapes: `points` (m, n_features); returns a gradient (m, n_features).
    """
    across, square = _Table(f.kernel, f.points, points), _Table(f.kernel, points, points)
    right = across.values.T @ (f.values + share * f.coefficients)
    system = across.values.T @ across.values + share * square.values
    new = _solved(system.astype(np.float64), right.astype(np.float64))
    single = new.astype(np.float32)
    errors = across.values @ single - f.values
    inner = np.sum(new * (across.values.T @ f.coefficients))
    squared = squared_norm - 2.0 * float(inner) + float(np.sum(new * (square.values @ single)))
    total = float(np.sum(errors.astype(np.float64) ** 2)) + share * squared
    gradient = across.gradient(2.0 * (errors - share * f.coefficients) @ single.T)
    gradient += square.gradient(2.0 * share * single @ single.T)
    return total, gradient


class _Table:
    """Kernel values between rows x and points s, and derivatives with respect to s."""

    def __init__(self, kernel: Kernel, rows: np.ndarray, points: np.ndarray) -> None:
        self.rows, self.points = rows, points
        partials = partials_between(kernel, rows, points, 1)
        none = np.zeros((len(rows), len(points)), dtype=rows.dtype)
        self.values = partials.get((0, 0), none)
        self.by_distance, self.by_product = partials.get((1, 0)), partials.get((0, 1))

    def gradient(self, weights: np.ndarray) -> np.ndarray:
        """Return ``sum_i weights_ij d k(x_i, s_j) / d s_j``, (m, n_features)."""
        total = np.zeros_like(self.points)
        if self.by_distance is not None:
            each = weights * self.by_distance
            total += 2.0 * (each.sum(axis=0)[:, None] * self.points - each.T @ self.rows)
        if self.by_product is not None:
            total += (weights * self.by_product).T @ self.rows
        return total


def _solved(system: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Solve a system that is positive definite up to single-precision errors."""
    ridge = np.finfo(np.float32).eps * float(np.trace(system)) / len(system)
    for _ in range(8):
        regularized = system.copy()
        regularized[np.diag_indices_from(regularized)] += ridge
        try:
            return cho_solve(cho_factor(regularized, overwrite_a=True, check_finite=False), right)
        except LinAlgError:
            ridge *= 10.0
    return np.linalg.lstsq(system, right, rcond=None)[0]
