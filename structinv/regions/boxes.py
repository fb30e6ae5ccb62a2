"""Axis-aligned boxes around rows."""

from __future__ import annotations

import numpy as np

from ..utils.jit import njit
from .base import SquaredDistances, exactly
from .dilations import Dilations


class Boxes(Dilations):
    r"""Axis-aligned boxes with the same radii around all rows.

    The distance from a point is ``sqrt(sum_i max(0, |x_i - y_i| - r_i)^2)``. Between two boxes the radii
    are added (Pozdnoukhov and Bengio 2006, eqs. 14 and 15; the printed eq. 15 lacks the square).

    Parameters
    ----------
    centers : ndarray of shape (n, d)
        Centers of the boxes.
    radius : ndarray of shape (d,)
        Radii along the axes (>= 0).

    See Also
    --------
    Ellipsoids : Ellipsoids around rows.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.regions import Boxes
    >>> boxes = Boxes(np.array([[0.0, 0.0]]), np.array([1.0, 0.5]))
    >>> np.sqrt(boxes.from_points(np.array([[4.0, 4.5]])).upper)
    array([[5.]])
    """

    kind = "box"

    def _outside(self, left: np.ndarray, right: np.ndarray, radius: np.ndarray) -> SquaredDistances:
        dtype = np.result_type(left, right)
        squares = np.empty((len(left), len(right)), dtype=dtype)
        left, right = (np.ascontiguousarray(each, dtype=dtype) for each in (left, right))
        _outside_boxes(left, right, radius.astype(dtype), squares)
        return exactly(squares)


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def _outside_boxes(left, right, radius, squares):
    nothing = radius.dtype.type(0.0)
    for i in range(left.shape[0]):
        x = left[i]
        for j in range(right.shape[0]):
            y = right[j]
            total = nothing
            for k in range(len(radius)):
                outside = abs(x[k] - y[k]) - radius[k]
                outside = outside if outside > nothing else nothing
                total += outside * outside
            squares[i, j] = total
