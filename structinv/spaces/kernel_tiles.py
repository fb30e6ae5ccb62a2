"""Kernel matrices in tiles that fit into the cache; rounding of their sums."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from ..kernels import Kernel
from ..kernels.kernel_values import (
    Norms,
    half_norms,
    kernel_diagonal,
    kernel_matrix,
    precision,
    squared_norms,
)
from ..structures.competitors import Competitors
from ..utils.jit import LEAN, njit
from ..utils.matrices import in_threads, one_blas_thread

if TYPE_CHECKING:
    from .kernel_space import Expansion

# Rows and columns of a tile. Smaller problems have fewer rows per tile, so that all threads work.
ROWS, COLUMNS, LEAST_ROWS = 512, 2048, 64
# Below this number of values or products, threads and thread limits cost more time than they save.
FEW = 100_000
# Number of kernel values that one thread computes at once, to reuse their memory.
SUMMED_AT_ONCE = 4_000_000
# Number of additions that take as long as one exponential.
ADDITIONS_A_VALUE = 100
# Numbers of rows and columns of a table whose multiples are added up at once: they stay in the CPU cache
# for all outputs.
ROWS_ADDED, COLUMNS_ADDED = 64, 4096

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
    kernel: Kernel,
    points: np.ndarray,
    centers: np.ndarray,
    coefficients: np.ndarray,
    norms: Norms | None = None,
) -> np.ndarray:
    """Return ``sum_j coefficients_j k(center_j, z)`` at points, (n, k), in tiles."""
    values = np.zeros((len(points), coefficients.shape[1]))

    def add(rows: slice, columns: slice, table: np.ndarray) -> None:
        values[rows] += table @ coefficients[columns].astype(table.dtype)

    in_kernel_tiles(kernel, points, centers, add, norms)
    return values


def add_rows(
    values: np.ndarray, table: np.ndarray, rows: np.ndarray, coefficients: np.ndarray, columns: slice
) -> None:
    """Add ``coefficients.T @ table[rows, columns]`` to values, in threads.

    Zero coefficients cost little. Results do not depend on the number of threads. Later columns of the
    values do not change.

    Shapes: `values` (n_outputs, n), `rows` (m,), `coefficients` (m, n_outputs).
    """
    n_columns, coefficients = columns.stop - columns.start, np.ascontiguousarray(coefficients)

    def work(part: slice) -> None:
        _add_rows(values, table, rows, coefficients, columns.start, part.start, part.stop)

    in_threads(work, n_columns, len(rows) * n_columns // ADDITIONS_A_VALUE)


@njit(**LEAN)
def _add_rows(values, table, rows, coefficients, shift, first, last):
    zero = values.dtype.type(0)
    for low in range(0, len(rows), ROWS_ADDED):
        high = low + ROWS_ADDED if low + ROWS_ADDED < len(rows) else len(rows)
        for start in range(first, last, COLUMNS_ADDED):
            stop = start + COLUMNS_ADDED if start + COLUMNS_ADDED < last else last
            for k in range(values.shape[0]):
                own, factors, count = values[k, start:stop], (zero, zero, zero, zero), 0
                four = rows[low], rows[low], rows[low], rows[low]
                for a in range(low, high):
                    factor = values.dtype.type(coefficients[a, k])
                    if factor == zero:
                        continue
                    four, count = (four[1], four[2], four[3], rows[a]), count + 1
                    factors = factors[1], factors[2], factors[3], factor
                    if count == 4:
                        _add_four(own, table, four, factors, shift + start)
                        factors, count = (zero, zero, zero, zero), 0
                if count > 0:
                    _add_four(own, table, four, factors, shift + start)


@njit(**LEAN)
def _add_four(own, table, rows, factors, start):
    """Add multiples of four rows, from column `start` on: one access to the sums for all of them."""
    stop = start + own.shape[0]
    p, q = table[rows[0], start:stop], table[rows[1], start:stop]
    r, s = table[rows[2], start:stop], table[rows[3], start:stop]
    w, x, y, z = factors
    # Compilers vectorize loops in one precision that start at 0.
    for u in range(own.shape[0]):
        own[u] += (w * p[u] + x * q[u]) + (y * r[u] + z * s[u])


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


def output_rounding(kernel: Kernel, f: Expansion, members: np.ndarray) -> np.ndarray:
    """Bound the rounding error of each function over S(x), (n, n_outputs).

    Shapes: `members` (n, s, d).

    An output at z is a sum of m terms ``beta_j k(z_j, z)`` with ``|k(z_j, z)| <=
    sqrt(k(z_j, z_j) k(z, z))``. Each kernel value is computed from d products. The bound is

        eps (8 + sqrt(d) + sqrt(m)) sum_j |beta_j| sqrt(k(z_j, z_j)) max_z sqrt(k(z, z))
        + eps L^2 sum_j |beta_j| |z_j| max_z |z|

    Here eps is that of the precision of predictions, and L is the kernel's Lipschitz constant. Maxima
    are over z in S(x). The second line is the cancellation error of a squared distance. It is omitted if
    L is infinite.
    """
    n, s, d = members.shape
    flat, used = members.reshape(n * s, d), f.support()
    centers, sizes = f.atoms.points(used), np.abs(f.coefficients[used])
    per_height, n_terms = f.norm_sums()
    slope = kernel.lipschitz(d)
    slope = slope if np.isfinite(slope) else 0.0
    eps = float(np.finfo(precision(members, centers)).eps)
    per_height = eps * (8.0 + np.sqrt(d) + np.sqrt(n_terms)) * per_height
    per_length = eps * slope**2 * (np.sqrt(squared_norms(centers)) @ sizes)
    values = kernel_diagonal(kernel, flat).reshape(n, s).astype(np.float64)
    lengths = np.sqrt(squared_norms(flat).reshape(n, s).max(axis=1))
    return np.outer(np.sqrt(values.max(axis=1)), per_height) + np.outer(lengths, per_length)


def kernel_rounding(
    kernel: Kernel, f: Expansion, members: np.ndarray, competitors: Competitors
) -> np.ndarray:
    """Bound the rounding error of score differences to the true label, (n, n_labels)."""
    each = competitors.functions.sizes(output_rounding(kernel, f, members))
    rounding = each + np.take_along_axis(each, competitors.codes[:, None], axis=1)
    rounding[np.arange(len(competitors)), competitors.codes] = 0.0
    return rounding
