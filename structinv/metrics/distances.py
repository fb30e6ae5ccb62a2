"""Set distances: distances between perturbation sets, and tangent distances."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..oracles import InvarianceOracle
from ..oracles.arguments import check_needs_no_label, closest_of, real_rows
from ..oracles.base import as_oracle
from ..oracles.columns import with_numbers
from ..oracles.third_party import region_of, tangent_planes
from ..regions import Region
from ..regions.base import between
from ..regions.inner_products import fill_table
from ..utils import plugins
from ..utils.matrices import best_first, first_best
from ..utils.parameters import brief, check_boolean, check_integer, columns_of
from ..utils.resources import check_memory

# Number of distances in memory in `nearest`.
_AT_ONCE = 2**24
SIDES = ("one", "two", "mean")

Make = Callable[[InvarianceOracle, np.ndarray], Region]


def set_distance(oracle: InvarianceOracle, X: Any, Y: Any = None, sides: str = "two") -> np.ndarray:
    r"""Compute distances between perturbation sets, or from samples to them.

    .. math:: \min_{z \in S(y_j)} |x_i - z|, \qquad \min_{u \in S(x_i),\, z \in S(y_j)} |u - z|

    The first is ``sides="one"``, the second ``sides="two"``. ``sides="mean"`` is the mean of both
    one-sided distances (Pozdnoukhov and Bengio 2006, section 3).

    Parameters
    ----------
    oracle : InvarianceOracle
        Oracle with a region (see Notes) that does not depend on labels.
    X : array-like of shape (n_samples_X, n_features)
        Samples.
    Y : array-like of shape (n_samples_Y, n_features), default=None
        Samples; `X` if None. Columns of two data frames are aligned by name.
    sides : {"two", "one", "mean"}, default="two"
        Kind of distance. "one" is from the sample X[i] to the set of Y[j], and is not symmetric.

    Returns
    -------
    ndarray of shape (n_samples_X, n_samples_Y)
        Distances, not squared, in the precision of the samples.

    Raises
    ------
    TypeError, ValueError
        If X and Y are not dense, finite and real with equal numbers of features, if `sides` is invalid,
        or if the oracle depends on labels.
    NotImplementedError
        If the oracle has no region, or if distances between its sets are not implemented.

    See Also
    --------
    tangent_distance : Distances between tangent planes.
    nearest : The k nearest samples, without the whole distance matrix.

    Notes
    -----
    The distances of these oracles are exact up to rounding:

    - oracles with a list of transformations, such as `Flip` and `Rotations([5, 10])` ("jittering"),
    - `Box`, `Segment`, `Offset` and `TangentDerivative`,
    - `Ellipsoid` and `Trajectory` for ``sides="one"``,
    - `Ellipsoid` with the same matrix `factor` for all samples, for every value of `sides`.

    Other distances result from a search, with a lower bound. This holds for ellipsoids with different
    factors, trajectories, and images with `interval`. A larger `resolution` of the oracle gives tighter
    bounds.

    Distances of a union are exact if those of its parts are. For two-sided distances the parts must be
    of one kind, or lists. Distances of ``left @ right`` are exact if `right` is a list. They are also
    exact if `left` is additive and both are boxes, balls or combinations of directions, as in
    ``Offset(0.1) @ Segment(0.5, 2.0)``. Otherwise the cover of the composition is searched, if it has
    one.

    For nearest neighbors of scikit-learn, pass the distance matrix with ``metric="precomputed"``. A
    callable metric is slow, since scikit-learn calls it for one pair at a time.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.metrics import set_distance
    >>> from structinv.oracles import Segment
    >>> signals = np.array([[1.0, 0.0], [1.0, 1.0]])
    >>> set_distance(Segment(0.5, 3.0), [[4.0, 0.0]], signals, sides="one").round(4)
    array([[1.    , 2.8284]])

    Nearest neighbors of scikit-learn, with a distance matrix and, slowly, pair by pair:

    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> oracle, y = Segment(0.5, 3.0), [0, 1]
    >>> near = KNeighborsClassifier(1, metric="precomputed").fit(set_distance(oracle, signals), y)
    >>> near.predict(set_distance(oracle, [[4.0, 1.0]], signals))
    array([0])
    >>> slow = KNeighborsClassifier(1, metric=lambda x, y: set_distance(oracle, [x], [y])[0, 0])
    >>> slow.fit(signals, y).predict([[4.0, 1.0]])
    array([0])
    """
    return _distances(oracle, X, Y, sides, region_of)


def tangent_distance(oracle: InvarianceOracle, X: Any, Y: Any = None, sides: str = "two") -> np.ndarray:
    r"""Compute tangent distances: distances between tangent planes, in closed form.

    .. math:: \min_{t, u} |x_i + T(x_i) t - y_j - T(y_j) u|

    The formula is that of ``sides="two"`` (Simard, LeCun and Denker 1993; Pozdnoukhov and Bengio 2006,
    eqs. 16 and 17). With ``sides="one"`` only the tangent planes of Y are used. Linearly dependent
    tangents of a sample are dropped, with the tolerance 1e-6 for unit tangents. For bounded coefficients
    use `set_distance` with ``TangentDerivative(oracle, bounds)``.

    Parameters
    ----------
    oracle : InvarianceOracle
        Oracle with `tangents`, such as image oracles, `Segment` or `LocalTangents`.
    X : array-like of shape (n_samples_X, n_features)
        Samples.
    Y : array-like of shape (n_samples_Y, n_features), default=None
        Samples; `X` if None. Columns of two data frames are aligned by name.
    sides : {"two", "one", "mean"}, default="two"
        Kind of distance, as in `set_distance`.

    Returns
    -------
    ndarray of shape (n_samples_X, n_samples_Y)
        Distances, not squared.

    Raises
    ------
    TypeError, ValueError
        If X and Y are not dense, finite and real with equal numbers of features, if `sides` is invalid,
        or if the oracle depends on labels.
    NotImplementedError
        If the oracle has no tangents.

    See Also
    --------
    set_distance : Distances between perturbation sets.
    nearest : The k nearest samples, also by tangent distance.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.metrics import tangent_distance
    >>> from structinv.oracles import Offset, Segment
    >>> signals = np.array([[1.0, 2.0, 3.0], [5.0, 6.0, 7.0], [1.0, 0.0, 1.0]])
    >>> tangent_distance(Offset(1.0), signals).round(3) + 0.0
    array([[0.   , 0.   , 1.633],
           [0.   , 0.   , 1.633],
           [1.633, 1.633, 0.   ]])
    >>> tangent_distance(Segment(0.5, 2.0), signals, sides="one").round(3) + 0.0
    array([[0.   , 0.934, 2.449],
           [2.619, 0.   , 6.164],
           [0.926, 0.831, 0.   ]])
    """
    return _distances(oracle, X, Y, sides, tangent_planes)


def nearest(
    oracle: InvarianceOracle,
    X: Any,
    Y: Any,
    k: int = 1,
    *,
    sides: str = "two",
    tangents: bool = False,
) -> tuple[np.ndarray, np.ndarray]:
    """Find the k nearest samples of Y to each sample of X, by set distance.

    The whole distance matrix is never in memory.

    Parameters
    ----------
    oracle : InvarianceOracle
        Oracle with a region that does not depend on labels.
    X : array-like of shape (n_samples_X, n_features)
        Query samples.
    Y : array-like of shape (n_samples_Y, n_features)
        Candidates. Columns of two data frames are aligned by name.
    k : int, default=1
        Number of neighbors, from 1 to `n_samples_Y`.
    sides : {"two", "one", "mean"}, default="two"
        Kind of distance, as in `set_distance`.
    tangents : bool, default=False
        Whether to use tangent distances.

    Returns
    -------
    distances : ndarray of shape (n_samples_X, k)
        Increasing distances.
    numbers : ndarray of int of shape (n_samples_X, k)
        Indices of the neighbors in Y. In ties the smallest index is first.

    Raises
    ------
    TypeError, ValueError
        If X and Y are not dense, finite and real with equal numbers of features, if a parameter is
        invalid, or if the oracle depends on labels.
    NotImplementedError
        If the oracle does not support these distances.

    See Also
    --------
    set_distance : The distances between all samples.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.metrics import nearest
    >>> from structinv.oracles import Offset
    >>> Y = np.array([[0.0, 0.0], [5.0, 7.0], [1.0, 4.0]])
    >>> distances, numbers = nearest(Offset(10.0), [[1.0, 3.0]], Y, k=2)
    >>> distances.round(3) + 0.0, numbers
    (array([[0.   , 0.707]]), array([[1, 2]]))
    """
    check_needs_no_label(as_oracle(oracle))
    check_sides(sides)
    if Y is None:
        raise TypeError("Y must be an array of samples, got None: pass X twice for neighbors in X")
    oracle = with_numbers(oracle, columns_of(X))
    X, Y = _rows(X, Y)
    check_integer("k", k, 1, len(Y), "rows of Y")
    check_boolean("tangents", tangents)
    make = tangent_planes if tangents else region_of
    step = max(1, _AT_ONCE // len(Y))
    found = np.empty((len(X), int(k)), dtype=np.result_type(X, Y))
    numbers = np.empty((len(X), int(k)), dtype=np.intp)
    whole = compare(oracle, X[:step], Y, sides, make)
    for first in range(0, len(X), step):
        rows = X[first : first + step]
        if first:
            whole = whole.others(oracle, rows, make)
        distances = table(whole, len(rows), len(Y), False)
        part = slice(first, first + step)
        numbers[part] = _smallest(distances, int(k))
        found[part] = np.take_along_axis(distances, numbers[part], axis=1)
    return found, numbers


def _distances(oracle: InvarianceOracle, X: Any, Y: Any, sides: str, make: Make) -> np.ndarray:
    """Return distances of the sets that `make` returns."""
    check_needs_no_label(as_oracle(oracle))
    check_sides(sides)
    same, oracle = Y is None or Y is X, with_numbers(oracle, columns_of(X))
    X, Y = _rows(X, None if same else Y)
    check_memory("a distance matrix", len(X) * len(Y) * X.itemsize, "pass fewer samples")
    return table(compare(oracle, X, Y, sides, make), len(X), len(Y), same)


def _rows(X: Any, Y: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return both as arrays with a common dtype; the same array twice if `Y` is missing."""
    if isinstance(Y, str):
        raise TypeError(f"Y must be an array of samples, got {Y!r}: pass sides={Y!r}")
    columns = columns_of(X)
    X = _samples("X", X, columns)
    Y = X if Y is None else _samples("Y", Y, columns)
    if X.shape[1] != Y.shape[1]:
        raise ValueError(f"Y must have {X.shape[1]} features, the number of X, got {Y.shape[1]}")
    dtype = np.result_type(X, Y)
    return X.astype(dtype, copy=False), Y.astype(dtype, copy=False)


