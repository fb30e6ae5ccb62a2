"""What a fit asks of its kernel: whether it is one on the training rows."""

from __future__ import annotations

import warnings

import numpy as np

from ..exceptions import IndefiniteKernelWarning
from .base import Kernel
from .questions import kernel_definite
from .spectra import least_eigenvalue, rounding_of

# Rows whose table is looked at, at equal distances in the order given: eigenvalues take n^3 steps.
MOST_ROWS = 2000


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
    """
    kernel = kernel.prepared(rows)
    if kernel_definite(kernel):
        return kernel, kernel.least_eigenvalue
    some = rows[np.linspace(0, len(rows) - 1, min(len(rows), MOST_ROWS)).astype(int)]
    least, largest = least_eigenvalue(kernel, some)
    dtype = rows.dtype if rows.dtype.kind == "f" else np.dtype(np.float64)
    if least < -rounding_of(dtype) * largest:
        seen = "the training rows" if len(some) == len(rows) else f"{len(some)} of the training rows"
        part = _indefinite_part(kernel)
        name = type(part).__name__
        ways = "structinv.kernels.mended(kernel, X)"
        if "spectrum" in part.get_params(deep=False):
            ways = f"spectrum='clip', 'flip' or 'square', or by {ways}"
        warnings.warn(
            f"{owner}: kernel {name} is not positive semi-definite: on {seen} eigenvalues go from "
            f"{least:.3g} to {largest:.3g}, so that no gap of a fit certifies anything; mend it by "
            f"{ways}",
            IndefiniteKernelWarning,
            stacklevel=2,
        )
    known = kernel.least_eigenvalue
    return kernel, least if known is None else known


def _indefinite_part(kernel: Kernel) -> Kernel:
    """Of a kernel made of kernels, the part that is none."""
    parts = [each for each in kernel.get_params(deep=False).values() if isinstance(each, Kernel)]
    for part in parts:
        if not kernel_definite(part):
            return _indefinite_part(part)
    return kernel
