"""Distances between sets: all oracles, and geometric sets against least squares and cone programs."""

from collections import namedtuple

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import lsq_linear

from structinv import metrics
from structinv.metrics import nearest, set_distance, tangent_distance
from structinv.metrics.distances import compare
from structinv.oracles import (
    Box,
    Budget,
    Ellipsoid,
    FAdd,
    FDrop,
    FEdit,
    Flip,
    FScale,
    InvarianceOracle,
    LocalTangents,
    Offset,
    Protected,
    Rotations,
    Segment,
    Shared,
    Shifts,
    Support,
    Trajectory,
    UnitLength,
)
from structinv.oracles.combinators import Discounted, OnlyFor
from structinv.oracles.compose import Compose
from structinv.oracles.third_party import region_of
from structinv.oracles.union import Union
from structinv.regions import Boxes, Points, inner_products
from structinv.regions.base import RegionUnion, between
from structinv.regions.curve_regions import CoverRegion
from structinv.regions.ellipsoids import Balls, Ellipsoids
from structinv.regions.inner_products import Stack
from structinv.regions.least_squares import bounded_minimum
from structinv.regions.point_lists import nearest_members
from structinv.regions.zonotopes import AffineSubspaces, Zonotopes

from ..oracles.cases import CASES, rows


def has_region(case):
    """Whether the case's oracle has a region."""
    try:
        region_of(case.oracle, rows()[0][:1])
    except (NotImplementedError, ValueError):
        return False
    return True


WITH_REGION = [case for case in CASES if has_region(case)]
X = rows(0)[0][:3] + 1.0
Y = rows(1)[0][:3]
# Words, labels, and covers that nobody knows.
UNTOLD = (
    FScale, FDrop, FAdd, FEdit, UnitLength, OnlyFor, Protected, Union, Compose, Discounted, Shared,
    Budget,
)  # fmt: skip


def test_only_oracles_without_a_list_or_a_region_are_skipped():
    assert all(isinstance(case.oracle, UNTOLD) for case in CASES if case not in WITH_REGION)


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


def from_support(case, x, y, sides):
    """The distance from a point, or a set, to a convex set: the largest of its supporting planes."""
    v = cp.Variable(len(x))
    near = -case.support_expression(x, 0, -v) if sides == "two" else v @ x
    problem = cp.Problem(cp.Maximize(near - case.support_expression(y, 0, v)), [cp.norm(v) <= 1])
    return max(problem.solve(solver=cp.CLARABEL), 0.0)


@pytest.mark.parametrize("sides", ["one", "two"])
@pytest.mark.parametrize("case", [c for c in WITH_REGION if c.oracle.convex], ids=str)
def test_convex_sets_against_their_supporting_planes(case, sides):
    found = bounds_of(case.oracle, X[:2], Y, sides)
    expected = [[from_support(case, x, y, sides) for y in Y] for x in X[:2]]
    np.testing.assert_allclose(found.upper, expected, atol=2e-6)
    np.testing.assert_allclose(found.lower, expected, atol=2e-6)


def crossing(X):
    """The first direction of some rows, and the second one of others."""
    return np.eye(3)[np.where(X[:, 2] > 0, 0, 1)][:, None]


def test_the_bound_of_crossing_curves_counts_the_gaps_of_both():
    # Lines at a distance of 0.2, nearest in the middle between members of both covers.
    lines = np.array([[-0.5, 0.0, 0.1], [0.0, -0.5, -0.1]])
    found = bounds_of(Trajectory(crossing, 1, resolution=3), lines[:1], lines[1:])
    assert found.upper[0, 0] == pytest.approx(0.2)
    assert found.lower[0, 0] <= 0.2


def test_radii_of_different_bodies_add_up():
    radii = np.linspace(0.1, 0.5, 5), np.linspace(0.9, 0.2, 5)
    beyond = np.maximum(np.abs(X[:, None] - Y) - radii[0] - radii[1], 0.0)
    for left, right in (
        (Boxes(X, radii[0]), Boxes(Y, radii[1])),
        (Boxes(X, radii[1]), Boxes(Y, radii[0])),
    ):
        np.testing.assert_allclose(between(left, right).upper, np.sum(beyond**2, axis=2))
        wide = left.widened(right)
        np.testing.assert_allclose(wide.from_points(Y).upper.T, np.sum(beyond**2, axis=2))
    beyond = np.maximum(np.linalg.norm(X[:, None] - Y, axis=2) - 0.7, 0.0)
    np.testing.assert_allclose(between(Balls(X, 0.5), Balls(Y, 0.2)).upper, beyond**2)