def _samples(name: str, X: Any, columns: list[Any] | None) -> np.ndarray:
    rows = real_rows(name, X, columns)
    if rows.ndim != 2:
        raise ValueError(
            f"{name} must have shape (n_samples, n_features), got {rows.shape}: pass [{name}] for a "
            "single sample"
        )
    if not rows.size:
        raise ValueError(f"{name} must have at least one sample and one feature, got shape {rows.shape}")
    return rows


def _smallest(distances: np.ndarray, k: int) -> np.ndarray:
    """Return the columns of the k smallest entries of each row, increasing; ties by column."""
    if k == 1:
        return first_best(-distances)[:, None]
    return np.array([best_first(-row, k) for row in distances], dtype=np.intp).reshape(-1, k)


class Comparison(NamedTuple):
    """Perturbation sets on two sides, and the kind of distance between them.

    - `left`: perturbation sets of X; the rows of X if `sides` is "one"
    - `right`: perturbation sets of Y
    - `sides`: kind of distance
    - `step` (d,): translation of all rows to a common origin, for precision
    """

    left: Region | np.ndarray
    right: Region
    sides: str
    step: np.ndarray

    def distances(self, rows: slice, columns: slice) -> np.ndarray:
        """Return distances between some rows of both sides."""
        right = self.right.part(columns)
        if not isinstance(self.left, Region):
            return np.sqrt(right.from_points(self.left[rows]).upper)
        left = self.left.part(rows)
        if self.sides == "two":
            return np.sqrt(between(left, right).upper)
        forth = right.from_points(np.ascontiguousarray(left.centers)).upper
        back = left.from_points(np.ascontiguousarray(right.centers)).upper
        return 0.5 * (np.sqrt(forth) + np.sqrt(back).T)

    def others(self, oracle: InvarianceOracle, X: np.ndarray, make: Make) -> Comparison:
        """Return the comparison with other rows on the left side."""
        left = X + self.step if self.sides == "one" else make(oracle, X).moved(self.step)
        return self._replace(left=left)

    def numbers_a_pair(self) -> int:
        """Return the approximate number of values in memory per pair of rows."""
        return max(1, self.right.numbers_a_pair(self.sides == "two"))


