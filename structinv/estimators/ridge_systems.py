"""Kernel ridge regression: coefficients and leave-one-out residuals."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgWarning, eigh, lapack

from ..utils.printing import warn

# Up to this number of alphas, Cholesky factors are faster than an eigendecomposition.
FACTORS = 6
# Relative rounding error of a kernel matrix. It is that of single precision with sums, since float64
# matrices often contain values that were computed in float32.
ROUNDING = 1e-5
# For more rows, the work space of the faster eigenvalue routine exceeds the integers of LAPACK.
_MOST_ROWS_AT_ONCE = 32_000
# Entries of eigenvectors that are squared at once.
_SQUARED_AT_ONCE = 2**22


@dataclass(frozen=True)
class RidgePath:
    """Solutions for several alphas.

    - `coefficients` (n_alphas, n, n_targets): coefficients of kernel functions
    - `intercepts` (n_alphas, n_targets): constants
    - `residuals` (n_alphas, n, n_targets): ``y_i - f(x_i)`` where f is fitted to all rows except i
    """

    coefficients: np.ndarray
    intercepts: np.ndarray
    residuals: np.ndarray


def ridge_path(
    gram: np.ndarray, targets: np.ndarray, weights: np.ndarray, alphas: np.ndarray, intercept: bool
) -> RidgePath:
    """Minimize ``sum_i w_i (y_i - f(x_i) - b)^2 + alpha |f|^2`` for all alphas.

    With ``G = K + alpha W^-1`` and ``P = G^-1 - G^-1 1 1'G^-1 / 1'G^-1 1`` the coefficients are
    ``c = P y``. Without an intercept, ``P = G^-1``. The residual of row i without row i is
    ``c_i / P_ii``, by block inversion of the bordered system. It is exact for any weights (Cawley and
    Talbot 2004).

    Shapes: `gram` (n, n), `targets` (n, n_targets), `weights` (n,), `alphas` (n_alphas,).
    """
    root = np.sqrt(weights)
    _check_symmetric(gram)
    gram = gram.astype(np.float64, copy=False)
    gram *= root[:, None]
    gram *= root
    rounding = ROUNDING * float(np.linalg.norm(gram))
    right = np.column_stack([root[:, None] * targets, root])
    found = None
    if len(alphas) <= FACTORS:
        found = _by_factors(gram, alphas, right, rounding)
    solved, diagonals = found or _by_eigenvectors(gram, alphas, right, rounding)
    return _path(root, right, solved, diagonals, intercept)


def _path(
    root: np.ndarray,
    right: np.ndarray,
    solved: np.ndarray,
    diagonals: np.ndarray,
    intercept: bool,
) -> RidgePath:
    """Compute all results from ``G^-1 [y, 1]`` and the diagonal of ``G^-1``, both scaled by root."""
    coefficients, of_ones = solved[:, :, :-1], solved[:, :, -1:]
    intercepts = np.zeros((len(solved), right.shape[1] - 1))
    if intercept:
        ones = np.sum(root[:, None] * of_ones, axis=1)
        intercepts = np.einsum("i,kit->kt", root, coefficients) / ones
        coefficients = coefficients - of_ones * intercepts[:, None]
        diagonals = diagonals - of_ones[:, :, 0] ** 2 / ones
    return RidgePath(
        coefficients * root[:, None],
        intercepts,
        coefficients / (diagonals * root)[:, :, None],
    )


def _by_factors(
    gram: np.ndarray, alphas: np.ndarray, right: np.ndarray, rounding: float
) -> tuple[np.ndarray, np.ndarray] | None:
    """Return solutions and diagonals of inverses by Cholesky; None if it fails."""
    if _factor(gram, rounding)[1]:
        return None
    solved = np.empty((len(alphas), *right.shape))
    diagonals = np.empty((len(alphas), len(gram)))
    for number, alpha in enumerate(alphas):
        factor, failed = _factor(gram, alpha)
        if failed:
            return None
        solved[number] = lapack.dpotrs(factor, right, lower=1)[0]
        inverse, _ = lapack.dtrtri(factor, lower=1, overwrite_c=1)
        diagonals[number] = np.einsum("ki,ki->i", inverse, inverse)
    return solved, diagonals


def _factor(gram: np.ndarray, added: float) -> tuple[np.ndarray, int]:
    """Return the Cholesky factor of the shifted matrix, and LAPACK's number, nonzero on failure."""
    shifted = np.array(gram.T, order="F")
    np.einsum("ii->i", shifted)[:] += added
    return lapack.dpotrf(shifted, lower=1, clean=1, overwrite_a=1)


def _by_eigenvectors(
    gram: np.ndarray, alphas: np.ndarray, right: np.ndarray, rounding: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return the results of `_by_factors` by an eigendecomposition; the matrix is overwritten."""
    driver = "evd" if len(gram) <= _MOST_ROWS_AT_ONCE else "evr"
    values, vectors = eigh(gram.T, overwrite_a=True, check_finite=False, driver=driver)
    if values[0] < -rounding:
        raise ValueError(
            "kernel must be positive semi-definite, but the kernel matrix of the rows, scaled by their "
            f"weights, has eigenvalues from {values[0]:.3g} to {values[-1]:.3g}. Pass the kernel "
            "structinv.kernels.psd_corrected(kernel, X)"
        )
    if -values[0] > np.min(alphas):
        warn(
            f"alphas should be larger than rounding errors of the kernel: the smallest is "
            f"{min(alphas):.3g}, and the kernel matrix has the eigenvalue {values[0]:.3g}, which was "
            "replaced by 0",
            LinAlgWarning,
            stacklevel=4,
        )
    shifted = np.maximum(values, 0.0) + alphas[:, None]
    along = vectors.T @ right
    solved = np.stack([vectors @ (along / each[:, None]) for each in shifted])
    diagonals = np.empty((len(gram), len(alphas)))
    step = max(1, _SQUARED_AT_ONCE // len(gram))
    for first in range(0, len(gram), step):
        rows = slice(first, first + step)
        diagonals[rows] = vectors[rows] ** 2 @ (1.0 / shifted).T
    return solved, np.ascontiguousarray(diagonals.T)


def _check_symmetric(gram: np.ndarray) -> None:
    step = max(1, _SQUARED_AT_ONCE // len(gram))
    allowed = ROUNDING * float(np.max(np.abs(gram)))
    for first in range(0, len(gram), step):
        rows = slice(first, first + step)
        off = float(np.max(np.abs(gram[rows] - gram[:, rows].T)))
        if off > allowed:
            raise ValueError(
                "kernel must be symmetric, but the kernel matrix differs from its transpose by up to "
                f"{off:.3g}"
            )