@pytest.mark.parametrize(("dtype", "far"), [(np.float32, 100.0), (np.float64, 1e7)])
def test_distances_of_near_points_from_thin_ellipsoids_are_precise(dtype, far):
    rng = np.random.default_rng(0)
    centers = (far + rng.integers(0, 9, (4, 5))).astype(dtype)
    factors = rng.integers(1, 4, (4, 5, 1)).astype(dtype) / 4
    # Points beside the segments and beyond their ends.
    steps = rng.standard_normal((12, 5)) / 16 + np.linspace(-2.0, 2.0, 12)[:, None] * factors[0, :, 0]
    points = (centers[:1] + steps).astype(dtype)
    found = Ellipsoids.of(centers, factors, False).from_points(points).upper
    way = points[:, None].astype(float) - centers
    own = factors[:, :, 0].astype(float)
    u = np.clip(np.einsum("ijk,jk->ij", way, own) / np.sum(own**2, axis=1), -1.0, 1.0)
    wanted = np.sum((way - u[..., None] * own) ** 2, axis=2)
    np.testing.assert_allclose(found[:, 0], wanted[:, 0], rtol=1e-4)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_nearest_members_of_two_lists_are_found_on_both_sides(dtype):
    rng = np.random.default_rng(0)
    left, right = (rng.integers(-9, 9, (3, size, 4)).astype(dtype) for size in (2, 5))
    # Near points, whose products are imprecise.
    right[1, 3] = left[2, 1] + dtype(1e-3)
    squares, numbers = nearest_members(left, right)
    steps = left[:, None, :, None].astype(float) - right[None, :, None]
    every = np.einsum("ijabk,ijabk->ijab", steps, steps)
    np.testing.assert_allclose(squares, every.min(axis=(2, 3)), rtol=1e-6)
    i, j = np.indices(squares.shape)
    reached = every[i, j, numbers[..., 0], numbers[..., 1]]
    np.testing.assert_allclose(reached, every.min(axis=(2, 3)), rtol=1e-6)


@pytest.mark.parametrize("case", [c for c in WITH_REGION if c.oracle.finite], ids=str)
def test_lists_against_enumeration(case):
    left, right = (case.oracle.orbit(each) for each in (X, Y))
    two = np.linalg.norm(left[:, None, :, None] - right[None, :, None], axis=-1).min(axis=(2, 3))
    one = np.linalg.norm(X[:, None, None] - right[None], axis=-1).min(axis=2)
    back = np.linalg.norm(left[:, None] - Y[None, :, None], axis=-1).min(axis=2)
    for sides, expected in (("one", one), ("two", two), ("mean", (one + back) / 2)):
        found = bounds_of(case.oracle, X, Y, sides)
        assert found.exact
        np.testing.assert_allclose(found.upper, expected, atol=1e-7)


@pytest.mark.parametrize("case", WITH_REGION, ids=str)
def test_bounds_hold_for_random_members(case):
    rng = np.random.default_rng(0)
    try:
        left, right = (case.oracle.sample(each, 300, rng) for each in (X, Y))
    except NotImplementedError:
        left, right = (case.oracle.orbit(each) for each in (X, Y))
    one = np.linalg.norm(X[:, None, None] - right[None], axis=-1).min(axis=2)
    two = np.array([[_least(a, b) for b in right] for a in left])
    for sides, members in (("one", one), ("two", two)):
        try:
            bounds = bounds_of(case.oracle, X, Y, sides)
        except NotImplementedError:
            assert sides == "two"
            assert case.name == "union-dense"
            continue
        assert np.all(bounds.lower <= members + 1e-6)
        assert np.all(bounds.lower <= bounds.upper + 1e-12)
        # What was searched for is hardly worse than the best of many random members.
        assert np.all(bounds.upper <= members + 0.02)
        assert not bounds.exact or np.allclose(bounds.upper, bounds.lower, atol=1e-9)


def _least(left, right):
    return np.linalg.norm(left[:, None] - right[None], axis=-1).min()


