"""Tables and diagonals of means over changes: blocks of members, and tiles of them for threads."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..oracles.changes import Changes
from ..utils import plugins
from ..utils.jit import njit
from ..utils.matrices import in_threads, one_blas_thread
from .base import Kernel
from .checked_kernel import kernel_matrix, kernel_table
from .values import half_norms

# Values of members that are held at once, of each side: 64 MB of float32.
MEMBERS = 2**24
# Members of the left and of the right whose kernel a thread works on at once: a few MB, as a core's
# cache holds, yet so many that BLAS is at its best.
LEFT = 2048
RIGHT = 512
# Of kernels that are asked from one thread alone: so many that their own threads have something to do.
LEFT_ALONE = 8192
# Equal features are merged where no more than this share of them is left, to a multiple of so many.
MERGED, LANES = 0.75, 8
# Members by which features are told apart before all are compared.
SEEN_FIRST = 64
# Values of the kernel within rows that are held at once, for the diagonal.
WITHIN = 2**20
# Of a square of a table that is turned round at a time.
SIDE = 256

# Rows of the table, and its columns.
Tile = tuple[slice, slice]


def mean_table(
    kernel: Kernel, X: np.ndarray, Y: np.ndarray, left: Changes | None, right: Changes, symmetric: bool
) -> np.ndarray:
    """Means of a kernel over changes of both sides, (n, m).

    Members of at most ``2 * MEMBERS`` values, or those of one row of each side, are in memory at once
    (three quarters more where equal features are merged), and for each thread the kernel of `LEFT` and
    `RIGHT` of them. Which members meet in which product does not depend on the number of threads, and
    neither does the table, to the last bit, for kernels that threads may share: `Kernel.thread_safe`.
    Others are asked by the calling thread alone.

    Parameters
    ----------
    kernel : Kernel
    X : (n, d) array
    Y : (m, d) array
        In the precision of `X`.
    left : Changes or None
        Of changes of rows of `X`; None for no change.
    right : Changes
    symmetric : bool
        Whether `Y` is `X`, and both sides may change places: half of the table is mirrored.
    """
    out = np.empty((len(X), len(Y)), dtype=X.dtype)
    of_left = np.ones(1) if left is None else left.weights
    of_left, of_right = of_left.astype(X.dtype), right.weights.astype(X.dtype)
    most = max(len(of_left), len(of_right)) if symmetric else 0
    rows_at_once, columns_at_once = (
        max(1, MEMBERS // (max(1, X.shape[1]) * (most or len(weights))))
        for weights in (of_left, of_right)
    )
    held: tuple[slice, np.ndarray, np.ndarray] | None = None
    for rows in _portions(0, len(X), rows_at_once):
        points = X[rows] if left is None else _members(left, X[rows])
        firsts = _firsts(kernel, points)
        for columns in _portions(rows.start if symmetric else 0, len(Y), columns_at_once):
            if symmetric and left is right and columns == rows:
                held = columns, points, firsts
            elif held is None or held[0] != columns:
                others = _members(right, Y[columns])
                held = columns, others, _firsts(kernel, others)
            pair = _merged((points, held[1]), (firsts, held[2]))
            sides = [(each, half_norms(each)) for each in pair]
            own = symmetric and columns == rows
            _fill(kernel, sides[0], sides[1], (of_left, of_right), out[rows, columns], own)
    if symmetric:
        _mirror(out)
    # Looked at here, where values are few: what is not finite makes means that are not.
    return plugins.numbers(plugins.method(kernel, "matrix"), "values", out, out.shape)


def _portions(first: int, last: int, size: int) -> Iterator[slice]:
    for start in range(first, last, size):
        yield slice(start, min(start + size, last))


def _members(changes: Changes, X: np.ndarray) -> np.ndarray:
    """All members of the rows, one after another, in the precision of the rows."""
    found = np.empty((len(X), changes.size, X.shape[1]), dtype=X.dtype)
    # In portions, as lists may answer in another precision.
    for rows in _portions(0, len(X), max(1, LEFT_ALONE // changes.size)):
        found[rows] = changes.on(X[rows]).members()
    return found.reshape(-1, X.shape[1])


def _firsts(kernel: Kernel, points: np.ndarray) -> np.ndarray:
    """The first feature that equals each in all points, (d,); itself, unless the kernel adds them."""
    numbers = np.arange(points.shape[1])
    if not kernel.adds_features:
        return numbers
    some = points[:: max(1, len(points) // SEEN_FIRST)]
    _, first, which = np.unique(some, axis=1, return_index=True, return_inverse=True)
    found = first[which.ravel()]
    alike = np.flatnonzero(found != numbers)
    equal = np.all(points[:, alike] == points[:, found[alike]], axis=0)
    found[alike[~equal]] = alike[~equal]
    return found


def _merged(
    pair: tuple[np.ndarray, np.ndarray], firsts: tuple[np.ndarray, np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """Points of both sides with one feature, as many times as large, for those equal on both sides."""
    _, first, counts = np.unique(np.stack(firsts), axis=1, return_index=True, return_counts=True)
    if len(first) > MERGED * len(firsts[0]):
        return pair

    def narrow(points: np.ndarray) -> np.ndarray:
        # Features of zeros make the rest of a row as fast as its start.
        found = np.zeros((len(points), -(-len(first) // LANES) * LANES), dtype=points.dtype)
        np.multiply(points[:, first], counts.astype(points.dtype), out=found[:, : len(first)])
        return found

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
    """Means over the kernel of members, given with half norms; from the diagonal on if `symmetric`."""
    (points, x), (others, y), (of_left, of_right) = left, right, weights
    s, t = len(of_left), len(of_right)

    def work(tile: Tile) -> None:
        rows, columns = tile
        these = slice(rows.start * s, rows.stop * s)
        those = slice(columns.start * t, columns.stop * t)
        norms = x[these], y[those]
        values = kernel_table(kernel, points[these], others[those], norms)
        _means(values, of_left, of_right, np.empty(values.shape[1], dtype=values.dtype), out[tile])

    shared = kernel.thread_safe
    # Fewer, where there are few, so that there is something for each thread.
    most = min(LEFT, max(RIGHT, len(points) // 4)) if shared else LEFT_ALONE
    rows, columns = max(1, most // s), max(1, RIGHT // t)
    tiles = _tiles(out.shape, rows, columns, symmetric)
    if not shared:
        for tile in tiles:
            work(tile)
        return

    def portion(numbers: slice) -> None:
        for tile in tiles[numbers]:
            work(tile)

    # BLAS within each thread alone: its own pool waits busily, and takes the processors from ours.
    with one_blas_thread():
        in_threads(portion, len(tiles), len(points) * len(others), most=1)


def _tiles(shape: tuple[int, ...], rows: int, columns: int, symmetric: bool) -> list[Tile]:
    """Tiles of a table of about the same size, so that threads have as much to do."""
    down, across = _even(shape[0], rows), _even(shape[1], columns)
    return [(i, j) for i in down for j in across if not symmetric or j.stop > i.start]


def _even(n: int, size: int) -> list[slice]:
    count = -(-n // size)
    edges = [n * k // count for k in range(count + 1)]
    return [slice(first, last) for first, last in zip(edges[:-1], edges[1:], strict=True)]


def mean_diagonal(kernel: Kernel, X: np.ndarray, left: Changes | None, right: Changes) -> np.ndarray:
    """The mean of the kernel over the changes of both sides, of each row with itself, (n,)."""
    values = np.empty(len(X))
    weights = np.ones(1) if left is None else left.weights
    within = len(weights) * right.size
    step = min(MEMBERS // (2 * right.size * max(1, X.shape[1])), WITHIN // within)
    for rows in _portions(0, len(X), max(1, step)):
        others = _members(right, X[rows])
        points = others if left is right else X[rows] if left is None else _members(left, X[rows])
        n = rows.stop - rows.start
        stacks = points.reshape(n, len(weights), -1), others.reshape(n, right.size, -1)
        found = _stacked(kernel, *stacks).astype(np.float64, copy=False)
        values[rows] = (found @ right.weights) @ weights
    return values


def _stacked(kernel: Kernel, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """The kernel of points (n, s, d) and others (n, t, d) of the same row, (n, s, t)."""
    if kernel.thread_safe:
        found = kernel._stacked(left, right)
        found = _from_partials(kernel, left, right) if found is None else found
        if found is not None:
            return found
    found = np.empty((len(left), left.shape[1], right.shape[1]), dtype=left.dtype)
    for number, (points, others) in enumerate(zip(left, right, strict=True)):
        found[number] = kernel_matrix(kernel, points, others)
    return found


def _from_partials(kernel: Kernel, left: np.ndarray, right: np.ndarray) -> np.ndarray | None:
    """`_stacked` of a function of distances and products, all rows at once; None where it is none.

    In float64, which holds what widths far out make of distances; None, too, where that does not.
    """
    # Kernels that are less smooth turn rounding errors of a distance of 0 into roots of them.
    uses_distances, uses_products = kernel.uses_distances, kernel.uses_products
    if kernel.smoothness < 1 or not (uses_distances or uses_products):
        return None
    left, right = left.astype(np.float64, copy=False), right.astype(np.float64, copy=False)
    products = distances = None
    with np.errstate(over="ignore", invalid="ignore"):
        if uses_products:
            products = left @ right.transpose(0, 2, 1)
        if uses_distances:
            # Members of a row are close to each other, perhaps far from the origin.
            x, y = left - left[:, :1], right - left[:, :1]
            distances = x @ y.transpose(0, 2, 1)
            distances -= half_norms(x.reshape(-1, x.shape[2])).reshape(len(x), -1, 1)
            distances -= half_norms(y.reshape(-1, y.shape[2])).reshape(len(y), 1, -1)
            distances *= -2.0
            np.maximum(distances, 0.0, out=distances)
    if not all(np.all(np.isfinite(known)) for known in (products, distances) if known is not None):
        return None
    return kernel.partials(distances, products, 0)[0, 0]


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
    """Put what is above the diagonal below it, by squares that the cache holds."""
    for first in range(0, len(table), SIDE):
        rows = slice(first, first + SIDE)
        for start in range(0, first, SIDE):
            columns = slice(start, start + SIDE)
            table[rows, columns] = table[columns, rows].T
        square = table[rows, rows]
        square[:] = np.triu(square) + np.triu(square, 1).T
