"""Kernels that are not positive semi-definite: found out in a fit, and mended with training rows."""

from __future__ import annotations

import warnings
from typing import Any, Self

import numpy as np

from ..oracles.arguments import closest_of
from ..utils.exceptions import IndefiniteKernelWarning, UninformativeFitWarning
from ..utils.resources import check_memory
from .base import Kernel
from .checked_kernel import kernel_diagonal, kernel_matrix
from .kernel_names import check_kernel
from .row_cache import RowCache
from .values import check_rows, precision, same_precision

SPECTRA = ("clip", "flip", "square", "shift")
# Tables whose features are kept: all rows that a machine knows, and those it asks about.
FEATURES = 2
# Three tables of all pairs: the kernel, its eigenvectors, and what finds them.
_TABLES = 3
# Rows whose table is looked at, at equal distances in the order given: eigenvalues take n^3 steps.
MOST_ROWS = 2000
# Rows among which a kernel of distances between sets has to see some difference.
_COMPARED = 100


def min_eigenvalue(kernel: Kernel, X: np.ndarray) -> tuple[float, float]:
    """The least and the largest eigenvalue of a kernel's table of some rows.

    Parameters
    ----------
    kernel : Kernel
    X : (n, d) array

    Returns
    -------
    least, largest : float

    Raises
    ------
    TypeError, ValueError
        If `kernel` is none, or `X` no table of rows.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.kernels import CallableKernel
    >>> min_eigenvalue(CallableKernel(lambda X, Y: X @ Y.T - 1.0), np.eye(2))
    (-1.0, 1.0)
    """
    check_kernel("kernel", kernel)
    check_rows(X, X)
    if not len(X):
        raise ValueError(f"X must have rows, got shape {X.shape}")
    return _ends(kernel_matrix(kernel, X, X))


def rounding_of(dtype: np.dtype) -> float:
    """The share of the largest eigenvalue that counts as rounding: a root of the precision's unit.

    Parameters
    ----------
    dtype : dtype
        Precision of the kernel values.
    """
    return float(np.sqrt(np.finfo(dtype).eps))


