"""Averages of a kernel over transformations, in tiles and threads."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..oracles.changes import Changes
from ..utils import plugins
from ..utils.jit import njit
from ..utils.matrices import in_threads, one_blas_thread
from .base import Kernel
from .kernel_values import half_norms, kernel_matrix, kernel_partials, kernel_table

# Maximum number of values of transformed samples in memory, for each side: 64 MB of float32.
MEMBERS = 2**24
# Numbers of transformed samples on the left and right of one tile of a thread. A tile of a few MB fits
# in the cache of a core and is large enough for BLAS to be fast.
LEFT = 2048
RIGHT = 512
# Tiles are larger for kernels that run in one thread, so that their own threads have enough work.
LEFT_ALONE = 8192
# Equal features are merged if at most this fraction remains, padded to a multiple of LANES.
MERGED, LANES = 0.75, 8
# Number of transformed samples by which features are compared first.
SEEN_FIRST = 64
# Maximum number of kernel values in memory for the diagonal: all pairs of copies of some rows.
WITHIN = 2**20
# Side of the squares in which a matrix is transposed.
SIDE = 256

# Rows and columns of the kernel matrix.
Tile = tuple[slice, slice]


def mean_table(
    kernel: Kernel, X: np.ndarray, Y: np.ndarray, left: Changes | None, right: Changes, symmetric: bool
) -> np.ndarray:
    """Compute averages of a kernel over the transformations of both sides, (n, m).

    At most ``2 * MEMBERS`` values of transformed samples are in memory at once, or those of one row of
    each side. Merged features take three quarters more. Each thread also has the kernel values of one
    tile.

    The tiles do not depend on the number of threads. So the values are the same to the last bit for
    kernels with `Kernel.thread_safe`. Other kernels are called from the calling thread only.

    Shapes: `X` (n, d), `Y` (m, d).
    """
    out = np.empty((len(X), len(Y)), dtype=X.dtype)
    of_left = np.ones(1) if left is None else left.weights
    of_left, of_right = of_left.astype(X.dtype), right.weights.astype(X.dtype)
    most = max(len(of_left), len(of_right)) if symmetric else 0
    rows_at_once, columns_at_once = (
        max(1, MEMBERS // (max(1, X.shape[1]) * (most or len(weights))))
        for weights in (of_left, of_right)
    )
    cached: tuple[slice, np.ndarray, np.ndarray] | None = None
    for rows in _portions(0, len(X), rows_at_once):
        points = X[rows] if left is None else _members(left, X[rows])
        firsts = _firsts(kernel, points)
        for columns in _portions(rows.start if symmetric else 0, len(Y), columns_at_once):
            if symmetric and left is right and columns == rows:
                cached = columns, points, firsts
            elif cached is None or cached[0] != columns:
                others = _members(right, Y[columns])
                cached = columns, others, _firsts(kernel, others)
            pair = _merged((points, cached[1]), (firsts, cached[2]))
            sides = [(each, half_norms(each)) for each in pair]
            on_diagonal = symmetric and columns == rows
            _fill(kernel, sides[0], sides[1], (of_left, of_right), out[rows, columns], on_diagonal)
    if symmetric:
        _mirror(out)
    # The averages are checked instead of the many kernel values; they are finite only if those are.
    return plugins.numbers(plugins.method(kernel, "matrix"), "values", out, out.shape)


def _portions(first: int, last: int, size: int) -> Iterator[slice]:
    for start in range(first, last, size):
        yield slice(start, min(start + size, last))


def _members(changes: Changes, X: np.ndarray) -> np.ndarray:
    """Return all transformed samples of the rows in sequence, in the precision of the rows."""
    members = np.empty((len(X), changes.size, X.shape[1]), dtype=X.dtype)
    # In portions, because the transformed samples may have another precision.
    for rows in _portions(0, len(X), max(1, LEFT_ALONE // changes.size)):
        members[rows] = changes.on(X[rows]).members()
    return members.reshape(-1, X.shape[1])


def _firsts(kernel: Kernel, points: np.ndarray) -> np.ndarray:
    """Return, for each feature, the first feature with equal values in all points, (d,).

    For kernels without `Kernel.adds_features`, this is the feature itself.
    """
    numbers = np.arange(points.shape[1])
    if not kernel.adds_features:
        return numbers
    some = points[:: max(1, len(points) // SEEN_FIRST)]
    _, first, which = np.unique(some, axis=1, return_index=True, return_inverse=True)
    firsts = first[which.ravel()]
    candidates = np.flatnonzero(firsts != numbers)
    equal = np.all(points[:, candidates] == points[:, firsts[candidates]], axis=0)
    firsts[candidates[~equal]] = candidates[~equal]
    return firsts


def _merged(
    pair: tuple[np.ndarray, np.ndarray], firsts: tuple[np.ndarray, np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """Replace features that are equal on both sides by one, multiplied by their number."""
    _, first, counts = np.unique(np.stack(firsts), axis=1, return_index=True, return_counts=True)
    if len(first) > MERGED * len(firsts[0]):
        return pair

    def narrow(points: np.ndarray) -> np.ndarray:
        # Columns of zeros fill the last vector register.
        merged = np.zeros((len(points), -(-len(first) // LANES) * LANES), dtype=points.dtype)
        np.multiply(points[:, first], counts.astype(points.dtype), out=merged[:, : len(first)])
        return merged

    left = narrow(pair[0])
    return left, left if pair[1] is pair[0] else narrow(pair[1])


def _fill(
    kernel: Kernel,
    left: tuple[np.ndarray, np.ndarray],
    right: tuple[np.ndarray, np.ndarray],
    weights: tuple[np.ndarray, np.ndarray],
    out: np.ndarray,
    symmetric: bool,
) -> None:
    """Write averages of kernel values; if `symmetric`, only tiles from the diagonal on.

    `left` and `right` are transformed samples with their half norms.
    """
    (points, x), (others, y), (of_left, of_right) = left, right, weights
    s, t = len(of_left), len(of_right)

    shared = kernel.thread_safe
    # Tiles are smaller if there are few points, so that each thread has work.
    most = min(LEFT, max(RIGHT, len(points) // 4)) if shared else LEFT_ALONE
    tiles = _tiles(out.shape, max(1, most // s), max(1, RIGHT // t), symmetric)

    def work(numbers: slice) -> None:
        for rows, columns in tiles[numbers]:
            left_points = slice(rows.start * s, rows.stop * s)
            right_points = slice(columns.start * t, columns.stop * t)
            norms = x[left_points], y[right_points]
            values = kernel_table(kernel, points[left_points], others[right_points], norms)
            sums = np.empty(values.shape[1], dtype=values.dtype)
            _means(values, of_left, of_right, sums, out[rows, columns])

    if not shared:
        work(slice(None))
        return
    # BLAS threads that wait actively would take the processors from these threads.
    with one_blas_thread():
        in_threads(work, len(tiles), len(points) * len(others), most=1)


def _tiles(shape: tuple[int, ...], rows: int, columns: int, symmetric: bool) -> list[Tile]:
    """Return tiles of about the same size, so that threads have equal work."""
    down, across = _even(shape[0], rows), _even(shape[1], columns)
    return [(i, j) for i in down for j in across if not symmetric or j.stop > i.start]


def _even(n: int, size: int) -> list[slice]:
    count = -(-n // size)
    edges = [n * k // count for k in range(count + 1)]
    return [slice(first, last) for first, last in zip(edges[:-1], edges[1:], strict=True)]


def mean_diagonal(kernel: Kernel, X: np.ndarray, left: Changes | None, right: Changes) -> np.ndarray:
    """Compute the average kernel between transformed copies of each row, (n,)."""
    values = np.empty(len(X))
    weights = np.ones(1) if left is None else left.weights
    within = len(weights) * right.size
    step = min(MEMBERS // (2 * right.size * max(1, X.shape[1])), WITHIN // within)
    for rows in _portions(0, len(X), max(1, step)):
        others = _members(right, X[rows])
        points = others if left is right else X[rows] if left is None else _members(left, X[rows])
        n = rows.stop - rows.start
        stacks = points.reshape(n, len(weights), -1), others.reshape(n, right.size, -1)
        averages = _stacked(kernel, *stacks).astype(np.float64, copy=False)
        values[rows] = (averages @ right.weights) @ weights
    return values


def _stacked(kernel: Kernel, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Compute the kernel of rows (n, s, d) and (n, t, d) with equal first index, (n, s, t)."""
    if kernel.thread_safe:
        values = kernel._stacked(left, right)
        values = _from_partials(kernel, left, right) if values is None else values
        if values is not None:
            return values
    values = np.empty((len(left), left.shape[1], right.shape[1]), dtype=left.dtype)
    for number, (points, others) in enumerate(zip(left, right, strict=True)):
        values[number] = kernel_matrix(kernel, points, others)
    return values


