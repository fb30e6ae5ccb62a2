"""Distances between sets: all oracles, and geometric sets against least squares and cone programs."""

import cvxpy as cp
import numpy as np
import pytest

from structinv import metrics
from structinv.metrics import nearest, set_distance, tangent_distance
from structinv.oracles import (
    Box,
    Budget,
    Ellipsoid,
    FAdd,
    FDrop,
    FEdit,
    Flip,
    FScale,
    Identity,
    InvarianceOracle,
    Offset,
    Protected,
    Rotations,
    Segment,
    Shared,
    Shifts,
    Support,
    UnitLength,
)
from structinv.oracles.combinators import Discounted, OnlyFor
from structinv.oracles.compose import Compose
from structinv.oracles.third_party import region_of
from structinv.oracles.union import Union
from structinv.regions import inner_products
from structinv.regions.base import RegionUnion
from structinv.regions.curve_regions import CoverRegion

from ..oracles.cases import CASES, NOISE, rows, told
from ..regions.cases import bounds_of, least


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


def fewer(case):
    """Rows, of which there are fewer where the search between images takes long."""
    return X[:2] if case.name.endswith("-between") else X


def from_support(case, x, y, sides):
    """The distance from a point, or a set, to a convex set: the largest of its supporting planes."""
    v = cp.Variable(len(x))
    near = -case.support_expression(x, 0, -v) if sides == "two" else v @ x
    problem = cp.Problem(cp.Maximize(near - case.support_expression(y, 0, v)), [cp.norm(v) <= 1])
    return max(problem.solve(solver=cp.CLARABEL), 0.0)


@pytest.mark.parametrize("case", [c for c in WITH_REGION if c.oracle.convex], ids=str)
def test_convex_sets_against_their_supporting_planes(case):
    for sides in ("one", "two"):
        found = bounds_of(case.oracle, X[:1], Y[1:], sides)
        expected = [[from_support(case, X[0], y, sides) for y in Y[1:]]]
        np.testing.assert_allclose(found.upper, expected, atol=2e-6)
        np.testing.assert_allclose(found.lower, expected, atol=2e-6)


def test_lists_against_enumeration():
    for case in [case for case in WITH_REGION if case.oracle.finite]:
        with told(case):
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
    rng, A, B = np.random.default_rng(0), X[:2], Y[:2]
    try:
        left, right = (case.oracle.sample(each, 300, rng) for each in (A, B))
    except NotImplementedError:
        left, right = (case.oracle.orbit(each) for each in (A, B))
    one = np.linalg.norm(A[:, None, None] - right[None], axis=-1).min(axis=2)
    two = np.array([[least(a, b) for b in right] for a in left])
    for sides, members in (("one", one), ("two", two)):
        try:
            bounds = bounds_of(case.oracle, A, B, sides)
        except NotImplementedError:
            assert sides == "two"
            assert case.name == "union-dense"
            continue
        assert np.all(bounds.lower <= members + 1e-6)
        assert np.all(bounds.lower <= bounds.upper + 1e-12)
        # What was searched for is hardly worse than the best of many random members.
        assert np.all(bounds.upper <= members + 0.02)
        assert not bounds.exact or np.allclose(bounds.upper, bounds.lower, atol=1e-9)


def test_translated_sets_have_the_distances_of_translated_points():
    for case in WITH_REGION:
        region, step = region_of(case.oracle, Y), np.linspace(-1.0, 2.0, Y.shape[1])
        moved = region.moved(step).moved(2.0 * step).part(slice(1, 3))
        expected, found = region.part(slice(1, 3)).from_points(X), moved.from_points(X + 3.0 * step)
        np.testing.assert_allclose(moved.centers, region.centers[1:3] + 3.0 * step)
        np.testing.assert_allclose(found.upper, expected.upper, atol=1e-6)
        np.testing.assert_allclose(found.lower, expected.lower, atol=1e-6)


@pytest.mark.parametrize("case", WITH_REGION, ids=str)
def test_distance_matrices_of_one_array_are_symmetric_with_zeros(case):
    A = fewer(case)
    for sides in ("two", "mean"):
        try:
            table = set_distance(case.oracle, A, sides=sides)
        except NotImplementedError:
            continue
        np.testing.assert_array_equal(table, table.T)
        np.testing.assert_array_equal(np.diagonal(table), 0.0)
        other = bounds_of(case.oracle, A, A.copy(), sides)
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


@pytest.mark.parametrize("case", FORMULAS, ids=str)
def test_distances_of_all_regions_do_not_depend_on_the_tiles(case, monkeypatch):
    asked = [(case.oracle, X, Y, sides) for sides in ("one", "two")]
    whole = [bounds_of(*each).upper for each in asked]
    monkeypatch.setattr(inner_products, "ENTRIES_PER_TILE", 1)
    for each, wanted in zip(asked, whole, strict=True):
        np.testing.assert_allclose(set_distance(*each), wanted, rtol=1e-6, atol=1e-9)


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


def test_the_first_of_equal_distances_is_the_nearest():
    for noise in NOISE:
        far = np.eye(9) * (1 + noise)
        for k in (1, 2):
            assert nearest(Identity(), np.zeros((1, 9)), far, k)[1].tolist() == [list(range(k))]
