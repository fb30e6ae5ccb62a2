"""Lists of points."""

from __future__ import annotations

from typing import Self

import numpy as np

from ..utils.jit import LEAN, njit
from ..utils.matrices import contiguous_read_only
from .base import Region, SquaredDistances, exactly

# A squared distance below this fraction of |x|^2 + |y|^2 is computed again from differences, since
# products are imprecise.
CLOSE = {np.dtype(np.float64): 1e-6, np.dtype(np.float32): 1e-2}


class Points(Region):
    """Lists of points, of equal length for every row.

    Parameters
    ----------
    members : ndarray of float32 or float64 of shape (n, s, d)
        Points of each list; the unperturbed row is first.

    See Also
    --------
    Region : Base class of regions.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.regions import Points
    >>> pairs = Points(np.array([[[0.0, 0.0], [3.0, 0.0]]]))
    >>> pairs.from_points(np.array([[4.0, 0.0], [0.0, 2.0]])).upper
    array([[1.],
           [4.]])
    """

    kind = "list"

    def __init__(self, members: np.ndarray) -> None:
        self.members = members

    @property
    def centers(self) -> np.ndarray:
        return self.members[:, 0]

    def numbers_a_pair(self, between: bool) -> int:
        return self.members.shape[1] ** (1 + between)

    def part(self, rows: slice) -> Self:
        return type(self)(self.members[rows])

    def moved(self, step: np.ndarray) -> Self:
        return type(self)(self.members + step)

    def listed(self) -> np.ndarray:
        return self.members

    def from_points(self, points: np.ndarray) -> SquaredDistances:
        return Points(points[:, None, :]).between(self)

    def between(self, other: Points) -> SquaredDistances:
        return exactly(nearest_members(self.members, other.members)[0])


def nearest_members(left: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the smallest squared distances between lists, and the nearest points.

    Shapes: `left` (n, s, d), `right` (m, t, d); returns `squares` (n, m), `numbers` (n, m, 2).
    """
    (n, s, d), (m, t, _) = left.shape, right.shape
    left, right = contiguous_read_only(left), contiguous_read_only(right)
    products = left.reshape(-1, d) @ right.reshape(-1, d).T
    squares = np.empty((n, m), dtype=products.dtype)
    numbers = np.zeros((n, m, 2), dtype=np.intp)
    close = CLOSE[np.dtype(products.dtype)]
    own = (np.einsum("nsd,nsd->ns", each, each, dtype=np.float64) for each in (left, right))
    _least_of_members(products.reshape(n, s, m, t), left, right, *own, close, squares, numbers)
    return squares, numbers


@njit(**LEAN)
def _least_of_members(products, left, right, own_left, own_right, close, squares, numbers):
    n, s, m, t = products.shape
    for i in range(n):
        for j in range(m):
            best = np.inf
            for a in range(s):
                for b in range(t):
                    whole = own_left[i, a] + own_right[j, b]
                    square = whole - 2.0 * products[i, a, j, b]
                    if square < close * whole:
                        # Products are imprecise for near points: use the difference.
                        square = 0.0
                        for k in range(left.shape[2]):
                            step = float(left[i, a, k]) - float(right[j, b, k])
                            square += step * step
                    if square < best:
                        best = square
                        numbers[i, j, 0], numbers[i, j, 1] = a, b
            squares[i, j] = best
