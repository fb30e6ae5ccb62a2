"""Kernel matrices of many points, computed in tiles that fit into the cache."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TypeAlias

import numpy as np

from ..kernels import Kernel
from ..kernels.kernel_values import Norms, half_norms, kernel_matrix
from ..utils.matrices import in_threads, one_blas_thread

# Rows and columns of a tile. Smaller problems have fewer rows per tile, so that all threads work.
ROWS, COLUMNS, LEAST_ROWS = 512, 2048, 64
# Below this number of values or products, threads and thread limits cost more time than they save.
FEW = 100_000
# Number of kernel values that one thread computes at once, to reuse their memory.
SUMMED_AT_ONCE = 4_000_000
# Number of multiplications that take as long as one exponential.
PRODUCTS_A_VALUE = 30

Use: TypeAlias = Callable[[slice, slice, np.ndarray], None]


def in_kernel_tiles(
    kernel: Kernel, X: np.ndarray, Y: np.ndarray, use: Use, norms: Norms | None = None
) -> None:
    """Call ``use(rows, columns, values)`` for all tiles of a kernel matrix.

    Tiles of the same rows follow each other. Tiles of other rows may come from other threads if the
    kernel is thread-safe. The tiles depend only on the shapes, so results do not depend on the number of
    threads.

    Shapes: `X` (n, d), `Y` (m, d).
    """
    x, y = norms or (half_norms(X), half_norms(Y))
    n, m = len(X), len(Y)
    is_threaded = kernel.thread_safe and n * m > FEW
    if is_threaded:
        count, across = max(-(-n // ROWS), min(4, n // LEAST_ROWS), 1), -(-m // COLUMNS)
    else:
        count, across = -(-n * m // SUMMED_AT_ONCE), 1
    down, right = _even(n, count), _even(m, across)

    def work(numbers: slice) -> None:
        for rows in down[numbers]:
            for columns in right:
                values = kernel_matrix(kernel, X[rows], Y[columns], (x[rows], y[columns]))
                use(rows, columns, values)

    # A kernel that is not thread-safe may use the threads of BLAS.
    with limited_blas(n * m * X.shape[1] if kernel.thread_safe else 0):
        in_threads(work, len(down), n * m if is_threaded else 0, most=1)


def expand(
    kernel: Kernel, points: np.ndarray, centers: np.ndarray, coefficients: np.ndarray
) -> np.ndarray:
    """Return ``sum_j coefficients_j k(center_j, z)`` at points, (n, k), in tiles."""
    values = np.zeros((len(points), coefficients.shape[1]))

    def add(rows: slice, columns: slice, table: np.ndarray) -> None:
        values[rows] += table @ coefficients[columns].astype(table.dtype)

    in_kernel_tiles(kernel, points, centers, add)
    return values


def wide_product(left: np.ndarray, table: np.ndarray, out: np.ndarray) -> None:
    """Compute ``out = left @ table`` for few rows and a long table, in threads."""
    portions = _even(table.shape[1], -(-table.shape[1] // COLUMNS))

    def work(numbers: slice) -> None:
        for columns in portions[numbers]:
            out[:, columns] = left @ table[:, columns]

    with limited_blas(left.size * table.shape[1]):
        in_threads(work, len(portions), left.size * table.shape[1] // PRODUCTS_A_VALUE, most=1)


def limited_blas(size: int) -> AbstractContextManager[None]:
    """Limit BLAS to one thread for more than a few products.

    Threads of BLAS busy-wait after a product and slow down the next step. Rounding errors depend on
    their number.
    """
    return one_blas_thread() if size > FEW else nullcontext()


def _even(n: int, count: int) -> list[slice]:
    """Return slices of about the same length."""
    edges = [n * k // count for k in range(count + 1)] if count else [0]
    return [slice(first, last) for first, last in zip(edges[:-1], edges[1:], strict=True)]
