"""Products with the Gram matrix of values and gradients, without the matrix."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ..kernels import Kernel
from ..utils.jit import LEAN, njit
from ..utils.matrices import in_threads
from .gram import centered, partials_between

# Maximum number of kernel values computed at once: 32 MB in double precision.
VALUES_AT_ONCE = 4_000_000

Partials = dict[tuple[int, int], np.ndarray]


class JetGram:
    """Gram matrix between values and gradients at two lists of points, for products.

    The kernel is k = Phi(s, t) with s = |x - y|^2, t = <x, y> and d = x_i - y_j. The function is
    f = sum_j [alpha_j k(., y_j) + <A_j, grad_y k(., y_j)>]. Its gradients take three matrix products:
    ``P = X A'``, one with A, and one with Y. They are

        ``grad f(x_i) = sum_j (Phi_t - 2 Phi_s) A_j + W_ij d + V_ij y_j`` with
        ``W = 2 Phi_s alpha_j - 4 Phi_ss E + 2 Phi_st T``,
        ``V = Phi_t alpha_j - 2 Phi_st E + Phi_tt T``,

    where ``E_ij = P_ij - <y_j, A_j>`` and ``T_ij = P_ij``. For Gaussian kernels this is eq. 11 of Zhang,
    Lee and Teh (2013).

    Shapes: `X` (w, d), `Y` (w, d).
    """

    def __init__(
        self, kernel: Kernel, X: np.ndarray, Y: np.ndarray, order: int, cache_bytes: float = 0.0
    ) -> None:
        self.kernel = kernel
        self.X, self.Y = centered(kernel, X, Y)
        if X is Y:
            self.Y = self.X
        self.order = order
        self._kept: Partials | None = None
        self._room = np.zeros((0, 0), dtype=X.dtype)
        # Order 0 has one table. Third-party kernels may not support empty arrays.
        n_tables = 1 if order == 0 else len(partials_between(kernel, X[:0], Y[:0], order))
        if n_tables * len(X) * len(Y) * X.dtype.itemsize <= cache_bytes:
            self._kept = self._partials(slice(None))

    @property
    def kept_bytes(self) -> int:
        """The memory of cached partial derivatives, in bytes."""
        return 0 if self._kept is None else sum(table.nbytes for table in self._kept.values())

    def _partials(self, rows: slice) -> Partials:
        return partials_between(self.kernel, self.X[rows], self.Y, self.order)

    def _tiles(self) -> Iterator[tuple[slice, Partials]]:
        step = max(1, VALUES_AT_ONCE // max(1, len(self.Y)))
        for first in range(0, len(self.X), step):
            rows = slice(first, min(first + step, len(self.X)))
            if self._kept is None:
                yield rows, self._partials(rows)
            else:
                yield rows, {order: table[rows] for order, table in self._kept.items()}

    def _space(self, n_rows: int) -> np.ndarray:
        """Return memory for a tile, allocated once, because new pages are slow."""
        if len(self._room) < n_rows:
            self._room = np.empty((n_rows, len(self.Y)), dtype=self.X.dtype)
        return self._room[:n_rows]

    def product(
        self,
        alpha: np.ndarray | None,
        slopes: np.ndarray | None = None,
        values: bool = True,
        gradients: bool = True,
    ) -> tuple[np.ndarray | None, np.ndarray | None]:
        """Compute values and gradients at X of the function with these coefficients at Y.

        None stands for coefficients 0, and for results that are not requested.

        Shapes: `alpha` (w,), `slopes` (w, d).
        """
        dtype, shape = self.X.dtype, self.X.shape
        alpha = None if alpha is None else np.ascontiguousarray(alpha, dtype=dtype)
        slopes = None if slopes is None else np.ascontiguousarray(slopes, dtype=dtype)
        all_values = np.zeros(shape[0], dtype=dtype) if values else None
        all_gradients = np.zeros(shape, dtype=dtype) if gradients else None
        with_slopes = None if slopes is None else np.einsum("ij,ij->i", self.Y, slopes)
        for rows, partials in self._tiles():
            part = self.X[rows]
            along = None if slopes is None else np.matmul(part, slopes.T, out=self._space(len(part)))
            tile = _Tile(self.kernel, part, self.Y, partials, alpha, slopes, with_slopes, along)
            if all_values is not None:
                all_values[rows] = tile.values()
            if all_gradients is not None:
                all_gradients[rows] = tile.gradients()
        return all_values, all_gradients


@dataclass
class _Tile:
    """Some rows of X with all rows of Y."""

    kernel: Kernel
    X: np.ndarray
    Y: np.ndarray
    partials: Partials
    alpha: np.ndarray | None
    slopes: np.ndarray | None
    with_slopes: np.ndarray | None
    along: np.ndarray | None

    def values(self) -> np.ndarray:
        """Compute f at the rows."""
        total = np.zeros(len(self.X), dtype=self.X.dtype)
        if self.alpha is not None and (0, 0) in self.partials:
            total += self.partials[0, 0] @ self.alpha
        if self.along is not None and (1, 0) in self.partials:
            slope = self.partials[1, 0]
            total -= 2 * (np.einsum("ij,ij->i", slope, self.along) - slope @ self.with_slopes)
        if self.along is not None and (0, 1) in self.partials:
            total += np.einsum("ij,ij->i", self.partials[0, 1], self.along)
        return total

    def gradients(self) -> np.ndarray:
        """Compute the gradient of f at the rows; call it last, as it overwrites fields."""
        if not self.kernel.uses_products:
            return self._gradients_of_distances()
        total = np.zeros_like(self.X)
        if self.slopes is not None:
            if (1, 0) in self.partials:
                total += self.partials[1, 0] @ (-2 * self.slopes)
            if (0, 1) in self.partials:
                total += self.partials[0, 1] @ self.slopes
        along_differences, along_y = self._weights()
        if along_differences is not None:
            # sum_j W_ij (x_i - y_j) + V_ij y_j, with one product with Y.
            total += self.X * along_differences.sum(axis=1)[:, None]
            along_y = -along_differences if along_y is None else along_y - along_differences
        return total if along_y is None else total + along_y @ self.Y

    def _gradients_of_distances(self) -> np.ndarray:
        """Compute `gradients` for a kernel of distances only, with few passes over the tile."""
        weights, sums = self._weights_of_distances()
        if weights is None:
            return np.zeros_like(self.X)
        total = weights @ self.Y
        if self.slopes is None:
            moved = np.zeros((0, 0), dtype=total.dtype)
        else:
            moved = self.partials[1, 0] @ self.slopes
        _finish(total, np.ascontiguousarray(self.X), sums, moved)
        return total

    def _weights(self) -> tuple[np.ndarray | None, np.ndarray | None]:
        """Return W and V of `JetGram`; None for zeros."""
        sides: list[np.ndarray | None] = []
        for (first, mixed, last), factor in (
            (((1, 0), (2, 0), (1, 1)), 2.0),
            (((0, 1), (1, 1), (0, 2)), 1.0),
        ):
            total: np.ndarray | None = None
            if self.alpha is not None and first in self.partials:
                total = _plus(total, self.partials[first] * (factor * self.alpha))
            if self.along is not None and self.with_slopes is not None:
                if mixed in self.partials:
                    moved = self.partials[mixed] * (self.along - self.with_slopes)
                    total = _plus(total, np.multiply(moved, -2.0 * factor, out=moved))
                if last in self.partials:
                    moved = self.partials[last] * self.along
                    total = _plus(total, np.multiply(moved, factor, out=moved))
            sides.append(total)
        return sides[0], sides[1]

    def _weights_of_distances(self) -> tuple[np.ndarray | None, np.ndarray]:
        """Return -W and its row sums for a kernel of distances only; overwrites ``X A'``."""
        sums = np.empty(len(self.X), dtype=self.X.dtype)
        if self.along is None or self.with_slopes is None or (2, 0) not in self.partials:
            if self.alpha is None:
                return None, sums
            weights = self.partials[1, 0] * (-2 * self.alpha)
            return weights, weights.sum(axis=1)
        along, with_slopes = self.along, self.with_slopes
        first, second = self.partials[1, 0], self.partials[2, 0]
        alpha = np.zeros(0, dtype=along.dtype) if self.alpha is None else self.alpha

        def work(part: slice) -> None:
            _weigh(along[part], with_slopes, first[part], second[part], alpha, sums[part])

        in_threads(work, len(along), along.size)
        return along, sums


def _plus(total: np.ndarray | None, more: np.ndarray) -> np.ndarray:
    if total is None:
        return more
    total += more
    return total


@njit(**LEAN, fastmath={"reassoc", "contract"})
def _weigh(along, with_slopes, first, second, alpha, sums):
    two, four = along.dtype.type(2), along.dtype.type(4)
    for i in range(along.shape[0]):
        total = along.dtype.type(0)
        for j in range(along.shape[1]):
            along[i, j] = four * second[i, j] * (along[i, j] - with_slopes[j])
        if len(alpha):
            for j in range(along.shape[1]):
                along[i, j] -= two * first[i, j] * alpha[j]
        for j in range(along.shape[1]):
            total += along[i, j]
        sums[i] = total


@njit(**LEAN)
def _finish(total, X, sums, moved):
    """Compute ``total - sums_i x_i - 2 moved`` in place; an empty `moved` means zeros."""
    two = total.dtype.type(2)
    for i in range(total.shape[0]):
        for p in range(total.shape[1]):
            total[i, p] -= sums[i] * X[i, p]
        if len(moved):
            for p in range(total.shape[1]):
                total[i, p] -= two * moved[i, p]
