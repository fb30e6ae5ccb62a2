"""Instances of every oracle with the support of its set written in cvxpy, for tests of all layers.

A builder is a function ``(x, label, v, cost) -> cvxpy expression`` of the largest
``<v, z> + cost * rho(x, z)`` over z in S(x), written from the definition of the set and not from
the code of the oracle. Sets without grades leave the cost out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import combinations, product
from typing import Any

import cvxpy as cp
import numpy as np
import scipy.sparse as sp
from scipy import ndimage
from sklearn.decomposition import PCA
from sklearn.neighbors import NearestNeighbors

from structinv.oracles import (
    Box,
    Budget,
    Ellipsoid,
    FAdd,
    FDrop,
    FEdit,
    FiniteOracle,
    Flip,
    FScale,
    Identity,
    InvarianceOracle,
    LinearChanges,
    LocalTangents,
    Offset,
    Permutations,
    Protected,
    Rotations,
    Sampled,
    Scalings,
    Segment,
    Shared,
    Shears,
    Shifts,
    Support,
    TangentDerivative,
    Trajectory,
    UnitLength,
    Weighted,
)
from structinv.utils.matrices import row_dots

N, D = 8, 5
Builder = Callable[[np.ndarray, Any, Any, float], Any]


@dataclass(frozen=True)
class Case:
    """An oracle, and its support as an expression.

    `sparse` says that CSR rows apply. The expression of an oracle with grades contains the cost.
    """

    name: str
    oracle: InvarianceOracle
    build: Builder = field(repr=False)
    sparse: bool = False

    @property
    def graded(self) -> bool:
        return self.oracle.graded

    def support_expression(self, x: np.ndarray, label: Any, v: Any) -> Any:
        """The largest <v, z> over S(x); convex in `v`, an affine expression of shape (d,)."""
        return self.build(x, label, v, 0.0)

    def graded_support_expression(self, x: np.ndarray, label: Any, v: Any, cost: float) -> Any:
        """The largest <v, z> + cost * rho(x, z) over S(x), for a number `cost` >= 0."""
        return self.build(x, label, v, cost) + (0.0 if self.graded else cost)

    def __str__(self) -> str:
        return self.name


def rows(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Rows with zeros and both signs, and labels 0, 1, 2."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((N, D)) * (rng.random((N, D)) < 0.7)
    return X, np.arange(N) % 3


class Reorderings(FiniteOracle):
    """Some orders of the features: finitely many fixed linear maps."""

    supports_sparse = False

    def __init__(self, orders: Any) -> None:
        self.orders = orders

    def orbit(self, X: np.ndarray) -> np.ndarray:
        return X[:, np.asarray(self.orders)]

    def changes(self, X: np.ndarray, y: Any = None) -> LinearChanges:
        keep = sp.identity(X.shape[1], format="csr")
        return LinearChanges(X, [keep[list(order)] for order in self.orders])


class Shrinkings(FiniteOracle):
    """The row and its multiples by fixed factors, made without telling that they are linear."""

    def orbit(self, X: np.ndarray) -> np.ndarray:
        return np.stack([X, 0.5 * X, -0.25 * X], axis=1)


def row_factor(X: np.ndarray) -> np.ndarray:
    """A factor of each row, (n, d, 2)."""
    return np.stack([np.roll(X, 1, axis=1), 1.0 + X**2], axis=2)


def row_tangents(X: np.ndarray) -> np.ndarray:
    """Two directions of each row, (n, 2, d)."""
    return np.stack([np.roll(X, 1, axis=1) - X, np.ones_like(X)], axis=1)


def row_tangents_alone(X: np.ndarray) -> np.ndarray:
    """One direction of each row, (n, 1, d)."""
    return row_tangents(X)[:, :1]


def row_powers(X: np.ndarray) -> np.ndarray:
    """What t and t squared multiply, (n, 2, d)."""
    return np.stack([0.5 * np.roll(X, 1, axis=1) - 0.2, 0.3 * np.cos(X)], axis=1)


def row_lags(X: np.ndarray) -> np.ndarray:
    """Two members of each row, without the row, (n, 2, d)."""
    return np.stack([np.roll(X, 1, axis=1), 0.5 * X - 0.1 * X**2], axis=1)


def local_factor(reference: np.ndarray, n_directions: int, n_neighbors: int) -> Any:
    """A factor of each row, by scikit-learn's neighbors and principal components."""

    def factor(X: np.ndarray) -> np.ndarray:
        found = []
        for near in NearestNeighbors(n_neighbors=n_neighbors).fit(reference).kneighbors(X)[1]:
            parts = PCA(n_directions, svd_solver="full").fit(reference[near])
            found.append((parts.components_ * np.sqrt(parts.explained_variance_)[:, None]).T)
        return np.stack(found)

    return factor


