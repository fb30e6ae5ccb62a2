"""Distances between the sets that oracles describe."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..oracles import InvarianceOracle
from ..oracles.arguments import check_needs_no_label, real_rows
from ..oracles.base import as_oracle
from ..utils.parameters import check_boolean, check_integer
from ..utils.resources import check_memory
from .comparison import check_sides, compare, sets_of, table

# Distances that `nearest` holds at once.
_AT_ONCE = 2**24


class DistanceBounds(NamedTuple):
    """Distances with what is known of them.

    Attributes
    ----------
    found : (n, m) array
        Distances of the nearest points that were found: the true ones are at most these.
    least : (n, m) array
        What the true ones are at least.
    exact : bool
        Whether both are the same but for rounding.
    """

    found: np.ndarray
    least: np.ndarray
    exact: bool


def set_distance(oracle: InvarianceOracle, X: Any, Y: Any = None, sides: str = "two") -> np.ndarray:
    r"""Distances between rows and the sets S around them, or between two such sets.

    .. math:: \min_{z \in S(y_j)} |x_i - z|, \qquad \min_{u \in S(x_i),\, z \in S(y_j)} |u - z|

    The first is ``sides="one"``, the second ``"two"``; ``"mean"`` is the mean of both one-sided ones
    (Pozdnoukhov and Bengio 2006, section 3).

    Parameters
    ----------
    oracle : InvarianceOracle
        One that tells what its sets look like, see Notes, and does not depend on labels.
    X : (n, d) array-like
    Y : (m, d) array-like, optional
        `X` itself by default.
    sides : {"two", "one", "mean"}, default="two"
        "one" goes from the point X[i] to the set of Y[j], and is not symmetric.

    Returns
    -------
    (n, m) array
        Distances, not squared, in the precision of the rows.

    Raises
    ------
    TypeError, ValueError
        If rows are not dense, finite and real with as many features, `sides` is none of these, or the
        oracle depends on labels.
    NotImplementedError
        If the oracle does not tell what its sets look like, or the distance of two such sets is not
        known.

    See Also
    --------
    distance_bounds : the same with a lower bound, and whether they are exact.
    tangent_distance : with the oracle's tangents in the place of its set.
    nearest : the k nearest rows, without the whole table.

    Notes
    -----
    Exact up to rounding: lists (`Flip`, `Rotations([5, 10])`: jittering), `Box`, `Segment`, `Offset` and
    `TangentDerivative`; `Ellipsoid` and `Trajectory` from a point, and ellipsoids of one common factor
    between two sets. Else the nearest points are searched for, with a bound: ellipsoids of different
    factors, trajectories, images with `interval`. A finer `grid` of the oracle comes nearer, and has
    tighter bounds. Unions are as exact as their parts, which must be of one kind, or lists, between two
    sets. ``left @ right`` is exact where `right` is a list, and where `left` is additive and both are
    boxes, balls, or combinations of directions, as in ``Offset(0.1) @ Segment(0.5, 2.0)``; else it is
    searched for in its cover, if it has one.

    scikit-learn's neighbors take the table by ``metric="precomputed"``. A callable metric works, too,
    and is slow, since it is asked about one pair at a time.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.metrics import set_distance
    >>> from structinv.oracles import Segment
    >>> signals = np.array([[1.0, 0.0], [1.0, 1.0]])
    >>> set_distance(Segment(0.5, 3.0), [[4.0, 0.0]], signals, sides="one").round(4)
    array([[1.    , 2.8284]])

    Neighbors by scikit-learn, by a table or, slowly, pair by pair:

    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> oracle, y = Segment(0.5, 3.0), [0, 1]
    >>> near = KNeighborsClassifier(1, metric="precomputed").fit(set_distance(oracle, signals), y)
    >>> near.predict(set_distance(oracle, [[4.0, 1.0]], signals))
    array([0])
    >>> slow = KNeighborsClassifier(1, metric=lambda x, y: set_distance(oracle, [x], [y])[0, 0])
    >>> slow.fit(signals, y).predict([[4.0, 1.0]])
    array([0])
    """
    return distance_bounds(oracle, X, Y, sides).found


def distance_bounds(
    oracle: InvarianceOracle, X: Any, Y: Any = None, sides: str = "two"
) -> DistanceBounds:
    """`set_distance` with what the distances are at least, and whether they are exact.

    Parameters
    ----------
    oracle, X, Y, sides
        See `set_distance`.

    Returns
    -------
    DistanceBounds

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.metrics import distance_bounds
    >>> from structinv.oracles import Rotations
    >>> rng = np.random.default_rng(0)
    >>> X = rng.random((2, 25))
    >>> listed = distance_bounds(Rotations([-10, 10]), X)
    >>> searched = distance_bounds(Rotations(interval=(-10, 10)), X)
    >>> listed.exact, searched.exact, bool(searched.least[0, 1] <= searched.found[0, 1])
    (True, False, True)
    """
    return _bounds(oracle, X, Y, sides, False)


def tangent_distance(oracle: InvarianceOracle, X: Any, Y: Any = None, sides: str = "two") -> np.ndarray:
    r"""Distances between tangent planes: the oracle's tangents with coefficients of any size.

    .. math:: \min_{t, u} |x_i + T(x_i) t - y_j - T(y_j) u|

    with both sides moving, ``sides="two"`` (Simard, LeCun and Denker 1993; Pozdnoukhov and Bengio 2006,
    eqs. 16 and 17); "one" moves the side of Y alone. In closed form. Tangents of a row that depend on
    one another count once: of unit tangents, less than a millionth is taken to be rounding. With
    coefficients that are bounded it is `set_distance` of ``TangentDerivative(oracle, bounds)``.

    Parameters
    ----------
    oracle : InvarianceOracle
        One that has `tangents`, such as the changes of images, `Segment` or `LocalTangents`.
    X, Y, sides
        See `set_distance`.

    Returns
    -------
    (n, m) array

    Raises
    ------
    TypeError, ValueError
        See `set_distance`.
    NotImplementedError
        If the oracle has no tangents.

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
    return _bounds(oracle, X, Y, sides, True).found


