"""Rows of an unknown size or zero level."""

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp

from structinv import InvariantLinearSVC, InvariantSVC
from structinv.oracles import Box, FiniteOracle, Offset, Segment, check_oracle
from structinv.utils.matrices import ALL_ROWS, row_dots

from .oracle_cases import D, rows

LINES = [Segment(0.3, 1.7, grid=5), Segment(0.1, 1.0), Offset(0.8, grid=6)]


class Mirrored(FiniteOracle):
    """Features in the order of a mirror."""

    def orbit(self, X):
        return np.stack([X, X[:, ::-1]], axis=1)


@pytest.mark.parametrize(
    ("oracle", "error", "message"),
    [
        (Segment(1.5, 2.0), ValueError, r"low must be at most 1.*low=1.5 and high=2.0"),
        (Segment(0.1, 0.9), ValueError, "high at least 1"),
        (Segment(np.nan, 2.0), ValueError, "low must be a finite number"),
        (Segment(0.5, np.inf), ValueError, "high must be a finite number"),
        (Segment(0.5, 2.0, grid=1), ValueError, "grid must be an integer of at least 2"),
        (Offset(-1.0), ValueError, "limit must be at least 0, got -1.0"),
        (Offset(np.nan), ValueError, "limit must be a finite number"),
        (Offset(1.0, grid=0), ValueError, "grid"),
    ],
)
def test_parameters_out_of_range_are_named(oracle, error, message):
    X, y = rows()
    with pytest.raises(error, match=message):
        oracle.bind(X, y)
    with pytest.raises(error, match=message):
        oracle.changes(X)


@pytest.mark.parametrize("oracle", LINES, ids=repr)
def test_no_member_is_further_from_the_cover_than_its_mesh_and_one_is_as_far(oracle):
    X, _ = rows()
    cover = oracle.changes(X)
    np.testing.assert_array_equal(cover.members()[:, 0], X)
    members = oracle.sample(X, 20000, np.random.default_rng(0))
    for z, points, mesh in zip(members, cover.members(), cover.mesh(), strict=True):
        away = np.linalg.norm(z[:, None] - points, axis=2).min(axis=1).max()
        assert 0.99 * mesh <= away <= mesh * (1 + 1e-12) + 1e-15


@pytest.mark.parametrize(
    "oracle",
    [Offset(0.8, grid=6) @ Segment(0.3, 1.7, grid=5), Segment(0.3, 1.7, grid=5) @ Mirrored()],
    ids=["sum", "after a list"],
)
def test_compositions_bound_how_far_members_are_from_their_cover(oracle):
    X, _ = rows()
    cover = oracle.changes(X)
    members = oracle.sample(X, 20000, np.random.default_rng(0))
    for z, points, mesh in zip(members, cover.members(), cover.mesh(), strict=True):
        away = np.linalg.norm(z[:, None] - points, axis=2).min(axis=1).max()
        assert 0.5 * mesh < away <= mesh


def test_compositions_of_two_continua_know_no_mesh_unless_they_add_up():
    assert np.all(np.isinf((Segment(0.3, 1.7) @ Offset(0.8)).changes(rows()[0]).mesh()))


# The bound between the points of the cover is wider than the gap asked for.
@pytest.mark.filterwarnings("ignore:InvariantSVC ended with status 'oracle too coarse'")
def test_sizes_and_levels_together_are_certified():
    rng = np.random.default_rng(0)
    y = np.arange(40) % 2
    X = np.where(y[:, None] == 1, [2.0, -2.0], [-2.0, 2.0]) + 0.1 * rng.standard_normal((40, 2))
    oracle = Offset(0.5, grid=33) @ Segment(0.8, 1.25, grid=33)
    model = InvariantSVC(oracle, C=10.0, gamma=0.2, tol=0.1).fit(X, y)
    assert model.solution_.relative_gap < 1.0
    assert model.certify(X, y).accuracy == 1.0


def test_members_have_the_names_of_their_factors_and_levels():
    X, _ = rows()
    assert Segment(0.5, 2.0, grid=4).bind(X).changes().names == ["identity", "x 0.5", "x 1.5", "x 2"]
    assert Offset(1.0, grid=3).bind(X).changes().names == ["identity", "-1", "+1"]
    np.testing.assert_array_equal(Segment(0.5, 2.0, grid=4).changes(X).members()[:, 1], X / 2)
    np.testing.assert_array_equal(Offset(1.0, grid=3).changes(X).members()[:, 2], X + 1)
    assert Segment(1, 1).bind(X).changes().names == ["identity"]
    np.testing.assert_array_equal(Segment(1, 1).changes(X).mesh(), 0.0)