@pytest.mark.parametrize("case", WITH_REGION, ids=str)
def test_translated_sets_have_the_distances_of_translated_points(case):
    region, step = region_of(case.oracle, Y), np.linspace(-1.0, 2.0, Y.shape[1])
    moved = region.moved(step).moved(2.0 * step).part(slice(1, 3))
    expected, found = region.part(slice(1, 3)).from_points(X), moved.from_points(X + 3.0 * step)
    np.testing.assert_allclose(moved.centers, region.centers[1:3] + 3.0 * step)
    np.testing.assert_allclose(found.upper, expected.upper, atol=1e-6)
    np.testing.assert_allclose(found.lower, expected.lower, atol=1e-6)


@pytest.mark.parametrize("case", WITH_REGION, ids=str)
def test_distance_matrices_of_one_array_are_symmetric_with_zeros(case):
    for sides in ("two", "mean"):
        try:
            table = set_distance(case.oracle, X, sides=sides)
        except NotImplementedError:
            continue
        np.testing.assert_array_equal(table, table.T)
        np.testing.assert_array_equal(np.diagonal(table), 0.0)
        other = bounds_of(case.oracle, X, X.copy(), sides)
        # What is searched for from either side in turn need not be the same.
        np.testing.assert_allclose(table, other.upper, atol=1e-6 if other.exact else 1e-3)


def test_single_precision_rows_have_single_precision_distances():
    for oracle in (Box(0.1), Segment(0.5, 2.0), Ellipsoid(0.3), Flip(shape=(1, 5))):
        single = set_distance(oracle, X.astype(np.float32), Y.astype(np.float32))
        assert single.dtype == np.float32
        np.testing.assert_allclose(single, set_distance(oracle, X, Y), atol=1e-5)


def test_tangent_distances_against_least_squares():
    rng = np.random.default_rng(0)
    images = rng.random((6, 49))
    oracle = Rotations(interval=(-10, 10), shape=(7, 7)) | Shifts(interval=(0, 1), shape=(7, 7))
    tangents = oracle.tangents(images)
    two, one = (tangent_distance(oracle, images, sides=sides) for sides in ("two", "one"))
    for i in range(6):
        for j in range(6):
            step = images[i] - images[j]
            both = np.vstack([tangents[i], tangents[j]]).T
            left = [step - A @ np.linalg.lstsq(A, step, rcond=None)[0] for A in (both, tangents[j].T)]
            assert two[i, j] == pytest.approx(np.linalg.norm(left[0]), abs=1e-9)
            assert one[i, j] == pytest.approx(np.linalg.norm(left[1]), abs=1e-9)


@pytest.mark.parametrize("sides", ["one", "two", "mean"])
def test_nearest_samples_are_those_of_the_distance_matrix(sides, monkeypatch):
    monkeypatch.setattr(metrics.distances, "_AT_ONCE", 40)
    rng = np.random.default_rng(0)
    many, few = rng.random((30, 5)), rng.random((7, 5))
    many[11] = many[3]
    table = set_distance(Segment(0.8, 1.2), few, many, sides)
    for k in (1, 4, 30):
        distances, numbers = nearest(Segment(0.8, 1.2), few, many, k, sides=sides)
        order = np.argsort(table, axis=1, kind="stable")[:, :k]
        np.testing.assert_array_equal(numbers, order)
        np.testing.assert_allclose(distances, np.take_along_axis(table, order, axis=1), atol=1e-12)
    _, numbers = nearest(Segment(0.8, 1.2), few, many, 1, tangents=True)
    planes = tangent_distance(Segment(0.8, 1.2), few, many)
    assert np.all(planes[np.arange(7), numbers[:, 0]] <= planes.min(axis=1) + 1e-12)


def test_distance_matrices_do_not_depend_on_the_tiles(monkeypatch):
    rng = np.random.default_rng(0)
    many = rng.random((40, 5))
    whole = set_distance(Offset(0.3) @ Segment(0.5, 2.0), many)
    monkeypatch.setattr(inner_products, "ENTRIES_PER_TILE", 100)
    np.testing.assert_allclose(set_distance(Offset(0.3) @ Segment(0.5, 2.0), many), whole, atol=1e-12)


# Regions with a formula or a search of their own.
FORMULAS = [
    case
    for case in WITH_REGION
    if not isinstance(region_of(case.oracle, rows()[0][:1]), (CoverRegion, RegionUnion))
]


