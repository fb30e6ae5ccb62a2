"""Bounds of distances, and least squares by other solvers."""

from collections import namedtuple

import numpy as np
from scipy.optimize import lsq_linear

from structinv.metrics import set_distance
from structinv.metrics.distances import compare
from structinv.oracles.third_party import region_of
from structinv.regions.base import between

Bounds = namedtuple("Bounds", ["upper", "lower", "exact"])


def bounds_of(oracle, X, Y, sides="two"):
    """Distances, lower bounds of the search, and whether both are equal."""
    compared = compare(oracle, X, Y, sides, region_of)
    left, right = compared.left, compared.right
    if sides == "one":
        lower = np.sqrt(right.from_points(left).lower)
    elif sides == "two":
        lower = np.sqrt(between(left, right).lower)
    else:
        forth, back = right.from_points(left.centers), left.from_points(right.centers)
        lower = 0.5 * (np.sqrt(forth.lower) + np.sqrt(back.lower).T)
    exact = right.exact_between if sides == "two" else right.exact_from_points
    return Bounds(set_distance(oracle, X, Y, sides), lower, exact)


def bounded(matrix, target, low, high):
    """The least square, by two solvers of another kind, the better of both."""
    fixed = low == high
    rest = target - matrix[:, fixed] @ low[fixed]
    if fixed.all():
        return rest @ rest
    free = matrix[:, ~fixed]
    bounds = (low[~fixed], high[~fixed])
    found = [lsq_linear(free, rest, bounds, method=method, tol=1e-14).cost for method in ("bvls", "trf")]
    return 2.0 * min(found)


def some(dtype, r, seed=0):
    rng = np.random.default_rng(seed)
    rows, others = rng.standard_normal((4, 9)), rng.standard_normal((5, 9))
    directions, turned = rng.standard_normal((4, r, 9)), rng.standard_normal((5, r, 9))
    if r > 1:
        directions[:, 1], turned[0] = -3.0 * directions[:, 0], directions[0]
        others[0] = rows[0] + directions[0, 0]
    return [each.astype(dtype) for each in (rows, others)], (directions, turned)


def parallel(angle, dtype=np.float64):
    """Two rows at an angle, and the distance of their segments from half of a row to twice as much.

    The end of the longer one is nearest to the other: half of its length times the angle's sine.
    """
    rows = np.array([[3.0, 4.0], [3.3, 4.4]])
    rows[1] += 5.5 * np.tan(angle) * np.array([-0.8, 0.6])
    rows = rows.astype(dtype)
    x, y = rows.astype(np.float64)
    return rows, 0.5 * abs(x[0] * y[1] - x[1] * y[0]) / np.linalg.norm(x)


def least(left, right):
    return np.linalg.norm(left[:, None] - right[None], axis=-1).min()
