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
from ..utils.matrices import in_threads, one_blas_thread

if TYPE_CHECKING:
    from .kernel_space import Expansion

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