@pytest.mark.parametrize("sides", ["one", "two"])
@pytest.mark.parametrize("case", FORMULAS, ids=str)
def test_distances_of_all_regions_do_not_depend_on_the_tiles(case, sides, monkeypatch):
    whole = bounds_of(case.oracle, X, Y, sides)
    monkeypatch.setattr(inner_products, "ENTRIES_PER_TILE", 1)
    table = set_distance(case.oracle, X, Y, sides)
    np.testing.assert_allclose(table, whole.upper, rtol=1e-6, atol=1e-9)


class Lines(InvarianceOracle):
    """An oracle with a support function alone."""

    def support(self, X, V, assign, cost=None):
        return Support(X)


class Wrong(Box):
    def region(self, X):
        return X


class Shorter(Box):
    def region(self, X):
        return super().region(X[:1])


class Otherwise(Box):
    """A box whose support is another one's."""

    def support(self, X, V, assign, cost=None):
        return super().support(X, V, assign, cost)


@pytest.mark.parametrize(
    ("oracle", "kind", "message"),
    [
        (FDrop(2), NotImplementedError, "FDrop does not define a region"),
        (Lines(), NotImplementedError, "Lines does not define a region"),
        (Otherwise(0.1), NotImplementedError, "Otherwise does not define a region"),
        (Wrong(0.1), TypeError, "Wrong.region must return a Region, got ndarray"),
        (Shorter(0.1), ValueError, "Shorter.region must return one set per row, 3 sets with .* got 1"),
        (Box(0.1).only_for([1]), ValueError, "must not depend on labels"),
        (Segment(2.0, 0.5), ValueError, "low must be at most 1"),
        ("box", TypeError, "oracle must be an InvarianceOracle"),
    ],
)
def test_oracles_without_distances_raise(oracle, kind, message):
    with pytest.raises(kind, match=message):
        set_distance(oracle, X, Y)


def test_oracles_without_tangents_raise():
    with pytest.raises(NotImplementedError, match="FDrop does not define tangents"):
        tangent_distance(FDrop(2), X, Y)


@pytest.mark.parametrize(
    ("rows", "kind", "message"),
    [
        (X[0], ValueError, r"X must have shape \(n_samples, n_features\)"),
        (X[:0], ValueError, "X must have at least one sample"),
        (np.full((2, 5), np.nan), ValueError, "X must be finite"),
        ([["a"] * 5], (TypeError, ValueError), "X|could not convert"),
        (X.astype(np.float16), TypeError, "X"),
        (X[:, :4], ValueError, "Y must have 4 features, the number of X, got 5"),
    ],
)
def test_invalid_samples_raise(rows, kind, message):
    with pytest.raises(kind, match=message):
        set_distance(Box(0.1), rows, Y)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sides": "both"}, "sides must be one of"),
        ({"k": 0}, "k must be"),
        ({"k": 4}, "k must be"),
        ({"k": 1.5}, "k must be"),
        ({"tangents": "yes"}, "tangents must be"),
    ],
)
def test_invalid_parameters_of_nearest_raise(change, message):
    with pytest.raises((TypeError, ValueError), match=message):
        nearest(Box(0.1), X, Y, **change)


def parallel(angle, dtype=np.float64):
    """Two rows at an angle, and the distance of their segments from half of a row to twice as much.

    The end of the longer one is nearest to the other: half of its length times the angle's sine.
    """
    rows = np.array([[3.0, 4.0], [3.3, 4.4]])
    rows[1] += 5.5 * np.tan(angle) * np.array([-0.8, 0.6])
    rows = rows.astype(dtype)
    x, y = rows.astype(np.float64)
    return rows, 0.5 * abs(x[0] * y[1] - x[1] * y[0]) / np.linalg.norm(x)


@pytest.mark.parametrize(
    ("angle", "dtype"), [(1e-2, "f4"), (1e-4, "f4"), (1e-4, "f8"), (1e-7, "f8"), (1e-9, "f8")]
)
def test_nearly_parallel_directions_are_distinguished(angle, dtype):
    rows, expected = parallel(angle, dtype)
    bounds = bounds_of(Segment(0.5, 2.0), rows[:1], rows[1:])
    near = max(1e-5 if dtype == "f4" else 1e-9, 1e-15 / angle)
    assert bounds.upper[0, 0] == pytest.approx(expected, rel=near)
    assert bounds.lower[0, 0] <= expected * (1 + near)
    # Planes through the origin and both rows hold their difference.
    assert tangent_distance(Segment(0.5, 2.0), rows.astype(np.float64))[0, 1] < 1e-12


