"""What a fit asks of its kernel: whether it is one on the training rows, and tells any apart."""

from __future__ import annotations

import warnings

import numpy as np

from ..exceptions import IndefiniteKernelWarning, UninformativeFitWarning
from .base import Kernel
from .questions import kernel_definite, kernel_matrix
from .spectra import least_eigenvalue, rounding_of

# Rows whose table is looked at, at equal distances in the order given: eigenvalues take n^3 steps.
MOST_ROWS = 2000
# Rows among which a kernel of distances between sets has to see some difference.
_COMPARED = 100


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
        If the kernel in use has an eigenvalue below 0 by more than rounding.
    UninformativeFitWarning
        If a kernel that is not positive semi-definite by construction takes all rows for the same.
    """
    plain, kernel = kernel, kernel.prepared(rows)
    if not kernel_definite(plain):
        some = _spread_over(rows, _COMPARED)
        _warn_if_constant(kernel, some, f"{owner}: kernel {_name(plain)}")
    if kernel_definite(kernel):
        return kernel, kernel.least_eigenvalue
    some = _spread_over(rows, MOST_ROWS)
    least, largest = least_eigenvalue(kernel, some)
    dtype = rows.dtype if rows.dtype.kind == "f" else np.dtype(np.float64)
    if least < -rounding_of(dtype) * largest:
        seen = "the training rows" if len(some) == len(rows) else f"{len(some)} of the training rows"
        ways = "structinv.kernels.mended(kernel, X)"
        if "spectrum" in _indefinite_part(kernel).get_params(deep=False):
            ways = f"spectrum='clip', 'flip' or 'square', or by {ways}"
        warnings.warn(
            f"{owner}: kernel {_name(kernel)} is not positive semi-definite: on {seen} eigenvalues go "
            f"from {least:.3g} to {largest:.3g}, so that no gap of a fit certifies anything; mend it by "
            f"{ways}",
            IndefiniteKernelWarning,
            stacklevel=2,
        )
    known = kernel.least_eigenvalue
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


def _name(kernel: Kernel) -> str:
    return type(_indefinite_part(kernel)).__name__


def _indefinite_part(kernel: Kernel) -> Kernel:
    """Of a kernel made of kernels, the part that is none."""
    parts = [each for each in kernel.get_params(deep=False).values() if isinstance(each, Kernel)]
    for part in parts:
        if not kernel_definite(part):
            return _indefinite_part(part)
    return kernel
