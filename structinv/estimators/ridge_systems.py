"""Regularized least squares over a Gram matrix: solutions, what each row's absence changes, evidence."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgWarning, eigh, lapack

# Up to so many weights of the norm a Cholesky factor for each is faster than all eigenvectors.
FACTORS = 6
# Share of its norm by which a Gram matrix may be off: that of single precision with its sums, since
# tables were often computed in it, whatever they are stored in.
ROUNDING = 1e-5
# Beyond so many rows the faster routine for eigenvectors cannot count its memory.
_MOST_ROWS_AT_ONCE = 32_000
# Entries of eigenvectors that are squared at once.
_SQUARED_AT_ONCE = 2**22


@dataclass(frozen=True)
class Evidence:
    """How likely targets are under Gaussian processes, for several weights alpha of the norm.

    Attributes
    ----------
    quadratics : (n_alphas, n_targets) array
        ``y'Py``, which is the objective over alpha.
    log_determinants : (n_alphas,) array
        Of ``K + alpha W^-1``, plus ``log 1'(K + alpha W^-1)^-1 1`` with an intercept.
    freedom : int
        Rows less the intercept.
    """

    quadratics: np.ndarray
    log_determinants: np.ndarray
    freedom: int

    @property
    def variances(self) -> np.ndarray:
        """Factors of kernel and noise that make the targets likeliest, (n_alphas, n_targets)."""
        return np.maximum(self.quadratics, np.finfo(np.float64).tiny) / self.freedom

    def log_marginal_likelihoods(self, variance: float | None) -> np.ndarray:
        """Of each target, (n_alphas, n_targets), by a given factor or the likeliest."""
        factor = self.variances if variance is None else np.float64(variance)
        fit = self.quadratics / factor
        spread = self.freedom * np.log(2.0 * np.pi * factor)
        return -0.5 * (fit + self.log_determinants[:, None] + spread)


@dataclass(frozen=True)
class RidgePath:
    """Solutions for several weights alpha of the norm.

    Attributes
    ----------
    coefficients : (n_alphas, n, n_targets) array
    intercepts : (n_alphas, n_targets) array
    residuals : (n_alphas, n, n_targets) array
        ``y_i - f(x_i)`` with f fitted to all rows but i.
    evidence : Evidence
    """

    coefficients: np.ndarray
    intercepts: np.ndarray
    residuals: np.ndarray
    evidence: Evidence


def ridge_path(
    gram: np.ndarray, targets: np.ndarray, weights: np.ndarray, alphas: np.ndarray, intercept: bool
) -> RidgePath:
    r"""Minimizers of ``sum_i w_i (y_i - f(x_i) - b)^2 + alpha |f|^2`` for all alphas.

    With ``G = K + alpha W^-1`` and ``P = G^-1 - G^-1 1 1'G^-1 / 1'G^-1 1`` (``P = G^-1`` without an
    intercept) the coefficients are ``c = P y``, and without row i its residual is ``c_i / P_ii``: block
    inversion of the bordered system, exact for any weights (Cawley and Talbot 2004).

    Parameters
    ----------
    gram : (n, n) array
        Symmetric; overwritten if it is float64.
    targets : (n, n_targets) array of float64
    weights : (n,) array of float64
        Above 0.
    alphas : (n_alphas,) array of float64
        Above 0.
    intercept : bool
        Whether there is b, which costs nothing.

    Raises
    ------
    ValueError
        If the matrix is not symmetric, or has an eigenvalue below 0 by more than rounding.
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
    solved, diagonals, log_determinants = found or _by_eigenvectors(gram, alphas, right, rounding)
    return _path(root, right, solved, diagonals, log_determinants, intercept)