def shifted(X):
    return np.stack([np.roll(X, 1, axis=1), np.roll(X, 2, axis=1)], axis=1)


@pytest.mark.parametrize("oracle", [Trajectory(shifted, 2), Rotations(interval=(-20, 20), shape=(4, 4))])
def test_searches_from_both_sides_have_equal_results(oracle):
    rows = np.random.default_rng(0).random((7, 16))
    table = bounds_of(oracle, rows[:3], rows[3:])
    other = bounds_of(oracle, rows[3:], rows[:3])
    np.testing.assert_allclose(table.upper, other.upper.T, atol=1e-12)
    np.testing.assert_allclose(table.lower, other.lower.T, atol=1e-12)
    np.testing.assert_allclose(
        set_distance(oracle, rows), set_distance(oracle, rows, rows.copy()), atol=1e-7
    )


@pytest.mark.parametrize("kind", ["curve", "cover"])
def test_lower_bounds_between_crossing_segments_hold_if_searches_end_early(kind):
    rng = np.random.default_rng(0)
    t = np.linspace(-1.0, 1.0, 101)
    sides = []
    for size in (0.3, 1.0):
        centers, ways = rng.standard_normal((30, 2)), size * rng.standard_normal((30, 2))
        line = Trajectory(lambda X, ways=ways: ways[: len(X), None], 1, resolution=3)
        region = region_of(line, centers)
        if kind == "cover":
            # The search ends at the start.
            members = region.members
            region = CoverRegion(
                np.arange(30.0)[:, None],
                members,
                region.mesh,
                lambda rows, numbers, score, members=members: members[rows[:, 0].astype(int), numbers],
            )
        sides.append((region, centers[:, None] + t[:, None] * ways[:, None]))
    (left, points), (right, others) = sides
    apart = np.array([[_least(a, b) for b in others] for a in points])
    with_far_ones = RegionUnion([left.moved(np.full(2, 99.0)), left])
    for found, expected in (
        (left.between(right), apart),
        (right.between(left), apart.T),
        (with_far_ones.between(RegionUnion([right])), apart),
    ):
        assert np.any(np.sqrt(found.upper) > expected + 0.01)
        assert np.all(np.sqrt(found.lower) <= expected)


@pytest.mark.parametrize(("dtype", "offset", "rtol"), [("f4", 1e3, 1e-4), ("f8", 1e6, 1e-6)])
def test_distances_of_samples_far_from_0_are_precise(dtype, offset, rtol):
    # Segments then reach much further than they lie apart.
    rng = np.random.default_rng(0)
    X = (rng.standard_normal((8, 3)) + offset).astype(dtype)
    bounds = bounds_of(Segment(0.25, 4.0), X[:4], X[4:])
    for i, j in np.ndindex(4, 4):
        x, z = X[i].astype(np.longdouble), X[4 + j].astype(np.longdouble)
        # Multiples shrink together until one of them is at the low end.
        least = min(
            np.linalg.norm(low - np.clip(low @ far / (far @ far), 0.25, 4.0) * far)
            for low, far in ((0.25 * x, z), (0.25 * z, x))
        )
        assert bounds.upper[i, j] == pytest.approx(float(least), rel=rtol)
        assert bounds.lower[i, j] <= float(least) * (1 + rtol)


def test_zonotopes_far_from_their_rows_have_precise_distances_in_single_precision():
    rng = np.random.default_rng(0)
    rows, directions = 5.0 * rng.standard_normal((6, 9)), rng.standard_normal((1, 2, 9))
    directions = np.repeat(directions, 6, axis=0)
    found = []
    for dtype in (np.float32, np.float64):
        # Both precisions have the same numbers.
        stack = Stack.of(*(each.astype(np.float32).astype(dtype) for each in (rows, directions)))
        far = Zonotopes(stack, np.full((6, 2), 999.0), np.full((6, 2), 1000.0))
        found.append(far.part(slice(3)).between(far.part(slice(3, 6))))
    np.testing.assert_allclose(found[0].upper, found[1].upper, rtol=1e-5)
    assert np.all(found[0].lower <= found[1].upper * (1 + 1e-5))


