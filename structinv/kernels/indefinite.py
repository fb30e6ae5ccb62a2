"""Indefinite kernels: smallest eigenvalue, warnings of fits, spectrum correction."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from ..oracles.arguments import closest_of
from ..oracles.columns import with_numbers
from ..utils.exceptions import IndefiniteKernelWarning, UninformativeFitWarning
from ..utils.parameters import columns_of
from ..utils.printing import warn
from ..utils.resources import check_memory
from .base import Kernel
from .kernel_names import validate_kernel
from .kernel_values import check_rows, kernel_matrix, precision, same_precision

SPECTRA = ("clip", "flip", "square")
# Three matrices of all pairs: the kernel matrix, its eigenvectors, and the work space of `eigh`.
_TABLES = 3
# Eigenvalues take n^3 steps, so at most this many evenly spaced rows are checked.
MOST_ROWS = 2000
# Number of evenly spaced rows on which a kernel that may be indefinite must not be constant.
_COMPARED = 100


def min_eigenvalue(kernel: Kernel, X: np.ndarray) -> tuple[float, float]:
    """Compute the smallest and the largest eigenvalue of a kernel matrix.

    Shapes: `X` (n_samples, n_features).
    """
    validate_kernel("kernel", kernel)
    check_rows(X, X)
    if not len(X):
        raise ValueError(f"X must have rows, got shape {X.shape}")
    return _ends(kernel_matrix(kernel, X, X))


def rounding_of(dtype: np.dtype) -> float:
    """Return the fraction of the largest eigenvalue that counts as rounding."""
    return float(np.sqrt(np.finfo(dtype).eps))


def psd_corrected(kernel: Kernel, X: Any, spectrum: str = "clip") -> Kernel:
    r"""Make an indefinite kernel positive semi-definite with training rows.

    With :math:`K = U \Lambda U'` over the training rows, the corrected kernel is

    .. math:: k_x'\, U h(\Lambda) U'\, k_z, \quad h(\lambda) = \max(\lambda, 0) / \lambda^2, \;
        |\lambda| / \lambda^2, \; 1

    for ``"clip"``, ``"flip"`` and ``"square"``, with :math:`k_x` the kernel of x and all training rows.
    Eigenvalues that are 0 up to rounding are left out. This kernel is positive semi-definite for all
    samples. On the training rows its matrix is K with clipped, absolute or squared eigenvalues. See
    Chen, Garcia, Gupta, Rahimi and Cazzanti 2009, and Wu, Chang and Zhang 2005.

    Parameters
    ----------
    kernel : Kernel
        Indefinite kernel, without a spectrum correction.
    X : array-like of shape (n_samples, n_features)
        The training rows. Eigenvectors are computed in time n^3. Each value of the corrected kernel
        requires the values of `kernel` with all n rows.
    spectrum : {"clip", "flip", "square"}, default="clip"
        Correction of the negative eigenvalues.

    Returns
    -------
    Kernel
        The corrected kernel; its `min_eigenvalue` is that of K before the correction.

    Raises
    ------
    TypeError, ValueError, MemoryError
        If an argument is invalid, or the kernel matrix does not fit in memory.

    See Also
    --------
    min_eigenvalue : Smallest eigenvalue of a kernel matrix.
    SetKernel : Kernel of set distances, with a spectrum correction in `fit`.

    Examples
    --------
    scikit-learn does not pass training rows to a kernel, so correct the kernel before the fit:

    >>> import numpy as np
    >>> from sklearn.svm import SVC
    >>> from structinv.kernels import Gaussian, SetKernel, psd_corrected
    >>> from structinv.oracles import Segment
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.standard_normal((30, 2)), np.arange(30) % 2
    >>> kernel = psd_corrected(SetKernel(Segment(0.1, 10.0), Gaussian(0.5)), X, "clip")
    >>> kernel.min_eigenvalue < -0.01
    True
    >>> bool(np.linalg.eigvalsh(kernel(rng.standard_normal((40, 2))))[0] > -1e-10)
    True
    >>> SVC(kernel=kernel).fit(X, y).predict(X[:2]).shape
    (2,)
    """
    validate_kernel("kernel", kernel)
    check_spectrum(spectrum)
    kernel = with_numbers(kernel, columns_of(X))
    rows = np.asarray(X) if not isinstance(X, np.ndarray) else X
    check_rows(rows, rows)
    kernel.validate(rows.shape[1])
    n = len(rows)
    check_memory(f"the spectrum correction with {n} rows", _TABLES * 8.0 * n**2, "use fewer rows")
    values, vectors = np.linalg.eigh(_symmetric(kernel_matrix(kernel, rows, rows)))
    least, largest = float(values[0]), float(np.max(np.abs(values)))
    nonzero = np.abs(values) > n * np.finfo(precision(rows)).eps * largest
    if spectrum == "clip":
        nonzero &= values > 0
    values, vectors = np.abs(values[nonzero]), vectors[:, nonzero]
    root = vectors if spectrum == "square" else vectors / np.sqrt(values)
    return PSDCorrectedKernel(kernel, rows.copy(), root, least)


def check_spectrum(spectrum: Any) -> None:
    """Raise ValueError unless `spectrum` is the name of a spectrum correction."""
    if not isinstance(spectrum, str) or spectrum not in SPECTRA:
        hint = closest_of(spectrum, SPECTRA)
        raise ValueError(f"spectrum must be one of {list(SPECTRA)}, got {spectrum!r}{hint}")


def trained_kernel(kernel: Kernel, rows: np.ndarray, owner: str) -> tuple[Kernel, float | None]:
    """Return the kernel for a fit on these rows, and the smallest eigenvalue.

    Shapes: `rows` (n, d).
    """
    plain, kernel = kernel, kernel.prepared(rows)
    if not plain.definite:
        some = spread_over(rows, _COMPARED)
        _warn_if_constant(kernel, some, f"{owner}: kernel {_name(plain)}")
    if kernel.definite:
        return kernel, kernel.min_eigenvalue
    some = spread_over(rows, MOST_ROWS)
    table = kernel_matrix(kernel, some, some)
    _warn_if_not_symmetric(table, f"{owner}: kernel {_name(plain)}")
    least, largest = _ends(table)
    dtype = rows.dtype if rows.dtype.kind == "f" else np.dtype(np.float64)
    if least < -rounding_of(dtype) * largest:
        seen = "the training rows" if len(some) == len(rows) else f"{len(some)} of the training rows"
        ways = "structinv.kernels.psd_corrected(kernel, X)"
        if "spectrum" in _indefinite_part(kernel).get_params(deep=False):
            ways = f"spectrum='clip', 'flip' or 'square', or by {ways}"
        warn(
            f"{owner}: kernel {_name(kernel)} is not positive semi-definite: on {seen} eigenvalues go "
            f"from {least:.3g} to {largest:.3g}, so the duality gap does not bound the error. "
            f"Correct the kernel by {ways}",
            IndefiniteKernelWarning,
            stacklevel=2,
        )
    known = kernel.min_eigenvalue
    return kernel, least if known is None else known


def spread_over(rows: np.ndarray, most: int) -> np.ndarray:
    """Return at most this number of evenly spaced rows."""
    return rows[np.linspace(0, len(rows) - 1, min(len(rows), most)).astype(int)]


def _warn_if_constant(kernel: Kernel, rows: np.ndarray, who: str) -> None:
    table = kernel_matrix(kernel, rows, rows)
    if len(rows) > 1 and np.ptp(table) <= rounding_of(table.dtype) * np.max(np.abs(table)):
        warn(
            f"{who} has the same value, {table[0, 0]:.3g}, for all checked pairs of training rows, so "
            "the fit learns nothing. Sets that intersect, such as lines through 0, have the distance 0",
            UninformativeFitWarning,
            stacklevel=3,
        )


def _warn_if_not_symmetric(table: np.ndarray, who: str) -> None:
    asymmetry = np.abs(table - table.T)
    if np.max(asymmetry) > rounding_of(table.dtype) * np.max(np.abs(table)):
        i, j = np.unravel_index(np.argmax(asymmetry), table.shape)
        warn(
            f"{who} is not symmetric: {table[i, j]:.6g} for two of the training rows, and "
            f"{table[j, i]:.6g} for the same rows in reverse. The duality gap does not bound the "
            "error for such a kernel",
            IndefiniteKernelWarning,
            stacklevel=3,
        )


def _name(kernel: Kernel) -> str:
    return type(_indefinite_part(kernel)).__name__


def _indefinite_part(kernel: Kernel) -> Kernel:
    """Return the innermost part of a combined kernel that may be indefinite."""
    parts = [each for each in kernel.get_params(deep=False).values() if isinstance(each, Kernel)]
    for part in parts:
        if not part.definite:
            return _indefinite_part(part)
    return kernel


class PSDCorrectedKernel(Kernel):
    """Kernel ``k_x' R R' k_z`` with a root R, as `psd_corrected` returns it.

    Shapes: `rows` (n, d), `root` (n, r).
    """

    definite = True
    min_eigenvalue: float

    def __init__(
        self, kernel: Kernel, rows: np.ndarray, root: np.ndarray, min_eigenvalue: float
    ) -> None:
        self.kernel = kernel
        self.rows = rows
        self.root = root
        self.min_eigenvalue = min_eigenvalue

    def set_params(self, **params: Any) -> Self:
        """Raise ValueError, since the correction depends on all parameters."""
        if params:
            raise ValueError(
                f"a kernel after a spectrum correction has no parameters to set, got {sorted(params)}: "
                "set them before the correction by psd_corrected(kernel, X, spectrum). For a search, "
                "use an estimator of structinv and a kernel with a parameter spectrum, such as SetKernel"
            )
        return self

    def validate(self, n_features: int | None = None) -> None:
        validate_kernel("kernel", self.kernel)
        if n_features is not None and n_features != self.rows.shape[1]:
            raise ValueError(
                f"X must have the {self.rows.shape[1]} features of the rows of the spectrum correction, "
                f"got {n_features}"
            )
        self.kernel.validate(n_features)

    def matrix(self, X, Y, norms=None):
        check_rows(X, Y)
        same = Y is X
        X, Y = same_precision(X, Y)
        left = self._features(X)
        right = left if same else self._features(Y)
        return (left @ right.T).astype(X.dtype, copy=False)

    def diagonal(self, X):
        check_rows(X, X)
        features = self._features(X)
        return np.einsum("ij,ij->i", features, features).astype(precision(X), copy=False)

    def _features(self, X: np.ndarray) -> np.ndarray:
        """Compute ``k_x' R`` of all rows, cached for the most recent arrays."""
        return self._cached(X, None, lambda: kernel_matrix(self.kernel, X, self.rows) @ self.root)


def _ends(table: np.ndarray) -> tuple[float, float]:
    """Return the smallest and the largest eigenvalue of a kernel matrix."""
    values = np.linalg.eigvalsh(_symmetric(table))
    return float(values[0]), float(values[-1])


def _symmetric(table: np.ndarray) -> np.ndarray:
    """Return the symmetric part of a kernel matrix, in double precision."""
    table = table.astype(np.float64)
    table += table.T.copy()
    table *= 0.5
    return table