def nearest(
    oracle: InvarianceOracle,
    X: Any,
    Y: Any,
    k: int = 1,
    *,
    sides: str = "two",
    tangents: bool = False,
) -> tuple[np.ndarray, np.ndarray]:
    """The k rows of Y that are nearest to each row of X, without the whole table of distances.

    Parameters
    ----------
    oracle : InvarianceOracle
        See `set_distance`.
    X : (n, d) array-like
    Y : (m, d) array-like
    k : int, default=1
        From 1 to m.
    sides : {"two", "one", "mean"}, default="two"
        See `set_distance`.
    tangents : bool, default=False
        Whether distances are those of `tangent_distance`.

    Returns
    -------
    distances : (n, k) array
        Ascending.
    numbers : (n, k) array of int
        The rows of Y; of equally near ones the first.

    Raises
    ------
    TypeError, ValueError, NotImplementedError
        See `set_distance`.

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
        raise TypeError("Y must be rows, got None: for neighbors among X itself pass X twice")
    X, Y = _rows(X, Y)
    check_integer("k", k, 1, len(Y), "rows of Y")
    check_boolean("tangents", tangents)
    make = sets_of(bool(tangents))
    step = max(1, _AT_ONCE // len(Y))
    found = np.empty((len(X), int(k)), dtype=np.result_type(X, Y))
    numbers = np.empty((len(X), int(k)), dtype=np.intp)
    whole = compare(oracle, X[:step], Y, sides, make)
    for first in range(0, len(X), step):
        some = X[first : first + step]
        if first:
            whole = whole.others(oracle, some, make)
        distances, _ = table(whole, len(some), len(Y), False)
        part = slice(first, first + step)
        numbers[part] = _smallest(distances, int(k))
        found[part] = np.take_along_axis(distances, numbers[part], axis=1)
    return found, numbers


def _bounds(oracle: InvarianceOracle, X: Any, Y: Any, sides: str, tangents: bool) -> DistanceBounds:
    check_needs_no_label(as_oracle(oracle))
    check_sides(sides)
    same = Y is None or Y is X
    X, Y = _rows(X, None if same else Y)
    tables = 1 if tangents else 2
    check_memory("a table of distances", tables * len(X) * len(Y) * X.itemsize, "take fewer rows")
    compared = compare(oracle, X, Y, sides, sets_of(tangents))
    found, least = table(compared, len(X), len(Y), same)
    return DistanceBounds(found, least, compared.exact)


def _rows(X: Any, Y: Any) -> tuple[np.ndarray, np.ndarray]:
    """Both as arrays of rows in their common precision; the same one if `Y` is None."""
    given = (("X", X),) if Y is None else (("X", X), ("Y", Y))
    rows = []
    if isinstance(Y, str):
        raise TypeError(f"Y must be rows, got {Y!r}: write sides={Y!r}")
    for name, value in given:
        array = real_rows(name, value)
        if array.ndim != 2:
            raise ValueError(
                f"{name} must have shape (n, d), a row an input, got {array.shape}: pass [{name}] for "
                "one row"
            )
        if not array.size:
            raise ValueError(f"{name} must have rows and features, got shape {array.shape}")
        rows.append(array)
    X, Y = rows[0], rows[-1]
    if X.shape[1] != Y.shape[1]:
        raise ValueError(f"Y must have {X.shape[1]} features as X has, got {Y.shape[1]}")
    if X is Y:
        return X, X
    dtype = np.result_type(X, Y)
    return X.astype(dtype, copy=False), Y.astype(dtype, copy=False)


def _smallest(distances: np.ndarray, k: int) -> np.ndarray:
    """Columns of the k smallest entries of each row, ascending; of equal ones the first."""
    if k == 1:
        return np.argmin(distances, axis=1)[:, None]
    limits = np.partition(distances, k - 1, axis=1)[:, k - 1]
    chosen = np.empty((len(distances), k), dtype=np.intp)
    for i, (row, limit) in enumerate(zip(distances, limits, strict=True)):
        candidates = np.flatnonzero(row <= limit)
        chosen[i] = candidates[np.argsort(row[candidates], kind="stable")[:k]]
    return chosen