def _path(
    root: np.ndarray,
    right: np.ndarray,
    solved: np.ndarray,
    diagonals: np.ndarray,
    log_determinants: np.ndarray,
    intercept: bool,
) -> RidgePath:
    """Everything from ``G^-1 [y, 1]`` and the diagonal of ``G^-1``, all scaled by roots of weights."""
    coefficients, of_ones = solved[:, :, :-1], solved[:, :, -1:]
    log_determinants = log_determinants - 2.0 * np.sum(np.log(root))
    intercepts = np.zeros((len(solved), right.shape[1] - 1))
    if intercept:
        ones = np.sum(root[:, None] * of_ones, axis=1)
        intercepts = np.einsum("i,kit->kt", root, coefficients) / ones
        coefficients = coefficients - of_ones * intercepts[:, None]
        diagonals = diagonals - of_ones[:, :, 0] ** 2 / ones
        log_determinants = log_determinants + np.log(ones[:, 0])
    quadratics = np.einsum("it,kit->kt", right[:, :-1], coefficients)
    return RidgePath(
        coefficients * root[:, None],
        intercepts,
        coefficients / (diagonals * root)[:, :, None],
        Evidence(quadratics, log_determinants, len(root) - int(intercept)),
    )


def _by_factors(
    gram: np.ndarray, alphas: np.ndarray, right: np.ndarray, rounding: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """Solutions, diagonals of inverses and log-determinants by Cholesky's factors; None without them."""
    if _factor(gram, rounding)[1]:
        return None
    solved = np.empty((len(alphas), *right.shape))
    diagonals, log_determinants = np.empty((len(alphas), len(gram))), np.empty(len(alphas))
    for number, alpha in enumerate(alphas):
        factor, failed = _factor(gram, alpha)
        if failed:
            return None
        solved[number] = lapack.dpotrs(factor, right, lower=1)[0]
        log_determinants[number] = 2.0 * np.sum(np.log(np.diagonal(factor)))
        inverse, _ = lapack.dtrtri(factor, lower=1, overwrite_c=1)
        diagonals[number] = np.einsum("ki,ki->i", inverse, inverse)
    return solved, diagonals, log_determinants


def _factor(gram: np.ndarray, added: float) -> tuple[np.ndarray, int]:
    """The lower factor of the matrix with a number added to its diagonal, and whether there is none."""
    shifted = np.array(gram.T, order="F")
    np.einsum("ii->i", shifted)[:] += added
    return lapack.dpotrf(shifted, lower=1, clean=1, overwrite_a=1)


def _by_eigenvectors(
    gram: np.ndarray, alphas: np.ndarray, right: np.ndarray, rounding: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The same for any number of alphas; the matrix is overwritten."""
    driver = "evd" if len(gram) <= _MOST_ROWS_AT_ONCE else "evr"
    values, vectors = eigh(gram.T, overwrite_a=True, check_finite=False, driver=driver)
    if values[0] < -rounding:
        raise ValueError(
            "kernel must be positive semi-definite, but the kernel matrix of the rows, scaled by their "
            f"weights, has eigenvalues from {values[0]:.3g} to {values[-1]:.3g}. Pass the kernel "
            "structinv.kernels.psd_corrected(kernel, X)"
        )
    if -values[0] > np.min(alphas):
        warnings.warn(
            f"alphas should be larger than rounding errors of the kernel: the least is {min(alphas):.3g}"
            f", and the Gram matrix has the eigenvalue {values[0]:.3g}, which was taken as 0",
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
    return solved, np.ascontiguousarray(diagonals.T), np.sum(np.log(shifted), axis=1)


def _check_symmetric(gram: np.ndarray) -> None:
    step = max(1, _SQUARED_AT_ONCE // len(gram))
    allowed = ROUNDING * float(np.max(np.abs(gram)))
    for first in range(0, len(gram), step):
        rows = slice(first, first + step)
        off = float(np.max(np.abs(gram[rows] - gram[:, rows].T)))
        if off > allowed:
            raise ValueError(
                "kernel must be symmetric, and the Gram matrix of the rows differs from its transpose "
                f"by up to {off:.3g}"
            )