def identity() -> Builder:
    return lambda x, label, v, cost: x @ v


def edits(
    K: int, low: float, high: float, value: Any = 0.0, present: bool = False, grades: Any = None
) -> Builder:
    """At most K words multiplied by factors, or raised by values where they are absent, or anywhere."""

    def build(x: np.ndarray, label: Any, v: Any, cost: float) -> Any:
        raised = np.where((x == 0) | present, value, 0.0)
        ways = [(low - 1.0) * x, (high - 1.0) * x, raised]
        gains, most = cp.maximum(*(cp.multiply(way, v) for way in ways), 0.0), min(K, len(x))
        # Older versions of cvxpy have no value of the sum of all by `sum_largest`.
        worth = [cp.Constant(0.0), *(cp.sum_largest(gains, k) for k in range(1, most + 1))]
        worth[len(x) :] = [cp.sum(gains)][: len(worth) - len(x)]
        if grades is None:
            return x @ v + worth[-1]
        return x @ v + largest([value + cost * g for value, g in zip(worth, grades, strict=True)])

    return build


def words(K: int, low: float, high: float, grades: Any = None) -> Builder:
    return edits(K, low, high, grades=grades)


def of_length(K: int, low: float, high: float, value: Any = 0.0) -> Builder:
    """At most K edits, with the l1 length of the row: the corners are those of the edits, rescaled."""

    def build(x: np.ndarray, label: Any, v: Any, cost: float) -> Any:
        ends = np.stack([x, low * x, high * x, np.where(x == 0, value, x)], axis=1)
        places = [np.array(some) for some in combinations(range(len(x)), K)]
        corners = [x]
        for some, of_each in product(places, product(range(4), repeat=K)):
            corners.append(x.copy())
            corners[-1][some] = ends[some, of_each]
        members = np.unique(corners, axis=0)
        lengths, wanted = np.abs(members).sum(axis=1), np.abs(x).sum() if x.any() else 1.0
        return cp.max((members * (wanted / np.where(lengths > 0, lengths, 1.0))[:, None]) @ v)

    return build


def box(radius: Any, grades: Any = None) -> Builder:
    r = np.broadcast_to(np.asarray(radius, dtype=float), (D,))

    def build(x: np.ndarray, label: Any, v: Any, cost: float) -> Any:
        if grades is None:
            return x @ v + r @ cp.abs(v)
        free = np.flatnonzero(r > 0)
        shares = np.linspace(0.0, 1.0, len(grades))
        each = [
            largest(
                [t * r[j] * cp.abs(v[j]) + cost * g / len(free)
                 for t, g in zip(shares, grades, strict=True)]
            )
            for j in free
        ]  # fmt: skip
        return x @ v + sum(each)

    return build


def ellipsoid(factor: Any, radius: float, grades: Any = None) -> Builder:
    def build(x: np.ndarray, label: Any, v: Any, cost: float) -> Any:
        F = factor(x[None, :])[0] if callable(factor) else factor
        length = radius * cp.norm(F.T @ v)
        if grades is None:
            return x @ v + length
        shares = np.linspace(0.0, 1.0, len(grades))
        return x @ v + largest([t * length + cost * g for t, g in zip(shares, grades, strict=True)])

    return build