def test_equal_samples_have_a_lower_bound_of_0_in_single_precision():
    rng = np.random.default_rng(0)
    oracle = LocalTangents(rng.random((60, 25)), 3, 10)
    A, B = rng.random((40, 25)).astype("f4"), rng.random((30, 25)).astype("f4")
    bounds = bounds_of(oracle, A, np.vstack([A, B]))
    assert np.all(bounds.lower <= bounds.upper)
    assert np.max(np.diagonal(bounds.lower)) < 1e-6


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


@given(st.integers(0, 10**6), st.integers(1, 6), st.integers(1, 6), st.booleans())
def test_bounded_minimum_against_other_solvers(seed, size, rank, cut):
    rng = np.random.default_rng(seed)
    matrix = rng.standard_normal((7, rank)) @ rng.standard_normal((rank, size))
    target = 3.0 * rng.standard_normal(7)
    low, high = -rng.random(size), rng.random(size)
    if cut:
        low[rng.random(size) < 0.4] = 0.0
        high[rng.random(size) < 0.2] = 0.0
    z, gradient = np.zeros(size), np.zeros(size)
    gram, linear = matrix.T @ matrix, -matrix.T @ target
    room = np.zeros(size), np.zeros((size + 1, size)), np.zeros(size, dtype=np.intp)
    excess = bounded_minimum(gram, linear, low, high, 1e-13 * target @ target, z, gradient, *room)
    square = np.sum((target - matrix @ z) ** 2)
    expected = bounded(matrix, target, low, high)
    assert np.all((z >= low) & (z <= high))
    assert excess <= 1e-9 * (target @ target)
    # The other solvers stop a little earlier.
    assert square <= expected * (1 + 1e-9) + 1e-10
    assert square >= expected - 1e-4 * (target @ target)
    np.testing.assert_allclose(gradient, gram @ z + linear, atol=1e-9)


def test_no_coordinate_of_a_bounded_minimum_leads_down_on_either_side():
    # Few problems have steps on one side only after the first sweeps.
    for seed in range(600):
        rng = np.random.default_rng(seed)
        size, rank = rng.integers(1, 7, 2)
        matrix = rng.standard_normal((7, rank)) @ rng.standard_normal((rank, size))
        target = 3.0 * rng.standard_normal(7)
        low, high = -rng.random(size), rng.random(size)
        z, gradient = np.zeros(size), np.zeros(size)
        gram, linear = matrix.T @ matrix, -matrix.T @ target
        room = np.zeros(size), np.zeros((size + 1, size)), np.zeros(size, dtype=np.intp)
        excess = bounded_minimum(gram, linear, low, high, 1e-13 * target @ target, z, gradient, *room)
        slopes = gram @ z + linear
        left = np.sum(np.where(slopes > 0, slopes * (z - low), slopes * (z - high)))
        assert left <= 1e-9 * target @ target
        assert excess == pytest.approx(left, abs=1e-10)


def some(dtype, r, seed=0):
    rng = np.random.default_rng(seed)
    rows, others = rng.standard_normal((4, 9)), rng.standard_normal((5, 9))
    directions, turned = rng.standard_normal((4, r, 9)), rng.standard_normal((5, r, 9))
    if r > 1:
        directions[:, 1], turned[0] = -3.0 * directions[:, 0], directions[0]
        others[0] = rows[0] + directions[0, 0]
    return [each.astype(dtype) for each in (rows, others)], (directions, turned)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("r", [0, 1, 3])
def test_affine_subspaces_against_least_squares(dtype, r):
    (rows, others), (directions, turned) = some(dtype, r)
    found = (
        AffineSubspaces.spanned(rows, directions).between(AffineSubspaces.spanned(others, turned)).upper
    )
    assert found.dtype == dtype
    for i, x in enumerate(rows):
        for j, y in enumerate(others):
            step = x.astype(np.float64) - y
            both = np.vstack([directions[i], turned[j]]).T
            if r:
                step = step - both @ np.linalg.lstsq(both, step, rcond=1e-9)[0]
            assert found[i, j] == pytest.approx(step @ step, abs=1e-4 if dtype == np.float32 else 1e-10)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("r", [0, 1, 3])
