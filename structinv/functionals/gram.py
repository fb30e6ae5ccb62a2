"""Gram matrices of values and derivatives, from partial derivatives of a kernel."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..kernels import Kernel
from ..kernels.kernel_values import kernel_matrix, kernel_partials, squared_norms
from .parts import Atoms

# Numbers of directions: one, or two that are differentiated together.
Block = tuple[int, ...]


def centered(kernel: Kernel, *points: np.ndarray) -> tuple[np.ndarray, ...]:
    """Center points to lose fewer digits, if the kernel depends on differences only."""
    if (kernel.uses_distances, kernel.uses_products) != (True, False) or sum(map(len, points)) == 0:
        return points
    center = np.concatenate([each.mean(axis=0, keepdims=True) for each in points if len(each)])
    return tuple(each - center.mean(axis=0) for each in points)


def partials_between(
    kernel: Kernel, X: np.ndarray, Y: np.ndarray, order: int
) -> dict[tuple[int, int], np.ndarray]:
    """Compute partial derivatives of the kernel up to an order between all rows.

    Derivatives that are zero are left out.
    """
    if order == 0:
        # Values exist for any kernel.
        return {(0, 0): kernel_matrix(kernel, X, Y)}
    products = X @ Y.T
    distances = None
    uses_distances, uses_products = kernel.uses_distances, kernel.uses_products
    if uses_distances:
        distances = squared_norms(X)[:, None].astype(X.dtype) - 2 * products
        distances += squared_norms(Y).astype(X.dtype)
        np.maximum(distances, 0, out=distances)
    return kernel_partials(kernel, distances, products if uses_products else None, order)


def gram_of_atoms(kernel: Kernel, left: Atoms, right: Atoms) -> np.ndarray:
    """Compute ``D_x D_y k(x, y)`` for all atoms on the left and on the right, (m, k).

    The kernel is k = Phi(s, t) with s = |x - y|^2 and t = <x, y>. By Faa di Bruno's formula the result
    is a sum of products. The directions are split into blocks of one or two in all ways, and each block
    is assigned to s or t. A product is the derivative of Phi times the derivatives of s and t along the
    blocks. Third derivatives of s and t are zero.
    """
    averaged = kernel.noise_averaged(left.blur + right.blur, left.points.shape[1])
    if averaged is None:
        raise ValueError(f"{type(kernel).__name__} has no closed form under Gaussian noise")
    kernel = averaged
    X, Y = centered(kernel, left.points, right.points)
    n_directions = len(left.directions) + len(right.directions)
    partials = partials_between(kernel, X, Y, n_directions)
    slopes = _Slopes(kernel, X, Y, left.directions, right.directions)
    total = np.zeros((len(X), len(Y)), dtype=np.result_type(X, Y))
    for blocks in _splits(tuple(range(n_directions))):
        total += _over_assignments(blocks, slopes, partials, (0, 0), None)
    return total


def _splits(numbers: Block) -> Iterator[list[Block]]:
    """Yield all ways to split a set into blocks of one or two."""
    if not numbers:
        yield []
        return
    first, rest = numbers[0], numbers[1:]
    for split in _splits(rest):
        yield [(first,), *split]
    for place, partner in enumerate(rest):
        for split in _splits(rest[:place] + rest[place + 1 :]):
            yield [(first, partner), *split]


def _over_assignments(
    blocks: list[Block],
    slopes: _Slopes,
    partials: dict[tuple[int, int], np.ndarray],
    order: tuple[int, int],
    product: np.ndarray | None,
) -> np.ndarray | float:
    """Return the sum over all ways to assign the remaining blocks to s or t."""
    if not blocks:
        if order not in partials:
            return 0.0
        return partials[order] if product is None else partials[order] * product
    total: np.ndarray | float = 0.0
    for variable, slope in enumerate((slopes.of_distance(blocks[0]), slopes.of_product(blocks[0]))):
        if slope is not None:
            deeper = (order[0] + (variable == 0), order[1] + (variable == 1))
            longer = slope if product is None else product * slope
            total = total + _over_assignments(blocks[1:], slopes, partials, deeper, longer)
    return total


class _Slopes:
    """Derivatives of s = |x - y|^2 and t = <x, y> along directions; those at x come first."""

    def __init__(
        self,
        kernel: Kernel,
        X: np.ndarray,
        Y: np.ndarray,
        left: tuple[np.ndarray, ...],
        right: tuple[np.ndarray, ...],
    ) -> None:
        self.n_left = len(left)
        self.directions = [*left, *right]
        self.uses = kernel.uses_distances, kernel.uses_products
        # <x, v> and <y, v> of each direction v.
        self.along_x = [np.sum(X * u, axis=1)[:, None] for u in left] + [X @ v.T for v in right]
        self.along_y = [u @ Y.T for u in left] + [np.sum(Y * v, axis=1)[None, :] for v in right]

    def of_distance(self, block: Block) -> np.ndarray | None:
        """Return the derivative of s, or None if it is zero."""
        if not self.uses[0]:
            return None
        if len(block) == 2:
            products, same_side = self._between(*block)
            return (2.0 if same_side else -2.0) * products
        sign = 2.0 if block[0] < self.n_left else -2.0
        return sign * (self.along_x[block[0]] - self.along_y[block[0]])

    def of_product(self, block: Block) -> np.ndarray | None:
        """Return the derivative of t, or None if it is zero."""
        if not self.uses[1]:
            return None
        if len(block) == 2:
            products, same_side = self._between(*block)
            return None if same_side else products
        return self.along_y[block[0]] if block[0] < self.n_left else self.along_x[block[0]]

    def _between(self, first: int, second: int) -> tuple[np.ndarray, bool]:
        """Return inner products of two directions, and True if both are at x or both at y."""
        u, v = self.directions[first], self.directions[second]
        if second < self.n_left:
            return np.sum(u * v, axis=1)[:, None], True
        if first >= self.n_left:
            return np.sum(u * v, axis=1)[None, :], True
        return u @ v.T, False