def tangent(tangents: Any, bounds: Any) -> Builder:
    def build(x: np.ndarray, label: Any, v: Any, cost: float) -> Any:
        T = tangents(x[None, :])[0] if callable(tangents) else tangents
        return x @ v + np.broadcast_to(bounds, (len(T),)) @ cp.abs(T @ v)

    return build


def line(direction: Any, low: float, high: float, grades: Any = None) -> Builder:
    """``x + t direction(x)`` with t between two numbers; grades by the share of the way to either."""

    def build(x: np.ndarray, label: Any, v: Any, cost: float) -> Any:
        slope = direction(x) @ v
        if grades is None:
            return x @ v + cp.maximum(low * slope, high * slope)
        shares = np.linspace(0.0, 1.0, len(grades))
        worth = [
            end * t * slope + cost * g
            for end in (low, high)
            for t, g in zip(shares, grades, strict=True)
        ]
        return x @ v + largest(worth)

    return build


def parabola(powers: Any, low: float, high: float) -> Builder:
    """A quadratic of t between two numbers, as the dual of a program over (t, t squared).

    These lie in ``m_1^2 <= m_2 <= (low + high) m_1 - low high``, whose second part has the multiplier.
    """

    def build(x: np.ndarray, label: Any, v: Any, cost: float) -> Any:
        first, second = (part @ v for part in powers(x[None, :])[0])
        if v.is_constant():
            inner = np.roots([2.0 * second.value, first.value]) if second.value else []
            t = np.clip(np.r_[low, high, inner], low, high)
            return cp.Constant(x @ v.value + np.max(t * first.value + t**2 * second.value))
        m = cp.Variable(nonneg=True)
        worth = cp.quad_over_lin(first + m * (low + high), 4.0 * (m - second)) - m * low * high
        return x @ v + worth

    return build


def finite(oracle: FiniteOracle, grades: Any = None) -> Builder:
    def build(x: np.ndarray, label: Any, v: Any, cost: float) -> Any:
        members = oracle.orbit(x[None, :])[0]
        added = np.zeros(len(members)) if grades is None else cost * np.asarray(grades)
        return largest([z @ v + a for z, a in zip(members, added, strict=True)])

    return build


def listed(function: Any) -> Builder:
    """The row and what a function lists."""

    def build(x: np.ndarray, label: Any, v: Any, cost: float) -> Any:
        return largest([x @ v, *(z @ v for z in function(x[None, :])[0])])

    return build


def any_order() -> Builder:
    """All orders of the features: both sorted alike."""

    def build(x: np.ndarray, label: Any, v: Any, cost: float) -> Any:
        falling = -np.sort(-x)
        steps = falling[:-1] - falling[1:]
        most = [step * cp.sum_largest(v, k + 1) for k, step in enumerate(steps)]
        return sum(most) + falling[-1] * cp.sum(v)

    return build


def union(left: Builder, right: Builder) -> Builder:
    return lambda x, label, v, cost: cp.maximum(left(x, label, v, cost), right(x, label, v, cost))


def after_finite(left: Builder, right: FiniteOracle) -> Builder:
    """`left` around each member of a finite set."""

    def build(x: np.ndarray, label: Any, v: Any, cost: float) -> Any:
        return largest([left(z, label, v, cost) for z in right.orbit(x[None, :])[0]])

    return build


def additive_after(left: Builder, right: Builder) -> Builder:
    """The sum of `right` and what `left` adds to any point."""
    return lambda x, label, v, cost: right(x, label, v, cost) + left(np.zeros(len(x)), label, v, cost)


def linear_after(orders: Any, right: Builder) -> Builder:
    """The largest support of `right` along T'v, over permutations T."""

    def build(x: np.ndarray, label: Any, v: Any, cost: float) -> Any:
        return largest(
            [right(x, label, np.eye(len(x))[np.asarray(order)].T @ v, cost) for order in orders]
        )

    return build