@pytest.mark.parametrize("oracle", LINES, ids=repr)
def test_refining_finds_the_nearest_member_to_a_point_on_the_line(oracle):
    X, _ = rows()
    target = oracle.sample(X, 1, np.random.default_rng(1))[:, 0]
    cover = oracle.changes(X)
    nearest = np.argmin(np.linalg.norm(cover.members() - target[:, None], axis=2), axis=1)
    found = oracle.changes(X).refine(ALL_ROWS, nearest, lambda z: -np.linalg.norm(z - target, axis=1))
    assert np.max(np.linalg.norm(found - target, axis=1)) < 1e-3
    with pytest.raises(ValueError, match="index must be 8 numbers from 0"):
        oracle.changes(X).points(ALL_ROWS, np.full(len(X), 99))


@pytest.mark.parametrize("oracle", [*LINES, Segment(0.3, 1.7) | Box(0.2)], ids=repr)
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_in_hull_steps_reach_the_optimum_of_the_worst_case(oracle, fit_intercept):
    rng = np.random.default_rng(3)
    y = np.arange(30) % 2
    X = rng.standard_normal((30, D)) + np.where(y == 1, 1.0, -1.0)[:, None]
    assert oracle.bind(X, y).hull(np.where(y == 1, 1.0, -1.0), np.ones(30), fit_intercept) is not None
    model = InvariantLinearSVC(oracle, C=0.7, tol=1e-9, fit_intercept=fit_intercept, random_state=0).fit(
        X, y
    )
    w, b = cp.Variable(D), cp.Variable() if fit_intercept else cp.Constant(0.0)
    losses = []
    for x, sign in zip(X, np.where(y == 1, 1.0, -1.0), strict=True):
        v = -sign * w
        if isinstance(oracle, Offset):
            most = x @ v + oracle.limit * cp.abs(cp.sum(v))
        else:
            part = oracle if isinstance(oracle, Segment) else oracle.left
            most = cp.maximum(part.low * (x @ v), part.high * (x @ v))
            if part is not oracle:
                most = cp.maximum(most, x @ v + oracle.right.radius * cp.norm1(v))
        losses.append(cp.pos(1.0 + most - sign * b))
    objective = 0.5 * cp.sum_squares(w) + 0.5 * cp.square(b) + 0.7 * cp.sum(cp.hstack(losses))
    problem = cp.Problem(cp.Minimize(objective))
    problem.solve(solver="CLARABEL", tol_gap_abs=1e-11, tol_gap_rel=1e-11, tol_feas=1e-11)
    assert model.solution_.primal == pytest.approx(problem.value, rel=1e-8)


def test_exact_maxima_are_those_of_the_points():
    X, _ = rows()
    V, assign = np.random.default_rng(0).standard_normal((3, D)), np.arange(len(X)) % 3
    for oracle in LINES:
        bound = oracle.bind(X)
        values, sizes = bound.support(ALL_ROWS, V, assign).maxima()
        points = bound.support(ALL_ROWS, V, assign).points
        np.testing.assert_allclose(values, row_dots(points, V, assign), rtol=1e-14, atol=1e-14)
        assert np.all(sizes >= row_dots(np.abs(points), np.abs(V), assign) * (1 - 1e-14))


def test_sparse_rows_stay_sparse_and_train_alike():
    rng = np.random.default_rng(5)
    y = np.arange(40) % 2
    X = sp.random(40, 30, 0.3, format="csr", random_state=5, data_rvs=rng.standard_normal)
    X = (X + sp.csr_matrix(np.where(y == 1, 0.5, -0.5)[:, None] * (rng.random((40, 30)) < 0.3))).tocsr()
    oracle = Segment(0.5, 1.5)
    assert sp.issparse(oracle.support(X, np.ones((1, 30)), np.zeros(40, dtype=int)).points)
    sparse, dense = (
        InvariantLinearSVC(oracle, tol=1e-7, random_state=0).fit(Z, y) for Z in (X, X.toarray())
    )
    assert sparse.solution_.primal == pytest.approx(dense.solution_.primal, rel=1e-6)
    np.testing.assert_allclose(sparse.certify(X, y).margins, sparse.certify(X.toarray(), y).margins)


# Its grid's bound is wider than the gap asked for.
@pytest.mark.filterwarnings("ignore:InvariantSVC ended with status 'oracle too coarse'")
def test_a_kernel_machine_that_knows_no_sizes_forgives_them():
    rng = np.random.default_rng(6)
    y = np.arange(60) % 2
    angle = np.where(y == 1, 0.3, 1.2) + 0.05 * rng.standard_normal(60)
    X = np.column_stack([np.cos(angle), np.sin(angle)])
    sizes = rng.uniform(0.2, 3.0, (60, 1))
    model = InvariantSVC(Segment(0.2, 3.0, grid=17), C=100.0, kernel="rbf", gamma=2.0).fit(X, y)
    assert model.score(sizes * X, y) == 1.0
    check_oracle(model.oracle, X, y)