def psd_corrected(kernel: Kernel, X: Any, spectrum: str = "clip") -> Kernel:
    r"""A kernel made positive semi-definite with training rows.

    With :math:`K = U \Lambda U'` over the rows, the mended kernel is

    .. math:: k_x'\, U h(\Lambda) U'\, k_z, \quad h(\lambda) = \max(\lambda, 0) / \lambda^2, \;
        |\lambda| / \lambda^2, \; 1

    for ``"clip"``, ``"flip"`` and ``"square"``, with :math:`k_x` the kernel of x and all training rows;
    eigenvalues that are 0 up to rounding are left out. It is positive semi-definite for all points, not
    only for the training rows, where it is K with its eigenvalues clipped at 0, with their absolute
    values, or their squares (Chen, Garcia, Gupta, Rahimi and Cazzanti 2009; Wu, Chang and Zhang 2005).

    ``"shift"`` adds the size of the least eigenvalue to k(x, z) where x and z are the same row: positive
    semi-definite on the training rows is promised, and **on no others**.

    Parameters
    ----------
    kernel : Kernel
        Without a spectrum of its own.
    X : (n, d) array-like
        The training rows. Finding eigenvectors takes n^3 steps, and every value of the mended kernel
        values of `kernel` with all n rows.
    spectrum : {"clip", "flip", "square", "shift"}, default="clip"

    Returns
    -------
    Kernel
        With `min_eigenvalue`, that of the table of the training rows.

    Raises
    ------
    TypeError, ValueError, MemoryError
        If an argument is not what it should be, or the table does not fit in memory.

    Examples
    --------
    With scikit-learn's machine, which hears of no spectrum:

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
    check_kernel("kernel", kernel)
    check_spectrum(spectrum)
    rows = np.asarray(X) if not isinstance(X, np.ndarray) else X
    check_rows(rows, rows)
    kernel.validate(rows.shape[1])
    n = len(rows)
    check_memory(f"mending a kernel with {n} rows", _TABLES * 8.0 * n**2, "take fewer rows")
    values, vectors = np.linalg.eigh(_symmetric(kernel_matrix(kernel, rows, rows)))
    least, largest = float(values[0]), float(np.max(np.abs(values)))
    if spectrum == "shift":
        return ShiftedKernel(kernel, least)
    kept = np.abs(values) > n * np.finfo(precision(rows)).eps * largest
    if spectrum == "clip":
        kept &= values > 0
    values, vectors = np.abs(values[kept]), vectors[:, kept]
    root = vectors if spectrum == "square" else vectors / np.sqrt(values)
    return PSDCorrectedKernel(kernel, rows.copy(), root, least)


def check_spectrum(spectrum: Any) -> None:
    """Raise ValueError unless it is the name of a way to mend a kernel."""
    if not isinstance(spectrum, str) or spectrum not in SPECTRA:
        hint = closest_of(spectrum, SPECTRA)
        raise ValueError(f"spectrum must be one of {list(SPECTRA)}, got {spectrum!r}{hint}")


def trained_kernel(kernel: Kernel, rows: np.ndarray, owner: str) -> tuple[Kernel, float | None]:
    """The kernel as a fit on these rows takes it, and the least eigenvalue of their table.

    Parameters
    ----------
    kernel : Kernel
    rows : (n, d) array
    owner : str
        Who fits, for the warning.

    Returns
    -------
    kernel : Kernel
        Mended, if it says so.
    least : float or None
        Of the kernel as it was before; None where it is positive semi-definite by construction.

    Warns
    -----
    IndefiniteKernelWarning
        If the kernel in use has an eigenvalue below 0 by more than rounding, or is not symmetric.
    UninformativeFitWarning
        If a kernel that is not positive semi-definite by construction takes all rows for the same.
    """
    plain, kernel = kernel, kernel.prepared(rows)
    if not plain.definite:
        some = _spread_over(rows, _COMPARED)
        _warn_if_constant(kernel, some, f"{owner}: kernel {_name(plain)}")
    if kernel.definite:
        return kernel, kernel.min_eigenvalue
    some = _spread_over(rows, MOST_ROWS)
    table = kernel_matrix(kernel, some, some)
    _warn_if_not_symmetric(table, f"{owner}: kernel {_name(plain)}")
    least, largest = _ends(table)
    dtype = rows.dtype if rows.dtype.kind == "f" else np.dtype(np.float64)
    if least < -rounding_of(dtype) * largest:
        seen = "the training rows" if len(some) == len(rows) else f"{len(some)} of the training rows"
        ways = "structinv.kernels.psd_corrected(kernel, X)"
        if "spectrum" in _indefinite_part(kernel).get_params(deep=False):
            ways = f"spectrum='clip', 'flip' or 'square', or by {ways}"
        warnings.warn(
            f"{owner}: kernel {_name(kernel)} is not positive semi-definite: on {seen} eigenvalues go "
            f"from {least:.3g} to {largest:.3g}, so that no gap of a fit certifies anything; mend it by "
            f"{ways}",
            IndefiniteKernelWarning,
            stacklevel=2,
        )
    known = kernel.min_eigenvalue
    return kernel, least if known is None else known


def _spread_over(rows: np.ndarray, most: int) -> np.ndarray:
    """So many rows at most, at equal distances in the order given."""
    return rows[np.linspace(0, len(rows) - 1, min(len(rows), most)).astype(int)]


def _warn_if_constant(kernel: Kernel, rows: np.ndarray, who: str) -> None:
    table = kernel_matrix(kernel, rows, rows)
    if len(rows) > 1 and np.ptp(table) <= rounding_of(table.dtype) * np.max(np.abs(table)):
        warnings.warn(
            f"{who} has the same value, {table[0, 0]:.3g}, for all pairs of training rows looked "
            "at: there is nothing to learn; sets that meet, as lines through 0 do, are at distance 0",
            UninformativeFitWarning,
            stacklevel=3,
        )


def _warn_if_not_symmetric(table: np.ndarray, who: str) -> None:
    apart = np.abs(table - table.T)
    if np.max(apart) > rounding_of(table.dtype) * np.max(np.abs(table)):
        i, j = np.unravel_index(np.argmax(apart), table.shape)
        warnings.warn(
            f"{who} is not symmetric: {table[i, j]:.6g} for two of the training rows, and "
            f"{table[j, i]:.6g} for the same rows in the other order; a kernel must be, or no gap of a "
            "fit certifies anything",
            IndefiniteKernelWarning,
            stacklevel=3,
        )


def _name(kernel: Kernel) -> str:
    return type(_indefinite_part(kernel)).__name__


def _indefinite_part(kernel: Kernel) -> Kernel:
    """Of a kernel made of kernels, the part that is none."""
    parts = [each for each in kernel.get_params(deep=False).values() if isinstance(each, Kernel)]
    for part in parts:
        if not part.definite:
            return _indefinite_part(part)
    return kernel


class _TrainingRowsKernel(Kernel):
    """A kernel that belongs to training rows and to the kernel it was made of, with its parameters."""

    def set_params(self, **params: Any) -> Self:
        """Refuses any: with other parameters the kernel is another one, which must be mended anew."""
        if params:
            raise ValueError(
                f"a mended kernel has no parameters to set, got {sorted(params)}: mend the other "
                "kernel, psd_corrected(kernel, X, spectrum); in searches take an estimator of structinv "
                "and the kernel's own spectrum"
            )
        return self


class PSDCorrectedKernel(_TrainingRowsKernel):
    """``k_x' R R' k_z`` with a root R: see `psd_corrected`, which makes it.

    Parameters
    ----------
    kernel : Kernel
    rows : (n, d) array
        The training rows.
    root : (n, r) array of float64
    min_eigenvalue : float
        Of the table of `kernel` for the training rows.
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

    def validate(self, n_features: int | None = None) -> None:
        check_kernel("kernel", self.kernel)
        if n_features is not None and n_features != self.rows.shape[1]:
            raise ValueError(
                f"X must have the {self.rows.shape[1]} features of the rows that the kernel was mended "
                f"with, got {n_features}"
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
        """``k_x' R`` of all rows, kept for those asked about last."""
        kept: RowCache = self.__dict__.setdefault("_kept", RowCache(FEATURES))
        found: np.ndarray = kept.get(
            X, None, lambda: kernel_matrix(self.kernel, X, self.rows) @ self.root
        )
        return found

    def __getstate__(self) -> dict[str, Any]:
        """Without what can be made again."""
        state: dict[str, Any] = dict(super().__getstate__())
        state.pop("_kept", None)
        return state


class ShiftedKernel(_TrainingRowsKernel):
    """A kernel plus a constant where both inputs are the same row: see `psd_corrected`.

    Parameters
    ----------
    kernel : Kernel
    min_eigenvalue : float
        Of the table of `kernel` for the training rows; what is added is its size, where it is below 0.
    """

    definite = False
    min_eigenvalue: float

    def __init__(self, kernel: Kernel, min_eigenvalue: float) -> None:
        self.kernel = kernel
        self.min_eigenvalue = min_eigenvalue

    def validate(self, n_features: int | None = None) -> None:
        check_kernel("kernel", self.kernel, n_features)

    def matrix(self, X, Y, norms=None):
        check_rows(X, Y)
        values = np.array(kernel_matrix(self.kernel, X, Y))
        left, right = _numbers(*same_precision(X, Y))
        values += self._shift * (left[:, None] == right)
        return values

    def diagonal(self, X):
        check_rows(X, X)
        return kernel_diagonal(self.kernel, X) + precision(X).type(self._shift)

    @property
    def _shift(self) -> float:
        return max(0.0, -float(self.min_eigenvalue))


def _numbers(X: np.ndarray, Y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of the rows of both, equal for equal rows."""
    # Zeros of either sign are equal.
    both = np.ascontiguousarray(np.concatenate([X, Y])) + X.dtype.type(0.0)
    texts = both.view(np.dtype((np.void, both.dtype.itemsize * both.shape[1])))[:, 0]
    found = np.unique(texts, return_inverse=True)[1]
    return found[: len(X)], found[len(X) :]


def _ends(table: np.ndarray) -> tuple[float, float]:
    """The least and the largest eigenvalue of a table."""
    values = np.linalg.eigvalsh(_symmetric(table))
    return float(values[0]), float(values[-1])


def _symmetric(table: np.ndarray) -> np.ndarray:
    """A kernel's table of some rows in double precision, without what rounding makes unequal."""
    table = table.astype(np.float64)
    table += table.T.copy()
    table *= 0.5
    return table