def only_for(build: Builder, labels: Any, graded: bool = False) -> Builder:
    def chosen(x: np.ndarray, label: Any, v: Any, cost: float) -> Any:
        if label in labels:
            return build(x, label, v, cost)
        return x @ v + (cost if graded else 0.0)

    return chosen


def protected(build: Builder, features: Any) -> Builder:
    """The set with some features as they were: its support along the direction without them."""

    def kept(x: np.ndarray, label: Any, v: Any, cost: float) -> Any:
        mine = np.isin(np.arange(len(x)), features)
        return build(x, label, cp.multiply(~mine, v), cost) + (mine * x) @ v

    return kept


def image(*changes: tuple[Any, Any], mode: str = "grid-constant") -> Builder:
    """An image of one row, changed by SciPy: pairs of a matrix and a shift of the source."""

    def build(x: np.ndarray, label: Any, v: Any, cost: float) -> Any:
        center = np.array([0.0, (D - 1) / 2])
        members = [
            ndimage.affine_transform(
                x[None, :], matrix, center - matrix @ center + shift, order=1, mode=mode
            )
            for matrix, shift in changes
        ]
        return largest([z[0] @ v for z in [x[None, :], *members]])

    return build


def turn(degrees: float) -> tuple[Any, Any]:
    """From output to source, so clockwise, with rows downwards."""
    t = np.radians(degrees)
    return np.array([[np.cos(t), np.sin(t)], [-np.sin(t), np.cos(t)]]), np.zeros(2)


def largest(parts: list[Any]) -> Any:
    return cp.maximum(*parts) if len(parts) > 1 else parts[0]


_rng = np.random.default_rng(7)
FACTOR = _rng.standard_normal((D, 2))
TANGENTS = _rng.standard_normal((2, D))
REFERENCE = _rng.standard_normal((12, D))
LOCAL_FACTOR = local_factor(REFERENCE, n_directions=2, n_neighbors=5)
RADII = np.array([0.5, 0.0, 1.0, 0.2, 0.0])
ORDERS = [[0, 1, 2, 3, 4], [1, 2, 3, 4, 0], [4, 3, 2, 1, 0]]
BENT = [1.0, 0.9, 0.2]

_fscale, _fdrop = words(2, 0.5, 3.0), words(2, 0.0, 1.0)
VALUES = np.array([0.5, 0.0, 1.5, 1.0, 2.0])
_fadd, _fedit = edits(2, 1.0, 1.0, 1.0), edits(2, 0.5, 2.0, 0.7)
_box, _ball = box(RADII), ellipsoid(FACTOR, 0.5)
_reorderings, _shrinkings = Reorderings(ORDERS), Shrinkings()

