"""Kernel expansions whose points move to where few of them say most."""

from __future__ import annotations

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from scipy.optimize import fmin_l_bfgs_b

from ..kernels import Kernel
from ..kernels.values import squared_norms
from .reduced_sets import TargetExpansion

# Steps that L-BFGS remembers, each of which is as long as all points.
REMEMBERED = 10


def has_gradients(kernel: Kernel) -> bool:
    """Whether the kernel's first derivatives exist everywhere and are known."""
    return (kernel.uses_distances or kernel.uses_products) and kernel.smoothness >= 1


def moved_points(f: TargetExpansion, start: np.ndarray, max_iter: int) -> np.ndarray:
    """Points over which scores come nearer to those of f.

    A reduced set that is constructed (Burges 1996), but for the scores: over points s and coefficients
    beta of g, L-BFGS lowers the ``sum_j |g(z_j) - f(z_j)|^2 + c |g - f|^2`` of `best_coefficients`.
    The best beta of given points is solved for, so that it is a function of the points alone, whose
    gradient is that at the best beta.

    Parameters
    ----------
    f : Whole
        Of a kernel that `has_gradients`.
    start : (m, n_features) array
    max_iter : int
        Steps of L-BFGS.

    Returns
    -------
    (m, n_features) array
        In float64.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.kernels import Gaussian
    >>> f = TargetExpansion.of(Gaussian(2.0), np.array([[0.0], [1.0]]), np.ones((2, 1)))
    >>> moved_points(f, np.array([[0.0]]), 20).round(3)
    array([[0.5]])
    """
    task = _Scores(f)
    shape = start.shape

    def value(flat: np.ndarray) -> tuple[float, np.ndarray]:
        height, gradient = task(flat.reshape(shape))
        return height, gradient.ravel().astype(np.float64)

    flat = start.astype(np.float64).ravel()
    found, _, _ = fmin_l_bfgs_b(value, flat, m=REMEMBERED, maxiter=max_iter, maxfun=2 * max_iter + 10)
    return found.reshape(shape)


class _Scores:
    """How far scores are from those of f, as a function of points.

    Tables are in single precision, which is enough for a direction: whoever asks solves for the
    coefficients of the last points once more.
    """

    def __init__(self, f: TargetExpansion) -> None:
        self.kernel, self.share, self.height = f.kernel, f.share_of_norm, f.squared_norm
        self.old = f.points.astype(np.float32)
        self.coefficients = f.coefficients.astype(np.float32)
        self.values = f.values.astype(np.float32)

    def __call__(self, points: np.ndarray) -> tuple[float, np.ndarray]:
        """The sum, and its gradient, (m, n_features)."""
        points = points.astype(np.float32)
        across, square = _Table(self.kernel, self.old, points), _Table(self.kernel, points, points)
        aimed = across.values.T @ (self.values + self.share * self.coefficients)
        system = across.values.T @ across.values + self.share * square.values
        new = _solved(system.astype(np.float64), aimed.astype(np.float64))
        own = new.astype(np.float32)
        off = across.values @ own - self.values
        inner = np.sum(new * (across.values.T @ self.coefficients))
        squared = self.height - 2.0 * float(inner) + float(np.sum(new * (square.values @ own)))
        height = float(np.sum(off.astype(np.float64) ** 2)) + self.share * squared
        gradient = across.gradient(2.0 * (off - self.share * self.coefficients) @ own.T)
        gradient += square.gradient(2.0 * self.share * own @ own.T)
        return height, gradient


class _Table:
    """Values of the kernel between rows x and points s, and its derivatives by s."""

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
        found = kernel.partials(distances, products if uses_products else None, 1)
        self.values = found.get((0, 0), np.zeros_like(products))
        self.by_distance, self.by_product = found.get((1, 0)), found.get((0, 1))

    def gradient(self, weights: np.ndarray) -> np.ndarray:
        """``sum_i weights_ij d k(x_i, s_j) / d s_j``, (m, n_features)."""
        total = np.zeros_like(self.points)
        if self.by_distance is not None:
            each = weights * self.by_distance
            total += 2.0 * (each.sum(axis=0)[:, None] * self.points - each.T @ self.rows)
        if self.by_product is not None:
            total += (weights * self.by_product).T @ self.rows
        return total


def _solved(system: np.ndarray, aimed: np.ndarray) -> np.ndarray:
    """The solution of a system that is positive definite but for single precision."""
    ridge = np.finfo(np.float32).eps * float(np.trace(system)) / len(system)
    for _ in range(8):
        lifted = system.copy()
        lifted[np.diag_indices_from(lifted)] += ridge
        try:
            return cho_solve(cho_factor(lifted, overwrite_a=True, check_finite=False), aimed)
        except LinAlgError:
            ridge *= 10.0
    return np.linalg.lstsq(system, aimed, rcond=None)[0]