def compare(
    oracle: InvarianceOracle, X: np.ndarray, Y: np.ndarray, sides: str, make: Make
) -> Comparison:
    """Return the perturbation sets of both sides, translated to a common origin."""
    # One pair first, since the sets of all rows may be slow.
    if len(X) > 1 or len(Y) > 1:
        compare(oracle, X[:1], Y[:1], sides, make).distances(slice(0, 1), slice(0, 1))
    check_sizes(X, Y)
    right = make(oracle, Y)
    if sides != "one":
        return compare_regions(right if X is Y else make(oracle, X), right, sides)
    step = _to_origin(right)
    return Comparison(X + step, right.moved(step), sides, step)


def compare_regions(left: Region, right: Region, sides: str) -> Comparison:
    """Return the comparison of given regions, translated to a common origin."""
    step = _to_origin(right)
    moved = right.moved(step)
    return Comparison(moved if left is right else left.moved(step), moved, sides, step)


def check_sizes(X: np.ndarray, Y: np.ndarray) -> None:
    """Raise ValueError if squares of entries overflow or lose precision."""
    for rows in (X,) if Y is X else (X, Y):
        largest = float(np.max(np.abs(rows), initial=0.0))
        kind = np.finfo(rows.dtype)
        low, high = float(kind.tiny) ** 0.5 * 1e3, float(kind.max) ** 0.5 * 1e-3
        if largest > 0 and not low <= largest <= high:
            raise ValueError(
                f"the largest absolute value of rows of {rows.dtype} must be between {low:.0e} and "
                f"{high:.0e}, got {largest:.3g}: rescale the features"
            )


def _to_origin(region: Region) -> np.ndarray:
    centers = region.centers
    return (-np.mean(centers, axis=0, dtype=np.float64)).astype(centers.dtype)


def table(compared: Comparison, n: int, m: int, same: bool) -> np.ndarray:
    """Compute distances of shape (n, m), in several threads."""
    found = np.empty((n, m), dtype=compared.right.centers.dtype)
    # The error below replaces NumPy's warnings.
    with np.errstate(over="ignore", invalid="ignore"):
        fill_table(
            found, compared.numbers_a_pair(), same and compared.sides != "one", compared.distances
        )
    if not plugins.all_finite(found):
        raise ValueError(
            "distances must be finite, got NaN or infinity: rescale the features, since X or its "
            "perturbed samples are too large"
        )
    if same:
        np.fill_diagonal(found, 0.0)
    return found


def check_sides(sides: Any, allowed: tuple[str, ...] = SIDES) -> None:
    """Raise ValueError unless `sides` is one of the allowed values."""
    if not isinstance(sides, str) or sides not in allowed:
        raise ValueError(
            f"sides must be one of {list(allowed)}, got {brief(sides)}{closest_of(sides, allowed)}"
        )