CASES = [
    Case("identity", Identity(), identity(), sparse=True),
    Case("fscale", FScale(2, 0.5, 3.0), _fscale, sparse=True),
    Case("fscale-more-than-words", FScale(99, 0.0, 2.0), words(99, 0.0, 2.0), True),
    Case("fscale-none", FScale(0), words(0, 0.5, 2.0), True),
    Case("fscale-factor-one", FScale(3, 1.0, 1.0), identity(), True),
    Case("fdrop", FDrop(2), _fdrop, sparse=True),
    Case("fadd", FAdd(2), _fadd, sparse=True),
    Case(
        "fadd-some",
        FAdd(2, VALUES, allowed=[0, 2, 3, 4], present=True),
        edits(2, 1.0, 1.0, VALUES, present=True),
        sparse=True,
    ),
    Case("fedit", FEdit(2, drop=False, add=0.7, scale=(0.5, 2)), _fedit, sparse=True),
    Case("box", Box(0.3), box(0.3)),
    Case("box-radii", Box(RADII), _box),
    Case("box-point", Box(0.0), identity()),
    Case("ellipsoid", Ellipsoid(FACTOR, 0.5), _ball),
    Case("ellipsoid-point", Ellipsoid(FACTOR, 0.0), identity()),
    Case("ellipsoid-rows", Ellipsoid(row_factor, 0.3), ellipsoid(row_factor, 0.3)),
    Case("tangent", TangentDerivative(TANGENTS, 0.4), tangent(TANGENTS, 0.4)),
    Case("tangent-rows", TangentDerivative(row_tangents, [0.1, 0.3]), tangent(row_tangents, [0.1, 0.3])),
    Case(
        "tangent-oracle",
        TangentDerivative(Ellipsoid(row_factor), 0.2),
        tangent(lambda X: row_factor(X).swapaxes(1, 2), 0.2),
    ),
    Case(
        "local_tangents",
        LocalTangents(REFERENCE, n_directions=2, n_neighbors=5, radius=0.5),
        ellipsoid(LOCAL_FACTOR, 0.5),
    ),
    Case("segment", Segment(0.4, 1.5), line(np.array, -0.6, 0.5), sparse=True),
    Case("segment-mirrored", Segment(-1.0, 1), line(np.array, -2.0, 0.0), sparse=True),
    Case("offset", Offset(0.6), line(np.ones_like, -0.6, 0.6)),
    Case("offset-none", Offset(0), identity()),
    Case("trajectory", Trajectory(row_powers, 2, (-1.0, 1.5)), parabola(row_powers, -1.0, 1.5)),
    Case("trajectory-one-sided", Trajectory(row_powers, 2, (0, 0.7)), parabola(row_powers, 0.0, 0.7)),
    Case(
        "trajectory-line",
        Trajectory(row_tangents_alone, 1, (-0.5, 0.25)),
        line(lambda x: np.roll(x, 1) - x, -0.5, 0.25),
    ),
    Case("sampled", Sampled(row_lags), listed(row_lags)),
    Case("finite", _reorderings, finite(_reorderings)),
    Case(
        "shifts",
        # With a background of zeros one of them would delete the image, and nothing be learned.
        Shifts([1, 0.5], shape=(1, D), fill="nearest"),
        image(*((np.eye(2), np.array([0, t])) for t in (-1, -0.5, 0.5, 1)), mode="nearest"),
    ),
    Case("rotations", Rotations([180, -30], shape=(1, D)), image(turn(180), turn(-30))),
    Case(
        "scalings",
        Scalings([0.5, 1.6], shape=(1, D)),
        image((np.eye(2) / 0.5, 0.0), (np.eye(2) / 1.6, 0.0)),
    ),
    Case(
        "shears",
        Shears(0.4, shape=(1, D)),
        image((np.array([[1, -0.4], [0, 1]]), 0.0), (np.array([[1, 0], [-0.4, 1]]), 0.0)),
    ),
    # On a line of pixels scores have kinks only where a source meets a pixel: best are these.
    Case(
        "shifts-between",
        Shifts(interval=(0.5, 1.7), shape=(1, D), fill="nearest"),
        image(*((np.eye(2), np.array([0, t])) for t in (-1.7, -1, -0.5, 0.5, 1, 1.7)), mode="nearest"),
    ),
    Case(
        "scalings-between",
        Scalings(interval=(0.5, 1.6), shape=(1, D)),
        image(*((t * np.eye(2), 0.0) for t in (1 / 1.6, 1.5, 2.0))),
    ),
    Case(
        "shears-between",
        Shears(interval=(-0.8, 0.4), axes=0, shape=(1, D)),
        image(*((np.array([[1, -t], [0, 1]]), 0.0) for t in (-0.8, -0.5, 0.4))),
    ),
    Case("flip", Flip(shape=(1, D)), image((np.diag([1.0, -1.0]), 0.0))),
    Case(
        "permutations",
        # A set of five points on a line, whose labels must differ by what points there are.
        Permutations((D, 1)),
        any_order(),
    ),
    Case("weighted", Weighted(_reorderings, [0.5, 0.0, 2.0]), finite(_reorderings)),
    # For norm="l2" the largest products below 0 have bounds only; see `test_unit_length.py`.
    Case("unit_length-fdrop", UnitLength(FDrop(2), "l1"), of_length(2, 0.0, 1.0), sparse=True),
    Case(
        "unit_length-fedit",
        UnitLength(FEdit(2, add=VALUES, allowed=[0, 2, 3, 4], scale=(0.5, 2)), "l1"),
        of_length(2, 0.0, 2.0, VALUES),
        sparse=True,
    ),
    Case(
        "unit_length-only_for",
        UnitLength(FDrop(2), "l1").only_for([1]) | FAdd(2).only_for(0),
        union(only_for(of_length(2, 0.0, 1.0), [1]), only_for(_fadd, [0])),
        sparse=True,
    ),
    Case("union", FScale(2, 0.5, 3.0) | FDrop(2), union(_fscale, _fdrop), sparse=True),
    Case("union-dense", Box(RADII) | Ellipsoid(FACTOR, 0.5), union(_box, _ball)),
    Case("compose-additive", Box(RADII) @ FScale(2, 0.5, 3.0), additive_after(_box, _fscale)),
    Case("compose-convex", Box(RADII) @ Ellipsoid(FACTOR, 0.5), additive_after(_box, _ball)),
    Case("compose-finite", FScale(2, 0.5, 3.0) @ _reorderings, after_finite(_fscale, _reorderings)),
    Case(
        "compose-both-finite",
        _shrinkings @ _reorderings,
        after_finite(finite(_shrinkings), _reorderings),
    ),
    Case("compose-linear", _reorderings @ FScale(2, 0.5, 3.0), linear_after(ORDERS, _fscale)),
    Case("compose-identity", FScale(2, 0.5, 3.0) @ Identity(), _fscale, sparse=True),
    Case("only_for", FScale(2, 0.5, 3.0).only_for([1, 2]), only_for(_fscale, [1, 2]), sparse=True),
    Case(
        "only_for-union",
        FDrop(2).only_for(1) | Box(0.3).only_for(0),
        union(only_for(_fdrop, [1]), only_for(box(0.3), [0])),
    ),
    Case(
        "only_for-added",
        FAdd(2).only_for(1) | FDrop(2).only_for(0),
        union(only_for(_fadd, [1]), only_for(_fdrop, [0])),
        sparse=True,
    ),
    Case(
        "protected-fadd",
        Protected(FAdd(2), [1, 4]).only_for([0, 1]),
        only_for(protected(_fadd, [1, 4]), [0, 1]),
        sparse=True,
    ),
    Case(
        "protected-discounted",
        Protected(FDrop(3).discounted(0.1), np.arange(D) == 2),
        protected(words(3, 0.0, 1.0, [1.0, 0.7, 0.4, 0.1]), [2]),
        sparse=True,
    ),
    Case("protected-finite", Protected(_reorderings, [0]), protected(finite(_reorderings), [0])),
    Case("protected-ellipsoid", Protected(Ellipsoid(FACTOR, 0.5), [0, 3]), protected(_ball, [0, 3])),
    Case(
        "only_for-compose",
        Box(RADII).only_for([0]) @ FScale(2, 0.5, 3.0).only_for([0, 1]),
        additive_after(only_for(_box, [0]), only_for(_fscale, [0, 1])),
    ),
    Case(
        "discounted-fscale", FScale(2, 0.5, 3.0).discounted(BENT), words(2, 0.5, 3.0, BENT), sparse=True
    ),
    Case(
        "discounted-fdrop",
        FDrop(3).discounted(0.1),
        words(3, 0.0, 1.0, [1.0, 0.7, 0.4, 0.1]),
        sparse=True,
    ),
    Case(
        "discounted-fedit",
        FEdit(2, add=VALUES, allowed=[0, 2, 3, 4]).discounted(BENT),
        edits(2, 0.0, 1.0, VALUES, grades=BENT),
        sparse=True,
    ),
    Case("discounted-box", Box(RADII).discounted(BENT), box(RADII, BENT)),
    Case("discounted-ellipsoid", Ellipsoid(FACTOR, 0.5).discounted(BENT), ellipsoid(FACTOR, 0.5, BENT)),
    Case(
        "discounted-segment",
        Segment(0.4, 1.5).discounted(BENT),
        line(np.array, -0.6, 0.5, BENT),
        sparse=True,
    ),
    Case("discounted-offset", Offset(0.6).discounted(BENT), line(np.ones_like, -0.6, 0.6, BENT)),
    Case(
        "discounted-finite",
        _reorderings.discounted([1.0, 0.5, 0.0]),
        finite(_reorderings, [1.0, 0.5, 0.0]),
    ),
    Case(
        "discounted-union",
        (FScale(2, 0.5, 3.0) | FDrop(2)).discounted(BENT),
        union(words(2, 0.5, 3.0, BENT), words(2, 0.0, 1.0, BENT)),
        sparse=True,
    ),
    Case(
        "discounted-member",
        FDrop(2).discounted(BENT) | FScale(2, 0.9, 1.1),
        union(
            words(2, 0.0, 1.0, BENT),
            lambda x, label, v, cost: words(2, 0.9, 1.1)(x, label, v, 0.0) + cost,
        ),
        sparse=True,
    ),
    Case(
        "discounted-only_for",
        FDrop(2).only_for([1]).discounted(BENT),
        only_for(words(2, 0.0, 1.0, BENT), [1], graded=True),
        sparse=True,
    ),
    # Rows that are examples by themselves.
    Case("shared", Shared(_reorderings), finite(_reorderings)),
    Case(
        "budget",
        Budget(FDrop(2).only_for([1]).discounted(BENT)),
        only_for(words(2, 0.0, 1.0, BENT), [1], graded=True),
        sparse=True,
    ),
    Case("budget-fadd", Budget(FAdd(2)), _fadd, sparse=True),
    Case("shared-or-budget", Shared(_shrinkings) | Budget(FDrop(2)), union(finite(_shrinkings), _fdrop)),
]


