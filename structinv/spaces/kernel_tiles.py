"""A kernel between many points, in tiles that are used while the cache holds them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TypeAlias

import numpy as np

from ..kernels import Kernel
from ..kernels.checked_kernel import kernel_matrix
from ..kernels.values import Norms, half_norms
from ..utils.matrices import in_threads, one_blas_thread

# Rows and columns of a tile. There are fewer rows where several threads would have none.
ROWS, COLUMNS, LEAST_ROWS = 512, 2048, 64
# Below so many values or products of numbers, threads and limits take longer than they save.
FEW = 100_000
# Values of a kernel that one thread asks for at once: the next ones take their memory again.
SUMMED_AT_ONCE = 4_000_000
# Products of numbers in the time of one exponential.
PRODUCTS_A_VALUE = 30

Use: TypeAlias = Callable[[slice, slice, np.ndarray], None]


def in_kernel_tiles(
    kernel: Kernel, X: np.ndarray, Y: np.ndarray, use: Use, norms: Norms | None = None
) -> None:
    """Call ``use(rows, columns, values)`` with tiles of the kernel between rows of `X` and of `Y`.

    Tiles of the same rows come one after the other. Those of other rows may come from other threads, if
    the kernel allows it. Tiles depend on the shapes alone, so that results do not depend on threads.

    Parameters
    ----------
    kernel : Kernel
    X : (n, d) array
    Y : (m, d) array
    use : callable
    norms : pair of arrays, optional
        `half_norms` of both.
    """
    x, y = norms or (half_norms(X), half_norms(Y))
    n, m = len(X), len(Y)
    shared = kernel.thread_safe and n * m > FEW
    if shared:
        count, across = max(-(-n // ROWS), min(4, n // LEAST_ROWS), 1), -(-m // COLUMNS)
    else:
        count, across = -(-n * m // SUMMED_AT_ONCE), 1
    down, right = _even(n, count), _even(m, across)

    def work(numbers: slice) -> None:
        for rows in down[numbers]:
            for columns in right:
                found = kernel_matrix(kernel, X[rows], Y[columns], (x[rows], y[columns]))
                use(rows, columns, found)

    # A kernel that threads must not share may need those of BLAS.
    with limited_blas(n * m * X.shape[1] if kernel.thread_safe else 0):
        in_threads(work, len(down), n * m if shared else 0, most=1)


def expand(
    kernel: Kernel, points: np.ndarray, centers: np.ndarray, coefficients: np.ndarray
) -> np.ndarray:
    """``sum_j coefficients_j k(center_j, z)`` at given points, (n, k), in tiles."""
    values = np.zeros((len(points), coefficients.shape[1]))

    def add(rows: slice, columns: slice, table: np.ndarray) -> None:
        values[rows] += table @ coefficients[columns].astype(table.dtype)

    in_kernel_tiles(kernel, points, centers, add)
    return values


def wide_product(left: np.ndarray, table: np.ndarray, out: np.ndarray) -> None:
    """``out = left @ table`` of a few rows and a long table; threads share portions of columns."""
    portions = _even(table.shape[1], -(-table.shape[1] // COLUMNS))

    def work(numbers: slice) -> None:
        for columns in portions[numbers]:
            out[:, columns] = left @ table[:, columns]

    with limited_blas(left.size * table.shape[1]):
        in_threads(work, len(portions), left.size * table.shape[1] // PRODUCTS_A_VALUE, most=1)


def limited_blas(size: int) -> AbstractContextManager[None]:
    """One thread of BLAS for `size` products of numbers, between loops of our own.

    The threads of BLAS wait busily after a product, and slow down what follows. What a product is
    rounded to depends on their number.
    """
    return one_blas_thread() if size > FEW else nullcontext()


def _even(n: int, count: int) -> list[slice]:
    """Slices of about the same size."""
    edges = [n * k // count for k in range(count + 1)] if count else [0]
    return [slice(first, last) for first, last in zip(edges[:-1], edges[1:], strict=True)]
