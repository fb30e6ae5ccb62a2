"""Compression of kernel expansions by moving the points of a reduced set."""

from __future__ import annotations

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from scipy.optimize import fmin_l_bfgs_b

from ..kernels import Kernel
from ..kernels.checked_kernel import kernel_partials
from ..kernels.kernel_utils import squared_norms
from .reduced_sets import TargetExpansion

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
    error = _ScoreError(f)
    shape = start.shape

    def value(flat: np.ndarray) -> tuple[float, np.ndarray]:
        total, gradient = error(flat.reshape(shape))
        return total, gradient.ravel().astype(np.float64)

    flat = start.astype(np.float64).ravel()
    points, _, _ = fmin_l_bfgs_b(value, flat, m=STORED_STEPS, maxiter=max_iter, maxfun=2 * max_iter + 10)
    return points.reshape(shape)


class _ScoreError:
    """Squared error of the scores, as a function of the points.

    Kernel values are in single precision, which suffices for a descent direction. The caller recomputes
    the coefficients of the final points.
    """

    def __init__(self, f: TargetExpansion) -> None:
        self.kernel, self.share, self.squared_norm = f.kernel, f.share_of_norm, f.squared_norm
        self.old = f.points.astype(np.float32)
        self.coefficients = f.coefficients.astype(np.float32)
        self.values = f.values.astype(np.float32)

    def __call__(self, points: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the error and its gradient, (m, n_features)."""
        points = points.astype(np.float32)
        across, square = _Table(self.kernel, self.old, points), _Table(self.kernel, points, points)
        right = across.values.T @ (self.values + self.share * self.coefficients)
        system = across.values.T @ across.values + self.share * square.values
        new = _solved(system.astype(np.float64), right.astype(np.float64))
        single = new.astype(np.float32)
        errors = across.values @ single - self.values
        inner = np.sum(new * (across.values.T @ self.coefficients))
        squared = self.squared_norm - 2.0 * float(inner) + float(np.sum(new * (square.values @ single)))
        total = float(np.sum(errors.astype(np.float64) ** 2)) + self.share * squared
        gradient = across.gradient(2.0 * (errors - self.share * self.coefficients) @ single.T)
        gradient += square.gradient(2.0 * self.share * single @ single.T)
        return total, gradient


class _Table:
    """Kernel values between rows x and points s, and derivatives with respect to s."""

    def __init__(self, kernel: Kernel, rows: np.ndarray, points: np.ndarray) -> None:
        products = rows @ points.T
        self.rows, self.points = rows, points
        uses_distances, uses_products = kernel.uses_distances, kernel.uses_products
        distances = None
        if uses_distances:
            distances = -2.0 * products
            distances += squared_norms(rows).astype(np.float32)[:, None]
            distances += squared_norms(points).astype(np.float32)
            np.maximum(distances, 0.0, out=distances)
        partials = kernel_partials(kernel, distances, products if uses_products else None, 1)
        self.values = partials.get((0, 0), np.zeros_like(products))
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