def test_zonotopes_against_least_squares(dtype, r):
    (rows, others), (directions, turned) = some(dtype, r)
    rng = np.random.default_rng(1)
    low, high = -rng.random((5, r)), 2.0 * rng.random((5, r))
    left = Zonotopes(Stack.of(rows, directions), low[:4], high[:4])
    right = Zonotopes(Stack.of(others, turned), low, high)
    found, least = left.between(right)
    for i, x in enumerate(rows):
        for j, y in enumerate(others):
            both = np.vstack([-directions[i], turned[j]]).T
            bounds = np.concatenate([low[i], low[j]]), np.concatenate([high[i], high[j]])
            expected = bounded(both, x.astype(np.float64) - y, *bounds)
            assert found[i, j] == pytest.approx(expected, abs=1e-4 if dtype == np.float32 else 1e-8)
            assert least[i, j] == pytest.approx(found[i, j], abs=1e-5 if dtype == np.float32 else 1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_ellipsoids_against_cone_programs(seed):
    rng = np.random.default_rng(seed)
    rows, others = rng.standard_normal((3, 6)), 2.0 * rng.standard_normal((3, 6))
    left, right = rng.standard_normal((3, 6, 2)), rng.standard_normal((3, 6, 2))
    left[0, :, 1] = 2.0 * left[0, :, 0]
    right[1] = 0.0
    one, two = Ellipsoids.of(rows, left, common=False), Ellipsoids.of(others, right, common=False)
    from_points, between = two.from_points(rows), one.between(two)
    for i in range(3):
        for j in range(3):
            u, v = cp.Variable(2), cp.Variable(2)
            inside = [cp.norm(u) <= 1, cp.norm(v) <= 1]
            step = rows[i] - others[j]
            point = cp.Problem(cp.Minimize(cp.norm(step - right[j] @ v)), inside).solve("CLARABEL")
            both = step + left[i] @ u - right[j] @ v
            pair = cp.Problem(cp.Minimize(cp.norm(both)), inside).solve("CLARABEL")
            assert np.sqrt(from_points.upper[i, j]) == pytest.approx(point, abs=1e-6)
            assert np.sqrt(between.upper[i, j]) == pytest.approx(pair, abs=1e-6)
            assert np.sqrt(between.lower[i, j]) <= pair + 1e-6
            assert between.lower[i, j] >= 0.99 * between.upper[i, j] - 1e-9


def test_ellipsoids_of_a_common_shape_are_exact():
    rng = np.random.default_rng(0)
    rows, factor = rng.standard_normal((4, 5)), rng.standard_normal((1, 5, 3))
    common = Ellipsoids.of(rows, factor, common=True)
    apart = Ellipsoids.of(rows, np.repeat(factor, 4, axis=0), common=False)
    found, searched = common.between(common), apart.between(apart)
    np.testing.assert_allclose(found.upper, searched.upper, atol=1e-8)
    assert found.lower is found.upper
    assert common.exact_between
    assert not apart.exact_between


def test_distances_of_near_points_are_precise():
    rng = np.random.default_rng(0)
    rows = 1e4 + rng.standard_normal((1, 50))
    near = rows + 1e-6 * rng.standard_normal((3, 50))
    expected = np.sum((near - rows) ** 2, axis=1)
    np.testing.assert_allclose(Points(rows[:, None]).from_points(near).upper[:, 0], expected, rtol=1e-5)
    directions = rng.standard_normal((1, 2, 50))
    plane = AffineSubspaces.spanned(rows, directions)
    basis = np.linalg.qr(directions[0].T)[0]
    across = (near - rows) - (near - rows) @ basis @ basis.T
    np.testing.assert_allclose(plane.from_points(near).upper[:, 0], np.sum(across**2, axis=1), rtol=1e-5)


def test_unions_compare_lists_with_all_others():
    rng = np.random.default_rng(0)
    rows, others = rng.standard_normal((3, 4)), rng.standard_normal((2, 4))
    members = rng.standard_normal((3, 5, 4))
    left = RegionUnion([Points(members), AffineSubspaces.spanned(rows, rng.standard_normal((3, 1, 4)))])
    flats = AffineSubspaces.spanned(others, rng.standard_normal((2, 1, 4)))
    right = RegionUnion([flats])
    expected = np.minimum(
        flats.from_points(members.reshape(-1, 4)).upper.reshape(3, 5, 2).min(axis=1),
        left.regions[1].between(flats).upper,
    )
    np.testing.assert_allclose(left.between(right).upper, expected)
    np.testing.assert_allclose(right.between(left).upper, expected.T)