class Loose(InvarianceOracle):
    """A box whose bound is too large by 1."""

    additive = True

    def __init__(self, radius: float) -> None:
        self.radius = radius

    def support(self, X: Any, V: Any, assign: Any, cost: Any = None) -> Support:
        answer = Box(self.radius).support(X, V, assign)
        return Support(answer.points, row_dots(answer.points, V, assign) + 1.0)


def bends(X: np.ndarray) -> np.ndarray:
    """Coefficients up to the fifth power, (n, 5, d)."""
    parts = [np.roll(X, 1, axis=1), -(X**2), np.sin(3 * X), 0.0 * X, np.roll(X, 2, axis=1) - 0.5]
    return np.stack(parts, axis=1)


def close(found: Any, wanted: Any, rtol: float = 1e-12) -> None:
    """Fail unless numbers agree, but for rounding of the largest of them."""
    np.testing.assert_allclose(found, wanted, rtol=rtol, atol=rtol * (1.0 + np.abs(wanted).max()))


# Rounding errors, for candidates that are equal but for these.
NOISE = [2.0**-52 * np.random.default_rng(seed).integers(-9, 10, size=9) for seed in range(6)]


class Spots(FiniteOracle):
    """The row, then it with one of its features raised."""

    def orbit(self, X: np.ndarray) -> np.ndarray:
        return X[:, None] + np.vstack([np.zeros(X.shape[1]), np.eye(X.shape[1])])


@contextmanager
def told(case: Any) -> Iterator[None]:
    """Add the case to errors, for loops over cases."""
    try:
        yield
    except Exception as error:
        error.add_note(f"in the case {case}")
        raise