def _from_partials(kernel: Kernel, left: np.ndarray, right: np.ndarray) -> np.ndarray | None:
    """Compute `_stacked` for functions of distances and products; None for other kernels.

    The values are float64, which also holds distances in very small length scales. None if they
    overflow float64.
    """
    # With an infinite slope at distance 0, the error of a kernel is the root of a rounding error.
    uses_distances, uses_products = kernel.uses_distances, kernel.uses_products
    if kernel.smoothness < 1 or not (uses_distances or uses_products):
        return None
    left, right = left.astype(np.float64, copy=False), right.astype(np.float64, copy=False)
    products = distances = None
    with np.errstate(over="ignore", invalid="ignore"):
        if uses_products:
            products = left @ right.transpose(0, 2, 1)
        if uses_distances:
            # Transformed copies of a row are close to each other, perhaps far from the origin.
            x, y = left - left[:, :1], right - left[:, :1]
            distances = x @ y.transpose(0, 2, 1)
            distances -= half_norms(x.reshape(-1, x.shape[2])).reshape(len(x), -1, 1)
            distances -= half_norms(y.reshape(-1, y.shape[2])).reshape(len(y), 1, -1)
            distances *= -2.0
            np.maximum(distances, 0.0, out=distances)
    if not all(np.all(np.isfinite(known)) for known in (products, distances) if known is not None):
        return None
    return kernel_partials(kernel, distances, products, 0)[0, 0]


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def _means(values, left, right, sums, out):
    """``out[i, j] = sum_gh left[g] right[h] values[(i, g), (j, h)]``."""
    n_left, n_right = len(left), len(right)
    for i in range(out.shape[0]):
        row = values[i * n_left]
        for k in range(len(sums)):
            sums[k] = left[0] * row[k]
        for g in range(1, n_left):
            row = values[i * n_left + g]
            for k in range(len(sums)):
                sums[k] += left[g] * row[k]
        for j in range(out.shape[1]):
            total = values.dtype.type(0)
            for h in range(n_right):
                total += right[h] * sums[j * n_right + h]
            out[i, j] = total


def _mirror(table: np.ndarray) -> None:
    """Copy the values above the diagonal below it, in squares that fit in the cache."""
    for first in range(0, len(table), SIDE):
        rows = slice(first, first + SIDE)
        for start in range(0, first, SIDE):
            columns = slice(start, start + SIDE)
            table[rows, columns] = table[columns, rows].T
        square = table[rows, rows]
        square[:] = np.triu(square) + np.triu(square, 1).T
